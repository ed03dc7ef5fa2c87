//! The cache of decoded segments. A segment is decoded once its lookups have cost about as much as decoding it, if
//! there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::int::saturating_u32;
use crate::sieve::index::loaded::{Index, Slot};
use crate::sieve::key::axis::Key;
use crate::sieve::segment::cache_entry::CachedSegment;
use crate::sieve::segment::packed::Segment;

/// A segment is decoded after one lookup for this many of its blocks, but not before [`MIN_LOOKUPS`].
const BLOCKS_PER_LOOKUP: u32 = 4;
/// Low in tests, so that they cover decoded segments.
const MIN_LOOKUPS: u32 = if cfg!(test) { 3 } else { 64 };

impl<K: Key> Index<K> {
    /// Returns the decoded form of a segment, decoding it if it is worthwhile by now.
    #[inline]
    pub(in crate::sieve) fn cached<'a>(&self, at: usize, segment: &'a Segment<K>) -> Option<&'a CachedSegment> {
        match segment.cache.decoded.get() {
            Some(cached) => cached.as_deref(),
            None => self.count_lookup(at, segment),
        }
    }

    #[inline(never)]
    fn count_lookup<'a>(&self, at: usize, segment: &'a Segment<K>) -> Option<&'a CachedSegment> {
        let threshold = (saturating_u32(segment.num_blocks()) / BLOCKS_PER_LOOKUP).max(MIN_LOOKUPS);
        if segment.cache.count(1) < threshold {
            return None;
        }
        segment.cache.decoded.get_or_init(|| self.decode(at, segment).map(Arc::new)).as_deref()
    }

    fn decode(&self, at: usize, segment: &Segment<K>) -> Option<CachedSegment> {
        let decoded = segment.decode()?;
        let needed = decoded.num_bytes();
        let claim = |room: usize| room.checked_sub(needed);
        self.cache_room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
        let entry = self.root.segments.get(at)?;
        let covers = |location: &u32| {
            let span = self.stats_of(*location).and_then(|stats| stats.span.as_ref());
            span.is_some_and(|span| span.least <= entry.least && span.most >= entry.most)
        };
        Some(CachedSegment { decoded, covered: segment.locations().iter().all(covers) })
    }

    /// Decodes all loaded segments for which there is room. Call this if many lookups will follow. Without it, a
    /// segment is decoded after a number of lookups.
    pub fn decode_all(&self) {
        for (at, slot) in self.slots.iter().enumerate() {
            if let Slot::Ready(segment) = slot {
                segment.cache.decoded.get_or_init(|| self.decode(at, segment).map(Arc::new));
            }
        }
    }

    /// Returns the size of all decoded segments.
    pub fn decoded_bytes(&self) -> usize {
        let ready =
            self.slots.iter().filter_map(|slot| if let Slot::Ready(segment) = slot { Some(segment) } else { None });
        ready.filter_map(|segment| segment.cache.get()).map(|cached| cached.decoded.num_bytes()).sum()
    }

    /// Sets how many bytes further decoded segments may take, in addition to those already decoded. The default is 256
    /// MiB. Zero disables decoding.
    pub fn set_cache_bytes(&mut self, bytes: usize) {
        self.cache_room = Arc::new(AtomicUsize::new(bytes));
    }

    /// Releases the cache room of a segment before it is replaced.
    pub(in crate::sieve) fn release(&self, at: usize) {
        if let Some(Slot::Ready(segment)) = self.slots.get(at)
            && let Some(cached) = segment.cache.get()
        {
            self.cache_room.fetch_add(cached.decoded.num_bytes(), Ordering::Relaxed);
        }
    }
}
