//! `benches/results/bloom-rust-<date>.json`: the cases of a run, with the machine, the commit and the date.

use super::harness::Case;
use super::json::{commit, line, list, machine, number, object, output, text};
use super::plan::Plan;
use super::targets::Judged;
use std::fs;
use std::path::Path;

/// The cases of a run, in its order.
#[derive(Default)]
pub(crate) struct Record {
    pub(crate) cases: Vec<Case>,
}

impl Record {
    pub(crate) fn save(&self, plan: &Plan, targets: &[Judged]) {
        let date = chrono::Utc::now().format("%Y-%m-%d").to_string();
        let part: String =
            plan.arguments.iter().filter(|word| !word.starts_with("--")).map(|word| format!("-{word}")).collect();
        let name = format!("bloom-rust-{date}{part}.json");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join("results");
        fs::create_dir_all(&folder).expect("benches/results can be made");
        fs::write(folder.join(&name), self.json(plan, targets, &date)).expect("benches/results can be written");
        println!("\nbenches/results/{name}");
    }

    fn json(&self, plan: &Plan, targets: &[Judged], date: &str) -> String {
        let mut how = vec!["cargo bench --locked --bench main".to_owned()];
        if !plan.arguments.is_empty() {
            how.push("--".to_owned());
            how.extend_from_slice(&plan.arguments);
        }
        object(&[
            ("date", text(date)),
            ("commit", text(&commit())),
            ("how", text(&how.join(" "))),
            ("rustc", text(&output("rustc", &["--version"]))),
            ("unit", text("nanoseconds per value")),
            ("machine", machine()),
            ("cases", list(self.cases.iter().map(case))),
            ("targets", list(targets.iter().map(target))),
        ]) + "\n"
    }
}

fn case(case: &Case) -> String {
    let timings = case.timings.iter().map(|timing| {
        let ratio = case.ratio(&timing.name).map_or("null".to_owned(), number);
        line(&[
            ("name", text(&timing.name)),
            ("min", number(timing.min)),
            ("median", number(timing.median)),
            ("ratio", ratio),
        ])
    });
    object(&[
        ("operation", text(case.operation)),
        ("values", text(case.values)),
        ("num_bytes", case.num_bytes.map_or("null".to_owned(), |num_bytes| num_bytes.to_string())),
        ("num_values", case.num_values.to_string()),
        ("ratio_to", text(case.peer)),
        ("timings", list(timings)),
    ])
}

fn target(target: &Judged) -> String {
    line(&[
        ("what", text(&target.what)),
        ("instruction_set", text(target.isa)),
        ("target", number(target.target)),
        ("measured", number(target.measured)),
        ("met", target.is_met().to_string()),
    ])
}
