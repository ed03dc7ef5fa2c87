//! A column chunk of a row group: the positions of its data and its filter, and its encryption.

use std::ops::Range;

use crate::crypto::MODULE_OVERHEAD;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;
use crate::parquet::meta::record::{Record, required};
use crate::parquet::meta::schema::{Physical, SchemaLeaf, same_path};
use crate::parquet::meta::span::ByteSpan;
use crate::thrift::{Reader, Type};

/// The encryption of a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Not encrypted.
    Plain,
    /// Encrypted with the footer key.
    FooterKey,
    /// Encrypted with its own key.
    ColumnKey,
    /// Encrypted in a way that this version does not know.
    Unknown(i16),
}

/// Position of a part of the page index, as claimed by the writer and not validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexLocation {
    /// Offset in the file.
    pub offset: i64,
    /// Length in bytes.
    pub length: i32,
}

/// A column chunk.
#[derive(Debug, Clone)]
pub struct ColumnChunk {
    /// The encryption of the chunk.
    pub protection: Protection,
    /// True if the chunk's data is in another file, a feature that no current writer uses.
    pub in_other_file: bool,
    /// The metadata of the chunk, or `None` as long as it is encrypted.
    pub meta: Option<Box<ColumnMeta>>,
    /// Position of its page locations.
    pub offset_index: Option<IndexLocation>,
    /// Position of its page statistics.
    pub column_index: Option<IndexLocation>,
    /// True if the footer contains plaintext metadata of this chunk, at least in part.
    pub(in crate::parquet) in_footer: bool,
    pub(in crate::parquet) key_metadata: Option<ByteSpan>,
    pub(in crate::parquet) encrypted_meta: Option<ByteSpan>,
}

/// The metadata of a column chunk that parsieve uses. Offsets are claimed by the writer and not validated.
#[derive(Debug, Clone)]
pub struct ColumnMeta {
    /// The format's code for the compression codec.
    pub codec: i32,
    /// The encodings in use, as bits `1 << code`. Codes from 31 on share the highest bit.
    pub encodings: u32,
    /// Number of values, including nulls.
    pub num_values: i64,
    /// Size in bytes of all pages with their headers.
    pub total_compressed_size: i64,
    /// Size in bytes of all pages with their headers, before compression. Negative if the writer does not state it.
    pub total_uncompressed_size: i64,
    /// Bytes of all strings without lengths, as if none were in a dictionary, if the writer states them.
    pub string_bytes: Option<i64>,
    /// Offset of the first data page.
    pub data_page_offset: i64,
    /// Offset of the dictionary page. Some writers store 0 if there is none.
    pub dictionary_page_offset: Option<i64>,
    /// True if the writer states that all data pages are dictionary-encoded.
    pub all_dictionary: bool,
    /// Offset of the Bloom filter. 0 has no special meaning.
    pub bloom_filter_offset: Option<i64>,
    /// Size in bytes of the filter including its header and encryption, if the writer stores it.
    pub bloom_filter_length: Option<i32>,
    pub(in crate::parquet) statistics: Option<ByteSpan>,
}

/// Minimum, maximum and counts of a column chunk. Values are raw bytes in plain encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics<'a> {
    /// Largest value in the column's order.
    pub max_value: Option<&'a [u8]>,
    /// Smallest value in the column's order.
    pub min_value: Option<&'a [u8]>,
    /// Largest value by signed comparison of bytes, from old writers.
    pub old_max: Option<&'a [u8]>,
    /// Smallest value by signed comparison of bytes, from old writers.
    pub old_min: Option<&'a [u8]>,
    /// Number of nulls.
    pub null_count: Option<i64>,
    /// Number of NaNs.
    pub nan_count: Option<i64>,
    /// True if `max_value` is an actual value, false if it is only a bound.
    pub max_is_exact: Option<bool>,
    /// True if `min_value` is an actual value, false if it is only a bound.
    pub min_is_exact: Option<bool>,
}

impl ColumnChunk {
    /// Decodes a ColumnChunk. By its position in the row group it belongs to `leaf`, whose path is `path`.
    pub(in crate::parquet) fn decode(reader: &mut Reader<'_>, leaf: &SchemaLeaf, path: &[&str]) -> Result<Self> {
        let mut chunk = Self {
            protection: Protection::Plain,
            in_other_file: false,
            meta: None,
            offset_index: None,
            column_index: None,
            in_footer: false,
            key_metadata: None,
            encrypted_meta: None,
        };
        let (mut offset_index, mut column_index) = ((None, None), (None, None));
        let mut record = Record::new(reader, "ColumnChunk");
        while let Some(id) = record.next()? {
            match id {
                1 => chunk.in_other_file = record.binary()?.is_some_and(|path| !path.is_empty()),
                3 => {
                    let fields = record.record("ColumnMetaData")?;
                    chunk.meta = fields.map(|fields| ColumnMeta::read(fields, leaf, path)).transpose()?.map(Box::new);
                }
                4 => offset_index.0 = record.i64()?,
                5 => offset_index.1 = record.i32()?,
                6 => column_index.0 = record.i64()?,
                7 => column_index.1 = record.i32()?,
                8 => chunk.decode_protection(&mut record, path)?,
                9 => chunk.encrypted_meta = ByteSpan::binary(&mut record)?,
                _ => record.skip()?,
            }
        }
        // A module contains a length, a nonce and a tag. This check bounds the memory per chunk by the size of its
        // input.
        let encrypted = chunk.encrypted_meta.is_some_and(|module| to_u64(module.len()) >= MODULE_OVERHEAD);
        if chunk.meta.is_none() && !encrypted {
            return Err(Error::at(ErrorKind::MissingField { field: "ColumnChunk.meta_data" }, record.offset()));
        }
        chunk.in_footer = chunk.meta.is_some();
        let location = |(offset, length)| Some(IndexLocation { offset: offset?, length: length? });
        (chunk.offset_index, chunk.column_index) = (location(offset_index), location(column_index));
        Ok(chunk)
    }

    fn decode_protection(&mut self, record: &mut Record<'_, '_>, path: &[&str]) -> Result<()> {
        let at = record.offset();
        // If the protection cannot be decoded, the chunk is still protected.
        self.protection = Protection::Unknown(0);
        let Some(mut union) = record.record("ColumnCryptoMetaData")? else { return Ok(()) };
        while let Some(id) = union.next()? {
            match id {
                1 => {
                    self.protection = Protection::FooterKey;
                    union.skip()?;
                }
                2 => {
                    self.protection = Protection::ColumnKey;
                    let field = "EncryptionWithColumnKey.path_in_schema";
                    let Some(mut key) = union.record("EncryptionWithColumnKey")? else { continue };
                    while let Some(id) = key.next()? {
                        match id {
                            // A key chosen by the name of another column would be wrong.
                            1 if !same_path(&mut key, path)? => {
                                return Err(Error::at(ErrorKind::File(FileKind::ChunkDisagrees { field }), at));
                            }
                            1 => {}
                            2 => {
                                self.key_metadata = ByteSpan::binary(&mut key)?;
                            }
                            _ => key.skip()?,
                        }
                    }
                }
                other => {
                    self.protection = Protection::Unknown(other);
                    union.skip()?;
                }
            }
        }
        Ok(())
    }
}

impl ColumnMeta {
    /// Decodes a standalone ColumnMetaData, as stored in an encrypted module.
    pub(in crate::parquet) fn decode(reader: &mut Reader<'_>, leaf: &SchemaLeaf, path: &[&str]) -> Result<Self> {
        Self::read(Record::new(reader, "ColumnMetaData"), leaf, path)
    }

    fn read(mut record: Record<'_, '_>, leaf: &SchemaLeaf, path: &[&str]) -> Result<Self> {
        let (mut physical, mut path_matches) = (None, None);
        let (mut codec, mut encodings, mut num_values) = (None, None, None);
        let (mut total_compressed_size, mut data_page_offset, mut dictionary_page_offset) = (None, None, None);
        let (mut bloom_filter_offset, mut bloom_filter_length) = (None, None);
        let (mut statistics, mut all_dictionary) = (None, false);
        let (mut total_uncompressed_size, mut string_bytes) = (None, None);
        while let Some(id) = record.next()? {
            match id {
                1 => physical = record.i32()?.map(Physical::from_code),
                2 => encodings = encoding_set(&mut record)?,
                3 => path_matches = Some(same_path(&mut record, path)?),
                4 => codec = record.i32()?,
                5 => num_values = record.i64()?,
                6 => total_uncompressed_size = record.i64()?,
                7 => total_compressed_size = record.i64()?,
                9 => data_page_offset = record.i64()?,
                11 => dictionary_page_offset = record.i64()?,
                12 => statistics = Some(ByteSpan::value(&mut record)?),
                13 => all_dictionary = every_page_uses_the_dictionary(&mut record)?,
                14 => bloom_filter_offset = record.i64()?,
                15 => bloom_filter_length = record.i32()?,
                16 => string_bytes = bytes_of_strings(&mut record)?,
                _ => record.skip()?,
            }
        }
        let at = record.offset();
        // Using another column's statistics or filter would skip matching rows.
        if !required(path_matches, "ColumnMetaData.path_in_schema", at)? {
            return Err(Error::at(
                ErrorKind::File(FileKind::ChunkDisagrees { field: "ColumnMetaData.path_in_schema" }),
                at,
            ));
        }
        if required(physical, "ColumnMetaData.type", at)? != leaf.physical {
            return Err(Error::at(ErrorKind::File(FileKind::ChunkDisagrees { field: "ColumnMetaData.type" }), at));
        }
        Ok(Self {
            codec: required(codec, "ColumnMetaData.codec", at)?,
            encodings: required(encodings, "ColumnMetaData.encodings", at)?,
            num_values: required(num_values, "ColumnMetaData.num_values", at)?,
            total_compressed_size: required(total_compressed_size, "ColumnMetaData.total_compressed_size", at)?,
            total_uncompressed_size: total_uncompressed_size.unwrap_or(-1),
            string_bytes,
            data_page_offset: required(data_page_offset, "ColumnMetaData.data_page_offset", at)?,
            dictionary_page_offset,
            all_dictionary,
            bloom_filter_offset,
            bloom_filter_length,
            statistics,
        })
    }

    /// Returns the position of all pages of the chunk, which must end before `limit`, the end of the file's data.
    pub fn data(&self, limit: u64) -> Result<Range<u64>> {
        // The dictionary page comes first. 0 is the position of the magic bytes; some writers store it for "no
        // dictionary".
        let start = match self.dictionary_page_offset {
            // A chunk without values may have a dictionary page but no data page.
            Some(dictionary) if dictionary > 0 && self.data_page_offset <= 0 => dictionary,
            Some(dictionary) if dictionary > 0 => dictionary.min(self.data_page_offset),
            _ => self.data_page_offset,
        };
        let length = self.total_compressed_size;
        let range = u64::try_from(start).ok().zip(u64::try_from(length).ok());
        match range.and_then(|(start, length)| Some(start..start.checked_add(length)?)) {
            Some(range) if range.end <= limit => Ok(range),
            _ => Err(Error::new(ErrorKind::File(FileKind::OutsideFile {
                what: "a column chunk",
                offset: start,
                length: Some(length),
                limit,
            }))),
        }
    }

    pub(in crate::parquet) fn move_spans(&mut self, by: usize) -> Option<()> {
        if let Some(statistics) = &mut self.statistics {
            *statistics = statistics.shifted(by)?;
        }
        Some(())
    }
}

impl<'a> Statistics<'a> {
    pub(in crate::parquet) fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut statistics = Self::default();
        let mut reader = Reader::new(bytes, 0);
        let mut record = Record::new(&mut reader, "Statistics");
        while let Some(id) = record.next()? {
            match id {
                1 => statistics.old_max = record.binary()?,
                2 => statistics.old_min = record.binary()?,
                3 => statistics.null_count = record.i64()?,
                5 => statistics.max_value = record.binary()?,
                6 => statistics.min_value = record.binary()?,
                7 => statistics.max_is_exact = record.bool()?,
                8 => statistics.min_is_exact = record.bool()?,
                9 => statistics.nan_count = record.i64()?,
                _ => record.skip()?,
            }
        }
        Ok(statistics)
    }
}

/// PLAIN_DICTIONARY and RLE_DICTIONARY.
const DICTIONARY_ENCODINGS: [i32; 2] = [2, 8];

fn encoding_set(record: &mut Record<'_, '_>) -> Result<Option<u32>> {
    let Some((len, reader)) = record.list(Type::I32)? else { return Ok(None) };
    let mut set = 0;
    for _ in 0..len {
        set |= 1 << u32::try_from(reader.i32()?).unwrap_or(31).min(31);
    }
    Ok(Some(set))
}

/// Reads the first field of SizeStatistics, and skips the histograms.
fn bytes_of_strings(record: &mut Record<'_, '_>) -> Result<Option<i64>> {
    let Some(mut sizes) = record.record("SizeStatistics")? else { return Ok(None) };
    let mut bytes = None;
    while let Some(id) = sizes.next()? {
        match id {
            1 => bytes = sizes.i64()?,
            _ => sizes.skip()?,
        }
    }
    Ok(bytes)
}

fn every_page_uses_the_dictionary(record: &mut Record<'_, '_>) -> Result<bool> {
    let Some((len, reader)) = record.list(Type::Struct)? else { return Ok(false) };
    let (mut dictionary, mut other) = (false, false);
    for _ in 0..len {
        let (mut page, mut encoding, mut count) = (None, None, None);
        let mut stats = Record::new(reader, "PageEncodingStats");
        while let Some(id) = stats.next()? {
            match id {
                1 => page = stats.i32()?,
                2 => encoding = stats.i32()?,
                3 => count = stats.i32()?,
                _ => stats.skip()?,
            }
        }
        match (page, encoding, count) {
            // Ignore index and dictionary pages, which contain no rows, and entries that count no pages.
            (Some(1 | 2), ..) | (Some(0 | 3), Some(_), Some(0)) => {}
            (Some(0 | 3), Some(encoding), Some(_)) if DICTIONARY_ENCODINGS.contains(&encoding) => dictionary = true,
            _ => other = true,
        }
    }
    Ok(dictionary && !other)
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
