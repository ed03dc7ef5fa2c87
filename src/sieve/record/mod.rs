//! Keys with their locations and row counts, as a build collects them.

pub(in crate::sieve) mod key_section;
pub(in crate::sieve) mod options;
pub(in crate::sieve) mod packing;
pub mod pairs;
pub(in crate::sieve) mod ranges;
pub(in crate::sieve) mod records;
pub(in crate::sieve) mod sorted;
pub(in crate::sieve) mod texts;
pub(in crate::sieve) mod words;
