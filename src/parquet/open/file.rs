//! Opens a file from its size and its last bytes. One read suffices unless the footer is large.

#[cfg(feature = "crypto")]
use crate::crypto::KeyRing;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::parquet::meta::encryption::{Algorithm, FileCrypto};
use crate::parquet::meta::file_metadata::Metadata;
use crate::parquet::meta::footer::{MAGIC_LEN, TAIL_LEN, Tail};
#[cfg(feature = "crypto")]
use crate::parquet::open::decryptor::Decryptor;
#[cfg(feature = "crypto")]
use crate::parquet::open::keyring::FileKeyRing;
use crate::ranges::{Fetched, Step};

/// Size of the first read. It covers nine of ten footers, and an object store returns 64 KiB as fast as 8 bytes.
pub const FIRST_READ: u64 = 64 * 1024;

/// The footer of a file.
#[derive(Debug, Clone)]
pub struct Footer {
    /// The decoded last eight bytes.
    pub tail: Tail,
    /// Size of the file in bytes.
    pub file_len: u64,
    /// The bytes between the file's data and its tail.
    pub bytes: Vec<u8>,
}

impl Footer {
    /// Reads the footer of a file of `file_len` bytes: first its last `first_read` bytes, then the rest of the footer.
    pub fn read(file_len: u64, first_read: u64, fetched: &Fetched) -> Result<Step<Self>> {
        if file_len < MAGIC_LEN + TAIL_LEN {
            return Err(Error::new(ErrorKind::Truncated { needed: MAGIC_LEN + TAIL_LEN, available: file_len }));
        }
        let last = file_len - TAIL_LEN..file_len;
        let Some(bytes) = fetched.get(&last) else {
            let start = file_len.saturating_sub(first_read.max(TAIL_LEN));
            return Ok(Step::Need(vec![fetched.missing_before(&(start..file_len))]));
        };
        let tail = Tail::decode(bytes, file_len)?;
        match fetched.get(&tail.metadata) {
            Some(bytes) => Ok(Step::Ready(Self { file_len, bytes: bytes.to_vec(), tail })),
            // The end of the metadata has already been fetched, so only the bytes before it are missing.
            None => Ok(Step::Need(vec![fetched.missing_before(&tail.metadata)])),
        }
    }
}

/// A file with decoded metadata.
#[derive(Debug, Clone)]
pub struct ParquetFile {
    /// The footer as it was read.
    pub footer: Footer,
    /// The metadata, in which the columns whose keys are available are decrypted.
    pub metadata: Metadata,
    /// The FileCryptoMetaData of an encrypted footer.
    pub crypto: Option<FileCrypto>,
    /// True if the footer was authenticated with its key.
    pub authenticated: bool,
}

impl ParquetFile {
    /// Opens a file without keys.
    pub fn open(footer: Footer) -> Result<Self> {
        if footer.tail.encrypted {
            let missing = if cfg!(feature = "crypto") {
                ErrorKind::File(FileKind::KeyMissing { what: "the footer".to_owned() })
            } else {
                ErrorKind::File(FileKind::NoCrypto)
            };
            return Err(Error::at(missing, footer.tail.metadata.start));
        }
        let metadata = Metadata::decode(footer.bytes.clone(), footer.tail.metadata.start)?;
        Ok(Self { footer, metadata, crypto: None, authenticated: false })
    }

    /// Opens a file with keys. Columns whose key is missing remain encrypted. A wrong key is an error.
    #[cfg(feature = "crypto")]
    pub fn open_with(footer: Footer, keys: &KeyRing) -> Result<Self> {
        let mut file = if footer.tail.encrypted {
            let at = footer.tail.metadata.start;
            let crypto = FileCrypto::decode(&footer.bytes, at)?;
            let plain = FileKeyRing::new(keys, &crypto.algorithm)?.open_footer(&crypto, &footer.bytes)?;
            let metadata = Metadata::decode(plain, 0)?;
            Self { footer, metadata, crypto: Some(crypto), authenticated: true }
        } else {
            Self::open(footer)?
        };
        if let Some(algorithm) = file.algorithm().cloned() {
            let key_ring = FileKeyRing::new(keys, &algorithm)?;
            if !file.footer.tail.encrypted && keys.footer_key().is_ok() {
                key_ring.verify_footer(file.metadata.bytes(), file.after_metadata())?;
                file.authenticated = true;
            }
            key_ring.open_columns(&mut file.metadata)?;
        }
        Ok(file)
    }

    /// Binds `keys` to this file. Returns `None` if the file is not encrypted.
    #[cfg(feature = "crypto")]
    pub fn key_ring<'k>(&self, keys: &'k KeyRing) -> Result<Option<FileKeyRing<'k>>> {
        self.algorithm().map(|algorithm| FileKeyRing::new(keys, algorithm)).transpose()
    }

    /// Returns the encryption algorithm, if the file is encrypted or signed.
    pub fn algorithm(&self) -> Option<&Algorithm> {
        self.crypto.as_ref().map(|crypto| &crypto.algorithm).or(self.metadata.algorithm())
    }

    /// Returns the end of the file's data. The metadata must not refer to any byte from there on.
    pub fn data_end(&self) -> u64 {
        self.footer.tail.metadata.start
    }

    /// Returns the bytes that follow the metadata in a plaintext footer, such as a signature.
    pub fn after_metadata(&self) -> &[u8] {
        if self.footer.tail.encrypted {
            return &[];
        }
        self.footer.bytes.get(self.metadata.bytes().len()..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::int::to_u64;
    use crate::parquet::fixtures;
    use crate::ranges::tests::drive;

    fn check(file: &[u8], first_read: u64, reads: &[(u64, u64)]) {
        let len = to_u64(file.len());
        let (footer, read) = drive(file, |fetched| Footer::read(len, first_read, fetched)).unwrap();
        let read: Vec<_> = read.into_iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(read, reads, "the footer and nothing else is read");
        assert_eq!((footer.tail.clone(), footer.bytes.clone()), fixtures::footer(file));
        assert!(ParquetFile::open(footer).is_ok());
    }

    #[test]
    fn opening_a_file_reads_only_its_footer() {
        let Some(file) = fixtures::file("data_index_bloom_encoding_stats") else { return };
        check(&file, FIRST_READ, &[(0, 1643)]);
        check(&file, 411, &[(1232, 1643)]);
        check(&file, 410, &[(1233, 1643), (1232, 1233)]);
        check(&file, 0, &[(1635, 1643), (1232, 1635)]);
    }

    #[test]
    fn files_that_are_not_parquet_are_errors() {
        for file in [&b""[..], b"PAR1", b"not a parquet file, but long enough", &[0; 12]] {
            let result = drive(file, |fetched| Footer::read(to_u64(file.len()), FIRST_READ, fetched));
            assert!(result.is_err(), "{file:?}");
        }
        let read = |len: usize| drive(&vec![0; len], |fetched| Footer::read(to_u64(len), FIRST_READ, fetched));
        let too_short = ErrorKind::Truncated { needed: 12, available: 11 };
        assert_eq!(read(11).unwrap_err().kind(), &too_short);
        assert!(!matches!(read(12).unwrap_err().kind(), ErrorKind::Truncated { .. }));
    }

    #[test]
    fn opening_an_encrypted_footer_without_a_key_is_an_error() {
        for (name, file) in fixtures::files() {
            let len = to_u64(file.len());
            let (footer, _) = drive(&file, |fetched| Footer::read(len, FIRST_READ, fetched)).unwrap();
            assert_eq!(ParquetFile::open(footer.clone()).is_err(), footer.tail.encrypted, "{name}");
        }
    }

    #[cfg(feature = "crypto")]
    #[test]
    fn encrypted_footers_are_authenticated_with_the_right_key() {
        use crate::crypto::Key;
        use crate::parquet::Protection;

        let keys = |byte: &[u8]| KeyRing::new().with_footer_key(Key::new(byte).unwrap());
        for (name, file) in fixtures::files() {
            let (tail, bytes) = fixtures::footer(&file);
            let footer = Footer { tail, bytes, file_len: to_u64(file.len()) };
            let opened = ParquetFile::open_with(footer.clone(), &keys(b"0123456789012345")).unwrap();
            let encrypted = name.ends_with(".encrypted");
            assert_eq!(opened.authenticated, encrypted, "{name}");
            assert_eq!(opened.algorithm().is_some(), encrypted, "{name}");
            let wrong =
                ParquetFile::open_with(footer.clone(), &keys(b"another key ....")).map(|file| file.authenticated);
            match encrypted {
                true => assert_eq!(wrong.unwrap_err().kind(), &ErrorKind::File(FileKind::Decryption), "{name}"),
                false => assert_eq!(wrong, Ok(false), "{name}"),
            }
            // Without keys, a plaintext footer still shows unencrypted columns.
            let open = ParquetFile::open_with(footer.clone(), &KeyRing::new());
            assert_eq!(open.is_ok(), !footer.tail.encrypted, "{name}");
            if let Ok(open) = open {
                let plain = |chunk: &&crate::parquet::ColumnChunk| chunk.protection == Protection::Plain;
                assert!(open.metadata.row_groups().iter().all(|group| group.chunks.iter().any(|chunk| plain(&chunk))));
            }
        }
    }
}
