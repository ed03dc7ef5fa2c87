//! Where a column chunk's Bloom filter lies, and which bytes of it a question needs.
//!
//! ```text
//! plain      header | block 0 | block 1 | …                 one probe: the header and one block of 32 bytes
//! encrypted  module 8 (header) | module 9 (whole bitset)    one probe: all of it, or nothing is authenticated
//! ```

use std::ops::Range;

use crate::bloom::{Block, Sbbf, header};
use crate::crypto::{MODULE_OVERHEAD, module_len};
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};
use crate::parquet::meta::chunk::Protection;
use crate::parquet::open::decryptor::{FilterPart, Vault};
use crate::parquet::open::file::ParquetFile;
use crate::ranges::{Fetched, Step};

/// Bytes of the first read where a header is: several times the longest header that writers make.
const HEADER_WINDOW: u64 = 64;
/// A header that goes on for longer is none. parquet-java pads an encrypted one to 100 bytes.
const MAX_HEADER: u64 = 4096;
/// A filter of this size or less is read whole: a second request would cost more than its bytes.
const SMALL: u64 = 4096;

/// Where one filter lies, by the metadata of its column chunk; checked against the file's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterPlace {
    /// Position of the row group.
    pub row_group: usize,
    /// Position of the column among the leaves.
    pub column: usize,
    /// Offset in the file.
    pub offset: u64,
    /// Bytes with the header and the encryption, where the writer says them.
    pub length: Option<u64>,
    /// How its column is encrypted.
    pub protection: Protection,
    /// The first byte after the file's data.
    pub data_end: u64,
}

/// A plaintext header that agrees with the metadata and the file's size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterHeader {
    /// Blocks of the bitset.
    pub num_blocks: u64,
    /// Where the bitset lies.
    pub bitset: Range<u64>,
}

/// What stands where a filter should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// A plaintext filter with its header, at these bytes.
    Plain(Range<u64>),
    /// Two encrypted modules, at these bytes.
    Sealed(Range<u64>),
}

impl ParquetFile {
    /// Where the filter of a column chunk lies; `None` where the writer made none.
    pub fn filter_place(&self, row_group: usize, column: usize) -> Result<Option<FilterPlace>> {
        let chunk = self.metadata.chunk(row_group, column)?;
        if chunk.elsewhere {
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
        let known =
            length.map(|length| u64::try_from(length).ok().filter(|length| (1..=data_end - start).contains(length)));
        let length = match known {
            Some(None) => return Err(outside()),
            Some(Some(length)) => Some(length),
            None => None,
        };
        Ok(Some(FilterPlace { row_group, column, offset: start, length, protection: chunk.protection, data_end }))
    }

    /// Reads a whole filter.
    pub fn read_filter(&self, place: &FilterPlace, vault: Option<&dyn Vault>, fetched: &Fetched) -> Result<Step<Sbbf>> {
        if place.protection != Protection::Plain {
            return self.read_sealed(place, vault, fetched);
        }
        if let Some(whole) = place.whole()
            && fetched.get(&whole).is_none()
        {
            return Ok(fetched.need(&whole));
        }
        match place.header(fetched)? {
            Step::Need(ranges) => Ok(Step::Need(ranges)),
            Step::Ready(header) => match fetched.get(&header.bitset) {
                Some(bitset) => Sbbf::from_bitset(bitset).map(Step::Ready),
                None => Ok(fetched.need(&header.bitset)),
            },
        }
    }

    /// Whether values with these hashes may be in the filter, reading as little of it as that takes.
    pub fn probe_filter(
        &self,
        place: &FilterPlace,
        vault: Option<&dyn Vault>,
        hashes: &[u64],
        fetched: &Fetched,
    ) -> Result<Step<Vec<bool>>> {
        let small = place.length.is_some_and(|length| length <= SMALL);
        if small || place.protection != Protection::Plain {
            let whole = self.read_filter(place, vault, fetched)?;
            return Ok(whole.map(|filter| hashes.iter().map(|hash| filter.may_contain_hash(*hash)).collect()));
        }
        let header = match place.header(fetched)? {
            Step::Ready(header) => header,
            Step::Need(mut ranges) => {
                // The length tells the size of a header of the usual form, so the blocks need not wait for it. Where the
                // header turns out to be another, they were fetched in vain and the right ones follow.
                if fetched.prefix(place.offset).is_empty()
                    && let Some(guess) = place.guess_header()
                {
                    let blocks = guess.blocks(hashes);
                    // What the header's range brings anyway is not asked for twice.
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

    /// The bytes of a new filter as the column's protection asks for.
    pub fn encode_filter(
        &self,
        row_group: usize,
        column: usize,
        filter: &Sbbf,
        vault: Option<&dyn Vault>,
    ) -> Result<Vec<u8>> {
        if self.metadata.chunk(row_group, column)?.protection == Protection::Plain {
            return filter.to_bytes();
        }
        let vault = vault.ok_or_else(|| self.no_key(column))?;
        let seal = |part, plain: &[u8]| vault.seal_filter(&self.metadata, (row_group, column), part, plain);
        let mut bytes = seal(FilterPart::Header, &header::encode(filter.num_blocks())?)?;
        bytes.extend(seal(FilterPart::Bitset, filter.bitset())?);
        Ok(bytes)
    }

    /// Bytes that `encode_filter` makes of so many blocks.
    pub fn encoded_filter_len(&self, row_group: usize, column: usize, num_blocks: u64) -> Result<u64> {
        let plain = to_u64(header::encode(num_blocks)?.len()) + num_blocks * to_u64(Block::BYTES);
        Ok(match self.metadata.chunk(row_group, column)?.protection {
            Protection::Plain => plain,
            _ => plain + 2 * MODULE_OVERHEAD,
        })
    }

    fn read_sealed(&self, place: &FilterPlace, vault: Option<&dyn Vault>, fetched: &Fetched) -> Result<Step<Sbbf>> {
        let vault = vault.ok_or_else(|| self.no_key(place.column))?;
        if let Some(whole) = place.whole()
            && fetched.get(&whole).is_none()
        {
            return Ok(fetched.need(&whole));
        }
        let modules = match place.sealed(fetched)? {
            Step::Ready(modules) => modules,
            Step::Need(ranges) => return Ok(Step::Need(ranges)),
        };
        let [Some(first), Some(second)] = modules.clone().map(|module| fetched.get(&module)) else {
            return Ok(fetched.need(&(modules[0].start..modules[1].end)));
        };
        let open = |part, module| vault.open_filter(&self.metadata, (place.row_group, place.column), part, module);
        // What follows the header inside its module is padding.
        let header = header::decode(&open(FilterPart::Header, first)?, place.offset)?;
        let filter = Sbbf::from_bitset(&open(FilterPart::Bitset, second)?)?;
        match (header.num_blocks, filter.num_blocks()) {
            (claimed, found) if claimed == found => Ok(Step::Ready(filter)),
            (claimed, found) => Err(Error::at(
                ErrorKind::File(FileKind::FilterLength { stated: claimed * 32, actual: found * 32 }),
                place.offset,
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

impl FilterPlace {
    /// All bytes of the filter, where the writer says how many they are.
    pub fn whole(&self) -> Option<Range<u64>> {
        self.length.map(|length| self.offset..self.offset + length)
    }

    /// The header of a plaintext filter.
    pub fn header(&self, fetched: &Fetched) -> Result<Step<FilterHeader>> {
        let room = self.end() - self.offset;
        let most = room.min(MAX_HEADER);
        let available = fetched.prefix(self.offset);
        let available = &available[..available.len().min(to_usize(most).unwrap_or(usize::MAX))];
        let decoded = match header::decode(available, self.offset) {
            Ok(decoded) => decoded,
            Err(error) if !ends_too_early(&error) => return Err(error),
            Err(_) if to_u64(available.len()) < most => {
                let window = (to_u64(available.len()) * 4).clamp(HEADER_WINDOW, MAX_HEADER).min(most);
                return Ok(fetched.need(&(self.offset..self.offset + window)));
            }
            Err(_) if most == MAX_HEADER => {
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

    /// What stands here, for a filter that is to be wiped: of an encrypted column it should be sealed, and may not be.
    pub fn extent(&self, fetched: &Fetched) -> Result<Step<Extent>> {
        // A sealed header passes for a plain one only if its length, its nonce and its ciphertext spell Thrift by chance.
        let plain = match self.header(fetched) {
            Ok(Step::Need(ranges)) => return Ok(Step::Need(ranges)),
            Ok(Step::Ready(header)) => return Ok(Step::Ready(Extent::Plain(self.offset..header.bitset.end))),
            Err(error) => error,
        };
        match self.sealed_modules(fetched) {
            Ok(modules) => Ok(modules.map(|[header, bitset]| Extent::Sealed(header.start..bitset.end))),
            // It is neither, so it cannot be wiped exactly.
            Err(_) => Err(plain),
        }
    }

    /// The two modules of a sealed filter.
    fn sealed(&self, fetched: &Fetched) -> Result<Step<[Range<u64>; 2]>> {
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
            // The header's module lies before the next length, and both are wanted.
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

    /// The range of the module at `start`.
    fn module(&self, start: u64, most: u64, fetched: &Fetched) -> Result<Step<Range<u64>>> {
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
            _ if len > most => Err(Error::at(ErrorKind::File(FileKind::ModuleLength(len)), start)),
            end if end > self.end() => Err(outside(len)),
            end => Ok(Step::Ready(start..end)),
        }
    }

    /// The header that a filter of this length has if it was written in the usual form.
    fn guess_header(&self) -> Option<FilterHeader> {
        let whole = self.whole()?;
        let length = whole.end - whole.start;
        (15..=19).find_map(|header_len| {
            let bitset = length.checked_sub(header_len)?;
            let num_blocks = Sbbf::blocks_of(bitset).ok()?;
            let usual = to_u64(header::encode(num_blocks).ok()?.len()) == header_len;
            usual.then(|| FilterHeader { num_blocks, bitset: whole.start + header_len..whole.end })
        })
    }

    /// The first byte that cannot belong to the filter.
    fn end(&self) -> u64 {
        self.whole().map_or(self.data_end, |whole| whole.end)
    }
}

impl FilterHeader {
    /// Where the one block lies that decides on a hash.
    pub fn block(&self, hash: u64) -> Range<u64> {
        let start = self.bitset.start + block_index(hash, self.num_blocks) * to_u64(Block::BYTES);
        start..start + to_u64(Block::BYTES)
    }

    /// The blocks that decide on all of `hashes`, each once, in file order.
    fn blocks(&self, hashes: &[u64]) -> Vec<Range<u64>> {
        let mut blocks: Vec<_> = hashes.iter().map(|&hash| self.block(hash)).collect();
        blocks.sort_by_key(|block| block.start);
        blocks.dedup();
        blocks
    }
}

/// The block of a hash: multiply-shift, as section 2 of the specification has it.
pub fn block_index(hash: u64, num_blocks: u64) -> u64 {
    // Both factors have 32 bits at most: a filter has fewer than 2^26 blocks.
    ((hash >> 32) * num_blocks) >> 32
}

/// Whether more bytes could help.
fn ends_too_early(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Truncated { .. } | ErrorKind::ThriftContainer { .. })
}

#[cfg(test)]
#[path = "locate_tests.rs"]
mod tests;
