//! Units: the places that answers name, such as the row groups of a file, with their statistics.

pub mod layout;
pub(in crate::sieve) mod page;
pub(in crate::sieve) mod slice_map;
pub(in crate::sieve) mod stats;
