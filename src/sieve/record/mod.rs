//! Keys with their locations and row counts, on the way into a build.

pub(in crate::sieve) mod key_section;
pub(in crate::sieve) mod options;
pub mod pairs;
pub(in crate::sieve) mod records;
