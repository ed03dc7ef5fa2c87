//! The delta encodings of numbers and byte strings, and the split of numbers into streams of bytes.
//!
//! A few bytes can stand for billions of equal steps, so nothing here is stored for each value.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};

/// More values than a block of any writer has; a larger claim is a mistake.
const MAX_BLOCK: u64 = 1 << 16;

/// The numbers of DELTA_BINARY_PACKED, one by one.
///
/// ```text
/// block size | miniblocks | count | first value | blocks: least delta, bit width of each miniblock, packed deltas
/// ```
#[derive(Debug, Clone)]
pub(in crate::parquet) struct Numbers<'a> {
    cursor: Cursor<'a>,
    miniblocks: usize,
    /// Values in each miniblock.
    miniblock: u64,
    /// Values that were not handed over.
    left: u64,
    /// The value to hand over next.
    value: i64,
    least: i64,
    /// Bit widths of the miniblocks that follow in this block.
    widths: &'a [u8],
    packed: &'a [u8],
    width: u8,
    /// Deltas of the current miniblock that were used.
    used: u64,
}

impl<'a> Numbers<'a> {
    /// The numbers at the start of `bytes`; `most` is how many the page may hold.
    pub(in crate::parquet) fn new(bytes: &'a [u8], most: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        let (block, miniblocks, left) = (cursor.varint()?, cursor.varint()?, cursor.varint()?);
        let value = zigzag(cursor.varint()?);
        let sound = (1..=MAX_BLOCK).contains(&block) && (1..=block).contains(&miniblocks) && left <= most;
        if !sound || !block.is_multiple_of(miniblocks) || !(block / miniblocks).is_multiple_of(8) {
            return Err(damaged());
        }
        let miniblock = block / miniblocks;
        let miniblocks = to_usize(miniblocks).ok_or_else(damaged)?;
        let (least, width, used) = (0, 0, miniblock);
        Ok(Self { cursor, miniblocks, miniblock, left, value, least, widths: &[], packed: &[], width, used })
    }

    /// How many are left.
    pub(in crate::parquet) fn left(&self) -> u64 {
        self.left
    }

    /// The next number, while there are any.
    pub(in crate::parquet) fn next(&mut self) -> Result<Option<i64>> {
        if self.left == 0 {
            return Ok(None);
        }
        let value = self.value;
        self.left -= 1;
        if self.left > 0 {
            self.step()?;
        }
        Ok(Some(value))
    }

    /// Steps over all numbers, and returns where they end.
    pub(in crate::parquet) fn end(mut self) -> Result<usize> {
        while self.next()?.is_some() {}
        Ok(self.cursor.position())
    }

    fn step(&mut self) -> Result<()> {
        if self.used == self.miniblock {
            if self.widths.is_empty() {
                self.least = zigzag(self.cursor.varint()?);
                self.widths = self.cursor.take(self.miniblocks)?;
            }
            let (width, rest) = self.widths.split_first().filter(|(width, _)| **width <= 64).ok_or_else(damaged)?;
            (self.width, self.widths) = (*width, rest);
            let len = to_usize(self.miniblock / 8 * u64::from(self.width)).ok_or_else(damaged)?;
            self.packed = self.cursor.take(len)?;
            self.used = 0;
        }
        let delta = bits(self.packed, self.used * u64::from(self.width), self.width);
        self.used += 1;
        // Deltas wrap around as the writer's subtraction did.
        self.value = self.value.wrapping_add(self.least).wrapping_add(delta.cast_signed());
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

/// `width` bits from bit `start` on, lowest first.
fn bits(bytes: &[u8], start: u64, width: u8) -> u64 {
    let (first, shift) = (to_usize(start / 8).unwrap_or(usize::MAX), start % 8);
    // 64 bits that begin inside a byte reach into a ninth one.
    let mut window = [0; 16];
    let bytes = bytes.get(first..).unwrap_or_default();
    let len = bytes.len().min(9);
    window[..len].copy_from_slice(&bytes[..len]);
    let value = u128::from_le_bytes(window) >> shift;
    (value & ((1u128 << width) - 1)) as u64
}

/// Byte strings in DELTA_LENGTH_BYTE_ARRAY: all lengths, then all bytes. Returns how many they are.
pub(in crate::parquet) fn by_length<'a>(
    bytes: &'a [u8],
    most: u64,
    mut take: impl FnMut(&'a [u8]) -> Result<()>,
) -> Result<u64> {
    let mut lengths = Numbers::new(bytes, most)?;
    let (count, start) = (lengths.left(), lengths.clone().end()?);
    let mut cursor = Cursor::new(bytes.get(start..).unwrap_or_default(), to_u64(start));
    while let Some(len) = lengths.next_len()? {
        take(cursor.take(len)?)?;
    }
    Ok(count)
}

/// Byte strings in DELTA_BYTE_ARRAY: how much each shares with the one before, then the rest of each.
pub(in crate::parquet) fn by_prefix(bytes: &[u8], most: u64, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<u64> {
    let mut prefixes = Numbers::new(bytes, most)?;
    let start = prefixes.clone().end()?;
    let mut string: Vec<u8> = Vec::new();
    let count = by_length(bytes.get(start..).unwrap_or_default(), most, |suffix| {
        let prefix = prefixes.next_len()?.filter(|prefix| *prefix <= string.len()).ok_or_else(damaged)?;
        string.truncate(prefix);
        string.extend_from_slice(suffix);
        take(&string)
    })?;
    if prefixes.left() == 0 { Ok(count) } else { Err(damaged()) }
}

/// Values of `width` bytes from BYTE_STREAM_SPLIT: all first bytes, then all second bytes, and so on.
pub(in crate::parquet) fn unsplit(bytes: &[u8], width: usize) -> Result<Vec<u8>> {
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
