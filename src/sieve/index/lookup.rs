//! Queries of an index, answered from memory or with the byte ranges that are still missing.
//!
//! Segments answer points and bounded intervals. The answer is always intersected with each location's least and
//! greatest key. Rays are answered by these alone, which is optimal (theorem 1 of the thesis).

use crate::int::index;
use crate::sieve::index::directory::SectionRange;
use crate::sieve::index::key_prefixes::Overlap;
use crate::sieve::index::loaded::{Index, Slot};
use crate::sieve::key::axis::{AxisType, Bytes, Key};
use crate::sieve::unit::stats::Stats;
use std::collections::BTreeMap;
use std::ops::Range;

/// A list of at most this many locations is short, even if some occur several times.
const FEW_LOCATIONS: usize = 1024;

/// A predicate in terms of keys of the index's axis. The caller converts strict bounds to inclusive ones, or to the
/// next key if the axis is exact. A predicate that has no form here keeps every location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query<K> {
    /// Equal to a key.
    Point(K),
    /// Equal to one of several keys.
    In(Vec<K>),
    /// Between two keys, inclusive.
    Between(K, K),
    /// At least this key.
    AtLeast(K),
    /// At most this key.
    AtMost(K),
    /// Null.
    Null,
    /// Not null.
    NotNull,
    /// NaN.
    Nan,
}

impl<K> Query<K> {
    /// Returns true if statistics alone answer the query.
    pub(in crate::sieve) fn needs_statistics(&self) -> bool {
        matches!(self, Self::AtLeast(_) | Self::AtMost(_) | Self::Null | Self::NotNull | Self::Nan)
    }
}

impl<K: Key> Stats<K> {
    /// Returns true if a location with these statistics may match a question that statistics alone answer. With
    /// `floats`, half-open ranges upward also match NaN.
    pub(in crate::sieve) fn matches(&self, query: &Query<K>, floats: bool) -> bool {
        let span = self.span.as_ref();
        let matches = match query {
            Query::AtLeast(key) => span.is_some_and(|span| span.most >= *key) || floats && self.nans > 0,
            Query::AtMost(key) => span.is_some_and(|span| span.least <= *key),
            Query::Null => self.nulls > 0,
            Query::NotNull => span.is_some() || self.nans > 0,
            Query::Nan => self.nans > 0,
            Query::Point(_) | Query::In(_) | Query::Between(..) => true,
        };
        matches || self.unknown
    }
}

impl Query<Bytes> {
    /// Matches byte strings that begin with a prefix.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self::Between(Bytes::new(prefix), Bytes::last_with_prefix(prefix))
    }
}

/// The locations that may hold a matching row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The index cannot answer the query: keep every location.
    All,
    /// Keep only these locations, in ascending order.
    Only(Vec<u32>),
}

impl Answer {
    /// Returns true if a location must be kept.
    pub fn keeps(&self, location: u32) -> bool {
        match self {
            Self::All => true,
            Self::Only(locations) => locations.binary_search(&location).is_ok(),
        }
    }
}

/// Bytes to load before a query can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The number of the segment, for [`Index::load`].
    pub segment: usize,
    /// The position of its lookup section.
    pub extent: SectionRange,
}

/// An answer, or the segments to load first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// The answer.
    Ready(Answer),
    /// The segments to load, ascending. Neighboring segments are adjacent in their file.
    Need(Vec<Need>),
}

impl<K: Key> Index<K> {
    /// Returns the segments that a query needs and that are not loaded. Rays and null tests need none.
    pub fn needs(&self, query: &Query<K>) -> Vec<Need> {
        let mut needs = Vec::new();
        let mut need = |segment: usize| {
            if let (Some(Slot::Absent), Some(entry)) = (self.slots.get(segment), self.root.segments.get(segment)) {
                needs.push(Need { segment, extent: entry.lookup });
            }
        };
        match query {
            Query::Point(key) => self.segment_of(key).into_iter().for_each(need),
            Query::In(keys) => keys.iter().filter_map(|key| self.segment_of(key)).for_each(need),
            Query::Between(low, high) => {
                for segment in self.segments_in(low, high) {
                    let entry = &self.root.segments[segment];
                    // A segment inside the interval must still be loaded, because its locations are not in the root.
                    if entry.least <= *high && entry.most >= *low {
                        need(segment);
                    }
                }
            }
            Query::AtLeast(_) | Query::AtMost(_) | Query::Null | Query::NotNull | Query::Nan => {}
        }
        needs.sort_unstable_by_key(|need| need.segment);
        needs.dedup();
        needs
    }

    /// Answers a query, or returns the segments that must be loaded first.
    pub fn lookup(&self, query: &Query<K>) -> Lookup {
        let needs = self.needs(query);
        if needs.is_empty() { Lookup::Ready(self.answer(query)) } else { Lookup::Need(needs) }
    }

    /// Answers a query from the loaded segments. A missing segment matches every location.
    pub fn answer(&self, query: &Query<K>) -> Answer {
        let mut out = Vec::new();
        // Spark and DuckDB order NaN above every number, IEEE 754 does not. An upward ray therefore keeps NaN.
        let floats = self.root.axis == AxisType::Float;
        if !self.root.axis.ordered() && matches!(query, Query::Between(..) | Query::AtLeast(_) | Query::AtMost(_)) {
            return Answer::All;
        }
        match query {
            Query::Point(key) => self.point(key, &mut out),
            Query::In(keys) => self.any_of(keys, &mut out),
            Query::Between(low, high) => self.interval(low, high, &mut out),
            Query::AtLeast(_) | Query::AtMost(_) | Query::Null | Query::NotNull | Query::Nan => {
                return Answer::Only(self.select(query, floats));
            }
        }
        Answer::Only(out)
    }

    /// Fast path for one key: appends its locations to the empty `out` without building a `Query`.
    #[inline]
    pub fn point(&self, key: &K, out: &mut Vec<u32>) {
        if let Some(segment) = self.segment_of(key)
            && !self.point_in(segment, key, out)
        {
            out.clear();
            out.extend(0..self.num_locations());
            self.narrow(key, key, out);
        }
        self.add_unknown(out);
    }

    /// Appends the locations of a key in a segment to the empty `out`. Returns false if the segment is missing or
    /// damaged. The appended locations are then void.
    #[inline]
    fn point_in(&self, segment: usize, key: &K, out: &mut Vec<u32>) -> bool {
        let covered = match &self.slots[segment] {
            Slot::Ready(ready) => match self.cached(segment, ready) {
                Some(cached) => {
                    ready.point_in_decoded(cached, key, out);
                    cached.covered
                }
                None if ready.point(key, out).is_ok() => false,
                None => return false,
            },
            Slot::Absent | Slot::Damaged => return false,
        };
        if !covered {
            self.narrow(key, key, out);
        }
        true
    }

    /// Appends the locations of several keys to the empty `out`.
    ///
    /// Keys may share locations, so `out` is never much longer than twice the number of locations. All keys in a missing
    /// or damaged segment are answered together, by the least and the greatest of them.
    fn any_of(&self, keys: &[K], out: &mut Vec<u32>) {
        let all = index(self.num_locations());
        let mut of_key = Vec::new();
        let mut unanswered: BTreeMap<usize, (&K, &K)> = BTreeMap::new();
        for key in keys {
            let Some(segment) = self.segment_of(key) else { continue };
            of_key.clear();
            if self.point_in(segment, key, &mut of_key) {
                out.extend_from_slice(&of_key);
            } else {
                let (least, most) = unanswered.entry(segment).or_insert((key, key));
                (*least, *most) = ((*least).min(key), (*most).max(key));
            }
            if out.len() >= (2 * all).max(FEW_LOCATIONS) && sort_all(out) == all {
                return;
            }
        }
        for (low, high) in unanswered.into_values() {
            of_key.clear();
            of_key.extend(0..self.num_locations());
            self.narrow(low, high, &mut of_key);
            out.extend_from_slice(&of_key);
            if sort_all(out) == all {
                return;
            }
        }
        out.extend_from_slice(&self.unknown);
        sort_all(out);
    }

    /// Appends the locations with keys from `low` to `high` to the empty `out`.
    pub fn interval(&self, low: &K, high: &K, out: &mut Vec<u32>) {
        let segments = if low <= high { self.segments_in(low, high) } else { 0..0 };
        let answered = match segments.len() {
            0 => Some(()),
            1 => self.interval_of(segments.start, low, high, None, out),
            _ => self.interval_over(segments.clone(), low, high, out),
        };
        if answered.is_none() {
            out.clear();
            out.extend(0..self.num_locations());
        }
        // Checking a segment is slower than checking a location, and with many segments it rarely succeeds.
        if answered.is_none() || out.len() <= 4 * segments.len() || !segments.into_iter().all(|at| self.is_covered(at))
        {
            self.narrow(low, high, out);
        }
        self.add_unknown(out);
    }

    /// Returns true if every location of a segment has keys below and above all keys of the segment. An interval that
    /// overlaps such a segment also overlaps the spans of all its locations.
    fn is_covered(&self, at: usize) -> bool {
        matches!(&self.slots[at], Slot::Ready(segment) if segment.cache.get().is_some_and(|cached| cached.covered))
    }

    /// Appends the locations of one segment that are not yet known. Returns `None` if the segment is missing or
    /// damaged.
    fn interval_of(&self, at: usize, low: &K, high: &K, known: Option<&[bool]>, out: &mut Vec<u32>) -> Option<()> {
        match &self.slots[at] {
            Slot::Ready(segment) => {
                self.cached(at, segment);
                segment.interval(low, high, known, out).ok()
            }
            Slot::Absent | Slot::Damaged => None,
        }
    }

    /// Like `interval_of`, for several neighboring segments. Segments inside the interval come first: they need no
    /// decoding, and often contain every location that the two segments at the ends could add.
    fn interval_over(&self, segments: Range<usize>, low: &K, high: &K, out: &mut Vec<u32>) -> Option<()> {
        let mut known = vec![false; index(self.num_locations())];
        let mut missing = known.len();
        let mut add = |known: &mut [bool], locations: &[u32]| {
            for &location in locations {
                if let Some(slot) = known.get_mut(index(location)) {
                    missing -= usize::from(!*slot);
                    *slot = true;
                }
            }
            missing > 0
        };
        let inside = |at: usize| self.root.segments[at].least >= *low && self.root.segments[at].most <= *high;
        let mut more = true;
        for at in segments.clone().filter(|&at| inside(at)) {
            let Slot::Ready(segment) = &self.slots[at] else { return None };
            more = more && add(&mut known, segment.locations());
        }
        let mut added = Vec::new();
        for at in segments.filter(|&at| !inside(at)) {
            if more {
                added.clear();
                self.interval_of(at, low, high, Some(&known), &mut added)?;
                more = add(&mut known, &added);
            }
        }
        out.extend((0..).zip(&known).filter(|(_, known)| **known).map(|(location, _)| location));
        Some(())
    }

    /// Removes the locations whose keys are all outside `low ..= high`.
    #[inline]
    fn narrow(&self, low: &K, high: &K, out: &mut Vec<u32>) {
        let prefixes = (self.prefixes.of(low), self.prefixes.of(high));
        out.retain(|&location| match self.overlaps(location, prefixes) {
            Overlap::No => false,
            Overlap::Yes => true,
            Overlap::Unknown => {
                let span = self.stats_of(location).and_then(|stats| stats.span.as_ref());
                span.is_some_and(|span| span.least <= *high && span.most >= *low)
            }
        });
    }

    #[inline]
    fn overlaps(&self, location: u32, prefixes: (u64, u64)) -> Overlap {
        match &self.units {
            None => self.prefixes.overlaps(location, prefixes),
            Some(units) => units.overlaps(location, prefixes),
        }
    }

    /// Returns the locations that match a question about statistics alone.
    fn select(&self, query: &Query<K>, floats: bool) -> Vec<u32> {
        match &self.units {
            None => {
                let kept = (0..).zip(&self.root.stats).filter(|(_, stats)| stats.matches(query, floats));
                kept.map(|(location, _)| location).collect()
            }
            Some(units) => units.select(query, floats),
        }
    }

    /// Returns the unit pages that a query needs and that are not loaded.
    pub fn needs_pages(&self, query: &Query<K>) -> Vec<(usize, SectionRange)> {
        self.units.as_ref().map_or(Vec::new(), |units| units.needs(query, self.root.axis == AxisType::Float))
    }

    fn add_unknown(&self, out: &mut Vec<u32>) {
        if !self.unknown.is_empty() {
            out.extend_from_slice(&self.unknown);
            sort_all(out);
        }
    }

    /// Returns the segment whose least and greatest key enclose a key.
    #[inline]
    fn segment_of(&self, key: &K) -> Option<usize> {
        self.prefixes.segment_of(key, &self.root.segments)
    }

    fn segments_in(&self, low: &K, high: &K) -> Range<usize> {
        let start = self.root.segments.partition_point(|entry| entry.most < *low);
        let end = self.root.segments.partition_point(|entry| entry.least <= *high);
        start..end.max(start)
    }
}

/// Sorts locations, removes duplicates, and returns the number of different ones.
fn sort_all(locations: &mut Vec<u32>) -> usize {
    locations.sort_unstable();
    locations.dedup();
    locations.len()
}
