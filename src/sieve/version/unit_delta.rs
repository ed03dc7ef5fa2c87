//! The changes of one commit in version 2: new slices with all their keys, and rows added to slices that are known.
//!
//! A changed file becomes a new slice, so most commits only add slices. A reader never uses the rows that a commit
//! removed: a slice that is gone is not in the bindings of the version, and a removed row narrows no answer.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32, to_u64};
use crate::sieve::code::format::{UNIT_DELTA, cursor, finished, frame, malformed, take_u32, unframe};
use crate::sieve::index::lookup::Query;
use crate::sieve::key::axis::Key;
use crate::sieve::unit::layout::Layout;
use crate::sieve::unit::page::UnitPage;
use crate::sieve::unit::slice_map::{SliceMap, WHOLE_SLICE};
use crate::sieve::unit::stats::{KeySpan, Stats};
use crate::sieve::version::delta::{Change, sort_changes, visit_inserted};
use crate::varint::put_varint;

/// The rows without a key that were added to and removed from a known slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChangedSlice {
    /// The ID of the slice.
    pub id: u32,
    /// Null rows added and removed.
    pub nulls: (u64, u64),
    /// NaN rows added and removed.
    pub nans: (u64, u64),
    /// True if rows were added but not read. From then on the slice belongs to every answer.
    pub unknown: bool,
}

/// All changes of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitDelta<K> {
    pub(in crate::sieve) instant: i64,
    /// The new slices.
    pub(in crate::sieve) units: UnitPage<K>,
    /// The known slices with changed rows, in order of their IDs.
    pub(in crate::sieve) changed: Vec<ChangedSlice>,
    /// Sorted by key and location, without duplicates. A location is a unit of the new slices, or the number of units
    /// plus a position in `changed`.
    pub(in crate::sieve) changes: Vec<Change<K>>,
    pub(in crate::sieve) slices: SliceMap,
    /// The rows added to each changed slice.
    added: Vec<Stats<K>>,
}

impl<K: Key> UnitDelta<K> {
    /// Builds the delta of a commit. `sides` has the nulls and NaN of each unit, and whether it has unread rows.
    pub fn new(
        instant: i64,
        layout: Layout,
        sides: &[(u64, u64, bool)],
        changed: Vec<ChangedSlice>,
        mut changes: Vec<Change<K>>,
    ) -> Result<Self> {
        sort_changes(&mut changes);
        let side = |&(nulls, nans, unknown): &(u64, u64, bool)| Stats { span: None, nulls, nans, unknown };
        let mut units = UnitPage::new(layout, sides.iter().map(side).collect())?;
        for change in changes.iter().filter(|change| change.plus > 0) {
            // Rows of changed slices, which have no statistics, are counted below.
            if let Some(stats) = units.stats.get_mut(index(change.location)) {
                extend_span(stats, change);
            }
        }
        Self::over(instant, units, changed, changes)
    }

    fn over(instant: i64, units: UnitPage<K>, changed: Vec<ChangedSlice>, changes: Vec<Change<K>>) -> Result<Self> {
        let new = |slice: &ChangedSlice| units.layout.position(slice.id).is_some();
        if !changed.is_sorted_by(|a, b| a.id < b.id) || changed.iter().any(new) {
            return Err(Error::new(ErrorKind::SieveOption("changed slices are known, and their IDs ascend")));
        }
        let num_units = units.stats.len();
        let stats_of = |slice: &ChangedSlice| Stats {
            span: None,
            nulls: slice.nulls.0,
            nans: slice.nans.0,
            unknown: slice.unknown,
        };
        let mut added: Vec<Stats<K>> = changed.iter().map(stats_of).collect();
        for change in &changes {
            let Some(at) = index(change.location).checked_sub(num_units) else { continue };
            let stats = added.get_mut(at).ok_or(Error::new(ErrorKind::SieveLocation(change.location)))?;
            if change.plus > 0 {
                extend_span(stats, change);
            }
        }
        let slices = SliceMap::of(&units.layout);
        Ok(Self { instant, units, changed, changes, slices, added })
    }

    /// Returns the instant of the commit.
    pub fn instant(&self) -> i64 {
        self.instant
    }

    /// Returns the number of changed pairs of key and location.
    pub fn num_changes(&self) -> usize {
        self.changes.len()
    }

    /// Returns the rows added to each changed slice.
    pub(in crate::sieve) fn added(&self) -> &[Stats<K>] {
        &self.added
    }

    /// Returns the slice and the unit within it of a location in `changes`.
    pub(in crate::sieve) fn name(&self, location: u32) -> Option<(u32, u32)> {
        match self.slices.slice_of(location) {
            Some(slice) => Some((slice.id, location - slice.first)),
            None => {
                let changed = self.changed.get(index(location - self.slices.num_units()))?;
                Some((changed.id, WHOLE_SLICE))
            }
        }
    }

    /// Returns the slices and units that may have rows which match a query.
    pub(in crate::sieve) fn answer(&self, query: &Query<K>, floats: bool) -> Vec<(u32, u32)> {
        let by_statistics = query.needs_statistics();
        let matches = |stats: &Stats<K>| stats.unknown || by_statistics && stats.matches(query, floats);
        let all = (0..).zip(self.units.stats.iter().chain(&self.added));
        let mut kept: Vec<u32> = all.filter(|(_, stats)| matches(stats)).map(|(location, _)| location).collect();
        if !by_statistics {
            visit_inserted(&self.changes, query, &mut |location| kept.push(location));
            kept.sort_unstable();
            kept.dedup();
        }
        let changed = kept.partition_point(|&location| location < self.slices.num_units());
        let mut named = self.slices.name(&kept[..changed]);
        named.extend(kept[changed..].iter().filter_map(|&location| self.name(location)));
        named
    }

    /// Encodes the delta.
    pub fn write(&self) -> Vec<u8> {
        let mut body = vec![K::CODE];
        body.extend_from_slice(&self.instant.to_le_bytes());
        self.units.put(&mut body);
        put_varint(&mut body, to_u64(self.changed.len()));
        for slice in &self.changed {
            put_varint(&mut body, u64::from(slice.id));
            [slice.nulls.0, slice.nulls.1, slice.nans.0, slice.nans.1]
                .into_iter()
                .for_each(|rows| put_varint(&mut body, rows));
            body.push(u8::from(slice.unknown));
        }
        put_varint(&mut body, to_u64(self.changes.len()));
        let mut previous: Option<&K> = None;
        for change in &self.changes {
            change.key.write_after(previous, &mut body);
            let flags = u64::from(change.plus != 1) | u64::from(change.minus != 0) << 1;
            put_varint(&mut body, u64::from(change.location) << 2 | flags);
            if change.plus != 1 {
                put_varint(&mut body, change.plus);
            }
            if change.minus != 0 {
                put_varint(&mut body, change.minus);
            }
            previous = Some(&change.key);
        }
        frame(UNIT_DELTA, &body)
    }

    /// Decodes a delta.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = cursor(unframe(UNIT_DELTA, bytes)?);
        let cursor = &mut cursor;
        if cursor.u8()? != K::CODE {
            return Err(malformed(cursor, "key width"));
        }
        let instant = cursor.u64()?.cast_signed();
        let units = UnitPage::take(cursor)?;
        let (mut changed, mut changes): (Vec<ChangedSlice>, Vec<Change<K>>) = (Vec::new(), Vec::new());
        // Each iteration consumes bytes, so a false count fails at the end of the input.
        for _ in 0..cursor.varint()? {
            changed.push(ChangedSlice {
                id: take_u32(cursor)?,
                nulls: (cursor.varint()?, cursor.varint()?),
                nans: (cursor.varint()?, cursor.varint()?),
                unknown: cursor.u8()? != 0,
            });
        }
        let locations = to_u64(units.stats.len() + changed.len());
        for _ in 0..cursor.varint()? {
            let previous = changes.last();
            let key = K::read_after(previous.map(|change| &change.key), cursor)?;
            let head = cursor.varint()?;
            let location = head >> 2;
            if location >= locations {
                return Err(malformed(cursor, "location of a change"));
            }
            let location = saturating_u32(crate::int::to_usize(location).unwrap_or(usize::MAX));
            if previous.is_some_and(|previous| (&previous.key, previous.location) >= (&key, location)) {
                return Err(malformed(cursor, "order of changes"));
            }
            let plus = if head & 1 == 0 { 1 } else { cursor.varint()? };
            let minus = if head & 2 == 0 { 0 } else { cursor.varint()? };
            changes.push(Change { key, location, plus, minus });
        }
        finished(cursor)?;
        Self::over(instant, units, changed, changes).map_err(|_| malformed(cursor, "changed slices"))
    }
}

/// Adds the rows of a change to a span.
fn extend_span<K: Key>(stats: &mut Stats<K>, change: &Change<K>) {
    match &mut stats.span {
        Some(span) => {
            if change.key < span.least {
                span.least = change.key.clone();
            } else if change.key > span.most {
                span.most = change.key.clone();
            }
            span.rows = span.rows.saturating_add(change.plus);
        }
        none => {
            *none = Some(KeySpan { least: change.key.clone(), most: change.key.clone(), rows: change.plus });
        }
    }
}
