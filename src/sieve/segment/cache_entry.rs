//! The cache entry of a segment: its decoded form, if any, and the number of lookups so far.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::int::saturating_u32;
use crate::sieve::segment::decoded::Unpacked;

/// The default limit on the size of all decoded segments of an index.
pub(in crate::sieve) const ROOM: usize = 256 << 20;

/// A decoded segment.
#[derive(Debug)]
pub(in crate::sieve) struct Warm {
    pub(in crate::sieve) unpacked: Unpacked,
    /// True if every location of the segment has keys below and above all keys of the segment. Min/max statistics then
    /// cannot narrow an answer.
    pub(in crate::sieve) covered: bool,
}

/// The number of lookups in a segment, and its decoded form. The inner `None` means that the segment will not be
/// decoded.
#[derive(Debug, Default)]
pub(in crate::sieve) struct Warmth {
    heat: AtomicU32,
    pub(in crate::sieve) warm: OnceLock<Option<Arc<Warm>>>,
}

impl Clone for Warmth {
    fn clone(&self) -> Self {
        Self { heat: AtomicU32::new(self.heat.load(Ordering::Relaxed)), warm: self.warm.clone() }
    }
}

impl Warmth {
    #[inline]
    pub(in crate::sieve) fn get(&self) -> Option<&Warm> {
        self.warm.get()?.as_deref()
    }

    /// Counts decoded blocks. Concurrent updates may be lost, which only delays decoding.
    pub(in crate::sieve) fn note(&self, blocks: usize) -> u32 {
        let heat = self.heat.load(Ordering::Relaxed).saturating_add(saturating_u32(blocks));
        self.heat.store(heat, Ordering::Relaxed);
        heat
    }
}
