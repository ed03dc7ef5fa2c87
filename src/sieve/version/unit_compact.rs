//! Compaction of version 2 from keys sections, without reading the table.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32};
use crate::sieve::build::builder::Builder;
use crate::sieve::build::kept::{Kept, KeptSegment};
use crate::sieve::build::stream::{SegmentStream, unit_root_over};
use crate::sieve::index::directory::{Entry, IndexInfo, SectionRange};
use crate::sieve::index::unit_root::EncodedRoot;
use crate::sieve::key::axis::Key;
use crate::sieve::record::key_section::take_keys;
use crate::sieve::record::records::Records;
use crate::sieve::unit::stats::{KeySpan, Stats};
use crate::sieve::version::rebuild::{Masks, UnitState, moved, segment_is_touched, united};
use crate::sieve::version::unit_timeline::UnitTimeline;

/// The files of a compaction.
#[derive(Debug, Clone, Copy)]
pub struct CompactionFiles<'a> {
    /// The number of the file of the new segments.
    pub segments: u32,
    /// The number of the file of the unit pages, if they are large.
    pub pages: u32,
    /// The new number of each file of the old base.
    pub old: &'a [u32],
}

/// Rows of a key inserted into and deleted from a unit of the new base.
struct Event<K> {
    key: K,
    unit: u32,
    plus: u64,
    minus: u64,
}

impl<K: Key> UnitTimeline<K> {
    /// Builds a base that replaces this version, from the keys sections of the touched segments and the keys of the
    /// deltas. `masked` are the slices that are gone. `keys_at` reads a keys section, `write` gets the next bytes of
    /// both sections of the new file. Segments that are not loaded are rebuilt. All unit pages must be loaded.
    ///
    /// Returns the root, and the number of deleted rows that were not in the index.
    pub fn compact_keys(
        &self,
        masked: &[u32],
        rebuilt: Option<&[usize]>,
        files: CompactionFiles<'_>,
        mut keys_at: impl FnMut(SectionRange) -> Result<Vec<u8>>,
        mut write: impl FnMut(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<(EncodedRoot, u64)> {
        let base = self.base.as_ref().ok_or(Error::new(ErrorKind::SieveOption("a compaction needs a base")))?;
        let options = base.root().options;
        if !options.keep_keys {
            return Err(Error::new(ErrorKind::SieveOption("this index stores no keys; read the table again")));
        }
        let masks = Masks::new(self, masked, &[]);
        let events = self.events(&masks)?;
        let layout = self.all_units()?.layout;
        let states = base.unit_states(&masks);
        let mut touched = self.touched_by_keys(base, &masks);
        for (at, slot) in base.slots.iter().enumerate() {
            touched[at] |= segment_is_touched(slot, &states, false);
        }
        for &at in rebuilt.unwrap_or_default() {
            touched.get_mut(at).into_iter().for_each(|touched| *touched = true);
        }
        let entries = base.root().segments.iter().zip(&touched);
        let keep = |(entry, _): (&Entry<K>, &bool)| Ok(KeptSegment { entry: moved(entry, files.old)?, segment: None });
        let kept = entries.filter(|(_, touched)| !**touched).map(keep).collect::<Result<Vec<_>>>()?;
        let mut kept = Kept::new(kept, Vec::new())?;

        let mut builder = Builder::new(saturating_u32(layout.num_units()), options)?;
        let mut stream = SegmentStream::new(files.segments);
        let (mut unmatched, mut events) = (0, events.as_slice());
        for (entry, _) in base.root().segments.iter().zip(&touched).filter(|(_, touched)| **touched) {
            let mut records = Records::default();
            take_keys(&keys_at(entry.keys)?, base.num_units(), &mut records)?;
            if (records.keys.first(), records.keys.last()) != (Some(&entry.least), Some(&entry.most)) {
                return Err(Error::new(ErrorKind::SieveMalformed { field: "keys of a segment" }));
            }
            for (at, key) in records.keys.iter().enumerate() {
                let before = events.partition_point(|event| event.key < *key);
                for new in events[..before].chunk_by(|a, b| a.key == b.key) {
                    push_key(&new[0].key, Vec::new(), new, (&mut kept, &mut builder), &mut unmatched)?;
                }
                let after = before + events[before..].partition_point(|event| event.key == *key);
                let pairs = records.pairs(at..at + 1).map(|pair| (records.locations[pair], records.rows[pair]));
                let lives = |unit: u32| states.get(index(unit)).is_some_and(|state| *state != UnitState::Masked);
                let pairs = pairs.filter(|pair| lives(pair.0)).collect();
                push_key(key, pairs, &events[before..after], (&mut kept, &mut builder), &mut unmatched)?;
                events = &events[after..];
            }
            stream.put(builder.take_segments());
            let (lookups, keys) = stream.take();
            write(lookups, keys)?;
        }
        for new in events.chunk_by(|a, b| a.key == b.key) {
            push_key(&new[0].key, Vec::new(), new, (&mut kept, &mut builder), &mut unmatched)?;
        }
        kept.end(&mut builder);
        let mut built = builder.finish();
        stream.put(std::mem::take(&mut built.segments));
        let (lookups, keys) = stream.take();
        write(lookups, keys)?;
        let stats = self.stats(&masks)?;
        let spans = self.spans(&stats, &masks)?;
        let (entries, _) = kept.join(built, stream.into_entries());
        let info = IndexInfo { axis: base.root().axis, instant: self.instant(), options };
        Ok((unit_root_over(info, layout, stats, &spans, entries, files.pages)?, unmatched))
    }

    /// Returns the changes of all deltas to slices that are not gone, in order of key and unit.
    fn events(&self, masks: &Masks) -> Result<Vec<Event<K>>> {
        let all = self.all_units()?;
        let mut events: Vec<Event<K>> = Vec::new();
        for (delta, units) in self.numbered_deltas() {
            for change in delta.changes.iter().filter(|change| delta.lives(change, masks)) {
                let unit = match change.location.checked_sub(delta.slices.num_units()) {
                    None => units.start + change.location,
                    Some(at) => {
                        let id = delta.changed.get(index(at)).map(|slice| slice.id);
                        let position = id.and_then(|id| all.layout.position(id));
                        let position = position.filter(|&position| all.units(position).len() == 1);
                        // Only a slice with one unit tells in which unit its rows changed.
                        let unit = position.and_then(|position| all.layout.first(position));
                        unit.ok_or(Error::new(ErrorKind::SieveLocation(change.location)))?
                    }
                };
                events.push(Event { key: change.key.clone(), unit, plus: change.plus, minus: change.minus });
            }
        }
        events.sort_by(|a, b| (&a.key, a.unit).cmp(&(&b.key, b.unit)));
        Ok(events)
    }

    /// Returns the spans of all units. Deleted rows leave a span as it is, which is safe.
    fn spans(&self, stats: &[Stats<K>], masks: &Masks) -> Result<Vec<Option<KeySpan<K>>>> {
        let mut spans: Vec<Option<KeySpan<K>>> = stats.iter().map(|stats| stats.span.clone()).collect();
        let layout = self.all_units()?.layout;
        for delta in &self.deltas {
            let changed = delta.changed.iter().zip(delta.added());
            for (slice, added) in changed.filter(|(slice, _)| masks.lives(slice.id)) {
                let unit = layout.position(slice.id).and_then(|position| layout.first(position));
                if let Some(span) = unit.and_then(|unit| spans.get_mut(index(unit))) {
                    *span = united(span.take(), added.span.clone());
                }
            }
        }
        Ok(spans)
    }
}

fn push_key<K: Key>(
    key: &K,
    mut pairs: Vec<(u32, u64)>,
    events: &[Event<K>],
    (kept, builder): (&mut Kept<K>, &mut Builder<K>),
    unmatched: &mut u64,
) -> Result<()> {
    for event in events {
        let at = pairs.iter().position(|pair| pair.0 == event.unit).unwrap_or_else(|| {
            pairs.push((event.unit, 0));
            pairs.len() - 1
        });
        let rows = pairs[at].1.saturating_add(event.plus);
        *unmatched = unmatched.saturating_add(event.minus.saturating_sub(rows));
        pairs[at].1 = rows.saturating_sub(event.minus);
    }
    pairs.sort_unstable();
    let left = pairs.into_iter().filter(|pair| pair.1 > 0);
    left.into_iter().try_for_each(|(unit, rows)| kept.push(builder, key.clone(), unit, rows))
}
