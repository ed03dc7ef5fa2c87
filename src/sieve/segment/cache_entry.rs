//! The decoded form that a segment may have, and how often it was asked.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::int::saturating_u32;
use crate::sieve::segment::decoded::Unpacked;

/// Bytes that the decoded segments of an index may take, unless its owner says otherwise.
pub(in crate::sieve) const ROOM: usize = 256 << 20;

/// A segment that was decoded.
#[derive(Debug)]
pub(in crate::sieve) struct Warm {
    pub(in crate::sieve) unpacked: Unpacked,
    /// Every location of the segment has keys below and above all of the segment's: no answer of it can be narrowed.
    pub(in crate::sieve) covered: bool,
}

/// How often a segment was asked, and its decoded form, if it has one; `None` inside says that it shall not have any.
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

    /// Notes that some blocks were decoded; threads may forget some of each other's, which does no harm.
    pub(in crate::sieve) fn note(&self, blocks: usize) -> u32 {
        let heat = self.heat.load(Ordering::Relaxed).saturating_add(saturating_u32(blocks));
        self.heat.store(heat, Ordering::Relaxed);
        heat
    }
}
