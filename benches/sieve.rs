//! The Sieve index over the layouts of the design: bits per row, reads, latencies, build time. Not run in CI.
//!
//! `cargo bench --bench sieve -- sizes 2000000 [layout]`, `-- build 20000000`, `-- update 1000000`, `-- coarse 2000000`. Results are asserted before they are timed.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "benches read clocks and arguments")]
#![allow(clippy::print_stdout, reason = "the table is what benches are for")]

use std::hint::black_box;
use std::time::Instant;

use parsieve::sieve::{
    Answer, AxisType, Builder, Built, Bytes, Change, Coarsen, Delta, Extent, Index, Key, Location, Options, Query,
    Root, Stats, Timeline, axis,
};

/// Seconds of this thread's CPU time, since other work may share the machine.
struct Clock(f64);

impl Clock {
    fn now() -> Self {
        Self(cpu_seconds())
    }

    fn seconds(&self) -> f64 {
        cpu_seconds() - self.0
    }
}

#[cfg(target_os = "linux")]
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the call to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(not(target_os = "linux"))]
fn cpu_seconds() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64()
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(bound)) >> 64).unwrap()
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn location(part: u64, whole: u64, locations: u32) -> u32 {
    u32::try_from(u128::from(part) * u128::from(locations) / u128::from(whole)).unwrap().min(locations - 1)
}

/// Keys on a sparse axis: ascending with random gaps of 1000 on average.
fn sparse(rows: u64, random: &mut Random) -> Vec<u64> {
    let mut key = 1 << 40;
    (0..rows)
        .map(|_| {
            key += 1 + random.below(2000);
            key
        })
        .collect()
}

fn words(layout: &str, rows: u64, locations: u32) -> Vec<(u64, u32)> {
    let random = &mut Random(42);
    let at = |row| location(row, rows, locations);
    match layout {
        "sorted" => (0..).zip(sparse(rows, random)).map(|(row, key)| (key, at(row))).collect(),
        "lineitem" => {
            // Eight of every 32 order keys, one to seven lines each, written in order.
            let (mut pairs, mut order) = (Vec::new(), 0u64);
            while pairs.len() < usize::try_from(rows).unwrap() {
                let key = order / 8 * 32 + order % 8 + 1;
                for _ in 0..=random.below(7) {
                    pairs.push((key, at(u64::try_from(pairs.len()).unwrap().min(rows - 1))));
                }
                order += 1;
            }
            pairs
        }
        "late" => {
            let keys = sparse(rows, random);
            let mut pairs: Vec<(u64, u64)> = keys
                .iter()
                .map(|&key| {
                    let late = random.below(20) == 0;
                    (key + if late { random.below(rows * 300) } else { 0 }, key)
                })
                .collect();
            pairs.sort_unstable();
            (0..).zip(pairs).map(|(row, (_, key))| (key, at(row))).collect()
        }
        "clumps" => {
            let slots = u64::from(locations) * 2;
            (0..)
                .zip(sparse(rows, random))
                .map(|(row, key)| {
                    let slot = row * slots / rows;
                    // January in order, December in another order.
                    let place = if slot < slots / 2 { slot } else { (slot * 7 + 3) % u64::from(locations) };
                    (key, u32::try_from(place).unwrap())
                })
                .collect()
        }
        "hashed" => {
            sparse(rows, random).into_iter().map(|key| (key, location(mix(key) >> 16, 1 << 48, locations))).collect()
        }
        "uniform1" => {
            let keys = sparse(rows, random);
            keys.into_iter().map(|key| (key, u32::try_from(random.below(u64::from(locations))).unwrap())).collect()
        }
        "uniform10" => {
            let keys = sparse(rows / 10, random);
            (0..rows)
                .map(|row| {
                    (
                        keys[usize::try_from(row / 10).unwrap()],
                        u32::try_from(random.below(u64::from(locations))).unwrap(),
                    )
                })
                .collect()
        }
        "zipf" => {
            // A Pareto rank cut at 120,000 keys: about 24 rows a key, half of them in a few heads.
            let universe = 120_000u64;
            (0..rows)
                .map(|_| {
                    let rank = (random.unit().powf(-1.0 / 0.25) - 1.0) * 6.0;
                    let rank = if rank < universe as f64 { rank as u64 } else { random.below(universe) };
                    (mix(rank) >> 8, u32::try_from(random.below(u64::from(locations))).unwrap())
                })
                .collect()
        }
        other => panic!("no layout {other}"),
    }
}

fn uuids(rows: u64, locations: u32) -> Vec<(Bytes, u32)> {
    let random = &mut Random(43);
    (0..rows)
        .map(|_| {
            let (a, b) = (random.next(), random.next());
            let text = format!(
                "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
                a >> 32,
                a >> 16 & 0xffff,
                a & 0xfff,
                b >> 52,
                b & 0xffff_ffff_ffff
            );
            (Bytes::new(text.as_bytes()), u32::try_from(random.below(u64::from(locations))).unwrap())
        })
        .collect()
}

fn build<K: Key>(pairs: &[(K, u32)], locations: u32, options: Options) -> Built<K> {
    let mut builder = Builder::new(locations, options).unwrap();
    for (key, location) in pairs {
        builder.push(key.clone(), *location, 1).unwrap();
    }
    builder.finish()
}

fn open<K: Key>(built: &Built<K>, axis: AxisType, options: Options, locations: u32) -> Index<K> {
    let names = (0..locations).map(|location| Location { partition: String::new(), group: format!("{location:08}") });
    let stats = vec![Stats::default(); usize::try_from(locations).unwrap()];
    let (root, file) = Root::new((axis, 1, options), names.collect(), stats, built).unwrap();
    let mut index = Index::new(root);
    index.load_all(&file).unwrap();
    index
}

/// Bits per row of the design's model of exact runs, for these very rows: each run's set and about three bits of boundary.
fn model<K: Key>(pairs: &[(K, u32)], locations: u32) -> f64 {
    let ln_factorial = |n: f64| if n < 2.0 { 0.0 } else { n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() };
    let mut bits = 0.0;
    let mut before: Vec<u32> = Vec::new();
    for key in pairs.chunk_by(|a, b| a.0 == b.0) {
        let mut set: Vec<u32> = key.iter().map(|pair| pair.1).collect();
        set.dedup();
        if set != before {
            let (all, some) = (f64::from(locations), set.len() as f64);
            bits += 3.0 + (ln_factorial(all) - ln_factorial(some) - ln_factorial(all - some)) / 2f64.ln();
            before = set;
        }
    }
    bits / pairs.len() as f64
}

fn measure<K: Key>(layout: &str, mut pairs: Vec<(K, u32)>, axis: AxisType, locations: u32, options: Options) {
    pairs.sort_unstable();
    let start = Clock::now();
    let built = build(&pairs, locations, options);
    let seconds = start.seconds();
    let index = open(&built, axis, options, locations);
    let report = index.report();
    let rows = pairs.len() as f64;
    let model = model(&pairs, locations);
    let allowed = 1.3 * model + 1.0 + 16384.0 * 8.0 / rows;

    let random = &mut Random(7);
    let probes: Vec<K> = (0..100_000)
        .map(|_| pairs[usize::try_from(random.below(u64::try_from(pairs.len()).unwrap())).unwrap()].0.clone())
        .collect();
    let mut out = Vec::new();
    for key in probes.iter().take(2000) {
        out.clear();
        index.point(key, &mut out);
        let from = pairs.partition_point(|pair| pair.0 < *key);
        let truth = pairs[from..].iter().take_while(|pair| pair.0 == *key);
        assert!(truth.clone().all(|pair| out.binary_search(&pair.1).is_ok()), "a location was lost");
    }
    let start = Clock::now();
    for key in &probes {
        out.clear();
        index.point(key, &mut out);
        black_box(&out);
    }
    let point = start.seconds() * 1e9 / probes.len() as f64;
    // What the machine needs for a binary search over the same rows at this moment: compare, since others share it.
    let start = Clock::now();
    for key in &probes {
        black_box(pairs.partition_point(|pair| pair.0 < *key));
    }
    let search = start.seconds() * 1e9 / probes.len() as f64;

    let mut intervals = Vec::new();
    for span in [100usize, 10_000] {
        let lows: Vec<usize> = (0..300)
            .map(|_| usize::try_from(random.below(u64::try_from(pairs.len() - span).unwrap())).unwrap())
            .collect();
        let (mut reads, mut exact) = (0usize, 0usize);
        for &low in &lows {
            let Answer::Only(got) = index.answer(&Query::Between(pairs[low].0.clone(), pairs[low + span].0.clone()))
            else {
                panic!()
            };
            let from = pairs.partition_point(|pair| pair.0 < pairs[low].0);
            let mut truth: Vec<u32> =
                pairs[from..].iter().take_while(|pair| pair.0 <= pairs[low + span].0).map(|pair| pair.1).collect();
            truth.sort_unstable();
            truth.dedup();
            assert!(truth.iter().all(|location| got.binary_search(location).is_ok()), "a location was lost");
            reads += got.len();
            exact += truth.len();
        }
        let start = Clock::now();
        for &low in &lows {
            out.clear();
            index.interval(&pairs[low].0, &pairs[low + span].0, &mut out);
            black_box(&out);
        }
        let micros = start.seconds() * 1e6 / lows.len() as f64;
        intervals.push(format!(
            "{span}: {:.2} us, {:.0} out, x{:.3}",
            micros,
            reads as f64 / lows.len() as f64,
            reads as f64 / exact as f64
        ));
    }
    let counts = report.counts;
    println!(
        "{layout:10} {locations:5} | {:6.2} bits/row (model {model:5.2}, allowed {allowed:5.2}) keys {:5.2} | reads {:.4} of {:.2} | {:4} segs max {:6} B root {:8} B | point {point:5.0} ns (binary search {search:5.0}) | {} | build {:.0} ns/row",
        report.bits_per_row(),
        report.keys_bytes as f64 * 8.0 / rows,
        counts.reads as f64 / counts.pairs as f64,
        counts.pairs as f64 / counts.keys as f64,
        report.segments,
        report.largest_lookup,
        report.root_bytes,
        intervals.join(" | "),
        seconds * 1e9 / rows,
    );
}

fn sizes(rows: u64, options: Options, only: Option<&str>) {
    for locations in [64, 4096] {
        for layout in ["sorted", "lineitem", "late", "clumps", "hashed", "uniform1", "uniform10", "zipf"] {
            if only.is_some_and(|only| only != layout) {
                continue;
            }
            measure(layout, words(layout, rows, locations), AxisType::Signed, locations, options);
        }
        if only.is_none_or(|only| only == "uuid") {
            measure("uuid", uuids(rows, locations), AxisType::Bytes, locations, options);
        }
    }
}

fn build_time(rows: u64) {
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
            // With threads the wall clock counts, and other work on the machine counts against us.
            let (start, wall) = (Clock::now(), Instant::now());
            let num_locations = u32::try_from(locations).unwrap();
            let built = parsieve::sieve::build_pairs(pairs, num_locations, Options::default(), threads).unwrap();
            let seconds = if threads == 1 { start.seconds() } else { wall.elapsed().as_secs_f64() };
            black_box(&built);
            times.push(format!("{threads} threads {seconds:.2} s ({:.2} x)", seconds / sort));
        }
        println!(
            "{rows} shuffled pairs, {locations} locations: sort_unstable {sort:.2} s, our sort {radix:.2} s, whole build {}",
            times.join(", ")
        );
    }
}

/// A delta of as many upserts as there are rows in the base, its bytes, its commit, a look through it, and the compaction.
fn update_time(rows: u64) {
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
    println!(
        "{rows} upserts of {rows} rows: {probe} changes sorted and written in {written:.2} s ({:.1} B each), read and committed in {read:.2} s, point through the view {point:.0} ns, compaction {:.2} s",
        bytes.len() as f64 / probe as f64,
        start.seconds()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().filter(|argument| argument != "--bench").collect();
    let rows = arguments.get(2).and_then(|rows| rows.parse().ok()).unwrap_or(200_000);
    match arguments.get(1).map(String::as_str) {
        Some("build") => build_time(rows),
        Some("update") => update_time(rows),
        Some("coarse") => {
            for coarsen in [
                Coarsen::Exact,
                Coarsen::Error { millionths: 5000 },
                Coarsen::Slope { thousandths: 500 },
                Coarsen::Plain { keys: 32 },
            ] {
                println!("{coarsen:?}");
                let options = Options { coarsen, ..Options::default() };
                for layout in ["late", "uniform1", "zipf"] {
                    measure(layout, words(layout, rows, 64), AxisType::Signed, 64, options);
                }
            }
        }
        _ => sizes(rows, Options::default(), arguments.get(3).map(String::as_str)),
    }
}
