//! A byte range within the metadata, stored instead of a copy of the bytes.

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::parquet::meta::record::Record;

/// A byte range within the metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::parquet) struct ByteSpan {
    start: u32,
    len: u32,
}

impl ByteSpan {
    /// Creates the range from `start` to `end`. Both fit into 32 bits, because the footer's length does.
    pub(in crate::parquet) fn new(start: usize, end: usize) -> Option<Self> {
        Some(Self { start: u32::try_from(start).ok()?, len: u32::try_from(end.checked_sub(start)?).ok()? })
    }

    /// Returns the number of bytes.
    pub(in crate::parquet) fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the bytes of the range. `bytes` must be the metadata that the range was created for.
    pub(in crate::parquet) fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.start as usize..).and_then(|rest| rest.get(..self.len as usize)).unwrap_or_default()
    }

    /// Returns the range after `by` bytes were inserted before it.
    pub(in crate::parquet) fn shifted(&self, by: usize) -> Option<Self> {
        let start = u32::try_from(by).ok()?.checked_add(self.start)?;
        Some(Self { start, len: self.len })
    }

    /// Reads a byte string field.
    pub(in crate::parquet) fn binary(record: &mut Record<'_, '_>) -> Result<Option<Self>> {
        let at = record.offset();
        let Some(bytes) = record.binary()? else { return Ok(None) };
        let end = record.position();
        Self::new(end - bytes.len(), end).map(Some).ok_or_else(|| Error::at(ErrorKind::IntegerRange, at))
    }

    /// Reads a text field. `field` is its name for error messages.
    pub(in crate::parquet) fn text(record: &mut Record<'_, '_>, field: &'static str) -> Result<Option<Self>> {
        let at = record.offset();
        let Some(bytes) = record.binary()? else { return Ok(None) };
        if std::str::from_utf8(bytes).is_err() {
            return Err(Error::at(ErrorKind::File(FileKind::NotUtf8 { field }), at));
        }
        let end = record.position();
        Self::new(end - bytes.len(), end).map(Some).ok_or_else(|| Error::at(ErrorKind::IntegerRange, at))
    }

    /// Skips a field of any type and returns the range of its value.
    pub(in crate::parquet) fn value(record: &mut Record<'_, '_>) -> Result<Self> {
        let (at, start) = (record.offset(), record.position());
        record.skip()?;
        Self::new(start, record.position()).ok_or_else(|| Error::at(ErrorKind::IntegerRange, at))
    }
}
