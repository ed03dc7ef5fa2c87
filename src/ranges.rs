//! Reading without I/O: a step examines the bytes fetched so far, and returns either its result or the ranges it needs.
//!
//! ```text
//! loop { match step(&fetched)? { Need(ranges) => for each range: fetched.insert(start, bytes), Ready(value) => break value } }
//! ```
//!
//! Every range that a step needs is inside the file, is not empty, and contains bytes that were not fetched. The loop
//! therefore ends if the caller fetches all of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::int::{to_u64, to_usize};

/// Ranges closer than this are read in one request. On an object store, reading 64 KiB more costs less than another
/// request.
pub const USUAL_GAP: u64 = 64 * 1024;

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<T> {
    /// The step needs these ranges of the file first.
    Need(Vec<Range<u64>>),
    /// The step is finished.
    Ready(T),
}

impl<T> Step<T> {
    /// Applies a function to a finished result.
    pub fn map<U>(self, then: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Self::Need(ranges) => Step::Need(ranges),
            Self::Ready(value) => Step::Ready(then(value)),
        }
    }
}

/// The fetched parts of a file. Parts that touch or overlap are joined, so short reads do no harm.
#[derive(Debug, Default, Clone)]
pub struct Fetched {
    /// Bytes by offset. No two parts touch. A clone shares the bytes until one of the two changes.
    parts: BTreeMap<u64, Arc<Vec<u8>>>,
}

impl Fetched {
    /// Creates an empty set of parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the bytes at offset `start`.
    pub fn insert(&mut self, start: u64, bytes: Vec<u8>) {
        // No file has bytes at or after offset 2^64 - 1.
        if bytes.is_empty() || start.checked_add(to_u64(bytes.len())).is_none() {
            return;
        }
        let before = self.parts.range_mut(..=start).next_back();
        let joins = before.filter(|(at, part)| **at + to_u64(part.len()) >= start);
        let key = match joins {
            Some((at, part)) => {
                extend(Arc::make_mut(part), *at, start, &bytes);
                *at
            }
            None => {
                self.parts.insert(start, Arc::new(bytes));
                start
            }
        };
        self.join_followers(key);
    }

    fn join_followers(&mut self, key: u64) {
        let Some(mut part) = self.parts.remove(&key) else { return };
        while let Some((&next, _)) = self.parts.range(key..=key + to_u64(part.len())).next() {
            if let Some(follower) = self.parts.remove(&next) {
                extend(Arc::make_mut(&mut part), key, next, &follower);
            }
        }
        self.parts.insert(key, part);
    }

    /// Returns the parts that start before `end`. Their bytes are shared.
    pub fn before(&self, end: u64) -> Self {
        Self { parts: self.parts.range(..end).map(|(at, part)| (*at, Arc::clone(part))).collect() }
    }

    /// Returns all bytes of `range` if they were fetched.
    pub fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let bytes = self.prefix(range.start);
        to_usize(range.end.checked_sub(range.start)?).and_then(|len| bytes.get(..len))
    }

    /// Returns the bytes from `start` up to the first gap.
    pub fn prefix(&self, start: u64) -> &[u8] {
        let part = self.parts.range(..=start).next_back();
        part.and_then(|(at, part)| part.get(to_usize(start - at)?..)).unwrap_or_default()
    }

    /// Returns a step that needs the missing bytes of `range`.
    pub(super) fn need<T>(&self, range: &Range<u64>) -> Step<T> {
        Step::Need(self.missing(range).into_iter().collect())
    }

    /// Returns the part of `range` after the fetched bytes at its start.
    pub(super) fn missing(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let start = range.start + to_u64(self.prefix(range.start).len());
        (start < range.end).then_some(start..range.end)
    }

    /// Returns the part of `range` before the fetched bytes at its end. Not all of `range` may have been fetched.
    pub(super) fn missing_before(&self, range: &Range<u64>) -> Range<u64> {
        let last = self.parts.range(range.start..range.end).next_back();
        match last.filter(|(at, part)| **at + to_u64(part.len()) >= range.end) {
            Some((&at, _)) if at > range.start => range.start..at,
            _ => range.clone(),
        }
    }
}

/// Extends `part`, which is at offset `at`, with the portion of `bytes`, at offset `start`, that is beyond its end.
fn extend(part: &mut Vec<u8>, at: u64, start: u64, bytes: &[u8]) {
    let overlap = to_usize(at + to_u64(part.len()) - start).unwrap_or(usize::MAX);
    part.extend_from_slice(bytes.get(overlap..).unwrap_or_default());
}

/// Merges ranges into fewer requests: sorts them, and joins ranges that overlap or are at most `gap` bytes apart.
pub fn coalesce(mut ranges: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Result;

    #[test]
    fn bytes_after_the_last_offset_are_ignored() {
        let mut fetched = Fetched::new();
        for start in [u64::MAX, u64::MAX - 1, u64::MAX - 2] {
            fetched.insert(start, vec![7, 8]);
        }
        assert_eq!(fetched.get(&(u64::MAX - 2..u64::MAX)), Some(&[7, 8][..]));
        assert_eq!(fetched.parts.len(), 1);
    }

    /// Runs a step to its end over a whole file, and returns the result with the ranges that were read. Checks that
    /// every range is inside the file, not empty, and not fetched before.
    pub(crate) fn drive<T>(
        file: &[u8],
        mut step: impl FnMut(&Fetched) -> Result<Step<T>>,
    ) -> Result<(T, Vec<Range<u64>>)> {
        let (mut fetched, mut read) = (Fetched::new(), Vec::new());
        for _ in 0..100 {
            match step(&fetched)? {
                Step::Ready(value) => return Ok((value, read)),
                Step::Need(ranges) => {
                    assert!(!ranges.is_empty(), "a step must ask for something");
                    for range in ranges {
                        assert!(range.start < range.end && range.end <= to_u64(file.len()), "{range:?}");
                        assert!(fetched.prefix(range.start).is_empty(), "{range:?} is known");
                        let bytes = file[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()].to_vec();
                        fetched.insert(range.start, bytes);
                        read.push(range);
                    }
                }
            }
        }
        panic!("the step never ends");
    }

    proptest! {
        #[test]
        fn fetched_parts_read_like_the_file(inserts in prop::collection::vec((0usize..60, 0usize..20), 0..12)) {
            let file: Vec<u8> = (0..80).collect();
            let (mut fetched, mut fetched_bytes) = (Fetched::new(), [false; 80]);
            for (start, len) in inserts {
                fetched.insert(to_u64(start), file[start..start + len].to_vec());
                fetched_bytes[start..start + len].fill(true);
            }
            for start in 0..80 {
                let run = fetched_bytes[start..].iter().take_while(|fetched_bytes| **fetched_bytes).count();
                prop_assert_eq!(fetched.prefix(to_u64(start)), &file[start..start + run]);
                for end in start..80 {
                    let range = to_u64(start)..to_u64(end);
                    let expect = (end <= start + run).then_some(&file[start..end]);
                    prop_assert_eq!(fetched.get(&range), expect);
                }
            }
        }

        #[test]
        fn coalesced_ranges_cover_the_same_bytes(ranges in prop::collection::vec((0u64..200, 0u64..30), 0..12), gap in 0u64..20) {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let joined = coalesce(ranges.clone(), gap);
            for range in ranges.iter().filter(|range| !range.is_empty()) {
                prop_assert!(joined.iter().any(|joined| joined.start <= range.start && range.end <= joined.end));
            }
            for pair in joined.windows(2) {
                prop_assert!(pair[0].end + gap < pair[1].start, "ranges closer than the gap are joined");
            }
            for joined in &joined {
                let ends = |at| ranges.iter().any(|range| range.start == at || range.end == at);
                prop_assert!(ends(joined.start) && ends(joined.end), "no range extends beyond the requested bytes");
            }
        }
    }
}
