//! Values as keys on an ordered axis.

pub mod arrow;
pub mod axis;
pub(in crate::sieve) mod bounds;
mod bytes;
pub(in crate::sieve) mod hash;
pub(in crate::sieve) mod string_points;
