//! How slices are divided into units: ranges of rows that an answer keeps or skips.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32, to_u64, to_usize};
use crate::sieve::code::format::{malformed, take_u32};
use crate::sieve::key::bounds::{unzigzag, zigzag};
use crate::varint::put_varint;

/// Row groups of at most this many rows are never cut.
pub const UNCUT_ROWS: u64 = 50_000;

/// A slice has at most this many units. If a division would result in more, the slice is divided less finely.
pub const MAX_UNITS: u32 = 8192;

/// The numbers of units are below this.
pub(in crate::sieve) const UNITS_END: u32 = 1 << 31;

/// A layout with at most this many row groups is stored once for several neighboring slices.
const REPEATED_ROW_GROUPS: usize = 64;

/// How a slice is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The slice is one unit.
    Whole,
    /// Each row group is a unit.
    RowGroups,
    /// Each row group of more than [`UNCUT_ROWS`] rows is cut at multiples of this number of rows.
    Rows(u32),
}

/// The rows of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitRange {
    /// The row group of the first row.
    pub row_group: u32,
    /// The first row, counted from the start of the file.
    pub first_row: u64,
    /// The number of rows.
    pub rows: u64,
}

/// The division of one slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceLayout<'a> {
    /// The ID of the slice, which is never used for another one.
    pub id: u32,
    /// How the slice is divided.
    pub cut: Cut,
    /// The number of rows of each row group. Empty if unknown.
    pub row_groups: &'a [u64],
}

impl SliceLayout<'_> {
    /// Returns the number of units.
    pub fn num_units(&self) -> u64 {
        match self.cut {
            _ if self.row_groups.is_empty() => 1,
            Cut::Whole => 1,
            Cut::RowGroups => to_u64(self.row_groups.len()),
            Cut::Rows(each) => self.row_groups.iter().map(|&rows| pieces(rows, each)).fold(0, u64::saturating_add),
        }
    }

    /// Returns the number of rows, or `None` if it is unknown.
    pub fn num_rows(&self) -> Option<u64> {
        (!self.row_groups.is_empty()).then(|| self.row_groups.iter().copied().fold(0, u64::saturating_add))
    }

    /// Returns the rows of each unit. Empty if they are unknown.
    pub fn ranges(&self) -> Vec<UnitRange> {
        let mut ranges = Vec::new();
        let mut first_row = 0;
        if let (Cut::Whole, Some(rows)) = (self.cut, self.num_rows()) {
            return vec![UnitRange { row_group: 0, first_row, rows }];
        }
        for (row_group, &rows) in (0..).zip(self.row_groups) {
            let each = match self.cut {
                Cut::Rows(each) if pieces(rows, each) > 1 => u64::from(each),
                _ => rows,
            };
            let mut start = 0;
            loop {
                let rows = each.min(rows - start);
                ranges.push(UnitRange { row_group, first_row: first_row + start, rows });
                start += rows;
                if start == self.row_groups[index(row_group)] {
                    break;
                }
            }
            first_row += rows;
        }
        ranges
    }
}

fn pieces(rows: u64, each: u32) -> u64 {
    if rows <= UNCUT_ROWS { 1 } else { rows.div_ceil(u64::from(each.max(1))) }
}

/// The division of several slices, whose units have consecutive numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    ids: Vec<u32>,
    cuts: Vec<Cut>,
    /// The end of each slice's row groups in `rows`.
    ends: Vec<usize>,
    rows: Vec<u64>,
    /// The first unit of each slice, and the number of all units.
    firsts: Vec<u32>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { ids: Vec::new(), cuts: Vec::new(), ends: Vec::new(), rows: Vec::new(), firsts: vec![0] }
    }
}

impl Layout {
    /// Adds a slice. IDs must ascend. A division into too many units becomes a coarser one.
    pub fn add(&mut self, slice: SliceLayout<'_>) -> Result<()> {
        let SliceLayout { id, mut cut, row_groups } = slice;
        if self.ids.last().is_some_and(|&last| last >= id) || id == u32::MAX {
            return Err(Error::new(ErrorKind::SieveOption("the IDs of slices must ascend")));
        }
        if cut == Cut::Rows(0) {
            return Err(Error::new(ErrorKind::SieveOption("a unit has at least one row")));
        }
        let rows = row_groups.iter().try_fold(0u64, |sum, &rows| sum.checked_add(rows));
        if rows.is_none_or(|rows| i64::try_from(rows).is_err()) {
            return Err(Error::new(ErrorKind::SieveOption("a file has fewer rows than this")));
        }
        for coarser in [Cut::RowGroups, Cut::Whole] {
            if (SliceLayout { cut, ..slice }).num_units() > u64::from(MAX_UNITS) {
                cut = coarser;
            }
        }
        if row_groups.is_empty() {
            cut = Cut::Whole;
        }
        self.push(SliceLayout { cut, ..slice })
    }

    fn push(&mut self, slice: SliceLayout<'_>) -> Result<()> {
        let units = to_u64(self.num_units()) + slice.num_units();
        if units >= u64::from(UNITS_END) {
            return Err(Error::new(ErrorKind::SieveLocation(UNITS_END)));
        }
        self.ids.push(slice.id);
        self.cuts.push(slice.cut);
        self.rows.extend_from_slice(slice.row_groups);
        self.ends.push(self.rows.len());
        self.firsts.push(saturating_u32(to_usize(units).unwrap_or(usize::MAX)));
        Ok(())
    }

    /// Returns the number of slices.
    pub fn num_slices(&self) -> usize {
        self.ids.len()
    }

    /// Returns the number of units.
    pub fn num_units(&self) -> usize {
        index(self.firsts[self.ids.len()])
    }

    /// Returns the IDs of the slices, which ascend.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Returns the position of a slice.
    pub fn position(&self, id: u32) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }

    /// Returns the number of the first unit of the slice at a position.
    pub fn first(&self, position: usize) -> Option<u32> {
        self.firsts.get(position).copied().filter(|_| position < self.ids.len())
    }

    /// Returns the slice at a position.
    pub fn get(&self, position: usize) -> Option<SliceLayout<'_>> {
        let start = position.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        let row_groups = self.rows.get(start..*self.ends.get(position)?)?;
        Some(SliceLayout { id: *self.ids.get(position)?, cut: *self.cuts.get(position)?, row_groups })
    }

    /// Visits the slices in order.
    pub fn iter(&self) -> impl Iterator<Item = SliceLayout<'_>> {
        (0..self.num_slices()).filter_map(|position| self.get(position))
    }

    /// Returns the same layout with other IDs.
    pub fn renumbered(&self, ids: &[u32]) -> Result<Self> {
        let ascend = ids.is_sorted_by(|a, b| a < b) && ids.last() != Some(&u32::MAX);
        if ids.len() != self.ids.len() || !ascend {
            return Err(Error::new(ErrorKind::SieveOption("each slice needs one ID, and the IDs must ascend")));
        }
        Ok(Self { ids: ids.to_vec(), ..self.clone() })
    }

    /// Appends the slices of another layout, whose IDs must be greater.
    pub fn extend(&mut self, other: &Self) -> Result<()> {
        other.iter().try_for_each(|slice| self.add(slice))
    }
}

/// The kinds of stored layouts.
const WHOLE: u64 = 0;
const ROW_GROUPS: u64 = 1;
const ROWS: u64 = 2;
const REPEATED: u64 = 3;

/// The state that slices of the same part share, so that each is stored as a difference from the one before it.
#[derive(Debug, Default)]
pub(in crate::sieve) struct LayoutCoder {
    next_id: u32,
    cut: Option<Cut>,
    row_groups: Vec<u64>,
}

impl LayoutCoder {
    /// Writes a slice.
    pub(in crate::sieve) fn put(&mut self, body: &mut Vec<u8>, slice: SliceLayout<'_>) {
        put_varint(body, u64::from(slice.id - self.next_id.min(slice.id)));
        self.next_id = slice.id.saturating_add(1);
        let repeats = self.cut == Some(slice.cut)
            && self.row_groups == slice.row_groups
            && slice.row_groups.len() <= REPEATED_ROW_GROUPS;
        if repeats {
            return put_varint(body, REPEATED);
        }
        let (kind, each) = match slice.cut {
            Cut::Whole => (WHOLE, None),
            Cut::RowGroups => (ROW_GROUPS, None),
            Cut::Rows(each) => (ROWS, Some(each)),
        };
        put_varint(body, to_u64(slice.row_groups.len()) << 2 | kind);
        each.into_iter().for_each(|each| put_varint(body, u64::from(each)));
        let mut before = self.row_groups.first().copied().unwrap_or(0);
        for &rows in slice.row_groups {
            put_varint(body, zigzag(rows.wrapping_sub(before)));
            before = rows;
        }
        self.cut = Some(slice.cut);
        self.row_groups = slice.row_groups.to_vec();
    }

    /// Reads a slice and adds it to a layout.
    pub(in crate::sieve) fn take(&mut self, cursor: &mut Cursor<'_>, layout: &mut Layout) -> Result<()> {
        let gap = take_u32(cursor)?;
        let id = self.next_id.checked_add(gap).ok_or_else(|| malformed(cursor, "ID of a slice"))?;
        self.next_id = id.saturating_add(1);
        let head = cursor.varint()?;
        let cut = match (head & 3, self.cut) {
            (WHOLE, _) => Cut::Whole,
            (ROW_GROUPS, _) => Cut::RowGroups,
            (ROWS, _) => Cut::Rows(take_u32(cursor)?),
            (_, Some(cut)) if head == REPEATED && self.row_groups.len() <= REPEATED_ROW_GROUPS => cut,
            _ => return Err(malformed(cursor, "kind of units")),
        };
        if head & 3 != REPEATED {
            let mut before = self.row_groups.first().copied().unwrap_or(0);
            self.row_groups.clear();
            // Each iteration consumes bytes, so a false count fails at the end of the input.
            for _ in 0..head >> 2 {
                before = before.wrapping_add(unzigzag(cursor.varint()?));
                self.row_groups.push(before);
            }
        }
        self.cut = Some(cut);
        let slice = SliceLayout { id, cut, row_groups: &self.row_groups };
        layout.add(slice).map_err(|_| malformed(cursor, "units of a slice"))?;
        // `add` makes a division coarser if it has too many units. No writer stores such a division.
        let stored = layout.num_slices() - 1;
        if layout.get(stored) == Some(slice) { Ok(()) } else { Err(malformed(cursor, "units of a slice")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::code::format::cursor;
    use proptest::prelude::*;

    fn ranges(cut: Cut, row_groups: &[u64]) -> Vec<(u32, u64, u64)> {
        let slice = SliceLayout { id: 0, cut, row_groups };
        let ranges: Vec<_> =
            slice.ranges().iter().map(|range| (range.row_group, range.first_row, range.rows)).collect();
        assert_eq!(slice.num_units(), to_u64(ranges.len().max(1)));
        ranges
    }

    #[test]
    fn row_groups_are_cut_only_above_the_limit() {
        assert_eq!(
            ranges(Cut::Rows(20_000), &[50_000, 50_001]),
            [(0, 0, 50_000), (1, 50_000, 20_000), (1, 70_000, 20_000), (1, 90_000, 10_001)]
        );
        assert_eq!(ranges(Cut::Rows(100_000), &[60_000]), [(0, 0, 60_000)]);
        assert_eq!(ranges(Cut::RowGroups, &[7, 0, 80_000]), [(0, 0, 7), (1, 7, 0), (2, 7, 80_000)]);
        assert_eq!(ranges(Cut::Whole, &[7, 5]), [(0, 0, 12)]);
        assert_eq!(ranges(Cut::RowGroups, &[]), []);
        assert_eq!(ranges(Cut::Rows(1), &[0]), [(0, 0, 0)]);
    }

    #[test]
    fn divisions_with_too_many_units_become_coarser() {
        let mut layout = Layout::default();
        layout.add(SliceLayout { id: 3, cut: Cut::Rows(1), row_groups: &[60_000, 9] }).unwrap();
        layout.add(SliceLayout { id: 4, cut: Cut::Rows(1), row_groups: &vec![1; 40_000] }).unwrap();
        assert_eq!(layout.iter().map(|slice| slice.cut).collect::<Vec<_>>(), [Cut::RowGroups, Cut::Whole]);
        assert_eq!((layout.first(0), layout.first(1), layout.num_units()), (Some(0), Some(2), 3));
        assert!(layout.add(SliceLayout { id: 4, cut: Cut::Whole, row_groups: &[] }).is_err(), "IDs ascend");
        assert!(layout.add(SliceLayout { id: 5, cut: Cut::Rows(0), row_groups: &[1] }).is_err());
        assert!(layout.add(SliceLayout { id: 5, cut: Cut::Whole, row_groups: &[u64::MAX, 1] }).is_err());
        assert_eq!(layout.first(2), None);
    }

    proptest! {
        #[test]
        fn layouts_read_back(slices in proptest::collection::vec(
            (1u32..9, 0u32..4, proptest::collection::vec(prop_oneof![0u64..3, Just(100_000), 0u64..1 << 40], 0..4)), 0..20
        )) {
            let (mut layout, mut id) = (Layout::default(), 0);
            for (gap, cut, row_groups) in &slices {
                id += gap;
                let cut = match cut {
                    0 => Cut::Whole,
                    1 => Cut::RowGroups,
                    _ => Cut::Rows(20_000),
                };
                layout.add(SliceLayout { id, cut, row_groups }).unwrap();
            }
            let (mut body, mut coder) = (Vec::new(), LayoutCoder::default());
            layout.iter().for_each(|slice| coder.put(&mut body, slice));
            let (mut read, mut coder, mut cursor) = (Layout::default(), LayoutCoder::default(), cursor(&body));
            for _ in 0..slices.len() {
                coder.take(&mut cursor, &mut read).unwrap();
            }
            prop_assert_eq!(&read, &layout);
            prop_assert_eq!(cursor.remaining(), 0);
            for (position, slice) in layout.iter().enumerate() {
                let ranges = slice.ranges();
                prop_assert_eq!(layout.position(slice.id), Some(position));
                prop_assert_eq!(ranges.iter().map(|range| range.rows).sum::<u64>(), slice.num_rows().unwrap_or(0));
                prop_assert!(ranges.windows(2).all(|pair| pair[0].first_row + pair[0].rows == pair[1].first_row));
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let (mut layout, mut coder, mut cursor) = (Layout::default(), LayoutCoder::default(), cursor(&bytes));
            while coder.take(&mut cursor, &mut layout).is_ok() {}
            for slice in layout.iter() {
                prop_assert!(slice.ranges().len() <= index(MAX_UNITS));
            }
        }
    }
}
