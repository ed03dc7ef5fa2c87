//! The split block Bloom filter: a bitset of 1 to 2^26 - 1 blocks, without any notion of types.

use super::batch;
use super::block::Block;
use super::memory::Blocks;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{high_u32, low_u32, to_u64, to_usize};
use crate::isa::InstructionSet;
use std::fmt;

/// A split block Bloom filter.
pub struct Sbbf {
    blocks: Blocks,
}

impl Sbbf {
    /// The maximum number of blocks: the header stores the number of bytes as an i32.
    pub const MAX_BLOCKS: u64 = (i32::MAX as u64) / Block::BYTES as u64;

    /// Creates an empty filter.
    pub fn new(num_blocks: u64) -> Result<Self> {
        if !(1..=Self::MAX_BLOCKS).contains(&num_blocks) {
            return Err(Error::new(ErrorKind::NumBlocks(num_blocks)));
        }
        let len = to_usize(num_blocks).ok_or_else(|| Error::new(ErrorKind::NumBlocks(num_blocks)))?;
        Ok(Self { blocks: Blocks::zeroed(len)? })
    }

    /// Creates a filter from the bitset of a file.
    pub fn from_bitset(bitset: &[u8]) -> Result<Self> {
        let mut filter = Self::new(Self::blocks_of(to_u64(bitset.len()))?)?;
        filter.blocks.bytes_mut().copy_from_slice(bitset);
        Ok(filter)
    }

    /// Returns the number of blocks in a bitset of `num_bytes`, or an error if no bitset has this size.
    pub fn blocks_of(num_bytes: u64) -> Result<u64> {
        let block = to_u64(Block::BYTES);
        let num_blocks = num_bytes / block;
        if !num_bytes.is_multiple_of(block) || !(1..=Self::MAX_BLOCKS).contains(&num_blocks) {
            let size = i64::try_from(num_bytes).unwrap_or(i64::MAX);
            return Err(Error::new(ErrorKind::BitsetSize(size)));
        }
        Ok(num_blocks)
    }

    /// Returns the bitset as it is stored in a file.
    pub fn bitset(&self) -> &[u8] {
        self.blocks.bytes()
    }

    /// Returns true if no value was inserted.
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(|block| *block == Block::default())
    }

    /// Returns the blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks
    }

    /// Returns the number of blocks.
    pub fn num_blocks(&self) -> u64 {
        to_u64(self.blocks.len())
    }

    /// Inserts one hash.
    pub fn insert_hash(&mut self, hash: u64) {
        let index = batch::block_index(high_u32(hash), self.blocks.len());
        self.blocks[index].insert(low_u32(hash));
    }

    /// Returns true if the value of this hash may have been inserted. `false` is certain.
    pub fn may_contain_hash(&self, hash: u64) -> bool {
        self.blocks[batch::block_index(high_u32(hash), self.blocks.len())].may_contain(low_u32(hash))
    }

    /// Inserts many hashes.
    pub fn insert_hashes(&mut self, isa: InstructionSet, hashes: &[u64]) {
        batch::insert(isa, &mut self.blocks, hashes, hashes.len());
    }

    /// Checks many hashes. Each word of `answers` receives 64 answers, lowest bit first.
    pub fn check_hashes(&self, isa: InstructionSet, hashes: &[u64], answers: &mut [u64]) {
        batch::check(isa, &self.blocks, hashes, hashes.len(), answers);
    }

    /// Adds all values of a filter of the same size.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.num_blocks() != other.num_blocks() {
            let (ours, theirs) = (self.num_blocks(), other.num_blocks());
            return Err(Error::new(ErrorKind::MergeSize { ours, theirs }));
        }
        for (block, more) in self.blocks.iter_mut().zip(other.blocks.iter()) {
            block.unite(more);
        }
        Ok(())
    }

    /// Estimates the probability that a value that was never inserted appears to be present, from the bits that are
    /// set.
    pub fn estimated_fpp(&self) -> f64 {
        self.blocks.iter().map(Block::false_positive_rate).sum::<f64>() / self.num_blocks() as f64
    }

    /// Estimates the number of distinct values inserted, from the bits that are set.
    ///
    /// In a block with `j` values, a bit is clear with probability `(31/32)^j`. With Poisson loads of mean `n/z`, this
    /// is `exp(-n / (32 z))` over all blocks, so `n = -32 z ln(share of clear bits)`. Returns infinity for a full
    /// bitset.
    pub fn estimated_ndv(&self) -> f64 {
        let bits = self.num_blocks() as f64 * 256.0;
        let ones: u64 = self.blocks.iter().map(|block| u64::from(block.count_ones())).sum();
        let clear = 1.0 - ones as f64 / bits;
        // `+ 0.0` turns the -0 of an empty filter into 0.
        -32.0 * self.num_blocks() as f64 * clear.ln() + 0.0
    }

    /// Returns a copy, or an error if there is not enough memory.
    pub fn try_clone(&self) -> Result<Self> {
        Self::from_bitset(self.bitset())
    }
}

impl PartialEq for Sbbf {
    fn eq(&self, other: &Self) -> bool {
        self.bitset() == other.bitset()
    }
}

impl Eq for Sbbf {}

impl fmt::Debug for Sbbf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sbbf({} blocks)", self.num_blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_outside_the_format_are_rejected() {
        for num_blocks in [0, Sbbf::MAX_BLOCKS + 1, u64::MAX] {
            assert_eq!(Sbbf::new(num_blocks).unwrap_err().kind(), &ErrorKind::NumBlocks(num_blocks));
        }
        for len in [0, 1, 31, 33, 100] {
            assert!(Sbbf::from_bitset(&vec![0; len]).is_err(), "{len} bytes");
        }
        assert_eq!(Sbbf::MAX_BLOCKS, (1 << 26) - 1);
    }

    #[test]
    fn the_block_index_is_in_range_for_extreme_hashes() {
        for num_blocks in [1, 2, 3, 1000, (1 << 26) - 1] {
            assert_eq!(batch::block_index(u32::MAX, num_blocks), num_blocks - 1);
            assert_eq!(batch::block_index(0, num_blocks), 0);
        }
    }

    #[test]
    fn batches_give_the_answers_of_single_hashes() {
        let hashes: Vec<u64> = (0..200u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut filter = Sbbf::new(64).unwrap();
        filter.insert_hashes(InstructionSet::detect(), &hashes[..100]);
        let mut answers = [0; 4];
        filter.check_hashes(InstructionSet::detect(), &hashes, &mut answers);
        for (number, hash) in hashes.iter().enumerate() {
            let answer = answers[number / 64] >> (number % 64) & 1 == 1;
            assert_eq!(answer, filter.may_contain_hash(*hash), "hash {number}");
            assert!(answer || number >= 100, "hash {number}");
        }
        assert!(answers.iter().map(|word| word.count_ones()).sum::<u32>() < 150);
    }

    #[test]
    fn merging_adds_all_values_and_requires_equal_sizes() {
        let (mut a, mut b) = (Sbbf::new(7).unwrap(), Sbbf::new(7).unwrap());
        a.insert_hash(1);
        b.insert_hash(u64::MAX / 3);
        assert_ne!(a, b);
        a.merge(&b).unwrap();
        assert!(a.may_contain_hash(1) && a.may_contain_hash(u64::MAX / 3));
        assert!(a.merge(&Sbbf::new(8).unwrap()).is_err());
    }

    #[test]
    fn estimates_match_the_inserted_values() {
        let mut filter = Sbbf::new(1024).unwrap();
        assert_eq!((filter.estimated_ndv(), filter.estimated_fpp()), (0.0, 0.0));
        if cfg!(miri) {
            return;
        }
        for n in 0..20_000u64 {
            filter.insert_hash(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (n << 17));
        }
        let ndv = filter.estimated_ndv();
        assert!((ndv / 20_000.0 - 1.0).abs() < 0.03, "{ndv}");
        let full = Sbbf::from_bitset(&[0xff; 64]).unwrap();
        assert_eq!((full.estimated_ndv(), full.estimated_fpp()), (f64::INFINITY, 1.0));
    }
}
