//! What an index costs and what its answers waste, in numbers for people.

use crate::int::to_u64;
use crate::sieve::index::directory::Entry;
use crate::sieve::index::loaded::{Index, Slot};
use crate::sieve::index::root;
use crate::sieve::key::axis::Key;
use crate::sieve::segment::encode::Counts;

/// Points of each segment that stand for the keys that do not exist.
const PROBES: u32 = 256;

impl<K: Key> Index<K> {
    /// Numbers for people: what the index costs, and what its answers waste.
    pub fn report(&self) -> Report {
        let counts = self.root.counts();
        let total = |len: fn(&Entry<K>) -> u64| self.root.segments.iter().map(len).fold(0, u64::saturating_add);
        let largest = self.root.segments.iter().map(|entry| entry.lookup.len).max().unwrap_or(0);
        Report {
            counts,
            segments: to_u64(self.root.segments.len()),
            locations: to_u64(self.root.locations.len()),
            lookup_bytes: total(|entry| entry.lookup.len),
            largest_lookup: largest,
            keys_bytes: total(|entry| entry.keys.len),
            root_bytes: to_u64(root::write(&self.root).len()),
        }
    }

    /// Mean locations that a key reads which does not exist but lies inside a segment: from points spread evenly over each
    /// loaded segment, which count by their keys. Before the intersection with min/max, so at most this.
    pub fn reads_of_absent_keys(&self) -> f64 {
        let (mut reads, mut keys) = (0.0, 0);
        for (slot, entry) in self.slots.iter().zip(&self.root.segments) {
            if let Slot::Ready(segment) = slot {
                reads += ratio(segment.reads_of(PROBES), u64::from(PROBES)) * ratio(entry.counts.keys, 1);
                keys = entry.counts.keys.saturating_add(keys);
            }
        }
        reads / ratio(keys.max(1), 1)
    }
}

/// What an index costs and wastes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Sums over the keys.
    pub counts: Counts,
    /// Segments.
    pub segments: u64,
    /// Locations.
    pub locations: u64,
    /// Bytes that lookups may read, beside the root.
    pub lookup_bytes: u64,
    /// Bytes of the largest lookup section.
    pub largest_lookup: u64,
    /// Bytes that only compaction reads.
    pub keys_bytes: u64,
    /// Bytes of the root.
    pub root_bytes: u64,
}

impl Report {
    /// Bits of the lookup sections per row.
    pub fn bits_per_row(&self) -> f64 {
        ratio(self.lookup_bytes.saturating_mul(8), self.counts.rows)
    }

    /// Mean locations that a present key reads in vain.
    pub fn waste_per_key(&self) -> f64 {
        ratio(self.counts.reads - self.counts.pairs.min(self.counts.reads), self.counts.keys)
    }

    /// E of the spec: the mean share of all locations that a present key reads in vain.
    pub fn error(&self) -> f64 {
        ratio(
            self.counts.reads - self.counts.pairs.min(self.counts.reads),
            self.counts.keys.saturating_mul(self.locations),
        )
    }
}

/// A quotient for people; no bytes depend on it.
#[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
