//! Decodes delta-encoded numbers and byte strings, and numbers split into byte streams.
//!
//! A few bytes can encode billions of numbers, so nothing is allocated per value.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};

/// Maximum number of values in a block. No known writer uses larger blocks.
const MAX_BLOCK: u64 = 1 << 16;

/// Decodes the numbers of DELTA_BINARY_PACKED one by one.
///
/// ```text
/// block size | miniblocks | count | first value | blocks: minimum delta, bit width of each miniblock, packed deltas
/// ```
#[derive(Debug, Clone)]
pub(crate) struct DeltaNumbers<'a> {
    cursor: Cursor<'a>,
    miniblocks: usize,
    /// Number of values per miniblock.
    miniblock: u64,
    /// Number of values not returned yet.
    remaining_values: u64,
    /// The next value to return.
    value: i64,
    min_delta: i64,
    /// Bit widths of the remaining miniblocks in this block.
    widths: &'a [u8],
    packed: &'a [u8],
    width: u8,
    /// The greatest bit width of a miniblock.
    max_width: u8,
    /// Number of deltas of the current miniblock that have been used.
    used: u64,
}

impl<'a> DeltaNumbers<'a> {
    /// Starts decoding at the start of `bytes`. The page may contain at most `max_values`.
    pub(crate) fn new(bytes: &'a [u8], max_values: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        let (block, miniblocks, remaining_values) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
        let value = zigzag(cursor.varint()?);
        let is_valid =
            (1..=MAX_BLOCK).contains(&block) && (1..=block).contains(&miniblocks) && remaining_values <= max_values;
        if !is_valid || !block.is_multiple_of(miniblocks) || !(block / miniblocks).is_multiple_of(8) {
            return Err(damaged());
        }
        let miniblock = block / miniblocks;
        let miniblocks = to_usize(miniblocks).ok_or_else(damaged)?;
        let (min_delta, width, used) = (0, 0, miniblock);
        Ok(Self {
            cursor,
            miniblocks,
            miniblock,
            remaining_values,
            value,
            min_delta,
            widths: &[],
            packed: &[],
            width,
            max_width: 64,
            used,
        })
    }

    /// Refuses what readers refuse although the numbers are certain: miniblocks whose length is not a multiple of 32, and
    /// deltas with more bits than the numbers.
    pub(crate) fn strict(self, max_width: u8) -> Result<Self> {
        if self.miniblock.is_multiple_of(32) { Ok(Self { max_width, ..self }) } else { Err(damaged()) }
    }

    /// Returns the number of values not returned yet.
    pub(crate) fn remaining_values(&self) -> u64 {
        self.remaining_values
    }

    /// Returns the next number, or `None` at the end.
    pub(in crate::parquet) fn next(&mut self) -> Result<Option<i64>> {
        if self.remaining_values == 0 {
            return Ok(None);
        }
        let value = self.value;
        self.remaining_values -= 1;
        if self.remaining_values > 0 {
            self.step()?;
        }
        Ok(Some(value))
    }

    /// Skips all numbers and returns the position after them.
    pub(crate) fn end(mut self) -> Result<usize> {
        // The first of the remaining values needs no delta.
        let mut deltas = self.remaining_values.saturating_sub(1);
        while deltas > 0 {
            self.fill()?;
            let used = deltas.min(self.miniblock - self.used);
            self.used += used;
            deltas -= used;
        }
        Ok(self.cursor.position())
    }

    /// Starts the next miniblock if all deltas of the current one have been used.
    fn fill(&mut self) -> Result<()> {
        if self.used < self.miniblock {
            return Ok(());
        }
        if self.widths.is_empty() {
            self.min_delta = zigzag(self.cursor.varint()?);
            self.widths = self.cursor.take(self.miniblocks)?;
        }
        let (width, rest) =
            self.widths.split_first().filter(|(width, _)| **width <= self.max_width).ok_or_else(damaged)?;
        (self.width, self.widths) = (*width, rest);
        let len = to_usize(self.miniblock / 8 * u64::from(self.width)).ok_or_else(damaged)?;
        self.packed = self.cursor.take(len)?;
        self.used = 0;
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        self.fill()?;
        let delta = bits(self.packed, self.used * u64::from(self.width), self.width);
        self.used += 1;
        // Deltas wrap around, as the writer's subtraction did.
        self.value = self.value.wrapping_add(self.min_delta).wrapping_add(delta.cast_signed());
        Ok(())
    }

    fn next_len(&mut self) -> Result<Option<usize>> {
        self.next()?.map(|len| usize::try_from(len).map_err(|_| damaged())).transpose()
    }
}

fn damaged() -> Error {
    Error::new(ErrorKind::File(FileKind::DeltaPage))
}

fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

/// Returns `width` bits from bit `start` on, lowest bit first.
fn bits(bytes: &[u8], start: u64, width: u8) -> u64 {
    let (first, shift) = (to_usize(start / 8).unwrap_or(usize::MAX), start % 8);
    // 64 bits that start within a byte extend into a ninth byte.
    let mut window = [0; 16];
    let bytes = bytes.get(first..).unwrap_or_default();
    let len = bytes.len().min(9);
    window[..len].copy_from_slice(&bytes[..len]);
    let value = u128::from_le_bytes(window) >> shift;
    (value & ((1u128 << width) - 1)) as u64
}

/// Decodes byte strings in DELTA_LENGTH_BYTE_ARRAY: all lengths, then all bytes. Returns their number.
pub(crate) fn by_length<'a>(
    bytes: &'a [u8],
    max_values: u64,
    mut take: impl FnMut(&'a [u8]) -> Result<()>,
) -> Result<u64> {
    let mut lengths = DeltaNumbers::new(bytes, max_values)?;
    let (count, start) = (lengths.remaining_values(), lengths.clone().end()?);
    let mut cursor = Cursor::new(bytes.get(start..).unwrap_or_default(), to_u64(start));
    while let Some(len) = lengths.next_len()? {
        take(cursor.take(len)?)?;
    }
    Ok(count)
}

/// Decodes byte strings in DELTA_BYTE_ARRAY: the length of each prefix shared with the previous string, then the
/// suffixes. Returns their number.
pub(crate) fn by_prefix(bytes: &[u8], max_values: u64, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    let mut prefixes = DeltaNumbers::new(bytes, max_values)?;
    let start = prefixes.clone().end()?;
    let mut string: Vec<u8> = Vec::new();
    let count = by_length(bytes.get(start..).unwrap_or_default(), max_values, |suffix| {
        let prefix = prefixes.next_len()?.filter(|prefix| *prefix <= string.len()).ok_or_else(damaged)?;
        string.truncate(prefix);
        string.extend_from_slice(suffix);
        take(&string)
    })?;
    if prefixes.remaining_values() == 0 { Ok(count) } else { Err(damaged()) }
}

/// Decodes values of `width` bytes in BYTE_STREAM_SPLIT: all first bytes, then all second bytes, and so on.
pub(in crate::parquet) fn merge_streams(bytes: &[u8], width: usize) -> Result<Vec<u8>> {
    if width == 0 || !bytes.len().is_multiple_of(width) {
        return Err(damaged());
    }
    let count = bytes.len() / width;
    let mut values = vec![0; bytes.len()];
    for (stream, bytes) in bytes.chunks_exact(count.max(1)).enumerate() {
        for (value, byte) in values.chunks_exact_mut(width).zip(bytes) {
            value[stream] = *byte;
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::int::to_u64;

    /// Writes two numbers, whose difference has `width` bits, in miniblocks of the given length.
    fn two_numbers(miniblock: u8, width: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in [u64::from(miniblock) * 4, 4, 2, 0, 0] {
            crate::varint::put_varint(&mut bytes, number);
        }
        bytes.extend([width, 0, 0, 0]);
        bytes.extend(vec![0xff; usize::from(miniblock) / 8 * usize::from(width)]);
        bytes
    }

    #[test]
    fn strict_readers_refuse_wide_deltas_and_odd_miniblocks() {
        for (miniblock, width, max_width, is_refused) in
            [(32, 32, 32, false), (32, 33, 32, true), (32, 64, 64, false), (32, 65, 64, true), (64, 7, 32, false)]
        {
            let bytes = two_numbers(miniblock, width);
            let end = DeltaNumbers::new(&bytes, 10).unwrap().strict(max_width).unwrap().end();
            assert_eq!(end.ok(), (!is_refused).then_some(bytes.len()), "{miniblock} {width} {max_width}");
        }
        let bytes = two_numbers(8, 5);
        assert!(DeltaNumbers::new(&bytes, 10).unwrap().strict(32).is_err());
        let mut certain = DeltaNumbers::new(&bytes, 10).unwrap();
        let read = [certain.next(), certain.next(), certain.next()].map(Result::unwrap);
        assert_eq!(read, [Some(0), Some(31), None]);
        assert_eq!(to_u64(bytes.len()), 5 + 4 + 5);
    }

    #[test]
    fn the_end_is_the_same_after_some_numbers() {
        let mut bytes = Vec::new();
        for number in [128, 4, 40, 0, 0] {
            crate::varint::put_varint(&mut bytes, number);
        }
        bytes.extend([8, 8, 0, 0]);
        bytes.extend([1; 64]);
        for read in 0..=40 {
            let mut numbers = DeltaNumbers::new(&bytes, 40).unwrap();
            (0..read).for_each(|number| assert_eq!(numbers.next(), Ok(Some(number))));
            assert_eq!(numbers.end(), Ok(bytes.len()), "after {read} numbers");
        }
    }
}
