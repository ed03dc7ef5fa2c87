//! Plans a compaction of version 2: the segments to keep, and the slices to read again.
//!
//! A base segment is kept if no new key is within it, no changed slice has rows in it, and few of its units belong to
//! slices that are gone. The keys of all other segments come from the slices with units in them.

use std::collections::HashSet;
use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32};
use crate::sieve::build::kept::{Kept, KeptSegment};
use crate::sieve::index::directory::{Entry, SectionRange};
use crate::sieve::index::loaded::{Index, Slot};
use crate::sieve::key::axis::Key;
use crate::sieve::segment::packed::Segment;
use crate::sieve::unit::stats::{KeySpan, Stats};
use crate::sieve::version::delta::{Change, between};
use crate::sieve::version::unit_delta::UnitDelta;
use crate::sieve::version::unit_timeline::UnitTimeline;

/// A segment with one part in this many of its units gone is rebuilt.
const MASKED_PART: usize = 4;

/// A smaller segment next to new keys is rebuilt, so that compactions of a growing table leave no small segments.
const SMALL_SEGMENT: u64 = 16 * 1024;

/// The segments and slices that a compaction reads again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// The segments to rebuild, ascending.
    pub segments: Vec<usize>,
    /// The slices to read again, ascending.
    pub slices: Vec<u32>,
}

/// The slices that are gone, and those whose rows changed.
pub(in crate::sieve) struct Masks {
    masked: HashSet<u32>,
    changed: HashSet<u32>,
}

impl Masks {
    pub(in crate::sieve) fn new<K: Key>(timeline: &UnitTimeline<K>, masked: &[u32], changed: &[u32]) -> Self {
        let masked: HashSet<u32> = masked.iter().copied().collect();
        let changed = timeline.changed().into_iter().chain(changed.iter().copied());
        let changed = changed.filter(|id| !masked.contains(id)).collect();
        Self { masked, changed }
    }

    pub(in crate::sieve) fn lives(&self, id: u32) -> bool {
        !self.masked.contains(&id)
    }

    fn is_changed(&self, id: u32) -> bool {
        self.changed.contains(&id)
    }
}

impl<K: Key> UnitDelta<K> {
    /// Returns true if the slice of a change is not gone.
    pub(in crate::sieve) fn lives(&self, change: &Change<K>, masks: &Masks) -> bool {
        self.name(change.location).is_some_and(|(id, _)| masks.lives(id))
    }
}

impl<K: Key> UnitTimeline<K> {
    /// Returns the segments that a compaction must rebuild, and the slices that it must read again. Segments that are
    /// not loaded count as touched. `masked` are the slices that are gone. Deltas add to `changed`, the slices whose
    /// keys are not exact.
    pub fn touched(&self, masked: &[u32], changed: &[u32]) -> Touched {
        let masks = Masks::new(self, masked, changed);
        let mut slices: HashSet<u32> = masks.changed.clone();
        let mut touched = Vec::new();
        if let Some(base) = &self.base {
            touched = self.touched_by_keys(base, &masks);
            let states = base.unit_states(&masks);
            // The keys of rows that were never read are unknown, and may be in every segment.
            let unread = self.has_unread_changes(base, &masks);
            let mut all = false;
            for (at, slot) in base.slots.iter().enumerate() {
                touched[at] |= unread || segment_is_touched(slot, &states, true);
                if !touched[at] {
                    continue;
                }
                match slot {
                    Slot::Ready(segment) => slices.extend(base.live_slices(segment.locations(), &masks)),
                    Slot::Absent | Slot::Damaged => all = true,
                }
            }
            if all {
                let units = 0..base.num_units();
                slices.extend(base.live_slices(&units.collect::<Vec<_>>(), &masks));
            }
        }
        let mut slices: Vec<u32> = slices.into_iter().collect();
        slices.sort_unstable();
        Touched { segments: (0..touched.len()).filter(|&at| touched[at]).collect(), slices }
    }

    /// Returns for each segment whether new keys make a compaction rebuild it.
    pub(in crate::sieve) fn touched_by_keys(&self, base: &Index<K>, masks: &Masks) -> Vec<bool> {
        let segments = &base.root().segments;
        let mut touched = vec![false; segments.len()];
        for delta in &self.deltas {
            let any = |changes: &[Change<K>]| changes.iter().any(|change| delta.lives(change, masks));
            for at in 0..=segments.len() {
                let after = at.checked_sub(1).map(|before| &segments[before].most);
                let start = after.map_or(0, |most| delta.changes.partition_point(|change| change.key <= *most));
                let end = segments.get(at).map(|entry| &entry.least);
                let end = end
                    .map_or(delta.changes.len(), |least| delta.changes.partition_point(|change| change.key < *least));
                if any(delta.changes.get(start..end).unwrap_or_default()) {
                    for neighbor in [at.checked_sub(1), Some(at)].into_iter().flatten() {
                        let small = segments.get(neighbor).is_some_and(|entry| entry.lookup.len < SMALL_SEGMENT);
                        if small {
                            touched[neighbor] = true;
                        }
                    }
                }
                if let Some(entry) = segments.get(at)
                    && !touched[at]
                {
                    touched[at] = any(between(&delta.changes, Some(&entry.least), Some(&entry.most)));
                }
            }
        }
        touched
    }

    fn has_unread_changes(&self, base: &Index<K>, masks: &Masks) -> bool {
        let in_deltas = self.deltas.iter().flat_map(|delta| &delta.changed);
        let unread = |id: u32| {
            let stats = self.slice(id).map(|(page, position)| &page.stats[page.units(position)]);
            stats.is_none_or(|stats| stats.iter().any(|stats| stats.unknown))
        };
        let in_base = |id: &u32| base.units.as_ref().is_some_and(|units| units.slices.find(*id).is_some());
        in_deltas.filter(|slice| masks.lives(slice.id)).any(|slice| slice.unknown)
            || masks.changed.iter().filter(|id| in_base(id)).any(|&id| unread(id))
    }

    /// Returns the share of the base's rows that belong to slices which are gone. All unit pages must be loaded.
    pub fn masked_share(&self, masked: &[u32]) -> Result<f64> {
        let masked: HashSet<u32> = masked.iter().copied().collect();
        let Some(units) = self.base.as_ref().and_then(|base| base.units.as_ref()) else { return Ok(0.0) };
        let page = units.all()?;
        let (mut gone, mut all) = (0u64, 0u64);
        for (position, &id) in page.layout.ids().iter().enumerate() {
            let spans = page.stats[page.units(position)].iter().filter_map(|stats| stats.span.as_ref());
            let rows = spans.map(|span| span.rows).fold(0, u64::saturating_add);
            all = all.saturating_add(rows);
            gone = gone.saturating_add(if masked.contains(&id) { rows } else { 0 });
        }
        Ok(share(gone, all))
    }

    /// Returns the statistics of all units in a new base, without spans. Units of masked slices have none.
    pub fn sides(&self, masked: &[u32]) -> Result<Vec<(u64, u64, bool)>> {
        let masks = Masks::new(self, masked, &[]);
        Ok(self.stats(&masks)?.into_iter().map(|stats| (stats.nulls, stats.nans, stats.unknown)).collect())
    }

    /// Returns the statistics of all units in a new base, with the rows that deltas add to slices. Spans are those of
    /// the parts that have the slices.
    pub(in crate::sieve) fn stats(&self, masks: &Masks) -> Result<Vec<Stats<K>>> {
        let mut all = self.all_units()?;
        for delta in &self.deltas {
            for slice in &delta.changed {
                let Some(position) = all.layout.position(slice.id) else { continue };
                let units = all.units(position);
                for stats in &mut all.stats[units] {
                    stats.nulls = stats.nulls.saturating_add(slice.nulls.0);
                    stats.nans = stats.nans.saturating_add(slice.nans.0);
                    stats.unknown |= slice.unknown;
                }
            }
        }
        for position in 0..all.layout.num_slices() {
            if all.layout.get(position).is_some_and(|slice| !masks.lives(slice.id)) {
                let units = all.units(position);
                all.stats[units].fill(Stats::default());
            }
        }
        Ok(all.stats)
    }

    /// Returns the keys of the new slices that are neither gone nor changed: `(key, unit in a new base, rows)` in
    /// order.
    pub fn delta_keys(&self, masked: &[u32], changed: &[u32]) -> Vec<(K, u32, u64)> {
        let masks = Masks::new(self, masked, changed);
        let mut keys = Vec::new();
        for (delta, units) in self.numbered_deltas() {
            for change in delta.changes.iter().filter(|change| change.plus > 0) {
                let Some(slice) = delta.slices.slice_of(change.location) else { continue };
                if masks.lives(slice.id) && !masks.is_changed(slice.id) {
                    keys.push((change.key.clone(), units.start + change.location, change.plus));
                }
            }
        }
        keys.sort_unstable();
        keys
    }

    /// Returns the deltas with the numbers of their units in a new base.
    pub(in crate::sieve) fn numbered_deltas(&self) -> impl Iterator<Item = (&UnitDelta<K>, Range<u32>)> {
        let mut next = self.base.as_ref().map_or(0, Index::num_units);
        self.deltas.iter().map(move |delta| {
            let first = next;
            next = next.saturating_add(delta.slices.num_units());
            (delta, first..next)
        })
    }

    /// Returns the state of a build that keeps all segments except `rebuilt`. `files` has the new number of each file of
    /// the base. All unit pages and the kept segments must be loaded.
    pub fn kept(&self, rebuilt: &[usize], files: &[u32], masked: &[u32], changed: &[u32]) -> Result<Kept<K>> {
        let Some(base) = &self.base else { return Kept::new(Vec::new(), Vec::new()) };
        let masks = Masks::new(self, masked, changed);
        let mut segments = Vec::new();
        let rebuilt: HashSet<usize> = rebuilt.iter().copied().collect();
        for (at, entry) in base.root().segments.iter().enumerate().filter(|(at, _)| !rebuilt.contains(at)) {
            let Some(Slot::Ready(segment)) = base.slots.get(at) else {
                return Err(Error::new(ErrorKind::SieveNotLoaded { segment: at }));
            };
            segments.push(KeptSegment { entry: moved(entry, files)?, segment: Some(segment.clone()) });
        }
        let mut spans = Vec::new();
        if let Some(units) = &base.units {
            let page = units.all()?;
            for (position, &id) in page.layout.ids().iter().enumerate() {
                let kept = masks.lives(id) && !masks.is_changed(id);
                let span = |stats: &Stats<K>| if kept { stats.span.clone() } else { None };
                spans.extend(page.stats[page.units(position)].iter().map(span));
            }
        }
        Kept::new(segments, spans)
    }
}

/// Returns an entry with the new number of its file.
pub(in crate::sieve) fn moved<K: Key>(entry: &Entry<K>, files: &[u32]) -> Result<Entry<K>> {
    let moved = |range: SectionRange| match files.get(index(range.file)) {
        Some(&file) => Ok(SectionRange { file, ..range }),
        None => Err(Error::new(ErrorKind::SieveOption("each file of the base needs a new number"))),
    };
    let keys = if entry.keys.len == 0 { entry.keys } else { moved(entry.keys)? };
    Ok(Entry { lookup: moved(entry.lookup)?, keys, ..entry.clone() })
}

/// How a compaction treats the rows of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sieve) enum UnitState {
    Live,
    Masked,
    Changed,
}

impl<K: Key> Index<K> {
    /// Returns the state of each unit.
    pub(in crate::sieve) fn unit_states(&self, masks: &Masks) -> Vec<UnitState> {
        let mut states = Vec::with_capacity(index(self.num_units()));
        for slice in self.units.iter().flat_map(|units| units.slices.iter()) {
            let state = match slice.id {
                id if !masks.lives(id) => UnitState::Masked,
                id if masks.is_changed(id) => UnitState::Changed,
                _ => UnitState::Live,
            };
            states.resize(states.len() + index(slice.units), state);
        }
        states
    }

    /// Returns the slices of ascending units that are not gone.
    fn live_slices(&self, units: &[u32], masks: &Masks) -> Vec<u32> {
        let named = self.units.as_ref().map_or(Vec::new(), |table| table.slices.name(units));
        let mut ids: Vec<u32> = named.into_iter().map(|(id, _)| id).filter(|&id| masks.lives(id)).collect();
        ids.dedup();
        ids
    }
}

/// Returns true if a segment has units of changed slices, or many of slices that are gone, or is not loaded.
pub(in crate::sieve) fn segment_is_touched<K: Key>(slot: &Slot<K>, states: &[UnitState], by_changes: bool) -> bool {
    let Slot::Ready(segment) = slot else { return true };
    let segment: &Segment<K> = segment;
    let state = |unit: &u32| states.get(index(*unit)).copied().unwrap_or(UnitState::Masked);
    let masked = segment.locations().iter().filter(|unit| state(unit) == UnitState::Masked).count();
    masked * MASKED_PART >= segment.locations().len()
        || by_changes && segment.locations().iter().any(|unit| state(unit) == UnitState::Changed)
}

/// Unites two spans of different rows of one unit.
pub(in crate::sieve) fn united<K: Key>(a: Option<KeySpan<K>>, b: Option<KeySpan<K>>) -> Option<KeySpan<K>> {
    match (a, b) {
        (Some(a), Some(b)) => {
            Some(KeySpan { least: a.least.min(b.least), most: a.most.max(b.most), rows: a.rows.saturating_add(b.rows) })
        }
        (a, b) => a.or(b),
    }
}

/// Returns a quotient for decisions. No stored byte depends on it.
fn share(part: u64, whole: u64) -> f64 {
    // Halving both until they fit keeps the quotient.
    let bits = 64 - (whole.leading_zeros().min(part.leading_zeros()));
    let down = bits.saturating_sub(31);
    let small = |rows: u64| f64::from(saturating_u32(crate::int::to_usize(rows >> down).unwrap_or(usize::MAX)));
    if whole == 0 { 0.0 } else { small(part) / small(whole).max(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_any_size() {
        assert_eq!(share(0, 0), 0.0);
        assert_eq!(share(1, 4), 0.25);
        assert!((share(1 << 60, 1 << 62) - 0.25).abs() < 1e-6);
    }
}
