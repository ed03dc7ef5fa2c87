//! Points and offsets inside a block. They have 64 bits if the keys need no more, which makes walking separators much
//! faster.

use std::fmt::Debug;
use std::ops::{Add, BitAnd, BitXor, Shl, Shr, Sub};

use crate::int::low_u64;

/// An unsigned integer as wide as the points of a key type.
pub(in crate::sieve) trait Offset:
    Copy
    + Ord
    + Debug
    + Default
    + Add<Output = Self>
    + Sub<Output = Self>
    + BitAnd<Output = Self>
    + BitXor<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// The width in bits.
    const BITS: u32;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// Converts a point, which must fit.
    fn of(point: u128) -> Self;
    /// Returns the low 64 bits.
    fn low(self) -> u64;
    /// Counts zeros from the lowest bit up.
    fn trailing_zeros(self) -> u32;
    /// Counts zeros from the highest bit down.
    fn leading_zeros(self) -> u32;
}

impl Offset for u64 {
    const BITS: u32 = Self::BITS;
    const ZERO: Self = 0;
    const ONE: Self = 1;

    #[inline]
    fn of(point: u128) -> Self {
        low_u64(point)
    }

    #[inline]
    fn low(self) -> u64 {
        self
    }

    #[inline]
    fn trailing_zeros(self) -> u32 {
        self.trailing_zeros()
    }

    #[inline]
    fn leading_zeros(self) -> u32 {
        self.leading_zeros()
    }
}

impl Offset for u128 {
    const BITS: u32 = Self::BITS;
    const ZERO: Self = 0;
    const ONE: Self = 1;

    #[inline]
    fn of(point: u128) -> Self {
        point
    }

    #[inline]
    fn low(self) -> u64 {
        low_u64(self)
    }

    #[inline]
    fn trailing_zeros(self) -> u32 {
        self.trailing_zeros()
    }

    #[inline]
    fn leading_zeros(self) -> u32 {
        self.leading_zeros()
    }
}

/// Returns the shortest separator of two points: above `low`, at most `high`, with the most trailing zeros.
#[inline]
pub(in crate::sieve) fn shortest_separator<P: Offset>(low: P, high: P) -> P {
    debug_assert!(low < high);
    let top = P::BITS - 1 - (low ^ high).leading_zeros();
    high >> top << top
}

/// Returns the highest `bits` bits of a number, or zero if `bits` is zero.
#[inline]
pub(in crate::sieve) fn top<P: Offset>(value: P, bits: u32) -> P {
    if bits == 0 { P::ZERO } else { value >> (P::BITS - bits) }
}

/// Shifts a point right to get its block number. The shift may be as large as the width.
#[inline]
pub(in crate::sieve) fn shifted<P: Offset>(point: P, shift: u32) -> P {
    if shift < P::BITS { point >> shift } else { P::ZERO }
}
