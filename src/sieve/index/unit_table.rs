//! The units of an open index of version 2: the pages loaded so far, and the root's summaries of the others.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32};
use crate::sieve::index::directory::SectionRange;
use crate::sieve::index::key_prefixes::{KeyPrefixes, Overlap};
use crate::sieve::index::lookup::Query;
use crate::sieve::index::unit_root::{PageEntry, UnitRoot, check_of};
use crate::sieve::key::axis::Key;
use crate::sieve::unit::layout::Layout;
use crate::sieve::unit::page::{Summary, UnitPage};
use crate::sieve::unit::slice_map::SliceMap;
use crate::sieve::unit::stats::Stats;

/// The state of a unit page.
#[derive(Debug, Clone)]
enum PageSlot<K> {
    Absent,
    Ready(Box<ReadyPage<K>>),
    /// The bytes could not be read. Nothing excludes the units of the page.
    Damaged,
}

#[derive(Debug, Clone)]
struct ReadyPage<K> {
    page: UnitPage<K>,
    /// The prefixes of the least and greatest key by unit. For a unit without keys, the least is greater.
    spans: Vec<(u64, u64)>,
}

/// The units with the pages loaded so far.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct UnitTable<K> {
    pub(in crate::sieve) slices: SliceMap,
    pub(in crate::sieve) root_bytes: usize,
    file: Option<u32>,
    entries: Vec<PageEntry<K>>,
    slots: Vec<PageSlot<K>>,
}

/// Whether units of a page match a question about statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PageMatch {
    No,
    Some,
    All,
}

impl<K: Key> UnitTable<K> {
    pub(in crate::sieve) fn new(root: &UnitRoot<K>, root_bytes: usize) -> Self {
        let slots = root.pages.iter().map(|_| PageSlot::Absent).collect();
        let (slices, file, entries) = (root.slices.clone(), root.pages_file, root.pages.clone());
        Self { slices, root_bytes, file, entries, slots }
    }

    /// Loads the pages behind the root. A page that is damaged there cannot be read again.
    pub(in crate::sieve) fn load_behind(&mut self, bytes: &[u8], prefixes: &KeyPrefixes) {
        if self.file.is_none() {
            for page in 0..self.entries.len() {
                let part = self.entries[page].slice(bytes).unwrap_or_default().to_vec();
                self.load(page, &part, prefixes).ok();
            }
        }
    }

    /// Loads a page. If the bytes are damaged, returns an error, and from then on nothing excludes the page's units.
    pub(in crate::sieve) fn load(&mut self, page: usize, bytes: &[u8], prefixes: &KeyPrefixes) -> Result<()> {
        let (Some(entry), Some(slot)) = (self.entries.get(page), self.slots.get_mut(page)) else {
            return Err(Error::new(ErrorKind::SieveNotLoaded { segment: page }));
        };
        *slot = PageSlot::Damaged;
        if check_of(bytes) != Some(entry.check) {
            return Err(Error::new(ErrorKind::SieveChecksum { part: "unit page" }));
        }
        let page = UnitPage::<K>::read(bytes)?;
        let slices = (entry.first_slice..).zip(page.layout.iter());
        let expected = |(position, id, units): (u32, u32, u64)| {
            self.slices.at(position).is_some_and(|slice| slice.id == id && u64::from(slice.units) == units)
        };
        let all = slices.map(|(position, slice)| (position, slice.id, slice.num_units())).all(expected);
        if !all || saturating_u32(page.layout.num_slices()) != entry.num_slices {
            return Err(Error::new(ErrorKind::SieveMalformed { field: "slices of a unit page" }));
        }
        let of = |stats: &Stats<K>| match &stats.span {
            Some(span) => (prefixes.of(&span.least), prefixes.of(&span.most)),
            None => (u64::MAX, 0),
        };
        let spans = page.stats.iter().map(of).collect();
        *slot = PageSlot::Ready(Box::new(ReadyPage { page, spans }));
        Ok(())
    }

    fn page_of(&self, unit: u32) -> Option<usize> {
        match self.entries.len() {
            1 => Some(0),
            _ => self.entries.partition_point(|entry| entry.first_unit <= unit).checked_sub(1),
        }
    }

    fn ready(&self, unit: u32) -> Option<(&ReadyPage<K>, usize)> {
        let page = self.page_of(unit)?;
        match self.slots.get(page)? {
            PageSlot::Ready(ready) => Some((ready, self.entries[page].local(unit))),
            PageSlot::Absent | PageSlot::Damaged => None,
        }
    }

    /// Returns the statistics of a unit whose page is loaded.
    pub(in crate::sieve) fn stats_of(&self, unit: u32) -> Option<&Stats<K>> {
        let (ready, at) = self.ready(unit)?;
        ready.page.stats.get(at)
    }

    /// Compares the keys of a unit with an interval, both given by their prefixes.
    #[inline]
    pub(in crate::sieve) fn overlaps(&self, unit: u32, bounds: (u64, u64)) -> Overlap {
        match self.ready(unit) {
            Some((ready, at)) => Overlap::of(ready.spans.get(at).copied(), bounds),
            // Without its page, nothing excludes a unit.
            None => Overlap::Yes,
        }
    }

    /// Returns the units that belong to every answer: those with unread rows, and all of a page that may have such
    /// units and is not loaded.
    pub(in crate::sieve) fn unknown(&self) -> Vec<u32> {
        let mut unknown = Vec::new();
        for (entry, slot) in self.entries.iter().zip(&self.slots).filter(|(entry, _)| entry.summary.unknown) {
            match slot {
                PageSlot::Ready(ready) => {
                    let units = entry.units().zip(&ready.page.stats).filter(|(_, stats)| stats.unknown);
                    unknown.extend(units.map(|(unit, _)| unit));
                }
                PageSlot::Absent | PageSlot::Damaged => unknown.extend(entry.units()),
            }
        }
        unknown
    }

    /// Returns the units that match a question about statistics alone.
    pub(in crate::sieve) fn select(&self, query: &Query<K>, floats: bool) -> Vec<u32> {
        let mut units = Vec::new();
        for (entry, slot) in self.entries.iter().zip(&self.slots) {
            match (match_page(query, &entry.summary, floats), slot) {
                (PageMatch::No, _) => {}
                (PageMatch::Some, PageSlot::Ready(ready)) => {
                    let kept = entry.units().zip(&ready.page.stats).filter(|(_, stats)| stats.matches(query, floats));
                    units.extend(kept.map(|(unit, _)| unit));
                }
                _ => units.extend(entry.units()),
            }
        }
        units
    }

    /// Returns the pages that a query needs and that are not loaded.
    pub(in crate::sieve) fn needs(&self, query: &Query<K>, floats: bool) -> Vec<(usize, SectionRange)> {
        let by_statistics = query.needs_statistics();
        let needed = |entry: &PageEntry<K>| {
            entry.summary.unknown || by_statistics && match_page(query, &entry.summary, floats) == PageMatch::Some
        };
        self.absent(needed)
    }

    /// Returns the pages of some slices, or of all slices, that are not loaded.
    pub(in crate::sieve) fn needs_slices(&self, ids: Option<&[u32]>) -> Vec<(usize, SectionRange)> {
        let Some(ids) = ids else { return self.absent(|_| true) };
        let mut positions: Vec<u32> =
            ids.iter().filter_map(|&id| self.slices.find(id)).map(|slice| slice.position).collect();
        positions.sort_unstable();
        self.absent(|entry| {
            let at = positions.partition_point(|&position| position < entry.first_slice);
            positions.get(at).is_some_and(|&position| position - entry.first_slice < entry.num_slices)
        })
    }

    fn absent(&self, needed: impl Fn(&PageEntry<K>) -> bool) -> Vec<(usize, SectionRange)> {
        let Some(file) = self.file else { return Vec::new() };
        let pages = self.entries.iter().zip(&self.slots).enumerate();
        let absent = pages.filter(|(_, (entry, slot))| matches!(slot, PageSlot::Absent) && needed(entry));
        absent.map(|(page, (entry, _))| (page, SectionRange { file, offset: entry.offset, len: entry.len })).collect()
    }

    /// Returns the places of all pages in their file. Empty if they are behind the root.
    pub(in crate::sieve) fn extents(&self) -> Vec<SectionRange> {
        let place = |file| move |entry: &PageEntry<K>| SectionRange { file, offset: entry.offset, len: entry.len };
        self.file.map_or(Vec::new(), |file| self.entries.iter().map(place(file)).collect())
    }

    /// Returns the size of all pages.
    pub(in crate::sieve) fn page_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.len).fold(0, u64::saturating_add)
    }

    /// Returns a slice of a loaded page: the page and the position of the slice in it.
    pub(in crate::sieve) fn slice(&self, id: u32) -> Option<(&UnitPage<K>, usize)> {
        let slice = self.slices.find(id)?;
        let page = self.page_of(slice.first)?;
        let PageSlot::Ready(ready) = self.slots.get(page)? else { return None };
        Some((&ready.page, index(slice.position - self.entries[page].first_slice)))
    }

    /// Returns all units if every page is loaded.
    pub(in crate::sieve) fn all(&self) -> Result<UnitPage<K>> {
        let mut all = UnitPage { layout: Layout::default(), stats: Vec::new() };
        for (number, slot) in self.slots.iter().enumerate() {
            let PageSlot::Ready(ready) = slot else {
                return Err(Error::new(ErrorKind::SievePageMissing { page: number }));
            };
            all.layout.extend(&ready.page.layout)?;
            all.stats.extend(ready.page.stats.iter().cloned());
        }
        Ok(all)
    }
}

/// Compares a question about statistics with the summary of a page.
fn match_page<K: Key>(query: &Query<K>, summary: &Summary<K>, floats: bool) -> PageMatch {
    let span = summary.span.as_ref();
    let matched = match query {
        Query::AtLeast(key) if summary.all_keys && span.is_some_and(|span| span.0 >= *key) => PageMatch::All,
        Query::AtMost(key) if summary.all_keys && span.is_some_and(|span| span.1 <= *key) => PageMatch::All,
        Query::NotNull if summary.all_keys => PageMatch::All,
        Query::AtLeast(key) if span.is_some_and(|span| span.1 >= *key) || floats && summary.nans => PageMatch::Some,
        Query::AtMost(key) if span.is_some_and(|span| span.0 <= *key) => PageMatch::Some,
        Query::NotNull if span.is_some() || summary.nans => PageMatch::Some,
        Query::Null if summary.nulls => PageMatch::Some,
        Query::Nan if summary.nans => PageMatch::Some,
        _ => PageMatch::No,
    };
    if matched == PageMatch::No && summary.unknown { PageMatch::Some } else { matched }
}
