//! A block: the runs of successive slices. Its checksum is in the directory.

use std::ops::Range;

use crate::cursor::Cursor;
use crate::error::Result;
use crate::int::{to_u64, to_usize};
use crate::page_map::bits::{BitReader, LIMIT};
use crate::page_map::malformed;
use crate::varint::{put_varint, take_len};

/// The header of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunHeader {
    pub(super) slice: u32,
    pub(super) schema: usize,
    pub(super) file_len: u64,
    /// Number of row groups of the file.
    pub(super) total: usize,
    /// The number of the run's first row group, the number of its row groups, and the number of its first row.
    pub(super) first_group: usize,
    pub(super) num_groups: usize,
    pub(super) first_row: u64,
}

/// Appends a run to a block. `next` is the slice after the last slice of the block.
pub(super) fn put_run(block: &mut Vec<u8>, next: u32, header: &RunHeader, bits: &[u8]) {
    put_varint(block, (header.slice - next).into());
    put_varint(block, to_u64(header.schema));
    put_varint(block, header.file_len);
    let partial = header.num_groups != header.total;
    put_varint(block, to_u64(header.total) << 1 | u64::from(partial));
    if partial {
        put_varint(block, to_u64(header.first_group));
        put_varint(block, to_u64(header.num_groups));
        put_varint(block, header.first_row);
    }
    put_varint(block, to_u64(bits.len()));
    block.extend_from_slice(bits);
}

/// Finds the run of a slice in a block whose first slice is `first`.
pub(super) fn find_run(block: &[u8], first: u32, slice: u32) -> Result<Option<(RunHeader, BitReader<'_>)>> {
    let mut cursor = Cursor::new(block, 0);
    let mut next = first;
    while cursor.remaining() > 0 {
        let at = cursor.offset();
        let number = u32::try_from(cursor.varint()?).ok().and_then(|distance| next.checked_add(distance));
        let number =
            number.filter(|&number| number < u32::MAX).ok_or_else(|| malformed("the number of a slice", at))?;
        let mut count = |limit: u64| {
            let at = cursor.offset();
            cursor.varint().and_then(|count| if count < limit { Ok(count) } else { Err(malformed("a run", at)) })
        };
        let (schema, file_len) = (count(u64::from(u32::MAX))?, count(LIMIT)?);
        let groups = count(1 << 33)?;
        let total = groups >> 1;
        let (mut place, mut first_row): (Range<u64>, u64) = (0..total, 0);
        if groups & 1 == 1 {
            let start = count(total.max(1))?;
            place = start..start + count(total + 1)?;
            first_row = count(LIMIT)?;
        }
        let size = |count: u64| to_usize(count).ok_or_else(|| malformed("a run", at));
        let len = take_len(&mut cursor)?;
        let base = cursor.offset();
        let bits = cursor.take(len)?;
        if number == slice {
            if place.end > total {
                return Err(malformed("the row groups of a run", at));
            }
            let header = RunHeader {
                slice,
                schema: size(schema)?,
                file_len,
                total: size(total)?,
                first_group: size(place.start)?,
                num_groups: size(place.end - place.start)?,
                first_row,
            };
            return Ok(Some((header, BitReader::new(bits, base))));
        }
        if number > slice {
            break;
        }
        next = number + 1;
    }
    Ok(None)
}
