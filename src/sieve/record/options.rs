//! What a caller may choose about an index; stored with it, so that a compaction is made like the build.

use crate::error::{Error, ErrorKind, Result};

/// How far the exact runs are coarsened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coarsen {
    /// Not at all: every present key reads its own locations.
    #[default]
    Exact,
    /// Until the mean share of locations that a present key reads in vain, E of the spec, reaches this many millionths.
    Error {
        /// Millionths of a share.
        millionths: u32,
    },
    /// Merge neighbours while a bit saved costs at most this many thousandths of a location read in vain, summed over keys.
    Slope {
        /// Thousandths.
        thousandths: u32,
    },
    /// The thesis's plain blocks: one set for each block of about so many keys.
    Plain {
        /// Mean keys per block.
        keys: u32,
    },
}

/// Limits of a segment and of the memory of the pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Most `(key, location)` records of a segment; 3,000,000 in the thesis.
    pub max_records: usize,
    /// Most bytes of buffered byte-string keys.
    pub max_key_bytes: usize,
    /// Most locations, summed over the runs of a segment: what bounds its lookup section to 64 KiB.
    pub max_weight: u32,
    /// Coarsening.
    pub coarsen: Coarsen,
}

impl Default for Options {
    fn default() -> Self {
        Self { max_records: 3_000_000, max_key_bytes: 64 << 20, max_weight: 16_384, coarsen: Coarsen::Exact }
    }
}

impl Options {
    /// Bytes that a builder holds at most for a key type of `key_size` bytes, beyond one more key with all its locations.
    pub fn memory_bound(&self, key_size: usize) -> usize {
        // A record: key, end, location, rows, weight so far; then points and runs of the page that is being sealed.
        let record = key_size + 8 + 4 + 8 + 8;
        self.max_records.saturating_mul(record * 2).saturating_add(self.max_key_bytes)
    }

    pub(in crate::sieve) fn check(&self) -> Result<()> {
        let wrong = match self.coarsen {
            Coarsen::Plain { keys: 0 } => Some("plain blocks hold at least one key"),
            Coarsen::Error { millionths } if millionths > 1_000_000 => Some("an error is a share of at most one"),
            _ if self.max_records == 0 || self.max_key_bytes == 0 || self.max_weight == 0 => Some("a limit of zero"),
            _ => None,
        };
        wrong.map_or(Ok(()), |what| Err(Error::new(ErrorKind::SieveOption(what))))
    }
}
