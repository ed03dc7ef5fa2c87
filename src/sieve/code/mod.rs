//! Bit streams, numbers and frames: the encoding of stored parts.

pub(in crate::sieve) mod binomial;
pub(in crate::sieve) mod bits;
pub(in crate::sieve) mod format;
pub(in crate::sieve) mod offset;
pub(in crate::sieve) mod separators;
pub(in crate::sieve) mod set;
