//! The record of a run, `benches/results/bloom-rust-<date>.json`: its cases, with the machine, the commit and the date.

use super::harness::{Case, Timing};
use super::json::{commit, machine, output, rounded, save};
use super::plan::Plan;
use super::targets::Judged;
use serde_json::{Value, json};

/// The cases of a run, in its order.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) cases: Vec<Case>,
}

impl Record {
    pub(crate) fn save(&self, plan: &Plan, targets: &[Judged]) {
        let date = chrono::Utc::now().format("%Y-%m-%d").to_string();
        let benches = plan.arguments.iter().filter(|argument| !argument.starts_with("--"));
        let suffix: String = benches.map(|name| format!("-{name}")).collect();
        save(&format!("bloom-rust-{date}{suffix}.json"), &self.to_json(plan, targets, &date));
    }

    fn to_json(&self, plan: &Plan, targets: &[Judged], date: &str) -> Value {
        let mut how = vec!["cargo bench --locked --bench main".to_owned()];
        if !plan.arguments.is_empty() {
            how.push("--".to_owned());
            how.extend_from_slice(&plan.arguments);
        }
        json!({
            "date": date,
            "commit": commit(),
            "how": how.join(" "),
            "rustc": output("rustc", &["--version"]),
            "unit": "nanoseconds per value",
            "machine": machine(),
            "cases": self.cases.iter().map(case).collect::<Vec<_>>(),
            "targets": targets.iter().map(target).collect::<Vec<_>>(),
        })
    }
}

fn case(case: &Case) -> Value {
    let timing = |timing: &Timing| {
        json!({
            "name": timing.name,
            "min": rounded(timing.min),
            "median": rounded(timing.median),
            "ratio": case.ratio(&timing.name).map(rounded),
        })
    };
    json!({
        "operation": case.operation,
        "values": case.values,
        "num_bytes": case.num_bytes,
        "num_values": case.num_values,
        "ratio_to": case.peer,
        "timings": case.timings.iter().map(timing).collect::<Vec<_>>(),
    })
}

fn target(target: &Judged) -> Value {
    json!({
        "what": target.what,
        "instruction_set": target.isa,
        "target": rounded(target.target),
        "measured": rounded(target.measured),
        "met": target.is_met(),
    })
}
