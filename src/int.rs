//! All narrowing conversions between integers, so that no other file needs `as`.

/// Converts a length in memory to `u64`. Rust supports no platform with wider pointers.
#[inline(always)]
pub const fn to_u64(value: usize) -> u64 {
    value as u64
}

/// Converts a length in a file to a length in memory, if this machine can address it.
#[inline(always)]
pub fn to_usize(value: u64) -> Option<usize> {
    usize::try_from(value).ok()
}

/// Returns the low half of a hash. Section 2 of the Bloom filter specification defines the halves.
#[inline(always)]
pub const fn low_u32(value: u64) -> u32 {
    value as u32
}

/// Returns the high half of a hash.
#[inline(always)]
pub const fn high_u32(value: u64) -> u32 {
    (value >> 32) as u32
}

/// Converts a 32-bit number to an index. All supported platforms have pointers of at least 32 bits.
#[inline(always)]
pub const fn index(value: u32) -> usize {
    value as usize
}

/// Converts a length in memory to a 32-bit number, or to the largest one if it does not fit.
#[inline(always)]
pub fn saturating_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Returns the lowest byte of a word.
#[inline(always)]
pub const fn low_u8(value: u64) -> u8 {
    value as u8
}

/// Returns the low half of a wide key.
#[inline(always)]
pub const fn low_u64(value: u128) -> u64 {
    value as u64
}
