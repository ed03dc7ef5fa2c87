//! A block of 256 bits: eight words. Each value sets one bit per word (section 2 of the specification).
//!
//! ```text
//! block   word 0       word 1       …   word 7          32 bits each
//! value   bit m(0)     bit m(1)     …   bit m(7)        m(i) = top five bits of (low half of hash) * SALT[i]
//! ```

/// The eight odd multipliers that the format defines.
const SALT: [u32; 8] = [0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31];

/// Eight words, stored in the byte order of the file (little-endian) on every machine, so that blocks need no
/// conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(32))]
pub struct Block([u32; 8]);

impl Block {
    /// Size of a block in bytes, in memory and on disk.
    pub const BYTES: usize = 32;

    /// Returns the eight bits of a value, one per word.
    #[inline(always)]
    fn mask(low: u32) -> [u32; 8] {
        let mut mask = [0; 8];
        for (bit, salt) in mask.iter_mut().zip(SALT) {
            *bit = (1u32 << (low.wrapping_mul(salt) >> 27)).to_le();
        }
        mask
    }

    /// Sets the bits of a value, given the low half of its hash.
    #[inline(always)]
    pub fn insert(&mut self, low: u32) {
        for (word, bit) in self.0.iter_mut().zip(Self::mask(low)) {
            *word |= bit;
        }
    }

    /// Returns true if all bits of a value are set.
    ///
    /// Always checks all eight words: an early exit would prevent the compiler from using a single vector test. So
    /// would a sum of the missing bits, which the compiler turns into word-by-word gathers in loops over many hashes.
    #[inline(always)]
    pub fn may_contain(&self, low: u32) -> bool {
        let mut missing = Self::mask(low);
        for (bit, word) in missing.iter_mut().zip(self.0) {
            *bit &= !word;
        }
        is_zero(&missing)
    }

    /// Reads a block from exactly 32 bytes. Returns `None` for any other length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let words = bytes.as_chunks::<4>();
        let words = <[[u8; 4]; 8]>::try_from(words.0).ok().filter(|_| words.1.is_empty())?;
        Some(Self(words.map(u32::from_ne_bytes)))
    }

    /// Adds the bits of another block.
    #[inline(always)]
    pub fn unite(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    /// Returns the probability that a random value, which sets one bit per word, appears to be present.
    pub fn false_positive_rate(&self) -> f64 {
        self.0.iter().map(|word| f64::from(word.count_ones()) / 32.0).product()
    }

    /// Returns the number of bits set, out of 256.
    pub fn count_ones(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

#[cfg(not(target_arch = "aarch64"))]
#[inline(always)]
fn is_zero(words: &[u32; 8]) -> bool {
    *words == [0; 8]
}

/// Returns true if the largest word is zero. For a comparison of all words, the compiler would copy them to memory.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn is_zero(words: &[u32; 8]) -> bool {
    use std::arch::aarch64::{vld1q_u32, vmaxvq_u32, vorrq_u32};
    // SAFETY: each load reads four of the eight words, and NEON is part of the baseline of this architecture.
    unsafe { vmaxvq_u32(vorrq_u32(vld1q_u32(words.as_ptr()), vld1q_u32(words[4..].as_ptr()))) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Implements the specification literally, without regard to speed.
    fn may_contain_by_the_specification(block: &[[bool; 32]; 8], low: u32) -> bool {
        (0..8).all(|i| block[i][(low.wrapping_mul(SALT[i]) >> 27) as usize])
    }

    #[test]
    fn blocks_match_the_specification() {
        let (mut block, mut bits) = (Block::default(), [[false; 32]; 8]);
        for step in 0u32..20 {
            let low = step.wrapping_mul(0x9e37_79b9);
            block.insert(low);
            for (i, word) in bits.iter_mut().enumerate() {
                word[(low.wrapping_mul(SALT[i]) >> 27) as usize] = true;
            }
            let probes = if cfg!(miri) { 20 } else { 2000u32 };
            for probe in (0..probes).map(|n| n.wrapping_mul(0x85eb_ca6b)) {
                assert_eq!(block.may_contain(probe), may_contain_by_the_specification(&bits, probe));
            }
        }
        assert_eq!(block.count_ones() as usize, bits.iter().flatten().filter(|bit| **bit).count());
    }

    #[test]
    fn a_value_sets_one_bit_in_each_word() {
        for low in [0, 1, u32::MAX, 0x1234_5678] {
            let mut block = Block::default();
            block.insert(low);
            assert!(block.0.iter().all(|word| word.count_ones() == 1));
            assert!(block.may_contain(low));
            assert!((block.false_positive_rate() - 32f64.powi(-8)).abs() < 1e-18);
        }
    }
}
