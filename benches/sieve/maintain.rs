//! Measures builds from shuffled rows, updates and compaction.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Instant;

use parsieve::sieve::{
    AxisType, Builder, Change, Delta, Index, IndexInfo, Location, Options, Query, Root, SectionRange, SegmentStream,
    Stats, Timeline, axis, build_pairs, root_over, sort_pairs,
};

use crate::clock::{Clock, Of};
use crate::json::rounded;
use crate::layouts::{Random, words};
use crate::measure::build;
use crate::memory::{CAP, in_own_process, limit, peak};
use serde_json::{Value, json};

/// Number of rounds. The best one counts, because other processes share the machine.
const ROUNDS: usize = 3;

fn shuffled(rows: u64, locations: u32) -> Vec<(u64, u32)> {
    let random = &mut Random(5);
    let any = |random: &mut Random| u32::try_from(random.below(u64::from(locations))).unwrap();
    (0..rows).map(|_| (axis::signed(random.next().cast_signed()), any(random))).collect()
}

/// Seconds of CPU time and of elapsed time.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, f64) {
    let (all, wall) = (Clock::of(Of::Process), Instant::now());
    black_box(&work());
    (all.seconds(), wall.elapsed().as_secs_f64())
}

/// Compares a build from shuffled pairs with a sort of them, and measures its memory under a limit.
pub(crate) fn build_time(rows: u64) -> Vec<Value> {
    let mut lines = Vec::new();
    for locations in [64, 4096] {
        let mut best = [(f64::MAX, f64::MAX); 4];
        for _ in 0..ROUNDS {
            let pairs = shuffled(rows, locations);
            let (mut sorted, mut ours) = (pairs.clone(), pairs.clone());
            let bare = timed(|| sorted.sort_unstable());
            let radix = timed(|| sort_pairs(&mut ours));
            assert_eq!(ours, sorted);
            drop((ours, sorted));
            let copy = pairs.clone();
            let one = timed(|| build_pairs(copy, locations, Options::default(), 1).unwrap());
            let two = timed(|| build_pairs(pairs, locations, Options::default(), 2).unwrap());
            for (best, (cpu, wall)) in best.iter_mut().zip([bare, radix, one, two]) {
                *best = (best.0.min(cpu), best.1.min(wall));
            }
        }
        let [bare, radix, one, two] = best;
        let arguments = ["capped-build".to_owned(), rows.to_string(), locations.to_string()];
        let [capped_wall, peak] = in_own_process(&arguments);
        // The threads share the work evenly. With a core for each, they take half of the time.
        println!(
            "{rows} shuffled pairs, {locations} locations, best of {ROUNDS}: sort_unstable {:.2} s, our sort {:.2} s, build with 1 thread {:.2} s ({:.2}x), with 2 {:.2} s of work ({:.2}x on cores of their own), {:.2} s passed ({:.2}x of the sort's {:.2} s); under a cap of {} MiB {capped_wall:.2} s passed and {:.0} MiB were held, {:.0} of them the pairs",
            bare.0,
            radix.0,
            one.0,
            one.0 / bare.0,
            two.0,
            two.0 / 2.0 / bare.0,
            two.1,
            two.1 / bare.1,
            bare.1,
            CAP >> 20,
            peak / 1024.0,
            (rows * 16) as f64 / f64::from(1 << 20),
        );
        lines.push(json!({
            "rows": rows,
            "locations": locations,
            "best_of_rounds": ROUNDS,
            "sort_unstable_s": rounded(bare.0),
            "sort_unstable_wall_s": rounded(bare.1),
            "our_sort_s": rounded(radix.0),
            "one_thread_s": rounded(one.0),
            "one_thread_of_sort": rounded(one.0 / bare.0),
            "two_threads_work_s": rounded(two.0),
            "two_threads_of_sort_on_own_cores": rounded(two.0 / 2.0 / bare.0),
            "two_threads_wall_s": rounded(two.1),
            "two_threads_of_sort_wall": rounded(two.1 / bare.1),
            "capped_peak_memory_kib": rounded(peak),
            "cap_kib": CAP >> 10,
            "pairs_kib": (rows * 16) >> 10,
        }));
    }
    lines
}

/// Builds with two threads under the limit. Prints the elapsed seconds and the peak memory.
pub(crate) fn capped_build(rows: u64, locations: u32) {
    limit();
    let pairs = shuffled(rows, locations);
    let (_, wall) = timed(|| build_pairs(pairs, locations, Options::default(), 2).unwrap());
    println!("{wall} {}", peak());
}

/// Streams a base of `rows` rows to a file, and returns its root.
fn base_in(file: &mut File, rows: u64, locations: u32) -> Root<u64> {
    let random = &mut Random(8);
    let mut builder = Builder::new(locations, Options::default()).unwrap();
    let (mut stream, mut keys, mut key) = (SegmentStream::new(0), tempfile(), 0);
    let mut give = |stream: &mut SegmentStream<u64>, segments| {
        stream.put(segments);
        let (lookups, rest) = stream.take();
        file.write_all(&lookups).unwrap();
        keys.write_all(&rest).unwrap();
    };
    for row in 0..rows {
        key += 1 + random.below(1 << 32);
        builder.push(key, u32::try_from(random.below(u64::from(locations))).unwrap(), 1).unwrap();
        if row % 10_000 == 0 {
            give(&mut stream, builder.take_segments());
        }
    }
    let built = builder.finish();
    give(&mut stream, built.segments);
    keys.rewind().unwrap();
    std::io::copy(&mut keys, file).unwrap();
    let stats = vec![Stats::default(); names(locations).len()];
    let info = IndexInfo { axis: AxisType::Unsigned, instant: 1, options: Options::default() };
    root_over(info, names(locations), stats, &built.spans, stream.into_entries()).unwrap()
}

fn names(locations: u32) -> Vec<Location> {
    (0..locations).map(|at| Location { partition: String::new(), group: format!("{at:08}") }).collect()
}

/// Returns a file without a name, which the system deletes when the process ends.
fn tempfile() -> File {
    let path = std::env::temp_dir().join(format!("parsieve-bench-{}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

/// Compacts a base in a file, with some changes, to another file. Prints the seconds, the bytes of the index, and the peak
/// memory before compaction and at the end.
pub(crate) fn capped_compaction(rows: u64, changes: u64) {
    limit();
    let mut file = tempfile();
    let root = base_in(&mut file, rows, 64);
    let random = &mut Random(9);
    let change = |_| Change { key: random.below(rows << 31), location: 7, plus: 1, minus: 0 };
    let delta = Delta::new(2, names(64), vec![], vec![], (0..changes).map(change).collect()).unwrap();
    let mut timeline = Timeline::starting_with(Index::new(root));
    timeline.commit(delta).unwrap();
    let (before, view, mut out) = (peak(), timeline.latest().unwrap(), [tempfile(), tempfile()]);
    let start = Clock::now();
    let read_keys = |extent: SectionRange| {
        let mut bytes = vec![0; usize::try_from(extent.len).unwrap()];
        file.seek(SeekFrom::Start(extent.offset)).unwrap();
        file.read_exact(&mut bytes).unwrap();
        Ok(bytes)
    };
    let write = |lookups: Vec<u8>, keys: Vec<u8>| {
        out.iter_mut().zip([lookups, keys]).for_each(|(file, bytes)| file.write_all(&bytes).unwrap());
        Ok(())
    };
    let compacted = view.compact_into(Options::default(), names(64), read_keys, |_| i64::MAX, write).unwrap();
    let seconds = start.seconds();
    assert_eq!((compacted.unmatched, compacted.root.counts().rows), (0, rows + changes));
    let bytes: u64 = out.iter().map(|file| file.metadata().unwrap().len()).sum();
    println!("{seconds} {bytes} {before} {}", peak());
}

/// Compares the memory of compacting a small index and one eight times as large. It must not grow in proportion.
pub(crate) fn compaction_memory(rows: u64) -> Vec<Value> {
    let (changes, mut lines, mut peaks) = (rows / 100, Vec::new(), Vec::new());
    for rows in [rows, rows * 8] {
        let [seconds, bytes, before, peak] =
            in_own_process(&["capped-compaction".to_owned(), rows.to_string(), changes.to_string()]);
        println!(
            "compaction of {rows} rows and {changes} changes: {seconds:.2} s, an index of {:.0} MiB, {:.1} MiB held",
            bytes / f64::from(1 << 20),
            peak / 1024.0,
        );
        peaks.push((bytes / 1024.0, peak));
        lines.push(json!({
            "rows": rows,
            "changes": changes,
            "compaction_s": rounded(seconds),
            "index_bytes": rounded(bytes),
            "peak_memory_before_kib": rounded(before),
            "peak_memory_kib": rounded(peak),
        }));
    }
    let [(small, least), (large, most)] = peaks[..] else { panic!() };
    assert!(most - least < (large - small) / 8.0 + 4096.0, "the memory of a compaction grows with the index");
    lines
}

/// Measures a delta with one upsert for each row of the base: its bytes, its commit, a lookup and the compaction.
pub(crate) fn update_time(rows: u64) -> Value {
    let locations = 64;
    let random = &mut Random(6);
    let pairs = words("uniform1", rows, locations);
    let built = build(&pairs, locations, Options::default());
    let names: Vec<Location> =
        (0..locations).map(|location| Location { partition: String::new(), group: format!("{location:08}") }).collect();
    let stats = vec![Stats::default(); names.len()];
    let (root, file) = Root::new(
        IndexInfo { axis: AxisType::Signed, instant: 1, options: Options::default() },
        names.clone(),
        stats,
        &built,
    )
    .unwrap();
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
    let read_keys = |extent: SectionRange| {
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
    json!({
        "upserts": rows,
        "changes": probe,
        "bytes": bytes.len(),
        "sorted_and_written_s": rounded(written),
        "read_and_committed_s": rounded(read),
        "point_through_the_view_ns": rounded(point),
        "compaction_s": rounded(compaction),
    })
}
