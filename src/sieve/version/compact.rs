//! Compaction: builds a new base from a base and deltas. It uses the exact keys, so the result equals a rebuild bit for
//! bit.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32};
use crate::sieve::build::builder::Builder;
use crate::sieve::build::stream::{SegmentStream, root_over, unit_root_over};
use crate::sieve::index::directory::{Built, Entry, IndexInfo, Location, Root, SectionRange};
use crate::sieve::index::loaded::Index;
use crate::sieve::index::unit_root::EncodedRoot;
use crate::sieve::key::axis::Key;
use crate::sieve::record::key_section::take_keys;
use crate::sieve::record::options::Options;
use crate::sieve::record::records::Records;
use crate::sieve::segment::encode::EncodedSegment;
use crate::sieve::unit::layout::{Cut, Layout, SliceLayout};
use crate::sieve::unit::stats::{KeySpan, Stats};
use crate::sieve::version::delta::Delta;
use crate::sieve::version::timeline::{Numbered, View};

/// A delete that was not applied, because the row is still in the files that readers of base files read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CarriedDelete<K> {
    /// The key of the row.
    pub key: K,
    /// The location of the row.
    pub location: Location,
    /// The number of rows.
    pub rows: u64,
}

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted<K> {
    /// The new root.
    pub root: Root<K>,
    /// The segments as file 0. Empty if the bytes were streamed.
    pub file: Vec<u8>,
    /// The deletes to put into the first delta after the compaction.
    pub carried: Vec<CarriedDelete<K>>,
    /// The number of deleted rows that were not in the index. They do not affect other rows.
    pub unmatched: u64,
}

/// A change by the timeline's location number, ordered by key, location and commit.
type Event<K> = (K, u32, usize, u64, u64);

/// The state of a compaction.
struct Compaction<'a, K> {
    view: &'a View<'a, K>,
    /// The last delta that killed each location, by the timeline's number.
    died: Vec<Option<usize>>,
    /// The number of each location in the new base, if it has one.
    targets: Vec<Option<u32>>,
    /// For each location by the timeline's number, the instant after which deletes are not applied.
    horizons: Vec<i64>,
    carried: Vec<CarriedDelete<K>>,
    unmatched: u64,
}

impl<K: Key> View<'_, K> {
    /// Builds a base that replaces everything up to the instant of this view. The base has that instant, not the
    /// current one, so that it does not hide a commit that arrived in the meantime.
    ///
    /// `keys_at` reads a keys section from the file of the old base. `locations` become the locations of the new base
    /// in the given order. If they are sorted, the base equals a rebuild from scratch. `horizon` returns the instant of
    /// a location's base file. Deletes up to it also hold for readers that skip log files. Return `i64::MAX` if there
    /// are none.
    pub fn compact(
        &self,
        options: Options,
        locations: Vec<Location>,
        keys_at: impl FnMut(SectionRange) -> Result<Vec<u8>>,
        horizon: impl Fn(&Location) -> i64,
    ) -> Result<Compacted<K>> {
        let (mut file, mut all_keys) = (Vec::new(), Vec::new());
        let take = |lookups: Vec<u8>, keys: Vec<u8>| {
            file.extend_from_slice(&lookups);
            all_keys.extend_from_slice(&keys);
            Ok(())
        };
        let compacted = self.compact_into(options, locations, keys_at, horizon, take)?;
        file.append(&mut all_keys);
        Ok(Compacted { file, ..compacted })
    }

    /// Like [`Self::compact`], but streams the file: `write` gets the next bytes of its first half, the lookup
    /// sections, and of its second half, the keys sections. Holds the deltas, one segment of the old base, and the
    /// memory of a builder.
    pub fn compact_into(
        &self,
        options: Options,
        locations: Vec<Location>,
        keys_at: impl FnMut(SectionRange) -> Result<Vec<u8>>,
        horizon: impl Fn(&Location) -> i64,
        write: impl FnMut(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<Compacted<K>> {
        let Merged { stats, spans, entries, carried, unmatched } =
            self.merge_keys(options, &locations, keys_at, horizon, write)?;
        let info = IndexInfo { axis: self.timeline.axis(), instant: self.instant(), options };
        let root = root_over(info, locations, stats, &spans, entries)?;
        Ok(Compacted { root, file: Vec::new(), carried, unmatched })
    }

    /// Converts everything up to the instant of this view to a base of version 2. Each location becomes a slice of one
    /// unit with unknown rows, and its ID is its position. Returns the root, and the number of deleted rows that were
    /// not in the index.
    pub fn convert(
        &self,
        options: Options,
        locations: &[Location],
        keys_at: impl FnMut(SectionRange) -> Result<Vec<u8>>,
        write: impl FnMut(Vec<u8>, Vec<u8>) -> Result<()>,
        pages_file: u32,
    ) -> Result<(EncodedRoot, u64)> {
        let Merged { stats, spans, entries, unmatched, .. } =
            self.merge_keys(options, locations, keys_at, |_| i64::MAX, write)?;
        let mut layout = Layout::default();
        for id in 0..saturating_u32(locations.len()) {
            layout.add(SliceLayout { id, cut: Cut::Whole, row_groups: &[] })?;
        }
        let info = IndexInfo { axis: self.timeline.axis(), instant: self.instant(), options };
        Ok((unit_root_over(info, layout, stats, &spans, entries, pages_file)?, unmatched))
    }

    /// Merges the keys of the base and the deltas into new segments.
    fn merge_keys(
        &self,
        options: Options,
        locations: &[Location],
        mut keys_at: impl FnMut(SectionRange) -> Result<Vec<u8>>,
        horizon: impl Fn(&Location) -> i64,
        mut write: impl FnMut(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<Merged<K>> {
        let names = self.timeline.locations();
        let mut targets = vec![None; names.len()];
        for (target, location) in (0..).zip(locations) {
            if let Some(number) = self.timeline.number(location) {
                targets[index(number)] = Some(target);
            }
        }
        let mut compaction = Compaction {
            view: self,
            died: died(self.deltas, names.len()),
            targets,
            horizons: names.iter().map(horizon).collect(),
            carried: Vec::new(),
            unmatched: 0,
        };
        let events = compaction.events();
        let mut builder = Builder::new(saturating_u32(locations.len()), options)?;
        let mut events = events.as_slice();
        let mut stream = SegmentStream::new(0);
        let mut store = |stream: &mut SegmentStream<K>, segments: Vec<EncodedSegment<K>>| {
            stream.put(segments);
            let (lookups, keys) = stream.take();
            write(lookups, keys)
        };
        if let Some(base) = self.base {
            for entry in &base.part.root().segments {
                let mut records = Records::default();
                take_keys(&keys_at(entry.keys)?, saturating_u32(base.numbers.len()), &mut records)?;
                let ends = (records.keys.first(), records.keys.last());
                if ends != (Some(&entry.least), Some(&entry.most)) {
                    return Err(Error::new(ErrorKind::SieveMalformed { field: "keys of a segment" }));
                }
                for (at, key) in records.keys.iter().enumerate() {
                    let before = events.partition_point(|event| event.0 < *key);
                    compaction.push_new(&events[..before], &mut builder)?;
                    let after = before + events[before..].partition_point(|event| event.0 == *key);
                    let mut pairs: Vec<(u32, u64)> = Vec::new();
                    for pair in records.pairs(at..at + 1) {
                        let number = base.numbers[index(records.locations[pair])];
                        if compaction.died[index(number)].is_none() {
                            pairs.push((number, records.rows[pair]));
                        }
                    }
                    compaction.push_key(key, pairs, &events[before..after], &mut builder)?;
                    events = &events[after..];
                }
                store(&mut stream, builder.take_segments())?;
            }
        }
        compaction.push_new(events, &mut builder)?;
        let stats = compaction.keyless_stats(locations.len())?;
        let Built { segments, spans } = builder.finish();
        store(&mut stream, segments)?;
        let Compaction { carried, unmatched, .. } = compaction;
        Ok(Merged { stats, spans, entries: stream.into_entries(), carried, unmatched })
    }
}

/// The segments of a compaction, already written, and the statistics of its locations.
struct Merged<K> {
    stats: Vec<Stats<K>>,
    spans: Vec<Option<KeySpan<K>>>,
    entries: Vec<Entry<K>>,
    carried: Vec<CarriedDelete<K>>,
    unmatched: u64,
}

/// Returns the last commit that killed each location.
fn died<K: Key>(deltas: &[Numbered<Delta<K>>], num_locations: usize) -> Vec<Option<usize>> {
    let mut died = vec![None; num_locations];
    for (commit, version) in deltas.iter().enumerate() {
        for &dead in &version.part.dead {
            died[index(version.numbers[index(dead)])] = Some(commit);
        }
    }
    died
}

impl<K: Key> Compaction<'_, K> {
    /// Returns true if the location did not die after the commit, so the commit's changes to it still count.
    fn lives(&self, number: u32, commit: usize) -> bool {
        self.died[index(number)].is_none_or(|death| commit >= death)
    }

    fn events(&self) -> Vec<Event<K>> {
        let mut events: Vec<Event<K>> = Vec::new();
        for (commit, version) in self.view.deltas.iter().enumerate() {
            for change in &version.part.changes {
                let number = version.numbers[index(change.location)];
                if self.lives(number, commit) {
                    events.push((change.key.clone(), number, commit, change.plus, change.minus));
                }
            }
        }
        events.sort_unstable();
        events
    }

    /// Pushes keys that are not in the base.
    fn push_new(&mut self, events: &[Event<K>], builder: &mut Builder<K>) -> Result<()> {
        for key in events.chunk_by(|a, b| a.0 == b.0) {
            self.push_key(&key[0].0, Vec::new(), key, builder)?;
        }
        Ok(())
    }

    fn push_key(
        &mut self,
        key: &K,
        mut pairs: Vec<(u32, u64)>,
        events: &[Event<K>],
        builder: &mut Builder<K>,
    ) -> Result<()> {
        for (_, number, commit, plus, minus) in events {
            let at = pairs.iter().position(|pair| pair.0 == *number).unwrap_or_else(|| {
                pairs.push((*number, 0));
                pairs.len() - 1
            });
            let rows = pairs[at].1.saturating_add(*plus);
            pairs[at].1 = rows;
            if *minus == 0 {
                continue;
            }
            if self.view.deltas[*commit].instant > self.horizons[index(*number)] {
                let location = self.view.timeline.locations()[index(*number)].clone();
                self.carried.push(CarriedDelete { key: key.clone(), location, rows: *minus });
            } else {
                self.unmatched = self.unmatched.saturating_add(minus.saturating_sub(rows));
                pairs[at].1 = rows.saturating_sub(*minus);
            }
        }
        let mut targets = Vec::with_capacity(pairs.len());
        for (number, rows) in pairs {
            if rows > 0 {
                targets.push((self.target(number)?, rows));
            }
        }
        targets.sort_unstable();
        targets.into_iter().try_for_each(|(target, rows)| builder.push(key.clone(), target, rows))
    }

    fn target(&self, number: u32) -> Result<u32> {
        self.targets[index(number)].ok_or(Error::new(ErrorKind::SieveLocation(number)))
    }

    /// Returns the nulls, NaN and unread rows of the new base.
    fn keyless_stats(&self, num_targets: usize) -> Result<Vec<Stats<K>>> {
        let mut stats = vec![Stats::default(); num_targets];
        if let Some(base) = self.view.base {
            for (old, &number) in Index::root(&base.part).stats.iter().zip(&base.numbers) {
                let empty = old.nulls == 0 && old.nans == 0 && !old.unknown;
                if self.died[index(number)].is_none() && !empty {
                    let target = &mut stats[index(self.target(number)?)];
                    (target.nulls, target.nans, target.unknown) = (old.nulls, old.nans, old.unknown);
                }
            }
        }
        for (commit, version) in self.view.deltas.iter().enumerate() {
            for entry in &version.part.keyless {
                let number = version.numbers[index(entry.location)];
                if !self.lives(number, commit) {
                    continue;
                }
                let certain = version.instant <= self.horizons[index(number)];
                let left = |rows: u64, (plus, minus): (u64, u64)| {
                    rows.saturating_add(plus).saturating_sub(if certain { minus } else { 0 })
                };
                let target = &mut stats[index(self.target(number)?)];
                target.nulls = left(target.nulls, entry.nulls);
                target.nans = left(target.nans, entry.nans);
                target.unknown |= entry.unknown;
            }
        }
        Ok(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::tests::invariants::{LOCATIONS, SMALL, build, compact, location, only, open, sample, truth};
    use crate::sieve::{Answer, Change, Query, Timeline};

    #[test]
    fn i7_base_and_deltas_compacted_and_rebuilt_answer_alike() {
        let (old, new) = (sample(23), sample(24));
        let (root, file) = build(&old, SMALL);
        let change = |&(key, location): &(u64, u32)| Change { key, location, plus: 1, minus: 0 };
        let names = (0..LOCATIONS).map(location).collect();
        let delta = Delta::new(101, names, vec![], vec![], new.iter().map(change).collect()).unwrap();
        let compacted = compact(open((root.clone(), file.clone())), &file, delta.clone(), i64::MAX);
        let all = [old, new].concat();
        let (rebuilt, rebuilt_file) = build(&all, SMALL);
        assert_eq!((&compacted.file, &compacted.root.segments), (&rebuilt_file, &rebuilt.segments));
        let compacted = open((compacted.root, compacted.file));
        let mut timeline = Timeline::starting_with(open((root, file)));
        timeline.commit(delta).unwrap();
        for (at, &(low, _)) in all.iter().enumerate() {
            let high = all[(at + 7) % all.len()].0;
            for query in [Query::Point(low), Query::Between(low, high), Query::AtLeast(low), Query::AtMost(low)] {
                let Answer::Only(laid_over) = timeline.latest().unwrap().answer(&query) else { panic!("all are kept") };
                let folded = only(&compacted, query.clone());
                let (from, to) = match query {
                    Query::AtLeast(_) => (low, u64::MAX),
                    Query::AtMost(_) => (0, low),
                    Query::Between(..) => (low, high),
                    _ => (low, low),
                };
                // Between keys that exist both are exact, but the old base alone does not have all of these keys.
                assert_eq!(folded, truth(&all, &from, &to), "{query:?}");
                assert!(folded.iter().all(|location| laid_over.contains(location)), "{query:?}");
            }
        }
    }

    #[test]
    fn i14_a_compaction_streams_its_segments() {
        let pairs: Vec<(u64, u32)> = (0..3000).map(|key| (key * 3, u32::try_from(key * key % 5).unwrap())).collect();
        let (root, file) = build(&pairs, SMALL);
        let mut timeline = Timeline::starting_with(Index::new(root.clone()));
        let change = Change { key: 4u64, location: 0, plus: 1, minus: 0 };
        timeline.commit(Delta::new(101, vec![location(2)], vec![], vec![], vec![change]).unwrap()).unwrap();
        let read = |extent: SectionRange| {
            let start = usize::try_from(extent.offset).unwrap();
            Ok(file[start..start + usize::try_from(extent.len).unwrap()].to_vec())
        };
        let (view, names) = (timeline.latest().unwrap(), timeline.locations().to_vec());
        let whole = view.compact(SMALL, names.clone(), read, |_| i64::MAX).unwrap();
        let (mut halves, mut most) = ((Vec::new(), Vec::new()), 0);
        let streamed = view.compact_into(
            SMALL,
            names,
            read,
            |_| i64::MAX,
            |lookups, keys| {
                most = most.max(lookups.len() + keys.len());
                halves.0.extend(lookups);
                halves.1.extend(keys);
                Ok(())
            },
        );
        assert_eq!(streamed.unwrap().root, whole.root);
        halves.0.append(&mut halves.1);
        assert!(halves.0 == whole.file && most < whole.file.len() / 10, "{most} of {}", whole.file.len());
    }
}
