//! Writes records as JSON, and describes the machine and the commit that they were measured on.

use parsieve::isa::InstructionSet;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes a record to `benches/results`, and prints its path.
pub(crate) fn save(name: &str, record: &Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join("results");
    fs::create_dir_all(&folder).expect("benches/results can be created");
    fs::write(folder.join(name), format!("{record:#}\n")).expect("benches/results can be written");
    println!("\nbenches/results/{name}");
}

/// Returns a description of this machine.
pub(crate) fn machine() -> Value {
    let instruction_sets: Vec<_> = InstructionSet::all().into_iter().map(InstructionSet::name).collect();
    let read = |path: &str| fs::read_to_string(path).map_or(String::new(), |text| text.trim().to_owned());
    json!({
        "cpu": cpu(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "instruction_sets": instruction_sets,
        "second_cache": read("/sys/devices/system/cpu/cpu0/cache/index2/size"),
        "third_cache": read("/sys/devices/system/cpu/cpu0/cache/index3/size"),
        "huge_pages": read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "os": std::env::consts::OS,
        "kernel": read("/proc/sys/kernel/osrelease"),
        "load_at_end": read("/proc/loadavg"),
    })
}

fn cpu() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    match model {
        Some((_, model)) => model.to_owned(),
        None => output("sysctl", &["-n", "machdep.cpu.brand_string"]),
    }
}

/// Returns the current commit, followed by `+` if there are uncommitted changes.
pub(crate) fn commit() -> String {
    let changed = output("git", &["status", "--porcelain", "--", ":!benches/results"]);
    output("git", &["rev-parse", "HEAD"]) + if changed.is_empty() { "" } else { "+" }
}

/// Returns the output of a program, or an empty string if the program does not exist.
pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    output.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Rounds a measurement to four decimal places.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
