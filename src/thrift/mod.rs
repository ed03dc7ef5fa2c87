//! Thrift's compact protocol, limited to the parts that Parquet uses. Reads with limits on size and depth.

mod reader;
mod skip;
mod writer;

pub use reader::{Field, ListHeader, Reader};
pub use writer::Writer;

/// Type codes of the compact protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// A boolean field with the value true. The field header holds the value.
    True = 1,
    /// A boolean field with the value false.
    False = 2,
    /// One byte.
    I8 = 3,
    /// Zigzag varint.
    I16 = 4,
    /// Zigzag varint.
    I32 = 5,
    /// Zigzag varint.
    I64 = 6,
    /// Eight bytes, little-endian.
    Double = 7,
    /// A length and bytes. Also used for strings.
    Binary = 8,
    /// Elements of one type.
    List = 9,
    /// Encoded like a list.
    Set = 10,
    /// Keys and values.
    Map = 11,
    /// Fields, terminated by a stop byte.
    Struct = 12,
    /// Sixteen bytes.
    Uuid = 13,
}

impl Type {
    fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::I8,
            4 => Self::I16,
            5 => Self::I32,
            6 => Self::I64,
            7 => Self::Double,
            8 => Self::Binary,
            9 => Self::List,
            10 => Self::Set,
            11 => Self::Map,
            12 => Self::Struct,
            13 => Self::Uuid,
            _ => return None,
        })
    }
}
