//! The model test: a map of rows replays the operations on the index and answers the same queries.

use std::collections::{BTreeMap, BTreeSet};

use crate::int::{index, saturating_u32};
use crate::sieve::*;

/// A small random generator, so that a seed is enough to reproduce a failure.
pub(in crate::sieve) struct Random(pub(in crate::sieve) u64);

impl Random {
    pub(in crate::sieve) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % bound
    }

    pub(in crate::sieve) fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value<K> {
    Null,
    Nan,
    Key(K),
}

type Rows<K> = BTreeMap<u64, (Value<K>, u32)>;

struct Model<K: Key> {
    random: Random,
    key: fn(&mut Random) -> K,
    timeline: Timeline<K>,
    /// The rows as of each instant.
    history: BTreeMap<i64, Rows<K>>,
    /// The files of the bases by instant.
    files: BTreeMap<i64, Vec<u8>>,
    last_delta: Option<Delta<K>>,
    options: Options,
    next_row: u64,
    next_group: u32,
    live_groups: Vec<u32>,
    operations: u64,
    exact: bool,
    exact_answers: u64,
}

fn location(group: u32) -> Location {
    Location { partition: format!("p={}", group % 3), group: format!("group-{group:06}") }
}

impl<K: Key> Model<K> {
    fn new(seed: u64, axis: AxisType, key: fn(&mut Random) -> K, options: Options) -> Self {
        Self {
            random: Random(seed),
            key,
            timeline: Timeline::new(axis),
            history: BTreeMap::from([(0, BTreeMap::new())]),
            files: BTreeMap::new(),
            last_delta: None,
            options,
            next_row: 0,
            next_group: 4,
            live_groups: vec![0, 1, 2, 3],
            operations: 0,
            exact: axis.exact() && options.coarsen == Coarsen::Exact,
            exact_answers: 0,
        }
    }

    fn value(&mut self) -> Value<K> {
        match self.random.below(20) {
            0 => Value::Null,
            1 => Value::Nan,
            _ => Value::Key((self.key)(&mut self.random)),
        }
    }

    /// Applies random changes to the newest state and commits them to the index. Sometimes the commit is aborted or
    /// replayed.
    fn commit(&mut self) {
        let (&newest, rows) = self.history.last_key_value().unwrap();
        let (mut rows, instant) = (rows.clone(), newest + 1 + i64::from(self.random.one_in(3)));
        let mut changes: BTreeMap<(Value<K>, u32), (u64, u64)> = BTreeMap::new();
        let mut dead = Vec::new();
        for _ in 0..self.random.below(25) {
            self.operations += 1;
            let group = self.live_groups
                [index(saturating_u32(usize::try_from(self.random.below(self.live_groups.len() as u64)).unwrap()))];
            let existing = rows
                .range(self.random.below(self.next_row.max(1))..)
                .next()
                .map(|(&row, (value, at))| (row, value.clone(), *at));
            match (self.random.below(4), existing) {
                // A delete. In one of fifty cases the writer does not know the old value, and reports no change (H1).
                (0, Some((row, value, at))) => {
                    rows.remove(&row);
                    if !self.random.one_in(50) {
                        changes.entry((value, at)).or_default().1 += 1;
                    }
                }
                // An update of the indexed value in place (H1).
                (1, Some((row, old, at))) => {
                    let new = self.value();
                    rows.insert(row, (new.clone(), at));
                    changes.entry((new, at)).or_default().0 += 1;
                    if !self.random.one_in(50) {
                        changes.entry((old, at)).or_default().1 += 1;
                    }
                }
                // An insert. One in three repeats an existing key (H3).
                (_, existing) => {
                    let value = match existing {
                        Some((_, value, _)) if self.random.one_in(3) => value,
                        _ => self.value(),
                    };
                    rows.insert(self.next_row, (value.clone(), group));
                    changes.entry((value, group)).or_default().0 += 1;
                    self.next_row += 1;
                }
            }
        }
        let mut live_groups = self.live_groups.clone();
        if self.random.one_in(4) {
            // Clustering: the rows of one group move to a new one (H2). The commit's changes to the old group come
            // before.
            let slot = usize::try_from(self.random.below(live_groups.len() as u64)).unwrap();
            let (old, new) = (live_groups[slot], self.next_group);
            changes.retain(|(_, group), _| *group != old);
            for (value, group) in rows.values_mut().filter(|(_, group)| *group == old) {
                *group = new;
                changes.entry((value.clone(), new)).or_default().0 += 1;
            }
            live_groups[slot] = new;
            dead.push(old);
        }
        let delta = delta_of(instant, &changes, &dead);
        if self.random.one_in(8) {
            // Aborted: the index never sees this commit (H4).
            return;
        }
        self.next_group += u32::try_from(dead.len()).unwrap();
        self.live_groups = live_groups;
        let delta = Delta::read(&delta.write()).unwrap();
        assert!(self.timeline.commit(delta.clone()).unwrap());
        if self.random.one_in(4) {
            assert!(!self.timeline.commit(delta.clone()).unwrap(), "a replay was applied twice");
        }
        self.last_delta = Some(delta);
        self.history.insert(instant, rows);
    }

    /// Compacts as of a random instant, compares the result with a rebuild, and continues with the stored bytes.
    fn compact(&mut self) {
        let instants: Vec<i64> = self.history.keys().copied().collect();
        let at = instants[usize::try_from(self.random.below(instants.len() as u64)).unwrap()];
        let at = if self.random.one_in(2) { at } else { *instants.last().unwrap() };
        let Ok(view) = self.timeline.as_of(at) else { return };
        if view.base_instant().is_some_and(|base| base == view.instant()) || view.instant() == i64::MIN {
            return;
        }
        let mut locations = self.timeline.locations().to_vec();
        locations.sort();
        let files = &self.files;
        let base = view.base_instant();
        let read = |extent: SectionRange| {
            let start = usize::try_from(extent.offset).unwrap();
            Ok(files[&base.unwrap()][start..start + usize::try_from(extent.len).unwrap()].to_vec())
        };
        let compacted = view.compact(self.options, locations.clone(), read, |_| i64::MAX).unwrap();
        assert!(compacted.carried.is_empty());
        assert_eq!(compacted.unmatched, 0);
        self.check_against_rebuild(at, &locations, &compacted);
        let root = root::read(&root::write(&compacted.root)).unwrap();
        assert_eq!(root, compacted.root);
        let mut base = Index::new(root);
        if self.random.one_in(2) {
            base.load_all(&compacted.file).unwrap();
        }
        let instant = base.root().instant;
        self.timeline.add_base(base).unwrap();
        self.files.insert(instant, compacted.file);
    }

    /// I7: the same bytes as a rebuild, provided that every delete was reported.
    fn check_against_rebuild(&self, at: i64, locations: &[Location], compacted: &Compacted<K>) {
        let rows = &self.history[&at];
        let number = |group: u32| saturating_u32(locations.binary_search(&location(group)).unwrap());
        let mut pairs: BTreeMap<(K, u32), u64> = BTreeMap::new();
        for (value, group) in rows.values() {
            if let Value::Key(key) = value {
                *pairs.entry((key.clone(), number(*group))).or_default() += 1;
            }
        }
        let mut builder = Builder::new(saturating_u32(locations.len()), self.options).unwrap();
        for ((key, location), rows) in &pairs {
            builder.push(key.clone(), *location, *rows).unwrap();
        }
        let built = builder.finish();
        let reported_rows: u64 = built.segments.iter().map(|segment| segment.counts.rows).sum();
        assert!(compacted.root.counts().rows >= reported_rows);
        if compacted.root.counts().rows == reported_rows {
            let (file, entries) = pack(&built.segments, 0);
            assert!(compacted.file == file, "a compaction differs from a rebuild");
            assert_eq!(compacted.root.segments, entries);
        }
    }

    /// I1: at every retained instant, no location with a live matching row is missing.
    fn check(&mut self) {
        let instants: Vec<i64> = self.history.keys().copied().collect();
        for _ in 0..6 {
            let at = instants[usize::try_from(self.random.below(instants.len() as u64)).unwrap()];
            let (mut a, mut b) = ((self.key)(&mut self.random), (self.key)(&mut self.random));
            if a > b {
                std::mem::swap(&mut a, &mut b);
            }
            let mut keys: Vec<K> = (0..5).map(|_| (self.key)(&mut self.random)).collect();
            keys.push(b.clone());
            let queries = [
                Query::Point(a.clone()),
                Query::In(keys),
                Query::Between(a.clone(), b.clone()),
                Query::Between(b.clone(), a.clone()),
                Query::AtLeast(a.clone()),
                Query::AtMost(b),
                Query::Null,
                Query::NotNull,
                Query::Nan,
            ];
            for query in queries {
                self.check_query(at, &query);
            }
        }
    }

    fn check_query(&mut self, at: i64, query: &Query<K>) {
        let matches = |value: &Value<K>| match (query, value) {
            (Query::Point(key), Value::Key(value)) => key == value,
            (Query::In(keys), Value::Key(value)) => keys.contains(value),
            (Query::Between(low, high), Value::Key(value)) => low <= value && value <= high,
            (Query::AtLeast(key), Value::Key(value)) => value >= key,
            (Query::AtMost(key), Value::Key(value)) => value <= key,
            (Query::NotNull, Value::Key(_) | Value::Nan) | (Query::Null, Value::Null) | (Query::Nan, Value::Nan) => {
                true
            }
            _ => false,
        };
        let truth: BTreeSet<u32> =
            self.history[&at].values().filter(|(value, _)| matches(value)).map(|(_, group)| *group).collect();
        let Ok(view) = self.timeline.as_of(at) else { return };
        let base = view.base_instant();
        // With only some segments loaded, the answer may be too wide, but never too narrow.
        let early = view.answer(query);
        let keeps = |answer: &Answer, group: u32| {
            self.timeline.number(&location(group)).is_none_or(|number| answer.keeps(number))
        };
        assert!(
            truth.iter().all(|&group| keeps(&early, group)),
            "a location was lost before loading: {query:?} at {at}"
        );
        let answer = match view.lookup(query) {
            Lookup::Ready(answer) => answer,
            Lookup::Need(needs) => {
                let base = base.unwrap();
                for need in needs {
                    let start = usize::try_from(need.extent.offset).unwrap();
                    let bytes = self.files[&base][start..start + usize::try_from(need.extent.len).unwrap()].to_vec();
                    self.timeline.load(base, need.segment, &bytes).unwrap();
                }
                match self.timeline.as_of(at).unwrap().lookup(query) {
                    Lookup::Ready(answer) => answer,
                    Lookup::Need(_) => panic!("a loaded segment is needed again"),
                }
            }
        };
        for &group in &truth {
            let number = self.timeline.number(&location(group));
            assert!(number.is_none_or(|number| answer.keeps(number)), "a location was lost: {query:?} at {at}");
        }
        self.check_exactness(at, query, &truth, &answer);
    }

    /// I2, I3: on an exact axis, a base answers exactly between existing keys, provided that every delete was reported
    /// to it.
    fn check_exactness(&mut self, at: i64, query: &Query<K>, truth: &BTreeSet<u32>, answer: &Answer) {
        let view = self.timeline.as_of(at).unwrap();
        let keys: BTreeSet<&K> = self.history[&at]
            .values()
            .filter_map(|(value, _)| if let Value::Key(key) = value { Some(key) } else { None })
            .collect();
        let rows = self.history[&at].values().filter(|(value, _)| matches!(value, Value::Key(_))).count();
        let reported_rows = view.base.map(|base| base.part.root().counts().rows);
        let exact = match query {
            Query::Point(key) => keys.contains(key),
            Query::In(listed) => listed.iter().all(|key| keys.contains(key)),
            Query::Between(low, high) => keys.contains(low) && keys.contains(high),
            Query::AtLeast(_) => self.timeline.axis() != AxisType::Float,
            Query::AtMost(_) => true,
            Query::Null | Query::NotNull | Query::Nan => false,
        };
        if self.exact && exact && view.deltas.is_empty() && reported_rows == u64::try_from(rows).ok() {
            let numbers = truth.iter().map(|&group| self.timeline.number(&location(group)).unwrap());
            let numbers: BTreeSet<u32> = numbers.collect();
            assert_eq!(answer, &Answer::Only(numbers.into_iter().collect()), "{query:?} at {at}");
            self.exact_answers += 1;
        }
    }

    fn expire(&mut self) {
        let instants: Vec<i64> = self.history.keys().copied().collect();
        let at = instants[instants.len() / 2];
        self.timeline.expire(at);
        for gone in instants.into_iter().filter(|&instant| instant < at) {
            // I9: an expired instant is an error, never a wrong answer. Between commits, the state is that of the
            // previous commit.
            assert!(self.timeline.as_of(gone).is_err());
            self.history.remove(&gone);
        }
    }

    fn run(&mut self, operations: u64) {
        while self.operations < operations {
            self.commit();
            if self.random.one_in(6) {
                self.compact();
            }
            if self.random.one_in(3) {
                self.check();
            }
            if self.random.one_in(40) || self.history.len() > 60 {
                self.expire();
            }
        }
    }
}

fn delta_of<K: Key>(instant: i64, changes: &BTreeMap<(Value<K>, u32), (u64, u64)>, dead: &[u32]) -> Delta<K> {
    let groups: BTreeSet<u32> = changes.keys().map(|(_, group)| *group).chain(dead.iter().copied()).collect();
    let groups: Vec<u32> = groups.into_iter().collect();
    let number = |group: u32| saturating_u32(groups.binary_search(&group).unwrap());
    let (mut keys, mut keyless) = (Vec::new(), Vec::new());
    for ((value, group), &(plus, minus)) in changes {
        let location = number(*group);
        match value {
            Value::Key(key) => keys.push(Change { key: key.clone(), location, plus, minus }),
            Value::Null => keyless.push(KeylessRows { location, nulls: (plus, minus), ..KeylessRows::default() }),
            Value::Nan => keyless.push(KeylessRows { location, nans: (plus, minus), ..KeylessRows::default() }),
        }
    }
    let dead = dead.iter().map(|&group| number(group)).collect();
    Delta::new(instant, groups.iter().map(|&group| location(group)).collect(), dead, keyless, keys).unwrap()
}

const SMALL: Options =
    Options { max_records: 60, max_key_bytes: 2000, max_weight: 32, coarsen: Coarsen::Exact, ..Options::DEFAULT };

fn word(random: &mut Random) -> u64 {
    match random.below(3) {
        0 => random.below(40),
        1 => axis::signed(i64::MIN) + random.below(9) * (u64::MAX / 8),
        _ => 1_000_000 + random.below(500) * 1000,
    }
}

fn wide(random: &mut Random) -> u128 {
    u128::from(word(random)) << 64 | u128::from(random.below(3))
}

fn text(random: &mut Random) -> Bytes {
    let stem = ["", "a", "customer-0000000000000000000-", "customer-00000000000000000001", "\0", "zz"];
    let tail = format!("{:x}", random.below(200));
    let stem = stem[usize::try_from(random.below(6)).unwrap()];
    Bytes::new(if random.one_in(5) { stem.to_owned() } else { format!("{stem}{tail}") }.as_bytes())
}

fn run_all(operations: u64, seed: u64) {
    assert!(run_each(operations, seed) > 0, "the sharpest check never ran");
}

/// Runs a model for each kind of key and coarsening. Returns the number of answers that were compared exactly.
fn run_each(operations: u64, seed: u64) -> u64 {
    let coarse = |coarsen| Options { coarsen, ..SMALL };
    let mut words = Model::new(seed, AxisType::Signed, word, SMALL);
    words.run(operations);
    Model::new(seed + 1, AxisType::Float, word, Options::default()).run(operations);
    Model::new(seed + 2, AxisType::Uuid, wide, SMALL).run(operations);
    Model::new(seed + 3, AxisType::Bytes, text, SMALL).run(operations);
    Model::new(seed + 4, AxisType::Signed, word, coarse(Coarsen::Plain { keys: 4 })).run(operations);
    Model::new(seed + 5, AxisType::Bytes, text, coarse(Coarsen::Error { millionths: 100_000 })).run(operations);
    Model::new(seed + 6, AxisType::Signed, word, coarse(Coarsen::Slope { thousandths: 2000 })).run(operations);
    words.exact_answers
}

#[test]
fn i1_i9_i10_no_location_with_a_matching_row_is_lost() {
    run_all(4_000, 1);
}

/// Many short histories, because commits are cheap at the start of a history. CI runs this.
#[test]
fn i1_a_million_operations_lose_no_location() {
    const WORKERS: u64 = 4;
    const OPERATIONS: u64 = 200;
    let worlds = 1_000_000 / (7 * OPERATIONS) + 1;
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            scope.spawn(move || {
                (worker..worlds).step_by(4).for_each(|world| {
                    run_each(OPERATIONS, 1_000_000 + world * 10);
                });
            });
        }
    });
}

/// The long run: `cargo test --release -- --ignored long_model`.
#[test]
#[ignore = "a million operations; run by command"]
fn long_model() {
    (0..20).for_each(|seed| run_all(8_000, 1000 + seed * 10));
}
