//! The distinct values of a column chunk, as hashes: what a new filter is made of.
//!
//! Where every data page refers to the dictionary, the dictionary alone is hashed. It may hold values that no row has, which
//! costs a little room and never an answer. Whatever is not understood is an error: a value left out would become a false
//! "no".

use std::ops::Range;

use super::chunk::Protection;
use super::codec::Codec;
use super::file::ParquetFile;
use super::page::{PageHeader, PageKind, Pages, encoding, values_start};
use super::schema::Leaf;
use super::sealed::SealedPages;
use super::values::{Distinct, Hasher, Width};
use super::vault::Vault;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};
use crate::isa::InstructionSet;

/// What a column chunk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkHashes {
    /// The hash of each distinct value, sorted.
    pub hashes: Vec<u64>,
    /// Values, nulls included.
    pub num_values: u64,
    /// Whether the dictionary alone was hashed.
    pub all_dictionary: bool,
}

impl ParquetFile {
    /// Where the pages of a column chunk lie.
    pub fn chunk_range(&self, row_group: usize, column: usize) -> Result<Range<u64>> {
        let chunk = self.metadata.chunk(row_group, column)?;
        if chunk.elsewhere {
            return Err(Error::new(ErrorKind::File(FileKind::DataElsewhere)));
        }
        chunk.meta.as_ref().ok_or_else(|| self.no_key(column))?.data(self.data_end())
    }

    /// Hashes the values in the pages of a column chunk; `bytes` are those of [`ParquetFile::chunk_range`]. More than `most`
    /// distinct values are an error: the caller knows how many its largest filter can take.
    pub fn hash_chunk(
        &self,
        row_group: usize,
        column: usize,
        bytes: &[u8],
        vault: Option<&dyn Vault>,
        most: u64,
        isa: InstructionSet,
    ) -> Result<ChunkHashes> {
        let range = self.chunk_range(row_group, column)?;
        let chunk = self.metadata.chunk(row_group, column)?;
        let (leaf, meta) = (&self.metadata.leaves()[column], chunk.meta.as_ref().ok_or_else(|| self.no_key(column))?);
        let width = Width::of(leaf).ok_or_else(|| {
            let column = self.metadata.path(leaf).join(".");
            Error::new(ErrorKind::File(FileKind::NoHash { column, reason: "its physical type has no hash" }))
        })?;
        let hasher = Hasher { physical: leaf.physical, width, isa, distinct: Distinct::new(most) };
        let codec = Codec::from_code(meta.codec)?;
        let sealed = chunk.protection != Protection::Plain;
        let mut chunk = Chunk { leaf, codec, hasher, dictionary: false, plain: false, num_values: 0 };
        if sealed {
            let vault = vault.ok_or_else(|| self.no_key(column))?;
            let mut pages = SealedPages::new(bytes, range.start, vault, &self.metadata, (row_group, column));
            while let Some((header, body)) = pages.next()? {
                chunk.page(&header, &body)?;
            }
        } else {
            let mut pages = Pages::new(bytes, range.start);
            while let Some((header, body)) = pages.next()? {
                chunk.page(&header, body)?;
            }
        }
        // Fewer would mean pages that we have not seen.
        match u64::try_from(meta.num_values) {
            Ok(stated) if stated == chunk.num_values => Ok(ChunkHashes {
                hashes: chunk.hasher.distinct.into_sorted()?,
                num_values: stated,
                all_dictionary: chunk.dictionary && !chunk.plain,
            }),
            stated => {
                let stated = stated.unwrap_or(0);
                Err(Error::at(ErrorKind::File(FileKind::ValueCount { stated, found: chunk.num_values }), range.start))
            }
        }
    }
}

/// A column chunk whose pages are being read.
struct Chunk<'a> {
    leaf: &'a Leaf,
    codec: Codec,
    hasher: Hasher,
    /// Whether the dictionary was met, and with it every value that it holds.
    dictionary: bool,
    /// Whether any values stand outside the dictionary.
    plain: bool,
    num_values: u64,
}

impl Chunk<'_> {
    fn page(&mut self, header: &PageHeader, body: &[u8]) -> Result<()> {
        match header.kind {
            PageKind::Index => Ok(()),
            PageKind::Dictionary { num_values, encoding: encoding::PLAIN | encoding::PLAIN_DICTIONARY } => {
                let plain = self.codec.decompress(body, header.uncompressed_len)?;
                let most = u64::from(num_values);
                let found = self.hasher.take(encoding::PLAIN, &plain, most)?;
                self.dictionary = true;
                enough(found, most)
            }
            PageKind::Dictionary { encoding, .. } => Err(Error::new(ErrorKind::File(FileKind::PageEncoding(encoding)))),
            PageKind::Data { num_values, encoding, rep_encoding, def_encoding } => {
                let plain = self.codec.decompress(body, header.uncompressed_len)?;
                let levels = [(self.leaf.max_rep, rep_encoding), (self.leaf.max_def, def_encoding)];
                let start = values_start(&plain, num_values, levels)?;
                // How many are null is known only from the levels; a column without levels has no nulls.
                let least = if self.leaf.max_def == 0 { num_values } else { 0 };
                self.values(encoding, &plain[start..], num_values, least)
            }
            PageKind::DataV2 { num_values, num_nulls, encoding, levels_len, is_compressed } => {
                let truncated =
                    || Error::new(ErrorKind::Truncated { needed: levels_len, available: to_u64(body.len()) });
                let levels = to_usize(levels_len).filter(|len| *len <= body.len()).ok_or_else(truncated)?;
                let stored = &body[levels..];
                let len = header.uncompressed_len.checked_sub(levels_len).ok_or_else(truncated)?;
                let codec = if is_compressed && len > 0 { self.codec } else { Codec::Uncompressed };
                // A page of nulls has no values, and some writers compress nothing into something.
                let plain = if len == 0 { Default::default() } else { codec.decompress(stored, len)? };
                self.values(encoding, &plain, num_values, num_values.saturating_sub(num_nulls))
            }
        }
    }

    /// Takes the values of a data page, of which at least `least` are there.
    fn values(&mut self, code: i32, bytes: &[u8], num_values: u32, least: u32) -> Result<()> {
        self.num_values += u64::from(num_values);
        match code {
            encoding::PLAIN_DICTIONARY | encoding::RLE_DICTIONARY => {
                // A page of nulls refers to nothing: one byte says how wide no numbers are.
                let refers = least > 0 || bytes.len() > 1;
                if refers && !self.dictionary {
                    Err(Error::new(ErrorKind::File(FileKind::NoDictionary)))
                } else {
                    Ok(())
                }
            }
            // Where all values are null the encoding has nothing to encode, not even its own header.
            _ if bytes.is_empty() => enough(0, least.into()),
            _ => {
                self.plain = true;
                let found = self.hasher.take(code, bytes, num_values.into())?;
                enough(found, least.into())
            }
        }
    }
}

fn enough(found: u64, least: u64) -> Result<()> {
    if found < least { Err(Error::new(ErrorKind::File(FileKind::ValueCount { stated: least, found }))) } else { Ok(()) }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
