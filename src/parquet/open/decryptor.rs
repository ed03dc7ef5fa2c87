//! What the rest of this room needs of encryption; the feature `crypto` brings the one implementation.

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

/// The keys for one file.
pub trait Vault {
    /// The plaintext of an encrypted footer; `bytes` lie between the file's data and its tail.
    fn open_footer(&self, crypto: &FileCrypto, bytes: &[u8]) -> Result<Vec<u8>>;

    /// An encrypted footer with everything before the tail; `old` is the one that it replaces.
    fn seal_footer(&self, crypto: &FileCrypto, old: &[u8], metadata: &[u8]) -> Result<Vec<u8>>;

    /// Checks a plaintext footer against the signature that follows it.
    fn verify_footer(&self, metadata: &[u8], signature: &[u8]) -> Result<()>;

    /// The signature of a new plaintext footer.
    fn sign_footer(&self, metadata: &[u8]) -> Result<Vec<u8>>;

    /// The plaintext of one column chunk's metadata, if they are encrypted on their own.
    fn open_column(&self, metadata: &Metadata, row_group: usize, column: usize) -> Result<Option<Vec<u8>>>;

    /// The module of one column chunk's new metadata.
    fn seal_column(&self, metadata: &Metadata, row_group: usize, column: usize, plain: &[u8]) -> Result<Vec<u8>>;

    /// The plaintext of one part of an encrypted filter, from its module.
    fn open_filter(
        &self,
        metadata: &Metadata,
        place: (usize, usize),
        part: FilterPart,
        module: &[u8],
    ) -> Result<Vec<u8>>;

    /// The plaintext header of a page, from its module. A dictionary page has no ordinal, the data pages count from 0.
    fn open_page_header(
        &self,
        metadata: &Metadata,
        place: (usize, usize),
        data_page: Option<i16>,
        module: &[u8],
    ) -> Result<Vec<u8>>;

    /// The compressed body of a page, from its module.
    fn open_page(
        &self,
        metadata: &Metadata,
        place: (usize, usize),
        data_page: Option<i16>,
        module: &[u8],
    ) -> Result<Vec<u8>>;

    /// The module of one part of a new filter.
    fn seal_filter(
        &self,
        metadata: &Metadata,
        place: (usize, usize),
        part: FilterPart,
        plain: &[u8],
    ) -> Result<Vec<u8>>;

    /// Decrypts the metadata of every column that there is a key for. The others stay as they are: without metadata in
    /// a file with an encrypted footer, with a part of them in one with a plaintext footer.
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
