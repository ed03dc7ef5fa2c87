//! Limits the memory of a process, and measures its peak.

use std::process::Command;

/// Bytes of address space that a limited process may have.
pub(crate) const CAP: u64 = 2 << 30;

/// Returns the peak memory of this process in KiB.
pub(crate) fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Limits the memory of this process. An allocation beyond the limit aborts it.
#[cfg(target_os = "linux")]
pub(crate) fn limit() {
    let limit = libc::rlimit { rlim_cur: CAP, rlim_max: CAP };
    // SAFETY: `limit` is a valid place for the call to read from.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn limit() {}

/// Runs this program as a new process, so that its memory starts from zero, and returns the numbers of its last line.
pub(crate) fn in_own_process<const COUNT: usize>(arguments: &[String]) -> [f64; COUNT] {
    let done = Command::new(std::env::current_exe().unwrap()).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let numbers: Vec<f64> = text.lines().last().unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}
