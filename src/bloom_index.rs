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
//! rows contain one block of each. A point lookup reads one row per size class, which is 32 bytes per location.
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
use crate::varint::put_varint;

pub use arrange::Arrangement;

/// The first bytes of the directory. The last of them is the version.
const MAGIC: &[u8; 4] = b"BlS1";
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
}

/// The filters of one size.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SizeClass {
    num_blocks: u64,
    /// The offset of the first row.
    offset: u64,
    /// The numbers of its locations in ascending order.
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
    classes: Vec<SizeClass>,
}

/// The answer of a shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShelfAnswer {
    /// For each location, whether it may hold one of the values.
    pub may_contain: Vec<bool>,
    /// The number of rows that failed their checksum and kept all of their locations.
    pub damaged: u64,
}

/// Rounds up the size of a filter to one of four sizes per power of two, so that many filters share a size. The result
/// is at most a quarter larger, and an eighth on average.
pub fn shelf_blocks(num_blocks: u64) -> u64 {
    let step = (num_blocks.max(4) >> 2).checked_ilog2().map_or(1, |bits| 1u64 << bits);
    num_blocks.max(1).next_multiple_of(step).min(Sbbf::MAX_BLOCKS)
}

impl Shelf {
    /// Builds a shelf and its rows from filters of one column type, in the order of their locations. A location without
    /// a filter has no values.
    pub fn arrange(column: ColumnType, filters: Vec<(Member, Option<Sbbf>)>) -> Result<(Self, Vec<u8>)> {
        let (members, filters): (Vec<_>, Vec<_>) = filters.into_iter().unzip();
        let sizes: Vec<_> = filters.iter().map(|filter| filter.as_ref().map(Sbbf::num_blocks)).collect();
        let mut arrangement = Arrangement::new(column, members.into_iter().zip(sizes).collect())?;
        for (number, filter) in filters.iter().enumerate() {
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

    /// Returns the total size of the rows.
    pub fn rows_len(&self) -> u64 {
        self.classes.iter().map(|class| class.num_blocks * class.row_len()).sum()
    }

    /// Finds the locations that may hold a row with one of the values.
    pub fn might_contain(&self, probe: &Probe, rows: &Fetched) -> Step<ShelfAnswer> {
        let Some(hashes) = probe.hashes() else {
            return Step::Ready(ShelfAnswer { may_contain: vec![true; self.members.len()], damaged: 0 });
        };
        // NaN values are not in filters, and engines disagree on whether NaN equals NaN.
        let mut answer = ShelfAnswer {
            may_contain: self.members.iter().map(|member| member.unknown || member.nans).collect(),
            damaged: 0,
        };
        let mut needed = Vec::new();
        for class in &self.classes {
            let len = to_usize(class.num_blocks).unwrap_or(1);
            // The hashes ascend, so their blocks ascend as well.
            for &hash in hashes {
                let block = to_u64(block_index(high_u32(hash), len));
                let range = class.row(block);
                match rows.get(&range) {
                    None => needed.push(range),
                    Some(row) => class.look_up(block, row, hash, &mut answer),
                }
            }
        }
        needed.dedup();
        if needed.is_empty() { Step::Ready(answer) } else { Step::Need(needed) }
    }

    /// Restores the filters from the rows: the inverse of [`Self::arrange`].
    pub fn unshelve(&self, rows: &[u8]) -> Result<Vec<(Member, Option<Sbbf>)>> {
        let mut filters: Vec<(Member, Option<Sbbf>)> =
            self.members.iter().map(|member| (member.clone(), None)).collect();
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
                filters[index(member)].1 = Some(Sbbf::from_bitset(bitset)?);
            }
        }
        Ok(filters)
    }

    /// Encodes the directory.
    pub fn write(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        put_text(&mut out, &self.column.to_string());
        put_varint(&mut out, to_u64(self.members.len()));
        for member in &self.members {
            put_text(&mut out, &member.partition);
            put_text(&mut out, &member.group);
            let flag = |set: bool, flag: u8| if set { flag } else { 0 };
            out.push(flag(member.nulls, NULLS) | flag(member.nans, NANS) | flag(member.unknown, UNKNOWN));
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
        if !bytes.starts_with(MAGIC) {
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
            members.push(Member { partition, group, nulls, nans, unknown });
        }
        let mut classes: Vec<SizeClass> = Vec::new();
        let mut offset = 0u64;
        let mut has_filter = vec![false; members.len()];
        for _ in 0..cursor.varint()? {
            let num_blocks = cursor.varint()?;
            if !(1..=Sbbf::MAX_BLOCKS).contains(&num_blocks) {
                return Err(malformed(cursor.offset(), "the blocks of a filter"));
            }
            let mut numbers = Vec::new();
            let mut next = 0u64;
            for _ in 0..cursor.varint()? {
                let member = next.saturating_add(cursor.varint()?);
                // A location has only one filter. Lookups would ignore a second one.
                match to_usize(member).and_then(|at| has_filter.get_mut(at)) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return Err(malformed(cursor.offset(), "the locations of a class")),
                }
                numbers
                    .push(u32::try_from(member).map_err(|_| malformed(cursor.offset(), "the locations of a class"))?);
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
        Ok(Self { column, members, classes })
    }
}

impl SizeClass {
    /// Returns the blocks of a row if its checksum is correct.
    fn verify_row<'a>(&self, block: u64, row: &'a [u8]) -> Option<&'a [u8]> {
        let (blocks, checksum) = row.split_last_chunk::<CRC>()?;
        (row_checksum(self, block, blocks) == u32::from_le_bytes(*checksum)).then_some(blocks)
    }

    fn look_up(&self, block: u64, row: &[u8], hash: u64, answer: &mut ShelfAnswer) {
        let Some(blocks) = self.verify_row(block, row) else {
            answer.damaged += 1;
            self.members.iter().for_each(|&member| answer.may_contain[index(member)] = true);
            return;
        };
        for (&member, bytes) in self.members.iter().zip(blocks.chunks_exact(Block::BYTES)) {
            let may = Block::from_bytes(bytes).is_none_or(|block| block.may_contain(low_u32(hash)));
            answer.may_contain[index(member)] |= may;
        }
    }
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

fn take_text(cursor: &mut Cursor<'_>) -> Result<String> {
    let at = cursor.offset();
    let len = to_usize(cursor.varint()?).ok_or_else(|| malformed(at, "the length of a name"))?;
    String::from_utf8(cursor.take(len)?.to_vec()).map_err(|_| malformed(at, "the name of a location"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Float64Array, Int64Array};
    use proptest::prelude::*;

    use super::*;
    use crate::hash::hash_u64;

    const COLUMN: &str = "INT64 integer";

    fn member(number: usize) -> Member {
        Member { partition: format!("day={}", number % 3), group: format!("{number}"), ..Member::default() }
    }

    /// Builds a shelf from the values of each location. A location without values has no filter.
    fn shelf(values: &[Vec<i64>]) -> (Shelf, Vec<u8>) {
        let filters = values.iter().enumerate().map(|(number, values)| {
            let filter = (!values.is_empty()).then(|| {
                let mut filter = Sbbf::new(shelf_blocks(to_u64(values.len()).div_ceil(12))).unwrap();
                values.iter().for_each(|value| filter.insert_hash(hash_u64(value.cast_unsigned())));
                filter
            });
            (member(number), filter)
        });
        Shelf::arrange(COLUMN.parse().unwrap(), filters.collect()).unwrap()
    }

    fn probe(values: &[i64]) -> Probe {
        Probe::new(&(Arc::new(Int64Array::from(values.to_vec())) as ArrayRef), COLUMN.parse().unwrap()).unwrap()
    }

    /// Answers a query, reading rows by range. Also returns the number of bytes read.
    fn look_up(shelf: &Shelf, rows: &[u8], probe: &Probe) -> (ShelfAnswer, u64) {
        let mut fetched = Fetched::new();
        let mut read = 0;
        loop {
            match shelf.might_contain(probe, &fetched) {
                Step::Ready(answer) => return (answer, read),
                Step::Need(ranges) => {
                    for range in ranges {
                        read += range.end - range.start;
                        let bytes = &rows[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
                        fetched.insert(range.start, bytes.to_vec());
                    }
                }
            }
        }
    }

    #[test]
    fn rounded_sizes_are_few_and_at_most_a_quarter_larger() {
        let mut sizes: Vec<u64> = (1..=4096).map(shelf_blocks).collect();
        for (requested, size) in (1..).zip(&sizes) {
            assert!(requested <= *size && size * 4 <= requested * 5 + 3, "{requested} -> {size}");
        }
        sizes.dedup();
        assert!(sizes.is_sorted() && sizes.len() <= 46, "{}", sizes.len());
        assert_eq!(shelf_blocks(0), 1);
        assert_eq!(shelf_blocks(Sbbf::MAX_BLOCKS), Sbbf::MAX_BLOCKS);
    }

    #[test]
    fn a_point_lookup_reads_one_row_per_size_class() {
        let values: Vec<Vec<i64>> = (0..100).map(|location| (0..1000).map(|n| n * 100 + location).collect()).collect();
        let (shelf, rows) = shelf(&values);
        assert_eq!(to_u64(rows.len()), shelf.rows_len());
        let (answer, read) = look_up(&shelf, &rows, &probe(&[4217]));
        assert!(answer.may_contain[17]);
        assert!(answer.may_contain.iter().filter(|may| **may).count() < 10);
        assert_eq!(read, 100 * 32 + 4);
    }

    #[test]
    fn empty_uncertain_and_nan_locations_answer_correctly() {
        let column = "DOUBLE real".parse().unwrap();
        let full = || Some(Sbbf::new(1).unwrap());
        let flags = |nans, unknown| Member { nans, unknown, ..Member::default() };
        let members = vec![(flags(false, false), None), (flags(true, false), full()), (flags(false, true), None)];
        let (shelf, rows) = Shelf::arrange(column, members).unwrap();
        let query = Probe::new(&(Arc::new(Float64Array::from(vec![1.0])) as ArrayRef), column).unwrap();
        assert_eq!(look_up(&shelf, &rows, &query).0.may_contain, [false, true, true]);
        assert_eq!(look_up(&shelf, &rows, &Probe::ANYTHING).0.may_contain, [true; 3]);
        assert_eq!(look_up(&shelf, &rows, &Probe::NOTHING).0.may_contain, [false, true, true]);
        assert_eq!(Shelf::read(&shelf.write()), Ok(shelf));
    }

    #[test]
    fn filters_read_back_from_their_shelf() {
        let values: Vec<Vec<i64>> = vec![vec![1, 2, 3], vec![], (5..90).collect(), (0..2000).collect()];
        let (shelf, rows) = shelf(&values);
        let filters = shelf.unshelve(&rows).unwrap();
        assert_eq!(filters.iter().map(|(_, filter)| filter.is_some()).collect::<Vec<_>>(), [true, false, true, true]);
        assert_eq!(Shelf::arrange(shelf.column(), filters).unwrap(), (shelf.clone(), rows.clone()));
        let mut damaged = rows.clone();
        damaged[40] ^= 1;
        assert!(shelf.unshelve(&damaged).is_err());
        assert!(shelf.unshelve(&rows[1..]).is_err());
    }

    #[test]
    fn a_flipped_byte_never_loses_a_location() {
        let values: Vec<Vec<i64>> = vec![vec![1, 2, 3], vec![4], vec![], (5..90).collect()];
        let (shelf, rows) = shelf(&values);
        let directory = shelf.write();
        for at in 0..directory.len() {
            let mut damaged = directory.clone();
            damaged[at] ^= 0x10;
            assert!(Shelf::read(&damaged).is_err(), "byte {at} of the directory");
            assert!(Shelf::read(&directory[..at]).is_err());
        }
        let query = probe(&[1, 4, 5]);
        let expected = look_up(&shelf, &rows, &query).0;
        assert_eq!((&expected.may_contain[..], expected.damaged), (&[true, true, false, true][..], 0));
        for at in 0..rows.len() {
            let mut damaged = rows.clone();
            damaged[at] ^= 1;
            let answer = look_up(&shelf, &damaged, &query).0.may_contain;
            assert!(answer.iter().zip(&expected.may_contain).all(|(may, did)| may >= did), "byte {at} of the rows");
        }
    }

    proptest! {
        #[test]
        fn no_value_is_ever_lost(values in prop::collection::vec(prop::collection::vec(0i64..500, 0..300), 0..20)) {
            let (shelf, rows) = shelf(&values);
            let shelf = Shelf::read(&shelf.write()).unwrap();
            for queried in [vec![7], vec![0, 250, 499], (0..500).step_by(50).collect()] {
                let (answer, _) = look_up(&shelf, &rows, &probe(&queried));
                for (may, values) in answer.may_contain.iter().zip(&values) {
                    prop_assert!(*may || !values.iter().any(|value| queried.contains(value)));
                }
            }
        }

        #[test]
        fn random_directories_are_rejected_or_round_trip(mut body in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = MAGIC.to_vec();
            bytes.append(&mut body);
            let checksum = crc32c::crc32c(&bytes);
            bytes.extend_from_slice(&checksum.to_le_bytes());
            if let Ok(shelf) = Shelf::read(&bytes) {
                prop_assert_eq!(Shelf::read(&shelf.write()), Ok(shelf));
            }
        }
    }
}
