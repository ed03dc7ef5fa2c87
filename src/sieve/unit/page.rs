//! Unit pages: the divisions of some slices, and the statistics of their units.
//!
//! Pages are read on their own. The root has a summary of each, so that most questions about nulls and half-open ranges
//! need no page.

use std::ops::Range;

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32, to_u64};
use crate::sieve::code::format::{UNITS, cursor, finished, frame, malformed, unframe};
use crate::sieve::key::axis::Key;
use crate::sieve::key::bounds::{put_bounds, take_bounds};
use crate::sieve::unit::layout::{Layout, LayoutCoder};
use crate::sieve::unit::stats::{KeySpan, Stats};
use crate::varint::put_varint;

/// A page has at most this many units, unless a single slice has more.
pub(in crate::sieve) const PAGE_UNITS: u32 = 4096;

/// A page that is larger is closed before the next slice. A plan reads the pages of the units that it keeps, because
/// these have the rows of the units, so pages should be short. Each has an entry in the root.
const PAGE_BYTES: usize = 16 * 1024;

/// Flags of a unit.
const HAS_KEYS: u8 = 1;
const UNKNOWN: u8 = 2;
const NULLS: u8 = 4;
const NANS: u8 = 8;
/// The rows with keys are all rows of the unit that are neither null nor NaN.
const ALL_ROWS: u8 = 16;

/// The statistics that the units of a page share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary<K> {
    /// The least and the greatest key, if any unit has keys.
    pub span: Option<(K, K)>,
    /// True if every unit has keys.
    pub all_keys: bool,
    /// True if a unit has nulls.
    pub nulls: bool,
    /// True if a unit has NaN.
    pub nans: bool,
    /// True if a unit has unread rows.
    pub unknown: bool,
}

impl<K: Key> Summary<K> {
    /// Returns the summary of some units.
    pub(in crate::sieve) fn of(stats: &[Stats<K>]) -> Self {
        let spans = || stats.iter().filter_map(|stats| stats.span.as_ref());
        let span = spans().map(|span| &span.least).min().zip(spans().map(|span| &span.most).max());
        Self {
            span: span.map(|(least, most)| (least.clone(), most.clone())),
            all_keys: stats.iter().all(|stats| stats.span.is_some()),
            nulls: stats.iter().any(|stats| stats.nulls > 0),
            nans: stats.iter().any(|stats| stats.nans > 0),
            unknown: stats.iter().any(|stats| stats.unknown),
        }
    }

    /// Writes the summary. `near` is the least key of the summary before it.
    pub(in crate::sieve) fn put(&self, body: &mut Vec<u8>, near: Option<&K>) {
        let bits = [self.span.is_some(), self.all_keys, self.nulls, self.nans, self.unknown];
        body.push((0..).zip(bits).fold(0, |flags, (at, bit)| flags | u8::from(bit) << at));
        if let Some((least, most)) = &self.span {
            put_bounds(body, least, most, near);
        }
    }

    /// Reads a summary.
    pub(in crate::sieve) fn take(cursor: &mut Cursor<'_>, near: Option<&K>) -> Result<Self> {
        let flags = cursor.u8()?;
        let bit = |at: u8| flags >> at & 1 == 1;
        if flags >= 1 << 5 || bit(1) && !bit(0) {
            return Err(malformed(cursor, "flags of a unit page"));
        }
        let span = if bit(0) { Some(take_bounds(cursor, near)?) } else { None };
        Ok(Self { span, all_keys: bit(1), nulls: bit(2), nans: bit(3), unknown: bit(4) })
    }
}

/// Some slices with the statistics of their units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitPage<K> {
    /// The slices.
    pub layout: Layout,
    /// The statistics by unit.
    pub stats: Vec<Stats<K>>,
}

impl<K> Default for UnitPage<K> {
    fn default() -> Self {
        Self { layout: Layout::default(), stats: Vec::new() }
    }
}

/// The slices of one page within all slices, and its bytes.
#[derive(Debug)]
pub(in crate::sieve) struct EncodedPage<K> {
    pub(in crate::sieve) num_slices: u32,
    pub(in crate::sieve) summary: Summary<K>,
    pub(in crate::sieve) bytes: Vec<u8>,
}

/// Encodes slices and units one after the other.
#[derive(Debug)]
struct PageCoder<K> {
    layouts: LayoutCoder,
    near: Option<K>,
}

impl<K> Default for PageCoder<K> {
    fn default() -> Self {
        Self { layouts: LayoutCoder::default(), near: None }
    }
}

impl<K: Key> PageCoder<K> {
    fn put(&mut self, body: &mut Vec<u8>, layout: &Layout, position: usize, stats: &[Stats<K>]) {
        let Some(slice) = layout.get(position) else { return };
        self.layouts.put(body, slice);
        let ranges = slice.ranges();
        for (at, stats) in stats.iter().enumerate() {
            let rows = ranges.get(at).map(|range| range.rows);
            let keys = rows.and_then(|rows| rows.checked_sub(stats.nulls)?.checked_sub(stats.nans));
            let all_rows = stats.span.as_ref().is_some_and(|span| Some(span.rows) == keys);
            let bits = [stats.span.is_some(), stats.unknown, stats.nulls > 0, stats.nans > 0, all_rows];
            body.push((0..).zip(bits).fold(0, |flags, (at, bit)| flags | u8::from(bit) << at));
            [stats.nulls, stats.nans].into_iter().filter(|&rows| rows > 0).for_each(|rows| put_varint(body, rows));
            if let Some(span) = &stats.span {
                let (least, most) = (span.least.clone().cut_below(), span.most.clone().cut_above());
                put_bounds(body, &least, &most, self.near.as_ref());
                self.near = Some(least);
                if !all_rows {
                    put_varint(body, span.rows);
                }
            }
        }
    }

    fn take(&mut self, cursor: &mut Cursor<'_>, page: &mut UnitPage<K>) -> Result<()> {
        self.layouts.take(cursor, &mut page.layout)?;
        let Some(slice) = page.layout.get(page.layout.num_slices() - 1) else { return Ok(()) };
        let ranges = slice.ranges();
        for at in 0..ranges.len().max(1) {
            let flags = cursor.u8()?;
            if flags > HAS_KEYS | UNKNOWN | NULLS | NANS | ALL_ROWS || flags & (HAS_KEYS | ALL_ROWS) == ALL_ROWS {
                return Err(malformed(cursor, "flags of a unit"));
            }
            let mut rows_of = |flag: u8| if flags & flag == 0 { Ok(0) } else { cursor.varint() };
            let (nulls, nans) = (rows_of(NULLS)?, rows_of(NANS)?);
            let mut span = None;
            if flags & HAS_KEYS != 0 {
                let (least, most) = take_bounds(cursor, self.near.as_ref())?;
                self.near = Some(least.clone());
                let rows = if flags & ALL_ROWS == 0 {
                    cursor.varint()?
                } else {
                    let rows = ranges.get(at).map(|range| range.rows);
                    let rows = rows.and_then(|rows| rows.checked_sub(nulls)?.checked_sub(nans));
                    rows.ok_or_else(|| malformed(cursor, "rows of a unit"))?
                };
                span = Some(KeySpan { least, most, rows });
            }
            page.stats.push(Stats { span, nulls, nans, unknown: flags & UNKNOWN != 0 });
        }
        Ok(())
    }
}

impl<K: Key> UnitPage<K> {
    /// Creates the units of some slices. Returns an error if a unit has no statistics.
    pub fn new(layout: Layout, stats: Vec<Stats<K>>) -> Result<Self> {
        if layout.num_units() != stats.len() {
            return Err(Error::new(ErrorKind::SieveLocation(saturating_u32(stats.len()))));
        }
        Ok(Self { layout, stats })
    }

    /// Returns the units of the slice at a position.
    pub fn units(&self, position: usize) -> Range<usize> {
        let first = self.layout.first(position).map_or(self.stats.len(), index);
        first..self.layout.first(position + 1).map_or(self.stats.len(), index)
    }

    /// Encodes all slices as pages.
    pub(in crate::sieve) fn encode(&self) -> Vec<EncodedPage<K>> {
        let mut pages = Vec::new();
        let (mut start, mut body, mut coder) = (0, Vec::new(), PageCoder::default());
        let mut close = |slices: Range<usize>, body: &mut Vec<u8>| {
            if slices.is_empty() {
                return;
            }
            let units = self.units(slices.start).start..self.units(slices.end - 1).end;
            let mut whole = vec![K::CODE];
            put_varint(&mut whole, to_u64(slices.len()));
            whole.append(body);
            let (num_slices, summary) = (saturating_u32(slices.len()), Summary::of(&self.stats[units]));
            pages.push(EncodedPage { num_slices, summary: summary.cut(), bytes: frame(UNITS, &whole) });
        };
        for position in 0..self.layout.num_slices() {
            let units = self.units(position);
            let in_page = units.end - self.units(start).start;
            if position > start && (in_page > index(PAGE_UNITS) || body.len() > PAGE_BYTES) {
                close(start..position, &mut body);
                (start, coder) = (position, PageCoder::default());
            }
            coder.put(&mut body, &self.layout, position, &self.stats[units]);
        }
        close(start..self.layout.num_slices(), &mut body);
        pages
    }

    /// Decodes a page.
    pub(in crate::sieve) fn read(bytes: &[u8]) -> Result<Self> {
        let mut cursor = cursor(unframe(UNITS, bytes)?);
        let cursor = &mut cursor;
        if cursor.u8()? != K::CODE {
            return Err(malformed(cursor, "key width"));
        }
        let page = Self::take(cursor)?;
        finished(cursor)?;
        Ok(page)
    }

    /// Writes all slices in one piece.
    pub(in crate::sieve) fn put(&self, body: &mut Vec<u8>) {
        put_varint(body, to_u64(self.layout.num_slices()));
        let mut coder = PageCoder::default();
        (0..self.layout.num_slices())
            .for_each(|position| coder.put(body, &self.layout, position, &self.stats[self.units(position)]));
    }

    /// Reads slices written by `put`.
    pub(in crate::sieve) fn take(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (mut page, mut coder) = (Self::default(), PageCoder::default());
        // Each iteration consumes bytes, so a false count fails at the end of the input.
        for _ in 0..cursor.varint()? {
            coder.take(cursor, &mut page)?;
        }
        Ok(page)
    }
}

impl<K: Key> Summary<K> {
    fn cut(self) -> Self {
        let span = self.span.map(|(least, most)| (least.cut_below(), most.cut_above()));
        Self { span, ..self }
    }
}

#[cfg(test)]
pub(in crate::sieve) mod tests {
    use super::*;
    use crate::sieve::key::axis::Bytes;
    use crate::sieve::unit::layout::{Cut, SliceLayout};
    use proptest::prelude::*;

    type Unit = (u8, u64, u64, Vec<u8>, Vec<u8>);

    fn page<K: Key>(slices: &[(u8, Vec<u64>, Vec<Unit>)], key: fn(&[u8]) -> K) -> UnitPage<K> {
        let (mut layout, mut stats) = (Layout::default(), Vec::new());
        for (id, (cut, row_groups, units)) in (0..).zip(slices) {
            let cut = [Cut::Whole, Cut::RowGroups, Cut::Rows(30_000)][usize::from(*cut) % 3];
            let slice = SliceLayout { id: id * 3, cut, row_groups };
            layout.add(slice).unwrap();
            for at in 0..usize::try_from(slice.num_units()).unwrap() {
                let (flags, nulls, rows, a, b) = &units[at % units.len()];
                let (a, b) = (key(a), key(b));
                let (least, most) = (a.clone().min(b.clone()), a.max(b));
                let span = (flags & 1 == 1).then_some(KeySpan { least, most, rows: *rows });
                stats.push(Stats { span, nulls: *nulls, nans: u64::from(flags >> 2 & 1), unknown: flags & 2 == 2 });
            }
        }
        UnitPage::new(layout, stats).unwrap()
    }

    fn check<K: Key>(all: &UnitPage<K>) {
        let pages = all.encode();
        let (mut position, mut unit) = (0, 0);
        for page in &pages {
            let read = UnitPage::<K>::read(&page.bytes).unwrap();
            assert_eq!(to_u64(read.layout.num_slices()), u64::from(page.num_slices));
            for slice in read.layout.iter() {
                assert_eq!(Some(slice), all.layout.get(position));
                position += 1;
            }
            for read in &read.stats {
                let stats = &all.stats[unit];
                unit += 1;
                assert_eq!((read.nulls, read.nans, read.unknown), (stats.nulls, stats.nans, stats.unknown));
                assert_eq!(read.span.is_some(), stats.span.is_some());
                let Some((read, span)) = read.span.as_ref().zip(stats.span.as_ref()) else { continue };
                assert!(read.least <= span.least && read.most >= span.most && read.rows == span.rows);
                assert!(read.least == span.least || read.least.is_cut());
                assert!(read.most == span.most || read.most.is_cut());
                let (least, most) = page.summary.span.as_ref().unwrap();
                assert!(*least <= read.least && *most >= read.most);
            }
            let (mut body, near) = (Vec::new(), all.stats[0].span.as_ref().map(|span| &span.least));
            page.summary.put(&mut body, near);
            assert_eq!(Summary::take(&mut cursor(&body), near).unwrap(), page.summary);
        }
        assert_eq!((position, unit), (all.layout.num_slices(), all.stats.len()));
        let mut body = Vec::new();
        all.put(&mut body);
        let whole = UnitPage::<K>::take(&mut cursor(&body)).unwrap();
        assert_eq!(whole.layout, all.layout);
    }

    fn slices() -> impl Strategy<Value = Vec<(u8, Vec<u64>, Vec<Unit>)>> {
        let text = || proptest::collection::vec(prop_oneof![Just(b'a'), Just(0xff), any::<u8>()], 0..120);
        let rows = prop_oneof![0u64..3, Just(70_000u64)];
        let unit = (0u8..8, 0u64..3, rows.clone(), text(), text());
        let slice = (any::<u8>(), proptest::collection::vec(rows, 0..4), proptest::collection::vec(unit, 1..5));
        proptest::collection::vec(slice, 0..12)
    }

    proptest! {
        #[test]
        fn pages_read_back(slices in slices()) {
            check(&page(&slices, Bytes::new));
            let word = |bytes: &[u8]| bytes.iter().take(8).fold(0, |word: u64, &byte| word << 8 | u64::from(byte));
            check(&page(&slices, word));
            check(&page(&slices, |bytes| bytes.iter().take(16).fold(0, |wide: u128, &byte| wide << 8 | u128::from(byte))));
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            drop(UnitPage::<u64>::read(&bytes));
            drop(UnitPage::<u64>::read(&frame(UNITS, &bytes)));
            drop(UnitPage::<Bytes>::read(&frame(UNITS, &[&[3], &bytes[..]].concat())));
            drop(Summary::<u128>::take(&mut cursor(&bytes), None));
        }
    }

    #[test]
    fn pages_are_bounded_and_a_slice_is_never_divided() {
        let mut layout = Layout::default();
        for id in 0..3000 {
            let row_groups = vec![9; if id == 7 { 5000 } else { 3 }];
            layout.add(SliceLayout { id, cut: Cut::RowGroups, row_groups: &row_groups }).unwrap();
        }
        let stats = vec![Stats { nulls: 9, ..Stats::default() }; layout.num_units()];
        let all = UnitPage::<u64>::new(layout, stats).unwrap();
        let sizes: Vec<usize> =
            all.encode().iter().map(|page| UnitPage::<u64>::read(&page.bytes).unwrap().stats.len()).collect();
        assert_eq!(sizes, [21, 5000, 4095, 4095, 786]);
        check(&all);
    }
}
