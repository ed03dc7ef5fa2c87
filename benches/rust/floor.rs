//! What no big filter can be faster than: to touch one random block of 32 bytes for each value, prefetched, in huge pages.

use parsieve::bloom::batch::AHEAD;

/// The contender that only reads blocks, and the one that also writes them.
pub(crate) const FLOOR: &str = "floor (blocks read)";
pub(crate) const FLOOR_WRITTEN: &str = "floor (blocks written)";

const HUGE_PAGE: usize = 2 << 20;
type Block = [u64; 4];

/// Memory like that of a filter.
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
        // SAFETY: the range lies in the memory that `words` has just allocated. The hint changes no byte of it.
        unsafe {
            libc::madvise(words.as_mut_ptr().add(start).cast(), num_bytes, libc::MADV_HUGEPAGE);
        }
        words.resize(num_words + page, 1);
        Self { words, start, num_blocks: num_bytes / size_of::<Block>() }
    }

    fn blocks(&mut self) -> &mut [Block] {
        &mut self.words[self.start..].as_chunks_mut().0[..self.num_blocks]
    }

    /// Reads a block for each hash.
    pub(crate) fn read(&mut self, hashes: &[u64]) -> Block {
        let mut seen = Block::default();
        touch(self.blocks(), hashes, |block| {
            for (seen, word) in seen.iter_mut().zip(block) {
                *seen ^= *word;
            }
        });
        seen
    }

    /// Reads and writes a block for each hash.
    pub(crate) fn write(&mut self, hashes: &[u64]) {
        touch(self.blocks(), hashes, |block| {
            for word in block {
                *word |= 2;
            }
        });
    }
}

fn touch(blocks: &mut [Block], hashes: &[u64], at: impl FnMut(&mut Block)) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,bmi2")]
        fn avx2(blocks: &mut [Block], hashes: &[u64], at: impl FnMut(&mut Block)) {
            touch_body(blocks, hashes, at);
        }
        if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("bmi2") {
            // SAFETY: the processor has them.
            return unsafe { avx2(blocks, hashes, at) };
        }
    }
    touch_body(blocks, hashes, at);
}

#[inline(always)]
fn touch_body(blocks: &mut [Block], hashes: &[u64], mut at: impl FnMut(&mut Block)) {
    let num_blocks = blocks.len() as u64;
    let index = |hash: u64| (((hash >> 32) * num_blocks) >> 32) as usize;
    let (covered, last) = hashes.split_at(hashes.len().saturating_sub(AHEAD));
    for (hash, ahead) in covered.iter().zip(hashes.get(AHEAD..).unwrap_or_default()) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `index` is below `num_blocks`, and a prefetch reads nothing that the program sees.
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
