//! An index with its root and the segments loaded so far.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32};
use crate::sieve::index::directory::{IndexInfo, Root};
use crate::sieve::index::key_prefixes::KeyPrefixes;
use crate::sieve::index::unit_root::{UnitRoot, check_of};
use crate::sieve::index::unit_table::UnitTable;
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
    /// The units of an index of version 2, whose root has no named locations.
    pub(in crate::sieve) units: Option<UnitTable<K>>,
    /// The bytes that further decoded segments may take.
    pub(in crate::sieve) cache_room: Arc<AtomicUsize>,
}

impl<K: Key> Index<K> {
    /// Creates an index without loaded segments.
    pub fn new(root: Root<K>) -> Self {
        let slots = vec![Slot::Absent; root.segments.len()];
        let unknown = (0..).zip(&root.stats).filter(|(_, stats)| stats.unknown).map(|(location, _)| location).collect();
        let prefixes = KeyPrefixes::new(&root.segments, &root.stats);
        let cache_room = Arc::new(AtomicUsize::new(DEFAULT_CACHE_BYTES));
        Self { root, slots, prefixes, unknown, units: None, cache_room }
    }

    /// Opens a root of version 2 from the bytes of its file, which may have unit pages behind the root.
    pub fn open_units(bytes: &[u8]) -> Result<Self> {
        let (root, behind) = UnitRoot::<K>::read(bytes)?;
        let mut table = UnitTable::new(&root, bytes.len());
        let IndexInfo { axis, instant, options } = root.info;
        let named = Root { axis, instant, options, locations: Vec::new(), stats: Vec::new(), segments: root.segments };
        let mut index = Self::new(named);
        table.load_behind(behind, &index.prefixes);
        index.unknown = table.unknown();
        index.units = Some(table);
        Ok(index)
    }

    /// Returns the number of units. Zero in version 1.
    pub fn num_units(&self) -> u32 {
        self.units.as_ref().map_or(0, |units| units.slices.num_units())
    }

    /// Loads a unit page. If the bytes are damaged, returns an error, and from then on nothing excludes the page's
    /// units. Call `load_page(page, &[])` for the same effect if the bytes cannot be read.
    pub fn load_page(&mut self, page: usize, bytes: &[u8]) -> Result<()> {
        let Some(units) = &mut self.units else { return Err(Error::new(ErrorKind::SievePageMissing { page })) };
        let loaded = units.load(page, bytes, &self.prefixes);
        self.unknown = units.unknown();
        loaded
    }

    /// Returns the number of locations or units.
    pub(in crate::sieve) fn num_locations(&self) -> u32 {
        match &self.units {
            Some(units) => units.slices.num_units(),
            None => saturating_u32(self.root.locations.len()),
        }
    }

    /// Returns the root.
    pub fn root(&self) -> &Root<K> {
        &self.root
    }

    /// Loads the lookup section of a segment. If the bytes are damaged, returns an error, and from then on the segment
    /// matches every location. Call `load(segment, &[])` for the same effect if the bytes cannot be read.
    pub fn load(&mut self, segment: usize, bytes: &[u8]) -> Result<()> {
        let num_locations = self.num_locations();
        self.release(segment);
        let (Some(slot), Some(entry)) = (self.slots.get_mut(segment), self.root.segments.get(segment)) else {
            return Err(Error::new(ErrorKind::SieveNotLoaded { segment }));
        };
        if entry.check.is_some() && check_of(bytes) != entry.check {
            *slot = Slot::Damaged;
            return Err(Error::new(ErrorKind::SieveChecksum { part: "segment" }));
        }
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
        match &self.units {
            Some(units) => units.stats_of(location),
            None => self.root.stats.get(index(location)),
        }
    }
}
