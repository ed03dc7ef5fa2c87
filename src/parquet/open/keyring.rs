//! One encrypted file and the keys for it: opens and seals the footer, the metadata of columns, and filters.

use crate::crypto::{FileAad, Key, KeyRing, Module, decrypt_ctr, open, seal, sign, verify};
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::parquet::meta::chunk::Protection;
use crate::parquet::meta::encryption::{Algorithm, Cipher, FileCrypto};
use crate::parquet::meta::file_metadata::{Metadata, column_ordinal};
use crate::parquet::open::decryptor::{FilterPart, Vault};

/// The keys of a caller, bound to one file.
pub struct Secrets<'k> {
    keys: &'k KeyRing,
    aad: FileAad,
    cipher: Cipher,
}

/// Where a module lies and which key it has.
struct Place<'k> {
    key: &'k Key,
    row_group: i16,
    column: i16,
}

impl<'k> Secrets<'k> {
    /// Binds `keys` to a file that is encrypted by `algorithm`.
    pub fn new(keys: &'k KeyRing, algorithm: &Algorithm) -> Result<Self> {
        if let Cipher::Unknown(member) = algorithm.cipher {
            let member = Some(member).filter(|&member| member != 0);
            return Err(Error::new(ErrorKind::UnknownUnionMember { union: "EncryptionAlgorithm", member }));
        }
        let prefix = match (algorithm.aad_prefix.as_deref(), keys.aad_prefix()) {
            // The caller's prefix says which file this must be, so another one in the file is a failed authentication.
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

    fn page_aad(&self, modules: (Module, Module), place: &Place<'_>, data_page: Option<i16>) -> Vec<u8> {
        match data_page {
            None => self.aad.column(modules.0, place.row_group, place.column),
            Some(page) => self.aad.page(modules.1, place.row_group, place.column, page),
        }
    }

    fn aad_of(&self, module: Module, place: &Place<'_>) -> Vec<u8> {
        self.aad.column(module, place.row_group, place.column)
    }

    fn place(&self, metadata: &Metadata, row_group: usize, column: usize) -> Result<Place<'k>> {
        let chunk = metadata.chunk(row_group, column)?;
        let key = match chunk.protection {
            Protection::ColumnKey => self.keys.column_key(&metadata.path(&metadata.leaves()[column]))?,
            // A plain chunk has no modules, so the caller asked for one that its own metadata deny.
            Protection::FooterKey | Protection::Plain => self.keys.footer_key()?,
            Protection::Unknown(member) => {
                let member = Some(member).filter(|&member| member != 0);
                return Err(Error::new(ErrorKind::UnknownUnionMember { union: "ColumnCryptoMetaData", member }));
            }
        };
        Ok(Place { key, row_group: metadata.ordinal(row_group)?, column: column_ordinal(column)? })
    }
}

impl Vault for Secrets<'_> {
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
        let place = self.place(metadata, row_group, column)?;
        open(place.key, &self.aad_of(Module::ColumnMetaData, &place), module).map(Some)
    }

    fn seal_column(&self, metadata: &Metadata, row_group: usize, column: usize, plain: &[u8]) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        seal(place.key, &self.aad_of(Module::ColumnMetaData, &place), plain)
    }

    fn open_filter(
        &self,
        metadata: &Metadata,
        (row_group, column): (usize, usize),
        part: FilterPart,
        module: &[u8],
    ) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        open(place.key, &self.aad_of(part.into(), &place), module)
    }

    fn open_page_header(
        &self,
        metadata: &Metadata,
        (row_group, column): (usize, usize),
        data_page: Option<i16>,
        module: &[u8],
    ) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        let modules = (Module::DictionaryPageHeader, Module::DataPageHeader);
        open(place.key, &self.page_aad(modules, &place, data_page), module)
    }

    fn open_page(
        &self,
        metadata: &Metadata,
        (row_group, column): (usize, usize),
        data_page: Option<i16>,
        module: &[u8],
    ) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        if self.cipher == Cipher::GcmCtr {
            return decrypt_ctr(place.key, module);
        }
        open(place.key, &self.page_aad((Module::DictionaryPage, Module::DataPage), &place, data_page), module)
    }

    fn seal_filter(
        &self,
        metadata: &Metadata,
        (row_group, column): (usize, usize),
        part: FilterPart,
        plain: &[u8],
    ) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        seal(place.key, &self.aad_of(part.into(), &place), plain)
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
        let secrets = Secrets::new(keys, &crypto.algorithm)?;
        let mut metadata = Metadata::decode(secrets.open_footer(&crypto, &footer)?, 0)?;
        secrets.open_columns(&mut metadata)?;
        Ok((crypto.algorithm, metadata))
    }

    #[test]
    fn a_file_of_parquet_java_opens_and_its_filters_hold_its_values() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let keys = ring();
        let (algorithm, metadata) = open_file(&keys, &file).unwrap();
        let secrets = Secrets::new(&keys, &algorithm).unwrap();
        for (column, offset, value) in [(0, 29667, f64_bytes as fn(u32) -> Vec<u8>), (1, 31879, f32_bytes)] {
            let meta = metadata.chunk(0, column).unwrap().meta.as_ref().unwrap();
            assert_eq!((meta.bloom_filter_offset, meta.bloom_filter_length), (Some(offset), Some(2212)));
            let start = usize::try_from(offset).unwrap();
            let (first, rest) = split_module(&file[start..start + 2212]).unwrap();
            let (second, rest) = split_module(rest).unwrap();
            assert!(rest.is_empty());
            let plain = secrets.open_filter(&metadata, (0, column), FilterPart::Header, first).unwrap();
            let decoded = header::decode(&plain, 0).unwrap();
            // parquet-java pads the header's plaintext with zeros.
            assert_eq!((decoded.num_blocks, decoded.len, plain.len()), (64, 16, 100));
            let filter =
                Sbbf::from_bitset(&secrets.open_filter(&metadata, (0, column), FilterPart::Bitset, second).unwrap())
                    .unwrap();
            for i in 0..2000 {
                assert!(filter.may_contain_hash(XxHash64::oneshot(0, &value(i))), "column {column}, value {i}");
            }
            assert!(!filter.may_contain_hash(XxHash64::oneshot(0, &vec![0; value(0).len()])));
        }
        assert!(metadata.chunk(0, 2).unwrap().meta.as_ref().unwrap().bloom_filter_offset.is_none());
    }

    fn f64_bytes(i: u32) -> Vec<u8> {
        (f64::from(i) + 0.5).to_le_bytes().to_vec()
    }

    fn f32_bytes(i: u32) -> Vec<u8> {
        (i as f32 + 0.25).to_le_bytes().to_vec()
    }

    #[test]
    fn b9_a_module_opens_only_in_its_own_place() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let keys = ring();
        let (algorithm, metadata) = open_file(&keys, &file).unwrap();
        let secrets = Secrets::new(&keys, &algorithm).unwrap();
        let failed =
            |result: Result<Vec<u8>>| assert_eq!(result, Err(Error::new(ErrorKind::File(FileKind::Decryption))));
        let (header, rest) = split_module(&file[29667..29667 + 2212]).unwrap();
        assert!(secrets.open_filter(&metadata, (0, 0), FilterPart::Header, header).is_ok());
        // The other kind of module, and another column.
        failed(secrets.open_filter(&metadata, (0, 0), FilterPart::Bitset, header));
        failed(secrets.open_filter(&metadata, (0, 0), FilterPart::Header, rest));
        failed(secrets.open_filter(&metadata, (0, 1), FilterPart::Header, header));
        // Another file.
        let other = Algorithm { aad_file_unique: vec![1; 8], ..algorithm.clone() };
        failed(Secrets::new(&keys, &other).unwrap().open_filter(&metadata, (0, 0), FilterPart::Header, header));
        // Sealed by us for two columns that share a key, since in this file each column has its own.
        let same = KeyRing::new()
            .with_column_key("double_field", Key::new(DOUBLES).unwrap())
            .with_column_key("float_field", Key::new(DOUBLES).unwrap());
        let secrets = Secrets::new(&same, &algorithm).unwrap();
        let [header, bitset] = [(FilterPart::Header, &b"header"[..]), (FilterPart::Bitset, b"bitset")]
            .map(|(part, plain)| secrets.seal_filter(&metadata, (0, 0), part, plain).unwrap());
        let (header, bitset) = (&header[..], &bitset[..]);
        assert_eq!(secrets.open_filter(&metadata, (0, 0), FilterPart::Header, header).unwrap(), b"header");
        assert_eq!(secrets.open_filter(&metadata, (0, 0), FilterPart::Bitset, bitset).unwrap(), b"bitset");
        failed(secrets.open_filter(&metadata, (0, 1), FilterPart::Header, header));
        failed(secrets.open_filter(&metadata, (0, 1), FilterPart::Bitset, bitset));
        failed(secrets.open_filter(&metadata, (0, 0), FilterPart::Header, bitset));
    }

    #[test]
    fn every_flipped_bit_of_an_encrypted_footer_is_noticed() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let keys = ring();
        let (tail, footer) = fixtures::footer(&file);
        let crypto = FileCrypto::decode(&footer, tail.metadata.start).unwrap();
        let secrets = Secrets::new(&keys, &crypto.algorithm).unwrap();
        for at in crypto.len..footer.len() {
            let mut damaged = footer.clone();
            damaged[at] ^= 4;
            assert!(secrets.open_footer(&crypto, &damaged).is_err(), "byte {at}");
        }
        for at in 0..crypto.len {
            let _ = FileCrypto::decode(&footer[..at], 0).unwrap_err();
            let mut damaged = footer.clone();
            damaged[at] ^= 4;
            let Ok(crypto) = FileCrypto::decode(&damaged, 0) else { continue };
            let Ok(secrets) = Secrets::new(&keys, &crypto.algorithm) else { continue };
            let _ = secrets.open_footer(&crypto, &damaged);
        }
    }

    #[test]
    fn keys_that_are_wrong_or_missing() {
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
        let known = metadata.row_groups()[0].chunks.iter().map(|chunk| chunk.meta.is_some());
        assert_eq!(known.filter(|known| !known).count(), 2, "the two columns with keys of their own stay closed");
    }

    #[test]
    fn aad_prefixes_are_stored_or_supplied() {
        let algorithm = |stored: Option<&[u8]>, supply_aad_prefix| Algorithm {
            cipher: Cipher::GcmCtr,
            aad_prefix: stored.map(<[u8]>::to_vec),
            aad_file_unique: vec![7; 8],
            supply_aad_prefix,
        };
        let check = |algorithm: Algorithm, supplied: Option<&[u8]>, expect: std::result::Result<&[u8], ErrorKind>| {
            let keys = supplied.into_iter().fold(KeyRing::new(), |keys, prefix| keys.with_aad_prefix(prefix));
            let found = Secrets::new(&keys, &algorithm).map(|secrets| secrets.aad.footer());
            let expect = expect.map(|prefix| [prefix, &[7; 8], &[0]].concat());
            assert_eq!(found.map_err(|error| error.kind().clone()), expect);
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
    fn plaintext_footers_are_signed() {
        let Some(file) = fixtures::file("encrypt_columns_plaintext_footer") else { return };
        let keys = ring();
        let (_, footer) = fixtures::footer(&file);
        let mut metadata = Metadata::decode(footer.clone(), 0).unwrap();
        let secrets = Secrets::new(&keys, metadata.algorithm().unwrap()).unwrap();
        let signature = &footer[metadata.bytes().len()..];
        assert_eq!(secrets.verify_footer(metadata.bytes(), signature), Ok(()));
        let renewed = secrets.sign_footer(metadata.bytes()).unwrap();
        assert_eq!(secrets.verify_footer(metadata.bytes(), &renewed), Ok(()));
        for at in (0..metadata.bytes().len()).step_by(13) {
            let mut damaged = metadata.bytes().to_vec();
            damaged[at] ^= 1;
            assert_eq!(
                secrets.verify_footer(&damaged, signature),
                Err(Error::new(ErrorKind::File(FileKind::Decryption)))
            );
        }
        // The footer shows a part of an encrypted column's metadata; the module says all, statistics too.
        let secret = |metadata: &Metadata| {
            let chunks = metadata.row_groups()[0].chunks.iter();
            let secret = chunks.filter(|chunk| chunk.protection == Protection::ColumnKey);
            secret.map(|chunk| metadata.statistics(chunk).unwrap().is_some()).collect::<Vec<_>>()
        };
        assert_eq!(secret(&metadata), [false, false]);
        secrets.open_columns(&mut metadata).unwrap();
        assert_eq!(secret(&metadata), [true, true]);
    }

    #[test]
    fn footers_and_columns_that_we_seal_open_again() {
        let Some(file) = fixtures::file(WITH_FILTERS) else { return };
        let keys = ring();
        let (tail, footer) = fixtures::footer(&file);
        let crypto = FileCrypto::decode(&footer, tail.metadata.start).unwrap();
        let secrets = Secrets::new(&keys, &crypto.algorithm).unwrap();
        let mut metadata = Metadata::decode(secrets.open_footer(&crypto, &footer).unwrap(), 0).unwrap();
        let sealed = secrets.seal_footer(&crypto, &footer, metadata.bytes()).unwrap();
        assert_eq!(FileCrypto::decode(&sealed, 0).unwrap(), crypto);
        assert_eq!(secrets.open_footer(&crypto, &sealed).unwrap(), metadata.bytes());
        let column = secrets.open_column(&metadata, 0, 0).unwrap().unwrap();
        let moved = patch_column_metadata(&column, Pointer::Set { offset: 5, length: 6 }).unwrap();
        let module = secrets.seal_column(&metadata, 0, 0, &moved).unwrap();
        assert_eq!(secrets.open_column(&metadata, 0, 2).unwrap(), None, "this column has the footer's key");
        let place = secrets.place(&metadata, 0, 0).unwrap();
        let opened = open(place.key, &secrets.aad_of(Module::ColumnMetaData, &place), &module).unwrap();
        metadata.set_column_meta(0, 0, &opened).unwrap();
        assert_eq!(metadata.chunk(0, 0).unwrap().meta.as_ref().unwrap().bloom_filter_offset, Some(5));
    }

    #[test]
    fn uniform_encryption_needs_the_footer_key_alone() {
        let Some(file) = fixtures::file("uniform_encryption") else { return };
        let keys = KeyRing::new().with_footer_key(Key::new(FOOTER).unwrap());
        let (_, metadata) = open_file(&keys, &file).unwrap();
        for chunk in &metadata.row_groups()[0].chunks {
            assert_eq!((chunk.protection, chunk.meta.is_some()), (Protection::FooterKey, true));
        }
    }
}
