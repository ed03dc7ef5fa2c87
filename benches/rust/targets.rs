//! The speed ratios that parsieve aims for, and whether a run achieves them.

use super::floor::FLOOR;
use super::harness::{Case, size};

/// A ratio to achieve. In check cases, half of the probes are present.
struct Target {
    operation: &'static str,
    values: &'static str,
    num_bytes: usize,
    peer: &'static str,
    /// The speed relative to the peer, with AVX-512 and with AVX2.
    avx512: f64,
    avx2: f64,
}

const KIB_256: usize = 256 << 10;
const MIB_128: usize = 128 << 20;

#[rustfmt::skip]
const TARGETS: &[Target] = &[
    Target { operation: "insert", values: "int64", num_bytes: KIB_256, peer: "parquet", avx512: 8.0, avx2: 3.0 },
    Target { operation: "insert", values: "int64", num_bytes: MIB_128, peer: "parquet", avx512: 14.0, avx2: 9.0 },
    Target { operation: "check", values: "int64", num_bytes: KIB_256, peer: "parquet", avx512: 13.0, avx2: 5.5 },
    Target { operation: "check", values: "int64", num_bytes: MIB_128, peer: "parquet", avx512: 16.0, avx2: 10.0 },
    Target { operation: "insert", values: "8-24-byte strings", num_bytes: KIB_256, peer: "parquet", avx512: 7.0, avx2: 2.0 },
    Target { operation: "insert", values: "hashes", num_bytes: KIB_256, peer: "sbbf-rs-safe", avx512: 2.4, avx2: 2.4 },
    Target { operation: "check", values: "hashes", num_bytes: KIB_256, peer: "sbbf-rs-safe", avx512: 2.4, avx2: 2.4 },
    Target { operation: "insert", values: "hashes", num_bytes: MIB_128, peer: "sbbf-rs-safe", avx512: 5.0, avx2: 5.0 },
    Target { operation: "check", values: "hashes", num_bytes: MIB_128, peer: "sbbf-rs-safe", avx512: 5.0, avx2: 5.0 },
    // At most 1.05 times the time of the floor.
    Target { operation: "insert", values: "hashes", num_bytes: MIB_128, peer: FLOOR, avx512: 1.0 / 1.05, avx2: 1.0 / 1.05 },
];

/// The result for a target.
pub(crate) struct Judged {
    pub(crate) what: String,
    pub(crate) isa: &'static str,
    pub(crate) target: f64,
    pub(crate) measured: f64,
}

impl Judged {
    pub(crate) fn is_met(&self) -> bool {
        self.measured >= self.target
    }
}

/// Compares the cases that were run with their targets.
pub(crate) fn judge(cases: &[Case]) -> Vec<Judged> {
    let mut judged = vec![];
    for target in TARGETS {
        let matches_target = |case: &&Case| {
            (case.operation, case.values, case.num_bytes) == (target.operation, target.values, Some(target.num_bytes))
        };
        let Some(case) = cases.iter().find(matches_target) else { continue };
        for (isa, at_least) in [("avx512", target.avx512), ("avx2", target.avx2)] {
            if let Some(measured) = case.ratio_to(target.peer, &format!("parsieve {isa}")) {
                let what = format!("{} {}, {}", target.operation, target.values, size(target.num_bytes));
                judged.push(Judged { what: format!("{what}, × {}", target.peer), isa, target: at_least, measured });
            }
        }
    }
    judged
}

pub(crate) fn print(judged: &[Judged]) {
    if judged.is_empty() {
        return;
    }
    println!("\nTargets");
    for target in judged {
        let verdict = if target.is_met() { "met" } else { "MISSED" };
        let Judged { what, isa, target, measured } = target;
        println!("  {what:<56} {isa:<7} {measured:>6.2} of {target:>5.2}  {verdict}");
    }
}
