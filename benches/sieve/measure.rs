//! Measures one layout: bits per row, reads compared with min/max and with a Bloom filter for each location, and the time
//! of lookups.

use std::hint::black_box;

use parsieve::bloom::sizing::{Model, Sizes, optimal_blocks};
use parsieve::sieve::{
    Answer, AxisType, Builder, Built, Index, IndexInfo, Key, Location, Lookup, Options, Query, Root, Stats,
};

use crate::clock::Clock;
use crate::json::rounded;
use crate::layouts::Random;
use serde_json::{Value, json};

/// Number of keys in the queried intervals.
const SPANS: [usize; 3] = [1, 1000, 1_000_000];

/// The false positive rate of the Bloom filters in the comparison.
const FPP: f64 = 0.01;

/// Builds an index from sorted pairs.
pub(crate) fn build<K: Key>(pairs: &[(K, u32)], locations: u32, options: Options) -> Built<K> {
    let mut builder = Builder::new(locations, options).unwrap();
    for (key, location) in pairs {
        builder.push(key.clone(), *location, 1).unwrap();
    }
    builder.finish()
}

pub(crate) fn open<K: Key>(built: &Built<K>, axis: AxisType, options: Options, locations: u32) -> (Index<K>, Vec<u8>) {
    let names = (0..locations).map(|location| Location { partition: String::new(), group: format!("{location:08}") });
    let stats = vec![Stats::default(); usize::try_from(locations).unwrap()];
    let (root, file) = Root::new(IndexInfo { axis, instant: 1, options }, names.collect(), stats, built).unwrap();
    let mut index = Index::new(root);
    index.load_all(&file).unwrap();
    (index, file)
}

/// Returns the number of locations of a point.
fn point_of<K: Key>(index: &Index<K>, key: &K) -> usize {
    let mut out = Vec::new();
    index.point(key, &mut out);
    out.len()
}

/// Returns the nanoseconds of a point lookup.
fn time_points<K: Key>(index: &Index<K>, probes: &[K]) -> f64 {
    let mut out = Vec::new();
    let start = Clock::now();
    for key in probes {
        out.clear();
        index.point(key, &mut out);
        black_box(&out);
    }
    start.seconds() * 1e9 / probes.len() as f64
}

/// Returns the microseconds of a point lookup that first loads its segment (without the read itself), and the average and
/// largest number of bytes in the range to read.
fn time_cold_points<K: Key>(mut index: Index<K>, file: &[u8], probes: &[K]) -> (f64, f64, u64) {
    let (mut bytes, mut largest, mut seconds, mut out) = (0, 0, 0.0, Vec::new());
    for key in probes {
        // Drop the segments that other lookups loaded.
        index = Index::new(index.root().clone());
        let Lookup::Need(needs) = index.lookup(&Query::Point(key.clone())) else { panic!("nothing is loaded") };
        assert_eq!(needs.len(), 1, "a cold point takes one read");
        let (at, extent) = (needs[0].segment, needs[0].extent);
        (bytes, largest) = (bytes + extent.len, largest.max(extent.len));
        let from = usize::try_from(extent.offset).unwrap();
        let range = &file[from..from + usize::try_from(extent.len).unwrap()];
        out.clear();
        let start = Clock::now();
        index.load(at, range).unwrap();
        index.point(key, &mut out);
        seconds += start.seconds();
        black_box(&out);
    }
    (seconds * 1e6 / probes.len() as f64, bytes as f64 / probes.len() as f64, largest)
}

/// Returns the bits per row of the design's model of exact runs: the set of each run and about three bits for its boundary.
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

/// Returns the number of locations that min/max statistics keep for an existing key.
fn min_max_reads<K: Key>(probes: &[K], index: &Index<K>) -> f64 {
    let spans: Vec<_> = index.root().stats.iter().filter_map(|stats| stats.span.as_ref()).collect();
    let some: Vec<_> = probes.iter().step_by(probes.len().div_ceil(500)).collect();
    let reads = some.iter().map(|key| spans.iter().filter(|span| span.least <= **key && **key <= span.most).count());
    reads.sum::<usize>() as f64 / some.len() as f64
}

/// Returns the bits per row of Bloom filters with a given false positive rate.
fn bloom_bits<K: Key>(pairs: &[(K, u32)], locations: u32, fpp: f64) -> f64 {
    let mut distinct = vec![0u64; usize::try_from(locations).unwrap()];
    for key in pairs.chunk_by(|a, b| a == b) {
        distinct[usize::try_from(key[0].1).unwrap()] += 1;
    }
    let blocks = distinct.iter().filter(|&&count| count > 0);
    let blocks = blocks.map(|&count| optimal_blocks(count, fpp, Sizes::Any, Model::Exact).unwrap());
    blocks.sum::<u64>() as f64 * 256.0 / pairs.len() as f64
}

/// Returns the bits per row of Bloom filters that read 1.05 times as many locations as an exact index.
fn bloom_bits_of_equal_reads<K: Key>(pairs: &[(K, u32)], locations: u32, optimum: f64) -> f64 {
    let fpp = (0.05 * optimum / (f64::from(locations) - optimum).max(1.0)).min(0.5);
    bloom_bits(pairs, locations, fpp)
}

/// Returns the locations of the rows between two keys.
fn truth<K: Key>(pairs: &[(K, u32)], low: &K, high: &K) -> Vec<u32> {
    let from = pairs.partition_point(|pair| pair.0 < *low);
    let mut found: Vec<u32> = pairs[from..].iter().take_while(|pair| pair.0 <= *high).map(|pair| pair.1).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Checks that no location is lost, and measures. Prints a line and returns it as an object of the record.
pub(crate) fn measure<K: Key>(
    layout: &str,
    mut pairs: Vec<(K, u32)>,
    axis: AxisType,
    locations: u32,
    options: Options,
) -> Value {
    pairs.sort_unstable();
    let start = Clock::now();
    let built = build(&pairs, locations, options);
    let seconds = start.seconds();
    let (mut index, file) = open(&built, axis, options, locations);
    // One index keeps no decoded segment, the other one keeps all of them.
    let (mut stored, _) = open(&built, axis, options, locations);
    stored.set_cache_bytes(0);
    index.set_cache_bytes(usize::MAX);
    index.decode_all();
    let (report, rows, model) = (index.report(), pairs.len() as f64, model(&pairs, locations));
    let allowed = 1.3 * model + 1.0 + 16384.0 * 8.0 / rows;

    let random = &mut Random(7);
    let mut any = |bound: usize| usize::try_from(random.below(u64::try_from(bound).unwrap())).unwrap();
    let probes: Vec<K> = (0..100_000).map(|_| pairs[any(pairs.len())].0.clone()).collect();
    let mut out = Vec::new();
    for key in probes.iter().take(2000) {
        out.clear();
        index.point(key, &mut out);
        assert!(truth(&pairs, key, key).iter().all(|at| out.binary_search(at).is_ok()), "a location was lost");
    }
    for key in probes.iter().take(2000) {
        let point = Query::Point(key.clone());
        assert_eq!(index.answer(&point), stored.answer(&point));
    }
    let probed: Vec<usize> = probes.iter().step_by(29).map(|key| point_of(&index, key)).collect();
    let stored_point = time_points(&stored, &probes);
    let point = time_points(&index, &probes).min(time_points(&index, &probes));
    let (cold, range, largest_range) = time_cold_points(stored, &file, &probes[..500]);
    // The time of a binary search in the same rows at the same moment, for comparison on a shared machine.
    let start = Clock::now();
    for key in &probes {
        black_box(pairs.partition_point(|pair| pair.0 < *key));
    }
    let search = start.seconds() * 1e9 / probes.len() as f64;

    let mut intervals = Vec::new();
    for span in SPANS {
        let span = span.min(pairs.len() / 2);
        let lows: Vec<usize> = (0..if span < 100_000 { 300 } else { 20 }).map(|_| any(pairs.len() - span)).collect();
        let (mut reads, mut exact) = (0usize, 0usize);
        for &low in &lows {
            let (low, high) = (&pairs[low].0, &pairs[low + span - 1].0);
            let Answer::Only(got) = index.answer(&Query::Between(low.clone(), high.clone())) else { panic!() };
            let truth = truth(&pairs, low, high);
            assert!(truth.iter().all(|location| got.binary_search(location).is_ok()), "a location was lost");
            (reads, exact) = (reads + got.len(), exact + truth.len());
        }
        let start = Clock::now();
        for &low in &lows {
            out.clear();
            index.interval(&pairs[low].0, &pairs[low + span - 1].0, &mut out);
            black_box(&out);
        }
        let (micros, count) = (start.seconds() * 1e6 / lows.len() as f64, lows.len() as f64);
        intervals.push((span, micros, reads as f64 / count, reads as f64 / exact as f64));
    }
    let (min_max, bloom_bits) = (min_max_reads(&probes, &index), bloom_bits(&pairs, locations, FPP));
    let counts = report.counts;
    let (reads, optimum) = (counts.reads as f64 / counts.keys as f64, counts.pairs as f64 / counts.keys as f64);
    let bloom_reads = optimum + FPP * (f64::from(locations) - optimum);
    let equal_bits = bloom_bits_of_equal_reads(&pairs, locations, optimum);
    if options == Options::default() {
        assert!(reads <= optimum * 1.05 && reads <= min_max * 1.05, "{layout}: {reads} reads of {optimum}");
        assert!(report.bits_per_row() <= equal_bits, "{layout}: a Bloom filter of equal reads is smaller");
        assert!(rows < 1e6 || report.bits_per_row() <= allowed, "{layout}: more bits than allowed");
        assert!(report.largest_lookup <= 64 << 10, "{layout}: a cold point reads more than 64 KiB");
    }
    let long = probed.iter().sum::<usize>() as f64 / probed.len() as f64;
    let shown: Vec<String> =
        intervals.iter().map(|(span, micros, out, _)| format!("{span}: {micros:.1} us for {out:.0}")).collect();
    println!(
        "{layout:10} {locations:5} | {:6.2} bits (model {model:5.2}, allowed {allowed:5.2}, Bloom {bloom_bits:5.2}) keys {:6.2} | reads {reads:.3} of {optimum:.3}, min/max {min_max:.0}, Bloom {bloom_reads:.1} | {:4} segs max {:6} B root {:8} B | point {point:5.0} ns for {long:.0}, as stored {stored_point:5.0}, cold {cold:4.0} us and {range:.0} B (binary search {search:5.0} ns) | {} | build {:.0} ns/row",
        report.bits_per_row(),
        report.keys_bytes as f64 * 8.0 / rows,
        report.segments,
        report.largest_lookup,
        report.root_bytes,
        shown.join(", "),
        seconds * 1e9 / rows,
    );
    let intervals = intervals.iter().map(|&(span, micros, out, ratio)| {
        json!({
            "keys": span,
            "us": rounded(micros),
            "locations": rounded(out),
            "ns_per_location": rounded(micros * 1e3 / out),
            "of_optimum": rounded(ratio),
        })
    });
    json!({
        "layout": layout,
        "locations": locations,
        "rows": pairs.len(),
        "bits_per_row": rounded(report.bits_per_row()),
        "model_bits": rounded(model),
        "allowed_bits": rounded(allowed),
        "bloom_bits": rounded(bloom_bits),
        "bloom_bits_of_1.05_times_the_optimal_reads": rounded(equal_bits),
        "keys_bits_for_maintenance": rounded(report.keys_bytes as f64 * 8.0 / rows),
        "reads": rounded(reads),
        "optimal_reads": rounded(optimum),
        "min_max_reads": rounded(min_max),
        "bloom_reads": rounded(bloom_reads),
        "in_vain": rounded(reads - optimum),
        "in_vain_by_min_max": rounded(min_max - optimum),
        "in_vain_by_bloom": rounded(bloom_reads - optimum),
        "segments": report.segments,
        "largest_lookup_bytes": report.largest_lookup,
        "root_bytes": report.root_bytes,
        "point_ns": rounded(point),
        "point_locations": rounded(long),
        "point_ns_per_location": rounded(point / long),
        "point_as_stored_ns": rounded(stored_point),
        "cold_point_us_beside_its_one_read": rounded(cold),
        "cold_point_bytes": rounded(range),
        "cold_point_most_bytes": largest_range,
        "decoded_bytes_per_row": rounded(index.decoded_bytes() as f64 / rows),
        "binary_search_ns": rounded(search),
        "build_ns_per_row": rounded(seconds * 1e9 / rows),
        "intervals": intervals.collect::<Vec<_>>(),
    })
}
