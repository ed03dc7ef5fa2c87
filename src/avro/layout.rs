//! The layout of a row: the types of its fields in order, and which of them become columns.

use crate::error::{Error, ErrorKind, Result};

/// The type of a field. Names do not matter, because Avro encodes fields by position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// A number in zigzag form: Avro's `int` and `long`.
    Long,
    /// A value with this many bytes: `boolean`, `float`, `double` and `fixed`.
    Fixed(usize),
    /// A length and as many bytes: `bytes` and `string`.
    Bytes,
    /// A union of null and a type.
    Option(Box<Layout>),
    /// The fields of a record.
    Record(Vec<Layout>),
    /// An array.
    List(Box<Layout>),
    /// A map, or an array of records with a key and a value.
    Map(Box<Layout>, Box<Layout>),
    /// A field that becomes a column.
    Column(Kind, Box<Layout>),
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Numbers.
    Int64,
    /// Strings.
    Utf8,
    /// Bytes.
    Binary,
    /// The encoded bytes of a field of any type.
    Encoded,
    /// Maps from `int` to numbers.
    Counts,
    /// Maps from `int` to bytes.
    Bounds,
}

/// Layouts may be nested this deeply.
const MAX_DEPTH: usize = 32;

impl Layout {
    /// Decodes a layout from numbers: a code for each type, followed by its size or its number of fields, and by the
    /// layouts inside it. A column has the codes from 16 on, in the order of [`Kind`].
    pub fn parse(codes: &[u32]) -> Result<Self> {
        let mut codes = codes.iter().copied();
        let layout = Self::next(&mut codes, 0, true)?;
        if codes.next().is_some() { Err(invalid("numbers follow its end")) } else { Ok(layout) }
    }

    fn next(codes: &mut impl Iterator<Item = u32>, depth: usize, once: bool) -> Result<Self> {
        let mut number = || codes.next().ok_or_else(|| invalid("it ends too early"));
        if depth > MAX_DEPTH {
            return Err(invalid("it is nested too deeply"));
        }
        let code = number()?;
        let size = if matches!(code, 1 | 4) { number()? as usize } else { 0 };
        let mut inner = |once: bool| Self::next(codes, depth + 1, once);
        let layout = match code {
            0 => Self::Long,
            1 => Self::Fixed(size),
            2 => Self::Bytes,
            3 => Self::Option(Box::new(inner(false)?)),
            4 => Self::Record((0..size).map(|_| inner(once)).collect::<Result<_>>()?),
            5 => Self::List(Box::new(inner(false)?)),
            6 => Self::Map(Box::new(inner(false)?), Box::new(inner(false)?)),
            16..22 if once => {
                use Kind as K;
                let kind = [K::Int64, K::Utf8, K::Binary, K::Encoded, K::Counts, K::Bounds][code as usize - 16];
                let layout = inner(false)?;
                if !layout.fits(kind) {
                    return Err(invalid("a column has another type than its field"));
                }
                Self::Column(kind, Box::new(layout))
            }
            16..22 => return Err(invalid("a column is inside an option, a list, a map or a column")),
            _ => return Err(invalid("an unknown code")),
        };
        // A few bytes could claim any number of entries without bytes, again and again.
        match &layout {
            Self::List(item) if !item.has_bytes() => Err(invalid("the items of a list have no bytes")),
            Self::Map(key, value) if !key.has_bytes() && !value.has_bytes() => {
                Err(invalid("the entries of a map have no bytes"))
            }
            _ => Ok(layout),
        }
    }

    /// Returns whether every value takes at least one byte.
    fn has_bytes(&self) -> bool {
        match self {
            Self::Long | Self::Bytes | Self::Option(_) | Self::List(_) | Self::Map(_, _) => true,
            Self::Fixed(size) => *size > 0,
            Self::Record(fields) => fields.iter().any(Self::has_bytes),
            Self::Column(_, inner) => inner.has_bytes(),
        }
    }

    /// Returns whether values of this type fit into a column.
    fn fits(&self, kind: Kind) -> bool {
        match (self, kind) {
            (_, Kind::Encoded) | (Self::Long, Kind::Int64) | (Self::Bytes, Kind::Utf8 | Kind::Binary) => true,
            (Self::Option(inner), _) => !matches!(**inner, Self::Option(_)) && inner.fits(kind),
            (Self::Map(key, value), Kind::Counts) => **key == Self::Long && value.fits(Kind::Int64),
            (Self::Map(key, value), Kind::Bounds) => **key == Self::Long && value.fits(Kind::Binary),
            _ => false,
        }
    }

    /// Returns the columns in order.
    pub fn columns(&self) -> Vec<Kind> {
        match self {
            Self::Column(kind, _) => vec![*kind],
            Self::Record(fields) => fields.iter().flat_map(Self::columns).collect(),
            _ => Vec::new(),
        }
    }
}

fn invalid(reason: &'static str) -> Error {
    Error::new(ErrorKind::AvroLayout { reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_parsed_from_numbers() {
        let layout = Layout::parse(&[4, 3, 16, 0, 1, 8, 21, 3, 6, 0, 2]).unwrap();
        let bounds = Layout::Option(Box::new(Layout::Map(Box::new(Layout::Long), Box::new(Layout::Bytes))));
        let fields = vec![
            Layout::Column(Kind::Int64, Box::new(Layout::Long)),
            Layout::Fixed(8),
            Layout::Column(Kind::Bounds, Box::new(bounds)),
        ];
        assert_eq!(layout, Layout::Record(fields));
        assert_eq!(layout.columns(), [Kind::Int64, Kind::Bounds]);
    }

    #[test]
    fn invalid_layouts_are_rejected() {
        let deep = [3; 100];
        let rejected: [&[u32]; 9] =
            [&[], &[7], &[4, 2, 0], &[0, 0], &[16, 2], &[3, 16, 0], &[20, 6, 2, 0], &[17, 3, 3, 2], &deep];
        for codes in rejected {
            assert!(Layout::parse(codes).is_err(), "{codes:?}");
        }
    }

    #[test]
    fn entries_without_bytes_are_rejected() {
        // Lists of empty records, of records of these and of zero bytes, and maps of them.
        let rejected: [&[u32]; 5] =
            [&[5, 4, 0], &[5, 4, 2, 4, 0, 1, 0], &[5, 1, 0], &[6, 1, 0, 4, 0], &[4, 1, 3, 5, 4, 0]];
        for codes in rejected {
            assert!(Layout::parse(codes).is_err(), "{codes:?}");
        }
        // An empty record elsewhere is the partition of a table without partitions.
        for codes in [&[4, 2, 4, 0, 19, 4, 0][..], &[5, 3, 4, 0], &[6, 2, 1, 0], &[5, 5, 0], &[5, 4, 2, 4, 0, 0]] {
            assert!(Layout::parse(codes).is_ok(), "{codes:?}");
        }
    }
}
