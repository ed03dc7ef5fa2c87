//! Inserts batches of hashes one after another, with prefetches that run on across batches.

use super::batch::{self, AHEAD};
use super::sbbf::Sbbf;
use crate::isa::InstructionSet;

/// Hashes on their way into a filter. The last ones wait for the next batch, so that their blocks are prefetched before
/// they are used.
#[derive(Debug)]
pub(super) struct Window {
    isa: InstructionSet,
    hashes: Vec<u64>,
}

impl Window {
    pub(super) fn new(isa: InstructionSet) -> Self {
        Self { isa, hashes: Vec::new() }
    }

    /// Inserts a batch of hashes.
    pub(super) fn insert(&mut self, filter: &mut Sbbf, hashes: &[u64]) {
        if !batch::is_prefetched(filter.blocks().len()) {
            return filter.insert_hashes(self.isa, hashes);
        }
        self.hashes.extend_from_slice(hashes);
        let count = self.hashes.len().saturating_sub(AHEAD);
        batch::insert(self.isa, filter.blocks_mut(), &self.hashes, count);
        self.hashes.drain(..count);
    }

    /// Inserts the waiting hashes.
    pub(super) fn finish(self, filter: &mut Sbbf) {
        filter.insert_hashes(self.isa, &self.hashes);
    }
}
