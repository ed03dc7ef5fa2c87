//! Reads compact-protocol structures field by field; allocates nothing.

use super::Type;
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{to_u64, to_usize};

/// Structures nested deeper than this are refused; Parquet's own nest fewer than ten.
pub(super) const MAX_DEPTH: usize = 64;

/// The header of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its number in the structure.
    pub id: i16,
    /// The type of the value that follows.
    pub kind: Type,
}

/// The header of a list or set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListHeader {
    /// How many elements follow; never more than bytes are left.
    pub len: usize,
    /// Their type. An empty list may have none: fastparquet writes type code 0 then.
    pub element: Option<Type>,
}

/// Reads from a [`Cursor`].
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    pub(super) cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`, which lie at offset `base` of their file.
    pub fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { cursor: Cursor::new(bytes, base) }
    }

    /// A reader of `bytes` that begins at `position` in them, for values that are read later than they were met.
    pub fn starting_at(bytes: &'a [u8], position: usize, base: u64) -> Result<Self> {
        let mut reader = Self::new(bytes, base);
        reader.cursor.take(position)?;
        Ok(reader)
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.cursor.position()
    }

    /// Offset in the file of the next byte.
    pub fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    /// The next field of a structure, or `None` at its stop byte. `last` is the id of the field before, 0 at first.
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

    /// One signed byte.
    pub fn i8(&mut self) -> Result<i8> {
        Ok(self.cursor.u8()?.cast_signed())
    }

    /// A 16-bit integer.
    pub fn i16(&mut self) -> Result<i16> {
        let at = self.offset();
        i16::try_from(self.i64()?).map_err(|_| Error::at(ErrorKind::IntegerRange, at))
    }

    /// A 32-bit integer.
    pub fn i32(&mut self) -> Result<i32> {
        let at = self.offset();
        i32::try_from(self.i64()?).map_err(|_| Error::at(ErrorKind::IntegerRange, at))
    }

    /// A 64-bit integer: zigzag folds the sign into the lowest bit.
    pub fn i64(&mut self) -> Result<i64> {
        let value = self.cursor.varint()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A byte string; borrowed, so its claimed length costs nothing.
    pub fn binary(&mut self) -> Result<&'a [u8]> {
        let at = self.offset();
        let claimed = self.cursor.varint()?;
        let available = to_u64(self.cursor.remaining());
        match to_usize(claimed) {
            Some(len) if claimed <= available => self.cursor.take(len),
            _ => Err(Error::at(ErrorKind::Truncated { needed: claimed, available }, at)),
        }
    }

    /// The header of a list or set.
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
        // Every element takes at least one byte, so a longer claim is a lie.
        Ok(ListHeader { len: self.container(elements, 1, at)?, element })
    }

    /// Checks a container's claim against the bytes left, `min_bytes` for each element.
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
    fn zigzag() {
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
    fn a_container_never_claims_more_than_the_input() {
        let huge = [0xf8, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert!(matches!(Reader::new(&huge, 0).list().unwrap_err().kind(), ErrorKind::ThriftContainer { .. }));
        let claimed = [0xff, 0xff, 0xff, 0xff, 0x7f];
        assert!(matches!(Reader::new(&claimed, 0).binary().unwrap_err().kind(), ErrorKind::Truncated { .. }));
    }

    #[test]
    fn an_empty_list_needs_no_element_type() {
        let empty = |element| Ok(ListHeader { len: 0, element });
        assert_eq!(Reader::new(&[0x00], 0).list(), empty(None));
        assert_eq!(Reader::new(&[0x0c], 0).list(), empty(Some(Type::Struct)));
        assert_eq!(Reader::new(&[0xf0, 0x00], 0).list(), empty(None), "the long form of the count");
        for one in [&[0x10, 0x00][..], &[0xf0, 0x01, 0x00], &[0x1e, 0x00]] {
            let code = one[0] & 0x0f;
            assert_eq!(Reader::new(one, 7).list(), Err(Error::at(ErrorKind::ThriftType(code), 7)));
        }
    }

    #[test]
    fn field_ids_do_not_overflow() {
        assert_eq!(Reader::new(&[0x15], 0).field(i16::MAX), Err(Error::at(ErrorKind::IntegerRange, 0)));
        assert_eq!(Reader::new(&[0x0e, 2], 0).field(0), Err(Error::at(ErrorKind::ThriftType(14), 0)));
    }
}
