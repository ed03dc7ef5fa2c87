//! What a reader keeps of an index: its locations with their statistics, and where each segment lies.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{saturating_u32, to_u64};
use crate::sieve::key::axis::{AxisType, Key};
use crate::sieve::record::options::Options;
use crate::sieve::segment::encode::{Counts, Sealed};

/// Where rows live: a file group of a partition, whichever of its files is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The partition's path.
    pub partition: String,
    /// The file group's id, or the file's name where the table has no groups.
    pub group: String,
}

/// What is known of the keys of one location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span<K> {
    /// Least key.
    pub least: K,
    /// Greatest key.
    pub most: K,
    /// Rows with a key.
    pub rows: u64,
}

/// The outcome of a build: segments in order, and the span of each location that has keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built<K> {
    /// Segments in order of their keys.
    pub segments: Vec<Sealed<K>>,
    /// By location.
    pub spans: Vec<Option<Span<K>>>,
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
