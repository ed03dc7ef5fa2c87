//! Points and places inside a block, in 64 bits where the keys have no more: what walks separators is then much faster.

use std::fmt::Debug;
use std::ops::{Add, BitAnd, BitXor, Shl, Shr, Sub};

use crate::int::low_u64;

/// An unsigned number as wide as the points of some key type.
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
    /// Bits of such a number.
    const BITS: u32;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// A point of a key type with no more bits.
    fn of(point: u128) -> Self;
    /// The low bits.
    fn low(self) -> u64;
    /// Zeros from the lowest bit on.
    fn trailing_zeros(self) -> u32;
    /// Zeros from the highest bit on.
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

/// The shortest separator of two points, the one with the most zeros at its end: above `low`, at most `high`.
#[inline]
pub(in crate::sieve) fn parting<P: Offset>(low: P, high: P) -> P {
    debug_assert!(low < high);
    let top = P::BITS - 1 - (low ^ high).leading_zeros();
    high >> top << top
}

/// The highest `bits` of a number, zero where they are none.
#[inline]
pub(in crate::sieve) fn top<P: Offset>(value: P, bits: u32) -> P {
    if bits == 0 { P::ZERO } else { value >> (P::BITS - bits) }
}

/// The number of the block of a point, whatever the width.
#[inline]
pub(in crate::sieve) fn shifted<P: Offset>(point: P, shift: u32) -> P {
    if shift < P::BITS { point >> shift } else { P::ZERO }
}
