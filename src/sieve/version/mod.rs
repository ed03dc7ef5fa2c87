//! Versions: deltas on a base, lookups as of an instant, and compaction.

pub(in crate::sieve) mod compact;
pub(in crate::sieve) mod delta;
pub(in crate::sieve) mod rebuild;
pub(in crate::sieve) mod timeline;
pub(in crate::sieve) mod unit_compact;
pub(in crate::sieve) mod unit_delta;
pub(in crate::sieve) mod unit_timeline;
