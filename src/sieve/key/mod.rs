//! Values as keys on an ordered axis.

pub mod arrow;
pub mod axis;
<<<<<<< HEAD
pub(in crate::sieve) mod hash;
=======
pub(in crate::sieve) mod bounds;
>>>>>>> sieve-core
pub(in crate::sieve) mod string_points;
