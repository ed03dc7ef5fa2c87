//! Finds the Bloom filter of a column chunk, and the bytes of it that a probe needs.
//!
//! ```text
//! plain      header | block 0 | block 1 | …                 a probe reads the header and one block of 32 bytes
//! encrypted  module 8 (header) | module 9 (whole bitset)    a probe reads everything, or nothing is authenticated
//! ```

use std::ops::Range;

use crate::bloom::{Block, Sbbf, header};
use crate::crypto::{MODULE_OVERHEAD, module_len};
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};
use crate::parquet::meta::chunk::Protection;
use crate::parquet::open::decryptor::{Decryptor, FilterPart};
use crate::parquet::open::file::ParquetFile;
use crate::ranges::{Fetched, Step};

/// Size of the first read of a header: several times the longest header that known writers produce.
const HEADER_WINDOW: u64 = 64;
/// Maximum size of a header. parquet-java pads encrypted headers to 100 bytes.
const MAX_HEADER: u64 = 4096;
/// Filters up to this size are read completely: a second request would cost more than the additional bytes.
const SMALL_FILTER: u64 = 4096;

/// Position of a filter according to the metadata of its column chunk, validated against the file's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterLocation {
    /// Index of the row group.
    pub row_group: usize,
    /// Index of the column among the leaves.
    pub column: usize,
    /// Offset in the file.
    pub offset: u64,
    /// Size in bytes including header and encryption, if the writer stores it.
    pub length: Option<u64>,
    /// The encryption of its column.
    pub protection: Protection,
    /// End of the file's data.
    pub data_end: u64,
}

/// A plaintext header that is consistent with the metadata and the file's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterHeader {
    /// Number of blocks of the bitset.
    pub num_blocks: u64,
    /// Position of the bitset in the file.
    pub bitset: Range<u64>,
}

/// The bytes at the position of a filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterBytes {
    /// A plaintext filter including its header.
    Plain(Range<u64>),
    /// Two encrypted modules.
    Encrypted(Range<u64>),
}

impl ParquetFile {
    /// Returns the position of a column chunk's filter, or `None` if it has none.
    pub fn filter_location(&self, row_group: usize, column: usize) -> Result<Option<FilterLocation>> {
        let chunk = self.metadata.chunk(row_group, column)?;
        if chunk.in_other_file {
            return Err(Error::new(ErrorKind::File(FileKind::DataElsewhere)));
        }
        let meta = chunk.meta.as_ref().ok_or_else(|| self.no_key(column))?;
        let Some(offset) = meta.bloom_filter_offset else { return Ok(None) };
        let data_end = self.data_end();
        let length = meta.bloom_filter_length.map(i64::from);
        let outside = || {
            Error::new(ErrorKind::File(FileKind::OutsideFile {
                what: "a Bloom filter",
                offset,
                length,
                limit: data_end,
            }))
        };
        let start = u64::try_from(offset).ok().filter(|start| *start < data_end).ok_or_else(outside)?;
        let valid_length =
            length.map(|length| u64::try_from(length).ok().filter(|length| (1..=data_end - start).contains(length)));
        let length = match valid_length {
            Some(None) => return Err(outside()),
            Some(Some(length)) => Some(length),
            None => None,
        };
        Ok(Some(FilterLocation { row_group, column, offset: start, length, protection: chunk.protection, data_end }))
    }

    /// Reads a complete filter.
    pub fn read_filter(
        &self,
        location: &FilterLocation,
        decryptor: Option<&dyn Decryptor>,
        fetched: &Fetched,
    ) -> Result<Step<Sbbf>> {
        if location.protection != Protection::Plain {
            return self.read_encrypted(location, decryptor, fetched);
        }
        if let Some(full_range) = location.full_range()
            && fetched.get(&full_range).is_none()
        {
            return Ok(fetched.need(&full_range));
        }
        match location.header(fetched)? {
            Step::Need(ranges) => Ok(Step::Need(ranges)),
            Step::Ready(header) => match fetched.get(&header.bitset) {
                Some(bitset) => Sbbf::from_bitset(bitset).map(Step::Ready),
                None => Ok(fetched.need(&header.bitset)),
            },
        }
    }

    /// Checks whether values with these hashes may be in the filter, and reads as little of it as possible.
    pub fn probe_filter(
        &self,
        location: &FilterLocation,
        decryptor: Option<&dyn Decryptor>,
        hashes: &[u64],
        fetched: &Fetched,
    ) -> Result<Step<Vec<bool>>> {
        let small = location.length.is_some_and(|length| length <= SMALL_FILTER);
        if small || location.protection != Protection::Plain {
            let filter = self.read_filter(location, decryptor, fetched)?;
            return Ok(filter.map(|filter| hashes.iter().map(|hash| filter.may_contain_hash(*hash)).collect()));
        }
        let header = match location.header(fetched)? {
            Step::Ready(header) => header,
            Step::Need(mut ranges) => {
                // The length determines the size of a header in its usual form, so the blocks can be requested together
                // with the header. If the header has another form, the right blocks are requested afterwards.
                if fetched.prefix(location.offset).is_empty()
                    && let Some(guess) = location.guess_header()
                {
                    let blocks = guess.blocks(hashes);
                    // Do not request bytes that the header's range already covers.
                    let window = ranges.iter().map(|range| range.end).max().unwrap_or(0);
                    ranges.extend(blocks.into_iter().filter(|block| block.start >= window));
                }
                return Ok(Step::Need(ranges));
            }
        };
        if let Some(bitset) = fetched.get(&header.bitset) {
            let filter = Sbbf::from_bitset(bitset)?;
            return Ok(Step::Ready(hashes.iter().map(|hash| filter.may_contain_hash(*hash)).collect()));
        }
        let missing: Vec<_> = header.blocks(hashes).iter().filter_map(|block| fetched.missing(block)).collect();
        if !missing.is_empty() {
            return Ok(Step::Need(missing));
        }
        let answers = hashes.iter().map(|&hash| {
            let block = fetched.get(&header.block(hash)).unwrap_or_default();
            Sbbf::from_bitset(block).map(|block| block.may_contain_hash(hash))
        });
        answers.collect::<Result<Vec<bool>>>().map(Step::Ready)
    }

    /// Encodes a new filter, encrypted if its column is.
    pub fn encode_filter(
        &self,
        row_group: usize,
        column: usize,
        filter: &Sbbf,
        decryptor: Option<&dyn Decryptor>,
    ) -> Result<Vec<u8>> {
        if self.metadata.chunk(row_group, column)?.protection == Protection::Plain {
            return filter.to_bytes();
        }
        let decryptor = decryptor.ok_or_else(|| self.no_key(column))?;
        let seal = |part, plain: &[u8]| decryptor.seal_filter(&self.metadata, (row_group, column), part, plain);
        let mut bytes = seal(FilterPart::Header, &header::encode(filter.num_blocks())?)?;
        bytes.extend(seal(FilterPart::Bitset, filter.bitset())?);
        Ok(bytes)
    }

    /// Returns the size that `encode_filter` produces for this number of blocks.
    pub fn encoded_filter_len(&self, row_group: usize, column: usize, num_blocks: u64) -> Result<u64> {
        let plain = to_u64(header::encode(num_blocks)?.len()) + num_blocks * to_u64(Block::BYTES);
        Ok(match self.metadata.chunk(row_group, column)?.protection {
            Protection::Plain => plain,
            _ => plain + 2 * MODULE_OVERHEAD,
        })
    }

    fn read_encrypted(
        &self,
        location: &FilterLocation,
        decryptor: Option<&dyn Decryptor>,
        fetched: &Fetched,
    ) -> Result<Step<Sbbf>> {
        let decryptor = decryptor.ok_or_else(|| self.no_key(location.column))?;
        if let Some(full_range) = location.full_range()
            && fetched.get(&full_range).is_none()
        {
            return Ok(fetched.need(&full_range));
        }
        let modules = match location.encrypted_modules(fetched)? {
            Step::Ready(modules) => modules,
            Step::Need(ranges) => return Ok(Step::Need(ranges)),
        };
        let [Some(first), Some(second)] = modules.clone().map(|module| fetched.get(&module)) else {
            return Ok(fetched.need(&(modules[0].start..modules[1].end)));
        };
        let open =
            |part, module| decryptor.open_filter(&self.metadata, (location.row_group, location.column), part, module);
        // The bytes after the header in its module are padding.
        let header = header::decode(&open(FilterPart::Header, first)?, location.offset)?;
        let filter = Sbbf::from_bitset(&open(FilterPart::Bitset, second)?)?;
        match (header.num_blocks, filter.num_blocks()) {
            (claimed, actual) if claimed == actual => Ok(Step::Ready(filter)),
            (claimed, actual) => Err(Error::at(
                ErrorKind::File(FileKind::FilterLength { stated: claimed * 32, actual: actual * 32 }),
                location.offset,
            )),
        }
    }

    pub(in crate::parquet) fn no_footer_key(&self) -> Error {
        Error::new(if cfg!(feature = "crypto") {
            ErrorKind::File(FileKind::KeyMissing { what: "the footer".to_owned() })
        } else {
            ErrorKind::File(FileKind::NoCrypto)
        })
    }

    pub(in crate::parquet) fn no_key(&self, column: usize) -> Error {
        if !cfg!(feature = "crypto") {
            return Error::new(ErrorKind::File(FileKind::NoCrypto));
        }
        let path = self.metadata.leaves().get(column).map(|leaf| self.metadata.path(leaf).join("."));
        Error::new(ErrorKind::File(FileKind::KeyMissing { what: format!("column {:?}", path.unwrap_or_default()) }))
    }
}

impl FilterLocation {
    /// Returns the range of the complete filter, if its length is stored.
    pub fn full_range(&self) -> Option<Range<u64>> {
        self.length.map(|length| self.offset..self.offset + length)
    }

    /// Reads the header of a plaintext filter.
    pub fn header(&self, fetched: &Fetched) -> Result<Step<FilterHeader>> {
        let room = self.end() - self.offset;
        let max_header = room.min(MAX_HEADER);
        let available = fetched.prefix(self.offset);
        let available = &available[..available.len().min(to_usize(max_header).unwrap_or(usize::MAX))];
        let decoded = match header::decode(available, self.offset) {
            Ok(decoded) => decoded,
            Err(error) if !is_truncated(&error) => return Err(error),
            Err(_) if to_u64(available.len()) < max_header => {
                let window = (to_u64(available.len()) * 4).clamp(HEADER_WINDOW, MAX_HEADER).min(max_header);
                return Ok(fetched.need(&(self.offset..self.offset + window)));
            }
            Err(_) if max_header == MAX_HEADER => {
                return Err(Error::at(ErrorKind::File(FileKind::FilterHeaderTooLong(MAX_HEADER)), self.offset));
            }
            Err(error) => return Err(error),
        };
        let start = self.offset + to_u64(decoded.len);
        let bitset = start..start + decoded.num_blocks * to_u64(Block::BYTES);
        let actual = bitset.end - self.offset;
        match self.length {
            Some(stated) if stated != actual => {
                Err(Error::at(ErrorKind::File(FileKind::FilterLength { stated, actual }), self.offset))
            }
            _ if bitset.end > self.data_end => {
                let available = self.data_end - start;
                Err(Error::at(ErrorKind::BitsetBeyondInput { claimed: actual, available }, start))
            }
            _ => Ok(Step::Ready(FilterHeader { num_blocks: decoded.num_blocks, bitset })),
        }
    }

    /// Returns the kind and range of the bytes to be wiped. The filter of an encrypted column should be encrypted, but
    /// may not be.
    pub fn extent(&self, fetched: &Fetched) -> Result<Step<FilterBytes>> {
        // Encrypted modules only look like a plain header if their length, nonce and ciphertext happen to be valid
        // Thrift.
        let plain = match self.header(fetched) {
            Ok(Step::Need(ranges)) => return Ok(Step::Need(ranges)),
            Ok(Step::Ready(header)) => return Ok(Step::Ready(FilterBytes::Plain(self.offset..header.bitset.end))),
            Err(error) => error,
        };
        match self.sealed_modules(fetched) {
            Ok(modules) => Ok(modules.map(|[header, bitset]| FilterBytes::Encrypted(header.start..bitset.end))),
            // It is neither, so its exact range is unknown.
            Err(_) => Err(plain),
        }
    }

    /// Finds the two modules of an encrypted filter. A plaintext filter is an error.
    fn encrypted_modules(&self, fetched: &Fetched) -> Result<Step<[Range<u64>; 2]>> {
        match self.header(fetched) {
            Ok(Step::Need(ranges)) => Ok(Step::Need(ranges)),
            Ok(Step::Ready(_)) => Err(Error::at(ErrorKind::File(FileKind::PlaintextFilter), self.offset)),
            Err(_) => self.sealed_modules(fetched),
        }
    }

    fn sealed_modules(&self, fetched: &Fetched) -> Result<Step<[Range<u64>; 2]>> {
        let header = match self.module(self.offset, MAX_HEADER + MODULE_OVERHEAD, fetched)? {
            Step::Ready(module) => module,
            Step::Need(ranges) => return Ok(Step::Need(ranges)),
        };
        let bitset = match self.module(header.end, u64::MAX, fetched)? {
            Step::Ready(module) => module,
            // The header's module precedes the next length, and both are needed.
            Step::Need(_) => return Ok(fetched.need(&(self.offset..header.end + 4))),
        };
        let actual = bitset.end - self.offset;
        match self.length {
            Some(stated) if stated != actual => {
                Err(Error::at(ErrorKind::File(FileKind::FilterLength { stated, actual }), self.offset))
            }
            _ => Ok(Step::Ready([header, bitset])),
        }
    }

    /// Finds the module at `start`, which must have at most `max_len` bytes.
    fn module(&self, start: u64, max_len: u64, fetched: &Fetched) -> Result<Step<Range<u64>>> {
        let prefix = start..start + 4;
        let outside = |len| {
            let available = self.end().saturating_sub(start);
            Error::at(ErrorKind::Truncated { needed: len, available }, start)
        };
        if prefix.end > self.end() {
            return Err(outside(4));
        }
        let Some(bytes) = fetched.get(&prefix) else { return Ok(fetched.need(&prefix)) };
        let mut length = [0; 4];
        length.copy_from_slice(bytes);
        let len = module_len(length)?;
        match start + len {
            _ if len > max_len => Err(Error::at(ErrorKind::File(FileKind::ModuleLength(len)), start)),
            end if end > self.end() => Err(outside(len)),
            end => Ok(Step::Ready(start..end)),
        }
    }

    /// Returns the header of a filter of this length, assuming the header has its usual form.
    fn guess_header(&self) -> Option<FilterHeader> {
        let full_range = self.full_range()?;
        let length = full_range.end - full_range.start;
        (15..=19).find_map(|header_len| {
            let bitset = length.checked_sub(header_len)?;
            let num_blocks = Sbbf::blocks_of(bitset).ok()?;
            let usual = to_u64(header::encode(num_blocks).ok()?.len()) == header_len;
            usual.then(|| FilterHeader { num_blocks, bitset: full_range.start + header_len..full_range.end })
        })
    }

    /// Returns the end of the range that may belong to the filter.
    fn end(&self) -> u64 {
        self.full_range().map_or(self.data_end, |full_range| full_range.end)
    }
}

impl FilterHeader {
    /// Returns the range of the block that contains the bits of a hash.
    pub fn block(&self, hash: u64) -> Range<u64> {
        let start = self.bitset.start + block_index(hash, self.num_blocks) * to_u64(Block::BYTES);
        start..start + to_u64(Block::BYTES)
    }

    /// Returns the distinct blocks that contain the bits of `hashes`, in file order.
    fn blocks(&self, hashes: &[u64]) -> Vec<Range<u64>> {
        let mut blocks: Vec<_> = hashes.iter().map(|&hash| self.block(hash)).collect();
        blocks.sort_by_key(|block| block.start);
        blocks.dedup();
        blocks
    }
}

/// Returns the block of a hash by multiply-shift, as in section 2 of the specification.
pub fn block_index(hash: u64, num_blocks: u64) -> u64 {
    // Both factors have at most 32 bits, because a filter has fewer than 2^26 blocks.
    ((hash >> 32) * num_blocks) >> 32
}

/// Returns true if decoding may succeed with more bytes.
fn is_truncated(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Truncated { .. } | ErrorKind::ThriftContainer { .. })
}

#[cfg(test)]
#[path = "locate_tests.rs"]
mod tests;
