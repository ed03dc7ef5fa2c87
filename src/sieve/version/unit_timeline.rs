//! A version of an index of version 2: a base and the deltas after it, which answer with units of slices.

use crate::error::{Error, ErrorKind, Result};
use crate::sieve::index::directory::SectionRange;
use crate::sieve::index::loaded::Index;
use crate::sieve::index::lookup::{Answer, Query};
use crate::sieve::key::axis::{AxisType, Key};
use crate::sieve::unit::page::UnitPage;
use crate::sieve::unit::slice_map::WHOLE_SLICE;
use crate::sieve::version::unit_delta::UnitDelta;

/// A part to load before a query can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitNeed {
    /// The lookup section of a segment.
    Segment(usize, SectionRange),
    /// A unit page.
    Page(usize, SectionRange),
}

/// A base and its deltas. Slices that the caller no longer has remain in the answers.
#[derive(Debug, Clone)]
pub struct UnitTimeline<K> {
    axis: AxisType,
    pub(in crate::sieve) base: Option<Index<K>>,
    pub(in crate::sieve) deltas: Vec<UnitDelta<K>>,
}

impl<K: Key> UnitTimeline<K> {
    /// Opens the parts of a version. The instants of the deltas ascend.
    pub fn new(axis: AxisType, base: Option<Index<K>>, deltas: Vec<UnitDelta<K>>) -> Result<Self> {
        if base.as_ref().is_some_and(|base| base.root().axis != axis) {
            return Err(Error::new(ErrorKind::SieveMalformed { field: "axis" }));
        }
        let mut newest = base.as_ref().map(|base| base.root().instant);
        for delta in &deltas {
            if newest.is_some_and(|newest| newest >= delta.instant) {
                return Err(Error::new(ErrorKind::SieveConflict { instant: delta.instant }));
            }
            newest = Some(delta.instant);
        }
        Ok(Self { axis, base, deltas })
    }

    /// Returns the base.
    pub fn base(&self) -> Option<&Index<K>> {
        self.base.as_ref()
    }

    /// Returns the deltas in order.
    pub fn deltas(&self) -> &[UnitDelta<K>] {
        &self.deltas
    }

    /// Returns the instant of the newest part.
    pub fn instant(&self) -> i64 {
        let base = self.base.as_ref().map(|base| base.root().instant);
        self.deltas.last().map(|delta| delta.instant).or(base).unwrap_or(i64::MIN)
    }

    /// Returns the IDs of all slices of the base and the deltas, ascending.
    pub fn slices(&self) -> Vec<u32> {
        let base = self.base.iter().filter_map(|base| base.units.as_ref()).flat_map(|units| units.slices.iter());
        let new = self.deltas.iter().flat_map(|delta| delta.slices.iter());
        let mut ids: Vec<u32> = base.chain(new).map(|slice| slice.id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Returns the parts that a query needs and that are not loaded.
    pub fn needs(&self, query: &Query<K>) -> Vec<UnitNeed> {
        let Some(base) = &self.base else { return Vec::new() };
        let segments = base.needs(query).into_iter().map(|need| UnitNeed::Segment(need.segment, need.extent));
        segments.chain(pages(base.needs_pages(query))).collect()
    }

    /// Returns the unit pages of some slices, or of all slices, that are not loaded.
    pub fn needs_slices(&self, ids: Option<&[u32]>) -> Vec<UnitNeed> {
        let units = self.base.as_ref().and_then(|base| base.units.as_ref());
        units.map_or(Vec::new(), |units| pages(units.needs_slices(ids)).collect())
    }

    /// Loads the lookup section of a segment.
    pub fn load_segment(&mut self, segment: usize, bytes: &[u8]) -> Result<()> {
        let base = self.base.as_mut().ok_or(Error::new(ErrorKind::SieveNotLoaded { segment }))?;
        base.load(segment, bytes)
    }

    /// Loads a unit page.
    pub fn load_page(&mut self, page: usize, bytes: &[u8]) -> Result<()> {
        let base = self.base.as_mut().ok_or(Error::new(ErrorKind::SievePageMissing { page }))?;
        base.load_page(page, bytes)
    }

    /// Answers several queries together, from the loaded parts: a row may match any of them. Returns pairs of slice and unit in ascending
    /// order; [`WHOLE_SLICE`] means all units. Returns `None` if everything must be kept.
    pub fn answer(&self, queries: &[&Query<K>]) -> Option<Vec<(u32, u32)>> {
        let floats = self.axis == AxisType::Float;
        let mut kept = Vec::new();
        for query in queries {
            let needs_order = matches!(query, Query::Between(..) | Query::AtLeast(_) | Query::AtMost(_));
            if needs_order && !self.axis.ordered() {
                return None;
            }
            if let Some(base) = &self.base {
                let Answer::Only(units) = base.answer(query) else { return None };
                kept.append(&mut base.units.as_ref()?.slices.name(&units));
            }
            self.deltas.iter().for_each(|delta| kept.append(&mut delta.answer(query, floats)));
        }
        kept.sort_unstable();
        kept.dedup();
        // The mark of a whole slice is greater than every unit, so it comes last.
        let mut whole = None;
        let mut at = kept.len();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            let (slice, unit) = kept[at];
            if unit == WHOLE_SLICE {
                whole = Some(slice);
            } else if whole == Some(slice) {
                kept[at].1 = WHOLE_SLICE;
            }
        }
        kept.dedup();
        Some(kept)
    }

    /// Returns the page with a slice, and the position of the slice in it. Returns `None` if the slice is unknown or its
    /// page is not loaded.
    pub fn slice(&self, id: u32) -> Option<(&UnitPage<K>, usize)> {
        let base = self.base.as_ref().and_then(|base| base.units.as_ref()?.slice(id));
        let in_delta = |delta: &'_ UnitDelta<K>| delta.units.layout.position(id);
        base.or_else(|| self.deltas.iter().find_map(|delta| Some((&delta.units, in_delta(delta)?))))
    }

    /// Returns the places of the unit pages in their file. Empty if they are behind the root.
    pub fn page_extents(&self) -> Vec<SectionRange> {
        self.base.as_ref().and_then(|base| base.units.as_ref()).map_or(Vec::new(), |units| units.extents())
    }

    /// Returns the units of the base, then the units of each delta, which is their order in a new base. All unit pages
    /// must be loaded.
    pub fn all_units(&self) -> Result<UnitPage<K>> {
        let mut all = match self.base.as_ref().and_then(|base| base.units.as_ref()) {
            Some(units) => units.all()?,
            None => UnitPage::default(),
        };
        for delta in &self.deltas {
            all.layout.extend(&delta.units.layout)?;
            all.stats.extend(delta.units.stats.iter().cloned());
        }
        Ok(all)
    }

    /// Returns true if a delta adds rows to the slice.
    pub fn is_changed(&self, id: u32) -> bool {
        let changes = |delta: &UnitDelta<K>| delta.changed.binary_search_by_key(&id, |slice| slice.id).is_ok();
        self.deltas.iter().any(changes)
    }

    /// Returns the IDs of the slices to which deltas add rows, ascending.
    pub fn changed(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.deltas.iter().flat_map(|delta| &delta.changed).map(|slice| slice.id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

fn pages(needs: Vec<(usize, SectionRange)>) -> impl Iterator<Item = UnitNeed> {
    needs.into_iter().map(|(page, extent)| UnitNeed::Page(page, extent))
}
