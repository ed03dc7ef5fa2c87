//! The changes of one commit with exact keys, applied by readers until a compaction includes them.
//!
//! An insert is a plus, a delete is a minus, and an update of the indexed value is both. A replaced file group is a
//! tombstone, which removes everything before this commit and nothing in it. Readers apply only pluses and tombstones.
//! A minus can narrow an answer only if the exact keys prove that no row remains, which only a compaction can
//! determine.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, to_u64};
use crate::sieve::code::format::{DELTA, cursor, finished, frame, malformed, take_u32, unframe};
use crate::sieve::index::directory::Location;
use crate::sieve::index::lookup::Query;
use crate::sieve::index::root::{put_location, take_location};
use crate::sieve::key::axis::Key;
use crate::varint::put_varint;

/// The rows of a key inserted into or deleted from a location.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change<K> {
    /// The key.
    pub key: K,
    /// The location, by its number in the delta's own list.
    pub location: u32,
    /// The number of rows inserted.
    pub plus: u64,
    /// The number of rows deleted.
    pub minus: u64,
}

/// The rows without a key inserted into or deleted from a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeylessRows {
    /// The location, by its number in the delta's own list.
    pub location: u32,
    /// Null rows inserted and deleted.
    pub nulls: (u64, u64),
    /// NaN rows inserted and deleted.
    pub nans: (u64, u64),
    /// True if rows were inserted but not read. From then on the location belongs to every answer.
    pub unknown: bool,
}

/// All changes of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta<K> {
    pub(in crate::sieve) instant: i64,
    pub(in crate::sieve) locations: Vec<Location>,
    /// The locations that this commit removed.
    pub(in crate::sieve) dead: Vec<u32>,
    pub(in crate::sieve) keyless: Vec<KeylessRows>,
    /// Sorted by key and location, without duplicates.
    pub(in crate::sieve) changes: Vec<Change<K>>,
}

impl<K: Key> Delta<K> {
    /// Builds the delta of a commit. Changes may be in any order. Changes of the same key and location are summed.
    pub fn new(
        instant: i64,
        locations: Vec<Location>,
        mut dead: Vec<u32>,
        mut keyless: Vec<KeylessRows>,
        mut changes: Vec<Change<K>>,
    ) -> Result<Self> {
        let named = changes.iter().map(|change| change.location).chain(dead.iter().copied());
        for location in named.chain(keyless.iter().map(|entry| entry.location)) {
            if index(location) >= locations.len() {
                return Err(Error::new(ErrorKind::SieveLocation(location)));
            }
        }
        dead.sort_unstable();
        dead.dedup();
        keyless.sort_unstable_by_key(|entry| (entry.location, entry.nulls, entry.nans, entry.unknown));
        sort_changes(&mut changes);
        Ok(Self { instant, locations, dead, keyless, changes })
    }

    /// Returns the instant of the commit.
    pub fn instant(&self) -> i64 {
        self.instant
    }

    /// Returns the number of changed pairs of key and location.
    pub fn num_changes(&self) -> usize {
        self.changes.len()
    }

    /// Encodes the delta.
    pub fn write(&self) -> Vec<u8> {
        let mut body = vec![K::CODE];
        body.extend_from_slice(&self.instant.to_le_bytes());
        put_varint(&mut body, to_u64(self.locations.len()));
        self.locations.iter().for_each(|location| put_location(&mut body, location));
        put_varint(&mut body, to_u64(self.dead.len()));
        self.dead.iter().for_each(|&location| put_varint(&mut body, u64::from(location)));
        put_varint(&mut body, to_u64(self.keyless.len()));
        for entry in &self.keyless {
            put_varint(&mut body, u64::from(entry.location));
            [entry.nulls.0, entry.nulls.1, entry.nans.0, entry.nans.1]
                .into_iter()
                .for_each(|rows| put_varint(&mut body, rows));
            body.push(u8::from(entry.unknown));
        }
        put_varint(&mut body, to_u64(self.changes.len()));
        let mut previous: Option<&K> = None;
        for change in &self.changes {
            change.key.write_after(previous, &mut body);
            put_varint(&mut body, u64::from(change.location));
            put_varint(&mut body, change.plus);
            put_varint(&mut body, change.minus);
            previous = Some(&change.key);
        }
        frame(DELTA, &body)
    }

    /// Decodes a delta.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = cursor(unframe(DELTA, bytes)?);
        let cursor = &mut cursor;
        if cursor.u8()? != K::CODE {
            return Err(malformed(cursor, "key width"));
        }
        let instant = cursor.u64()?.cast_signed();
        // Each iteration consumes bytes, so a false count fails at the end of the input.
        let (mut locations, mut dead, mut keyless, mut changes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..cursor.varint()? {
            locations.push(take_location(cursor)?);
        }
        for _ in 0..cursor.varint()? {
            dead.push(take_u32(cursor)?);
        }
        for _ in 0..cursor.varint()? {
            keyless.push(KeylessRows {
                location: take_u32(cursor)?,
                nulls: (cursor.varint()?, cursor.varint()?),
                nans: (cursor.varint()?, cursor.varint()?),
                unknown: cursor.u8()? != 0,
            });
        }
        for _ in 0..cursor.varint()? {
            let key = K::read_after(changes.last().map(|change: &Change<K>| &change.key), cursor)?;
            changes.push(Change { key, location: take_u32(cursor)?, plus: cursor.varint()?, minus: cursor.varint()? });
        }
        finished(cursor)?;
        let (num_changes, num_dead) = (changes.len(), dead.len());
        let delta = Self::new(instant, locations, dead, keyless, changes);
        let delta = delta.map_err(|_| malformed(cursor, "location of a change"))?;
        if (delta.changes.len(), delta.dead.len()) != (num_changes, num_dead) {
            return Err(malformed(cursor, "order of changes"));
        }
        Ok(delta)
    }
}

/// Sorts changes by key and location, and adds up changes of the same key and location.
pub(in crate::sieve) fn sort_changes<K: Key>(changes: &mut Vec<Change<K>>) {
    changes.sort_unstable();
    changes.dedup_by(|next, kept| {
        let same = next.location == kept.location && next.key == kept.key;
        if same {
            kept.plus = kept.plus.saturating_add(next.plus);
            kept.minus = kept.minus.saturating_add(next.minus);
        }
        same
    });
}

/// Returns the sorted changes with keys from `low` to `high`. A missing bound is unlimited.
pub(in crate::sieve) fn between<'a, K: Key>(
    changes: &'a [Change<K>],
    low: Option<&K>,
    high: Option<&K>,
) -> &'a [Change<K>] {
    let start = low.map_or(0, |low| changes.partition_point(|change| change.key < *low));
    let rest = &changes[start..];
    let len = match (low, high) {
        (_, None) => rest.len(),
        // A key has few changes, and they start where the first search ended.
        (Some(low), Some(high)) if low == high => rest.iter().take_while(|change| change.key == *high).count(),
        (_, Some(high)) => rest.partition_point(|change| change.key <= *high),
    };
    &rest[..len]
}

/// Visits the locations of sorted changes that insert rows which match a query about keys.
pub(in crate::sieve) fn visit_inserted<K: Key>(changes: &[Change<K>], query: &Query<K>, visit: &mut impl FnMut(u32)) {
    let mut add = |low: Option<&K>, high: Option<&K>| {
        let inserted = between(changes, low, high).iter().filter(|change| change.plus > 0);
        inserted.for_each(|change| visit(change.location));
    };
    match query {
        Query::Point(key) => add(Some(key), Some(key)),
        Query::In(keys) => keys.iter().for_each(|key| add(Some(key), Some(key))),
        Query::Between(low, high) => add(Some(low), Some(high)),
        Query::AtLeast(key) => add(Some(key), None),
        Query::AtMost(key) => add(None, Some(key)),
        Query::NotNull => add(None, None),
        Query::Null | Query::Nan => {}
    }
}
