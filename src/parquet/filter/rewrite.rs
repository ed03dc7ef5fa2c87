//! Plans a file with other filters: the bytes to copy, the bytes to wipe, the positions of new filters, and the new
//! footer. Does not write anything.
//!
//! ```text
//! old   data, old filters, page indexes        | footer | tail
//! new   the same bytes (a few wiped) | filters | footer | tail
//! ```
//!
//! Existing data does not move, so only the offsets of filters change. A file that is changed in place keeps its old
//! footer as unreferenced bytes: truncated after the old footer, it is the old file again.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::crypto::SIGNATURE_LEN;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;
use crate::parquet::filter::locate::{FilterBytes, FilterLocation};
use crate::parquet::filter::patch::{ChunkPatch, Pointer, patch_column_metadata, patch_metadata};
use crate::parquet::meta::chunk::Protection;
use crate::parquet::meta::footer::{MAGIC_LEN, Tail};
use crate::parquet::meta::schema::Physical;
use crate::parquet::open::decryptor::Decryptor;
use crate::parquet::open::file::ParquetFile;
use crate::ranges::{Fetched, Step};

/// A filter to be added to a column chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFilter {
    /// Index of the row group.
    pub row_group: usize,
    /// Index of the column among the leaves.
    pub column: usize,
    /// Number of blocks of its bitset.
    pub num_blocks: u64,
}

/// The position of a new filter. [`ParquetFile::encode_filter`] gives its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlacedFilter {
    /// Index of the row group.
    pub row_group: usize,
    /// Index of the column among the leaves.
    pub column: usize,
    /// Offset in the new file.
    pub offset: u64,
    /// Size in bytes including header and encryption.
    pub length: u64,
}

/// What happens to the old footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldFooter {
    /// It is overwritten by the new bytes.
    Replaced,
    /// It stays, and the new bytes are appended to the complete old file.
    Kept,
}

/// The plan of a new file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// Number of bytes of the old file that come first, unchanged except for `wipe`.
    pub copy: u64,
    /// Ranges of the copied bytes to overwrite with zeros: plaintext filters of encrypted columns.
    pub wipe: Vec<Range<u64>>,
    /// The new filters, contiguous from `copy` on, by row group and then by column.
    pub filters: Vec<PlacedFilter>,
    /// The footer and the tail, which follow the filters.
    pub footer: Vec<u8>,
    /// Size of the new file in bytes.
    pub file_len: u64,
}

type Chunk = (usize, usize);

impl ParquetFile {
    /// Plans a file in which some column chunks get new filters, and others lose theirs.
    pub fn plan_rewrite(
        &self,
        add: &[NewFilter],
        drop: &[Chunk],
        old_footer: OldFooter,
        decryptor: Option<&dyn Decryptor>,
        fetched: &Fetched,
    ) -> Result<Step<Rewrite>> {
        let changed = self.changed(add, drop)?;
        let wipe = match self.plaintext_filters(&changed, fetched)? {
            Step::Ready(wipe) => wipe,
            Step::Need(ranges) => return Ok(Step::Need(ranges)),
        };
        let mut pointers: BTreeMap<Chunk, Pointer> = drop.iter().map(|&chunk| (chunk, Pointer::Clear)).collect();
        let mut filters = Vec::with_capacity(add.len());
        let copy = match old_footer {
            OldFooter::Replaced => self.data_end(),
            OldFooter::Kept => self.footer.file_len,
        };
        let mut end = copy;
        let mut sorted = add.to_vec();
        sorted.sort_by_key(|filter| (filter.row_group, filter.column));
        for NewFilter { row_group, column, num_blocks } in sorted {
            let (offset, length) = (end, self.encoded_filter_len(row_group, column, num_blocks)?);
            end += length;
            filters.push(PlacedFilter { row_group, column, offset, length });
            let too_long = |_| Error::new(ErrorKind::File(FileKind::FilterTooLong(length)));
            let length = i32::try_from(length).map_err(too_long)?;
            let offset = i64::try_from(offset).map_err(too_long)?;
            pointers.insert((row_group, column), Pointer::Set { offset, length });
        }
        let patches = pointers.into_iter().map(|(chunk, pointer)| Ok((chunk, self.patch(chunk, pointer, decryptor)?)));
        let footer = self.footer_with(&patches.collect::<Result<_>>()?, decryptor)?;
        let file_len = end + to_u64(footer.len());
        Ok(Step::Ready(Rewrite { copy, wipe, filters, footer, file_len }))
    }

    /// Returns the chunks that change, after checking that each of them can be changed.
    fn changed(&self, add: &[NewFilter], drop: &[Chunk]) -> Result<BTreeSet<Chunk>> {
        let mut changed = BTreeSet::new();
        let added = add.iter().map(|filter| (filter.row_group, filter.column));
        for (row_group, column) in added.clone().chain(drop.iter().copied()) {
            let chunk = self.metadata.chunk(row_group, column)?;
            if !changed.insert((row_group, column)) {
                let (row_group, column) = (to_u64(row_group), to_u64(column));
                return Err(Error::new(ErrorKind::File(FileKind::ChunkTwice { row_group, column })));
            }
            if chunk.in_other_file {
                return Err(Error::new(ErrorKind::File(FileKind::DataElsewhere)));
            }
            if let Protection::Unknown(member) = chunk.protection {
                let member = Some(member).filter(|&member| member != 0);
                return Err(Error::new(ErrorKind::UnknownUnionMember { union: "ColumnCryptoMetaData", member }));
            }
            if chunk.meta.is_none() {
                return Err(self.no_key(column));
            }
        }
        for (_, column) in added {
            let leaf = &self.metadata.leaves()[column];
            let reason = match leaf.physical {
                Physical::Boolean => "the format defines no hash for BOOLEAN",
                Physical::Unknown(_) => "its physical type is newer than this version of parsieve",
                _ => continue,
            };
            return Err(Error::new(ErrorKind::File(FileKind::NoHash {
                column: self.metadata.path(leaf).join("."),
                reason,
            })));
        }
        Ok(changed)
    }

    /// Returns the change to a chunk: to its metadata in the footer, and to its encrypted metadata.
    fn patch(
        &self,
        (row_group, column): Chunk,
        pointer: Pointer,
        decryptor: Option<&dyn Decryptor>,
    ) -> Result<ChunkPatch> {
        let chunk = self.metadata.chunk(row_group, column)?;
        let mut patch = ChunkPatch { pointer: chunk.in_footer.then_some(pointer), encrypted_meta: None };
        if chunk.encrypted_meta.is_some() {
            let decryptor = decryptor.ok_or_else(|| self.no_key(column))?;
            let plain = decryptor.open_column(&self.metadata, row_group, column)?.unwrap_or_default();
            let plain = patch_column_metadata(&plain, pointer)?;
            patch.encrypted_meta = Some(decryptor.seal_column(&self.metadata, row_group, column, &plain)?);
        }
        Ok(patch)
    }

    /// Returns the new footer with its tail.
    fn footer_with(&self, patches: &BTreeMap<Chunk, ChunkPatch>, decryptor: Option<&dyn Decryptor>) -> Result<Vec<u8>> {
        let mut bytes = patch_metadata(self.metadata.bytes(), patches)?;
        let old_end = self.after_metadata();
        let key = || decryptor.ok_or_else(|| self.no_footer_key());
        match &self.crypto {
            Some(crypto) => bytes = key()?.seal_footer(crypto, &self.footer.bytes, &bytes)?,
            None if self.algorithm().is_some() && !old_end.is_empty() => {
                if old_end.len() != SIGNATURE_LEN {
                    return Err(Error::new(ErrorKind::File(FileKind::ModuleLength(to_u64(old_end.len())))));
                }
                // A new signature asserts that the old footer was valid, so verify the old one first.
                let decryptor = key()?;
                decryptor.verify_footer(self.metadata.bytes(), old_end)?;
                let signature = decryptor.sign_footer(&bytes)?;
                bytes.extend(signature);
            }
            // The bytes after the metadata of an unencrypted file are unknown, so keep them.
            None => bytes.extend(old_end),
        }
        let tail = Tail::encode(self.footer.tail.encrypted, to_u64(bytes.len()))?;
        bytes.extend(tail);
        Ok(bytes)
    }

    /// Returns the ranges of plaintext filters of encrypted columns among the changed chunks. They must not remain in
    /// the file.
    fn plaintext_filters(&self, changed: &BTreeSet<Chunk>, fetched: &Fetched) -> Result<Step<Vec<Range<u64>>>> {
        let (mut wipe, mut needed) = (Vec::new(), Vec::new());
        for &(row_group, column) in changed {
            if self.metadata.chunk(row_group, column)?.protection == Protection::Plain {
                continue;
            }
            let Some(location) = self.old_filter((row_group, column))? else { continue };
            match location.extent(fetched)? {
                Step::Ready(FilterBytes::Plain(range)) => wipe.push(range),
                Step::Ready(FilterBytes::Encrypted(_)) => {}
                Step::Need(ranges) => needed.extend(ranges),
            }
        }
        if !needed.is_empty() {
            return Ok(Step::Need(needed));
        }
        if wipe.is_empty() {
            return Ok(Step::Ready(wipe));
        }
        let claimed = match self.claimed(changed, fetched)? {
            Step::Ready(claimed) => claimed,
            Step::Need(ranges) => return Ok(Step::Need(ranges)),
        };
        // A wrong pointer must not overwrite other data with zeros.
        for range in &wipe {
            if claimed.iter().any(|claimed| claimed.start < range.end && range.start < claimed.end) {
                return Err(Error::new(ErrorKind::File(FileKind::SharedBytes { start: range.start, end: range.end })));
            }
        }
        Ok(Step::Ready(wipe))
    }

    /// Returns all ranges that the metadata refers to, except for the filters of `changed`.
    fn claimed(&self, changed: &BTreeSet<Chunk>, fetched: &Fetched) -> Result<Step<Vec<Range<u64>>>> {
        let end = self.data_end();
        let magic = 0..MAGIC_LEN;
        let (mut claimed, mut needed) = (vec![magic], Vec::new());
        for (row_group, group) in self.metadata.row_groups().iter().enumerate() {
            for (column, chunk) in group.chunks.iter().enumerate() {
                claimed.push(chunk.meta.as_ref().ok_or_else(|| self.no_key(column))?.data(end)?);
                for index in [chunk.column_index, chunk.offset_index].into_iter().flatten() {
                    let start = u64::try_from(index.offset).unwrap_or(0);
                    claimed.push(start..start.saturating_add(u64::try_from(index.length).unwrap_or(end)));
                }
                if changed.contains(&(row_group, column)) {
                    continue;
                }
                let Some(location) = self.old_filter((row_group, column))? else { continue };
                match location.extent(fetched) {
                    Ok(Step::Ready(FilterBytes::Plain(range) | FilterBytes::Encrypted(range))) => claimed.push(range),
                    Ok(Step::Need(ranges)) => needed.extend(ranges),
                    // The end is unknown.
                    Err(_) => claimed.push(location.offset..end),
                }
            }
        }
        Ok(if needed.is_empty() { Step::Ready(claimed) } else { Step::Need(needed) })
    }

    /// Returns the position of an existing filter without its length, because the length in the metadata may be wrong.
    /// The filter's header gives its end. An offset outside of the file gives `None`.
    fn old_filter(&self, (row_group, column): Chunk) -> Result<Option<FilterLocation>> {
        let chunk = self.metadata.chunk(row_group, column)?;
        let offset = chunk.meta.as_ref().and_then(|meta| meta.bloom_filter_offset);
        let data_end = self.data_end();
        let offset = offset.and_then(|offset| u64::try_from(offset).ok()).filter(|offset| *offset < data_end);
        let protection = chunk.protection;
        Ok(offset.map(|offset| FilterLocation { row_group, column, offset, length: None, protection, data_end }))
    }
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
