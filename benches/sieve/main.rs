//! Measures the Sieve index on the layouts of the design: bits per row, reads, latencies, build, update and compaction.
//!
//! `cargo bench --bench sieve` measures everything and writes `benches/results/sieve-<date>.json`. `-- --smoke` runs
//! everything once on little data. To run one part, pass `-- sizes 2000000 [layout]`, `-- build 20000000`,
//! `-- update 1000000`, `-- compaction 2000000`, `-- coarse 2000000` or `-- absent 2000000 [layout]`. `-- large 600000000 [folder]` has a record of its
//! own, and continues after an interruption. Results are checked before they are timed.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "benches read clocks and arguments")]
#![allow(clippy::print_stdout, reason = "the table is what benches are for")]

mod absent;
mod clock;
#[path = "../rust/json.rs"]
mod json;
mod large;
mod layouts;
mod maintain;
mod measure;
mod memory;

use std::path::PathBuf;

use json::{commit, machine, output};
use large::large;
use layouts::{LAYOUTS, uuids, words};
use maintain::{build_time, capped_build, capped_compaction, compaction_memory, update_time};
use measure::measure;
use parsieve::sieve::{AxisType, Bytes, Coarsen, Options};
use serde_json::{Value, json};

fn sizes(rows: u64, only: Option<&str>) -> Vec<Value> {
    let (mut lines, options) = (Vec::new(), Options::default());
    for locations in [64, 4096] {
        for layout in LAYOUTS.into_iter().filter(|layout| only.is_none_or(|only| only == *layout)) {
            lines.push(measure(layout, words(layout, rows, locations), AxisType::Signed, locations, options));
        }
        if only.is_none_or(|only| only == "uuid") {
            lines.push(measure("uuid", uuids(rows, locations), AxisType::Bytes, locations, options));
        }
    }
    lines
}

/// Measures what version 2 stores against missing keys.
fn absent_keys(rows: u64, only: Option<&str>) -> Vec<Value> {
    let mut lines = Vec::new();
    for locations in [64, 4096] {
        for layout in LAYOUTS.into_iter().filter(|layout| only.is_none_or(|only| only == *layout)) {
            let pairs = words(layout, rows, locations);
            lines.extend(absent::absent(layout, pairs, AxisType::Signed, locations, |key| key + 1 + key % 7));
        }
        if only.is_none_or(|only| only == "uuid") {
            let other = |key: &Bytes| Bytes::new(&[key.as_slice(), b"0"].concat());
            lines.extend(absent::absent("uuid", uuids(rows, locations), AxisType::Bytes, locations, other));
        }
    }
    absent::print_targets(&lines);
    lines
}

fn coarse(rows: u64) {
    let coarsenings = [
        Coarsen::Exact,
        Coarsen::Error { millionths: 5000 },
        Coarsen::Slope { thousandths: 500 },
        Coarsen::Plain { keys: 32 },
    ];
    for coarsen in coarsenings {
        println!("{coarsen:?}");
        let options = Options { coarsen, ..Options::default() };
        for layout in ["late", "uniform1", "zipf"] {
            measure(layout, words(layout, rows, 64), AxisType::Signed, 64, options);
        }
    }
}

/// Measures everything, at the sizes of the design or with little data.
fn all(smoke: bool) {
    let size = |full: u64, small: u64| if smoke { small } else { full };
    let layouts = sizes(size(2_000_000, 20_000), None);
    let builds = build_time(size(20_000_000, 50_000));
    let absent = absent_keys(size(2_000_000, 20_000), None);
    let update = update_time(size(1_000_000, 5_000));
    let compactions = compaction_memory(size(2_000_000, 50_000));
    if smoke {
        return;
    }
    let results = json!({ "layouts": layouts, "absent_keys": absent, "builds": builds, "update": update, "compactions": compactions });
    save("sieve", "cargo bench --locked --bench sieve", results);
}

/// Measures any number of rows, in files of a folder and with limited memory.
fn at_large(rows: u64, folder: Option<&str>) {
    let folder = folder.map_or_else(|| std::env::temp_dir().join("parsieve-large"), PathBuf::from);
    let builds = [64, 4096].map(|locations| large(rows, locations, &folder.join(locations.to_string())));
    let how = format!("cargo bench --locked --bench sieve -- large {rows}");
    save("sieve-large", &how, json!({ "builds": builds }));
}

/// Writes a record with `results`, and with the date, the commit and the machine.
fn save(name: &str, how: &str, mut results: Value) {
    let date = chrono::Utc::now().format("%Y-%m-%d").to_string();
    let mut record = json!({
        "date": date,
        "commit": commit(),
        "how": how,
        "rustc": output("rustc", &["--version"]),
        "clock": "CPU time of the thread or of all threads, unless a name says wall",
        "machine": machine(),
    });
    let record_members = record.as_object_mut().expect("an object");
    record_members.append(results.as_object_mut().expect("an object"));
    json::save(&format!("{name}-{date}.json"), &record);
}

fn main() {
    let arguments: Vec<String> = std::env::args().filter(|argument| argument != "--bench").collect();
    let rows = arguments.get(2).and_then(|rows| rows.parse().ok()).unwrap_or(200_000);
    match arguments.get(1).map(String::as_str) {
        None => all(false),
        Some("--smoke") => all(true),
        Some("sizes") => drop(sizes(rows, arguments.get(3).map(String::as_str))),
        Some("absent") => drop(absent_keys(rows, arguments.get(3).map(String::as_str))),
        Some("build") => drop(build_time(rows)),
        Some("update") => drop(update_time(rows)),
        Some("compaction") => drop(compaction_memory(rows)),
        // The other parts start this one as a separate process.
        Some("capped-build") => capped_build(rows, arguments[3].parse().unwrap()),
        Some("capped-compaction") => capped_compaction(rows, arguments[3].parse().unwrap()),
        Some("coarse") => coarse(rows),
        Some("large") => at_large(rows, arguments.get(3).map(String::as_str)),
        Some(other) => {
            panic!("{other} means nothing here: sizes, absent, build, update, compaction, coarse, large or --smoke")
        }
    }
}
