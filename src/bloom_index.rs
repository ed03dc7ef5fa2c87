//! The Bloom index of a table: stores the filters of many locations block by block, so that one short read answers for
//! all of them.
//!
//! ```text
//! filter of location        A     B     C
//! block 0                 [ A0  | B0  | C0 ] crc     <- one row of the shelf
//! block 1                 [ A1  | B1  | C1 ] crc
//! ```
//!
//! A key looks at the same block in all filters with the same number of blocks. Such filters form a *size class*, whose
//! rows contain one block of each. A point lookup reads one row per size class, which is 32 bytes per location. A
//! location may also be divided into units, each with a separate filter.
//! `docs/format/shelf-v1.md` specifies the bytes. A row that cannot be read, or that fails its checksum, keeps all of
//! its locations.

mod arrange;

use std::ops::Range;

use crate::arrow::ColumnType;
use crate::bloom::{Block, Probe, Sbbf, batch::block_index};
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{high_u32, index, low_u32, to_u64, to_usize};
use crate::ranges::{Fetched, Step};
use crate::sieve::{Cut, SliceLayout, layout};
use crate::varint::put_varint;

pub use arrange::Arrangement;

/// The first bytes of the directory. The last of them is the version: in version 1, each location is one unit.
const MAGIC: &[u8; 4] = b"BlS1";
const MAGIC_WITH_UNITS: &[u8; 4] = b"BlS2";
/// A shelf has at most this many units, so that a damaged directory cannot claim all memory. A location has at most
/// [`layout::MAX_UNITS`].
const MAX_UNITS: u64 = 1 << 26;
/// [`Shelf::unshelve`] returns an entry for each unit. It accepts this many units, plus a number for each filter, so that
/// a short directory without filters cannot claim all memory.
const MOST_UNSHELVED: u64 = 1 << 20;
const MOST_UNSHELVED_PER_FILTER: u64 = 64;
const CRC: usize = 4;

/// Flags of a location.
const NULLS: u8 = 1;
const NANS: u8 = 2;
const UNKNOWN: u8 = 4;

/// A location in a shelf.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// The path of the partition.
    pub partition: String,
    /// The ID of the file group, or the file name.
    pub group: String,
    /// True if the location has null rows.
    pub nulls: bool,
    /// True if the location has NaN rows, which filters do not contain.
    pub nans: bool,
    /// True if some rows were not read. The location then belongs to every answer.
    pub unknown: bool,
    /// The number of rows of each row group. Empty if the location is one unit of unknown range.
    pub row_groups: Vec<u64>,
    /// The number of rows in a unit of a large row group, as in a Sieve index. If it is 0, each row group is a unit.
    pub rows_per_unit: u32,
}

impl Member {
    fn num_units(&self) -> u64 {
        let cut = if self.rows_per_unit == 0 { Cut::RowGroups } else { Cut::Rows(self.rows_per_unit) };
        SliceLayout { id: 0, cut, row_groups: &self.row_groups }.num_units()
    }
}

/// Returns the number of units of some locations.
fn count_units(members: &[Member]) -> Result<usize> {
    let mut counts = members.iter().map(Member::num_units);
    let total = counts.try_fold(0, |sum, units| (units <= layout::MAX_UNITS.into()).then_some(sum + units));
    let total = total.filter(|total| *total <= MAX_UNITS.max(to_u64(members.len())));
    total.and_then(to_usize).ok_or_else(|| malformed(0, "the number of units"))
}

/// The filters of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SizeClass {
    num_blocks: u64,
    /// The offset of the first row.
    offset: u64,
    /// The numbers of its units in ascending order. Units are counted in the order of their locations.
    members: Vec<u32>,
}

impl SizeClass {
    fn row_len(&self) -> u64 {
        to_u64(self.members.len() * Block::BYTES + CRC)
    }

    fn row(&self, block: u64) -> Range<u64> {
        let start = self.offset + block * self.row_len();
        start..start + self.row_len()
    }
}

/// The directory of a shelf. The rows are stored separately, and lookups read ranges of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelf {
    column: ColumnType,
    members: Vec<Member>,
    /// The number of units of all locations.
    num_units: usize,
    classes: Vec<SizeClass>,
}

/// The answer of a shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShelfAnswer {
    /// The numbers of the units that may hold one of the values, as ascending ranges that neither overlap nor touch. A
    /// short directory may claim millions of units, so an answer has no entry for each of them.
    pub kept: Vec<Range<u64>>,
    /// The number of rows that failed their checksum and kept all of their units.
    pub damaged: u64,
}

/// Rounds up the size of a filter to one of four sizes per power of two, so that many filters share a size. The result
/// is at most a quarter larger, and an eighth on average.
pub fn shelf_blocks(num_blocks: u64) -> u64 {
    let step = (num_blocks.max(4) >> 2).checked_ilog2().map_or(1, |bits| 1u64 << bits);
    num_blocks.max(1).next_multiple_of(step).min(Sbbf::MAX_BLOCKS)
}

impl Shelf {
    /// Builds a shelf and its rows from filters of one column type, in the order of their locations. A unit without a
    /// filter has no values.
    pub fn arrange(column: ColumnType, filters: Vec<(Member, Vec<Option<Sbbf>>)>) -> Result<(Self, Vec<u8>)> {
        let size = |filter: &Option<Sbbf>| filter.as_ref().map(Sbbf::num_blocks);
        let (members, filters): (Vec<_>, Vec<_>) = filters.into_iter().unzip();
        let sizes = filters.iter().map(|filters| filters.iter().map(size).collect());
        let mut arrangement = Arrangement::new(column, members.into_iter().zip(sizes).collect())?;
        for (number, filter) in filters.iter().flatten().enumerate() {
            if let Some(filter) = filter {
                arrangement.place(number, filter)?;
            }
        }
        arrangement.finish()
    }

    /// Returns the type of the values.
    pub fn column(&self) -> ColumnType {
        self.column
    }

    /// Returns the locations by number.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the number of units of all locations.
    pub fn num_units(&self) -> u64 {
        to_u64(self.num_units)
    }

    /// Returns the total size of the rows.
    pub fn rows_len(&self) -> u64 {
        self.classes.iter().map(|class| class.num_blocks * class.row_len()).sum()
    }

    /// Finds the units that may hold a row with one of the values.
    pub fn might_contain(&self, probe: &Probe, rows: &Fetched) -> Step<ShelfAnswer> {
        let Some(hashes) = probe.hashes() else {
            return Step::Ready(ShelfAnswer { kept: joined(self.units_of(|_| true)), damaged: 0 });
        };
        // NaN values are not in filters, and engines disagree on whether NaN equals NaN.
        let mut kept = self.units_of(|member| member.unknown || member.nans);
        let mut damaged = 0;
        let mut needed = Vec::new();
        for class in self.classes.iter().filter(|class| !class.members.is_empty()) {
            let len = to_usize(class.num_blocks).unwrap_or(1);
            let mut may_contain = vec![false; class.members.len()];
            // The hashes ascend, so their blocks ascend as well.
            for &hash in hashes {
                let block = to_u64(block_index(high_u32(hash), len));
                let range = class.row(block);
                match rows.get(&range) {
                    None => needed.push(range),
                    Some(row) => damaged += u64::from(!class.look_up(block, row, hash, &mut may_contain)),
                }
            }
            let units = class.members.iter().zip(may_contain).filter(|(_, may)| *may);
            kept.extend(units.map(|(&unit, _)| u64::from(unit)..u64::from(unit) + 1));
        }
        needed.dedup();
        if needed.is_empty() { Step::Ready(ShelfAnswer { kept: joined(kept), damaged }) } else { Step::Need(needed) }
    }

    /// Returns the units of some locations.
    fn units_of(&self, is_chosen: impl Fn(&Member) -> bool) -> Vec<Range<u64>> {
        let mut units = Vec::new();
        let mut start = 0;
        for member in &self.members {
            let end = start + member.num_units();
            if is_chosen(member) {
                units.push(start..end);
            }
            start = end;
        }
        units
    }

    /// Restores the filters from the rows: the inverse of [`Self::arrange`].
    pub fn unshelve(&self, rows: &[u8]) -> Result<Vec<(Member, Vec<Option<Sbbf>>)>> {
        let num_filters = self.classes.iter().map(|class| to_u64(class.members.len())).sum::<u64>();
        let justified = MOST_UNSHELVED.max(to_u64(self.members.len())) + MOST_UNSHELVED_PER_FILTER * num_filters;
        if self.num_units() > justified {
            return Err(malformed(0, "the number of units"));
        }
        let mut filters: Vec<Option<Sbbf>> = (0..self.num_units).map(|_| None).collect();
        for class in &self.classes {
            let len = to_usize(class.num_blocks).unwrap_or(0);
            let row_len = to_usize(class.row_len()).unwrap_or(usize::MAX);
            let start = to_usize(class.offset).unwrap_or(usize::MAX);
            let area = row_len.checked_mul(len).and_then(|bytes| rows.get(start..start.checked_add(bytes)?));
            let area = area.ok_or_else(|| malformed(to_u64(rows.len()), "the length of its rows"))?;
            let mut bitsets = vec![Vec::with_capacity(len * Block::BYTES); class.members.len()];
            for (block, row) in area.chunks_exact(row_len).enumerate() {
                let at = class.offset + to_u64(block) * class.row_len();
                let blocks =
                    class.verify_row(to_u64(block), row).ok_or_else(|| malformed(at, "the checksum of a row"))?;
                for (bitset, bytes) in bitsets.iter_mut().zip(blocks.chunks_exact(Block::BYTES)) {
                    bitset.extend_from_slice(bytes);
                }
            }
            for (&member, bitset) in class.members.iter().zip(&bitsets) {
                filters[index(member)] = Some(Sbbf::from_bitset(bitset)?);
            }
        }
        let mut filters = filters.into_iter();
        let of_member = |member: &Member| {
            let units = to_usize(member.num_units()).unwrap_or(0);
            (member.clone(), filters.by_ref().take(units).collect())
        };
        Ok(self.members.iter().map(of_member).collect())
    }

    /// Encodes the directory.
    pub fn write(&self) -> Vec<u8> {
        let has_units = self.members.iter().any(|member| !member.row_groups.is_empty());
        let mut out = if has_units { MAGIC_WITH_UNITS } else { MAGIC }.to_vec();
        put_text(&mut out, &self.column.to_string());
        put_varint(&mut out, to_u64(self.members.len()));
        for member in &self.members {
            put_text(&mut out, &member.partition);
            put_text(&mut out, &member.group);
            let flag = |set: bool, flag: u8| if set { flag } else { 0 };
            out.push(flag(member.nulls, NULLS) | flag(member.nans, NANS) | flag(member.unknown, UNKNOWN));
            if has_units {
                put_varint(&mut out, to_u64(member.row_groups.len()));
                member.row_groups.iter().for_each(|&rows| put_varint(&mut out, rows));
                if !member.row_groups.is_empty() {
                    put_varint(&mut out, u64::from(member.rows_per_unit));
                }
            }
        }
        put_varint(&mut out, to_u64(self.classes.len()));
        for class in &self.classes {
            put_varint(&mut out, class.num_blocks);
            put_varint(&mut out, to_u64(class.members.len()));
            let mut next = 0;
            for &member in &class.members {
                put_varint(&mut out, u64::from(member - next));
                next = member + 1;
            }
        }
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Decodes a directory.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let has_units = bytes.starts_with(MAGIC_WITH_UNITS);
        if !has_units && !bytes.starts_with(MAGIC) {
            return Err(Error::at(ErrorKind::ShelfMagic, 0));
        }
        let (body, checksum) = bytes.split_last_chunk::<CRC>().ok_or_else(|| malformed(0, "its length"))?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return Err(malformed(to_u64(body.len()), "its checksum"));
        }
        let mut cursor = Cursor::new(body.get(MAGIC.len()..).unwrap_or_default(), to_u64(MAGIC.len()));
        let cursor = &mut cursor;
        let column = take_text(cursor)?.parse().map_err(|_| malformed(cursor.offset(), "the column type"))?;
        let mut members = Vec::new();
        // Each iteration consumes bytes, so a false count fails at the end of the input.
        for _ in 0..cursor.varint()? {
            let (partition, group, flags) = (take_text(cursor)?, take_text(cursor)?, cursor.u8()?);
            if flags > NULLS | NANS | UNKNOWN {
                return Err(malformed(cursor.offset(), "the flags of a location"));
            }
            let [nulls, nans, unknown] = [NULLS, NANS, UNKNOWN].map(|flag| flags & flag != 0);
            let (row_groups, rows_per_unit) = if has_units { take_division(cursor)? } else { (Vec::new(), 0) };
            members.push(Member { partition, group, nulls, nans, unknown, row_groups, rows_per_unit });
        }
        let num_units = count_units(&members)?;
        let mut classes: Vec<SizeClass> = Vec::new();
        let mut offset = 0u64;
        for _ in 0..cursor.varint()? {
            let num_blocks = cursor.varint()?;
            if !(1..=Sbbf::MAX_BLOCKS).contains(&num_blocks) {
                return Err(malformed(cursor.offset(), "the blocks of a filter"));
            }
            let mut numbers = Vec::new();
            let mut next = 0u64;
            for _ in 0..cursor.varint()? {
                let member = next.saturating_add(cursor.varint()?);
                let number = u32::try_from(member).ok().filter(|number| index(*number) < num_units);
                numbers.push(number.ok_or_else(|| malformed(cursor.offset(), "the locations of a class"))?);
                next = member + 1;
            }
            let class = SizeClass { num_blocks, offset, members: numbers };
            // At most 2^26 blocks in rows of less than 2^37 bytes.
            offset = offset
                .checked_add(num_blocks.saturating_mul(class.row_len()))
                .ok_or_else(|| malformed(cursor.offset(), "the size of the rows"))?;
            classes.push(class);
        }
        if cursor.remaining() > 0 {
            return Err(malformed(cursor.offset(), "bytes after the last class"));
        }
        // A unit has only one filter. Lookups would ignore a second one.
        let mut numbers: Vec<u32> = classes.iter().flat_map(|class| &class.members).copied().collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(malformed(cursor.offset(), "the locations of a class"));
        }
        Ok(Self { column, members, num_units, classes })
    }
}

impl SizeClass {
    /// Returns the blocks of a row if its checksum is correct.
    fn verify_row<'a>(&self, block: u64, row: &'a [u8]) -> Option<&'a [u8]> {
        let (blocks, checksum) = row.split_last_chunk::<CRC>()?;
        (row_checksum(self, block, blocks) == u32::from_le_bytes(*checksum)).then_some(blocks)
    }

    /// Notes the units of the class that may hold a value. If the row is damaged, notes all of them and returns false.
    fn look_up(&self, block: u64, row: &[u8], hash: u64, may_contain: &mut [bool]) -> bool {
        let Some(blocks) = self.verify_row(block, row) else {
            may_contain.fill(true);
            return false;
        };
        for (may, bytes) in may_contain.iter_mut().zip(blocks.chunks_exact(Block::BYTES)) {
            *may |= Block::from_bytes(bytes).is_none_or(|block| block.may_contain(low_u32(hash)));
        }
        true
    }
}

/// Sorts ranges, and joins those that overlap or touch.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touches = next.start <= last.end;
        if touches {
            last.end = last.end.max(next.end);
        }
        touches
    });
    ranges
}

/// Computes the checksum of a row. It includes the row's position, so that the bytes of another row do not match.
fn row_checksum(class: &SizeClass, block: u64, blocks: &[u8]) -> u32 {
    let place = [class.offset.to_le_bytes(), block.to_le_bytes()].concat();
    crc32c::crc32c_append(crc32c::crc32c(&place), blocks)
}

fn malformed(at: u64, field: &'static str) -> Error {
    Error::at(ErrorKind::ShelfMalformed { field }, at)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, to_u64(text.len()));
    out.extend_from_slice(text.as_bytes());
}

/// Reads the rows of each row group, and the number of rows at which large ones are cut.
fn take_division(cursor: &mut Cursor<'_>) -> Result<(Vec<u64>, u32)> {
    let mut row_groups = Vec::new();
    // Each iteration consumes bytes, so a false count fails at the end of the input.
    for _ in 0..cursor.varint()? {
        row_groups.push(cursor.varint()?);
    }
    let rows = row_groups.iter().try_fold(0u64, |sum, &rows| sum.checked_add(rows));
    if rows.is_none_or(|rows| i64::try_from(rows).is_err()) {
        return Err(malformed(cursor.offset(), "the rows of a location"));
    }
    let rows_per_unit = if row_groups.is_empty() { 0 } else { cursor.varint()? };
    let rows_per_unit = u32::try_from(rows_per_unit).map_err(|_| malformed(cursor.offset(), "the rows of a unit"))?;
    Ok((row_groups, rows_per_unit))
}

fn take_text(cursor: &mut Cursor<'_>) -> Result<String> {
    let at = cursor.offset();
    let len = to_usize(cursor.varint()?).ok_or_else(|| malformed(at, "the length of a name"))?;
    String::from_utf8(cursor.take(len)?.to_vec()).map_err(|_| malformed(at, "the name of a location"))
}

#[cfg(test)]
mod tests;
