//! Keys with their locations and row counts, as a build collects them.

pub(in crate::sieve) mod key_section;
pub(in crate::sieve) mod options;
pub mod pairs;
pub(in crate::sieve) mod records;
