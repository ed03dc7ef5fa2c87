//! Version 2 against brute force: histories of slices that come, change and go, with answers by unit.

use std::collections::{BTreeMap, BTreeSet};

use crate::int::{index, to_usize};
use crate::sieve::tests::model::Random;
use crate::sieve::*;

/// Limits that are small enough for a few keys to produce several segments.
pub(in crate::sieve) const SMALL: Options =
    Options { max_records: 90, max_key_bytes: 9000, max_weight: 60, format: Format::V2, ..Options::DEFAULT };

/// The rows of one slice by unit. A row without a key is null.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct Slice<K> {
    pub(in crate::sieve) cut: Cut,
    pub(in crate::sieve) row_groups: Vec<u64>,
    pub(in crate::sieve) units: Vec<Vec<Option<K>>>,
}

/// A table, and the parts of its index.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct World<K> {
    pub(in crate::sieve) options: Options,
    pub(in crate::sieve) slices: BTreeMap<u32, Slice<K>>,
    pub(in crate::sieve) masked: Vec<u32>,
    pub(in crate::sieve) next: u32,
    pub(in crate::sieve) instant: i64,
    pub(in crate::sieve) root: Vec<u8>,
    pub(in crate::sieve) files: Vec<Vec<u8>>,
    pub(in crate::sieve) deltas: Vec<Vec<u8>>,
}

/// A known slice, and its keys with the numbers of rows added and removed.
type ChangedRows<K> = (u32, Vec<(K, u64, u64)>);

pub(in crate::sieve) type Named = BTreeSet<(u32, u32)>;

pub(in crate::sieve) trait TestKey: Key {
    const AXIS: AxisType;
    fn of(number: u64) -> Self;
}

impl TestKey for u64 {
    const AXIS: AxisType = AxisType::Unsigned;
    fn of(number: u64) -> Self {
        number
    }
}

impl TestKey for u128 {
    const AXIS: AxisType = AxisType::Uuid;
    fn of(number: u64) -> Self {
        Self::from(number) << 70
    }
}

impl TestKey for Bytes {
    const AXIS: AxisType = AxisType::Bytes;
    fn of(number: u64) -> Self {
        Self::new(
            format!("https://example.org/a/rather/long/beginning/of/all/the/keys/of/this/test/that/is/cut/{number:05}")
                .as_bytes(),
        )
    }
}

impl<K: TestKey> World<K> {
    pub(in crate::sieve) fn new(options: Options, random: &mut Random, slices: u64) -> Self {
        let mut world = Self {
            options,
            slices: BTreeMap::new(),
            masked: Vec::new(),
            next: 0,
            instant: 1,
            root: Vec::new(),
            files: Vec::new(),
            deltas: Vec::new(),
        };
        for _ in 0..slices {
            world.add(random, 0, 900);
        }
        world.rebuild();
        world
    }

    /// Adds a slice with keys of `low .. low + width`, and returns its ID.
    pub(in crate::sieve) fn add(&mut self, random: &mut Random, low: u64, width: u64) -> u32 {
        let (cut, row_groups) = match random.below(4) {
            0 => (Cut::Whole, vec![]),
            1 => (Cut::Whole, vec![40, 30]),
            2 => (Cut::RowGroups, vec![20; 1 + to_usize(random.below(4)).unwrap()]),
            _ => (Cut::Rows(20_000), vec![70_000, 30]),
        };
        let num_units = SliceLayout { id: 0, cut, row_groups: &row_groups }.num_units();
        let mut unit = |_| {
            let rows = random.below(12);
            (0..rows).map(|_| (random.below(9) > 0).then(|| K::of(low + random.below(width)))).collect()
        };
        let slice = Slice { cut, row_groups, units: (0..num_units).map(&mut unit).collect() };
        let id = self.next;
        self.next += 1 + u32::from(random.below(5) == 0);
        self.slices.insert(id, slice);
        id
    }

    fn layout<'a>(slices: impl Iterator<Item = (&'a u32, &'a Slice<K>)>) -> Layout
    where
        K: 'a,
    {
        let mut layout = Layout::default();
        slices.for_each(|(&id, slice)| {
            layout.add(SliceLayout { id, cut: slice.cut, row_groups: &slice.row_groups }).unwrap()
        });
        layout
    }

    /// Returns the sorted keys of some slices, with the numbers of their units in a layout.
    fn keys(slices: &[(u32, &Slice<K>)], layout: &Layout) -> Vec<(K, u32)> {
        let mut keys = Vec::new();
        for (id, slice) in slices {
            let first = layout.first(layout.position(*id).unwrap()).unwrap();
            for (unit, rows) in (first..).zip(&slice.units) {
                keys.extend(rows.iter().flatten().map(|key| (key.clone(), unit)));
            }
        }
        keys.sort();
        keys
    }

    fn sides(slice: &Slice<K>) -> Vec<(u64, u64, bool)> {
        let nulls = |rows: &Vec<Option<K>>| rows.iter().filter(|row| row.is_none()).count();
        slice.units.iter().map(|rows| (u64::try_from(nulls(rows)).unwrap(), 0, false)).collect()
    }

    pub(in crate::sieve) fn info(&self) -> IndexInfo {
        IndexInfo { axis: K::AXIS, instant: self.instant, options: self.options }
    }

    /// Builds the index again: the live slices get new IDs.
    pub(in crate::sieve) fn rebuild(&mut self) {
        self.slices = (0..).zip(std::mem::take(&mut self.slices).into_values()).collect();
        self.next = u32::try_from(self.slices.len()).unwrap();
        (self.masked, self.deltas, self.files) = (Vec::new(), Vec::new(), Vec::new());
        let layout = Self::layout(self.slices.iter());
        let mut builder = Builder::new(u32::try_from(layout.num_units()).unwrap(), self.options).unwrap();
        let all: Vec<_> = self.slices.iter().map(|(id, slice)| (*id, slice)).collect();
        Self::keys(&all, &layout).into_iter().for_each(|(key, unit)| builder.push(key, unit, 1).unwrap());
        let built = builder.finish();
        let mut stream = SegmentStream::new(0);
        stream.put(built.segments);
        let (lookups, keys) = stream.take();
        self.files.push([lookups, keys].concat());
        let stats = self.slices.values().flat_map(Self::sides);
        let stats = stats.map(|(nulls, nans, unknown)| Stats { span: None, nulls, nans, unknown }).collect();
        let root = unit_root_over(self.info(), layout, stats, &built.spans, stream.into_entries(), 1).unwrap();
        self.root = root.root;
        self.files.push(root.pages);
    }

    /// Commits new slices and rows added to a known one.
    pub(in crate::sieve) fn commit(&mut self, new: &[u32], changed: Option<ChangedRows<K>>) {
        self.instant += 1;
        let slices: Vec<_> = new.iter().map(|id| (*id, &self.slices[id])).collect();
        let layout = Self::layout(slices.iter().map(|(id, slice)| (id, *slice)));
        let num_units = u32::try_from(layout.num_units()).unwrap();
        let keys = Self::keys(&slices, &layout).into_iter();
        let mut changes: Vec<Change<K>> =
            keys.map(|(key, location)| Change { key, location, plus: 1, minus: 0 }).collect();
        let mut known = Vec::new();
        if let Some((id, rows)) = changed {
            known.push(ChangedSlice { id, ..ChangedSlice::default() });
            changes.extend(rows.into_iter().map(|(key, plus, minus)| Change { key, location: num_units, plus, minus }));
        }
        let sides: Vec<_> = slices.iter().flat_map(|(_, slice)| Self::sides(slice)).collect();
        let delta = UnitDelta::new(self.instant, layout, &sides, known, changes).unwrap();
        let bytes = delta.write();
        assert_eq!(UnitDelta::<K>::read(&bytes).unwrap().write(), bytes);
        self.deltas.push(bytes);
    }

    fn mask(&mut self, id: u32) {
        if self.slices.remove(&id).is_some() {
            self.masked.push(id);
        }
    }

    /// Opens the index without loading parts that are in other files.
    pub(in crate::sieve) fn open(&self) -> UnitTimeline<K> {
        let deltas = self.deltas.iter().map(|delta| UnitDelta::read(delta).unwrap()).collect();
        UnitTimeline::new(K::AXIS, Some(Index::open_units(&self.root).unwrap()), deltas).unwrap()
    }

    pub(in crate::sieve) fn bytes(&self, extent: SectionRange) -> Vec<u8> {
        let start = to_usize(extent.offset).unwrap();
        self.files[index(extent.file)][start..start + to_usize(extent.len).unwrap()].to_vec()
    }

    pub(in crate::sieve) fn load(&self, timeline: &mut UnitTimeline<K>, needs: Vec<UnitNeed>) {
        for need in needs {
            match need {
                UnitNeed::Segment(at, extent) => timeline.load_segment(at, &self.bytes(extent)).unwrap(),
                UnitNeed::Page(at, extent) => timeline.load_page(at, &self.bytes(extent)).unwrap(),
            }
        }
    }

    pub(in crate::sieve) fn open_all(&self) -> UnitTimeline<K> {
        let mut timeline = self.open();
        let whole = Query::Between(K::of(0), K::of(1 << 40));
        let needs = [timeline.needs(&whole), timeline.needs_slices(None)].concat();
        self.load(&mut timeline, needs);
        timeline
    }

    pub(in crate::sieve) fn ask(&self, timeline: &mut UnitTimeline<K>, query: &Query<K>) -> Named {
        loop {
            let needs = timeline.needs(query);
            if needs.is_empty() {
                break;
            }
            self.load(timeline, needs);
        }
        self.answer(timeline, query)
    }

    /// Returns the units of an answer that belong to live slices.
    pub(in crate::sieve) fn answer(&self, timeline: &UnitTimeline<K>, query: &Query<K>) -> Named {
        let named = timeline.answer(&[query]).unwrap();
        assert!(named.is_sorted_by(|a, b| a < b), "{named:?}");
        let mut units = Named::new();
        for (id, unit) in named {
            let Some(slice) = self.slices.get(&id) else { continue };
            let all = 0..u32::try_from(slice.units.len()).unwrap();
            units.extend(all.filter(|&at| unit == WHOLE_SLICE || at == unit).map(|at| (id, at)));
        }
        units
    }

    pub(in crate::sieve) fn truth(&self, matches: impl Fn(&Option<K>) -> bool) -> Named {
        let units =
            self.slices.iter().flat_map(|(&id, slice)| (0..).zip(&slice.units).map(move |(at, rows)| (id, at, rows)));
        units.filter(|(_, _, rows)| rows.iter().any(&matches)).map(|(id, at, _)| (id, at)).collect()
    }

    /// Compares answers with brute force. With `exact`, existing keys must read only their own units.
    pub(in crate::sieve) fn check(&self, random: &mut Random, exact: bool) {
        let timeline = &mut self.open();
        for _ in 0..40 {
            let (a, b) = (random.below(1300), random.below(1300));
            let (low, high) = (K::of(a.min(b)), K::of(a.max(b)));
            let point = self.truth(|row| row.as_ref() == Some(&low));
            let answer = self.ask(timeline, &Query::Point(low.clone()));
            assert!(point.is_subset(&answer), "{low:?}: {point:?} {answer:?}");
            assert!(!exact || point.is_empty() || point == answer, "{low:?}: {point:?} {answer:?}");
            let both = self.truth(|row| row.as_ref() == Some(&low) || row.as_ref() == Some(&high));
            assert!(both.is_subset(&self.ask(timeline, &Query::In(vec![low.clone(), high.clone()]))));
            let inside = self.truth(|row| row.as_ref().is_some_and(|key| low <= *key && *key <= high));
            assert!(inside.is_subset(&self.ask(timeline, &Query::Between(low.clone(), high.clone()))));
            let above = self.truth(|row| row.as_ref().is_some_and(|key| low <= *key));
            assert!(above.is_subset(&self.ask(timeline, &Query::AtLeast(low.clone()))));
            let below = self.truth(|row| row.as_ref().is_some_and(|key| *key <= low));
            assert!(below.is_subset(&self.ask(timeline, &Query::AtMost(low.clone()))));
        }
        assert_eq!(self.ask(timeline, &Query::Null), self.truth(Option::is_none));
        assert_eq!(self.ask(timeline, &Query::NotNull), self.truth(Option::is_some));
    }

    /// Compacts by reading the touched slices again, and returns how many segments and slices it kept.
    fn compact(&mut self) -> (usize, usize) {
        self.instant += 1;
        let timeline = self.open_all();
        let touched = timeline.touched(&self.masked, &[]);
        let units = timeline.all_units().unwrap().layout;
        let files: Vec<u32> = (0..u32::try_from(self.files.len()).unwrap()).collect();
        let mut kept = timeline.kept(&touched.segments, &files, &self.masked, &[]).unwrap();
        let again: Vec<_> = touched.slices.iter().map(|id| (*id, &self.slices[id])).collect();
        let mut keys: Vec<(K, u32, u64)> =
            Self::keys(&again, &units).into_iter().map(|(key, unit)| (key, unit, 1)).collect();
        // Slices of deltas are read again only if they changed.
        keys.extend(timeline.delta_keys(&self.masked, &[]));
        keys.sort();
        let mut builder = Builder::new(u32::try_from(units.num_units()).unwrap(), self.options).unwrap();
        keys.into_iter().for_each(|(key, unit, rows)| kept.push(&mut builder, key, unit, rows).unwrap());
        kept.end(&mut builder);
        let mut built = builder.finish();
        let mut stream = SegmentStream::new(u32::try_from(self.files.len()).unwrap());
        stream.put(std::mem::take(&mut built.segments));
        let (lookups, rest) = stream.take();
        self.files.push([lookups, rest].concat());
        let (entries, spans) = kept.join(built, stream.into_entries());
        let stats = timeline.sides(&self.masked).unwrap().into_iter();
        let stats = stats.map(|(nulls, nans, unknown)| Stats { span: None, nulls, nans, unknown }).collect();
        let pages_file = u32::try_from(self.files.len()).unwrap();
        let root = unit_root_over(self.info(), units, stats, &spans, entries, pages_file).unwrap();
        (self.root, self.deltas) = (root.root, Vec::new());
        self.files.push(root.pages);
        let all = timeline.base().unwrap().root().segments.len();
        (all - touched.segments.len(), self.slices.len() - touched.slices.len())
    }

    /// Compacts from keys sections.
    fn compact_keys(&mut self) {
        let timeline = self.open_all();
        let old: Vec<u32> = (0..u32::try_from(self.files.len()).unwrap()).collect();
        let segments = u32::try_from(self.files.len()).unwrap();
        let files = CompactionFiles { segments, pages: segments + 1, old: &old };
        let (mut lookups, mut keys) = (Vec::new(), Vec::new());
        let write = |lookup: Vec<u8>, key: Vec<u8>| {
            lookups.extend(lookup);
            keys.extend(key);
            Ok(())
        };
        let (root, unmatched) =
            timeline.compact_keys(&self.masked, None, files, |extent| Ok(self.bytes(extent)), write).unwrap();
        assert_eq!(unmatched, 0);
        self.files.push([lookups, keys].concat());
        (self.root, self.deltas) = (root.root, Vec::new());
        self.files.push(root.pages);
    }

    /// Adds a row to a live slice of one unit and removes another row of it, if there is such a slice.
    fn change(&mut self, random: &mut Random) -> Option<ChangedRows<K>> {
        let ids: Vec<u32> = self.slices.iter().filter(|(_, slice)| slice.units.len() == 1).map(|(id, _)| *id).collect();
        let id = *ids.get(to_usize(random.below(u64::try_from(ids.len()).unwrap().max(1))).unwrap())?;
        let rows = &mut self.slices.get_mut(&id).unwrap().units[0];
        let added = K::of(random.below(1300));
        let removed = rows.iter().position(Option::is_some).map(|at| rows.swap_remove(at).unwrap());
        rows.push(Some(added.clone()));
        let removed = removed.into_iter().map(|key| (key, 0, 1));
        Some((id, [(added, 1, 0)].into_iter().chain(removed).collect()))
    }
}

fn history<K: TestKey>(seed: u64, options: Options, with_changes: bool) {
    let random = &mut Random(seed);
    let mut world = World::<K>::new(options, random, 12);
    world.check(random, true);
    for round in 0..12 {
        if random.below(3) == 0 {
            let ids: Vec<u32> = world.slices.keys().copied().collect();
            world.mask(ids[to_usize(random.below(u64::try_from(ids.len()).unwrap())).unwrap()]);
        }
        // Later slices have later keys, so that compactions find segments to keep.
        let changed = if with_changes && random.below(2) == 0 { world.change(random) } else { None };
        let new: Vec<u32> = (0..random.below(3)).map(|_| world.add(random, 700 + 30 * round, 120)).collect();
        world.commit(&new, changed);
        world.check(random, false);
        if random.below(3) == 0 {
            if options.keep_keys {
                world.compact_keys()
            } else {
                let _ = world.compact();
            }
            world.check(random, true);
        }
    }
}

#[test]
fn histories_agree_with_brute_force() {
    for seed in 1..13 {
        history::<u64>(seed, SMALL, false);
        history::<u64>(seed + 100, SMALL, true);
        history::<u64>(seed + 200, Options { fingerprints: Some(true), ..SMALL }, true);
        history::<u128>(seed, SMALL, true);
        history::<Bytes>(seed, SMALL, true);
    }
}

#[test]
fn histories_with_keys_sections_agree_with_brute_force() {
    let options = Options { keep_keys: true, ..SMALL };
    for seed in 1..9 {
        history::<u64>(seed, options, false);
        history::<u64>(seed + 100, options, true);
        history::<Bytes>(seed, options, true);
    }
}

#[test]
fn appended_keys_leave_old_segments_as_they_are() {
    let random = &mut Random(5);
    let mut world = World::<u64>::new(SMALL, random, 40);
    let new = world.add(random, 5000, 50);
    world.commit(&[new], None);
    let segments = world.open().base().unwrap().root().segments.len();
    assert!(segments > 3);
    // The test's segments are all small, so the one before the new keys is rebuilt.
    let (kept, _) = world.compact();
    assert_eq!(kept, segments - 1);
    world.check(random, true);
    let old = world.open().base().unwrap().root().segments.iter().filter(|entry| entry.lookup.file == 0).count();
    assert_eq!(old, kept);
}
