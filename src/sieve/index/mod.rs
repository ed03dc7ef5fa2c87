//! An index: its root and directory, lookups, and the cache of decoded segments.

pub(in crate::sieve) mod cache;
pub(in crate::sieve) mod directory;
pub(in crate::sieve) mod key_prefixes;
pub(in crate::sieve) mod loaded;
pub(in crate::sieve) mod lookup;
pub(in crate::sieve) mod report;
pub mod root;
pub(in crate::sieve) mod unit_root;
pub(in crate::sieve) mod unit_table;
