//! Values as keys on an ordered axis.

pub mod arrow;
pub mod axis;
pub mod hash;
pub(in crate::sieve) mod string_points;
