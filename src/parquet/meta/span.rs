//! A stretch of the metadata, kept as two numbers instead of a copy of the bytes.

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::parquet::meta::record::Record;

/// Where bytes lie inside the metadata that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::parquet) struct Span {
    start: u32,
    len: u32,
}

impl Span {
    /// From `start` to `end`; a footer's length has 32 bits, so both fit.
    pub(in crate::parquet) fn new(start: usize, end: usize) -> Option<Self> {
        Some(Self { start: u32::try_from(start).ok()?, len: u32::try_from(end.checked_sub(start)?).ok()? })
    }

    /// How many bytes there are.
    pub(in crate::parquet) fn len(&self) -> usize {
        self.len as usize
    }

    /// The bytes; `bytes` are those that the span was made for.
    pub(in crate::parquet) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start as usize..).and_then(|rest| rest.get(..self.len as usize)).unwrap_or_default()
    }

    /// The same stretch after `by` more bytes were put before it.
    pub(in crate::parquet) fn shifted(&self, by: usize) -> Option<Self> {
        let start = u32::try_from(by).ok()?.checked_add(self.start)?;
        Some(Self { start, len: self.len })
    }

    /// A byte string field.
    pub(in crate::parquet) fn binary(record: &mut Record<'_, '_>) -> Result<Option<Self>> {
        let at = record.offset();
        let Some(bytes) = record.binary()? else { return Ok(None) };
        let end = record.position();
        Self::new(end - bytes.len(), end).map(Some).ok_or_else(|| Error::at(ErrorKind::IntegerRange, at))
    }

    /// A field of text; `field` is its name for the error.
    pub(in crate::parquet) fn text(record: &mut Record<'_, '_>, field: &'static str) -> Result<Option<Self>> {
        let at = record.offset();
        let Some(bytes) = record.binary()? else { return Ok(None) };
        if std::str::from_utf8(bytes).is_err() {
            return Err(Error::at(ErrorKind::File(FileKind::NotUtf8 { field }), at));
        }
        let end = record.position();
        Self::new(end - bytes.len(), end).map(Some).ok_or_else(|| Error::at(ErrorKind::IntegerRange, at))
    }

    /// Steps over a field of any type and remembers its value.
    pub(in crate::parquet) fn value(record: &mut Record<'_, '_>) -> Result<Self> {
        let (at, start) = (record.offset(), record.position());
        record.skip()?;
        Self::new(start, record.position()).ok_or_else(|| Error::at(ErrorKind::IntegerRange, at))
    }
}
