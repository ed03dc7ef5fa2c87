//! The pages of a column chunk: their headers, and the boundary between levels and values in their bodies.

use std::borrow::Cow;

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};
use crate::parquet::meta::record::{Record, required};
use crate::thrift::Reader;

/// The codes of value encodings in the format.
pub(crate) mod encoding {
    pub(crate) const PLAIN: i32 = 0;
    pub(crate) const PLAIN_DICTIONARY: i32 = 2;
    pub(crate) const RLE: i32 = 3;
    pub(crate) const BIT_PACKED: i32 = 4;
    pub(crate) const DELTA_BINARY_PACKED: i32 = 5;
    pub(crate) const DELTA_LENGTH_BYTE_ARRAY: i32 = 6;
    pub(crate) const DELTA_BYTE_ARRAY: i32 = 7;
    pub(crate) const RLE_DICTIONARY: i32 = 8;
    pub(crate) const BYTE_STREAM_SPLIT: i32 = 9;
}

/// The kind of a page, with the fields of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// The distinct values to which data pages refer.
    Dictionary { num_values: u32, encoding: i32 },
    /// Values, preceded by their levels within the compressed body.
    Data { num_values: u32, encoding: i32, rep_encoding: i32, def_encoding: i32 },
    /// Values, preceded by their levels, which are never compressed.
    DataV2 {
        num_values: u32,
        num_nulls: u32,
        num_rows: u32,
        encoding: i32,
        /// Size of the repetition levels, and of both kinds of levels.
        rep_len: u64,
        levels_len: u64,
        is_compressed: bool,
    },
    /// An index page, which contains no values.
    Index,
}

/// A page header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageHeader {
    pub(crate) kind: PageKind,
    /// Size of the body after decompression, as claimed by the header.
    pub(crate) uncompressed_len: u64,
    /// Size of the body as stored.
    pub(crate) stored_len: u64,
    /// Size of the header itself.
    pub(crate) len: usize,
}

impl PageHeader {
    /// Decodes the header at the start of `bytes`, which begin at offset `base` of their file.
    pub(crate) fn decode(bytes: &[u8], base: u64) -> Result<Self> {
        let mut reader = Reader::new(bytes, base);
        let mut record = Record::new(&mut reader, "PageHeader");
        let (mut kind, mut uncompressed_len, mut stored_len) = (None, None, None);
        let (mut data, mut dictionary, mut data_v2) = (None, None, None);
        while let Some(id) = record.next()? {
            match id {
                1 => kind = record.i32()?,
                2 => uncompressed_len = length(&mut record, "PageHeader.uncompressed_page_size")?,
                3 => stored_len = length(&mut record, "PageHeader.compressed_page_size")?,
                5 => data = record.record("DataPageHeader")?.map(data_page).transpose()?,
                7 => dictionary = record.record("DictionaryPageHeader")?.map(dictionary_page).transpose()?,
                8 => data_v2 = record.record("DataPageHeaderV2")?.map(data_page_v2).transpose()?,
                _ => record.skip()?,
            }
        }
        let at = record.offset();
        let kind = match required(kind, "PageHeader.type", at)? {
            0 => required(data, "PageHeader.data_page_header", at)?,
            1 => PageKind::Index,
            2 => required(dictionary, "PageHeader.dictionary_page_header", at)?,
            3 => required(data_v2, "PageHeader.data_page_header_v2", at)?,
            // An unknown page may contain values, and a filter without them would cause a false "no".
            other => return Err(Error::at(ErrorKind::File(FileKind::PageType(other)), at)),
        };
        let uncompressed_len = required(uncompressed_len, "PageHeader.uncompressed_page_size", at)?;
        let stored_len = required(stored_len, "PageHeader.compressed_page_size", at)?;
        Ok(Self { kind, uncompressed_len, stored_len, len: record.position() })
    }
}

fn length(record: &mut Record<'_, '_>, field: &'static str) -> Result<Option<u64>> {
    let at = record.offset();
    let Some(value) = record.i32()? else { return Ok(None) };
    u64::try_from(value)
        .map(Some)
        .map_err(|_| Error::at(ErrorKind::File(FileKind::FieldValue { field, value: value.into() }), at))
}

fn count(record: &mut Record<'_, '_>, field: &'static str) -> Result<Option<u32>> {
    let at = record.offset();
    let Some(value) = record.i32()? else { return Ok(None) };
    u32::try_from(value)
        .map(Some)
        .map_err(|_| Error::at(ErrorKind::File(FileKind::FieldValue { field, value: value.into() }), at))
}

fn data_page(mut record: Record<'_, '_>) -> Result<PageKind> {
    let (mut num_values, mut encoding, mut def_encoding, mut rep_encoding) = (None, None, None, None);
    while let Some(id) = record.next()? {
        match id {
            1 => num_values = count(&mut record, "DataPageHeader.num_values")?,
            2 => encoding = record.i32()?,
            3 => def_encoding = record.i32()?,
            4 => rep_encoding = record.i32()?,
            _ => record.skip()?,
        }
    }
    let at = record.offset();
    Ok(PageKind::Data {
        num_values: required(num_values, "DataPageHeader.num_values", at)?,
        encoding: required(encoding, "DataPageHeader.encoding", at)?,
        rep_encoding: required(rep_encoding, "DataPageHeader.repetition_level_encoding", at)?,
        def_encoding: required(def_encoding, "DataPageHeader.definition_level_encoding", at)?,
    })
}

fn dictionary_page(mut record: Record<'_, '_>) -> Result<PageKind> {
    let (mut num_values, mut encoding) = (None, None);
    while let Some(id) = record.next()? {
        match id {
            1 => num_values = count(&mut record, "DictionaryPageHeader.num_values")?,
            2 => encoding = record.i32()?,
            _ => record.skip()?,
        }
    }
    let at = record.offset();
    let num_values = required(num_values, "DictionaryPageHeader.num_values", at)?;
    Ok(PageKind::Dictionary { num_values, encoding: required(encoding, "DictionaryPageHeader.encoding", at)? })
}

fn data_page_v2(mut record: Record<'_, '_>) -> Result<PageKind> {
    let (mut num_values, mut num_nulls, mut num_rows, mut encoding) = (None, None, None, None);
    let (mut def_len, mut rep_len, mut is_compressed) = (None, None, true);
    while let Some(id) = record.next()? {
        match id {
            1 => num_values = count(&mut record, "DataPageHeaderV2.num_values")?,
            2 => num_nulls = count(&mut record, "DataPageHeaderV2.num_nulls")?,
            3 => num_rows = count(&mut record, "DataPageHeaderV2.num_rows")?,
            4 => encoding = record.i32()?,
            5 => def_len = length(&mut record, "DataPageHeaderV2.definition_levels_byte_length")?,
            6 => rep_len = length(&mut record, "DataPageHeaderV2.repetition_levels_byte_length")?,
            7 => is_compressed = record.bool()?.unwrap_or(true),
            _ => record.skip()?,
        }
    }
    let at = record.offset();
    let def_len = required(def_len, "DataPageHeaderV2.definition_levels_byte_length", at)?;
    let rep_len = required(rep_len, "DataPageHeaderV2.repetition_levels_byte_length", at)?;
    Ok(PageKind::DataV2 {
        num_values: required(num_values, "DataPageHeaderV2.num_values", at)?,
        num_nulls: required(num_nulls, "DataPageHeaderV2.num_nulls", at)?,
        num_rows: required(num_rows, "DataPageHeaderV2.num_rows", at)?,
        encoding: required(encoding, "DataPageHeaderV2.encoding", at)?,
        rep_len,
        levels_len: def_len + rep_len,
        is_compressed,
    })
}

/// The parts of the decompressed body of a version 1 data page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyParts<'a> {
    /// The repetition levels, empty if there are none.
    pub(crate) rep: &'a [u8],
    /// The definition levels, empty if there are none.
    pub(crate) def: &'a [u8],
    pub(crate) values: &'a [u8],
}

/// Divides the decompressed body of a version 1 data page. `levels` are the greatest levels, and their encodings.
pub(crate) fn body_parts(body: &[u8], num_values: u32, levels: [(i16, i32); 2]) -> Result<BodyParts<'_>> {
    let mut cursor = Cursor::new(body, 0);
    let mut parts = [&[][..]; 2];
    for (part, (max_level, encoding)) in parts.iter_mut().zip(levels) {
        if max_level == 0 {
            continue;
        }
        let len = match encoding {
            encoding::RLE => u64::from(cursor.u32()?),
            // A deprecated encoding: each level takes as many bits as the maximum level needs.
            encoding::BIT_PACKED => {
                let bits = u64::from(u16::BITS - max_level.unsigned_abs().leading_zeros());
                (u64::from(num_values) * bits).div_ceil(8)
            }
            other => return Err(Error::new(ErrorKind::File(FileKind::PageEncoding(other)))),
        };
        let truncated = || {
            let available = to_u64(cursor.remaining());
            Error::new(ErrorKind::Truncated { needed: len, available })
        };
        let len = to_usize(len).filter(|len| *len <= cursor.remaining()).ok_or_else(truncated)?;
        *part = cursor.take(len)?;
    }
    let [rep, def] = parts;
    Ok(BodyParts { rep, def, values: &body[cursor.position()..] })
}

/// The result of parsing the start of a chunk's remaining bytes.
#[derive(Debug)]
pub(in crate::parquet) enum NextPage<'a> {
    /// A complete page: its header, its body, and the size of both as stored.
    Complete(PageHeader, Cow<'a, [u8]>, usize),
    /// An incomplete page. It may be complete with this many bytes. If there are no more bytes, the error applies.
    Incomplete(usize, Error),
}

impl NextPage<'_> {
    /// Returns an incomplete page of unknown length, if `error` means that bytes are missing.
    pub(in crate::parquet) fn incomplete_after(bytes: &[u8], error: Error) -> Result<Self> {
        match error.kind() {
            // Request twice as many bytes, so that endless input is parsed only a few times.
            ErrorKind::Truncated { .. } | ErrorKind::ThriftContainer { .. } => {
                Ok(Self::Incomplete(bytes.len().saturating_mul(2).max(64), error))
            }
            _ => Err(error),
        }
    }

    /// Returns an incomplete page of `len` bytes at offset `at` of the file.
    pub(in crate::parquet) fn incomplete_of_len(bytes: &[u8], len: u64, missing: u64, at: u64) -> Self {
        let available = to_u64(bytes.len()).saturating_sub(len - missing);
        Self::Incomplete(
            to_usize(len).unwrap_or(usize::MAX),
            Error::at(ErrorKind::Truncated { needed: missing, available }, at),
        )
    }
}

/// Parses the page at the start of `bytes`, which begin at offset `at` of their file.
pub(in crate::parquet) fn next_page(bytes: &[u8], at: u64) -> Result<NextPage<'_>> {
    let header = match PageHeader::decode(bytes, at) {
        Ok(header) => header,
        Err(error) => return NextPage::incomplete_after(bytes, error),
    };
    let len = to_u64(header.len) + header.stored_len;
    match to_usize(len).and_then(|len| bytes.get(header.len..len)) {
        Some(body) => {
            let len = header.len + body.len();
            Ok(NextPage::Complete(header, body.into(), len))
        }
        None => Ok(NextPage::incomplete_of_len(bytes, len, header.stored_len, at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_separated_from_values() {
        let parts = |body: &'static [u8], levels| {
            body_parts(body, 9, levels).map(|parts| (parts.rep, parts.def, parts.values)).ok()
        };
        let (rle, packed) = (encoding::RLE, encoding::BIT_PACKED);
        assert_eq!(parts(&[5, 6], [(0, rle), (0, rle)]), Some((&[][..], &[][..], &[5, 6][..])));
        let body = &[1, 0, 0, 0, 7, 2, 0, 0, 0, 8, 9, 5];
        assert_eq!(parts(body, [(1, rle), (1, rle)]), Some((&[7][..], &[8, 9][..], &[5][..])));
        // Nine levels of one bit take two bytes, and nine levels of two bits take three.
        assert_eq!(parts(&[1, 2, 3], [(0, rle), (1, packed)]), Some((&[][..], &[1, 2][..], &[3][..])));
        assert_eq!(parts(&[1, 2, 3, 4], [(0, rle), (3, packed)]), Some((&[][..], &[1, 2, 3][..], &[4][..])));
        for (body, levels) in [
            (&[2, 0, 0, 0, 8][..], [(0, rle), (1, rle)]),
            (&[2, 0, 0], [(0, rle), (1, rle)]),
            (&[1, 2], [(0, rle), (3, packed)]),
            (&[1, 2, 3, 4], [(0, rle), (1, encoding::PLAIN)]),
        ] {
            assert_eq!(parts(body, levels), None, "{body:?} {levels:?}");
        }
    }

    #[test]
    fn an_incomplete_page_states_the_missing_bytes() {
        let NextPage::Incomplete(needed, error) = NextPage::incomplete_of_len(&[0; 10], 25, 20, 7) else {
            panic!("the page is complete");
        };
        assert_eq!((needed, error), (25, Error::at(ErrorKind::Truncated { needed: 20, available: 5 }, 7)));
    }
}
