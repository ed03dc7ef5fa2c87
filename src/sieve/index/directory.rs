//! The directory of an index: its locations with their statistics, and the position of each segment.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{saturating_u32, to_u64};
use crate::sieve::key::axis::{AxisType, Key};
use crate::sieve::record::options::Options;
use crate::sieve::segment::encode::{Counts, EncodedSegment};
use crate::sieve::unit::stats::{KeySpan, Stats};

/// A place where rows are stored: a file group of a partition, whichever file of the group is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The path of the partition.
    pub partition: String,
    /// The ID of the file group, or the file name if the table has no groups.
    pub group: String,
}

/// The result of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built<K> {
    /// The segments in order of their keys.
    pub segments: Vec<EncodedSegment<K>>,
    /// The span of each location that has keys.
    pub spans: Vec<Option<KeySpan<K>>>,
}

/// A byte range of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectionRange {
    /// The number of the segment file.
    pub file: u32,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// The directory entry of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<K> {
    /// The least key.
    pub least: K,
    /// The greatest key.
    pub most: K,
    /// The position of the lookup section.
    pub lookup: SectionRange,
    /// The position of the keys section. Its length is zero if no keys are stored.
    pub keys: SectionRange,
    /// In version 2, the checksum at the end of the lookup section.
    pub check: Option<u32>,
    /// Totals over the keys.
    pub counts: Counts,
}

/// The properties that all parts of an index share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexInfo {
    /// How values became keys.
    pub axis: AxisType,
    /// The instant of the table that the index describes.
    pub instant: i64,
    /// The options of the build.
    pub options: Options,
}

/// The part of an index that a reader keeps in memory: everything except the segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root<K> {
    /// How values became keys.
    pub axis: AxisType,
    /// The instant of the table that the index describes.
    pub instant: i64,
    /// The options of the build.
    pub options: Options,
    /// The locations by number.
    pub locations: Vec<Location>,
    /// The statistics by location.
    pub stats: Vec<Stats<K>>,
    /// The segments in order of their keys.
    pub segments: Vec<Entry<K>>,
}

/// Lays out segments as one file: all lookup sections in order, then all keys sections.
pub fn pack<K: Key>(segments: &[EncodedSegment<K>], file: u32) -> (Vec<u8>, Vec<Entry<K>>) {
    let mut bytes = Vec::new();
    let mut put = |section: &[u8]| {
        let extent = SectionRange { file, offset: to_u64(bytes.len()), len: to_u64(section.len()) };
        bytes.extend_from_slice(section);
        extent
    };
    let lookups: Vec<SectionRange> = segments.iter().map(|segment| put(&segment.lookup)).collect();
    let keys: Vec<SectionRange> = segments.iter().map(|segment| put(&segment.keys)).collect();
    let entries = segments.iter().zip(lookups).zip(keys).map(|((segment, lookup), keys)| Entry {
        least: segment.least.clone(),
        most: segment.most.clone(),
        lookup,
        keys,
        check: None,
        counts: segment.counts,
    });
    let entries = entries.collect();
    (bytes, entries)
}

impl<K: Key> Root<K> {
    /// Builds a root over one file of segments. Takes nulls, NaN and unknown rows from `stats`, and spans from `built`.
    pub fn new(
        info: IndexInfo,
        locations: Vec<Location>,
        stats: Vec<Stats<K>>,
        built: &Built<K>,
    ) -> Result<(Self, Vec<u8>)> {
        if locations.len() != built.spans.len() || locations.len() != stats.len() {
            return Err(Error::new(ErrorKind::SieveLocation(saturating_u32(locations.len()))));
        }
        let (bytes, segments) = pack(&built.segments, 0);
        let stats = stats.into_iter().zip(&built.spans).map(|(stats, span)| Stats { span: span.clone(), ..stats });
        let IndexInfo { axis, instant, options } = info;
        Ok((Self { axis, instant, options, locations, stats: stats.collect(), segments }, bytes))
    }

    /// Returns the totals over all segments.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.segments.iter().for_each(|entry| sum.add(&entry.counts));
        sum
    }
}
