//! The root of version 2: axis, options, slices, and the directories of unit pages and segments.
//!
//! Small unit pages are stored behind the root in the same file. A damaged page there does not damage the root.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32, to_u64, to_usize};
use crate::sieve::code::format::{
    UNIT_ROOT, begin_sized, cursor, end_sized, finished, malformed, take_u32, unframe_sized,
};
use crate::sieve::index::directory::{Entry, IndexInfo, SectionRange};
use crate::sieve::index::root::{put_coarsen, put_counts, put_limits, take_coarsen, take_counts, take_limits};
use crate::sieve::key::axis::{AxisType, Key};
use crate::sieve::record::options::{Format, Options};
use crate::sieve::unit::page::{PAGE_UNITS, Summary, UnitPage};
use crate::sieve::unit::slice_map::SliceMap;
use crate::varint::put_varint;

/// Unit pages of at most this many bytes in total are stored behind the root.
const BYTES_BEHIND: usize = 64 * 1024;

/// A root has at most this many units for each of its bytes, because the entry of a page takes at least 9 bytes, and 13
/// with the slice if it has more than 4,096 units. A false claim allocates no more.
const UNITS_PER_BYTE: u64 = 1024;

/// The directory entry of a unit page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageEntry<K> {
    /// The position of the page's first slice.
    pub first_slice: u32,
    /// The number of the page's slices.
    pub num_slices: u32,
    /// The number of the page's first unit.
    pub first_unit: u32,
    /// The number of the page's units.
    pub num_units: u32,
    /// The offset of the page, counted from the end of the root if the pages are behind it.
    pub offset: u64,
    /// The size of the page.
    pub len: u64,
    /// The checksum at the end of the page.
    pub check: u32,
    /// The statistics that the units share.
    pub summary: Summary<K>,
}

/// The part of a version 2 index that a reader keeps in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitRoot<K> {
    /// The axis, the instant and the options.
    pub info: IndexInfo,
    /// The slices with the numbers of their units.
    pub slices: SliceMap,
    /// The number of the file of the unit pages, or `None` if they are behind the root.
    pub pages_file: Option<u32>,
    /// The unit pages in order.
    pub pages: Vec<PageEntry<K>>,
    /// The segments in order of their keys.
    pub segments: Vec<Entry<K>>,
}

/// An encoded root, and the unit pages if they are stored in another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedRoot {
    /// The bytes of the root's file.
    pub root: Vec<u8>,
    /// The bytes of the unit pages' file. Empty if the root's file has them.
    pub pages: Vec<u8>,
}

impl<K: Key> UnitRoot<K> {
    /// Encodes the root of an index. The unit pages become file `pages_file` if they are large.
    pub fn encode(
        info: IndexInfo,
        units: &UnitPage<K>,
        segments: Vec<Entry<K>>,
        pages_file: u32,
    ) -> Result<EncodedRoot> {
        if segments.iter().any(|entry| entry.check.is_none()) {
            return Err(Error::new(ErrorKind::SieveOption("the segments of a root of version 2 have checksums")));
        }
        let (mut bytes, mut pages) = (Vec::new(), Vec::new());
        for page in units.encode() {
            pages.push(PageEntry {
                first_slice: 0,
                num_slices: page.num_slices,
                first_unit: 0,
                num_units: 0,
                offset: to_u64(bytes.len()),
                len: to_u64(page.bytes.len()),
                check: check_of(&page.bytes).unwrap_or(0),
                summary: page.summary,
            });
            bytes.extend_from_slice(&page.bytes);
        }
        let behind = bytes.len() <= BYTES_BEHIND;
        let pages_file = (!behind).then_some(pages_file);
        let slices = SliceMap::of(&units.layout);
        let mut root = Self { info, slices, pages_file, pages, segments }.write();
        if behind {
            root.append(&mut bytes);
        }
        Ok(EncodedRoot { root, pages: bytes })
    }

    fn write(&self) -> Vec<u8> {
        let IndexInfo { axis, instant, options } = self.info;
        let mut body = begin_sized(UNIT_ROOT);
        body.extend_from_slice(&[K::CODE, axis.code()]);
        body.extend_from_slice(&instant.to_le_bytes());
        put_coarsen(&mut body, options.coarsen);
        put_limits(&mut body, &options);
        let fingerprints = match options.fingerprints {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        };
        body.push(u8::from(options.keep_keys) | fingerprints << 1);
        put_varint(&mut body, u64::from(options.fpp));
        self.slices.write(&mut body);
        put_varint(&mut body, self.pages_file.map_or(0, |file| u64::from(file) + 1));
        put_varint(&mut body, to_u64(self.pages.len()));
        let mut near = None;
        for page in &self.pages {
            put_varint(&mut body, u64::from(page.num_slices));
            put_varint(&mut body, page.len);
            body.extend_from_slice(&page.check.to_le_bytes());
            page.summary.put(&mut body, near);
            near = page.summary.span.as_ref().map(|span| &span.0).or(near);
        }
        put_varint(&mut body, to_u64(self.segments.len()));
        let mut previous: Option<&Entry<K>> = None;
        for entry in &self.segments {
            put_unit_entry(&mut body, previous, entry);
            previous = Some(entry);
        }
        end_sized(body)
    }

    /// Decodes a root. Also returns the bytes behind it.
    pub fn read(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let (body, behind) = unframe_sized(UNIT_ROOT, bytes)?;
        let mut cursor = cursor(body);
        let cursor = &mut cursor;
        if cursor.u8()? != K::CODE {
            return Err(malformed(cursor, "key width"));
        }
        let axis = AxisType::from_code(cursor.u8()?).ok_or_else(|| malformed(cursor, "axis"))?;
        let instant = cursor.u64()?.cast_signed();
        let coarsen = take_coarsen(cursor)?;
        let limits = take_limits(cursor)?;
        let flags = cursor.u8()?;
        let fingerprints = match flags >> 1 {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return Err(malformed(cursor, "options")),
        };
        let (keep_keys, fpp) = (flags & 1 == 1, take_u32(cursor)?);
        let options = Options { coarsen, format: Format::V2, keep_keys, fingerprints, fpp, ..limits };
        options.check().map_err(|_| malformed(cursor, "options"))?;
        let slices = SliceMap::read(cursor, to_u64(body.len()).saturating_mul(UNITS_PER_BYTE))?;
        let pages_file = take_u32(cursor)?.checked_sub(1);
        let pages = take_pages(cursor, &slices)?;
        let mut segments: Vec<Entry<K>> = Vec::new();
        // Each iteration consumes bytes, so a false count fails at the end of the input.
        for _ in 0..cursor.varint()? {
            let entry = take_unit_entry(cursor, segments.last())?;
            segments.push(entry);
        }
        finished(cursor)?;
        let info = IndexInfo { axis, instant, options };
        Ok((Self { info, slices, pages_file, pages, segments }, behind))
    }
}

fn take_pages<K: Key>(cursor: &mut Cursor<'_>, slices: &SliceMap) -> Result<Vec<PageEntry<K>>> {
    let mut pages: Vec<PageEntry<K>> = Vec::new();
    let (mut near, mut offset, mut first_slice, mut first_unit) = (None, 0u64, 0u32, 0u32);
    for _ in 0..cursor.varint()? {
        let (num_slices, len, check) = (take_u32(cursor)?, cursor.varint()?, cursor.u32()?);
        let summary = Summary::take(cursor, near.as_ref())?;
        near = summary.span.as_ref().map(|span: &(K, K)| span.0.clone()).or(near);
        let last = num_slices.checked_sub(1).and_then(|more| slices.at(first_slice.checked_add(more)?));
        let last = last.ok_or_else(|| malformed(cursor, "slices of a unit page"))?;
        let num_units = last.first + last.units - first_unit;
        let end = offset.checked_add(len).ok_or_else(|| malformed(cursor, "size of a unit page"))?;
        // Each unit takes at least a byte of its page.
        if num_units > PAGE_UNITS && num_slices > 1 || u64::from(num_units) > len {
            return Err(malformed(cursor, "units of a unit page"));
        }
        pages.push(PageEntry { first_slice, num_slices, first_unit, num_units, offset, len, check, summary });
        (offset, first_slice, first_unit) = (end, last.position + 1, last.first + last.units);
    }
    if first_slice == slices.num_slices() { Ok(pages) } else { Err(malformed(cursor, "slices of the unit pages")) }
}

/// Flags of a directory entry, below the number of the file.
const CONTIGUOUS: u64 = 1;
const HAS_KEYS: u64 = 2;

fn put_unit_entry<K: Key>(body: &mut Vec<u8>, previous: Option<&Entry<K>>, entry: &Entry<K>) {
    entry.least.write_after(previous.map(|entry| &entry.most), body);
    entry.most.write_after(Some(&entry.least), body);
    let lookup = entry.lookup;
    let contiguous = lookup.offset == next_offset(previous, lookup.file);
    let flags = if contiguous { CONTIGUOUS } else { 0 } | if entry.keys.len > 0 { HAS_KEYS } else { 0 };
    put_varint(body, u64::from(lookup.file) << 2 | flags);
    if !contiguous {
        put_varint(body, lookup.offset);
    }
    put_varint(body, lookup.len);
    body.extend_from_slice(&entry.check.unwrap_or(0).to_le_bytes());
    if entry.keys.len > 0 {
        [u64::from(entry.keys.file), entry.keys.offset, entry.keys.len]
            .into_iter()
            .for_each(|number| put_varint(body, number));
    }
    put_counts(body, &entry.counts);
}

fn take_unit_entry<K: Key>(cursor: &mut Cursor<'_>, previous: Option<&Entry<K>>) -> Result<Entry<K>> {
    let least = K::read_after(previous.map(|entry| &entry.most), cursor)?;
    let most = K::read_after(Some(&least), cursor)?;
    if previous.is_some_and(|previous| previous.most >= least) || least > most {
        return Err(malformed(cursor, "order of segments"));
    }
    let head = cursor.varint()?;
    let file = to_usize(head >> 2).map_or(u32::MAX, saturating_u32);
    let offset = if head & CONTIGUOUS == 0 { cursor.varint()? } else { next_offset(previous, file) };
    let lookup = SectionRange { file, offset, len: cursor.varint()? };
    let check = Some(cursor.u32()?);
    let keys = if head & HAS_KEYS == 0 {
        SectionRange { file, offset: 0, len: 0 }
    } else {
        SectionRange { file: take_u32(cursor)?, offset: cursor.varint()?, len: cursor.varint()? }
    };
    Ok(Entry { least, most, lookup, keys, check, counts: take_counts(cursor)? })
}

/// Returns the offset at which the next segment of a file begins if the segments are stored in order.
fn next_offset<K>(previous: Option<&Entry<K>>, file: u32) -> u64 {
    previous
        .filter(|entry| entry.lookup.file == file)
        .map_or(0, |entry| entry.lookup.offset.saturating_add(entry.lookup.len))
}

/// Returns the checksum at the end of a framed part.
pub(in crate::sieve) fn check_of(part: &[u8]) -> Option<u32> {
    part.last_chunk::<4>().map(|check| u32::from_le_bytes(*check))
}

impl<K> PageEntry<K> {
    /// Returns the bytes of the page within some bytes.
    pub(in crate::sieve) fn slice<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let (start, len) = (to_usize(self.offset)?, to_usize(self.len)?);
        bytes.get(start..start.checked_add(len)?)
    }

    /// Returns the numbers of the units.
    pub(in crate::sieve) fn units(&self) -> std::ops::Range<u32> {
        self.first_unit..self.first_unit + self.num_units
    }

    /// Returns the position of a unit in the page.
    pub(in crate::sieve) fn local(&self, unit: u32) -> usize {
        index(unit.saturating_sub(self.first_unit))
    }
}
