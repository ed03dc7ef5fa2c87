//! Reads compact-protocol structs field by field, without allocating.

use super::Type;
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{to_u64, to_usize};

/// Maximum nesting depth. Parquet's own structs nest less than ten levels deep.
pub(super) const MAX_DEPTH: usize = 64;

/// The header of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The field's id in the struct.
    pub id: i16,
    /// The type of the value that follows.
    pub kind: Type,
}

/// The header of a list or set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListHeader {
    /// Number of elements that follow. Never more than the number of remaining bytes.
    pub len: usize,
    /// The element type. An empty list may have none: fastparquet then writes type code 0.
    pub element: Option<Type>,
}

/// Reads values from a [`Cursor`].
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    pub(super) cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    /// Creates a reader of `bytes`, which begin at offset `base` of their file.
    pub fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { cursor: Cursor::new(bytes, base) }
    }

    /// Creates a reader that starts at `position` in `bytes`, for values that are decoded later.
    pub fn starting_at(bytes: &'a [u8], position: usize, base: u64) -> Result<Self> {
        let mut reader = Self::new(bytes, base);
        reader.cursor.take(position)?;
        Ok(reader)
    }

    /// Returns the number of bytes read so far.
    pub fn position(&self) -> usize {
        self.cursor.position()
    }

    /// Returns the file offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    /// Reads the next field of a struct, or returns `None` at its end. `last` is the id of the previous field, or 0.
    pub fn field(&mut self, last: i16) -> Result<Option<Field>> {
        let at = self.offset();
        let byte = self.cursor.u8()?;
        if byte == 0 {
            return Ok(None);
        }
        let kind = self.kind(byte & 0x0f, at)?;
        let id = match byte >> 4 {
            0 => self.i16()?,
            delta => last.checked_add(i16::from(delta)).ok_or_else(|| Error::at(ErrorKind::IntegerRange, at))?,
        };
        Ok(Some(Field { id, kind }))
    }

    /// Reads a signed byte.
    pub fn i8(&mut self) -> Result<i8> {
        Ok(self.cursor.u8()?.cast_signed())
    }

    /// Reads a 16-bit integer.
    pub fn i16(&mut self) -> Result<i16> {
        let at = self.offset();
        i16::try_from(self.i64()?).map_err(|_| Error::at(ErrorKind::IntegerRange, at))
    }

    /// Reads a 32-bit integer.
    pub fn i32(&mut self) -> Result<i32> {
        let at = self.offset();
        i32::try_from(self.i64()?).map_err(|_| Error::at(ErrorKind::IntegerRange, at))
    }

    /// Reads a 64-bit integer, a varint in zigzag encoding.
    pub fn i64(&mut self) -> Result<i64> {
        let value = self.cursor.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// Reads a byte string. The result is borrowed, so an excessive length allocates nothing.
    pub fn binary(&mut self) -> Result<&'a [u8]> {
        let at = self.offset();
        let claimed = self.cursor.varint()?;
        let available = to_u64(self.cursor.remaining());
        match to_usize(claimed) {
            Some(len) if claimed <= available => self.cursor.take(len),
            _ => Err(Error::at(ErrorKind::Truncated { needed: claimed, available }, at)),
        }
    }

    /// Reads the header of a list or set.
    pub fn list(&mut self) -> Result<ListHeader> {
        let at = self.offset();
        let byte = self.cursor.u8()?;
        let elements = match byte >> 4 {
            15 => self.cursor.varint()?,
            short => u64::from(short),
        };
        let element = match elements {
            0 => Type::from_code(byte & 0x0f),
            _ => Some(self.kind(byte & 0x0f, at)?),
        };
        // Every element takes at least one byte, so a larger count is invalid.
        Ok(ListHeader { len: self.container(elements, 1, at)?, element })
    }

    /// Checks that `elements` of at least `min_bytes` each fit into the remaining bytes, and returns their number.
    pub(super) fn container(&self, elements: u64, min_bytes: usize, at: u64) -> Result<usize> {
        let available = self.cursor.remaining() / min_bytes;
        match to_usize(elements) {
            Some(len) if len <= available => Ok(len),
            _ => {
                let available = to_u64(self.cursor.remaining());
                Err(Error::at(ErrorKind::ThriftContainer { elements, available }, at))
            }
        }
    }

    pub(super) fn kind(&self, code: u8, at: u64) -> Result<Type> {
        Type::from_code(code).ok_or_else(|| Error::at(ErrorKind::ThriftType(code), at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_zigzag_decoded() {
        for (bytes, value) in
            [(&[0u8][..], 0i64), (&[1], -1), (&[2], 1), (&[0xfe, 0xff, 0xff, 0xff, 0x0f], i64::from(i32::MAX))]
        {
            assert_eq!(Reader::new(bytes, 0).i64(), Ok(value));
        }
        let min = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new(&min, 0).i64(), Ok(i64::MIN));
        assert_eq!(Reader::new(&min, 3).i32(), Err(Error::at(ErrorKind::IntegerRange, 3)));
    }

    #[test]
    fn lengths_beyond_the_input_are_errors() {
        let huge = [0xf8, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert!(matches!(Reader::new(&huge, 0).list().unwrap_err().kind(), ErrorKind::ThriftContainer { .. }));
        let claimed = [0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(matches!(Reader::new(&claimed, 0).binary().unwrap_err().kind(), ErrorKind::Truncated { .. }));
        // Errors have the offset of the length.
        let error = Error::at(ErrorKind::Truncated { needed: 3, available: 2 }, 5);
        assert_eq!(Reader::new(&[3, b'a', b'b'], 5).binary(), Err(error));
        // Every entry of a map takes at least two bytes.
        let reader = Reader::new(&[0; 5], 0);
        assert_eq!(reader.container(2, 2, 0), Ok(2));
        let error = Error::at(ErrorKind::ThriftContainer { elements: 3, available: 5 }, 0);
        assert_eq!(reader.container(3, 2, 0), Err(error));
    }

    #[test]
    fn an_empty_list_needs_no_element_type() {
        let empty = |element| Ok(ListHeader { len: 0, element });
        assert_eq!(Reader::new(&[0x00], 0).list(), empty(None));
        assert_eq!(Reader::new(&[0x0c], 0).list(), empty(Some(Type::Struct)));
        assert_eq!(Reader::new(&[0xf0, 0x00], 0).list(), empty(None), "the long form of the count");
        for header in [&[0x10, 0x00][..], &[0xf0, 0x01, 0x00], &[0x1e, 0x00]] {
            let code = header[0] & 0x0f;
            assert_eq!(Reader::new(header, 7).list(), Err(Error::at(ErrorKind::ThriftType(code), 7)));
        }
    }

    #[test]
    fn field_ids_beyond_i16_are_errors() {
        assert_eq!(Reader::new(&[0x15], 0).field(i16::MAX), Err(Error::at(ErrorKind::IntegerRange, 0)));
        assert_eq!(Reader::new(&[0x0e, 2], 0).field(0), Err(Error::at(ErrorKind::ThriftType(14), 0)));
    }
}
