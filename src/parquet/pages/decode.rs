//! The distinct values of a column chunk, as hashes: what a new filter is made of.
//!
//! Where every data page refers to the dictionary, the dictionary alone is hashed. It may hold values that no row has, which
//! costs a little room and never an answer. Whatever is not understood is an error: a value left out would become a false
//! "no".

use std::ops::Range;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};
use crate::isa::InstructionSet;
use crate::parquet::meta::chunk::Protection;
use crate::parquet::open::decryptor::Vault;
use crate::parquet::open::file::ParquetFile;
use crate::parquet::pages::codec::Codec;
use crate::parquet::pages::distinct::Distinct;
use crate::parquet::pages::encrypted_pages::{Opener, SealedPages};
use crate::parquet::pages::page::{Found, PageHeader, PageKind, encoding, next_page, values_start};
use crate::parquet::pages::values::{Hasher, Width};

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
        let mut scan = self.scan_chunk(row_group, column, most, isa)?;
        scan.feed(self, bytes, vault)?;
        scan.finish()
    }

    /// The same for bytes that come piece by piece, so that memory is bounded by a page and the distinct values.
    pub fn scan_chunk(&self, row_group: usize, column: usize, most: u64, isa: InstructionSet) -> Result<ChunkScan> {
        let range = self.chunk_range(row_group, column)?;
        let chunk = self.metadata.chunk(row_group, column)?;
        let (leaf, meta) = (&self.metadata.leaves()[column], chunk.meta.as_ref().ok_or_else(|| self.no_key(column))?);
        let width = Width::of(leaf).ok_or_else(|| {
            let column = self.metadata.path(leaf).join(".");
            Error::new(ErrorKind::File(FileKind::NoHash { column, reason: "its physical type has no hash" }))
        })?;
        let hasher = Hasher { physical: leaf.physical, width, isa, distinct: Distinct::new(most) };
        let codec = Codec::from_code(meta.codec)?;
        let (max_rep, max_def) = (leaf.max_rep, leaf.max_def);
        Ok(ChunkScan {
            place: (row_group, column),
            at: range.start,
            left: range,
            rest: Vec::new(),
            wanted: 1,
            sealed: (chunk.protection != Protection::Plain).then(SealedPages::default),
            stated: meta.num_values,
            chunk: Chunk {
                max_rep,
                max_def,
                codec,
                hasher,
                dictionary: false,
                plain: false,
                num_values: 0,
                scratch: Vec::new(),
            },
        })
    }
}

/// A column chunk whose bytes come piece by piece.
#[derive(Debug)]
pub struct ChunkScan {
    place: (usize, usize),
    /// Where the next page begins.
    at: u64,
    /// The bytes that have not come.
    left: Range<u64>,
    /// The beginning of a page, until its end comes.
    rest: Vec<u8>,
    /// With so many bytes it may be whole.
    wanted: usize,
    sealed: Option<SealedPages>,
    stated: i64,
    chunk: Chunk,
}

impl ChunkScan {
    /// The bytes of the chunk that have not come yet.
    pub fn left(&self) -> Range<u64> {
        self.left.clone()
    }

    /// Takes the next bytes of the chunk, of the `file` that the scan is of.
    pub fn feed(&mut self, file: &ParquetFile, mut bytes: &[u8], vault: Option<&dyn Vault>) -> Result<()> {
        // What follows the chunk is none of its business.
        let left = to_usize(self.left.end - self.left.start).unwrap_or(usize::MAX);
        bytes = &bytes[..bytes.len().min(left)];
        self.left.start += to_u64(bytes.len());
        while !self.rest.is_empty() {
            let (more, after) = bytes.split_at(self.wanted.saturating_sub(self.rest.len()).min(bytes.len()));
            self.rest.extend_from_slice(more);
            bytes = after;
            if self.rest.len() < self.wanted && !self.left.is_empty() {
                return Ok(());
            }
            let rest = std::mem::take(&mut self.rest);
            let (used, wanted) = self.page(file, &rest, vault, bytes.is_empty() && self.left.is_empty())?;
            self.rest = rest;
            self.rest.drain(..used);
            self.wanted = wanted;
            if used == 0 && bytes.is_empty() {
                return Ok(());
            }
        }
        while !bytes.is_empty() {
            let (used, wanted) = self.page(file, bytes, vault, self.left.is_empty())?;
            bytes = &bytes[used..];
            if used == 0 {
                self.rest.extend_from_slice(bytes);
                self.wanted = wanted;
                break;
            }
        }
        Ok(())
    }

    /// Takes the page at the start of `bytes`: how long it was, or 0 and how many bytes to wait for. `last` says that no
    /// more come.
    fn page(
        &mut self,
        file: &ParquetFile,
        bytes: &[u8],
        vault: Option<&dyn Vault>,
        last: bool,
    ) -> Result<(usize, usize)> {
        let found = match &mut self.sealed {
            Some(pages) => {
                let vault = vault.ok_or_else(|| file.no_key(self.place.1))?;
                let opener = Opener { vault, metadata: &file.metadata, place: self.place };
                pages.next(bytes, self.at, &opener)?
            }
            None => next_page(bytes, self.at)?,
        };
        match found {
            Found::Page(header, body, len) => {
                self.chunk.page(&header, &body)?;
                self.at += to_u64(len);
                Ok((len, 1))
            }
            Found::More(_, missing) if last => Err(missing),
            Found::More(wanted, _) => Ok((0, wanted)),
        }
    }

    /// The values, when all bytes have come.
    pub fn finish(self) -> Result<ChunkHashes> {
        if !self.left.is_empty() || !self.rest.is_empty() {
            let needed = self.left.end - self.left.start;
            return Err(Error::at(ErrorKind::Truncated { needed, available: 0 }, self.left.start));
        }
        // Fewer would mean pages that we have not seen.
        match u64::try_from(self.stated) {
            Ok(stated) if stated == self.chunk.num_values => Ok(ChunkHashes {
                all_dictionary: self.chunk.dictionary && !self.chunk.plain,
                hashes: self.chunk.hasher.distinct.into_sorted()?,
                num_values: stated,
            }),
            stated => {
                let (stated, found) = (stated.unwrap_or(0), self.chunk.num_values);
                Err(Error::at(ErrorKind::File(FileKind::ValueCount { stated, found }), self.left.end))
            }
        }
    }
}

/// What the pages of a chunk held so far.
#[derive(Debug)]
struct Chunk {
    max_rep: i16,
    max_def: i16,
    codec: Codec,
    hasher: Hasher,
    /// Whether the dictionary was met, and with it every value that it holds.
    dictionary: bool,
    /// Whether any values stand outside the dictionary.
    plain: bool,
    num_values: u64,
    /// Where pages are decompressed.
    scratch: Vec<u8>,
}

impl Chunk {
    fn page(&mut self, header: &PageHeader, body: &[u8]) -> Result<()> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let taken = self.take(header, body, &mut scratch);
        self.scratch = scratch;
        taken
    }

    fn take(&mut self, header: &PageHeader, body: &[u8], scratch: &mut Vec<u8>) -> Result<()> {
        match header.kind {
            PageKind::Index => Ok(()),
            PageKind::Dictionary { num_values, encoding: encoding::PLAIN | encoding::PLAIN_DICTIONARY } => {
                let plain = self.codec.decompress(body, header.uncompressed_len, scratch)?;
                let most = u64::from(num_values);
                let found = self.hasher.take(encoding::PLAIN, plain, most)?;
                self.dictionary = true;
                enough(found, most)
            }
            PageKind::Dictionary { encoding, .. } => Err(Error::new(ErrorKind::File(FileKind::PageEncoding(encoding)))),
            PageKind::Data { num_values, encoding, rep_encoding, def_encoding } => {
                let plain = self.codec.decompress(body, header.uncompressed_len, scratch)?;
                let levels = [(self.max_rep, rep_encoding), (self.max_def, def_encoding)];
                let start = values_start(plain, num_values, levels)?;
                // How many are null is known only from the levels; a column without levels has no nulls.
                let least = if self.max_def == 0 { num_values } else { 0 };
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
                let plain = if len == 0 { &[] } else { codec.decompress(stored, len, scratch)? };
                self.values(encoding, plain, num_values, num_values.saturating_sub(num_nulls))
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
