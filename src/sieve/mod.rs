//! The Sieve index: for a key, or an interval of keys, the locations that can hold a matching row.
//!
//! Blocks address, runs answer. `docs/design/sieve-layout.md` says why it is laid out so, `docs/format/sieve-v1.md` what
//! each byte means. The law of every file here: a location that holds a live matching row is never left out.

mod axis;
mod bits;
mod run;
mod set;
mod split;
