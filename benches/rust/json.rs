//! The words of a record: JSON, the machine and the commit.

use parsieve::isa::InstructionSet;
use std::fs;
use std::process::Command;

/// The machine that a record was made on.
pub(crate) fn machine() -> String {
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
pub(crate) fn commit() -> String {
    let changed = output("git", &["status", "--porcelain", "--", ":!benches/results"]);
    output("git", &["rev-parse", "HEAD"]) + if changed.is_empty() { "" } else { "+" }
}

/// What a program prints, or nothing where there is no such program.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

pub(crate) fn text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

pub(crate) fn number(number: f64) -> String {
    format!("{number:.4}")
}

pub(crate) fn line(members: &[(&str, String)]) -> String {
    let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}", members.join(", "))
}

pub(crate) fn object(members: &[(&str, String)]) -> String {
    let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{\n{}\n}}", members.join(",\n"))
}

pub(crate) fn list(values: impl Iterator<Item = String>) -> String {
    format!("[\n{}\n]", values.collect::<Vec<_>>().join(",\n"))
}
