//! The cache entry of a segment: its decoded form, if any, and the number of lookups so far.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::int::saturating_u32;
use crate::sieve::segment::decoded::DecodedSegment;

/// The default limit on the size of all decoded segments of an index.
pub(in crate::sieve) const DEFAULT_CACHE_BYTES: usize = 256 << 20;

/// A decoded segment.
#[derive(Debug)]
pub(in crate::sieve) struct CachedSegment {
    pub(in crate::sieve) decoded: DecodedSegment,
    /// True if every location of the segment has keys below and above all keys of the segment. Min/max statistics then
    /// cannot narrow an answer.
    pub(in crate::sieve) covered: bool,
}

/// The number of lookups in a segment, and its decoded form. The inner `None` means that the segment will not be
/// decoded.
#[derive(Debug, Default)]
pub(in crate::sieve) struct CacheEntry {
    lookups: AtomicU32,
    pub(in crate::sieve) decoded: OnceLock<Option<Arc<CachedSegment>>>,
}

impl Clone for CacheEntry {
    fn clone(&self) -> Self {
        Self { lookups: AtomicU32::new(self.lookups.load(Ordering::Relaxed)), decoded: self.decoded.clone() }
    }
}

impl CacheEntry {
    #[inline]
    pub(in crate::sieve) fn get(&self) -> Option<&CachedSegment> {
        self.decoded.get()?.as_deref()
    }

    /// Counts decoded blocks. Concurrent updates may be lost, which only delays decoding.
    pub(in crate::sieve) fn count(&self, blocks: usize) -> u32 {
        let lookups = self.lookups.load(Ordering::Relaxed).saturating_add(saturating_u32(blocks));
        self.lookups.store(lookups, Ordering::Relaxed);
        lookups
    }
}
