//! Inserts and checks many hashes at once. Chooses the instruction set once per batch, and prefetches blocks that are
//! not in the cache.

use super::block::Block;
use crate::int::to_u64;
use crate::isa::{InstructionSet, per_instruction_set};

/// Number of blocks prefetched ahead of their use: enough to hide the memory latency, few enough to stay in the L1
/// cache.
pub const AHEAD: usize = 128;

/// Filters above this size are prefetched. Smaller filters stay in the L2 cache, where prefetching only costs time.
const PREFETCH_FROM_BLOCKS: usize = (1 << 20) / Block::BYTES;

/// Returns true if a filter of this size is prefetched.
pub fn is_prefetched(num_blocks: usize) -> bool {
    num_blocks > PREFETCH_FROM_BLOCKS
}

/// Inserts the first `count` hashes of `window`. The remaining hashes are only prefetched, for the next batch.
pub fn insert(isa: InstructionSet, blocks: &mut [Block], window: &[u64], count: usize) {
    assert_index_fits(blocks.len());
    if is_prefetched(blocks.len()) {
        insert_far(isa, blocks, window, count);
    } else {
        insert_near(isa, blocks, &window[..count]);
    }
}

/// Checks the first `count` hashes of `window`. Each word of `answers` receives 64 answers, lowest bit first.
pub fn check(isa: InstructionSet, blocks: &[Block], window: &[u64], count: usize, answers: &mut [u64]) {
    assert_index_fits(blocks.len());
    assert!(answers.len() * 64 >= count, "an answer for each hash");
    if is_prefetched(blocks.len()) {
        check_far(isa, blocks, window, count, answers);
    } else {
        check_near(isa, blocks, &window[..count], answers);
    }
}

/// Checks the condition for the unchecked indexing below, once per batch.
fn assert_index_fits(num_blocks: usize) {
    assert!((1..1 << 32).contains(&to_u64(num_blocks)), "a filter has 1 to 2^26 - 1 blocks");
}

/// Returns the block of a hash by multiply-shift, which spreads the upper half evenly over any number of blocks.
/// Filters of other writers need not have a power of two.
///
/// For fewer than 2^32 blocks the product is below `num_blocks * 2^32`, so the index is below `num_blocks`.
#[inline(always)]
pub(crate) fn block_index(high: u32, num_blocks: usize) -> usize {
    ((u64::from(high) * to_u64(num_blocks)) >> 32) as usize
}

/// A hash in memory whose halves are read separately. The low half is then broadcast from memory to all lanes of a
/// vector. Broadcasting from a register would need the shuffle port, which is the bottleneck of these loops.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Hash([u32; 2]);

impl Hash {
    #[inline(always)]
    fn of(hashes: &[u64]) -> &[Self] {
        // SAFETY: `Hash` is two u32 in place of one u64: same size, weaker alignment, and every bit pattern is valid.
        unsafe { std::slice::from_raw_parts(hashes.as_ptr().cast(), hashes.len()) }
    }

    #[inline(always)]
    fn low(self) -> u32 {
        self.0[usize::from(cfg!(target_endian = "big"))]
    }

    #[inline(always)]
    fn high(self) -> u32 {
        self.0[usize::from(cfg!(target_endian = "little"))]
    }
}

#[inline(always)]
fn block(blocks: &[Block], hash: Hash) -> &Block {
    // SAFETY: `block_index` is below `blocks.len()`, because `assert_index_fits` checked that it is from 1 to 2^32 - 1.
    unsafe { blocks.get_unchecked(block_index(hash.high(), blocks.len())) }
}

#[inline(always)]
fn block_mut(blocks: &mut [Block], hash: Hash) -> &mut Block {
    let index = block_index(hash.high(), blocks.len());
    // SAFETY: as in `block`.
    unsafe { blocks.get_unchecked_mut(index) }
}

#[inline(always)]
fn prefetch(blocks: &[Block], hash: Hash) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address: *const Block = block(blocks, hash);
        // SAFETY: a prefetch has no visible effect, and the address is that of a block.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (blocks, hash);
}

per_instruction_set! {
    fn insert_near(blocks: &mut [Block], hashes: &[u64]) = insert_near_body;
}
per_instruction_set! {
    fn insert_far(blocks: &mut [Block], window: &[u64], count: usize) = insert_far_body;
}
per_instruction_set! {
    fn check_near(blocks: &[Block], hashes: &[u64], answers: &mut [u64]) = check_near_body;
}
per_instruction_set! {
    fn check_far(blocks: &[Block], window: &[u64], count: usize, answers: &mut [u64]) = check_far_body;
}

#[inline(always)]
fn insert_near_body(blocks: &mut [Block], hashes: &[u64]) {
    // Unrolled by hand, because the speed of such a small loop depends on the alignment of its code.
    let (eights, rest) = Hash::of(hashes).as_chunks::<8>();
    for eight in eights {
        for hash in eight {
            block_mut(blocks, *hash).insert(hash.low());
        }
    }
    for hash in rest {
        block_mut(blocks, *hash).insert(hash.low());
    }
}

#[inline(always)]
fn insert_far_body(blocks: &mut [Block], window: &[u64], count: usize) {
    let window = Hash::of(window);
    let num_with_ahead = count.min(window.len().saturating_sub(AHEAD));
    let (covered, last) = window[..count].split_at(num_with_ahead);
    for (hash, ahead) in covered.iter().zip(window.get(AHEAD..).unwrap_or_default()) {
        prefetch(blocks, *ahead);
        block_mut(blocks, *hash).insert(hash.low());
    }
    for hash in last {
        block_mut(blocks, *hash).insert(hash.low());
    }
}

#[inline(always)]
fn check_near_body(blocks: &[Block], hashes: &[u64], answers: &mut [u64]) {
    for (word, hashes) in answers.iter_mut().zip(Hash::of(hashes).chunks(64)) {
        *word = check_word(blocks, hashes);
    }
}

#[inline(always)]
fn check_far_body(blocks: &[Block], window: &[u64], count: usize, answers: &mut [u64]) {
    let window = Hash::of(window);
    let mut ahead = window.get(AHEAD..).unwrap_or_default();
    for (word, hashes) in answers.iter_mut().zip(window[..count].chunks(64)) {
        if let Some((now, later)) = ahead.split_at_checked(hashes.len()) {
            *word = 0;
            for (bit, (hash, ahead)) in hashes.iter().zip(now).enumerate() {
                prefetch(blocks, *ahead);
                *word |= answer(blocks, *hash) << bit;
            }
            ahead = later;
        } else {
            *word = check_word(blocks, hashes);
        }
    }
}

#[inline(always)]
fn check_word(blocks: &[Block], hashes: &[Hash]) -> u64 {
    // Unrolled for the same reason as inserts.
    let mut word = 0;
    let (eights, rest) = hashes.as_chunks::<8>();
    for (byte, eight) in eights.iter().enumerate() {
        let mut bits = 0;
        for (bit, hash) in eight.iter().enumerate() {
            bits |= answer(blocks, *hash) << bit;
        }
        word |= bits << (8 * byte);
    }
    for (bit, hash) in (8 * eights.len()..).zip(rest) {
        word |= answer(blocks, *hash) << bit;
    }
    word
}

#[inline(always)]
fn answer(blocks: &[Block], hash: Hash) -> u64 {
    u64::from(block(blocks, hash).may_contain(hash.low()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::hash_bytes;

    #[test]
    fn batches_agree_with_single_blocks() {
        let hashes: Vec<u64> = (0..700u32).map(|number| hash_bytes(&number.to_le_bytes())).collect();
        let place = |hash: u64, num_blocks| block_index((hash >> 32) as u32, num_blocks);
        for (num_blocks, num_inserted) in
            [(1, 5), (9, 70), (PREFETCH_FROM_BLOCKS, 501), (PREFETCH_FROM_BLOCKS + 1, 501)]
        {
            let mut expected = vec![Block::default(); num_blocks];
            for &hash in &hashes[..num_inserted] {
                expected[place(hash, num_blocks)].insert(hash as u32);
            }
            let may_contain: Vec<bool> =
                hashes.iter().map(|&hash| expected[place(hash, num_blocks)].may_contain(hash as u32)).collect();
            assert!(may_contain[..num_inserted].iter().all(|answer| *answer) && may_contain.contains(&false));
            for isa in InstructionSet::all() {
                let mut blocks = vec![Block::default(); num_blocks];
                insert(isa, &mut blocks, &hashes, num_inserted);
                assert!(blocks == expected, "{num_blocks} blocks, {isa:?}");
                for (start, count) in [(0, 0usize), (0, 1), (3, 8), (0, 63), (1, 64), (0, 65), (40, 600), (0, 700)] {
                    let mut answers = vec![u64::MAX; count.div_ceil(64)];
                    check(isa, &blocks, &hashes[start..], count, &mut answers);
                    let answers: Vec<bool> = (0..count).map(|n| answers[n / 64] >> (n % 64) & 1 == 1).collect();
                    assert!(answers == may_contain[start..start + count], "{count} of {num_blocks} blocks, {isa:?}");
                }
            }
        }
        assert!(!is_prefetched(PREFETCH_FROM_BLOCKS) && is_prefetched(PREFETCH_FROM_BLOCKS + 1));
    }
}
