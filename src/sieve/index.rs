//! An immutable index: the locations with their statistics, the directory of segments, and the segments read so far.

use super::axis::{AxisType, Key};
use super::builder::{Built, Span};
use super::heads::Heads;
use super::options::Options;
use super::seal::{Counts, Sealed};
use super::segment::Segment;
use super::warm::ROOM;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32, to_u64};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Where rows live: a file group of a partition, whichever of its files is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The partition's path.
    pub partition: String,
    /// The file group's id, or the file's name where the table has no groups.
    pub group: String,
}

/// What the index knows of one location beside its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats<K> {
    /// Its keys, if it has any.
    pub span: Option<Span<K>>,
    /// Rows without a value.
    pub nulls: u64,
    /// Rows whose value is not a number.
    pub nans: u64,
    /// Rows were not all seen: the location belongs to every answer.
    pub unknown: bool,
}

impl<K> Default for Stats<K> {
    fn default() -> Self {
        Self { span: None, nulls: 0, nans: 0, unknown: false }
    }
}

/// A range of bytes of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Which of the index's segment files.
    pub file: u32,
    /// Offset of the first byte.
    pub offset: u64,
    /// How many.
    pub len: u64,
}

/// What the root says of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<K> {
    /// Least key.
    pub least: K,
    /// Greatest key.
    pub most: K,
    /// Where its lookup section lies.
    pub lookup: Extent,
    /// Where its maintenance section lies.
    pub keys: Extent,
    /// Sums over its keys.
    pub counts: Counts,
}

/// The part of an index that a reader keeps: everything but the segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root<K> {
    /// How values became keys.
    pub axis: AxisType,
    /// The table's instant that the index speaks of.
    pub instant: i64,
    /// How it was built.
    pub options: Options,
    /// The locations by number.
    pub locations: Vec<Location>,
    /// Statistics by location.
    pub stats: Vec<Stats<K>>,
    /// Segments in order of their keys.
    pub segments: Vec<Entry<K>>,
}

/// Lays segments out as one file: lookup sections first, neighbours beside each other, then the maintenance sections.
pub fn pack<K: Key>(segments: &[Sealed<K>], file: u32) -> (Vec<u8>, Vec<Entry<K>>) {
    let mut bytes = Vec::new();
    let mut put = |section: &[u8]| {
        let extent = Extent { file, offset: to_u64(bytes.len()), len: to_u64(section.len()) };
        bytes.extend_from_slice(section);
        extent
    };
    let lookups: Vec<Extent> = segments.iter().map(|sealed| put(&sealed.lookup)).collect();
    let keys: Vec<Extent> = segments.iter().map(|sealed| put(&sealed.keys)).collect();
    let entries = segments.iter().zip(lookups).zip(keys).map(|((sealed, lookup), keys)| Entry {
        least: sealed.least.clone(),
        most: sealed.most.clone(),
        lookup,
        keys,
        counts: sealed.counts,
    });
    let entries = entries.collect();
    (bytes, entries)
}

impl<K: Key> Root<K> {
    /// A root over one file of segments; `stats` tells nulls, NaN and unknown rows, its spans are replaced.
    pub fn new(
        (axis, instant, options): (AxisType, i64, Options),
        locations: Vec<Location>,
        stats: Vec<Stats<K>>,
        built: &Built<K>,
    ) -> Result<(Self, Vec<u8>)> {
        if locations.len() != built.spans.len() || locations.len() != stats.len() {
            return Err(Error::new(ErrorKind::SieveLocation(saturating_u32(locations.len()))));
        }
        let (bytes, segments) = pack(&built.segments, 0);
        let stats = stats.into_iter().zip(&built.spans).map(|(stats, span)| Stats { span: span.clone(), ..stats });
        Ok((Self { axis, instant, options, locations, stats: stats.collect(), segments }, bytes))
    }

    /// Sums over all segments.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.segments.iter().for_each(|entry| sum.add(&entry.counts));
        sum
    }
}

/// A segment as far as it is known.
#[derive(Debug, Clone)]
pub(super) enum Slot<K> {
    Absent,
    Ready(Box<Segment<K>>),
    /// Its bytes could not be read: it stands for every location.
    Damaged,
}

/// A root with the segments that were given to it.
#[derive(Debug, Clone)]
pub struct Index<K> {
    pub(super) root: Root<K>,
    pub(super) slots: Vec<Slot<K>>,
    pub(super) heads: Heads,
    /// The locations that belong to every answer.
    pub(super) unknown: Vec<u32>,
    /// Bytes that may still be spent on decoded segments.
    pub(super) room: Arc<AtomicUsize>,
}

impl<K: Key> Index<K> {
    /// An index none of whose segments is known yet.
    pub fn new(root: Root<K>) -> Self {
        let slots = vec![Slot::Absent; root.segments.len()];
        let unknown = (0..).zip(&root.stats).filter(|(_, stats)| stats.unknown).map(|(location, _)| location).collect();
        let heads = Heads::new(&root.segments, &root.stats);
        Self { root, slots, heads, unknown, room: Arc::new(AtomicUsize::new(ROOM)) }
    }

    /// Its root.
    pub fn root(&self) -> &Root<K> {
        &self.root
    }

    /// Gives the lookup section of a segment. Where the bytes are damaged the error says how, and from then on the segment
    /// stands for every location, as it does after `load(segment, &[])` for bytes that could not be had.
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

    /// Gives every segment from the bytes of file 0; the first error is returned after all were tried.
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

    pub(super) fn stats_of(&self, location: u32) -> Option<&Stats<K>> {
        self.root.stats.get(index(location))
    }
}
