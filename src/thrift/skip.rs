//! Skips values of any type, so that unknown fields do no harm.

use super::Type;
use super::reader::{MAX_DEPTH, Reader};
use crate::error::{Error, ErrorKind, Result};

impl Reader<'_> {
    /// Skips the value of a field.
    pub fn skip(&mut self, kind: Type) -> Result<()> {
        match kind {
            // A boolean field has its value in the field header. Only booleans in containers have a separate byte.
            Type::True | Type::False => Ok(()),
            other => self.skip_element(other, 0),
        }
    }

    fn skip_element(&mut self, kind: Type, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::at(ErrorKind::ThriftDepth(MAX_DEPTH), self.offset()));
        }
        match kind {
            Type::True | Type::False | Type::I8 => self.cursor.u8().map(drop),
            Type::I16 | Type::I32 | Type::I64 => self.cursor.varint().map(drop),
            Type::Double => self.cursor.take(8).map(drop),
            Type::Uuid => self.cursor.take(16).map(drop),
            Type::Binary => self.binary().map(drop),
            Type::List | Type::Set => {
                let header = self.list()?;
                let Some(element) = header.element else { return Ok(()) };
                (0..header.len).try_for_each(|_| self.skip_element(element, depth + 1))
            }
            Type::Map => {
                let at = self.offset();
                let claimed = self.cursor.varint()?;
                if claimed == 0 {
                    return Ok(());
                }
                let types = self.cursor.u8()?;
                let (key, value) = (self.kind(types >> 4, at)?, self.kind(types & 0x0f, at)?);
                let len = self.container(claimed, 2, at)?;
                (0..len).try_for_each(|_| {
                    self.skip_element(key, depth + 1)?;
                    self.skip_element(value, depth + 1)
                })
            }
            Type::Struct => {
                let mut last = 0;
                while let Some(field) = self.field(last)? {
                    last = field.id;
                    if !matches!(field.kind, Type::True | Type::False) {
                        self.skip_element(field.kind, depth + 1)?;
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_with_every_type_are_skipped() {
        let bytes = [
            0x11, // 1: true
            0x12, // 2: false
            0x13, 9, // 3: i8
            0x14, 2, // 4: i16
            0x15, 0x80, 1, // 5: i32
            0x16, 1, // 6: i64
            0x17, 0, 0, 0, 0, 0, 0, 0, 0, // 7: double
            0x18, 2, b'a', b'b', // 8: binary
            0x19, 0x21, 1, 2, // 9: list of two booleans
            0x1a, 0x15, 4, // 10: set of one i32
            0x1b, 1, 0x85, 1, b'k', 6, // 11: map of one binary to i32
            0x1b, 0, // 12: empty map
            0x1c, 0, // 13: empty struct
            0x19, 0x00, // 14: empty list without an element type
            0x1a, 0x00, // 15: empty set without an element type
            0x1d, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, // 16: UUID
            0, 0xaa,
        ];
        let mut reader = Reader::new(&bytes, 0);
        reader.skip(Type::Struct).unwrap();
        assert_eq!(reader.position(), bytes.len() - 1);
        for end in 0..bytes.len() - 1 {
            assert!(Reader::new(&bytes[..end], 0).skip(Type::Struct).is_err(), "prefix of {end} bytes");
        }
    }

    #[test]
    fn deep_nesting_is_an_error_without_deep_recursion() {
        let in_keys = [1, 0xbb].repeat(100_000);
        let in_values = [1, 0x1b, 1].repeat(100_000);
        for (kind, deep) in [
            (Type::Struct, vec![0x1c; 100_000]),
            (Type::Struct, vec![0x19; 100_000]),
            (Type::List, vec![0x19; 100_000]),
            (Type::Map, in_keys),
            (Type::Map, in_values),
        ] {
            let error = Reader::new(&deep, 0).skip(kind).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::ThriftDepth(_)), "{error}");
        }
    }

    #[test]
    fn lists_are_skipped_up_to_the_greatest_depth() {
        let nested = |depth| [vec![0x19; depth], vec![0x00]].concat();
        assert_eq!(Reader::new(&nested(MAX_DEPTH), 0).skip(Type::List), Ok(()));
        let error = Reader::new(&nested(MAX_DEPTH + 1), 0).skip(Type::List).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::ThriftDepth(_)), "{error}");
    }
}
