//! Sorted keys with their locations and row counts, as the builder buffers them.

use std::ops::Range;

use super::axis::Key;

/// Keys in ascending order, each with its `(location, rows)` pairs in ascending order.
#[derive(Debug, Clone)]
pub(super) struct Records<K> {
    pub(super) keys: Vec<K>,
    /// Index into `locations` and `rows` after each key's last pair.
    ends: Vec<usize>,
    /// Whether each key has the location set of the key before it.
    repeats: Vec<bool>,
    pub(super) locations: Vec<u32>,
    pub(super) rows: Vec<u64>,
}

impl<K> Default for Records<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), ends: Vec::new(), repeats: Vec::new(), locations: Vec::new(), rows: Vec::new() }
    }
}

impl<K: Key> Records<K> {
    /// Closes a key whose pairs have been appended.
    pub(super) fn close(&mut self, key: K) {
        let (start, end) = (self.ends.last().copied().unwrap_or(0), self.locations.len());
        let before = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before]);
        // Most keys have one location, which needs no comparison of slices.
        let repeats = match (&self.locations[before..start], &self.locations[start..end]) {
            ([a], [b]) => a == b,
            (a, b) => !a.is_empty() && a == b,
        };
        self.keys.push(key);
        self.ends.push(end);
        self.repeats.push(repeats);
    }

    /// Whether a key, not the first one, has the location set of the key before it.
    #[inline]
    pub(super) fn repeats(&self, key: usize) -> bool {
        self.repeats[key]
    }

    /// Adds a key with its pairs.
    pub(super) fn push(&mut self, key: K, locations: &[u32], rows: &[u64]) {
        self.locations.extend_from_slice(locations);
        self.rows.extend_from_slice(rows);
        self.close(key);
    }

    /// The pairs of some neighbouring keys.
    #[inline]
    pub(super) fn pairs(&self, keys: Range<usize>) -> Range<usize> {
        let before = |key: usize| if key == 0 { 0 } else { self.ends[key - 1] };
        before(keys.start)..before(keys.end)
    }

    /// The pair after a key's last one.
    #[inline]
    pub(super) fn end(&self, key: usize) -> usize {
        self.ends[key]
    }

    /// The locations of one key.
    #[inline]
    pub(super) fn set(&self, key: usize) -> &[u32] {
        &self.locations[self.pairs(key..key + 1)]
    }

    /// Forgets the first keys.
    pub(super) fn forget(&mut self, keys: usize) {
        let pairs = self.pairs(0..keys).end;
        self.keys.drain(..keys);
        self.ends.drain(..keys);
        self.repeats.drain(..keys);
        self.ends.iter_mut().for_each(|end| *end -= pairs);
        self.locations.drain(..pairs);
        self.rows.drain(..pairs);
    }
}
