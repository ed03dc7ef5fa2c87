//! One segment: encoded by a build, read by lookups.

pub(in crate::sieve) mod absent;
pub(in crate::sieve) mod block;
pub(in crate::sieve) mod cache_entry;
pub(in crate::sieve) mod coarsen;
pub(in crate::sieve) mod decoded;
pub(in crate::sieve) mod encode;
pub(in crate::sieve) mod fingerprint;
pub(in crate::sieve) mod packed;
pub(in crate::sieve) mod plan;
pub(in crate::sieve) mod runs;
pub(in crate::sieve) mod write;
