//! The versions of an index: bases and deltas on the table's timeline, and answers as of any retained instant.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32};
use crate::sieve::index::directory::Location;
use crate::sieve::index::loaded::Index;
use crate::sieve::index::lookup::{Answer, Lookup, Query};
use crate::sieve::key::axis::{AxisType, Key};
use crate::sieve::version::delta::{Delta, visit_inserted};

/// A base or delta, with the timeline's numbers of its locations.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct Numbered<T> {
    pub(in crate::sieve) instant: i64,
    pub(in crate::sieve) part: Arc<T>,
    pub(in crate::sieve) numbers: Vec<u32>,
}

/// The versions of an index. A location keeps its number in the whole timeline. Locations are numbered in order of
/// first appearance.
#[derive(Debug, Clone)]
pub struct Timeline<K> {
    axis: AxisType,
    locations: Vec<Location>,
    numbers: HashMap<Location, u32>,
    bases: Vec<Numbered<Index<K>>>,
    deltas: Vec<Numbered<Delta<K>>>,
    /// Queries before this instant are rejected.
    oldest: i64,
}

/// The index as of an instant.
#[derive(Debug, Clone)]
pub struct View<'a, K> {
    pub(in crate::sieve) timeline: &'a Timeline<K>,
    pub(in crate::sieve) base: Option<&'a Numbered<Index<K>>>,
    pub(in crate::sieve) deltas: &'a [Numbered<Delta<K>>],
}

impl<K: Key> Timeline<K> {
    /// Creates an index of a table that had no rows before its first commit.
    pub fn new(axis: AxisType) -> Self {
        Self {
            axis,
            locations: Vec::new(),
            numbers: HashMap::new(),
            bases: Vec::new(),
            deltas: Vec::new(),
            oldest: i64::MIN,
        }
    }

    /// Creates an index that begins with a base. Instants before the base are rejected.
    pub fn starting_with(base: Index<K>) -> Self {
        let mut timeline = Self::new(base.root().axis);
        timeline.oldest = base.root().instant;
        timeline.insert_base(base);
        timeline
    }

    pub(in crate::sieve) fn axis(&self) -> AxisType {
        self.axis
    }

    /// Returns the number of a location that occurs in a base or delta. A location without a number is unknown to the
    /// index and belongs to every answer.
    pub fn number(&self, location: &Location) -> Option<u32> {
        self.numbers.get(location).copied()
    }

    /// Returns the locations by number.
    pub fn locations(&self) -> &[Location] {
        &self.locations
    }

    fn intern(&mut self, locations: &[Location]) -> Vec<u32> {
        let intern = |location: &Location| {
            let next = saturating_u32(self.locations.len());
            let number = *self.numbers.entry(location.clone()).or_insert(next);
            if number == next {
                self.locations.push(location.clone());
            }
            number
        };
        locations.iter().map(intern).collect()
    }

    fn insert_base(&mut self, base: Index<K>) {
        let numbers = self.intern(&base.root().locations);
        let instant = base.root().instant;
        let at = self.bases.partition_point(|version| version.instant < instant);
        self.bases.insert(at, Numbered { instant, part: Arc::new(base), numbers });
    }

    /// Adds a commit after all others. Returns false and changes nothing if the same commit was added before. Returns a
    /// conflict if the instant is taken by a different commit or is before the newest one.
    pub fn commit(&mut self, delta: Delta<K>) -> Result<bool> {
        let instant = delta.instant();
        if self.deltas.iter().any(|version| version.instant == instant && *version.part == delta) {
            return Ok(false);
        }
        let newest =
            self.deltas.last().map(|version| version.instant).max(self.bases.last().map(|version| version.instant));
        if newest.is_some_and(|newest| newest >= instant) {
            return Err(Error::new(ErrorKind::SieveConflict { instant }));
        }
        let numbers = self.intern(&delta.locations);
        self.deltas.push(Numbered { instant, part: Arc::new(delta), numbers });
        Ok(true)
    }

    /// Adds a base from a compaction. From its instant onwards it replaces everything before it.
    pub fn add_base(&mut self, base: Index<K>) -> Result<()> {
        let instant = base.root().instant;
        if self.bases.iter().any(|version| version.instant == instant) || instant < self.oldest {
            return Err(Error::new(ErrorKind::SieveConflict { instant }));
        }
        self.insert_base(base);
        Ok(())
    }

    /// Loads the lookup section of a segment that a view needs.
    pub fn load(&mut self, base_instant: i64, segment: usize, bytes: &[u8]) -> Result<()> {
        match self.bases.iter_mut().find(|version| version.instant == base_instant) {
            Some(version) => Arc::make_mut(&mut version.part).load(segment, bytes),
            None => Err(Error::new(ErrorKind::SieveExpired { instant: base_instant })),
        }
    }

    /// Drops the data that only instants before `instant` need.
    pub fn expire(&mut self, instant: i64) {
        self.oldest = self.oldest.max(instant);
        let needed = self.bases.partition_point(|version| version.instant <= self.oldest).saturating_sub(1);
        self.bases.drain(..needed);
        if let Some(base) = self.bases.first().filter(|version| version.instant <= self.oldest) {
            let covered = base.instant;
            self.deltas.retain(|version| version.instant > covered);
        }
    }

    /// Returns the index as of an instant.
    pub fn as_of(&self, instant: i64) -> Result<View<'_, K>> {
        if instant < self.oldest {
            return Err(Error::new(ErrorKind::SieveExpired { instant }));
        }
        let base =
            self.bases.partition_point(|version| version.instant <= instant).checked_sub(1).map(|at| &self.bases[at]);
        let start = base.map_or(0, |base| self.deltas.partition_point(|version| version.instant <= base.instant));
        let end = self.deltas.partition_point(|version| version.instant <= instant);
        Ok(View { timeline: self, base, deltas: &self.deltas[start..end.max(start)] })
    }

    /// Returns the index as of its newest commit.
    pub fn latest(&self) -> Result<View<'_, K>> {
        self.as_of(i64::MAX)
    }
}

impl<K: Key> View<'_, K> {
    /// Returns the instant of the newest base or delta.
    pub fn instant(&self) -> i64 {
        self.deltas.last().map(|version| version.instant).max(self.base_instant()).unwrap_or(i64::MIN)
    }

    /// Returns the instant of the base whose segments [`Lookup::Need`] lists.
    pub fn base_instant(&self) -> Option<i64> {
        self.base.map(|base| base.instant)
    }

    /// Answers a query in the timeline's numbers, or returns the segments of the base that it needs.
    pub fn lookup(&self, query: &Query<K>) -> Lookup {
        let lookup = self.base.map_or(Lookup::Ready(Answer::Only(Vec::new())), |base| base.part.lookup(query));
        match lookup {
            Lookup::Ready(answer) => Lookup::Ready(self.apply_deltas(query, answer)),
            need @ Lookup::Need(_) => need,
        }
    }

    /// Answers a query from the loaded segments. A missing segment matches every location.
    pub fn answer(&self, query: &Query<K>) -> Answer {
        let answer = self.base.map_or(Answer::Only(Vec::new()), |base| base.part.answer(query));
        self.apply_deltas(query, answer)
    }

    /// Applies the deltas to an answer of the base.
    fn apply_deltas(&self, query: &Query<K>, answer: Answer) -> Answer {
        let Answer::Only(local) = answer else { return Answer::All };
        let unordered =
            !self.timeline.axis.ordered() && matches!(query, Query::Between(..) | Query::AtLeast(_) | Query::AtMost(_));
        if unordered {
            return Answer::All;
        }
        let numbers = self.base.map_or(&[][..], |base| &base.numbers);
        let mut kept: BTreeSet<u32> =
            local.iter().filter_map(|&location| numbers.get(index(location)).copied()).collect();
        for version in self.deltas {
            let delta = &*version.part;
            let number = |location: u32| version.numbers.get(index(location)).copied();
            for &dead in &delta.dead {
                number(dead).inspect(|number| {
                    kept.remove(number);
                });
            }
            visit_inserted(&delta.changes, query, &mut |location| kept.extend(number(location)));
            let nans = matches!(query, Query::Nan | Query::NotNull)
                || matches!(query, Query::AtLeast(_)) && self.timeline.axis == AxisType::Float;
            for entry in &delta.keyless {
                let nulls = matches!(query, Query::Null) && entry.nulls.0 > 0;
                if entry.unknown || nulls || nans && entry.nans.0 > 0 {
                    kept.extend(number(entry.location));
                }
            }
        }
        Answer::Only(kept.into_iter().collect())
    }
}
