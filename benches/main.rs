//! Rust benchmarks, which compare parsieve with similar crates. See `benches/README.md` for how to run and read them.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "benches read clocks, arguments and files")]
#![allow(clippy::print_stdout, reason = "benches print their results")]

mod rust;

use rust::plan::Plan;
use rust::record::Record;
use rust::targets;

fn main() {
    let plan = Plan::from_arguments();
    let mut record = Record::default();
    for (name, run) in rust::BENCHES {
        if plan.runs(name) {
            run(&plan, &mut record);
        }
    }
    // A smoke run is too short to compare with targets.
    let targets = if plan.smoke { vec![] } else { targets::judge(&record.cases) };
    targets::print(&targets);
    if plan.saves() {
        record.save(&plan, &targets);
    }
}
