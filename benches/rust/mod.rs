//! The benches. Each bench is one file with a function `run`, listed in [`BENCHES`].

mod bloom;
mod data;
mod floor;
mod harness;
mod hash;
pub(crate) mod json;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod targets;

/// Runs the cases of a bench and adds them to the record.
type Run = fn(&plan::Plan, &mut record::Record);

/// The name of each bench on the command line, and its function.
pub(crate) const BENCHES: &[(&str, Run)] = &[("hash", hash::run), ("bloom", bloom::run)];
