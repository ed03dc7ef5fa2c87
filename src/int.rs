//! Every narrowing conversion between integers, so that none of them hides in an `as` elsewhere.

/// A length in memory as the `u64` of a file; no platform that Rust supports has wider pointers.
#[inline(always)]
pub const fn to_u64(value: usize) -> u64 {
    value as u64
}

/// A length of a file as a length in memory, if this machine can address it.
#[inline(always)]
pub fn to_usize(value: u64) -> Option<usize> {
    usize::try_from(value).ok()
}

/// The low half of a hash; which half is which is said in section 2 of the Bloom filter specification.
#[inline(always)]
pub const fn low_u32(value: u64) -> u32 {
    value as u32
}

/// The high half of a hash.
#[inline(always)]
pub const fn high_u32(value: u64) -> u32 {
    (value >> 32) as u32
}
