//! Each bench is one file with one `run`, and one line in [`BENCHES`].

mod bloom;
mod data;
mod floor;
mod harness;
mod hash;
pub(crate) mod json;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod targets;

/// Runs the cases of a bench into the record.
type Run = fn(&plan::Plan, &mut record::Record);

/// The name to choose a bench by on the command line, and what it runs.
pub(crate) const BENCHES: &[(&str, Run)] = &[("hash", hash::run), ("bloom", bloom::run)];
