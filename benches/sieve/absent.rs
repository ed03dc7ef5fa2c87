//! Measures what fingerprints and gaps cost and save: bits per row, reads of missing keys, and the time of points as
//! multiples of one access to a random block of memory in the same run.

use std::hint::black_box;

use parsieve::sieve::{AxisType, Format, Index, Key, Options};

use crate::clock::Clock;
use crate::json::rounded;
use crate::layouts::Random;
use crate::measure::{build, open};
use serde_json::{Value, json};

/// The bytes of memory in which random blocks are read. They exceed the caches of most machines.
const MEMORY: usize = 256 << 20;

/// Layouts in which neighboring keys are in unrelated locations.
const SCATTERED: [&str; 4] = ["hashed", "uniform1", "uniform10", "uuid"];

/// The target for a point on scattered keys: at most the time in which this many random blocks are read.
const MOST_BLOCKS: f64 = 50.0;

/// Returns the nanoseconds of one of many independent reads of a random block of 32 bytes.
fn random_block(memory: &[u64]) -> f64 {
    let random = &mut Random(3);
    let places: Vec<usize> =
        (0..1_000_000).map(|_| usize::try_from(random.below(memory.len() as u64 / 4)).unwrap() * 4).collect();
    let start = Clock::now();
    let sum = places.iter().fold(0u64, |sum, &at| sum.wrapping_add(memory[at]).wrapping_add(memory[at + 3]));
    black_box(sum);
    start.seconds() * 1e9 / places.len() as f64
}

fn time<K: Key>(index: &Index<K>, probes: &[K]) -> (f64, f64) {
    let (mut out, mut reads) = (Vec::new(), 0);
    let start = Clock::now();
    for key in probes {
        out.clear();
        index.point(key, &mut out);
        reads += out.len();
    }
    (start.seconds() * 1e9 / probes.len() as f64, reads as f64 / probes.len() as f64)
}

/// Measures a layout without and with fingerprints. `absent` returns a key that does not occur, close to the given key.
pub(crate) fn absent<K: Key>(
    layout: &str,
    mut pairs: Vec<(K, u32)>,
    axis: AxisType,
    locations: u32,
    absent: impl Fn(&K) -> K,
) -> Vec<Value> {
    pairs.sort_unstable();
    let random = &mut Random(7);
    let mut any = || usize::try_from(random.below(u64::try_from(pairs.len()).unwrap())).unwrap();
    let present: Vec<K> = (0..100_000).map(|_| pairs[any()].0.clone()).collect();
    let exists = |key: &K| pairs.binary_search_by(|pair| pair.0.cmp(key)).is_ok();
    let missing: Vec<K> = (0..100_000).map(|_| absent(&pairs[any()].0)).filter(|key| !exists(key)).collect();
    let memory: Vec<u64> = (0..MEMORY as u64 / 8).collect();
    let mut lines = Vec::new();
    for fingerprints in [Some(false), None, Some(true)] {
        let options = Options { format: Format::V2, fingerprints, ..Options::default() };
        let start = Clock::now();
        let built = build(&pairs, locations, options);
        let seconds = start.seconds();
        let (mut index, file) = open(&built, axis, options, locations);
        // In a build with keys sections, they would follow the lookup sections.
        let rows = pairs.len() as f64;
        let count = |flag: u8| built.segments.iter().filter(|segment| segment.lookup[5] & flag != 0).count();
        let (with_fingerprints, with_gaps) = (count(4), count(8));
        let largest = built.segments.iter().map(|segment| segment.lookup.len()).max().unwrap_or(0);
        // Clones share their decoded segments.
        let (mut stored, _) = open(&built, axis, options, locations);
        stored.set_cache_bytes(0);
        index.set_cache_bytes(usize::MAX);
        index.decode_all();
        let block = random_block(&memory);
        let (stored_ns, reads) = time(&stored, &present);
        let (ns, _) = [time(&index, &present), time(&index, &present)]
            .into_iter()
            .reduce(|a, b| if a.0 < b.0 { a } else { b })
            .unwrap();
        let (stored_absent_ns, _) = time(&stored, &missing);
        let (absent_ns, absent_reads) = time(&index, &missing);
        let name = fingerprints.map_or("automatic", |on| if on { "on" } else { "off" });
        println!(
            "{layout:10} {locations:5} {name:9} | {:6.2} bits, {} segments ({with_fingerprints} with fingerprints, {with_gaps} with gaps), at most {largest} B | reads {reads:.3}, absent {absent_reads:.4} | point {ns:.0} ns = {:.0} blocks, as stored {stored_ns:.0}, absent {absent_ns:.0}, as stored {stored_absent_ns:.0} (block {block:.1}) | decoded {:.1} B/row, build {:.0} ns/row",
            file.len() as f64 * 8.0 / rows,
            built.segments.len(),
            ns / block,
            index.decoded_bytes() as f64 / rows,
            seconds * 1e9 / rows,
        );
        lines.push(json!({
            "layout": layout,
            "locations": locations,
            "fingerprints": name,
            "rows": pairs.len(),
            "bits_per_row": rounded(file.len() as f64 * 8.0 / rows),
            "segments": built.segments.len(),
            "segments_with_fingerprints": with_fingerprints,
            "segments_with_gaps": with_gaps,
            "largest_lookup_bytes": largest,
            "reads": rounded(reads),
            "absent_reads": rounded(absent_reads),
            "point_ns": rounded(ns),
            "point_as_stored_ns": rounded(stored_ns),
            "absent_ns": rounded(absent_ns),
            "absent_as_stored_ns": rounded(stored_absent_ns),
            "random_block_ns": rounded(block),
            "point_blocks": rounded(ns / block),
            "build_ns_per_row": rounded(seconds * 1e9 / rows),
        }));
    }
    lines
}

/// Prints whether points on scattered keys meet their target, in the index that a build makes by default.
pub(crate) fn print_targets(lines: &[Value]) {
    println!("\nPoints on scattered keys, as multiples of one read of a random block");
    for line in lines.iter().filter(|line| line["fingerprints"] == "automatic") {
        let (Some(layout), Some(blocks)) = (line["layout"].as_str(), line["point_blocks"].as_f64()) else { continue };
        if SCATTERED.contains(&layout) {
            let verdict = if blocks <= MOST_BLOCKS { "met" } else { "MISSED" };
            println!("  {layout:10} {:5} {blocks:5.0} of {MOST_BLOCKS:.0}  {verdict}", line["locations"]);
        }
    }
}
