//! Writes compact-protocol structures, byte for byte as Thrift's own writers do.

use super::Type;
use crate::int::to_u64;
use crate::varint::put_varint;

/// Appends fields of nested structures to a buffer.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Creates an empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Writes the header of field `id`. `last` is the id of the previous field of the structure, or 0.
    pub fn field(&mut self, kind: Type, id: i16, last: i16) {
        let code = kind as u8;
        match u8::try_from(i32::from(id) - i32::from(last)) {
            Ok(delta @ 1..=15) => self.bytes.push(delta << 4 | code),
            _ => {
                self.bytes.push(code);
                self.integer(i64::from(id));
            }
        }
    }

    /// Writes an integer of any width: zigzag, then varint.
    pub fn integer(&mut self, value: i64) {
        put_varint(&mut self.bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    /// Writes a byte string with its length.
    pub fn binary(&mut self, bytes: &[u8]) {
        put_varint(&mut self.bytes, to_u64(bytes.len()));
        self.raw(bytes);
    }

    /// Writes bytes that are already encoded.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes the end of a structure.
    pub fn stop(&mut self) {
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::*;

    #[test]
    fn fields_read_back() {
        for value in [0, 1, -1, 63, 64, -65, i64::MAX, i64::MIN] {
            for (id, last) in [(1, 0), (15, 0), (16, 0), (3, 7), (i16::MAX, i16::MAX - 1)] {
                let mut writer = Writer::new();
                writer.field(Type::I64, id, last);
                writer.integer(value);
                writer.stop();
                let bytes = writer.into_bytes();
                let mut reader = Reader::new(&bytes, 0);
                let field = reader.field(last).unwrap().unwrap();
                assert_eq!((field.id, field.kind), (id, Type::I64));
                assert_eq!(reader.i64(), Ok(value));
                assert_eq!(reader.field(id), Ok(None));
            }
        }
    }
}
