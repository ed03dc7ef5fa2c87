//! The pages of an encrypted column chunk: for each page a module with its header, and one with its body.

use crate::crypto::split_module;
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};
use crate::parquet::meta::file_metadata::{Metadata, column_ordinal};
use crate::parquet::open::decryptor::Vault;
use crate::parquet::pages::page::{Found, PageHeader, PageKind};

/// The pages of one encrypted chunk that were met so far.
#[derive(Debug, Default)]
pub(in crate::parquet) struct SealedPages {
    any: bool,
    data_pages: usize,
}

/// Whose pages they are, and who can open them.
pub(in crate::parquet) struct Opener<'a> {
    pub(in crate::parquet) vault: &'a dyn Vault,
    pub(in crate::parquet) metadata: &'a Metadata,
    pub(in crate::parquet) place: (usize, usize),
}

impl SealedPages {
    /// The page at the start of `bytes`, which lie at offset `at` of their file, decrypted.
    pub(in crate::parquet) fn next<'a>(&mut self, bytes: &'a [u8], at: u64, opener: &Opener<'_>) -> Result<Found<'a>> {
        let (module, rest) = match split_module(bytes) {
            Ok(split) => split,
            Err(error) => return Found::more_after(bytes, error),
        };
        let (header, data_page) = self.header(module, at, opener)?;
        let Some(body) = to_usize(header.stored_len).and_then(|len| rest.get(..len)) else {
            return Ok(Found::more_up_to(bytes, to_u64(module.len()) + header.stored_len, header.stored_len, at));
        };
        let len = module.len() + body.len();
        let body = opener.body(body, &header, data_page)?;
        self.any = true;
        self.data_pages += usize::from(data_page.is_some());
        Ok(Found::Page(header, body.into(), len))
    }

    /// The header, and which data page it belongs to. Only the first page of a chunk may be a dictionary, and which it is
    /// must be known before it can be read; so the first is tried both ways.
    fn header(&self, module: &[u8], at: u64, opener: &Opener<'_>) -> Result<(PageHeader, Option<i16>)> {
        let data_page = Some(column_ordinal(self.data_pages)?);
        let open = |page| opener.vault.open_page_header(opener.metadata, opener.place, page, module);
        let (plain, page) = match open(data_page) {
            Ok(plain) => (plain, data_page),
            Err(error) if error.kind() == &ErrorKind::File(FileKind::Decryption) && !self.any => (open(None)?, None),
            Err(error) => return Err(error),
        };
        let header = PageHeader::decode(&plain, at)?;
        match (header.kind, page) {
            (PageKind::Dictionary { .. }, None) | (PageKind::Data { .. } | PageKind::DataV2 { .. }, Some(_)) => {
                Ok((header, page))
            }
            _ => Err(Error::at(ErrorKind::File(FileKind::Decryption), at)),
        }
    }
}

impl Opener<'_> {
    fn body(&self, stored: &[u8], header: &PageHeader, data_page: Option<i16>) -> Result<Vec<u8>> {
        let open = |module| self.vault.open_page(self.metadata, self.place, data_page, module);
        let levels = match header.kind {
            // Arrow encrypts the levels of such a page with its values, parquet-java leaves them in plaintext before.
            PageKind::DataV2 { levels_len, .. } if !is_module(stored) => to_usize(levels_len),
            _ => Some(0),
        };
        let (levels, module) = levels.and_then(|len| stored.split_at_checked(len)).ok_or_else(|| {
            Error::new(ErrorKind::Truncated { needed: header.stored_len, available: to_u64(stored.len()) })
        })?;
        Ok([levels, &open(module)?].concat())
    }
}

/// Whether these bytes begin with their own length.
fn is_module(bytes: &[u8]) -> bool {
    let mut cursor = Cursor::new(bytes, 0);
    cursor.u32().is_ok_and(|claimed| u64::from(claimed) == to_u64(cursor.remaining()))
}

#[cfg(all(test, feature = "crypto"))]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::crypto::{Key, KeyRing};
    use crate::hash::hash_bytes;
    use crate::isa::InstructionSet;
    use crate::parquet::{ChunkHashes, Footer, ParquetFile, fixtures};
    use crate::ranges::tests::drive;

    fn keys() -> KeyRing {
        let key = |bytes| Key::new(bytes).unwrap();
        let ring = KeyRing::new().with_footer_key(key(b"0123456789012345"));
        let ring = ring.with_column_key("double_field", key(b"1234567890123450"));
        ring.with_column_key("float_field", key(b"1234567890123451"))
    }

    fn open(file: &[u8]) -> ParquetFile {
        let (tail, bytes) = fixtures::footer(file);
        ParquetFile::open_with(Footer { tail, bytes, file_len: to_u64(file.len()) }, &keys()).unwrap()
    }

    fn hash(file: &[u8], column: usize) -> Result<ChunkHashes> {
        let (opened, keys) = (open(file), keys());
        let secrets = opened.secrets(&keys).unwrap();
        let vault = secrets.as_ref().map(|secrets| secrets as &dyn Vault);
        let range = opened.chunk_range(0, column)?;
        let bytes = &file[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
        let isa = InstructionSet::detect();
        let whole = opened.hash_chunk(0, column, bytes, vault, u64::MAX, isa);
        let mut scan = opened.scan_chunk(0, column, u64::MAX, isa)?;
        let fed = bytes.chunks(77).try_for_each(|piece| scan.feed(&opened, piece, vault));
        assert_eq!(whole, fed.and_then(|()| scan.finish()), "pieces tell the same");
        whole
    }

    #[test]
    fn encrypted_chunks_hold_the_values_that_their_filters_hold() {
        let Some(file) = fixtures::file("encrypt_columns_and_footer") else { return };
        let (opened, keys) = (open(&file), keys());
        let secrets = opened.secrets(&keys).unwrap().unwrap();
        for (column, width) in [(0, 8), (1, 4)] {
            let found = hash(&file, column).unwrap();
            let expect: Vec<u64> = (0..2000u32)
                .map(|i| match width {
                    8 => hash_bytes(&(f64::from(i) + 0.5).to_le_bytes()),
                    _ => hash_bytes(&(i as f32 + 0.25).to_le_bytes()),
                })
                .collect();
            assert_eq!(found.num_values, 2000);
            assert_eq!(found.hashes.len(), 2000);
            assert!(expect.iter().all(|hash| found.hashes.binary_search(hash).is_ok()));
            let place = opened.filter_place(0, column).unwrap().unwrap();
            let (filter, _) = drive(&file, |fetched| opened.read_filter(&place, Some(&secrets), fetched)).unwrap();
            assert!(found.hashes.iter().all(|hash| filter.may_contain_hash(*hash)));
        }
    }

    #[test]
    fn every_chunk_of_the_encrypted_files_opens() {
        let mut seen = BTreeMap::new();
        for name in ["encrypt_columns_and_footer", "encrypt_columns_plaintext_footer", "uniform_encryption"] {
            let Some(file) = fixtures::file(name) else { return };
            for column in 0..open(&file).metadata.leaves().len() {
                match hash(&file, column) {
                    Ok(found) => *seen.entry(name).or_insert(0) += found.hashes.len(),
                    Err(error) => assert!(
                        matches!(error.kind(), ErrorKind::File(FileKind::NoHash { .. })),
                        "{name} {column}: {error}"
                    ),
                }
            }
        }
        assert!(seen.values().all(|values| *values > 0), "{seen:?}");
    }

    #[test]
    fn damaged_pages_do_not_authenticate() {
        let Some(file) = fixtures::file("encrypt_columns_and_footer") else { return };
        let range = open(&file).chunk_range(0, 0).unwrap();
        for at in (to_usize(range.start).unwrap()..to_usize(range.end).unwrap()).step_by(211) {
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            assert!(hash(&damaged, 0).is_err(), "byte {at}");
        }
        let opened = open(&file);
        let bytes = &file[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
        let closed = opened.hash_chunk(0, 0, bytes, None, u64::MAX, InstructionSet::detect());
        assert!(matches!(closed.unwrap_err().kind(), ErrorKind::File(FileKind::KeyMissing { .. })));
    }
}
