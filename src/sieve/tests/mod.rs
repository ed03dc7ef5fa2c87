//! Tests of the whole index.

pub(in crate::sieve) mod absent;
pub(in crate::sieve) mod invariants;
pub(in crate::sieve) mod lists;
pub(in crate::sieve) mod model;
pub(in crate::sieve) mod thesis_errors;
pub(in crate::sieve) mod unit_parts;
pub(in crate::sieve) mod units;
