//! Reads a Thrift struct field by field. No field may occur twice.
//!
//! A field of an unexpected type is skipped like an unknown field, as Thrift's generated readers do. Such files exist:
//! Dremio used field 15 of ColumnMetaData for its own purpose, years before the format defined it.

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::thrift::{Field, Reader, Type};

/// A struct that is being read.
pub(in crate::parquet) struct Record<'r, 'a> {
    reader: &'r mut Reader<'a>,
    structure: &'static str,
    field: Field,
    seen: u64,
}

impl<'r, 'a> Record<'r, 'a> {
    pub(in crate::parquet) fn new(reader: &'r mut Reader<'a>, structure: &'static str) -> Self {
        Self { reader, structure, field: Field { id: 0, kind: Type::Struct }, seen: 0 }
    }

    /// Returns the id of the next field, or `None` at the end of the struct.
    pub(in crate::parquet) fn next(&mut self) -> Result<Option<i16>> {
        let at = self.reader.offset();
        let Some(field) = self.reader.field(self.field.id)? else { return Ok(None) };
        self.field = field;
        // Readers disagree about which of two equal fields counts. All of Parquet's field ids are below 64.
        if let Ok(bit @ 0..64) = u32::try_from(field.id) {
            if self.seen >> bit & 1 == 1 {
                return Err(Error::at(
                    ErrorKind::File(FileKind::DuplicateField { structure: self.structure, id: field.id }),
                    at,
                ));
            }
            self.seen |= 1 << bit;
        }
        Ok(Some(field.id))
    }

    pub(in crate::parquet) fn offset(&self) -> u64 {
        self.reader.offset()
    }

    pub(in crate::parquet) fn position(&self) -> usize {
        self.reader.position()
    }

    pub(in crate::parquet) fn skip(&mut self) -> Result<()> {
        self.reader.skip(self.field.kind)
    }

    pub(in crate::parquet) fn bool(&mut self) -> Result<Option<bool>> {
        match self.field.kind {
            Type::True => Ok(Some(true)),
            Type::False => Ok(Some(false)),
            _ => self.skip().map(|()| None),
        }
    }

    pub(in crate::parquet) fn i8(&mut self) -> Result<Option<i8>> {
        self.of(Type::I8)?.map(Reader::i8).transpose()
    }

    pub(in crate::parquet) fn i16(&mut self) -> Result<Option<i16>> {
        self.of(Type::I16)?.map(Reader::i16).transpose()
    }

    pub(in crate::parquet) fn i32(&mut self) -> Result<Option<i32>> {
        self.of(Type::I32)?.map(Reader::i32).transpose()
    }

    pub(in crate::parquet) fn i64(&mut self) -> Result<Option<i64>> {
        self.of(Type::I64)?.map(Reader::i64).transpose()
    }

    pub(in crate::parquet) fn binary(&mut self) -> Result<Option<&'a [u8]>> {
        self.of(Type::Binary)?.map(Reader::binary).transpose()
    }

    /// Reads a nested struct.
    pub(in crate::parquet) fn record(&mut self, structure: &'static str) -> Result<Option<Record<'_, 'a>>> {
        Ok(self.of(Type::Struct)?.map(|reader| Record::new(reader, structure)))
    }

    /// Reads the header of a list and returns the number of elements, which the caller must then read.
    pub(in crate::parquet) fn list(&mut self, element: Type) -> Result<Option<(usize, &mut Reader<'a>)>> {
        if self.field.kind == Type::List {
            let header = self.reader.clone().list()?;
            // Some writers give an empty list an arbitrary element type.
            if header.element == Some(element) || header.len == 0 {
                return Ok(Some((self.reader.list()?.len, self.reader)));
            }
        }
        self.skip().map(|()| None)
    }

    /// Returns the id of the union member that is set, or 0 if there is none. Skips the member's value.
    pub(in crate::parquet) fn member(&mut self, union: &'static str) -> Result<i16> {
        let mut member = 0;
        if let Some(mut record) = self.record(union)? {
            while let Some(id) = record.next()? {
                member = id;
                record.skip()?;
            }
        }
        Ok(member)
    }

    fn of(&mut self, kind: Type) -> Result<Option<&mut Reader<'a>>> {
        match self.field.kind == kind {
            true => Ok(Some(self.reader)),
            false => self.skip().map(|()| None),
        }
    }
}

/// Returns the value of a required field, or an error if it is missing.
pub(in crate::parquet) fn required<T>(value: Option<T>, field: &'static str, at: u64) -> Result<T> {
    value.ok_or_else(|| Error::at(ErrorKind::MissingField { field }, at))
}
