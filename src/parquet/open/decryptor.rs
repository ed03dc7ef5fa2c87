//! The encryption interface for the rest of `parquet/`. The feature `crypto` adds its only implementation.

use crate::error::{ErrorKind, FileKind, Result};
use crate::parquet::meta::encryption::FileCrypto;
use crate::parquet::meta::file_metadata::Metadata;

/// The two modules of an encrypted filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterPart {
    /// The Thrift header.
    Header,
    /// The bitset.
    Bitset,
}

/// Decrypts and encrypts the modules of a file.
pub trait Decryptor {
    /// Decrypts a footer. `bytes` are the bytes between the file's data and its tail.
    fn open_footer(&self, crypto: &FileCrypto, bytes: &[u8]) -> Result<Vec<u8>>;

    /// Encrypts a footer, including the bytes before its module. `old` is the footer that it replaces.
    fn seal_footer(&self, crypto: &FileCrypto, old: &[u8], metadata: &[u8]) -> Result<Vec<u8>>;

    /// Verifies the signature that follows a plaintext footer.
    fn verify_footer(&self, metadata: &[u8], signature: &[u8]) -> Result<()>;

    /// Signs a new plaintext footer.
    fn sign_footer(&self, metadata: &[u8]) -> Result<Vec<u8>>;

    /// Decrypts the metadata of a column chunk. Returns `None` if it is not encrypted separately.
    fn open_column(&self, metadata: &Metadata, row_group: usize, column: usize) -> Result<Option<Vec<u8>>>;

    /// Encrypts new metadata of a column chunk.
    fn seal_column(&self, metadata: &Metadata, row_group: usize, column: usize, plain: &[u8]) -> Result<Vec<u8>>;

    /// Decrypts a module of an encrypted filter.
    fn open_filter(
        &self,
        metadata: &Metadata,
        position: (usize, usize),
        part: FilterPart,
        module: &[u8],
    ) -> Result<Vec<u8>>;

    /// Decrypts a page header. `data_page` is the ordinal of a data page, or `None` for a dictionary page.
    fn open_page_header(
        &self,
        metadata: &Metadata,
        position: (usize, usize),
        data_page: Option<i16>,
        module: &[u8],
    ) -> Result<Vec<u8>>;

    /// Decrypts a page body, which is still compressed.
    fn open_page(
        &self,
        metadata: &Metadata,
        position: (usize, usize),
        data_page: Option<i16>,
        module: &[u8],
    ) -> Result<Vec<u8>>;

    /// Encrypts a part of a new filter.
    fn seal_filter(
        &self,
        metadata: &Metadata,
        position: (usize, usize),
        part: FilterPart,
        plain: &[u8],
    ) -> Result<Vec<u8>>;

    /// Decrypts the metadata of every column whose key is available.
    ///
    /// Other columns keep the metadata in the footer: none if the footer is encrypted, a part of it if the footer is in
    /// plaintext.
    fn open_columns(&self, metadata: &mut Metadata) -> Result<()> {
        for row_group in 0..metadata.row_groups().len() {
            for column in 0..metadata.leaves().len() {
                match self.open_column(metadata, row_group, column) {
                    Ok(Some(plain)) => metadata.set_column_meta(row_group, column, &plain)?,
                    Ok(None) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::File(FileKind::KeyMissing { .. })) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}
