//! Builds from shuffled rows, updates and compaction.

use std::hint::black_box;
use std::time::Instant;

use parsieve::sieve::{AxisType, Change, Delta, Extent, Index, Location, Options, Query, Root, Stats, Timeline, axis};

use crate::clock::{Clock, Of};
use crate::json::{line, number};
use crate::layouts::{Random, words};
use crate::measure::build;

/// A build from shuffled pairs beside a bare sort of them.
pub(crate) fn build_time(rows: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for locations in [64, 4096] {
        let random = &mut Random(5);
        let pairs: Vec<(u64, u32)> = (0..rows)
            .map(|_| (axis::signed(random.next().cast_signed()), u32::try_from(random.below(locations)).unwrap()))
            .collect();
        let mut sorted = pairs.clone();
        let start = Clock::now();
        sorted.sort_unstable();
        let sort = start.seconds();
        let mut ours = pairs.clone();
        let start = Clock::now();
        parsieve::sieve::sort_pairs(&mut ours);
        let radix = start.seconds();
        assert_eq!(ours, sorted);
        let mut times = Vec::new();
        for threads in [1, 2] {
            let pairs = pairs.clone();
            let (all, wall) = (Clock::of(Of::Process), Instant::now());
            let num_locations = u32::try_from(locations).unwrap();
            let built = parsieve::sieve::build_pairs(pairs, num_locations, Options::default(), threads).unwrap();
            black_box(&built);
            times.push((all.seconds(), wall.elapsed().as_secs_f64()));
        }
        let [(one, _), (two, wall)] = times[..] else { panic!() };
        // The threads share the work evenly; on cores of their own they need half of its time.
        println!(
            "{rows} shuffled pairs, {locations} locations: sort_unstable {sort:.2} s, our sort {radix:.2} s, build with 1 thread {one:.2} s ({:.2}x), with 2 {two:.2} s of work ({:.2}x on cores of their own), {wall:.2} s passed",
            one / sort,
            two / 2.0 / sort,
        );
        lines.push(line(&[
            ("rows", rows.to_string()),
            ("locations", locations.to_string()),
            ("sort_unstable_s", number(sort)),
            ("our_sort_s", number(radix)),
            ("one_thread_s", number(one)),
            ("one_thread_of_sort", number(one / sort)),
            ("two_threads_work_s", number(two)),
            ("two_threads_of_sort_on_own_cores", number(two / 2.0 / sort)),
            ("two_threads_wall_s", number(wall)),
        ]));
    }
    lines
}

/// A delta of as many upserts as there are rows in the base, its bytes, its commit, a look through it, and the compaction.
pub(crate) fn update_time(rows: u64) -> String {
    let locations = 64;
    let random = &mut Random(6);
    let pairs = words("uniform1", rows, locations);
    let built = build(&pairs, locations, Options::default());
    let names: Vec<Location> =
        (0..locations).map(|location| Location { partition: String::new(), group: format!("{location:08}") }).collect();
    let stats = vec![Stats::default(); names.len()];
    let (root, file) = Root::new((AxisType::Signed, 1, Options::default()), names.clone(), stats, &built).unwrap();
    let mut base = Index::new(root);
    base.load_all(&file).unwrap();
    let mut timeline = Timeline::starting_with(base);
    // Each upsert moves a row to a new key.
    let mut changes = Vec::new();
    for &(key, location) in &pairs {
        changes.push(Change { key, location, plus: 0, minus: 1 });
        changes.push(Change { key: random.next(), location, plus: 1, minus: 0 });
    }
    let start = Clock::now();
    let delta = Delta::new(2, names.clone(), vec![], vec![], changes).unwrap();
    let bytes = delta.write();
    let written = start.seconds();
    let start = Clock::now();
    let delta = Delta::<u64>::read(&bytes).unwrap();
    let probe = delta.num_changes();
    timeline.commit(delta).unwrap();
    let read = start.seconds();
    let view = timeline.latest().unwrap();
    let start = Clock::now();
    for &(key, location) in pairs.iter().step_by(97) {
        assert!(view.answer(&Query::Point(key)).keeps(location));
    }
    let point = start.seconds() * 1e9 / (pairs.len() / 97) as f64;
    let start = Clock::now();
    let read_keys = |extent: Extent| {
        let from = usize::try_from(extent.offset).unwrap();
        Ok(file[from..from + usize::try_from(extent.len).unwrap()].to_vec())
    };
    let compacted = view.compact(Options::default(), names, read_keys, |_| i64::MAX).unwrap();
    assert_eq!((compacted.unmatched, compacted.root.counts().rows), (0, rows));
    let compaction = start.seconds();
    println!(
        "{rows} upserts of {rows} rows: {probe} changes sorted and written in {written:.2} s ({:.1} B each), read and committed in {read:.2} s, point through the view {point:.0} ns, compaction {compaction:.2} s",
        bytes.len() as f64 / probe as f64,
    );
    line(&[
        ("upserts", rows.to_string()),
        ("changes", probe.to_string()),
        ("bytes", bytes.len().to_string()),
        ("sorted_and_written_s", number(written)),
        ("read_and_committed_s", number(read)),
        ("point_through_the_view_ns", number(point)),
        ("compaction_s", number(compaction)),
    ])
}
