//! The first eight distinguishing bytes of keys, stored contiguously. Most comparisons of a lookup need nothing else.

use crate::int::index;
use crate::sieve::index::directory::Entry;
use crate::sieve::key::axis::Key;
use crate::sieve::unit::stats::Stats;
use std::cmp::Ordering;

/// The prefixes of the least and greatest key of each segment and location.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct KeyPrefixes {
    /// The bytes that all of these keys begin with.
    common_prefix: Vec<u8>,
    leasts: Vec<u64>,
    mosts: Vec<u64>,
    /// The prefixes by location. For a location without keys, the least is greater than the greatest.
    spans: Vec<(u64, u64)>,
}

/// Whether an interval overlaps the span of a location.
pub(in crate::sieve) enum Overlap {
    No,
    Yes,
    /// The prefixes are equal, so the keys themselves must be compared.
    Unknown,
}

impl Overlap {
    /// Compares the prefixes of a span with those of an interval.
    #[inline]
    pub(in crate::sieve) fn of(span: Option<(u64, u64)>, (low, high): (u64, u64)) -> Self {
        match span {
            Some((least, most)) if least < high && most > low => Self::Yes,
            Some((least, most)) if least <= high && most >= low => Self::Unknown,
            _ => Self::No,
        }
    }
}

impl KeyPrefixes {
    pub(in crate::sieve) fn new<K: Key>(segments: &[Entry<K>], stats: &[Stats<K>]) -> Self {
        let spans = || stats.iter().filter_map(|stats| stats.span.as_ref());
        let keys = segments.iter().flat_map(|entry| [&entry.least, &entry.most]);
        let mut keys = keys.chain(spans().flat_map(|span| [&span.least, &span.most])).map(Key::prefix_bytes);
        let mut common_prefix = keys.next().unwrap_or_default();
        for key in keys {
            let same = common_prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
            common_prefix = &common_prefix[..same];
        }
        let of_span = |stats: &Stats<K>| match &stats.span {
            Some(span) => (span.least.prefix_word(common_prefix), span.most.prefix_word(common_prefix)),
            None => (u64::MAX, 0),
        };
        Self {
            common_prefix: common_prefix.to_vec(),
            leasts: segments.iter().map(|entry| entry.least.prefix_word(common_prefix)).collect(),
            mosts: segments.iter().map(|entry| entry.most.prefix_word(common_prefix)).collect(),
            spans: stats.iter().map(of_span).collect(),
        }
    }

    #[inline]
    pub(in crate::sieve) fn of<K: Key>(&self, key: &K) -> u64 {
        key.prefix_word(&self.common_prefix)
    }

    /// Returns the segment whose least and greatest key enclose a key.
    #[inline]
    pub(in crate::sieve) fn segment_of<K: Key>(&self, key: &K, segments: &[Entry<K>]) -> Option<usize> {
        let prefix = self.of(key);
        let mut after = self.leasts.partition_point(|&least| least < prefix);
        if self.leasts.get(after) == Some(&prefix) {
            let equal = self.leasts[after..].partition_point(|&least| least == prefix);
            after += segments.get(after..after + equal)?.partition_point(|entry| entry.least <= *key);
        }
        let segment = after.checked_sub(1)?;
        let within = match prefix.cmp(self.mosts.get(segment)?) {
            Ordering::Less => true,
            Ordering::Equal => *key <= segments.get(segment)?.most,
            Ordering::Greater => false,
        };
        within.then_some(segment)
    }

    /// Compares the keys of a location with `low ..= high`, both given by their prefixes.
    #[inline]
    pub(in crate::sieve) fn overlaps(&self, location: u32, (low, high): (u64, u64)) -> Overlap {
        Overlap::of(self.spans.get(index(location)).copied(), (low, high))
    }
}

#[cfg(test)]
mod tests {
    use super::Overlap;

    #[test]
    fn equal_prefixes_leave_the_overlap_unknown() {
        assert!(matches!(Overlap::of(Some((5, 9)), (3, 5)), Overlap::Unknown));
        assert!(matches!(Overlap::of(Some((5, 9)), (9, 12)), Overlap::Unknown));
        assert!(matches!(Overlap::of(Some((5, 9)), (3, 6)), Overlap::Yes));
        assert!(matches!(Overlap::of(Some((5, 9)), (3, 4)), Overlap::No));
        assert!(matches!(Overlap::of(Some((5, 9)), (10, 12)), Overlap::No));
        assert!(matches!(Overlap::of(None, (0, u64::MAX)), Overlap::No));
    }
}
