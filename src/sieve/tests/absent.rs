//! Tests of version 2 of a segment: fingerprints and gaps.

use std::collections::{BTreeMap, BTreeSet};

use crate::int::{index as to_index, saturating_u32};
use crate::sieve::code::format::{SEGMENT, SEGMENT_2, frame, unframe};
use crate::sieve::record::options::Format;
use crate::sieve::segment::block::{FINGERPRINTS, GAPS};
use crate::sieve::tests::model::Random;
use crate::sieve::*;
use proptest::prelude::*;

const V2: Options = Options { format: Format::V2, ..Options::DEFAULT };
const FORCED: Options = Options { fingerprints: Some(true), ..V2 };

/// Builds an index over `num_locations` locations with all segments loaded, and returns it with its segments.
fn index<K: Key>(pairs: &[(K, u32)], num_locations: u32, options: Options) -> (Index<K>, Vec<EncodedSegment<K>>) {
    let mut pairs = pairs.to_vec();
    pairs.sort();
    let mut builder = Builder::new(num_locations, options).unwrap();
    pairs.into_iter().for_each(|(key, location)| builder.push(key, location, 1).unwrap());
    let names = (0..num_locations).map(|at| Location { partition: String::new(), group: format!("{at:06}") });
    let stats = vec![Stats::default(); to_index(num_locations)];
    let axis = [AxisType::Unsigned, AxisType::Uuid, AxisType::Bytes][usize::from(K::CODE) - 1];
    let built = builder.finish();
    let (root, file) = Root::new(IndexInfo { axis, instant: 1, options }, names.collect(), stats, &built).unwrap();
    let mut index = Index::new(root);
    index.load_all(&file).unwrap();
    (index, built.segments)
}

/// Returns the flags of a segment.
fn flags<K>(segment: &EncodedSegment<K>) -> u8 {
    assert_eq!(&segment.lookup[..4], b"SvL2");
    segment.lookup[5]
}

fn point<K: Key>(index: &Index<K>, key: &K) -> Vec<u32> {
    let mut out = Vec::new();
    index.point(key, &mut out);
    out
}

/// Checks that existing keys are found, that both forms answer alike, and that intervals contain all matching
/// locations.
fn check<K: Key>(pairs: &[(K, u32)], absent: &[K], options: Options) {
    let mut truth: BTreeMap<K, BTreeSet<u32>> = BTreeMap::new();
    pairs.iter().for_each(|(key, location)| {
        truth.entry(key.clone()).or_default().insert(*location);
    });
    let (decoded, segments) = index(pairs, 64, options);
    let (mut stored, _) = index(pairs, 64, options);
    stored.set_cache_bytes(0);
    decoded.decode_all();
    assert_eq!(stored.decoded_bytes(), 0);
    for (key, locations) in &truth {
        let answer = point(&stored, key);
        assert!(locations.iter().all(|at| answer.contains(at)), "{key:?} was lost: {answer:?} of {locations:?}");
        if options.coarsen == Coarsen::Exact && K::POINTS_DIFFER {
            assert_eq!(answer.len(), locations.len(), "{key:?}");
        }
    }
    for key in truth.keys().chain(absent) {
        assert_eq!(point(&stored, key), point(&decoded, key), "{key:?}");
        assert_eq!(stored.answer(&Query::In(vec![key.clone()])), Answer::Only(point(&decoded, key)));
    }
    let exact = segments.iter().all(|segment| flags(segment) & GAPS != 0);
    if exact {
        let reads = absent.iter().filter(|key| !truth.contains_key(*key)).map(|key| point(&stored, key).len());
        assert_eq!(reads.sum::<usize>(), 0, "gaps exclude all missing keys");
    }
    let all: Vec<&K> = truth.keys().chain(absent).collect();
    for pair in all.windows(2).step_by(1 + all.len() / 100) {
        let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        let query = Query::Between(low.clone(), high.clone());
        let answer = stored.answer(&query);
        assert_eq!(answer, decoded.answer(&query));
        let inside = truth.range(low.clone()..=high.clone()).flat_map(|(_, locations)| locations);
        assert!(inside.clone().all(|at| answer.keeps(*at)), "{query:?}");
        if exact && options.coarsen == Coarsen::Exact {
            assert_eq!(answer, Answer::Only(inside.copied().collect::<BTreeSet<_>>().into_iter().collect()));
        }
    }
}

/// A key from one of four distributions: dense, half dense, sparse, and clumps of keys that share many bits.
fn key(random: &mut Random, distribution: u64) -> u64 {
    match distribution {
        0 => random.below(500),
        1 => random.below(5000),
        2 => random.below(u64::MAX),
        _ => random.below(9) << 60 | random.below(300),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn present_keys_are_always_found(
        seed: u64, distribution in 0u64..4, rows in 1usize..2000, few in 1u64..64, coarse in 0usize..4, forced: bool, fpp in 1u32..=1_000_000,
    ) {
        let random = &mut Random(seed);
        let coarsen =
            [Coarsen::Exact, Coarsen::Plain { keys: 5 }, Coarsen::Error { millionths: 9000 }, Coarsen::Slope { thousandths: 900 }][coarse];
        let options = Options { coarsen, max_weight: [700, 16_384][rows % 2], fingerprints: forced.then_some(true), fpp, ..V2 };
        // Runs of neighboring rows in one location, so that some runs have several keys.
        let run = 1 + random.below(9);
        let mut keys: Vec<u64> = (0..rows).map(|_| key(random, distribution)).collect();
        keys.sort_unstable();
        let pairs: Vec<(u64, u32)> = keys
            .into_iter()
            .zip(0u64..)
            .map(|(key, row)| (key, u32::try_from((row / run).wrapping_mul(0x9e37_79b9) % few).unwrap()))
            .collect();
        let mut absent: Vec<u64> = (0..200).map(|_| key(random, distribution)).collect();
        absent.extend([0, u64::MAX]);
        check(&pairs, &absent, options);
        let wide = |key: u64| u128::from(key) << 64 | u128::from(key % 3);
        let wides: Vec<_> = pairs.iter().map(|pair| (wide(pair.0), pair.1)).collect();
        check(&wides, &absent.iter().map(|&key| wide(key) + 1).collect::<Vec<_>>(), options);
        // Keys with a long common beginning share a point.
        let text = |key: u64| Bytes::new(format!("{}{key:x}", ["", "stem-0000000000", "stem-1"][to_index(saturating_u32(usize::try_from(key % 3).unwrap()))]).as_bytes());
        let long = |key: u64| Bytes::new([&[b'a'; 70][..], &key.to_be_bytes(), &[b'b'; 70], &key.to_le_bytes()].concat().as_slice());
        for text in [text as fn(u64) -> Bytes, long] {
            let texts: Vec<_> = pairs.iter().map(|pair| (text(pair.0), pair.1)).collect();
            check(&texts, &absent.iter().map(|&key| text(key)).collect::<Vec<_>>(), options);
        }
    }
}

/// Returns the mean number of locations that missing keys inside the index read, over the answers of both forms.
fn reads_of_absent<K: Key>(index: &Index<K>, absent: &[K]) -> f64 {
    let mut reads = 0;
    for key in absent {
        reads += point(index, key).len();
    }
    f64::from(saturating_u32(reads)) / f64::from(saturating_u32(absent.len()))
}

/// The layouts with fingerprints or gaps: name, and keys with locations.
fn layouts() -> Vec<(&'static str, Vec<(u64, u32)>)> {
    let mut random = Random(17);
    let mut at = |few: u64| u32::try_from(random.below(few)).unwrap();
    vec![
        ("scattered", (1..=8000u64).map(|row| (row << 40, at(64))).collect()),
        ("several locations a key", (1..=8000u64).map(|row| ((row / 10) << 40, at(64))).collect()),
        ("few locations", (1..=8000u64).map(|row| (row << 40, at(16))).collect()),
        // A hundred rows a key, in one location or two.
        ("heavy keys", (0..80_000u64).map(|row| ((row / 100) << 40, at(10) / 9)).collect()),
        ("skewed", (0..20_000u64).map(|row| (((row * row) % 4001) << 40, at(64))).collect()),
    ]
}

/// Returns missing keys between the keys of a layout.
fn absent_from(pairs: &[(u64, u32)], count: u32) -> Vec<u64> {
    let mut random = Random(19);
    let most = pairs.iter().map(|pair| pair.0).max().unwrap();
    // All keys of the layouts are even.
    (0..count).map(|_| random.below(most) | 1).collect()
}

#[test]
fn absent_keys_read_at_most_the_promised_locations() {
    const PROBES: u32 = 60_000;
    for (name, pairs) in layouts() {
        let absent = absent_from(&pairs, PROBES);
        let plain = Options { coarsen: Coarsen::Plain { keys: 4 }, ..FORCED };
        for options in [V2, FORCED, plain, Options { fpp: 2000, ..FORCED }] {
            let (index, segments) = index(&pairs, 64, options);
            assert!(segments.iter().all(|segment| flags(segment) & FINGERPRINTS != 0), "{name}");
            let expected = f64::from(options.fpp) / 1e6;
            let reads = reads_of_absent(&index, &absent);
            // Four standard deviations, if a key that passes reads as many locations as the largest answer has.
            let largest = pairs.iter().step_by(40).map(|pair| point(&index, &pair.0).len()).max().unwrap();
            let passes = f64::from(PROBES) * 0.8 * expected / f64::from(saturating_u32(largest));
            let most = 0.8 * expected * (1.02 + 4.0 / passes.sqrt());
            assert!(reads > 0.0 && reads <= most, "{name}: {reads} of {expected}");
            // Where a key that passes reads one location, the sample is large enough to keep the promise itself.
            assert!(largest > 1 || options.fpp < 20_000 || reads <= expected, "{name}: {reads} of {expected}");
            index.decode_all();
            assert!((reads_of_absent(&index, &absent) - reads).abs() < 1e-12, "{name}");
        }
        let (without, _) = index(&pairs, 64, Options { fingerprints: Some(false), ..V2 });
        assert!(reads_of_absent(&without, &absent) >= 0.9, "{name}");
    }
}

#[test]
fn fingerprints_of_other_key_types_exclude_absent_keys() {
    let wide: Vec<(u128, u32)> = (1..6000u128).map(|row| (row << 90, u32::try_from(row * 7 % 61).unwrap())).collect();
    let (index_of_wide, _) = index(&wide, 64, V2);
    let absent: Vec<u128> = (1..5999u128).map(|row| (row << 90) + row + 1).collect();
    let reads = reads_of_absent(&index_of_wide, &absent);
    assert!(reads > 0.0 && reads < 0.027, "{reads}");
    // Texts that agree in the bytes of their point: only the hash of the whole key can tell them apart.
    let text =
        |row: u32, tail: &str| Bytes::new(format!("{}{row:08x}{}{tail}", "k".repeat(30), "0".repeat(90)).as_bytes());
    let texts: Vec<(Bytes, u32)> = (0..6000).map(|row| (text(row, "a"), row * 7 % 61)).collect();
    let (index_of_texts, _) = index(&texts, 64, FORCED);
    let absent: Vec<Bytes> = (0..6000).map(|row| text(row, "b")).collect();
    let reads = reads_of_absent(&index_of_texts, &absent);
    assert!(reads > 0.0 && reads < 0.027, "{reads}");
}

#[test]
fn the_report_estimates_reads_of_absent_keys() {
    let (name, pairs) = layouts().swap_remove(0);
    let (with, _) = index(&pairs, 64, Options { max_weight: 400, ..V2 });
    assert!(with.reads_of_absent_keys() < 0.04, "{name}: {}", with.reads_of_absent_keys());
    assert!(reads_of_absent(&with, &absent_from(&pairs, 9000)) < 0.03);
    let dense: Vec<(u64, u32)> = (0..3000).map(|row| (row, u32::try_from(row * 13 % 64).unwrap())).collect();
    let (dense, _) = index(&dense, 64, V2);
    assert_eq!(dense.reads_of_absent_keys(), 0.0);
}

/// Returns the flags of all segments, which must be equal, and the bits of their lookup sections for each key.
fn size<K: Key>(pairs: &[(K, u32)], num_locations: u32, options: Options) -> (u8, f64) {
    let (index, segments) = index(pairs, num_locations, options);
    let bits = 8 * segments.iter().map(|segment| segment.lookup.len()).sum::<usize>();
    let keys = index.root().counts().keys;
    let all: BTreeSet<u8> = segments.iter().map(|segment| flags(segment) & (FINGERPRINTS | GAPS)).collect();
    assert_eq!(all.len(), 1, "{all:?}");
    (all.into_iter().next().unwrap(), f64::from(saturating_u32(bits)) / f64::from(u32::try_from(keys).unwrap()))
}

#[test]
fn fingerprints_take_the_bits_of_the_model_and_gaps_less() {
    let without = |options| Options { fingerprints: Some(false), ..options };
    let mut random = Random(23);
    let mut at = |few: u64| u32::try_from(random.below(few)).unwrap();
    // Scattered keys with one location: six bits for the fingerprint.
    let scattered: Vec<(u64, u32)> = (0..40_000u64).map(|row| (row * 1_000_003 + row * row % 1009, at(400))).collect();
    let (flags, bits) = size(&scattered, 400, V2);
    let (_, base) = size(&scattered, 400, without(V2));
    assert_eq!(flags, FINGERPRINTS);
    assert!((5.9..6.8).contains(&(bits - base)), "{bits} - {base}");
    // Every integer occurs: no gaps, and nothing to store.
    let dense: Vec<(u64, u32)> = (0..40_000u64).map(|row| (row, at(400))).collect();
    let (flags, bits) = size(&dense, 400, V2);
    let (_, base) = size(&dense, 400, without(V2));
    assert_eq!(flags, GAPS);
    assert!(bits - base < 0.01, "{bits} - {base}");
    // One integer in twenty is missing.
    let (flags, bits) = size(&dense.iter().copied().filter(|pair| pair.0 % 20 != 3).collect::<Vec<_>>(), 400, V2);
    assert_eq!(flags, GAPS);
    assert!(bits - base < 1.5, "{bits} - {base}");
    // Eight of 32 integers occur, with four rows each, in few and long runs. The segment is not cut into many.
    let orders: Vec<(u64, u32)> =
        (0..80_000u32).map(|row| (u64::from(row / 32 * 32 + row / 4 % 8), row / 10_000)).collect();
    let (flags, bits) = size(&orders, 400, V2);
    assert_eq!(flags, GAPS);
    assert!(bits < 2.0, "{bits}");
    assert!(index(&orders, 400, V2).1.len() <= 2);
    // Sparse sorted keys, a thousand in each location: a missing key reads one location, like its neighbors.
    let sorted: Vec<(u64, u32)> = (0..40_000u32).map(|row| (u64::from(row) << 30, row / 1000)).collect();
    let (flags, bits) = size(&sorted, 400, V2);
    assert_eq!(flags, 0);
    assert!(bits < 0.1, "{bits}");
    let (flags, bits) = size(&sorted, 400, FORCED);
    assert_eq!(flags, FINGERPRINTS);
    assert!((6.9..8.5).contains(&bits), "{bits}");
}

#[test]
fn segments_with_fingerprints_are_read_in_one_short_range() {
    for (pairs, num_locations) in [
        ((0..300_000u32).map(|row| (u64::from(row) << 20, row / 1000)).collect::<Vec<_>>(), 300),
        (
            (0..40_000u32).map(|row| (u64::from(row) << 20, row.wrapping_mul(0x9e37_79b9) % 1_000_000)).collect(),
            1_000_000,
        ),
    ] {
        let (index, segments) = index(&pairs, num_locations, FORCED);
        assert!(segments.iter().all(|segment| segment.lookup.len() <= 64 << 10));
        assert!(segments.windows(2).all(|pair| pair[0].most < pair[1].least));
        for (key, location) in pairs.iter().step_by(501) {
            assert_eq!(point(&index, key), [*location]);
        }
    }
}

#[test]
fn a_segment_is_read_by_an_index_with_more_locations_and_not_by_one_with_fewer() {
    let (small, segments) = index(&layouts()[0].1, 64, V2);
    let (large, _) = index(&[(3u64, 900)], 1000, V2);
    drop((small, large));
    for segment in segments {
        assert_eq!(
            Segment::<u64>::parse(&segment.lookup, 64).unwrap().locations(),
            Segment::<u64>::parse(&segment.lookup, 1000).unwrap().locations()
        );
        assert!(Segment::<u64>::parse(&segment.lookup, 63).is_err());
    }
}

#[test]
fn version_1_is_written_without_version_2() {
    let (name, pairs) = layouts().swap_remove(0);
    for options in [Options::default(), Options { fingerprints: Some(true), keep_keys: true, ..Options::default() }] {
        let (_, segments) = index(&pairs, 64, options);
        assert!(
            segments.iter().all(|segment| segment.lookup.starts_with(b"SvL1") && !segment.keys.is_empty()),
            "{name}"
        );
    }
    let (_, segments) = index(&pairs, 64, V2);
    assert!(segments.iter().all(|segment| segment.keys.is_empty()));
    let (_, segments) = index(&pairs, 64, Options { keep_keys: true, ..V2 });
    assert!(segments.iter().all(|segment| segment.lookup.starts_with(b"SvL2") && !segment.keys.is_empty()));
}

#[test]
fn i11_every_flipped_or_missing_byte_keeps_all_locations() {
    let pairs: Vec<(u64, u32)> = layouts()[0].1[..120].to_vec();
    for options in [V2, FORCED, Options { fingerprints: Some(false), ..V2 }] {
        let (intact, segments) = index(&pairs, 64, options);
        let [segment] = &segments[..] else { panic!("one segment") };
        let broken = (0..segment.lookup.len()).map(|at| {
            let mut bytes = segment.lookup.clone();
            bytes[at] ^= 1 << (at % 8);
            bytes
        });
        let short = (0..segment.lookup.len()).map(|len| segment.lookup[..len].to_vec());
        for bytes in broken.chain(short) {
            let mut index = intact.clone();
            assert!(index.load(0, &bytes).is_err());
            for (key, location) in &pairs {
                assert!(point(&index, key).contains(location));
            }
        }
    }
}

/// Damaged bytes with a matching checksum must not cause a panic, excessive work or unknown locations. A segment of
/// version 2 whose magic is replaced by that of version 1 must not either.
#[test]
fn i11_hostile_bytes_with_a_good_checksum_do_not_panic() {
    let mut random = Random(29);
    let dense: Vec<(u64, u32)> = (0..300).map(|row| (row * 7 / 6, u32::try_from(row * row % 64).unwrap())).collect();
    let mut bodies = Vec::new();
    for pairs in layouts().into_iter().map(|layout| layout.1[..200].to_vec()).chain([dense]) {
        let (_, segments) = index(&pairs, 64, FORCED);
        bodies.extend(segments.iter().map(|segment| unframe(SEGMENT_2, &segment.lookup).unwrap().to_vec()));
    }
    for round in 0..6000 {
        let mut body = bodies[round % bodies.len()].clone();
        for _ in 0..=random.below(4) {
            let at = to_index(saturating_u32(usize::try_from(random.below(body.len() as u64)).unwrap()));
            body[at] = u8::try_from(random.below(256)).unwrap();
        }
        let part = if round % 10 == 0 { SEGMENT } else { SEGMENT_2 };
        if let Ok(segment) = Segment::<u64>::parse(&frame(part, &body), 64) {
            let mut out = Vec::new();
            let (low, high) = (3 << 40, 170 << 40);
            let _ = segment.interval(&low, &high, None, &mut out);
            let _ = segment.point(&high, &mut out);
            let _ = segment.reads_of(20);
            if let Some(decoded) = segment.decode() {
                for point in [0, 7, 1 << 40, u128::MAX, 170 << 40] {
                    decoded.point(point, || random.below(u64::MAX), &mut out);
                    decoded.interval(point / 2, point, &mut out);
                }
            }
            assert!(out.iter().all(|&location| location < 64));
        }
    }
}

/// Compares the worked examples of the format page byte by byte.
#[test]
fn the_worked_examples_on_the_format_page_are_correct() {
    let page = include_str!("../../../docs/format/sieve-v2-segment.md");
    let rows = [(10u64, 0), (11, 0), (12, 1), (20, 0), (20, 2)];
    let sparse: Vec<(u64, u32)> = rows.iter().map(|&(key, at)| (key << 20, at)).collect();
    for (name, pairs, options) in [("gaps", &rows[..], V2), ("fingerprints", &sparse, FORCED)] {
        let (_, segments) = index(pairs, 3, options);
        let [segment] = &segments[..] else { panic!("one segment") };
        let start = page.find(&format!("```text {name}\n")).map_or(0, |at| at + 9 + name.len());
        let documented: Vec<&str> = page[start..]
            .lines()
            .take_while(|line| !line.starts_with("```"))
            .flat_map(|line| line.split('|').next().unwrap_or_default().split_whitespace())
            .collect();
        let hex: Vec<String> = segment.lookup.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(documented, hex, "the {name} of the page");
    }
}

/// The worked example as it was stored with 50 slots. Readers accept any number of slots.
#[test]
fn segments_with_another_number_of_slots_are_read() {
    const STORED: &str = "53764c32 01041902 020002 0000a00000000000 0000400100000000 0332 030002 00002d 000100 \
                          2a405220e007 eebf0835";
    let hex: Vec<u8> = STORED.bytes().filter(|byte| byte.is_ascii_hexdigit()).collect();
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
    let stored: Vec<u8> = hex.chunks(2).map(byte).collect();
    let sparse = [(10u64 << 20, 0), (11 << 20, 0), (12 << 20, 1), (20 << 20, 0), (20 << 20, 2)];
    let (mut index, _) = index(&sparse, 3, FORCED);
    index.set_cache_bytes(0);
    let segment = Segment::<u64>::parse(&stored, 3).unwrap();
    let answer = |key: u64| {
        let mut out = Vec::new();
        segment.point(&key, &mut out).unwrap();
        out
    };
    for (key, _) in sparse {
        assert_eq!(answer(key), point(&index, &key), "{key}");
    }
    let excluded = (0..1000).filter(|at| answer((10 << 20) + at * 999).is_empty()).count();
    assert!(excluded > 950, "{excluded}");
    let mut all = Vec::new();
    segment.interval(&(10 << 20), &(12 << 20), None, &mut all).unwrap();
    assert_eq!(all, [0, 1]);
}
