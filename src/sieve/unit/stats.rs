//! The statistics of one location or unit.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::sieve::key::axis::Key;
use crate::varint::put_varint;

/// The keys of one location or unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpan<K> {
    /// The least key.
    pub least: K,
    /// The greatest key.
    pub most: K,
    /// The number of rows with a key.
    pub rows: u64,
}

/// The statistics of one location or unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats<K> {
    /// The keys, if there are any.
    pub span: Option<KeySpan<K>>,
    /// The number of null rows.
    pub nulls: u64,
    /// The number of NaN rows.
    pub nans: u64,
    /// True if not all rows were read. The location then belongs to every answer.
    pub unknown: bool,
}

impl<K> Default for Stats<K> {
    fn default() -> Self {
        Self { span: None, nulls: 0, nans: 0, unknown: false }
    }
}

pub(in crate::sieve) fn put_span<K: Key>(body: &mut Vec<u8>, span: &KeySpan<K>) {
    span.least.write_after(None, body);
    span.most.write_after(Some(&span.least), body);
    put_varint(body, span.rows);
}

pub(in crate::sieve) fn take_span<K: Key>(cursor: &mut Cursor<'_>) -> Result<KeySpan<K>> {
    let least = K::read_after(None, cursor)?;
    let most = K::read_after(Some(&least), cursor)?;
    Ok(KeySpan { least, most, rows: cursor.varint()? })
}
