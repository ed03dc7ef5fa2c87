//! Builds the smallest filter of values whose distinct number is unknown, without collecting them.
//!
//! The hashes go into a filter that is large enough if all values are distinct. In the end it is folded, and the result
//! has the same bits as a filter built at that size. Its false positive rate is computed from its bits, so no estimate
//! of the distinct values is involved. Repeated values change nothing.

use super::sbbf::Sbbf;
use super::sizing::{Sizes, blocks_before_fold, check_fpp};
use super::window::Window;
use crate::error::Result;
use crate::int::to_u64;
use crate::isa::InstructionSet;

/// Up to this number of hashes, they are kept and counted exactly.
const FEW: usize = 1 << 14;
/// The size of a filter before it is folded, 128 MiB, unless a larger filter is allowed. Folding a large filter to a
/// small maximum size estimates the distinct values better than a small filter does.
const BLOCKS_BEFORE_FOLD: u64 = 1 << 22;

/// Builds a filter of up to a number of values, some of which may be equal.
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
