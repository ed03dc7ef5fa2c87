//! The first eight distinguishing bytes of keys, stored contiguously. Most comparisons of a lookup need nothing else.

use crate::int::index;
use crate::sieve::index::directory::{Entry, Stats};
use crate::sieve::key::axis::Key;
use std::cmp::Ordering;

/// The prefixes of the least and greatest key of each segment and location.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct Heads {
    /// The bytes that all of these keys begin with.
    prefix: Vec<u8>,
    leasts: Vec<u64>,
    mosts: Vec<u64>,
    /// The prefixes by location. For a location without keys, the least is greater than the greatest.
    spans: Vec<(u64, u64)>,
}

/// Whether an interval overlaps the span of a location.
pub(in crate::sieve) enum Meets {
    No,
    Yes,
    /// The prefixes are equal, so the keys themselves must be compared.
    Perhaps,
}

impl Heads {
    pub(in crate::sieve) fn new<K: Key>(segments: &[Entry<K>], stats: &[Stats<K>]) -> Self {
        let spans = || stats.iter().filter_map(|stats| stats.span.as_ref());
        let keys = segments.iter().flat_map(|entry| [&entry.least, &entry.most]);
        let mut keys = keys.chain(spans().flat_map(|span| [&span.least, &span.most])).map(Key::leading);
        let mut prefix = keys.next().unwrap_or_default();
        for key in keys {
            let same = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
            prefix = &prefix[..same];
        }
        let of_span = |stats: &Stats<K>| match &stats.span {
            Some(span) => (span.least.head(prefix), span.most.head(prefix)),
            None => (u64::MAX, 0),
        };
        Self {
            prefix: prefix.to_vec(),
            leasts: segments.iter().map(|entry| entry.least.head(prefix)).collect(),
            mosts: segments.iter().map(|entry| entry.most.head(prefix)).collect(),
            spans: stats.iter().map(of_span).collect(),
        }
    }

    #[inline]
    pub(in crate::sieve) fn of<K: Key>(&self, key: &K) -> u64 {
        key.head(&self.prefix)
    }

    /// Returns the segment whose least and greatest key enclose a key.
    #[inline]
    pub(in crate::sieve) fn segment_of<K: Key>(&self, key: &K, segments: &[Entry<K>]) -> Option<usize> {
        let head = self.of(key);
        let mut after = self.leasts.partition_point(|&least| least < head);
        if self.leasts.get(after) == Some(&head) {
            let equal = self.leasts[after..].partition_point(|&least| least == head);
            after += segments.get(after..after + equal)?.partition_point(|entry| entry.least <= *key);
        }
        let segment = after.checked_sub(1)?;
        let within = match head.cmp(self.mosts.get(segment)?) {
            Ordering::Less => true,
            Ordering::Equal => *key <= segments.get(segment)?.most,
            Ordering::Greater => false,
        };
        within.then_some(segment)
    }

    /// Compares the keys of a location with `low ..= high`, both given by their prefixes.
    #[inline]
    pub(in crate::sieve) fn meets(&self, location: u32, (low, high): (u64, u64)) -> Meets {
        match self.spans.get(index(location)) {
            Some(&(least, most)) if least < high && most > low => Meets::Yes,
            Some(&(least, most)) if least <= high && most >= low => Meets::Perhaps,
            _ => Meets::No,
        }
    }
}
