//! One encrypted file and the keys for it: opens and seals the footer, the metadata of columns, and filters.

use std::collections::BTreeMap;

use super::chunk::Protection;
use super::encryption::{Algorithm, Cipher, FileCrypto};
use super::metadata::{Metadata, column_ordinal};
use crate::crypto::{FileAad, Key, KeyRing, Module, SIGNATURE_LEN, open, seal, sign, split_module, verify};
use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;

/// The keys of a caller, bound to one file.
pub struct Secrets<'k> {
    keys: &'k KeyRing,
    aad: FileAad,
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
            (Some(stored), Some(supplied)) if stored != supplied => return Err(Error::new(ErrorKind::Decryption)),
            (None, Some(_)) if !algorithm.supply_aad_prefix => return Err(Error::new(ErrorKind::Decryption)),
            (None, None) if algorithm.supply_aad_prefix => return Err(Error::new(ErrorKind::AadPrefixMissing)),
            (_, Some(supplied)) => supplied,
            (Some(stored), None) => stored,
            (None, None) => &[],
        };
        Ok(Self { keys, aad: FileAad::new(prefix, &algorithm.aad_file_unique) })
    }

    /// The plaintext of an encrypted footer; `bytes` lie between the file's data and its tail.
    pub fn open_footer(&self, crypto: &FileCrypto, bytes: &[u8]) -> Result<Vec<u8>> {
        let module = bytes.get(crypto.len..).unwrap_or_default();
        open(self.keys.footer_key()?, &self.aad.footer(), module)
    }

    /// An encrypted footer with everything before the tail; `old` is the one that it replaces.
    pub fn seal_footer(&self, crypto: &FileCrypto, old: &[u8], metadata: &[u8]) -> Result<Vec<u8>> {
        let module = seal(self.keys.footer_key()?, &self.aad.footer(), metadata)?;
        Ok([old.get(..crypto.len).unwrap_or_default(), &module].concat())
    }

    /// Checks a plaintext footer against the signature that follows it.
    pub fn verify_footer(&self, metadata: &[u8], signature: &[u8]) -> Result<()> {
        verify(self.keys.footer_key()?, &self.aad.footer(), metadata, signature)
    }

    /// The signature of a new plaintext footer.
    pub fn sign_footer(&self, metadata: &[u8]) -> Result<[u8; SIGNATURE_LEN]> {
        sign(self.keys.footer_key()?, &self.aad.footer(), metadata)
    }

    /// Decrypts the metadata of every column that there is a key for. The others stay as they are: without metadata in
    /// a file with an encrypted footer, with a part of them in one with a plaintext footer.
    pub fn open_columns(&self, metadata: &mut Metadata) -> Result<()> {
        for row_group in 0..metadata.row_groups().len() {
            for column in 0..metadata.leaves().len() {
                match self.open_column(metadata, row_group, column) {
                    Ok(Some(plain)) => metadata.set_column_meta(row_group, column, &plain)?,
                    Ok(None) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::KeyMissing { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The plaintext of one column chunk's metadata, if they are encrypted on their own.
    pub fn open_column(&self, metadata: &Metadata, row_group: usize, column: usize) -> Result<Option<Vec<u8>>> {
        let chunk = metadata.chunk(row_group, column)?;
        let Some(module) = metadata.encrypted_meta(chunk) else { return Ok(None) };
        let place = self.place(metadata, row_group, column)?;
        open(place.key, &self.aad_of(Module::ColumnMetaData, &place), module).map(Some)
    }

    /// The module of one column chunk's new metadata.
    pub fn seal_column(&self, metadata: &Metadata, row_group: usize, column: usize, plain: &[u8]) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        seal(place.key, &self.aad_of(Module::ColumnMetaData, &place), plain)
    }

    /// The plaintext header of an encrypted filter, from its module.
    pub fn open_filter_header(
        &self,
        metadata: &Metadata,
        row_group: usize,
        column: usize,
        module: &[u8],
    ) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        open(place.key, &self.aad_of(Module::BloomFilterHeader, &place), module)
    }

    /// The plaintext bitset of an encrypted filter, from its module.
    pub fn open_filter_bitset(
        &self,
        metadata: &Metadata,
        row_group: usize,
        column: usize,
        module: &[u8],
    ) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        open(place.key, &self.aad_of(Module::BloomFilterBitset, &place), module)
    }

    /// A filter as its two modules.
    pub fn seal_filter(
        &self,
        metadata: &Metadata,
        row_group: usize,
        column: usize,
        header: &[u8],
        bitset: &[u8],
    ) -> Result<Vec<u8>> {
        let place = self.place(metadata, row_group, column)?;
        let header = seal(place.key, &self.aad_of(Module::BloomFilterHeader, &place), header)?;
        let bitset = seal(place.key, &self.aad_of(Module::BloomFilterBitset, &place), bitset)?;
        Ok([header, bitset].concat())
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
