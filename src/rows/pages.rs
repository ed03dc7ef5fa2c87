//! The pages of a chunk for the `parquet` crate, which decodes their levels and values.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use super::levels::{Levels, Records, hybrid_of};
use super::values::without_values;
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result, RowsKind};
use crate::int::{to_u64, to_usize};
use crate::parquet::{Codec, PageHeader, PageKind, Physical, SchemaLeaf, body_parts, encoding};

/// A page whose bytes were fetched.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    pub(super) header: PageHeader,
    /// The body as stored, or decompressed.
    pub(super) body: Bytes,
    /// True if the body of a version 1 data page was decompressed.
    pub(super) is_unpacked: bool,
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
        let (mut page, rows) = match self.dictionary.take() {
            Some(dictionary) => (dictionary, None),
            None => match self.data.pop_front() {
                Some(DataPage { loaded: Some(page), rows }) => (page, rows),
                Some(_) => return Err(ParquetError::General("a page without wanted rows was read".to_owned())),
                None => return Ok(None),
            },
        };
        let decoded = self.decode(&mut page, rows).and_then(|page| {
            self.check_next(rows)?;
            Ok(Some(page))
        });
        decoded.map_err(|error| {
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
    pub(super) fn empty_dictionary() -> Self {
        let kind = PageKind::Dictionary { num_values: 0, encoding: encoding::PLAIN };
        Self {
            header: PageHeader { kind, uncompressed_len: 0, stored_len: 0, len: 0 },
            body: Bytes::new(),
            is_unpacked: false,
        }
    }

    /// Returns true if the values of the page refer to the dictionary.
    pub(super) fn uses_dictionary(&self) -> bool {
        match self.header.kind {
            PageKind::Data { encoding, .. } | PageKind::DataV2 { encoding, .. } => {
                matches!(encoding, encoding::PLAIN_DICTIONARY | encoding::RLE_DICTIONARY)
            }
            PageKind::Dictionary { .. } | PageKind::Index => false,
        }
    }

    /// Decompresses a version 1 data page, and replaces levels in the deprecated encoding. Other pages have levels that
    /// are not compressed.
    pub(super) fn unpack(&mut self, codec: Codec, leaf: &SchemaLeaf) -> Result<()> {
        let PageKind::Data { num_values, rep_encoding, def_encoding, .. } = &mut self.header.kind else {
            return Ok(());
        };
        if self.is_unpacked {
            return Ok(());
        }
        self.body = decompress(codec, &self.body, self.header.uncompressed_len)?;
        self.is_unpacked = true;
        let levels = [(leaf.max_rep, *rep_encoding), (leaf.max_def, *def_encoding)];
        if levels.iter().any(|(max, encoding)| *max > 0 && *encoding == encoding::BIT_PACKED) {
            let parts = body_parts(&self.body, *num_values, levels)?;
            let mut body = Vec::new();
            for (part, (max, encoding)) in [parts.rep, parts.def].into_iter().zip(levels) {
                let hybrid = match encoding {
                    _ if max == 0 => continue,
                    encoding::BIT_PACKED => Cow::Owned(hybrid_of(part, max, *num_values)),
                    _ => Cow::Borrowed(part),
                };
                let len = u32::try_from(hybrid.len()).map_err(|_| Error::new(ErrorKind::IntegerRange))?;
                body.extend_from_slice(&len.to_le_bytes());
                body.extend_from_slice(&hybrid);
            }
            body.extend_from_slice(parts.values);
            self.body = Bytes::from(body);
            (*rep_encoding, *def_encoding) = (encoding::RLE, encoding::RLE);
        }
        Ok(())
    }

    /// Counts the records of an unpacked data page.
    pub(super) fn records(&self, leaf: &SchemaLeaf) -> Result<Records> {
        self.rep_levels(leaf)?.records()
    }

    /// Returns true if an unpacked data page continues a record of the page before.
    fn continues(&self, leaf: &SchemaLeaf) -> Result<bool> {
        let levels = self.rep_levels(leaf)?;
        Levels { count: levels.count.min(1), ..levels }.records().map(|records| records.continues)
    }

    /// Returns the repetition levels of an unpacked data page.
    fn rep_levels(&self, leaf: &SchemaLeaf) -> Result<Levels<'_>> {
        let (bytes, encoding, count) = match self.header.kind {
            PageKind::Data { num_values, rep_encoding, def_encoding, .. } => {
                let levels = [(leaf.max_rep, rep_encoding), (leaf.max_def, def_encoding)];
                (body_parts(&self.body, num_values, levels)?.rep, rep_encoding, num_values)
            }
            PageKind::DataV2 { num_values, rep_len, .. } => {
                let available = to_u64(self.body.len());
                let truncated = || Error::new(ErrorKind::Truncated { needed: rep_len, available });
                let levels = to_usize(rep_len).and_then(|len| self.body.get(..len)).ok_or_else(truncated)?;
                (levels, encoding::RLE, num_values)
            }
            PageKind::Dictionary { .. } | PageKind::Index => (&[][..], encoding::RLE, 0),
        };
        Ok(Levels { bytes, encoding, max: leaf.max_rep, count })
    }
}

impl ChunkPages {
    /// Checks that the page after a page of `rows` rows does not continue the last of them. That page was fetched if the
    /// row is wanted.
    fn check_next(&mut self, rows: Option<usize>) -> Result<()> {
        if self.leaf.max_rep > 0
            && rows.is_some()
            && let Some(DataPage { loaded: Some(next), .. }) = self.data.front_mut()
        {
            next.unpack(self.codec, &self.leaf)?;
            if next.continues(&self.leaf)? {
                return Err(Error::new(ErrorKind::Rows(RowsKind::OffsetIndex)));
            }
        }
        Ok(())
    }

    /// Decompresses a page, which has `rows` rows according to the offset index.
    fn decode(&self, page: &mut Loaded, rows: Option<usize>) -> Result<Page> {
        page.unpack(self.codec, &self.leaf)?;
        let Loaded { header, body, .. } = page;
        match header.kind {
            PageKind::Dictionary { num_values, encoding: encoding::PLAIN | encoding::PLAIN_DICTIONARY } => {
                let buf = decompress(self.codec, body, header.uncompressed_len)?;
                // The crate allocates memory for this number of values.
                let needed = u64::from(num_values) * self.min_len();
                if needed > to_u64(buf.len()) {
                    return Err(Error::new(ErrorKind::Truncated { needed, available: to_u64(buf.len()) }));
                }
                if self.leaf.physical == Physical::ByteArray {
                    self.check_byte_arrays(&buf, num_values.into())?;
                }
                Ok(Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false })
            }
            PageKind::Data { num_values, encoding, rep_encoding, def_encoding } => {
                let encoding = self.value_encoding(encoding)?;
                let buf = body.clone();
                // The crate trusts the lengths of levels.
                let levels = [(self.leaf.max_rep, rep_encoding), (self.leaf.max_def, def_encoding)];
                let parts = body_parts(&buf, num_values, levels)?;
                let (records, present) =
                    self.count((parts.rep, rep_encoding), (parts.def, def_encoding), num_values)?;
                if let (Some(records), Some(rows)) = (records, rows)
                    && records != (Records { begin: to_u64(rows), continues: false })
                {
                    return Err(Error::new(ErrorKind::Rows(RowsKind::OffsetIndex)));
                }
                let encoding = without_values(encoding, parts.values, present);
                self.check_values(encoding, parts.values, num_values, present)?;
                Ok(Page::DataPage {
                    buf,
                    num_values,
                    encoding,
                    // Other encodings were replaced or refused, unless there are no levels.
                    def_level_encoding: Encoding::RLE,
                    rep_level_encoding: Encoding::RLE,
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
                    Bytes::from(plain)
                };
                let rep = to_usize(rep_len).filter(|len| *len <= levels).ok_or_else(truncated)?;
                let (rep, def) = (&buf[..rep], &buf[rep..levels]);
                let (_, present) = self.count((rep, encoding::RLE), (def, encoding::RLE), num_values)?;
                if u64::from(num_values) != present + u64::from(num_nulls) {
                    return Err(Error::new(ErrorKind::Rows(RowsKind::Levels)));
                }
                let values = buf.get(levels..).unwrap_or_default();
                let encoding = without_values(encoding, values, present);
                self.check_values(encoding, values, num_values, present)?;
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

    /// Counts the records of a page, unless it has no repetition levels, and its values that are not null.
    ///
    /// The crate trusts that there are as many levels as the page claims. Others could make it loop forever.
    fn count(&self, rep: (&[u8], i32), def: (&[u8], i32), count: u32) -> Result<(Option<Records>, u64)> {
        let SchemaLeaf { max_rep, max_def, .. } = self.leaf;
        let levels = |(bytes, encoding), max| Levels { bytes, encoding, max, count };
        let records = if max_rep > 0 { Some(levels(rep, max_rep).records()?) } else { None };
        let values = if max_def > 0 { levels(def, max_def).values()? } else { count.into() };
        Ok((records, values))
    }

    /// Returns the size of the largest value of the dictionary, or an upper bound if that is at most `enough`.
    pub(super) fn largest_entry(&self, enough: u64) -> Result<u64> {
        let Some(dictionary) = &self.dictionary else { return Ok(0) };
        let len = dictionary.header.uncompressed_len;
        if self.leaf.physical != Physical::ByteArray || len <= enough {
            return Ok(if self.leaf.physical == Physical::ByteArray { len } else { 0 });
        }
        let plain = decompress(self.codec, &dictionary.body, len)?;
        let mut cursor = Cursor::new(&plain, 0);
        let mut largest = 0;
        while cursor.remaining() > 0 {
            let len = cursor.u32()?;
            cursor.take(to_usize(len.into()).unwrap_or(usize::MAX))?;
            largest = largest.max(u64::from(len));
        }
        Ok(largest)
    }

    /// Returns how long a decoded value may be, by the encodings of its data pages.
    pub(super) fn largest_delta(&self) -> u64 {
        let of_page = |page: &DataPage| {
            let Loaded { header, .. } = page.loaded.as_ref()?;
            let (PageKind::Data { encoding, .. } | PageKind::DataV2 { encoding, .. }) = header.kind else {
                return None;
            };
            (encoding == encoding::DELTA_BYTE_ARRAY).then_some(header.uncompressed_len)
        };
        self.data.iter().filter_map(of_page).max().unwrap_or(0)
    }
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
