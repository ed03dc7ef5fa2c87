//! Decodes a column chunk into the hashes of its values, from which a new filter is built.
//!
//! The values of dictionary-encoded pages are the entries of the dictionary that they use. Anything unknown is an error,
//! because a missing value would cause a false "no".

use std::ops::Range;

use crate::arrow::Meaning;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};
use crate::isa::InstructionSet;
use crate::parquet::meta::chunk::Protection;
use crate::parquet::open::decryptor::Decryptor;
use crate::parquet::open::file::ParquetFile;
use crate::parquet::open::writer::always_compresses;
use crate::parquet::pages::codec::Codec;
use crate::parquet::pages::dictionary::{Dictionary, PageValues, count_of_max};
use crate::parquet::pages::encrypted_pages::{EncryptedPages, PageDecryptor};
use crate::parquet::pages::page::{NextPage, PageHeader, PageKind, body_parts, encoding, next_page};
use crate::parquet::pages::values::{EqualReals, Hasher, NarrowInteger, TakeHashes, ValueWidth};

/// A column chunk whose values have been hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedChunk {
    /// Number of values, including nulls.
    pub num_values: u64,
    /// More hashes for a filter: engines look them up for zeros and NaNs, whose bytes may differ from those in the pages.
    pub equal_hashes: Vec<u64>,
    /// True if rows have all values that were hashed. Otherwise, some may only be entries of the dictionary.
    pub is_exact: bool,
}

impl ParquetFile {
    /// Returns the position of a column chunk's pages.
    pub fn chunk_range(&self, row_group: usize, column: usize) -> Result<Range<u64>> {
        let chunk = self.metadata.chunk(row_group, column)?;
        if chunk.in_other_file {
            return Err(Error::new(ErrorKind::File(FileKind::DataElsewhere)));
        }
        chunk.meta.as_ref().ok_or_else(|| self.no_key(column))?.data(self.data_end())
    }

    /// Starts to hash the values of a column chunk, whose bytes are at [`ParquetFile::chunk_range`]. Memory is bounded by
    /// a page.
    pub fn scan_chunk(&self, row_group: usize, column: usize, isa: InstructionSet) -> Result<ChunkScan> {
        let range = self.chunk_range(row_group, column)?;
        let chunk = self.metadata.chunk(row_group, column)?;
        let (leaf, meta) = (&self.metadata.leaves()[column], chunk.meta.as_ref().ok_or_else(|| self.no_key(column))?);
        let width = ValueWidth::of(leaf).ok_or_else(|| {
            let column = self.metadata.path(leaf).join(".");
            Error::new(ErrorKind::File(FileKind::NoHash { column, reason: "its physical type has no hash" }))
        })?;
        let is_real = leaf.column_type().is_some_and(|column_type| column_type.meaning == Meaning::Real);
        let reals = is_real.then(EqualReals::default);
        let hasher = Hasher { physical: leaf.physical, width, narrow: NarrowInteger::of(leaf), reals, isa };
        let codec = Codec::from_code(meta.codec)?;
        let (max_rep, max_def) = (leaf.max_rep, leaf.max_def);
        Ok(ChunkScan {
            position: (row_group, column),
            at: range.start,
            left: range,
            rest: Vec::new(),
            bytes_needed: 1,
            sealed: (chunk.protection != Protection::Plain).then(EncryptedPages::default),
            stated: meta.num_values,
            chunk: ChunkDecoder {
                max_rep,
                max_def,
                codec,
                always_compressed: always_compresses(self.metadata.created_by()),
                hasher,
                dictionary: None,
                has_guesses: false,
                num_values: 0,
                scratch: Vec::new(),
            },
        })
    }
}

/// Decodes a column chunk whose bytes arrive in parts.
#[derive(Debug)]
pub struct ChunkScan {
    position: (usize, usize),
    /// Offset of the next page.
    at: u64,
    /// The range of bytes that have not been fed.
    left: Range<u64>,
    /// The start of an incomplete page.
    rest: Vec<u8>,
    /// Number of bytes with which the incomplete page may be complete.
    bytes_needed: usize,
    sealed: Option<EncryptedPages>,
    stated: i64,
    chunk: ChunkDecoder,
}

impl ChunkScan {
    /// Returns the range of bytes that have not been fed.
    pub fn left(&self) -> Range<u64> {
        self.left.clone()
    }

    /// Returns the number of values according to the metadata, including nulls.
    pub fn stated_values(&self) -> u64 {
        u64::try_from(self.stated).unwrap_or(0)
    }

    /// Feeds the next bytes of the chunk. `file` must be the file of this scan. Calls `take` with the hashes of values,
    /// in batches. Repeated values have repeated hashes.
    pub fn feed(
        &mut self,
        file: &ParquetFile,
        mut bytes: &[u8],
        decryptor: Option<&dyn Decryptor>,
        take: &mut dyn FnMut(&[u64]) -> Result<()>,
    ) -> Result<()> {
        // Ignore bytes after the end of the chunk.
        let left = to_usize(self.left.end - self.left.start).unwrap_or(usize::MAX);
        bytes = &bytes[..bytes.len().min(left)];
        self.left.start += to_u64(bytes.len());
        while !self.rest.is_empty() {
            let (more, after) = bytes.split_at(self.bytes_needed.saturating_sub(self.rest.len()).min(bytes.len()));
            self.rest.extend_from_slice(more);
            bytes = after;
            if self.rest.len() < self.bytes_needed && !self.left.is_empty() {
                return Ok(());
            }
            let rest = std::mem::take(&mut self.rest);
            let (used, bytes_needed) =
                self.page(file, &rest, decryptor, bytes.is_empty() && self.left.is_empty(), take)?;
            self.rest = rest;
            self.rest.drain(..used);
            self.bytes_needed = bytes_needed;
            if used == 0 && bytes.is_empty() {
                return Ok(());
            }
        }
        while !bytes.is_empty() {
            let (used, bytes_needed) = self.page(file, bytes, decryptor, self.left.is_empty(), take)?;
            bytes = &bytes[used..];
            if used == 0 {
                self.rest.extend_from_slice(bytes);
                self.bytes_needed = bytes_needed;
                break;
            }
        }
        Ok(())
    }

    /// Decodes the page at the start of `bytes`.
    ///
    /// Returns the size of the page, or 0 and the number of bytes to wait for. If `last` is true, there are no more
    /// bytes.
    fn page(
        &mut self,
        file: &ParquetFile,
        bytes: &[u8],
        decryptor: Option<&dyn Decryptor>,
        last: bool,
        take: &mut TakeHashes<'_>,
    ) -> Result<(usize, usize)> {
        let next_page = match &mut self.sealed {
            Some(pages) => {
                let decryptor = decryptor.ok_or_else(|| file.no_key(self.position.1))?;
                let page_decryptor = PageDecryptor { decryptor, metadata: &file.metadata, position: self.position };
                pages.next(bytes, self.at, &page_decryptor)?
            }
            None => next_page(bytes, self.at)?,
        };
        match next_page {
            NextPage::Complete(header, body, len) => {
                self.chunk.page(&header, &body, take)?;
                self.at += to_u64(len);
                Ok((len, 1))
            }
            NextPage::Incomplete(_, error) if last => Err(error),
            NextPage::Incomplete(bytes_needed, _) => Ok((0, bytes_needed)),
        }
    }

    /// Returns the numbers of the chunk, once all bytes have been fed. Before that, some hashes may be missing.
    pub fn finish(self) -> Result<ScannedChunk> {
        if !self.left.is_empty() || !self.rest.is_empty() {
            let needed = self.left.end - self.left.start;
            return Err(Error::at(ErrorKind::Truncated { needed, available: 0 }, self.left.start));
        }
        // Fewer values would mean that pages are missing.
        match u64::try_from(self.stated) {
            Ok(stated) if stated == self.chunk.num_values => {
                let guesses = self.chunk.dictionary.as_ref().is_some_and(Dictionary::has_guesses);
                let equal_hashes = self.chunk.hasher.equal_hashes();
                Ok(ScannedChunk { is_exact: !guesses && !self.chunk.has_guesses, num_values: stated, equal_hashes })
            }
            stated => {
                let (stated, found) = (stated.unwrap_or(0), self.chunk.num_values);
                Err(Error::at(ErrorKind::File(FileKind::ValueCount { stated, found }), self.left.end))
            }
        }
    }
}

/// The state of decoding a chunk.
#[derive(Debug)]
struct ChunkDecoder {
    max_rep: i16,
    max_def: i16,
    codec: Codec,
    /// True if the data pages are compressed although their headers may deny it.
    always_compressed: bool,
    hasher: Hasher,
    dictionary: Option<Dictionary>,
    /// True if an earlier dictionary has guesses.
    has_guesses: bool,
    num_values: u64,
    /// Buffer for decompressed pages.
    scratch: Vec<u8>,
}

impl ChunkDecoder {
    fn page(&mut self, header: &PageHeader, body: &[u8], take: &mut TakeHashes<'_>) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = self.decode(header, body, &mut scratch, take);
        self.scratch = scratch;
        result
    }

    fn decode(
        &mut self,
        header: &PageHeader,
        body: &[u8],
        scratch: &mut Vec<u8>,
        take: &mut TakeHashes<'_>,
    ) -> Result<()> {
        match header.kind {
            PageKind::Index => Ok(()),
            PageKind::Dictionary { num_values, encoding: encoding::PLAIN | encoding::PLAIN_DICTIONARY } => {
                let plain = self.codec.decompress(body, header.uncompressed_len, scratch)?;
                let max_values = u64::from(num_values);
                let mut hashes = Vec::new();
                let count = self.hasher.hash(encoding::PLAIN, plain, max_values, &mut |batch| {
                    hashes.extend_from_slice(batch);
                    Ok(())
                })?;
                self.has_guesses |= self.dictionary.as_ref().is_some_and(Dictionary::has_guesses);
                self.dictionary = Some(Dictionary::new(hashes));
                check_count(count, max_values)
            }
            PageKind::Dictionary { encoding, .. } => Err(Error::new(ErrorKind::File(FileKind::PageEncoding(encoding)))),
            PageKind::Data { num_values, encoding, rep_encoding, def_encoding } => {
                let plain = self.codec.decompress(body, header.uncompressed_len, scratch)?;
                let levels = [(self.max_rep, rep_encoding), (self.max_def, def_encoding)];
                let parts = body_parts(plain, num_values, levels)?;
                // The number of nulls is only known from the levels. A column without definition levels has no nulls.
                let min_values = if self.max_def == 0 { num_values } else { 0 };
                let def = (def_encoding == encoding::RLE).then_some(parts.def);
                let present = self.present(encoding, def, num_values);
                let values = PageValues { all: num_values.into(), present };
                self.values(encoding, parts.values, (values, min_values), take)
            }
            PageKind::DataV2 { num_values, num_nulls, encoding, rep_len, levels_len, is_compressed, .. } => {
                let truncated =
                    || Error::new(ErrorKind::Truncated { needed: levels_len, available: to_u64(body.len()) });
                let levels = to_usize(levels_len).filter(|len| *len <= body.len()).ok_or_else(truncated)?;
                let stored = &body[levels..];
                let len = header.uncompressed_len.checked_sub(levels_len).ok_or_else(truncated)?;
                let is_compressed = is_compressed || self.always_compressed;
                let codec = if is_compressed && len > 0 { self.codec } else { Codec::Uncompressed };
                // A page of nulls has no values, but some writers compress it to a non-empty body.
                let plain = if len == 0 { &[] } else { codec.decompress(stored, len, scratch)? };
                let min_values = num_values.saturating_sub(num_nulls);
                let def = to_usize(rep_len).and_then(|rep_len| body.get(rep_len..levels));
                let present = self.present(encoding, def, num_values).map(|present| present.max(min_values.into()));
                let values = PageValues { all: num_values.into(), present };
                self.values(encoding, plain, (values, min_values), take)
            }
        }
    }

    /// Returns the number of values of a dictionary-encoded page that are not null, by its definition levels. They are
    /// `None` if they have a deprecated encoding.
    fn present(&self, code: i32, def: Option<&[u8]>, num_values: u32) -> Option<u64> {
        match (self.max_def, code) {
            (0, _) => Some(num_values.into()),
            (max, encoding::PLAIN_DICTIONARY | encoding::RLE_DICTIONARY) => {
                count_of_max(def?, max.unsigned_abs(), num_values.into())
            }
            _ => None,
        }
    }

    /// Hashes the values of a data page, which must contain at least `min_values`.
    fn values(
        &mut self,
        code: i32,
        bytes: &[u8],
        (values, min_values): (PageValues, u32),
        take: &mut TakeHashes<'_>,
    ) -> Result<()> {
        self.num_values += values.all;
        match code {
            encoding::PLAIN_DICTIONARY | encoding::RLE_DICTIONARY => {
                // A page of nulls does not need the dictionary. It contains at most one byte, the bit width.
                let uses_dictionary = min_values > 0 || bytes.len() > 1;
                match &mut self.dictionary {
                    Some(dictionary) => dictionary.take_used(bytes, values, take),
                    None if uses_dictionary => Err(Error::new(ErrorKind::File(FileKind::NoDictionary))),
                    None => Ok(()),
                }
            }
            // If all values are null, some encodings store nothing, not even a header.
            _ if bytes.is_empty() => check_count(0, min_values.into()),
            _ => {
                let count = self.hasher.hash(code, bytes, values.all, take)?;
                check_count(count, min_values.into())
            }
        }
    }
}

fn check_count(count: u64, min_values: u64) -> Result<()> {
    if count < min_values {
        return Err(Error::new(ErrorKind::File(FileKind::ValueCount { stated: min_values, found: count })));
    }
    Ok(())
}

#[cfg(test)]
#[path = "decode_tests.rs"]
pub(super) mod tests;
