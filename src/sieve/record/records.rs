//! Sorted keys with their locations and row counts, as the builder buffers them.

use std::ops::Range;

use crate::int::to_u64;
use crate::sieve::key::axis::Key;

/// Keys in ascending order, each with its `(location, rows)` pairs in ascending order.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct Records<K> {
    pub(in crate::sieve) keys: Vec<K>,
    /// The end of each key's pairs in `locations` and `rows`.
    ends: Vec<usize>,
    /// True for each key that has the same location set as the previous key.
    repeats: Vec<bool>,
    pub(in crate::sieve) locations: Vec<u32>,
    pub(in crate::sieve) rows: Vec<u64>,
}

impl<K> Default for Records<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), ends: Vec::new(), repeats: Vec::new(), locations: Vec::new(), rows: Vec::new() }
    }
}

impl<K: Key> Records<K> {
    /// Completes a key whose pairs have already been appended.
    pub(in crate::sieve) fn close(&mut self, key: K) {
        let (start, end) = (self.ends.last().copied().unwrap_or(0), self.locations.len());
        let before = self.ends.len().checked_sub(2).map_or(0, |before| self.ends[before]);
        // Most keys have one location. Comparing the elements is then faster than comparing slices.
        let repeats = match (&self.locations[before..start], &self.locations[start..end]) {
            ([a], [b]) => a == b,
            (a, b) => !a.is_empty() && a == b,
        };
        self.keys.push(key);
        self.ends.push(end);
        self.repeats.push(repeats);
    }

    /// Adds ascending keys with one row in one location each.
    pub(in crate::sieve) fn extend(&mut self, rows: &[(K, u32)]) {
        let Some((_, first)) = rows.first() else { return };
        let pairs = self.locations.len();
        let repeats = self.ends.len().checked_sub(1).is_some_and(|last| *self.set(last) == [*first]);
        self.keys.extend(rows.iter().map(|row| row.0.clone()));
        self.ends.extend(pairs + 1..=pairs + rows.len());
        self.repeats.push(repeats);
        self.repeats.extend(rows.iter().zip(&rows[1..]).map(|(before, row)| before.1 == row.1));
        self.locations.extend(rows.iter().map(|row| row.1));
        self.rows.resize(pairs + rows.len(), 1);
    }

    /// Sums the locations of the runs that begin with one of these keys. The first buffered key always begins a run.
    pub(in crate::sieve) fn weight(&self, keys: Range<usize>) -> u64 {
        let first = keys.start;
        let pairs = self.pairs(keys.clone()).len();
        let repeated = if pairs == keys.len() {
            self.repeats[keys].iter().filter(|&&repeats| repeats).count()
        } else {
            keys.filter(|&key| self.repeats(key)).map(|key| self.pairs(key..key + 1).len()).sum()
        };
        // The key before the first one may already have been dropped.
        let first = if first == 0 && self.repeats.first() == Some(&true) { self.pairs(0..1).len() } else { 0 };
        to_u64(pairs - repeated + first)
    }

    /// Returns true if a key other than the first has the same location set as the previous key.
    #[inline]
    pub(in crate::sieve) fn repeats(&self, key: usize) -> bool {
        self.repeats[key]
    }

    /// Adds a key with its pairs.
    pub(in crate::sieve) fn push(&mut self, key: K, locations: &[u32], rows: &[u64]) {
        self.locations.extend_from_slice(locations);
        self.rows.extend_from_slice(rows);
        self.close(key);
    }

    /// Returns the pairs of a range of neighboring keys.
    #[inline]
    pub(in crate::sieve) fn pairs(&self, keys: Range<usize>) -> Range<usize> {
        let before = |key: usize| if key == 0 { 0 } else { self.ends[key - 1] };
        before(keys.start)..before(keys.end)
    }

    /// Returns the end of a key's pairs.
    #[inline]
    pub(in crate::sieve) fn end(&self, key: usize) -> usize {
        self.ends[key]
    }

    /// Returns the locations of a key.
    #[inline]
    pub(in crate::sieve) fn set(&self, key: usize) -> &[u32] {
        &self.locations[self.pairs(key..key + 1)]
    }

    /// Drops the first `keys` keys.
    pub(in crate::sieve) fn forget(&mut self, keys: usize) {
        let pairs = self.pairs(0..keys).end;
        self.keys.drain(..keys);
        self.ends.drain(..keys);
        self.repeats.drain(..keys);
        self.ends.iter_mut().for_each(|end| *end -= pairs);
        self.locations.drain(..pairs);
        self.rows.drain(..pairs);
    }
}
