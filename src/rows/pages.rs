//! The pages of a chunk for the `parquet` crate, which decodes their levels and values.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use super::levels::{Records, count_hybrid, count_packed};
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result, RowsKind};
use crate::int::{to_u64, to_usize};
use crate::parquet::{Codec, PageHeader, PageKind, Physical, SchemaLeaf, encoding, values_start};

/// A page whose bytes were fetched.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) header: PageHeader,
    /// The body as stored.
    pub(super) body: Bytes,
}

/// A data page.
#[derive(Debug, Clone)]
pub(super) struct DataPage {
    /// Its number of rows, unless only its levels tell.
    pub(super) rows: Option<usize>,
    /// Its bytes. `None` if no wanted row is in it.
    pub(super) loaded: Option<Loaded>,
}

/// The first error in the pages of a scan. The crate's own errors turn others into text.
#[derive(Debug, Clone, Default)]
pub(super) struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    fn set(&self, error: Error) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(super) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The pages of a chunk, which are decompressed when they are read.
#[derive(Debug, Clone)]
pub(super) struct ChunkPages {
    pub(super) failure: Failure,
    pub(super) codec: Codec,
    pub(super) leaf: SchemaLeaf,
    pub(super) dictionary: Option<Loaded>,
    pub(super) data: VecDeque<DataPage>,
}

impl PageReader for ChunkPages {
    fn get_next_page(&mut self) -> parquet::errors::Result<Option<Page>> {
        let (page, rows) = match self.dictionary.take() {
            Some(dictionary) => (dictionary, None),
            None => match self.data.pop_front() {
                Some(DataPage { loaded: Some(page), rows }) => (page, rows),
                Some(_) => return Err(ParquetError::General("a page without wanted rows was read".to_owned())),
                None => return Ok(None),
            },
        };
        self.decode(&page, rows).map(Some).map_err(|error| {
            let text = error.to_string();
            self.failure.set(error);
            ParquetError::General(text)
        })
    }

    fn peek_next_page(&mut self) -> parquet::errors::Result<Option<PageMetadata>> {
        if self.dictionary.is_some() {
            return Ok(Some(PageMetadata { num_rows: None, num_levels: None, is_dict: true }));
        }
        let levels = |page: &Loaded| match page.header.kind {
            PageKind::Data { num_values, .. } | PageKind::DataV2 { num_values, .. } => to_usize(num_values.into()),
            PageKind::Dictionary { .. } | PageKind::Index => None,
        };
        Ok(self.data.front().map(|page| PageMetadata {
            num_rows: page.rows,
            num_levels: page.loaded.as_ref().and_then(levels),
            is_dict: false,
        }))
    }

    fn skip_next_page(&mut self) -> parquet::errors::Result<()> {
        if self.dictionary.take().is_none() {
            self.data.pop_front();
        }
        Ok(())
    }

    fn at_record_boundary(&mut self) -> parquet::errors::Result<bool> {
        // A page whose number of rows is unknown may continue the last record.
        Ok(self.data.front().is_none_or(|page| page.rows.is_some()))
    }
}

impl Iterator for ChunkPages {
    type Item = parquet::errors::Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl Loaded {
    /// Returns true if the values of the page refer to the dictionary.
    pub(super) fn uses_dictionary(&self) -> bool {
        match self.header.kind {
            PageKind::Data { encoding, .. } | PageKind::DataV2 { encoding, .. } => {
                matches!(encoding, encoding::PLAIN_DICTIONARY | encoding::RLE_DICTIONARY)
            }
            PageKind::Dictionary { .. } | PageKind::Index => false,
        }
    }

    /// Counts the records of a version 2 data page, whose levels are not compressed.
    pub(super) fn records(&self, leaf: &SchemaLeaf) -> Result<Option<Records>> {
        let PageKind::DataV2 { num_values, rep_len, .. } = self.header.kind else { return Ok(None) };
        let truncated = || Error::new(ErrorKind::Truncated { needed: rep_len, available: to_u64(self.body.len()) });
        let levels = to_usize(rep_len).and_then(|len| self.body.get(..len)).ok_or_else(truncated)?;
        count_hybrid(levels, leaf.max_rep, num_values).map(Some)
    }
}

impl ChunkPages {
    /// Decompresses a page, which has `rows` rows according to the offset index.
    fn decode(&self, page: &Loaded, rows: Option<usize>) -> Result<Page> {
        let Loaded { header, body } = page;
        match header.kind {
            PageKind::Dictionary { num_values, encoding: encoding::PLAIN | encoding::PLAIN_DICTIONARY } => {
                let buf = decompress(self.codec, body, header.uncompressed_len)?;
                Ok(Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false })
            }
            PageKind::Data { num_values, encoding, rep_encoding, def_encoding } => {
                let encoding = self.value_encoding(encoding)?;
                let buf = decompress(self.codec, body, header.uncompressed_len)?;
                // The crate trusts the lengths of levels.
                let levels = [(self.leaf.max_rep, rep_encoding), (self.leaf.max_def, def_encoding)];
                values_start(&buf, num_values, levels)?;
                if self.leaf.max_rep > 0
                    && let Some(rows) = rows
                {
                    let records = self.records(&buf, rep_encoding, num_values)?;
                    if records != (Records { begin: to_u64(rows), continues: false }) {
                        return Err(Error::new(ErrorKind::Rows(RowsKind::OffsetIndex)));
                    }
                }
                let (def_level_encoding, rep_level_encoding) =
                    (level_encoding(def_encoding), level_encoding(rep_encoding));
                Ok(Page::DataPage {
                    buf,
                    num_values,
                    encoding,
                    def_level_encoding,
                    rep_level_encoding,
                    statistics: None,
                })
            }
            PageKind::DataV2 { num_values, num_nulls, num_rows, encoding, rep_len, levels_len, is_compressed } => {
                let encoding = self.value_encoding(encoding)?;
                let truncated =
                    || Error::new(ErrorKind::Truncated { needed: levels_len, available: to_u64(body.len()) });
                let levels = to_usize(levels_len).filter(|len| *len <= body.len()).ok_or_else(truncated)?;
                let len = header.uncompressed_len.checked_sub(levels_len).ok_or_else(truncated)?;
                let buf = if !is_compressed || self.codec == Codec::Uncompressed {
                    decompress(Codec::Uncompressed, body, header.uncompressed_len)?
                } else {
                    let mut plain = body[..levels].to_vec();
                    // A page of nulls has no values, but some writers compress it to a non-empty body.
                    if len > 0 {
                        plain.extend_from_slice(self.codec.decompress(&body[levels..], len, &mut Vec::new())?);
                    }
                    plain.into()
                };
                let level_len = |len: u64| u32::try_from(len).map_err(|_| Error::new(ErrorKind::IntegerRange));
                Ok(Page::DataPageV2 {
                    buf,
                    num_values,
                    encoding,
                    num_nulls,
                    num_rows,
                    def_levels_byte_len: level_len(levels_len - rep_len)?,
                    rep_levels_byte_len: level_len(rep_len)?,
                    is_compressed: false,
                    statistics: None,
                })
            }
            PageKind::Dictionary { encoding, .. } => Err(Error::new(ErrorKind::File(FileKind::PageEncoding(encoding)))),
            PageKind::Index => Err(Error::new(ErrorKind::File(FileKind::PageType(1)))),
        }
    }

    /// Counts the records of the decompressed body of a version 1 data page, whose lengths were checked.
    fn records(&self, body: &[u8], encoding: i32, num_values: u32) -> Result<Records> {
        if encoding == encoding::BIT_PACKED {
            return count_packed(body, self.leaf.max_rep, num_values);
        }
        let mut cursor = Cursor::new(body, 0);
        let len = to_usize(cursor.u32()?.into()).unwrap_or(usize::MAX);
        count_hybrid(cursor.take(len)?, self.leaf.max_rep, num_values)
    }

    /// Returns the encoding of values, if the format allows it for the physical type.
    fn value_encoding(&self, code: i32) -> Result<Encoding> {
        use Physical as P;
        let physical = self.leaf.physical;
        let allowed = match (code, physical) {
            (encoding::PLAIN, _) => Some(Encoding::PLAIN),
            (encoding::PLAIN_DICTIONARY | encoding::RLE_DICTIONARY, physical) if physical != P::Boolean => {
                Some(Encoding::RLE_DICTIONARY)
            }
            (encoding::RLE, P::Boolean) => Some(Encoding::RLE),
            (encoding::DELTA_BINARY_PACKED, P::Int32 | P::Int64) => Some(Encoding::DELTA_BINARY_PACKED),
            (encoding::DELTA_LENGTH_BYTE_ARRAY, P::ByteArray) => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            (encoding::DELTA_BYTE_ARRAY, P::ByteArray | P::FixedLenByteArray) => Some(Encoding::DELTA_BYTE_ARRAY),
            (encoding::BYTE_STREAM_SPLIT, P::Int32 | P::Int64 | P::Float | P::Double | P::FixedLenByteArray) => {
                Some(Encoding::BYTE_STREAM_SPLIT)
            }
            _ => None,
        };
        allowed.ok_or_else(|| Error::new(ErrorKind::File(FileKind::PageEncoding(code))))
    }
}

/// Returns the encoding of levels. `values_start` has already refused others, unless there are no levels.
#[expect(deprecated, reason = "old files have levels in this encoding")]
fn level_encoding(code: i32) -> Encoding {
    if code == encoding::BIT_PACKED { Encoding::BIT_PACKED } else { Encoding::RLE }
}

fn decompress(codec: Codec, body: &Bytes, len: u64) -> Result<Bytes> {
    if codec == Codec::Uncompressed && to_u64(body.len()) == len {
        return Ok(body.clone());
    }
    let mut plain = Vec::new();
    let len = codec.decompress(body, len, &mut plain)?.len();
    plain.truncate(len);
    Ok(plain.into())
}
