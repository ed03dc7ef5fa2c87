//! Tests of the specification's invariants, one test per invariant.
//!
//! Errors of the thesis are in `thesis_errors.rs`, tests that need a history in `model.rs`, determinism over
//! partitions (I5) in `builder.rs` and `sort.rs`, and compaction (I7) in `compact.rs`.

use std::collections::BTreeMap;

use crate::error::ErrorKind;
use crate::int::index;
use crate::sieve::code::format::{self, unframe};
use crate::sieve::key::axis::{signed, wide_signed};
use crate::sieve::tests::model::Random;
use crate::sieve::*;

pub(in crate::sieve) const LOCATIONS: u32 = 6;

pub(in crate::sieve) fn location(number: u32) -> Location {
    Location { partition: "p".into(), group: format!("{number:04}") }
}

pub(in crate::sieve) fn build<K: Key>(pairs: &[(K, u32)], options: Options) -> (Root<K>, Vec<u8>) {
    let mut sorted: Vec<(K, u32)> = pairs.to_vec();
    sorted.sort();
    let mut builder = Builder::new(LOCATIONS, options).unwrap();
    sorted.into_iter().for_each(|(key, location)| builder.push(key, location, 1).unwrap());
    let axis = match K::CODE {
        1 => AxisType::Signed,
        2 => AxisType::WideSigned,
        _ => AxisType::Bytes,
    };
    let locations = (0..LOCATIONS).map(location).collect();
    let stats = vec![Stats::default(); index(LOCATIONS)];
    Root::new(IndexInfo { axis, instant: 100, options }, locations, stats, &builder.finish()).unwrap()
}

pub(in crate::sieve) fn open<K: Key>((root, file): (Root<K>, Vec<u8>)) -> Index<K> {
    let mut index = Index::new(root::read(&root::write(&root)).unwrap());
    index.load_all(&file).unwrap();
    index
}

pub(in crate::sieve) fn only<K: Key>(index: &Index<K>, query: Query<K>) -> Vec<u32> {
    match index.answer(&query) {
        Answer::Only(locations) => locations,
        Answer::All => panic!("everything is kept"),
    }
}

pub(in crate::sieve) fn truth<K: Key>(pairs: &[(K, u32)], low: &K, high: &K) -> Vec<u32> {
    let mut locations: Vec<u32> =
        pairs.iter().filter(|pair| *low <= pair.0 && pair.0 <= *high).map(|pair| pair.1).collect();
    locations.sort();
    locations.dedup();
    locations
}

pub(in crate::sieve) fn sample(seed: u64) -> Vec<(u64, u32)> {
    let mut random = Random(seed);
    (0..300).map(|_| (random.below(900), u32::try_from(random.below(5)).unwrap())).collect()
}

pub(in crate::sieve) const SMALL: Options =
    Options { max_records: 90, max_key_bytes: 9000, max_weight: 60, coarsen: Coarsen::Exact, ..Options::DEFAULT };

#[test]
fn i2_answers_are_within_min_max_and_rays_equal_it() {
    for coarsen in [Coarsen::Exact, Coarsen::Plain { keys: 32 }] {
        let pairs = sample(3);
        let index = open(build(&pairs, Options { coarsen, ..SMALL }));
        for low in (0..900).step_by(7) {
            assert_eq!(only(&index, Query::AtLeast(low)), truth(&pairs, &low, &u64::MAX));
            assert_eq!(only(&index, Query::AtMost(low)), truth(&pairs, &0, &low));
            for location in only(&index, Query::Between(low, low + 20)) {
                let span = index.root().stats[usize::try_from(location).unwrap()].span.clone().unwrap();
                assert!(span.least <= low + 20 && span.most >= low);
            }
        }
    }
}

#[test]
fn i3_exact_runs_answer_points_and_intervals_exactly() {
    let pairs = sample(4);
    let index = open(build(&pairs, SMALL));
    for &(low, _) in &pairs {
        // Intervals between existing keys are exact. If an end is in a gap, the answer may include the run on the gap's
        // other side, because the separator is somewhere in the gap.
        for &(high, _) in &pairs {
            assert_eq!(only(&index, Query::Between(low, high)), truth(&pairs, &low, &high));
        }
        let loose = only(&index, Query::Between(low + 1, low + 50));
        assert!(truth(&pairs, &(low + 1), &(low + 50)).iter().all(|at| loose.contains(at)));
        assert_eq!(only(&index, Query::Point(low)), truth(&pairs, &low, &low));
    }
}

#[test]
fn i4_points_are_intervals_and_wider_intervals_return_no_fewer_locations() {
    for coarsen in [Coarsen::Exact, Coarsen::Plain { keys: 8 }, Coarsen::Error { millionths: 200_000 }] {
        let index = open(build(&sample(5), Options { coarsen, ..SMALL }));
        for a in (0..900).step_by(13) {
            assert_eq!(only(&index, Query::Point(a)), only(&index, Query::Between(a, a)));
            let (b, c) = (a + 40, a + 90);
            let mut union = [only(&index, Query::Between(a, b)), only(&index, Query::Between(b, c))].concat();
            union.sort();
            union.dedup();
            let wide = only(&index, Query::Between(a, c));
            // Min/max statistics can exclude more for two narrow queries than for one wide query.
            assert!(union.iter().all(|location| wide.contains(location)));
            if coarsen == Coarsen::Exact {
                assert_eq!(union, wide);
            }
            assert!(only(&index, Query::Between(c, a)).is_empty());
        }
    }
}

#[test]
fn i6_every_key_is_in_one_segment_within_the_limits() {
    let pairs = sample(22);
    let (root, _) = build(&pairs, SMALL);
    assert!(root.segments.len() > 2);
    assert!(root.segments.windows(2).all(|pair| pair[0].most < pair[1].least));
    assert!(root.segments.iter().all(|entry| entry.counts.pairs <= SMALL.max_records as u64));
    for (key, _) in &pairs {
        assert_eq!(root.segments.iter().filter(|entry| entry.least <= *key && *key <= entry.most).count(), 1);
    }
    let distinct: std::collections::BTreeSet<u64> = pairs.iter().map(|pair| pair.0).collect();
    assert_eq!(root.segments.iter().map(|entry| entry.counts.keys).sum::<u64>(), distinct.len() as u64);
}

#[test]
fn i8_counts_equal_rows_and_deleting_all_rows_empties_the_index() {
    let pairs = sample(6);
    let (root, file) = build(&pairs, SMALL);
    assert_eq!(root.counts().rows, 300);
    let spans: u64 = root.stats.iter().filter_map(|stats| stats.span.as_ref()).map(|span| span.rows).sum();
    assert_eq!(spans, 300);
    let changes = pairs.iter().map(|&(key, location)| Change { key, location, plus: 0, minus: 1 }).collect();
    let delta = Delta::new(200, (0..LOCATIONS).map(location).collect(), vec![], vec![], changes).unwrap();
    let compacted = compact(Index::new(root), &file, delta, i64::MAX);
    assert_eq!((compacted.unmatched, compacted.root.counts()), (0, Counts::default()));
    let empty = open((compacted.root, compacted.file));
    assert!(only(&empty, Query::Between(0, u64::MAX)).is_empty());
    assert!(only(&empty, Query::AtLeast(0)).is_empty());
}

pub(in crate::sieve) fn compact(base: Index<u64>, file: &[u8], delta: Delta<u64>, horizon: i64) -> Compacted<u64> {
    let mut timeline = Timeline::starting_with(base);
    timeline.commit(delta).unwrap();
    let read = |extent: SectionRange| {
        let start = usize::try_from(extent.offset).unwrap();
        Ok(file[start..start + usize::try_from(extent.len).unwrap()].to_vec())
    };
    let locations = timeline.locations().to_vec();
    timeline.latest().unwrap().compact(SMALL, locations, read, |_| horizon).unwrap()
}

#[test]
fn i11_a_flipped_byte_is_an_error_or_a_superset() {
    let pairs: Vec<(u64, u32)> = sample(7).into_iter().take(60).collect();
    let (root, file) = build(&pairs, SMALL);
    let bytes = root::write(&root);
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut broken = bytes.clone();
            broken[at] ^= flip;
            assert!(root::read::<u64>(&broken).is_err(), "byte {at} of the root");
        }
    }
    for at in 0..file.len() {
        let mut broken = file.clone();
        broken[at] ^= 0x41;
        let mut index = Index::new(root.clone());
        let loaded = index.load_all(&broken);
        let in_lookups = root.segments.iter().any(|entry| {
            (entry.lookup.offset..entry.lookup.offset + entry.lookup.len).contains(&u64::try_from(at).unwrap())
        });
        assert_eq!(loaded.is_err(), in_lookups, "byte {at} of the file");
        for &(key, location) in &pairs {
            assert!(only(&index, Query::Point(key)).contains(&location), "byte {at} lost a location");
            assert!(only(&index, Query::Between(key, key + 30)).contains(&location), "byte {at} lost a location");
        }
    }
    let delta =
        Delta::new(1, vec![location(0)], vec![0], vec![], vec![Change { key: 7u64, location: 0, plus: 1, minus: 0 }]);
    let bytes = delta.unwrap().write();
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 0x10;
        assert!(Delta::<u64>::read(&broken).is_err(), "byte {at} of the delta");
    }
    for len in 0..bytes.len() {
        assert!(Delta::<u64>::read(&bytes[..len]).is_err());
    }
}

/// Damaged bytes with a matching checksum must not cause a panic or excessive work. The answer may be anything.
#[test]
fn i11_hostile_bytes_with_a_good_checksum_do_not_panic() {
    let mut random = Random(11);
    let pairs: Vec<(Bytes, u32)> =
        sample(8).into_iter().map(|(key, at)| (Bytes::new(format!("{key:x}").as_bytes()), at)).collect();
    let (root, file) = build(&pairs, Options { max_weight: 200, max_records: 400, ..SMALL });
    let parts = |index: usize| {
        let extent = root.segments[index].lookup;
        let start = usize::try_from(extent.offset).unwrap();
        file[start..start + usize::try_from(extent.len).unwrap()].to_vec()
    };
    let words = build(&sample(9), SMALL);
    for _ in 0..4000 {
        let text = parts(usize::try_from(random.below(root.segments.len() as u64)).unwrap());
        let mut body = unframe(format::SEGMENT, &text).unwrap().to_vec();
        for _ in 0..=random.below(4) {
            let at = usize::try_from(random.below(body.len() as u64)).unwrap();
            body[at] = u8::try_from(random.below(256)).unwrap();
        }
        if random.one_in(5) {
            body.truncate(usize::try_from(random.below(body.len() as u64)).unwrap());
        }
        if let Ok(segment) = Segment::<Bytes>::parse(&format::frame(format::SEGMENT, &body), LOCATIONS) {
            let (low, high) = (Bytes::new(b"1"), Bytes::new(b"3f"));
            let mut out = Vec::new();
            let _ = segment.interval(&low, &high, None, &mut out);
            out.clear();
            let _ = segment.point(&high, &mut out);
            if let Some(decoded) = segment.decode() {
                for point in [0, 1 << 40, u128::MAX, high.point(&Bytes::point_mapping(&[low.clone(), high.clone()]))] {
                    decoded.point(point, || 7, &mut out);
                    decoded.interval(point / 2, point, &mut out);
                }
            }
            assert!(out.iter().all(|&location| location < LOCATIONS));
        }
        let mut body = unframe(format::ROOT, &root::write(&words.0)).unwrap().to_vec();
        let at = usize::try_from(random.below(body.len() as u64)).unwrap();
        body[at] = u8::try_from(random.below(256)).unwrap();
        if let Ok(root) = root::read::<u64>(&format::frame(format::ROOT, &body)) {
            let index = Index::new(root);
            let _ = index.answer(&Query::Between(3, 700));
            let _ = index.answer(&Query::AtLeast(3));
            assert!(index.report().error() >= 0.0);
        }
    }
}

#[test]
fn i12_extreme_keys_of_every_type_are_found() {
    let words = [signed(i64::MIN), signed(-1), signed(0), signed(i64::MAX), 0, u64::MAX, 1, u64::MAX - 1];
    let pairs: Vec<(u64, u32)> = words.iter().zip(0..).map(|(&key, at)| (key, at % 5)).collect();
    let wides: Vec<(u128, u32)> =
        [wide_signed(i128::MIN), wide_signed(0), wide_signed(i128::MAX)].into_iter().zip(0..).collect();
    let long = [vec![b'x'; 1 << 20], [vec![b'x'; 1 << 20], vec![b'y']].concat(), vec![]];
    let mut texts: Vec<(Bytes, u32)> = long.iter().zip(0..).map(|(text, at)| (Bytes::new(text), at)).collect();
    for (tail, at) in ["", "0", "1", "12345678", "12345679", "1234567812345678", "1234567812345679"].iter().zip(0..) {
        texts.push((Bytes::new(format!("same in the first bytes {tail}").as_bytes()), at % 5));
    }
    check_edges(&pairs);
    check_edges(&wides);
    check_edges(&texts);
    check_edges::<u64>(&[]);
    check_edges(&[(7u64, 0)]);
    check_edges(&(0..LOCATIONS).map(|at| (7u64, at)).collect::<Vec<_>>());
}

fn check_edges<K: Key>(pairs: &[(K, u32)]) {
    for options in [Options::default(), SMALL, Options { max_weight: 1, max_records: 1, ..SMALL }] {
        let index = open(build(pairs, options));
        for (low, _) in pairs {
            assert!(truth(pairs, low, low).iter().all(|at| only(&index, Query::Point(low.clone())).contains(at)));
            for (high, _) in pairs {
                let answer = only(&index, Query::Between(low.clone(), high.clone()));
                let exact = truth(pairs, low, high);
                assert!(exact.iter().all(|at| answer.contains(at)), "{low:?}..{high:?}");
            }
        }
    }
}

#[test]
fn i12_a_prefix_query_finds_every_string_with_the_prefix() {
    let texts: Vec<(Bytes, u32)> = ["", "a", "ab", "abc", "abd", "b", "\u{ff}", "ab\u{ff}"]
        .iter()
        .zip(0..)
        .map(|(text, at)| (Bytes::new(text.as_bytes()), at % LOCATIONS))
        .collect();
    let index = open(build(&texts, SMALL));
    for prefix in ["", "a", "ab", "abc", "b", "c", "\u{ff}"] {
        let answer = only(&index, Query::prefix(prefix.as_bytes()));
        for (text, at) in &texts {
            assert!(!text.as_slice().starts_with(prefix.as_bytes()) || answer.contains(at), "{prefix}");
        }
    }
}

#[test]
fn i13_the_index_stays_below_the_error_limit_and_reports_it() {
    let pairs = sample(12);
    for millionths in [0, 10_000, 50_000, 300_000] {
        let index = open(build(&pairs, Options { coarsen: Coarsen::Error { millionths }, ..SMALL }));
        let keys: BTreeMap<u64, ()> = pairs.iter().map(|&(key, _)| (key, ())).collect();
        let (mut reads, mut exact) = (0, 0);
        for &key in keys.keys() {
            reads += only(&index, Query::Point(key)).len();
            exact += truth(&pairs, &key, &key).len();
        }
        let report = index.report();
        assert!(report.error() <= f64::from(millionths) / 1e6 + 1e-12);
        // Min/max statistics may only remove reads that the runs alone would cause.
        assert!(u64::try_from(reads).unwrap() <= report.counts.reads);
        assert_eq!(u64::try_from(exact).unwrap(), report.counts.pairs);
        assert!(report.bits_per_row() > 0.0);
    }
}

#[test]
fn i13_reads_of_absent_keys_are_reported() {
    // Two clumps separated by empty blocks: half of the segment's width has no locations.
    let pairs: Vec<(u64, u32)> =
        (0..400).map(|row| (row + if row < 200 { 0 } else { 400 }, u32::try_from(row % 5).unwrap())).collect();
    let index = open(build(&pairs, Options::default()));
    let reads = index.reads_of_absent_keys();
    assert!((0.4..0.7).contains(&reads), "{reads}");
    assert!(only(&index, Query::Point(350)).is_empty());
}

#[test]
fn i14_the_buffer_stays_within_the_limits() {
    let mut random = Random(14);
    let options =
        Options { max_records: 50, max_key_bytes: 500, max_weight: 1000, coarsen: Coarsen::Exact, ..Options::DEFAULT };
    let mut builder = Builder::<u64>::new(LOCATIONS, options).unwrap();
    let (mut key, mut segments) = (0, 0);
    for _ in 0..5000 {
        key += random.below(4);
        builder.push(key, LOCATIONS - 1, 1).unwrap();
        assert!(builder.buffered() <= 50 + 1);
        segments += builder.take_segments().len();
    }
    assert!(segments > 40);
}

#[test]
fn i15_narrower_plain_blocks_never_read_more() {
    let pairs = sample(15);
    let mut before = u64::MAX;
    for keys in [128, 64, 32, 16, 8, 4, 2, 1] {
        let options = Options { coarsen: Coarsen::Plain { keys }, ..Options::default() };
        let reads = build(&pairs, options).0.counts().reads;
        assert!(reads <= before, "{keys} keys a block");
        before = reads;
    }
}

#[test]
fn i10_commits_are_ordered_by_instant() {
    let delta = |instant, key| {
        Delta::new(instant, vec![location(0)], vec![], vec![], vec![Change { key, location: 0, plus: 1, minus: 0 }])
            .unwrap()
    };
    let mut timeline = Timeline::<u64>::new(AxisType::Signed);
    assert!(timeline.commit(delta(5, 1)).unwrap());
    assert!(!timeline.commit(delta(5, 1)).unwrap());
    for late in [delta(5, 2), delta(4, 1)] {
        let instant = late.instant();
        assert_eq!(timeline.commit(late).unwrap_err().kind(), &ErrorKind::SieveConflict { instant });
    }
    timeline.expire(5);
    assert_eq!(timeline.as_of(4).unwrap_err().kind(), &ErrorKind::SieveExpired { instant: 4 });
    assert!(timeline.as_of(5).unwrap().answer(&Query::Point(1)).keeps(0));
}

#[test]
fn nan_is_kept_if_any_engine_may_match_it() {
    let mut builder = Builder::new(2, Options::default()).unwrap();
    builder.push(axis::double(1.5).unwrap(), 0, 1).unwrap();
    let stats = vec![Stats::default(), Stats { nans: 1, nulls: 2, ..Stats::default() }];
    let locations = vec![location(0), location(1)];
    let (root, file) = Root::new(
        IndexInfo { axis: AxisType::Float, instant: 1, options: Options::default() },
        locations,
        stats,
        &builder.finish(),
    )
    .unwrap();
    let index = open((root, file));
    assert_eq!(only(&index, Query::AtLeast(axis::double(9.0).unwrap())), [1]);
    assert_eq!(only(&index, Query::AtMost(axis::double(9.0).unwrap())), [0]);
    assert_eq!(only(&index, Query::Nan), [1]);
    assert_eq!(only(&index, Query::Null), [1]);
    assert_eq!(only(&index, Query::NotNull), [0, 1]);
}

#[test]
fn a_cold_point_lookup_reads_one_range_of_at_most_64_kib() {
    // Scattered keys in few locations, in many, and in a million, with a different location for each run.
    for num_locations in [64, 5000, 1_000_000] {
        let mut random = Random(31);
        let mut builder = Builder::new(num_locations, Options::default()).unwrap();
        let mut key = 0;
        for _ in 0..40_000 {
            key += 1 + random.below(1 << 40);
            builder.push(key, u32::try_from(random.below(u64::from(num_locations))).unwrap(), 1).unwrap();
        }
        let built = builder.finish();
        assert!(built.segments.len() > 2);
        let largest = built.segments.iter().map(|segment| segment.lookup.len()).max().unwrap();
        assert!(largest <= 64 << 10, "{largest} bytes with {num_locations} locations");
    }
}

#[test]
fn unions_of_blocks_answer_long_intervals_exactly() {
    let mut random = Random(41);
    let pairs: Vec<(u64, u32)> = (0..8000u64)
        .map(|row| {
            let late = random.one_in(9);
            (
                row * 100 + random.below(50),
                if late { u32::try_from(random.below(4)).unwrap() } else { u32::from(row > 4000) + 3 },
            )
        })
        .collect();
    let (root, file) = build(&pairs, Options::default());
    assert_eq!(root.segments.len(), 1);
    assert_ne!(file[5] & segment::block::UNIONS, 0, "the case needs unions");
    let index = open((root, file));
    for _ in 0..300 {
        let (a, b) = (
            pairs[usize::try_from(random.below(8000)).unwrap()].0,
            pairs[usize::try_from(random.below(8000)).unwrap()].0,
        );
        assert_eq!(only(&index, Query::Between(a, b)), truth(&pairs, &a, &b));
    }
}

/// Compares the worked example of the format page byte by byte.
#[test]
fn the_worked_example_on_the_format_page_is_correct() {
    let mut builder = Builder::new(3, Options::default()).unwrap();
    for (key, at) in [(10u64, 0), (11, 0), (12, 1), (20, 0), (20, 2)] {
        builder.push(key, at, 1).unwrap();
    }
    let built = builder.finish();
    let page = include_str!("../../../docs/format/sieve-v1.md");
    let locations = ["a", "b", "c"].map(|group| Location { partition: String::new(), group: group.into() }).to_vec();
    let stats = vec![Stats { nulls: 2, ..Stats::default() }, Stats::default(), Stats::default()];
    let (root, file) = Root::new(
        IndexInfo { axis: AxisType::Unsigned, instant: 7, options: Options::default() },
        locations,
        stats,
        &built,
    )
    .unwrap();
    let delta =
        Delta::new(8, vec![location(1)], vec![], vec![], vec![Change { key: 300u64, location: 0, plus: 1, minus: 0 }]);
    let segment = &built.segments[0];
    assert_eq!([&segment.lookup[..], &segment.keys].concat(), file);
    let parts = [
        ("segment", segment.lookup.clone()),
        ("keys", segment.keys.clone()),
        ("root", root::write(&root)),
        ("delta", delta.unwrap().write()),
    ];
    for (name, bytes) in parts {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let start = page.find(&format!("```text {name}\n")).map_or(0, |at| at + 9 + name.len());
        let documented: Vec<&str> = page[start..]
            .lines()
            .take_while(|line| !line.starts_with("```"))
            .flat_map(|line| line.split('|').next().unwrap_or_default().split_whitespace())
            .collect();
        assert_eq!(documented, hex, "the {name} of the page");
    }
}
