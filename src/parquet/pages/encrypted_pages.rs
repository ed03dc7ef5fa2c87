//! The pages of an encrypted column chunk. Each page consists of a module with its header and a module with its body.

use crate::crypto::split_module;
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};
use crate::parquet::meta::file_metadata::{Metadata, column_ordinal};
use crate::parquet::open::decryptor::Decryptor;
use crate::parquet::pages::page::{NextPage, PageHeader, PageKind};

/// Counts the pages of an encrypted chunk, because AADs contain their ordinals.
#[derive(Debug, Default)]
pub(in crate::parquet) struct EncryptedPages {
    has_pages: bool,
    data_pages: usize,
}

/// Decrypts the pages of a chunk.
pub(in crate::parquet) struct PageDecryptor<'a> {
    pub(in crate::parquet) decryptor: &'a dyn Decryptor,
    pub(in crate::parquet) metadata: &'a Metadata,
    pub(in crate::parquet) position: (usize, usize),
}

impl EncryptedPages {
    /// Decrypts the page at the start of `bytes`, which begin at offset `at` of their file.
    pub(in crate::parquet) fn next<'a>(
        &mut self,
        bytes: &'a [u8],
        at: u64,
        page_decryptor: &PageDecryptor<'_>,
    ) -> Result<NextPage<'a>> {
        let (module, rest) = match split_module(bytes) {
            Ok(split) => split,
            Err(error) => return NextPage::incomplete_after(bytes, error),
        };
        let (header, data_page) = self.header(module, at, page_decryptor)?;
        let Some(body) = to_usize(header.stored_len).and_then(|len| rest.get(..len)) else {
            return Ok(NextPage::incomplete_of_len(
                bytes,
                to_u64(module.len()) + header.stored_len,
                header.stored_len,
                at,
            ));
        };
        let len = module.len() + body.len();
        let body = page_decryptor.body(body, &header, data_page)?;
        self.has_pages = true;
        self.data_pages += usize::from(data_page.is_some());
        Ok(NextPage::Complete(header, body.into(), len))
    }

    /// Decrypts a page header, and returns it with the ordinal of its data page.
    ///
    /// Only the first page of a chunk may be a dictionary page. The page type is required to decrypt the header, so for
    /// the first page both types are tried.
    fn header(&self, module: &[u8], at: u64, page_decryptor: &PageDecryptor<'_>) -> Result<(PageHeader, Option<i16>)> {
        let data_page = Some(column_ordinal(self.data_pages)?);
        let open = |page| {
            page_decryptor.decryptor.open_page_header(page_decryptor.metadata, page_decryptor.position, page, module)
        };
        let (plain, page) = match open(data_page) {
            Ok(plain) => (plain, data_page),
            Err(error) if error.kind() == &ErrorKind::File(FileKind::Decryption) && !self.has_pages => {
                (open(None)?, None)
            }
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

impl PageDecryptor<'_> {
    fn body(&self, stored: &[u8], header: &PageHeader, data_page: Option<i16>) -> Result<Vec<u8>> {
        let open = |module| self.decryptor.open_page(self.metadata, self.position, data_page, module);
        let levels = match header.kind {
            // For version 2 data pages, Arrow encrypts the levels together with the values. parquet-java stores them in
            // plaintext.
            PageKind::DataV2 { levels_len, .. } if !is_module(stored) => to_usize(levels_len),
            _ => Some(0),
        };
        let (levels, module) = levels.and_then(|len| stored.split_at_checked(len)).ok_or_else(|| {
            Error::new(ErrorKind::Truncated { needed: header.stored_len, available: to_u64(stored.len()) })
        })?;
        Ok([levels, &open(module)?].concat())
    }
}

/// Returns true if the bytes start with their own length.
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
    use crate::parquet::pages::decode::tests::{ChunkHashes, hash_chunk};
    use crate::parquet::{FilterLocation, Footer, ParquetFile, fixtures};
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
        let key_ring = opened.key_ring(&keys).unwrap();
        let decryptor = key_ring.as_ref().map(|key_ring| key_ring as &dyn Decryptor);
        let range = opened.chunk_range(0, column)?;
        let bytes = &file[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
        hash_chunk(&opened, (0, column), bytes, decryptor)
    }

    #[test]
    fn a_module_starts_with_its_length() {
        for (bytes, expected) in [
            (&[3, 0, 0, 0, 7, 8, 9][..], true),
            (&[0, 0, 0, 0], true),
            (&[2, 0, 0, 0, 7, 8, 9], false),
            (&[4, 0, 0, 0, 7, 8, 9], false),
            (&[3, 0, 0], false),
            (&[], false),
        ] {
            assert_eq!(is_module(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn encrypted_chunks_and_their_filters_contain_the_same_values() {
        let Some(file) = fixtures::file("encrypt_columns_and_footer") else { return };
        let (opened, keys) = (open(&file), keys());
        let key_ring = opened.key_ring(&keys).unwrap().unwrap();
        for (column, width) in [(0, 8), (1, 4)] {
            let chunk = hash(&file, column).unwrap();
            let expect: Vec<u64> = (0..2000u32)
                .map(|i| match width {
                    8 => hash_bytes(&(f64::from(i) + 0.5).to_le_bytes()),
                    _ => hash_bytes(&(i as f32 + 0.25).to_le_bytes()),
                })
                .collect();
            assert_eq!(chunk.num_values, 2000);
            assert_eq!(chunk.hashes.len(), 2000);
            assert!(expect.iter().all(|hash| chunk.hashes.binary_search(hash).is_ok()));
            let location = opened.filter_location(0, column).unwrap().unwrap();
            let (filter, _) = drive(&file, |fetched| opened.read_filter(&location, Some(&key_ring), fetched)).unwrap();
            assert!(chunk.hashes.iter().all(|hash| filter.may_contain_hash(*hash)));
            // Without a length, the filter may be large. It is decrypted too, because its blocks cannot be read alone.
            let location = FilterLocation { length: None, ..location };
            let probe = |fetched: &_| opened.probe_filter(&location, Some(&key_ring), &chunk.hashes, fetched);
            let (answers, _) = drive(&file, probe).unwrap();
            assert!(answers.iter().all(|may_contain| *may_contain));
        }
    }

    #[test]
    fn all_chunks_of_encrypted_files_can_be_decrypted() {
        let mut num_hashes = BTreeMap::new();
        for name in ["encrypt_columns_and_footer", "encrypt_columns_plaintext_footer", "uniform_encryption"] {
            let Some(file) = fixtures::file(name) else { return };
            for column in 0..open(&file).metadata.leaves().len() {
                match hash(&file, column) {
                    Ok(chunk) => *num_hashes.entry(name).or_insert(0) += chunk.hashes.len(),
                    Err(error) => assert!(
                        matches!(error.kind(), ErrorKind::File(FileKind::NoHash { .. })),
                        "{name} {column}: {error}"
                    ),
                }
            }
        }
        assert!(num_hashes.values().all(|values| *values > 0), "{num_hashes:?}");
    }

    #[test]
    fn a_page_that_is_cut_off_needs_its_own_length() {
        let Some(file) = fixtures::file("encrypt_columns_and_footer") else { return };
        let (opened, keys) = (open(&file), keys());
        let key_ring = opened.key_ring(&keys).unwrap().unwrap();
        let range = opened.chunk_range(0, 0).unwrap();
        let bytes = &file[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
        let next = |bytes| {
            let decryptor = PageDecryptor { decryptor: &key_ring, metadata: &opened.metadata, position: (0, 0) };
            EncryptedPages::default().next(bytes, 0, &decryptor).unwrap()
        };
        let NextPage::Complete(header, _, len) = next(bytes) else { panic!("the chunk has a page") };
        let NextPage::Incomplete(needed, error) = next(&bytes[..len - 1]) else { panic!("the page is cut off") };
        assert_eq!(needed, len);
        let (needed, available) = (header.stored_len, header.stored_len - 1);
        assert_eq!(error.kind(), &ErrorKind::Truncated { needed, available });
    }

    #[test]
    fn damaged_pages_fail_to_decrypt() {
        let Some(file) = fixtures::file("encrypt_columns_and_footer") else { return };
        let range = open(&file).chunk_range(0, 0).unwrap();
        for at in (to_usize(range.start).unwrap()..to_usize(range.end).unwrap()).step_by(211) {
            let mut damaged = file.clone();
            damaged[at] ^= 0x10;
            assert!(hash(&damaged, 0).is_err(), "byte {at}");
        }
        let opened = open(&file);
        let bytes = &file[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
        let without_keys = hash_chunk(&opened, (0, 0), bytes, None);
        assert!(matches!(without_keys.unwrap_err().kind(), ErrorKind::File(FileKind::KeyMissing { .. })));
    }
}
