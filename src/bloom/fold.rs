//! Shrinks a finished filter: block `i` of the small filter is the union of blocks `d*i` to `d*i + d - 1` of the big
//! one.
//!
//! Lemma: let `d` be a divisor of `z`. A hash with upper half `u` belongs to block `floor(u*z / 2^32)` of the big
//! filter and to block `floor(u*(z/d) / 2^32)` of the small one. Because `floor(floor(x) / d) = floor(x / d)`, the
//! small filter is bit for bit the filter that would have been built at its size. The tests below check this.

use super::block::Block;
use super::sbbf::Sbbf;
use super::sizing::Sizes;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{to_u64, to_usize};

impl Sbbf {
    /// Returns the filter with `num_blocks / factor` blocks.
    pub fn folded(&self, factor: u64) -> Result<Self> {
        let invalid_factor = || Error::new(ErrorKind::FoldFactor { factor, num_blocks: self.num_blocks() });
        if factor == 0 || !self.num_blocks().is_multiple_of(factor) {
            return Err(invalid_factor());
        }
        let group_len = to_usize(factor).ok_or_else(invalid_factor)?;
        let mut small = Self::new(self.num_blocks() / factor)?;
        for (block, group) in small.blocks_mut().iter_mut().zip(self.blocks().chunks_exact(group_len)) {
            *block = unite(group);
        }
        Ok(small)
    }

    /// Returns the largest factor whose folded filter has an estimated rate of at most `fpp`. Returns 1 if no fold
    /// achieves it.
    pub fn fold_factor(&self, fpp: f64, sizes: Sizes) -> Result<u64> {
        if !(fpp > 0.0 && fpp < 1.0) {
            return Err(Error::new(ErrorKind::Fpp));
        }
        let num_blocks = self.num_blocks();
        let mut factors: Vec<u64> = match sizes {
            Sizes::PowersOfTwo => (0..=num_blocks.trailing_zeros()).map(|power| 1 << power).collect(),
            Sizes::Any => divisors(num_blocks),
        };
        // Try the largest factors first. Factors that are too large are rejected quickly: the sum exceeds the limit
        // after a few blocks.
        factors.sort_unstable_by(|a, b| b.cmp(a));
        Ok(factors.into_iter().find(|factor| self.folded_keeps(*factor, fpp)).unwrap_or(1))
    }

    fn folded_keeps(&self, factor: u64, fpp: f64) -> bool {
        let limit = fpp * (self.num_blocks() / factor) as f64;
        let Some(group_len) = to_usize(factor) else { return false };
        let mut sum = 0.0;
        for group in self.blocks().chunks_exact(group_len) {
            sum += unite(group).false_positive_rate();
            if sum > limit {
                return false;
            }
        }
        true
    }
}

fn unite(blocks: &[Block]) -> Block {
    let mut union = Block::default();
    for block in blocks {
        union.unite(block);
    }
    union
}

fn divisors(number: u64) -> Vec<u64> {
    let small: Vec<u64> = (1..=number.isqrt()).filter(|d| number.is_multiple_of(*d)).collect();
    let large = small.iter().rev().map(|d| number / d).filter(|d| d * d != number);
    let mut all = small.clone();
    all.extend(large);
    debug_assert!(to_u64(all.len()) <= number);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::sizing::false_positive_rate;

    fn filled(num_blocks: u64, values: u64) -> Sbbf {
        let mut filter = Sbbf::new(num_blocks).unwrap();
        for n in 0..values {
            filter.insert_hash(twox_hash::XxHash64::oneshot(0, &n.to_le_bytes()));
        }
        filter
    }

    #[test]
    fn folding_gives_the_filter_built_at_the_small_size() {
        let values = if cfg!(miri) { 30 } else { 3000 };
        for num_blocks in [1, 2, 12, 210, 1024, 720 * 7].into_iter().take(if cfg!(miri) { 4 } else { 6 }) {
            let big = filled(num_blocks, values);
            for factor in divisors(num_blocks) {
                assert_eq!(
                    big.folded(factor).unwrap(),
                    filled(num_blocks / factor, values),
                    "{num_blocks} by {factor}"
                );
            }
        }
    }

    #[test]
    fn only_divisors_of_the_size_are_valid_factors() {
        for factor in [0, 5, 7, 24, u64::MAX] {
            assert!(filled(12, 1).folded(factor).is_err());
        }
        assert_eq!(divisors(12), [1, 2, 3, 4, 6, 12]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "tens of thousands of values")]
    fn fold_factor_is_the_largest_that_keeps_the_rate() {
        let big = filled(1 << 14, 10_000);
        let factor = big.fold_factor(0.01, Sizes::PowersOfTwo).unwrap();
        let small = big.folded(factor).unwrap();
        assert!(small.estimated_fpp() <= 0.01 && small.folded(2).unwrap().estimated_fpp() > 0.01);
        assert_eq!(small.num_blocks(), 512, "the smallest power of two by the exact model");

        let tight = filled((1 << 10) * 45, 10_000);
        let factor = tight.fold_factor(0.01, Sizes::Any).unwrap();
        let folded = tight.folded(factor).unwrap();
        assert!(folded.estimated_fpp() <= 0.01 && folded.num_blocks() < 512);
        let model = false_positive_rate(10_000, folded.num_blocks());
        assert!((folded.estimated_fpp() / model - 1.0).abs() < 0.1, "the estimate follows the model");

        assert_eq!(Sbbf::from_bitset(&[0xff; 1024]).unwrap().fold_factor(0.01, Sizes::Any), Ok(1));
        for fpp in [0.0, 1.0, -0.5, f64::NAN] {
            assert!(big.fold_factor(fpp, Sizes::Any).is_err(), "{fpp}");
        }
        assert_eq!(Sbbf::new(64).unwrap().fold_factor(0.01, Sizes::Any), Ok(64), "an empty filter folds to one block");
    }
}
