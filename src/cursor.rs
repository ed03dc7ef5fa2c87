//! Checked little-endian reads. All untrusted bytes are indexed here.

use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;

/// A position in untrusted bytes. Every read is checked, and every error contains the absolute offset.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
    base: u64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `bytes`, which are at offset `base` of their file.
    pub fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, position: 0, base }
    }

    /// Returns the offset of the next byte in the file.
    pub fn offset(&self) -> u64 {
        self.base + to_u64(self.position)
    }

    /// Returns the number of bytes read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns the number of bytes that remain.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// Reads `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        if count > self.remaining() {
            return Err(self.truncated(to_u64(count)));
        }
        let start = self.position;
        self.position += count;
        Ok(&self.bytes[start..self.position])
    }

    /// Reads `N` bytes as an array.
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.take_array::<1>()?[0])
    }

    /// Reads a little-endian `u32`.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take_array()?))
    }

    /// Reads a little-endian `u64`.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take_array()?))
    }

    /// Reads an unsigned LEB128 integer of at most 64 bits.
    pub fn varint(&mut self) -> Result<u64> {
        let start = self.offset();
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte may only contain the 64th bit.
            if shift == 63 && bits > 1 {
                return Err(Error::at(ErrorKind::VarintTooLong, start));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::at(ErrorKind::VarintTooLong, start))
    }

    fn truncated(&self, needed: u64) -> Error {
        Error::at(ErrorKind::Truncated { needed, available: to_u64(self.remaining()) }, self.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_read_past_the_end_is_an_error_with_its_offset() {
        let mut cursor = Cursor::new(&[1, 2, 3], 100);
        assert_eq!(cursor.u8(), Ok(1));
        let error = cursor.u32().unwrap_err();
        assert_eq!(error.offset(), Some(101));
        assert_eq!(error.kind(), &ErrorKind::Truncated { needed: 4, available: 2 });
        assert_eq!(cursor.remaining(), 2, "a failed read consumes nothing");
    }

    #[test]
    fn varints_hold_64_bits_and_no_more() {
        let mut bytes = vec![0xff; 9];
        bytes.push(1);
        assert_eq!(Cursor::new(&bytes, 0).varint(), Ok(u64::MAX));
        bytes[9] = 2;
        assert_eq!(Cursor::new(&bytes, 7).varint(), Err(Error::at(ErrorKind::VarintTooLong, 7)));
        assert_eq!(Cursor::new(&[0x80; 11], 0).varint(), Err(Error::at(ErrorKind::VarintTooLong, 0)));
        assert!(Cursor::new(&[0x80], 0).varint().is_err());
    }
}
