//! A lower bound for the time of any big filter: accessing one random block of 32 bytes per value, prefetched, in huge
//! pages.

use parsieve::bloom::batch::AHEAD;

/// The names of the contenders that only read blocks, and that also write them.
pub(crate) const FLOOR: &str = "floor (blocks read)";
pub(crate) const FLOOR_WRITTEN: &str = "floor (blocks written)";

const HUGE_PAGE: usize = 2 << 20;
type Block = [u64; 4];

/// Memory with the layout of a filter.
pub(crate) struct Memory {
    words: Vec<u64>,
    start: usize,
    num_blocks: usize,
}

impl Memory {
    pub(crate) fn new(num_bytes: usize) -> Self {
        let (num_words, page) = (num_bytes / size_of::<u64>(), HUGE_PAGE / size_of::<u64>());
        let mut words: Vec<u64> = Vec::with_capacity(num_words + page);
        let start = words.as_ptr().align_offset(HUGE_PAGE);
        #[cfg(target_os = "linux")]
        // SAFETY: the range is within the memory that `words` has just allocated. The hint does not change its content.
        unsafe {
            libc::madvise(words.as_mut_ptr().add(start).cast(), num_bytes, libc::MADV_HUGEPAGE);
        }
        words.resize(num_words + page, 1);
        Self { words, start, num_blocks: num_bytes / size_of::<Block>() }
    }

    fn blocks(&mut self) -> &mut [Block] {
        &mut self.words[self.start..].as_chunks_mut().0[..self.num_blocks]
    }

    /// Reads one block per hash.
    pub(crate) fn read(&mut self, hashes: &[u64]) -> Block {
        let mut combined = Block::default();
        access_blocks(self.blocks(), hashes, |block| {
            for (combined, word) in combined.iter_mut().zip(block) {
                *combined ^= *word;
            }
        });
        combined
    }

    /// Reads and writes one block per hash.
    pub(crate) fn write(&mut self, hashes: &[u64]) {
        access_blocks(self.blocks(), hashes, |block| {
            for word in block {
                *word |= 2;
            }
        });
    }
}

fn access_blocks(blocks: &mut [Block], hashes: &[u64], at: impl FnMut(&mut Block)) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi2")]
        fn avx2(blocks: &mut [Block], hashes: &[u64], at: impl FnMut(&mut Block)) {
            access_blocks_body(blocks, hashes, at);
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor supports both features.
            return unsafe { avx2(blocks, hashes, at) };
        }
    }
    access_blocks_body(blocks, hashes, at);
}

#[inline(always)]
fn access_blocks_body(blocks: &mut [Block], hashes: &[u64], mut at: impl FnMut(&mut Block)) {
    let num_blocks = blocks.len() as u64;
    let index = |hash: u64| (((hash >> 32) * num_blocks) >> 32) as usize;
    let (covered, last) = hashes.split_at(hashes.len().saturating_sub(AHEAD));
    for (hash, ahead) in covered.iter().zip(hashes.get(AHEAD..).unwrap_or_default()) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `index` is below `num_blocks`, and a prefetch has no visible effect.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(blocks.as_ptr().add(index(*ahead)).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = ahead;
        // SAFETY: as above.
        at(unsafe { blocks.get_unchecked_mut(index(*hash)) });
    }
    for hash in last {
        at(&mut blocks[index(*hash)]);
    }
}
