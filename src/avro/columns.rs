//! Decodes rows into Arrow columns.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BinaryBuilder, Int32Builder, Int64Builder, MapBuilder, MapFieldNames, StringBuilder};

use super::layout::{Kind, Layout};
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;

/// The columns of the rows that were decoded so far.
#[derive(Debug)]
pub struct Columns {
    layout: Layout,
    columns: Vec<Column>,
}

#[derive(Debug)]
enum Column {
    Int64(Int64Builder),
    Utf8(StringBuilder),
    /// For bytes, and for encoded fields.
    Binary(BinaryBuilder),
    Counts(MapBuilder<Int32Builder, Int64Builder>),
    Bounds(MapBuilder<Int32Builder, BinaryBuilder>),
}

impl Column {
    fn new(kind: Kind) -> Self {
        let names = || {
            let [entry, key, value] = ["entries", "key", "value"].map(str::to_owned);
            Some(MapFieldNames { entry, key, value })
        };
        match kind {
            Kind::Int64 => Self::Int64(Int64Builder::new()),
            Kind::Utf8 => Self::Utf8(StringBuilder::new()),
            Kind::Binary | Kind::Encoded => Self::Binary(BinaryBuilder::new()),
            Kind::Counts => Self::Counts(MapBuilder::new(names(), Int32Builder::new(), Int64Builder::new())),
            Kind::Bounds => Self::Bounds(MapBuilder::new(names(), Int32Builder::new(), BinaryBuilder::new())),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Int64(mut column) => Arc::new(column.finish()),
            Self::Utf8(mut column) => Arc::new(column.finish()),
            Self::Binary(mut column) => Arc::new(column.finish()),
            Self::Counts(mut column) => Arc::new(column.finish()),
            Self::Bounds(mut column) => Arc::new(column.finish()),
        }
    }
}

impl Columns {
    /// Creates empty columns.
    pub fn new(layout: Layout) -> Self {
        let columns = layout.columns().into_iter().map(Column::new).collect();
        Self { layout, columns }
    }

    /// Decodes a block of `count` rows. After an error, the columns cannot be used.
    pub fn push(&mut self, block: &[u8], count: u64) -> Result<()> {
        let mut input = Cursor::new(block, 0);
        check_count(&input, count)?;
        for _ in 0..count {
            let next = decode(&self.layout, &mut input, &mut self.columns)?;
            debug_assert!(next.is_empty(), "every row has a value for every column");
        }
        if input.remaining() > 0 {
            return Err(malformed(&input, "bytes follow the last row of a block"));
        }
        Ok(())
    }

    /// Returns the columns.
    pub fn finish(self) -> Vec<ArrayRef> {
        self.columns.into_iter().map(Column::finish).collect()
    }
}

/// Decodes a value, and appends it to the first column if it belongs to one. Returns the remaining columns.
fn decode<'c>(layout: &Layout, input: &mut Cursor<'_>, columns: &'c mut [Column]) -> Result<&'c mut [Column]> {
    match layout {
        Layout::Record(fields) => fields.iter().try_fold(columns, |columns, field| decode(field, input, columns)),
        Layout::Column(kind, inner) => {
            let Some((column, rest)) = columns.split_first_mut() else { return Ok(&mut []) };
            append(column, *kind, inner, input)?;
            Ok(rest)
        }
        _ => {
            skip(layout, input)?;
            Ok(columns)
        }
    }
}

fn append(column: &mut Column, kind: Kind, layout: &Layout, input: &mut Cursor<'_>) -> Result<()> {
    if kind == Kind::Encoded {
        let mut after = input.clone();
        skip(layout, &mut after)?;
        let bytes = input.take(after.position() - input.position())?;
        if let Column::Binary(column) = column {
            check_room(column.values_slice().len(), bytes.len(), input)?;
            column.append_value(bytes);
        }
        return Ok(());
    }
    let (layout, is_null) = match layout {
        Layout::Option(inner) => (&**inner, !is_present(input)?),
        _ => (layout, false),
    };
    match column {
        Column::Int64(column) => column.append_option(if is_null { None } else { Some(long(input)?) }),
        Column::Utf8(column) if is_null => column.append_null(),
        Column::Utf8(column) => {
            let bytes = bytes(input)?;
            check_room(column.values_slice().len(), bytes.len(), input)?;
            let text = std::str::from_utf8(bytes).map_err(|_| malformed(input, "a string is not UTF-8"))?;
            column.append_value(text);
        }
        Column::Binary(column) if is_null => column.append_null(),
        Column::Binary(column) => append_bytes(column, input)?,
        Column::Counts(column) => {
            let Layout::Map(_, value) = layout else { return Err(malformed(input, "a map")) };
            if !is_null {
                entries(input, |input| {
                    column.keys().append_value(key(input)?);
                    let is_null = matches!(**value, Layout::Option(_)) && !is_present(input)?;
                    column.values().append_option(if is_null { None } else { Some(long(input)?) });
                    check_room(column.keys().values_slice().len(), 0, input)
                })?;
            }
            end_of_map(column.append(true), input)?;
        }
        Column::Bounds(column) => {
            let Layout::Map(_, value) = layout else { return Err(malformed(input, "a map")) };
            if !is_null {
                entries(input, |input| {
                    column.keys().append_value(key(input)?);
                    if matches!(**value, Layout::Option(_)) && !is_present(input)? {
                        column.values().append_null();
                    } else {
                        append_bytes(column.values(), input)?;
                    }
                    check_room(column.keys().values_slice().len(), 0, input)
                })?;
            }
            end_of_map(column.append(true), input)?;
        }
    }
    Ok(())
}

fn append_bytes(column: &mut BinaryBuilder, input: &mut Cursor<'_>) -> Result<()> {
    let bytes = bytes(input)?;
    check_room(column.values_slice().len(), bytes.len(), input)?;
    column.append_value(bytes);
    Ok(())
}

/// Ends the map of a row. A missing map becomes an empty one, which has the same meaning.
fn end_of_map(ended: std::result::Result<(), arrow_schema::ArrowError>, input: &Cursor<'_>) -> Result<()> {
    ended.map_err(|_| malformed(input, "a map"))
}

fn skip(layout: &Layout, input: &mut Cursor<'_>) -> Result<()> {
    match layout {
        Layout::Long => long(input).map(drop),
        Layout::Fixed(size) => input.take(*size).map(drop),
        Layout::Bytes => bytes(input).map(drop),
        Layout::Option(inner) => {
            if is_present(input)? {
                skip(inner, input)
            } else {
                Ok(())
            }
        }
        Layout::Record(fields) => fields.iter().try_for_each(|field| skip(field, input)),
        Layout::List(item) => entries(input, |input| skip(item, input)),
        Layout::Map(key, value) => entries(input, |input| {
            skip(key, input)?;
            skip(value, input)
        }),
        Layout::Column(_, inner) => skip(inner, input),
    }
}

/// Applies a function to each entry of an array or a map. Their blocks end with an empty block.
fn entries(input: &mut Cursor<'_>, mut each: impl FnMut(&mut Cursor<'_>) -> Result<()>) -> Result<()> {
    loop {
        let count = long(input)?;
        if count == 0 {
            return Ok(());
        }
        if count < 0 {
            // The number of bytes follows, for readers that skip the block.
            long(input)?;
        }
        let count = count.unsigned_abs();
        check_count(input, count)?;
        for _ in 0..count {
            each(input)?;
        }
    }
}

/// Rejects a number of entries for which there are not enough bytes. Each entry has at least one byte.
fn check_count(input: &Cursor<'_>, count: u64) -> Result<()> {
    if count > to_u64(input.remaining()) { Err(malformed(input, "a number of rows or entries")) } else { Ok(()) }
}

/// Rejects data that would overflow the offsets of an Arrow array.
fn check_room(used: usize, more: usize, input: &Cursor<'_>) -> Result<()> {
    let fits = used.checked_add(more).is_some_and(|total| i32::try_from(total).is_ok());
    if fits { Ok(()) } else { Err(malformed(input, "more than 2 GiB in one column")) }
}

fn is_present(input: &mut Cursor<'_>) -> Result<bool> {
    match long(input)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(malformed(input, "the branch of a union")),
    }
}

fn bytes<'a>(input: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let length = usize::try_from(long(input)?).map_err(|_| malformed(input, "a length"))?;
    input.take(length)
}

fn key(input: &mut Cursor<'_>) -> Result<i32> {
    i32::try_from(long(input)?).map_err(|_| malformed(input, "the key of a map"))
}

fn long(input: &mut Cursor<'_>) -> Result<i64> {
    let zigzag = input.varint()?;
    Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
}

fn malformed(input: &Cursor<'_>, field: &'static str) -> Error {
    Error::at(ErrorKind::AvroMalformed { field }, input.offset())
}
