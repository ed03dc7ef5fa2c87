//! Statistics for users: the size of an index and the precision of its answers.

use crate::int::to_u64;
use crate::sieve::index::directory::Entry;
use crate::sieve::index::loaded::{Index, Slot};
use crate::sieve::index::root;
use crate::sieve::key::axis::Key;
use crate::sieve::segment::encode::Counts;

/// The number of points per segment that represent missing keys.
const PROBES: u32 = 256;

impl<K: Key> Index<K> {
    /// Reports the size of the index and the precision of its answers.
    pub fn report(&self) -> Report {
        let counts = self.root.counts();
        let total = |len: fn(&Entry<K>) -> u64| self.root.segments.iter().map(len).fold(0, u64::saturating_add);
        let largest = self.root.segments.iter().map(|entry| entry.lookup.len).max().unwrap_or(0);
        Report {
            counts,
            segments: to_u64(self.root.segments.len()),
            locations: u64::from(self.num_locations()),
            lookup_bytes: total(|entry| entry.lookup.len),
            largest_lookup: largest,
            keys_bytes: total(|entry| entry.keys.len),
            slices: self.units.as_ref().map_or(0, |units| u64::from(units.slices.num_slices())),
            root_bytes: to_u64(match &self.units {
                Some(units) => units.root_bytes,
                None => root::write(&self.root).len(),
            }),
            page_bytes: self.units.as_ref().map_or(0, |units| units.page_bytes()),
        }
    }

    /// Estimates how many locations a key reads on average if it is absent but inside a segment. Probes evenly spaced
    /// points of each loaded segment, and weights segments by their keys. This is an upper bound, because min/max
    /// statistics are ignored.
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

/// The size of an index and the precision of its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Totals over the keys.
    pub counts: Counts,
    /// The number of segments.
    pub segments: u64,
    /// The number of locations. In version 2, these are units.
    pub locations: u64,
    /// The number of slices that the units belong to. Zero in version 1.
    pub slices: u64,
    /// The bytes of all lookup sections.
    pub lookup_bytes: u64,
    /// The bytes of the largest lookup section.
    pub largest_lookup: u64,
    /// The bytes of all keys sections.
    pub keys_bytes: u64,
    /// The bytes of the root's file, which may include the unit pages.
    pub root_bytes: u64,
    /// The bytes of the unit pages, in either file.
    pub page_bytes: u64,
}

impl Report {
    /// Returns the bits of the lookup sections per row.
    pub fn bits_per_row(&self) -> f64 {
        ratio(self.lookup_bytes.saturating_mul(8), self.counts.rows)
    }

    /// Returns the mean number of locations that an existing key reads needlessly.
    pub fn waste_per_key(&self) -> f64 {
        ratio(self.counts.reads - self.counts.pairs.min(self.counts.reads), self.counts.keys)
    }

    /// Returns the error E of the thesis: the mean share of all locations that an existing key reads needlessly.
    pub fn error(&self) -> f64 {
        ratio(
            self.counts.reads - self.counts.pairs.min(self.counts.reads),
            self.counts.keys.saturating_mul(self.locations),
        )
    }
}

/// Returns a quotient for display. No stored byte depends on it.
#[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
