//! Implements encryption with the keys of a caller: the footer, the metadata of columns, filters and pages.

use crate::crypto::{FileAad, Key, KeyRing, Module, decrypt_ctr, open, seal, sign, verify};
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::parquet::meta::chunk::Protection;
use crate::parquet::meta::encryption::{Algorithm, Cipher, FileCrypto};
use crate::parquet::meta::file_metadata::{Metadata, column_ordinal};
use crate::parquet::open::decryptor::{Decryptor, FilterPart};

/// The keys of a caller, bound to a file.
pub struct FileKeyRing<'k> {
    keys: &'k KeyRing,
    aad: FileAad,
    cipher: Cipher,
}

/// The key and the ordinals of a column chunk.
struct ChunkKey<'k> {
    key: &'k Key,
    row_group: i16,
    column: i16,
}

impl<'k> FileKeyRing<'k> {
    /// Binds `keys` to a file encrypted with `algorithm`.
    pub fn new(keys: &'k KeyRing, algorithm: &Algorithm) -> Result<Self> {
        if let Cipher::Unknown(member) = algorithm.cipher {
            let member = Some(member).filter(|&member| member != 0);
            return Err(Error::new(ErrorKind::UnknownUnionMember { union: "EncryptionAlgorithm", member }));
        }
        let prefix = match (algorithm.aad_prefix.as_deref(), keys.aad_prefix()) {
            // The caller's prefix identifies the expected file, so a different stored prefix fails authentication.
            (Some(stored), Some(supplied)) if stored != supplied => {
                return Err(Error::new(ErrorKind::File(FileKind::Decryption)));
            }
            (None, Some(_)) if !algorithm.supply_aad_prefix => {
                return Err(Error::new(ErrorKind::File(FileKind::Decryption)));
            }
            (None, None) if algorithm.supply_aad_prefix => {
                return Err(Error::new(ErrorKind::File(FileKind::AadPrefixMissing)));
            }
            (_, Some(supplied)) => supplied,
            (Some(stored), None) => stored,
            (None, None) => &[],
        };
        Ok(Self { keys, aad: FileAad::new(prefix, &algorithm.aad_file_unique), cipher: algorithm.cipher })
    }

    fn page_aad(&self, modules: (Module, Module), chunk_key: &ChunkKey<'_>, data_page: Option<i16>) -> Vec<u8> {
        match data_page {
            None => self.aad.column(modules.0, chunk_key.row_group, chunk_key.column),
            Some(page) => self.aad.page(modules.1, chunk_key.row_group, chunk_key.column, page),
        }
    }

    fn aad_of(&self, module: Module, chunk_key: &ChunkKey<'_>) -> Vec<u8> {
        self.aad.column(module, chunk_key.row_group, chunk_key.column)
    }

    fn chunk_key(&self, metadata: &Metadata, row_group: usize, column: usize) -> Result<ChunkKey<'k>> {
        let chunk = metadata.chunk(row_group, column)?;
        let key = match chunk.protection {
            Protection::ColumnKey => self.keys.column_key(&metadata.path(&metadata.leaves()[column]))?,
            // A plain chunk has no modules. Opening one fails to authenticate.
            Protection::FooterKey | Protection::Plain => self.keys.footer_key()?,
            Protection::Unknown(member) => {
                let member = Some(member).filter(|&member| member != 0);
                return Err(Error::new(ErrorKind::UnknownUnionMember { union: "ColumnCryptoMetaData", member }));
            }
        };
        Ok(ChunkKey { key, row_group: metadata.ordinal(row_group)?, column: column_ordinal(column)? })
    }
}

impl Decryptor for FileKeyRing<'_> {
    fn open_footer(&self, crypto: &FileCrypto, bytes: &[u8]) -> Result<Vec<u8>> {
        let module = bytes.get(crypto.len..).unwrap_or_default();
        open(self.keys.footer_key()?, &self.aad.footer(), module)
    }

    fn seal_footer(&self, crypto: &FileCrypto, old: &[u8], metadata: &[u8]) -> Result<Vec<u8>> {
        let module = seal(self.keys.footer_key()?, &self.aad.footer(), metadata)?;
        Ok([old.get(..crypto.len).unwrap_or_default(), &module].concat())
    }

    fn verify_footer(&self, metadata: &[u8], signature: &[u8]) -> Result<()> {
        verify(self.keys.footer_key()?, &self.aad.footer(), metadata, signature)
    }

    fn sign_footer(&self, metadata: &[u8]) -> Result<Vec<u8>> {
        Ok(sign(self.keys.footer_key()?, &self.aad.footer(), metadata)?.to_vec())
    }

    fn open_column(&self, metadata: &Metadata, row_group: usize, column: usize) -> Result<Option<Vec<u8>>> {
        let chunk = metadata.chunk(row_group, column)?;
        let Some(module) = metadata.encrypted_meta(chunk) else { return Ok(None) };
        let chunk_key = self.chunk_key(metadata, row_group, column)?;
        open(chunk_key.key, &self.aad_of(Module::ColumnMetaData, &chunk_key), module).map(Some)
    }

    fn seal_column(&self, metadata: &Metadata, row_group: usize, column: usize, plain: &[u8]) -> Result<Vec<u8>> {
        let chunk_key = self.chunk_key(metadata, row_group, column)?;
        seal(chunk_key.key, &self.aad_of(Module::ColumnMetaData, &chunk_key), plain)
    }

    fn open_filter(
        &self,
        metadata: &Metadata,
        (row_group, column): (usize, usize),
        part: FilterPart,
        module: &[u8],
    ) -> Result<Vec<u8>> {
        let chunk_key = self.chunk_key(metadata, row_group, column)?;
        open(chunk_key.key, &self.aad_of(part.into(), &chunk_key), module)
    }

    fn open_page_header(
        &self,
        metadata: &Metadata,
        (row_group, column): (usize, usize),
        data_page: Option<i16>,
        module: &[u8],
    ) -> Result<Vec<u8>> {
        let chunk_key = self.chunk_key(metadata, row_group, column)?;
        let modules = (Module::DictionaryPageHeader, Module::DataPageHeader);
        open(chunk_key.key, &self.page_aad(modules, &chunk_key, data_page), module)
    }

    fn open_page(
        &self,
        metadata: &Metadata,
        (row_group, column): (usize, usize),
        data_page: Option<i16>,
        module: &[u8],
    ) -> Result<Vec<u8>> {
        let chunk_key = self.chunk_key(metadata, row_group, column)?;
        if self.cipher == Cipher::GcmCtr {
            return decrypt_ctr(chunk_key.key, module);
        }
        open(chunk_key.key, &self.page_aad((Module::DictionaryPage, Module::DataPage), &chunk_key, data_page), module)
    }

    fn seal_filter(
        &self,
        metadata: &Metadata,
        (row_group, column): (usize, usize),
        part: FilterPart,
        plain: &[u8],
    ) -> Result<Vec<u8>> {
        let chunk_key = self.chunk_key(metadata, row_group, column)?;
        seal(chunk_key.key, &self.aad_of(part.into(), &chunk_key), plain)
    }
}

impl From<FilterPart> for Module {
    fn from(part: FilterPart) -> Self {
        match part {
            FilterPart::Header => Self::BloomFilterHeader,
            FilterPart::Bitset => Self::BloomFilterBitset,
        }
    }
}

#[cfg(test)]
mod tests {
    use twox_hash::XxHash64;

    use super::*;
    use crate::bloom::{Sbbf, header};
    use crate::crypto::split_module;
    use crate::parquet::{Pointer, fixtures, patch_column_metadata};

    const FOOTER: &[u8] = b"0123456789012345";
    const DOUBLES: &[u8] = b"1234567890123450";
    const FLOATS: &[u8] = b"1234567890123451";
    const WITH_FILTERS: &str = "encrypt_columns_and_footer_bloom_filter";

    fn ring() -> KeyRing {
        let key = |bytes| Key::new(bytes).unwrap();
        let ring = KeyRing::new().with_footer_key(key(FOOTER));
        ring.with_column_key("double_field", key(DOUBLES)).with_column_key("float_field", key(FLOATS))
    }

    fn open_file(keys: &KeyRing, file: &[u8]) -> Result<(Algorithm, Metadata)> {
        let (tail, footer) = fixtures::footer(file);
        let crypto = FileCrypto::decode(&footer, tail.metadata.start)?;
        let key_ring = FileKeyRing::new(keys, &crypto.algorithm)?;
        let mut metadata = Metadata::decode(key_ring.open_footer(&crypto, &footer)?, 0)?;
        key_ring.open_columns(&mut metadata)?;
        Ok((crypto.algorithm, metadata))
    }

    #[test]
    fn filters_encrypted_by_parquet_java_can_be_read() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let keys = ring();
        let (algorithm, metadata) = open_file(&keys, &file).unwrap();
        let key_ring = FileKeyRing::new(&keys, &algorithm).unwrap();
        for (column, offset, value) in [(0, 29667, f64_bytes as fn(u32) -> Vec<u8>), (1, 31879, f32_bytes)] {
            let meta = metadata.chunk(0, column).unwrap().meta.as_ref().unwrap();
            assert_eq!((meta.bloom_filter_offset, meta.bloom_filter_length), (Some(offset), Some(2212)));
            let start = usize::try_from(offset).unwrap();
            let (first, rest) = split_module(&file[start..start + 2212]).unwrap();
            let (second, rest) = split_module(rest).unwrap();
            assert!(rest.is_empty());
            let plain = key_ring.open_filter(&metadata, (0, column), FilterPart::Header, first).unwrap();
            let decoded = header::decode(&plain, 0).unwrap();
            // parquet-java pads the plaintext of the header with zeros.
            assert_eq!((decoded.num_blocks, decoded.len, plain.len()), (64, 16, 100));
            let filter =
                Sbbf::from_bitset(&key_ring.open_filter(&metadata, (0, column), FilterPart::Bitset, second).unwrap())
                    .unwrap();
            for i in 0..2000 {
                assert!(filter.may_contain_hash(XxHash64::oneshot(0, &value(i))), "column {column}, value {i}");
            }
            assert!(!filter.may_contain_hash(XxHash64::oneshot(0, &vec![0; value(0).len()])));
        }
        assert!(metadata.chunk(0, 2).unwrap().meta.as_ref().unwrap().bloom_filter_offset.is_none());
        let names = [0, 1, 2].map(|column| metadata.key_metadata(metadata.chunk(0, column).unwrap()));
        assert_eq!(names, [Some(&b"kc1"[..]), Some(b"kc2"), None], "the names of the columns' keys");
    }

    fn f64_bytes(i: u32) -> Vec<u8> {
        (f64::from(i) + 0.5).to_le_bytes().to_vec()
    }

    fn f32_bytes(i: u32) -> Vec<u8> {
        (i as f32 + 0.25).to_le_bytes().to_vec()
    }

    #[test]
    fn modules_decrypt_only_in_their_own_position() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let keys = ring();
        let (algorithm, metadata) = open_file(&keys, &file).unwrap();
        let key_ring = FileKeyRing::new(&keys, &algorithm).unwrap();
        let failed =
            |result: Result<Vec<u8>>| assert_eq!(result, Err(Error::new(ErrorKind::File(FileKind::Decryption))));
        let (header, rest) = split_module(&file[29667..29667 + 2212]).unwrap();
        assert!(key_ring.open_filter(&metadata, (0, 0), FilterPart::Header, header).is_ok());
        // Another kind of module, and another column.
        failed(key_ring.open_filter(&metadata, (0, 0), FilterPart::Bitset, header));
        failed(key_ring.open_filter(&metadata, (0, 0), FilterPart::Header, rest));
        failed(key_ring.open_filter(&metadata, (0, 1), FilterPart::Header, header));
        // Another file.
        let other = Algorithm { aad_file_unique: vec![1; 8], ..algorithm.clone() };
        failed(FileKeyRing::new(&keys, &other).unwrap().open_filter(&metadata, (0, 0), FilterPart::Header, header));
        // Two columns that share a key, which this file does not have, so the modules are encrypted here.
        let same = KeyRing::new()
            .with_column_key("double_field", Key::new(DOUBLES).unwrap())
            .with_column_key("float_field", Key::new(DOUBLES).unwrap());
        let key_ring = FileKeyRing::new(&same, &algorithm).unwrap();
        let [header, bitset] = [(FilterPart::Header, &b"header"[..]), (FilterPart::Bitset, b"bitset")]
            .map(|(part, plain)| key_ring.seal_filter(&metadata, (0, 0), part, plain).unwrap());
        let (header, bitset) = (&header[..], &bitset[..]);
        assert_eq!(key_ring.open_filter(&metadata, (0, 0), FilterPart::Header, header).unwrap(), b"header");
        assert_eq!(key_ring.open_filter(&metadata, (0, 0), FilterPart::Bitset, bitset).unwrap(), b"bitset");
        failed(key_ring.open_filter(&metadata, (0, 1), FilterPart::Header, header));
        failed(key_ring.open_filter(&metadata, (0, 1), FilterPart::Bitset, bitset));
        failed(key_ring.open_filter(&metadata, (0, 0), FilterPart::Header, bitset));
    }

    #[test]
    fn changed_encrypted_footers_fail_to_decrypt() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let keys = ring();
        let (tail, footer) = fixtures::footer(&file);
        let crypto = FileCrypto::decode(&footer, tail.metadata.start).unwrap();
        let key_ring = FileKeyRing::new(&keys, &crypto.algorithm).unwrap();
        for at in crypto.len..footer.len() {
            let mut damaged = footer.clone();
            damaged[at] ^= 4;
            assert!(key_ring.open_footer(&crypto, &damaged).is_err(), "byte {at}");
        }
        for at in 0..crypto.len {
            let _ = FileCrypto::decode(&footer[..at], 0).unwrap_err();
            let mut damaged = footer.clone();
            damaged[at] ^= 4;
            let Ok(crypto) = FileCrypto::decode(&damaged, 0) else { continue };
            let Ok(key_ring) = FileKeyRing::new(&keys, &crypto.algorithm) else { continue };
            let _ = key_ring.open_footer(&crypto, &damaged);
        }
    }

    #[test]
    fn wrong_and_missing_keys_give_the_expected_errors() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let check = |keys: KeyRing, expect: &ErrorKind| {
            assert_eq!(open_file(&keys, &file).unwrap_err().kind(), expect);
        };
        check(KeyRing::new(), &ErrorKind::File(FileKind::KeyMissing { what: "the footer".to_owned() }));
        check(KeyRing::new().with_footer_key(Key::new(DOUBLES).unwrap()), &ErrorKind::File(FileKind::Decryption));
        check(
            ring().with_column_key("float_field", Key::new(DOUBLES).unwrap()),
            &ErrorKind::File(FileKind::Decryption),
        );
        check(ring().with_aad_prefix(b"none was used"), &ErrorKind::File(FileKind::Decryption));
        let footer_only = KeyRing::new().with_footer_key(Key::new(FOOTER).unwrap());
        let (_, metadata) = open_file(&footer_only, &file).unwrap();
        let readable = metadata.row_groups()[0].chunks.iter().map(|chunk| chunk.meta.is_some());
        assert_eq!(readable.filter(|readable| !readable).count(), 2, "columns with their own keys stay encrypted");
    }

    #[test]
    fn aad_prefixes_may_be_stored_or_supplied() {
        let algorithm = |stored: Option<&[u8]>, supply_aad_prefix| Algorithm {
            cipher: Cipher::GcmCtr,
            aad_prefix: stored.map(<[u8]>::to_vec),
            aad_file_unique: vec![7; 8],
            supply_aad_prefix,
        };
        let check = |algorithm: Algorithm, supplied: Option<&[u8]>, expect: std::result::Result<&[u8], ErrorKind>| {
            let keys = supplied.into_iter().fold(KeyRing::new(), |keys, prefix| keys.with_aad_prefix(prefix));
            let actual = FileKeyRing::new(&keys, &algorithm).map(|key_ring| key_ring.aad.footer());
            let expect = expect.map(|prefix| [prefix, &[7; 8], &[0]].concat());
            assert_eq!(actual.map_err(|error| error.kind().clone()), expect);
        };
        check(algorithm(None, false), None, Ok(b""));
        check(algorithm(Some(b"p"), false), None, Ok(b"p"));
        check(algorithm(Some(b"p"), false), Some(b"p"), Ok(b"p"));
        check(algorithm(Some(b"p"), false), Some(b"q"), Err(ErrorKind::File(FileKind::Decryption)));
        check(algorithm(None, true), Some(b"p"), Ok(b"p"));
        check(algorithm(None, true), None, Err(ErrorKind::File(FileKind::AadPrefixMissing)));
        check(algorithm(None, false), Some(b"p"), Err(ErrorKind::File(FileKind::Decryption)));
    }

    #[test]
    fn signatures_of_plaintext_footers_are_verified() {
        let Some(file) = fixtures::file("encrypt_columns_plaintext_footer") else { return };
        let keys = ring();
        let (_, footer) = fixtures::footer(&file);
        let mut metadata = Metadata::decode(footer.clone(), 0).unwrap();
        let key_ring = FileKeyRing::new(&keys, metadata.algorithm().unwrap()).unwrap();
        let signature = &footer[metadata.bytes().len()..];
        assert_eq!(key_ring.verify_footer(metadata.bytes(), signature), Ok(()));
        let renewed = key_ring.sign_footer(metadata.bytes()).unwrap();
        assert_eq!(key_ring.verify_footer(metadata.bytes(), &renewed), Ok(()));
        for at in (0..metadata.bytes().len()).step_by(13) {
            let mut damaged = metadata.bytes().to_vec();
            damaged[at] ^= 1;
            assert_eq!(
                key_ring.verify_footer(&damaged, signature),
                Err(Error::new(ErrorKind::File(FileKind::Decryption)))
            );
        }
        // The footer contains only a part of an encrypted column's metadata. The module contains all of it, including
        // statistics.
        let secret = |metadata: &Metadata| {
            let chunks = metadata.row_groups()[0].chunks.iter();
            let secret = chunks.filter(|chunk| chunk.protection == Protection::ColumnKey);
            secret.map(|chunk| metadata.statistics(chunk).unwrap().is_some()).collect::<Vec<_>>()
        };
        assert_eq!(secret(&metadata), [false, false]);
        key_ring.open_columns(&mut metadata).unwrap();
        assert_eq!(secret(&metadata), [true, true]);
    }

    #[test]
    fn encrypted_footers_and_columns_can_be_decrypted() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let keys = ring();
        let (tail, footer) = fixtures::footer(&file);
        let crypto = FileCrypto::decode(&footer, tail.metadata.start).unwrap();
        let key_ring = FileKeyRing::new(&keys, &crypto.algorithm).unwrap();
        let mut metadata = Metadata::decode(key_ring.open_footer(&crypto, &footer).unwrap(), 0).unwrap();
        let sealed = key_ring.seal_footer(&crypto, &footer, metadata.bytes()).unwrap();
        assert_eq!(FileCrypto::decode(&sealed, 0).unwrap(), crypto);
        assert_eq!(key_ring.open_footer(&crypto, &sealed).unwrap(), metadata.bytes());
        let column = key_ring.open_column(&metadata, 0, 0).unwrap().unwrap();
        let moved = patch_column_metadata(&column, Pointer::Set { offset: 5, length: 6 }).unwrap();
        let module = key_ring.seal_column(&metadata, 0, 0, &moved).unwrap();
        assert_eq!(key_ring.open_column(&metadata, 0, 2).unwrap(), None, "this column has the footer's key");
        let chunk_key = key_ring.chunk_key(&metadata, 0, 0).unwrap();
        let opened = open(chunk_key.key, &key_ring.aad_of(Module::ColumnMetaData, &chunk_key), &module).unwrap();
        metadata.set_column_meta(0, 0, &opened).unwrap();
        assert_eq!(metadata.chunk(0, 0).unwrap().meta.as_ref().unwrap().bloom_filter_offset, Some(5));
    }

    #[test]
    fn uniform_encryption_needs_only_the_footer_key() {
        let Some(file) = fixtures::file("uniform_encryption") else { return };
        let keys = KeyRing::new().with_footer_key(Key::new(FOOTER).unwrap());
        let (_, metadata) = open_file(&keys, &file).unwrap();
        for chunk in &metadata.row_groups()[0].chunks {
            assert_eq!((chunk.protection, chunk.meta.is_some()), (Protection::FooterKey, true));
        }
    }
}
