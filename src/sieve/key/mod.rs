//! Values as keys on an ordered axis.

pub mod arrow;
pub mod axis;
mod bytes;
pub(in crate::sieve) mod string_points;
