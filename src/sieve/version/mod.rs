//! Versions: deltas on top of a base, lookups as of an instant, compaction.

pub(in crate::sieve) mod compact;
pub(in crate::sieve) mod delta;
pub(in crate::sieve) mod timeline;
