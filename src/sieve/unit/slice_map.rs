//! Which slice has each unit: runs of slices with consecutive IDs and equal numbers of units.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::int::{index, saturating_u32, to_u64};
use crate::sieve::code::format::{malformed, take_u32};
use crate::sieve::unit::layout::{Layout, MAX_UNITS, UNITS_END};
use crate::varint::put_varint;

/// Marks all units of a slice in an answer.
pub const WHOLE_SLICE: u32 = u32::MAX;

/// Neighboring slices with consecutive IDs and the same number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SliceRun {
    /// The position of the first slice.
    position: u32,
    /// The ID of the first slice.
    id: u32,
    /// The first unit of the first slice.
    unit: u32,
    /// The number of units of each slice.
    units: u32,
    /// The number of slices.
    count: u32,
}

/// A slice by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sieve) struct SliceUnits {
    pub(in crate::sieve) position: u32,
    pub(in crate::sieve) id: u32,
    pub(in crate::sieve) first: u32,
    pub(in crate::sieve) units: u32,
}

impl SliceRun {
    fn slice(&self, nth: u32) -> SliceUnits {
        SliceUnits {
            position: self.position + nth,
            id: self.id + nth,
            first: self.unit + nth * self.units,
            units: self.units,
        }
    }
}

/// The slices of a base in order of their IDs, with their units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SliceMap {
    runs: Vec<SliceRun>,
    num_slices: u32,
    num_units: u32,
}

impl SliceMap {
    /// Returns the map of a layout.
    pub fn of(layout: &Layout) -> Self {
        let mut map = Self::default();
        for slice in layout.iter() {
            let units = u32::try_from(slice.num_units()).unwrap_or(u32::MAX);
            map.push(slice.id, units, 1);
        }
        map
    }

    fn push(&mut self, id: u32, units: u32, count: u32) {
        match self.runs.last_mut() {
            Some(run) if run.units == units && run.id + run.count == id => run.count += count,
            _ => {
                self.runs.push(SliceRun { position: self.num_slices, id, unit: self.num_units, units, count });
            }
        }
        self.num_slices += count;
        self.num_units += units * count;
    }

    /// Returns the number of slices.
    pub fn num_slices(&self) -> u32 {
        self.num_slices
    }

    /// Returns the number of units.
    pub fn num_units(&self) -> u32 {
        self.num_units
    }

    /// Returns the slice at a position.
    pub(in crate::sieve) fn at(&self, position: u32) -> Option<SliceUnits> {
        let run = self.runs.partition_point(|run| run.position <= position).checked_sub(1)?;
        let run = self.runs.get(run).filter(|run| position - run.position < run.count)?;
        Some(run.slice(position - run.position))
    }

    /// Returns the slice with an ID.
    pub(in crate::sieve) fn find(&self, id: u32) -> Option<SliceUnits> {
        let run = self.runs.partition_point(|run| run.id <= id).checked_sub(1)?;
        let run = self.runs.get(run).filter(|run| id - run.id < run.count)?;
        Some(run.slice(id - run.id))
    }

    /// Returns the slice of a unit.
    pub(in crate::sieve) fn slice_of(&self, unit: u32) -> Option<SliceUnits> {
        let run = self.runs.partition_point(|run| run.unit <= unit).checked_sub(1)?;
        let run = self.runs.get(run)?;
        let nth = (unit - run.unit) / run.units;
        (nth < run.count).then(|| run.slice(nth))
    }

    /// Visits the slices in order.
    pub(in crate::sieve) fn iter(&self) -> impl Iterator<Item = SliceUnits> {
        self.runs.iter().flat_map(|run| (0..run.count).map(|nth| run.slice(nth)))
    }

    /// Translates ascending units to pairs of slice ID and unit within the slice. A slice whose units are all there is
    /// one pair with [`WHOLE_SLICE`].
    pub(in crate::sieve) fn name(&self, units: &[u32]) -> Vec<(u32, u32)> {
        let mut named = Vec::new();
        let mut rest = units;
        while let Some(&unit) = rest.first() {
            let Some(slice) = self.slice_of(unit) else { break };
            let len =
                rest.iter().take(index(slice.units)).take_while(|&&unit| unit - slice.first < slice.units).count();
            if len == index(slice.units) {
                named.push((slice.id, WHOLE_SLICE));
            } else {
                named.extend(rest[..len].iter().map(|unit| (slice.id, unit - slice.first)));
            }
            rest = &rest[len..];
        }
        named
    }

    /// Writes the map.
    pub(in crate::sieve) fn write(&self, body: &mut Vec<u8>) {
        put_varint(body, to_u64(self.runs.len()));
        let mut next = 0;
        for run in &self.runs {
            let (gap, more) = (run.id - next, run.count - 1);
            put_varint(body, u64::from(run.units) << 2 | u64::from(gap > 0) << 1 | u64::from(more > 0));
            [gap, more].into_iter().filter(|&number| number > 0).for_each(|number| put_varint(body, u64::from(number)));
            next = run.id + run.count;
        }
    }

    /// Reads a map with at most `most_units` units.
    pub(in crate::sieve) fn read(cursor: &mut Cursor<'_>, most_units: u64) -> Result<Self> {
        let mut map = Self::default();
        let mut next = 0u64;
        // Each iteration consumes bytes, so a false count fails at the end of the input.
        for _ in 0..cursor.varint()? {
            let head = cursor.varint()?;
            let gap = if head & 2 == 0 { 0 } else { take_u32(cursor)? };
            let count = if head & 1 == 0 { 1 } else { u64::from(take_u32(cursor)?) + 1 };
            let (id, units) = (next + u64::from(gap), head >> 2);
            next = id + count;
            let total = units.saturating_mul(count).saturating_add(u64::from(map.num_units));
            let fits = next <= u64::from(u32::MAX) && total <= most_units && total < u64::from(UNITS_END);
            if units == 0 || units > u64::from(MAX_UNITS) || !fits {
                return Err(malformed(cursor, "units of slices"));
            }
            let small = |number: u64| saturating_u32(crate::int::to_usize(number).unwrap_or(usize::MAX));
            map.push(small(id), small(units), small(count));
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::code::format::cursor;
    use crate::sieve::unit::layout::{Cut, SliceLayout};
    use proptest::prelude::*;

    fn layout(slices: &[(u32, usize)]) -> Layout {
        let (mut layout, mut id) = (Layout::default(), 0);
        for &(gap, units) in slices {
            id += gap;
            layout.add(SliceLayout { id, cut: Cut::RowGroups, row_groups: &vec![5; units] }).unwrap();
        }
        layout
    }

    proptest! {
        #[test]
        fn units_and_slices_are_found(slices in proptest::collection::vec((1u32..3, 0usize..4), 0..40)) {
            let layout = layout(&slices);
            let map = SliceMap::of(&layout);
            let mut body = Vec::new();
            map.write(&mut body);
            let mut cursor = cursor(&body);
            prop_assert_eq!(&SliceMap::read(&mut cursor, 1 << 20).unwrap(), &map);
            prop_assert_eq!(cursor.remaining(), 0);
            prop_assert_eq!((index(map.num_slices()), index(map.num_units())), (layout.num_slices(), layout.num_units()));
            let all: Vec<SliceUnits> = map.iter().collect();
            prop_assert_eq!(all.len(), slices.len());
            for (position, slice) in all.iter().enumerate() {
                prop_assert_eq!(layout.first(position), Some(slice.first));
                prop_assert_eq!(layout.get(position).unwrap().id, slice.id);
                prop_assert_eq!(map.at(slice.position), Some(*slice));
                prop_assert_eq!(map.find(slice.id), Some(*slice));
                for unit in slice.first..slice.first + slice.units {
                    prop_assert_eq!(map.slice_of(unit), Some(*slice));
                }
            }
            prop_assert_eq!(map.slice_of(map.num_units()), None);
            prop_assert_eq!(map.at(map.num_slices()), None);
            let units: Vec<u32> = (0..map.num_units()).collect();
            let named = map.name(&units);
            prop_assert_eq!(named, all.iter().map(|slice| (slice.id, WHOLE_SLICE)).collect::<Vec<_>>());
            let even: Vec<u32> = units.iter().copied().filter(|unit| unit % 2 == 0).collect();
            let named = map.name(&even);
            prop_assert!(named.is_sorted());
            for unit in units {
                let slice = map.slice_of(unit).unwrap();
                let kept = named.contains(&(slice.id, unit - slice.first)) || named.contains(&(slice.id, WHOLE_SLICE));
                prop_assert_eq!(kept, unit % 2 == 0);
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            if let Ok(map) = SliceMap::read(&mut cursor(&bytes), 1000) {
                prop_assert!(map.num_units() <= 1000);
                prop_assert_eq!(map.iter().map(|slice| slice.units).sum::<u32>(), map.num_units());
            }
        }
    }

    #[test]
    fn equal_slices_take_one_run() {
        let map = SliceMap::of(&layout(&vec![(1, 4); 100_000]));
        let mut body = Vec::new();
        map.write(&mut body);
        assert!(body.len() < 8, "{}", body.len());
    }
}
