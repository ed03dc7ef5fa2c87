//! Which segments are kept decoded: those that were asked about as much as decoding them costs, while there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::int::saturating_u32;
use crate::sieve::index::loaded::{Index, Slot};
use crate::sieve::key::axis::Key;
use crate::sieve::segment::cache_entry::Warm;
use crate::sieve::segment::packed::Segment;

/// A segment is decoded once it was asked for this part of its blocks, one by one; tests ask seldom.
const PART_OF_BLOCKS: u32 = 4;
const LEAST_HEAT: u32 = if cfg!(test) { 3 } else { 64 };

impl<K: Key> Index<K> {
    /// The decoded form of a segment that is asked now, if it has one or is worth one.
    #[inline]
    pub(in crate::sieve) fn warm<'a>(&self, at: usize, segment: &'a Segment<K>) -> Option<&'a Warm> {
        match segment.warmth.warm.get() {
            Some(warm) => warm.as_deref(),
            None => self.heat(at, segment),
        }
    }

    #[inline(never)]
    fn heat<'a>(&self, at: usize, segment: &'a Segment<K>) -> Option<&'a Warm> {
        let patience = (saturating_u32(segment.num_blocks()) / PART_OF_BLOCKS).max(LEAST_HEAT);
        if segment.warmth.note(1) < patience {
            return None;
        }
        segment.warmth.warm.get_or_init(|| self.unpacked(at, segment).map(Arc::new)).as_deref()
    }

    fn unpacked(&self, at: usize, segment: &Segment<K>) -> Option<Warm> {
        let unpacked = segment.unpack()?;
        let needed = unpacked.num_bytes();
        let claim = |room: usize| room.checked_sub(needed);
        self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).ok()?;
        let entry = self.root.segments.get(at)?;
        let covers = |location: &u32| {
            let span = self.stats_of(*location).and_then(|stats| stats.span.as_ref());
            span.is_some_and(|span| span.least <= entry.least && span.most >= entry.most)
        };
        Some(Warm { unpacked, covered: segment.locations().iter().all(covers) })
    }

    /// Decodes every segment that is loaded, as far as there is room, for an owner who knows that many questions will come.
    /// Otherwise a segment is decoded once it was asked often.
    pub fn unpack(&self) {
        for (at, slot) in self.slots.iter().enumerate() {
            if let Slot::Ready(segment) = slot {
                segment.warmth.warm.get_or_init(|| self.unpacked(at, segment).map(Arc::new));
            }
        }
    }

    /// Bytes that decoded segments occupy.
    pub fn unpacked_bytes(&self) -> usize {
        let ready =
            self.slots.iter().filter_map(|slot| if let Slot::Ready(segment) = slot { Some(segment) } else { None });
        ready.filter_map(|segment| segment.warmth.get()).map(|warm| warm.unpacked.num_bytes()).sum()
    }

    /// Lets decoded segments take so many bytes from now on, beside those that are decoded already; the default is 256 MiB
    /// in all. Nothing is decoded with none.
    pub fn set_room(&mut self, bytes: usize) {
        self.room = Arc::new(AtomicUsize::new(bytes));
    }

    /// Gives back the room of a segment that is about to be replaced.
    pub(in crate::sieve) fn release(&self, at: usize) {
        if let Some(Slot::Ready(segment)) = self.slots.get(at)
            && let Some(warm) = segment.warmth.get()
        {
            self.room.fetch_add(warm.unpacked.num_bytes(), Ordering::Relaxed);
        }
    }
}
