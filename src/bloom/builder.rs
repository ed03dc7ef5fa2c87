//! Builds the smallest filter for values, without collecting them. The number of distinct values may be unknown.
//!
//! The hashes go into a filter that is large enough if all values are distinct. In the end it is folded, and the result
//! has the same bits as a filter built at that size. Its false positive rate is computed from its bits, not from an
//! estimate of the distinct values. Repeated values change nothing.

use super::sbbf::Sbbf;
use super::sizing::{Sizes, blocks_before_fold, check_fpp};
use super::window::Window;
use crate::error::Result;
use crate::int::to_u64;
use crate::isa::InstructionSet;

/// Up to this many hashes are kept, so that distinct ones are counted exactly.
const FEW: usize = 1 << 14;
/// The size of a filter before it is folded, 128 MiB, unless a larger filter is allowed. Folding a large filter to a
/// small maximum size estimates the distinct values better than a small filter does.
const BLOCKS_BEFORE_FOLD: u64 = 1 << 22;

/// Builds a filter from batches of hashes, which may repeat.
#[derive(Debug)]
pub struct FilterBuilder {
    max_values: u64,
    fpp: f64,
    max_blocks: u64,
    isa: InstructionSet,
    num_hashes: u64,
    /// All hashes so far, until they are too many.
    few: Vec<u64>,
    many: Option<(Sbbf, Window)>,
}

/// A finished filter.
#[derive(Debug, PartialEq)]
pub struct Built {
    /// The filter, whose number of blocks is a power of two.
    pub filter: Sbbf,
    /// The number of distinct values. For more than 16,384 values, it is estimated from the bits that are set.
    pub ndv: u64,
    /// The false positive rate by the bits that are set.
    pub fpp: f64,
}

impl FilterBuilder {
    /// Starts a filter with a rate of at most `fpp`, unless it would have more than `max_blocks` blocks. The number of
    /// blocks is rounded down to a power of two.
    ///
    /// `max_values` decides how much memory the builder takes. If there are more values, the rate may be higher.
    pub fn new(max_values: u64, fpp: f64, max_blocks: u64, isa: InstructionSet) -> Result<Self> {
        check_fpp(fpp)?;
        let max_blocks = 1 << max_blocks.clamp(1, Sbbf::MAX_BLOCKS).ilog2();
        Ok(Self { max_values, fpp, max_blocks, isa, num_hashes: 0, few: Vec::new(), many: None })
    }

    /// Inserts the hashes of some values.
    pub fn insert(&mut self, hashes: &[u64]) -> Result<()> {
        self.num_hashes += to_u64(hashes.len());
        match &mut self.many {
            Some((filter, window)) => window.insert(filter, hashes),
            None if self.few.len() + hashes.len() <= FEW => self.few.extend_from_slice(hashes),
            None => {
                let mut filter = Sbbf::new(self.blocks_for(self.max_values.max(self.num_hashes)))?;
                let mut window = Window::new(self.isa);
                window.insert(&mut filter, &std::mem::take(&mut self.few));
                window.insert(&mut filter, hashes);
                self.many = Some((filter, window));
            }
        }
        Ok(())
    }

    /// Returns the smallest filter of all values that keeps the rate.
    pub fn finish(mut self) -> Result<Built> {
        if let Some((mut filter, window)) = self.many.take() {
            window.finish(&mut filter);
            // An estimate of infinity, for a full filter, becomes the number of values.
            let ndv = (filter.estimated_ndv().round() as u64).min(self.num_hashes);
            return self.folded(&filter, ndv);
        }
        self.few.sort_unstable();
        self.few.dedup();
        let ndv = to_u64(self.few.len());
        let mut num_blocks = self.blocks_for(ndv);
        loop {
            let mut filter = Sbbf::new(num_blocks)?;
            filter.insert_hashes(self.isa, &self.few);
            let built = self.folded(&filter, ndv)?;
            if built.fpp <= self.fpp || built.filter.num_blocks() < num_blocks || num_blocks >= self.max_blocks {
                return Ok(built);
            }
            num_blocks *= 2;
        }
    }

    fn blocks_for(&self, ndv: u64) -> u64 {
        blocks_before_fold(ndv, self.fpp, self.max_blocks.max(BLOCKS_BEFORE_FOLD))
    }

    fn folded(&self, filter: &Sbbf, ndv: u64) -> Result<Built> {
        let factor = filter.fold_factor(self.fpp, Sizes::PowersOfTwo)?;
        let filter = filter.folded(factor.max(filter.num_blocks() / self.max_blocks))?;
        let fpp = filter.estimated_fpp();
        Ok(Built { filter, ndv, fpp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hashes(values: u64) -> Vec<u64> {
        (0..values).map(|n| twox_hash::XxHash64::oneshot(0, &n.to_le_bytes())).collect()
    }

    fn build(hashes: &[u64], max_values: u64, fpp: f64, max_blocks: u64, batch: usize) -> Built {
        let mut builder = FilterBuilder::new(max_values, fpp, max_blocks, InstructionSet::detect()).unwrap();
        for hashes in hashes.chunks(batch) {
            builder.insert(hashes).unwrap();
        }
        builder.finish().unwrap()
    }

    /// Checks that a filter has all values, and is the smallest one that keeps the rate.
    fn check(built: &Built, hashes: &[u64], fpp: f64) {
        let mut same_size = Sbbf::new(built.filter.num_blocks()).unwrap();
        same_size.insert_hashes(InstructionSet::PORTABLE, hashes);
        assert_eq!(built.filter, same_size);
        assert_eq!(built.fpp, same_size.estimated_fpp());
        assert!(built.fpp <= fpp, "{} values: {} > {fpp}", hashes.len(), built.fpp);
        if built.filter.num_blocks() > 1 {
            let half = built.filter.folded(2).unwrap();
            assert!(half.estimated_fpp() > fpp, "{} values: half the size is enough", hashes.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        #[cfg_attr(miri, ignore = "thousands of values")]
        fn few_values_keep_every_rate(values in 0u64..3000, fpp in prop_oneof![Just(0.1), Just(0.01), Just(1e-4), Just(1e-7)]) {
            let hashes = hashes(values);
            let built = build(&hashes, values, fpp, 1 << 22, 700);
            check(&built, &hashes, fpp);
            prop_assert_eq!(built.ndv, values);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "millions of values")]
    fn many_values_keep_every_rate_and_give_the_same_bits_in_any_order() {
        for (values, fpp) in [(16_385, 0.1), (40_000, 0.01), (150_000, 0.001), (39_800, 1e-5), (400_000, 0.01)] {
            let mut hashes = hashes(values);
            let built = build(&hashes, values, fpp, 1 << 22, 1024);
            check(&built, &hashes, fpp);
            let error = built.ndv as f64 / values as f64 - 1.0;
            assert!(error.abs() < 0.01, "{values} values: {}", built.ndv);
            // Other orders, repetitions, batches, and more memory than necessary.
            hashes.reverse();
            hashes.extend_from_within(..5000);
            let other = build(&hashes, 3 * values, fpp, 1 << 22, 333);
            assert_eq!(other.filter, built.filter);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of values")]
    fn random_absent_hashes_are_excluded_at_the_rate() {
        for values in [3000, 60_000] {
            let built = build(&hashes(values), values, 0.01, 1 << 22, 1024);
            let probes = 400_000;
            let absent = (0..probes).map(|n: u64| twox_hash::XxHash64::oneshot(7, &n.to_le_bytes()));
            let positives = absent.filter(|hash| built.filter.may_contain_hash(*hash)).count() as f64;
            let expected = built.fpp * probes as f64;
            assert!((positives - expected).abs() < 6.0 * expected.sqrt() + 3.0, "{positives} instead of {expected}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of values")]
    fn repeated_values_take_no_space() {
        let repeated: Vec<u64> = hashes(3).into_iter().cycle().take(200_000).collect();
        let built = build(&repeated, 200_000, 0.01, 1 << 22, 1024);
        assert_eq!((built.filter.num_blocks(), built.ndv), (1, 3));
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of values")]
    fn many_hashes_are_not_collected() {
        let mut builder = FilterBuilder::new(100_000, 0.01, 1 << 22, InstructionSet::detect()).unwrap();
        builder.insert(&hashes(FEW as u64)).unwrap();
        assert_eq!(builder.few.len(), FEW);
        builder.insert(&[1]).unwrap();
        assert!(builder.few.is_empty() && builder.many.is_some());
    }

    #[test]
    fn hashes_that_share_a_block_get_a_larger_filter() {
        // All of these go into the first block, and fill it.
        let hashes: Vec<u64> = (1..200).map(|n: u32| u64::from(n.wrapping_mul(0x9E37_79B9))).collect();
        let built = build(&hashes, 200, 0.001, 1 << 22, 50);
        check(&built, &hashes, 0.001);
        assert!(built.filter.num_blocks().is_power_of_two());
        assert_eq!(build(&hashes, 200, 0.001, 64, 50).filter.num_blocks(), 64);
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of values")]
    fn repeated_values_are_counted_once_if_the_filter_may_not_have_space_for_them() {
        let mut hashes = hashes(30_000);
        hashes.extend_from_within(..);
        let built = build(&hashes, 60_000, 0.01, 64, 1024);
        assert!((built.ndv as f64 / 30_000.0 - 1.0).abs() < 0.01, "{}", built.ndv);
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of values")]
    fn a_maximum_size_or_a_wrong_number_of_values_only_raises_the_rate() {
        for values in [10_000, 50_000] {
            let hashes = hashes(values);
            let built = build(&hashes, values, 0.01, 100, 1024);
            assert_eq!(built.filter.num_blocks(), 64);
            assert!(built.fpp > 0.01);
            assert!((built.ndv as f64 / values as f64 - 1.0).abs() < 0.01, "{}", built.ndv);
            let too_few = build(&hashes, 1, 0.01, 1 << 22, 1024);
            assert!(hashes.iter().all(|hash| too_few.filter.may_contain_hash(*hash)));
            assert_eq!(too_few.fpp, too_few.filter.estimated_fpp());
        }
        let empty = build(&[], 5, 0.01, 1 << 22, 1);
        assert_eq!((empty.filter.num_blocks(), empty.ndv, empty.fpp), (1, 0, 0.0));
    }
}
