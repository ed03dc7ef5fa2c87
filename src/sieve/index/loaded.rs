//! An index with its root and the segments loaded so far.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32};
use crate::sieve::index::directory::Root;
use crate::sieve::index::key_prefixes::KeyPrefixes;
use crate::sieve::key::axis::Key;
use crate::sieve::segment::cache_entry::DEFAULT_CACHE_BYTES;
use crate::sieve::segment::packed::Segment;
use crate::sieve::unit::stats::Stats;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The state of a segment.
#[derive(Debug, Clone)]
pub(in crate::sieve) enum Slot<K> {
    Absent,
    Ready(Box<Segment<K>>),
    /// The bytes could not be read. The segment matches every location.
    Damaged,
}

/// A root with the segments loaded so far.
#[derive(Debug, Clone)]
pub struct Index<K> {
    pub(in crate::sieve) root: Root<K>,
    pub(in crate::sieve) slots: Vec<Slot<K>>,
    pub(in crate::sieve) prefixes: KeyPrefixes,
    /// The locations that belong to every answer.
    pub(in crate::sieve) unknown: Vec<u32>,
    /// The bytes that further decoded segments may take.
    pub(in crate::sieve) cache_room: Arc<AtomicUsize>,
}

impl<K: Key> Index<K> {
    /// Creates an index without loaded segments.
    pub fn new(root: Root<K>) -> Self {
        let slots = vec![Slot::Absent; root.segments.len()];
        let unknown = (0..).zip(&root.stats).filter(|(_, stats)| stats.unknown).map(|(location, _)| location).collect();
        let prefixes = KeyPrefixes::new(&root.segments, &root.stats);
        Self { root, slots, prefixes, unknown, cache_room: Arc::new(AtomicUsize::new(DEFAULT_CACHE_BYTES)) }
    }

    /// Returns the root.
    pub fn root(&self) -> &Root<K> {
        &self.root
    }

    /// Loads the lookup section of a segment. If the bytes are damaged, returns an error, and from then on the segment
    /// matches every location. Call `load(segment, &[])` for the same effect if the bytes cannot be read.
    pub fn load(&mut self, segment: usize, bytes: &[u8]) -> Result<()> {
        let num_locations = saturating_u32(self.root.locations.len());
        self.release(segment);
        let Some(slot) = self.slots.get_mut(segment) else {
            return Err(Error::new(ErrorKind::SieveNotLoaded { segment }));
        };
        match Segment::parse(bytes, num_locations) {
            Ok(parsed) => *slot = Slot::Ready(Box::new(parsed)),
            Err(error) => {
                *slot = Slot::Damaged;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Loads every segment from the bytes of file 0. Returns the first error after trying all segments.
    pub fn load_all(&mut self, file: &[u8]) -> Result<()> {
        let mut outcome = Ok(());
        for segment in 0..self.slots.len() {
            let extent = self.root.segments[segment].lookup;
            let range = crate::int::to_usize(extent.offset).zip(crate::int::to_usize(extent.len));
            let bytes = range.and_then(|(start, len)| file.get(start..start.checked_add(len)?));
            outcome = outcome.and(self.load(segment, bytes.unwrap_or_default()));
        }
        outcome
    }

    pub(in crate::sieve) fn stats_of(&self, location: u32) -> Option<&Stats<K>> {
        self.root.stats.get(index(location))
    }
}
