//! `benches/results/bloom-rust-<date>.json`: the cases of a run, with the machine, the commit and the date.

use super::harness::Case;
use super::plan::Plan;
use super::targets::Judged;
use parsieve::isa::InstructionSet;
use std::fs;
use std::path::Path;
use std::process::Command;

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

fn machine() -> String {
    let sets = InstructionSet::all().into_iter().map(|set| text(set.name()));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let read = |path: &str| fs::read_to_string(path).map_or(String::new(), |text| text.trim().to_owned());
    object(&[
        ("cpu", text(&cpu())),
        ("cores", cores.to_string()),
        ("instruction_sets", format!("[{}]", sets.collect::<Vec<_>>().join(", "))),
        ("second_cache", text(&read("/sys/devices/system/cpu/cpu0/cache/index2/size"))),
        ("third_cache", text(&read("/sys/devices/system/cpu/cpu0/cache/index3/size"))),
        ("huge_pages", text(&read("/sys/kernel/mm/transparent_hugepage/enabled"))),
        ("os", text(std::env::consts::OS)),
        ("kernel", text(&read("/proc/sys/kernel/osrelease"))),
        ("load_at_end", text(&read("/proc/loadavg"))),
    ])
}

fn cpu() -> String {
    let of_linux = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = of_linux.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    match model {
        Some((_, model)) => model.to_owned(),
        None => output("sysctl", &["-n", "machdep.cpu.brand_string"]),
    }
}

/// The commit, with a `+` where files differ from it.
fn commit() -> String {
    let changed = output("git", &["status", "--porcelain", "--", ":!benches/results"]);
    output("git", &["rev-parse", "HEAD"]) + if changed.is_empty() { "" } else { "+" }
}

/// What a program prints, or nothing where there is no such program.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn number(number: f64) -> String {
    format!("{number:.4}")
}

fn line(members: &[(&str, String)]) -> String {
    let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}", members.join(", "))
}

fn object(members: &[(&str, String)]) -> String {
    let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{\n{}\n}}", members.join(",\n"))
}

fn list(values: impl Iterator<Item = String>) -> String {
    format!("[\n{}\n]", values.collect::<Vec<_>>().join(",\n"))
}
