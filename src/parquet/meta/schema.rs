//! The schema of a file: the tree of columns, and its leaves, which hold the data.
//!
//! Types and annotations that this version does not know become `Unknown`, so that the rest of the file remains usable.

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;
use crate::parquet::meta::record::{Record, required};
use crate::parquet::meta::span::ByteSpan;
use crate::thrift::{Reader, Type};

/// Maximum nesting depth of groups, which bounds the length of a path.
const MAX_DEPTH: usize = 100;

/// The physical type of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Physical {
    /// One bit.
    Boolean,
    /// Four bytes, little-endian.
    Int32,
    /// Eight bytes, little-endian.
    Int64,
    /// Twelve bytes: the nanoseconds of a day and a Julian day.
    Int96,
    /// IEEE 754, four bytes.
    Float,
    /// IEEE 754, eight bytes.
    Double,
    /// A length and bytes.
    ByteArray,
    /// Byte strings of a length given in the schema.
    FixedLenByteArray,
    /// A type that this version does not know.
    Unknown(i32),
}

impl Physical {
    pub(in crate::parquet) fn from_code(code: i32) -> Self {
        match code {
            0 => Self::Boolean,
            1 => Self::Int32,
            2 => Self::Int64,
            3 => Self::Int96,
            4 => Self::Float,
            5 => Self::Double,
            6 => Self::ByteArray,
            7 => Self::FixedLenByteArray,
            other => Self::Unknown(other),
        }
    }
}

/// The unit of a time or timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// 10^-3 seconds.
    Millis,
    /// 10^-6 seconds.
    Micros,
    /// 10^-9 seconds.
    Nanos,
    /// A unit that this version does not know.
    Unknown(i16),
}

/// The meaning of a leaf's values, from its logical type or else from its older converted type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the format's LogicalType union")]
pub enum Logical {
    String,
    Map,
    List,
    Enum,
    Decimal {
        precision: i32,
        scale: i32,
    },
    Date,
    Time {
        unit: TimeUnit,
        utc: bool,
    },
    Timestamp {
        unit: TimeUnit,
        utc: bool,
    },
    Integer {
        bit_width: i8,
        signed: bool,
    },
    Null,
    Json,
    Bson,
    Uuid,
    Float16,
    /// Months, days and milliseconds. Only exists as a converted type.
    Interval,
    /// An unknown member of the union, or an unknown converted type as a negative number.
    Unknown(i32),
}

/// The repetition type of a schema element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repetition {
    Required,
    Optional,
    Repeated,
}

/// A leaf column, which holds data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaLeaf {
    node: u32,
    /// The physical type of its values.
    pub physical: Physical,
    /// Size in bytes of a `FixedLenByteArray` value.
    pub type_length: Option<i32>,
    /// The meaning of its values.
    pub logical: Option<Logical>,
    /// The id by which table formats identify a column across renames.
    pub field_id: Option<i32>,
    /// The definition level of a present value.
    pub max_def: i16,
    /// The repetition level of the innermost list, or 0 outside of lists.
    pub max_rep: i16,
}

#[cfg(test)]
impl SchemaLeaf {
    pub(crate) fn for_test(physical: Physical, type_length: Option<i32>, logical: Option<Logical>) -> Self {
        Self { node: 0, physical, type_length, logical, field_id: None, max_def: 0, max_rep: 0 }
    }
}

#[derive(Debug)]
struct Node {
    name: ByteSpan,
    parent: Option<u32>,
}

/// The tree of columns. Names are byte ranges within the metadata, so a schema takes no more memory than a small
/// multiple of its encoded size.
#[derive(Debug, Default)]
pub(in crate::parquet) struct Schema {
    nodes: Vec<Node>,
    leaves: Vec<SchemaLeaf>,
}

/// A group whose children are being decoded.
struct OpenGroup {
    node: u32,
    children_left: i32,
    max_def: i16,
    max_rep: i16,
}

impl Schema {
    /// Returns the leaves, in the order of the column chunks in every row group.
    pub(in crate::parquet) fn leaves(&self) -> &[SchemaLeaf] {
        &self.leaves
    }

    /// Returns the names from the root's child down to `leaf`. `bytes` is the metadata.
    pub(in crate::parquet) fn path<'a>(&self, leaf: &SchemaLeaf, bytes: &'a [u8]) -> Vec<&'a str> {
        let mut path = Vec::new();
        let mut at = Some(leaf.node);
        while let Some(node) = at.and_then(|index| self.nodes.get(index as usize)) {
            // The root's name is not part of a path. Names were validated as UTF-8 when they were decoded.
            if node.parent.is_some() {
                path.push(std::str::from_utf8(node.name.of(bytes)).unwrap_or_default());
            }
            at = node.parent;
        }
        path.reverse();
        path
    }

    pub(in crate::parquet) fn decode(len: usize, reader: &mut Reader<'_>) -> Result<Self> {
        let mut schema = Self::default();
        let mut open: Vec<OpenGroup> = Vec::new();
        for index in 0..len {
            let at = reader.offset();
            let element = Element::decode(reader)?;
            let node = u32::try_from(index).map_err(|_| Error::at(ErrorKind::IntegerRange, at))?;
            let shape = |what| Error::at(ErrorKind::File(FileKind::SchemaShape(what)), at);
            let (mut max_def, mut max_rep) = (0, 0);
            if index > 0 {
                let Some(parent) = open.last_mut() else { return Err(shape("an element follows the last group")) };
                parent.children_left -= 1;
                (max_def, max_rep) = (parent.max_def, parent.max_rep);
                match required(element.repetition, "SchemaElement.repetition_type", at)? {
                    Repetition::Required => {}
                    Repetition::Optional => max_def += 1,
                    Repetition::Repeated => (max_def, max_rep) = (max_def + 1, max_rep + 1),
                }
            }
            schema.nodes.push(Node { name: element.name, parent: open.last().map(|parent| parent.node) });
            let children = element.num_children.unwrap_or(0);
            match element.physical {
                _ if children < 0 => return Err(shape("a group has a negative number of children")),
                Some(_) if index == 0 => return Err(shape("the root is not a group")),
                Some(_) if children > 0 => return Err(shape("an element is both a leaf and a group")),
                Some(physical) => schema.leaves.push(SchemaLeaf {
                    node,
                    physical,
                    type_length: element.type_length,
                    logical: element.meaning(),
                    field_id: element.field_id,
                    max_def,
                    max_rep,
                }),
                None if open.len() >= MAX_DEPTH => return Err(shape("groups are nested too deeply")),
                None => open.push(OpenGroup { node, children_left: children, max_def, max_rep }),
            }
            while open.last().is_some_and(|group| group.children_left == 0) {
                open.pop();
            }
        }
        match (len, open.is_empty()) {
            (1.., true) => Ok(schema),
            _ => Err(Error::at(
                ErrorKind::File(FileKind::SchemaShape("a group has fewer children than it claims")),
                reader.offset(),
            )),
        }
    }
}

/// A SchemaElement.
#[derive(Default)]
struct Element {
    name: ByteSpan,
    physical: Option<Physical>,
    type_length: Option<i32>,
    repetition: Option<Repetition>,
    num_children: Option<i32>,
    converted: Option<i32>,
    scale: Option<i32>,
    precision: Option<i32>,
    field_id: Option<i32>,
    logical: Option<Logical>,
}

impl Element {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut element = Self::default();
        let mut name = None;
        let mut record = Record::new(reader, "SchemaElement");
        while let Some(id) = record.next()? {
            match id {
                1 => element.physical = record.i32()?.map(Physical::from_code),
                2 => element.type_length = record.i32()?,
                3 => element.repetition = repetition(&mut record)?,
                4 => name = ByteSpan::text(&mut record, "SchemaElement.name")?,
                5 => element.num_children = record.i32()?,
                6 => element.converted = record.i32()?,
                7 => element.scale = record.i32()?,
                8 => element.precision = record.i32()?,
                9 => element.field_id = record.i32()?,
                10 => element.logical = Some(logical(&mut record)?),
                _ => record.skip()?,
            }
        }
        element.name = required(name, "SchemaElement.name", record.offset())?;
        Ok(element)
    }

    /// Returns the logical type, which takes precedence over the less expressive converted type.
    fn meaning(&self) -> Option<Logical> {
        use Logical as L;
        use TimeUnit::{Micros, Millis};
        if self.logical.is_some() {
            return self.logical;
        }
        let integer = |bit_width, signed| L::Integer { bit_width, signed };
        Some(match self.converted? {
            0 => L::String,
            1 | 2 => L::Map,
            3 => L::List,
            4 => L::Enum,
            5 => L::Decimal { precision: self.precision.unwrap_or(0), scale: self.scale.unwrap_or(0) },
            6 => L::Date,
            7 => L::Time { unit: Millis, utc: true },
            8 => L::Time { unit: Micros, utc: true },
            9 => L::Timestamp { unit: Millis, utc: true },
            10 => L::Timestamp { unit: Micros, utc: true },
            11 => integer(8, false),
            12 => integer(16, false),
            13 => integer(32, false),
            14 => integer(64, false),
            15 => integer(8, true),
            16 => integer(16, true),
            17 => integer(32, true),
            18 => integer(64, true),
            19 => L::Json,
            20 => L::Bson,
            21 => L::Interval,
            other => L::Unknown(other.saturating_abs().saturating_neg()),
        })
    }
}

fn repetition(record: &mut Record<'_, '_>) -> Result<Option<Repetition>> {
    let (at, field) = (record.offset(), "SchemaElement.repetition_type");
    Ok(match record.i32()? {
        Some(0) => Some(Repetition::Required),
        Some(1) => Some(Repetition::Optional),
        Some(2) => Some(Repetition::Repeated),
        None => None,
        Some(other) => return Err(Error::at(ErrorKind::File(FileKind::FieldValue { field, value: other.into() }), at)),
    })
}

fn logical(record: &mut Record<'_, '_>) -> Result<Logical> {
    use Logical as L;
    let mut logical = L::Unknown(0);
    let Some(mut union) = record.record("LogicalType")? else { return Ok(logical) };
    while let Some(id) = union.next()? {
        logical = match id {
            5 => decimal(&mut union)?,
            7 | 8 => time(&mut union, id == 8)?,
            10 => integer(&mut union)?,
            _ => {
                union.skip()?;
                match id {
                    1 => L::String,
                    2 => L::Map,
                    3 => L::List,
                    4 => L::Enum,
                    6 => L::Date,
                    11 => L::Null,
                    12 => L::Json,
                    13 => L::Bson,
                    14 => L::Uuid,
                    15 => L::Float16,
                    other => L::Unknown(other.into()),
                }
            }
        };
    }
    Ok(logical)
}

fn decimal(union: &mut Record<'_, '_>) -> Result<Logical> {
    let Some(mut record) = union.record("DecimalType")? else { return Ok(Logical::Unknown(5)) };
    let (mut scale, mut precision) = (None, None);
    while let Some(id) = record.next()? {
        match id {
            1 => scale = record.i32()?,
            2 => precision = record.i32()?,
            _ => record.skip()?,
        }
    }
    let at = record.offset();
    let scale = required(scale, "DecimalType.scale", at)?;
    Ok(Logical::Decimal { precision: required(precision, "DecimalType.precision", at)?, scale })
}

fn time(union: &mut Record<'_, '_>, timestamp: bool) -> Result<Logical> {
    let Some(mut record) = union.record("TimeType")? else {
        return Ok(Logical::Unknown(if timestamp { 8 } else { 7 }));
    };
    let (mut utc, mut unit) = (None, None);
    while let Some(id) = record.next()? {
        match id {
            1 => utc = record.bool()?,
            2 => {
                unit = Some(match record.member("TimeUnit")? {
                    1 => TimeUnit::Millis,
                    2 => TimeUnit::Micros,
                    3 => TimeUnit::Nanos,
                    other => TimeUnit::Unknown(other),
                });
            }
            _ => record.skip()?,
        }
    }
    let at = record.offset();
    let (utc, unit) = (required(utc, "TimeType.isAdjustedToUTC", at)?, required(unit, "TimeType.unit", at)?);
    Ok(if timestamp { Logical::Timestamp { unit, utc } } else { Logical::Time { unit, utc } })
}

fn integer(union: &mut Record<'_, '_>) -> Result<Logical> {
    let Some(mut record) = union.record("IntType")? else { return Ok(Logical::Unknown(10)) };
    let (mut bit_width, mut signed) = (None, None);
    while let Some(id) = record.next()? {
        match id {
            1 => bit_width = record.i8()?,
            2 => signed = record.bool()?,
            _ => record.skip()?,
        }
    }
    let at = record.offset();
    let bit_width = required(bit_width, "IntType.bitWidth", at)?;
    Ok(Logical::Integer { bit_width, signed: required(signed, "IntType.isSigned", at)? })
}

/// Reads a path of names and returns true if it equals `expected`.
pub(in crate::parquet) fn same_path(record: &mut Record<'_, '_>, expected: &[&str]) -> Result<bool> {
    let Some((len, reader)) = record.list(Type::Binary)? else { return Ok(false) };
    let mut same = to_u64(len) == to_u64(expected.len());
    for index in 0..len {
        let part = reader.binary()?;
        same &= expected.get(index).is_some_and(|expected| expected.as_bytes() == part);
    }
    Ok(same)
}
