//! Versions: deltas on a base, lookups as of an instant, and compaction.

pub(in crate::sieve) mod compact;
pub(in crate::sieve) mod delta;
pub(in crate::sieve) mod timeline;
pub(in crate::sieve) mod unit_delta;
pub(in crate::sieve) mod unit_timeline;
