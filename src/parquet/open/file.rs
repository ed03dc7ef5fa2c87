//! Opening a file: from its size and its last bytes to its metadata, with one read where the footer is no surprise.

#[cfg(feature = "crypto")]
use crate::crypto::KeyRing;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::parquet::meta::encryption::{Algorithm, FileCrypto};
use crate::parquet::meta::file_metadata::Metadata;
use crate::parquet::meta::footer::{MAGIC_LEN, TAIL_LEN, Tail};
#[cfg(feature = "crypto")]
use crate::parquet::open::decryptor::Vault;
#[cfg(feature = "crypto")]
use crate::parquet::open::keyring::Secrets;
use crate::ranges::{Fetched, Step};

/// Bytes of the first read. Nine of ten footers fit, and an object store takes no longer for 64 KiB than for 8 bytes.
pub const FIRST_READ: u64 = 64 * 1024;

/// The footer of one file as it was read.
#[derive(Debug, Clone)]
pub struct Footer {
    /// What the last eight bytes say.
    pub tail: Tail,
    /// Bytes of the whole file.
    pub file_len: u64,
    /// The bytes between the file's data and its tail.
    pub bytes: Vec<u8>,
}

impl Footer {
    /// Reads the footer of a file of `file_len` bytes: the last `first_read` bytes, then what of the footer lies before them.
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
            // Its end is there already, so what is missing lies before that.
            None => Ok(Step::Need(vec![fetched.missing_before(&tail.metadata)])),
        }
    }
}

/// A file whose metadata was read.
#[derive(Debug, Clone)]
pub struct ParquetFile {
    /// The footer as it was read.
    pub footer: Footer,
    /// Its metadata, decrypted as far as there are keys.
    pub metadata: Metadata,
    /// What stands before an encrypted footer.
    pub crypto: Option<FileCrypto>,
    /// Whether the footer was authenticated by its key.
    pub authenticated: bool,
}

impl ParquetFile {
    /// Understands a footer without any key.
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

    /// Understands a footer with keys. Columns whose key is missing stay closed; a key that is wrong is an error.
    #[cfg(feature = "crypto")]
    pub fn open_with(footer: Footer, keys: &KeyRing) -> Result<Self> {
        let mut file = if footer.tail.encrypted {
            let at = footer.tail.metadata.start;
            let crypto = FileCrypto::decode(&footer.bytes, at)?;
            let plain = Secrets::new(keys, &crypto.algorithm)?.open_footer(&crypto, &footer.bytes)?;
            let metadata = Metadata::decode(plain, 0)?;
            Self { footer, metadata, crypto: Some(crypto), authenticated: true }
        } else {
            Self::open(footer)?
        };
        if let Some(algorithm) = file.algorithm().cloned() {
            let secrets = Secrets::new(keys, &algorithm)?;
            if !file.footer.tail.encrypted && keys.footer_key().is_ok() {
                secrets.verify_footer(file.metadata.bytes(), file.after_metadata())?;
                file.authenticated = true;
            }
            secrets.open_columns(&mut file.metadata)?;
        }
        Ok(file)
    }

    /// The keys bound to this file, if it is encrypted.
    #[cfg(feature = "crypto")]
    pub fn secrets<'k>(&self, keys: &'k KeyRing) -> Result<Option<Secrets<'k>>> {
        self.algorithm().map(|algorithm| Secrets::new(keys, algorithm)).transpose()
    }

    /// How the file is encrypted or signed, if it is.
    pub fn algorithm(&self) -> Option<&Algorithm> {
        self.crypto.as_ref().map(|crypto| &crypto.algorithm).or(self.metadata.algorithm())
    }

    /// The first byte after everything that metadata may point to.
    pub fn data_end(&self) -> u64 {
        self.footer.tail.metadata.start
    }

    /// What follows the metadata in a plaintext footer: the signature, where there is one.
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
    fn opening_a_file_reads_its_footer_only() {
        let Some(file) = fixtures::file("data_index_bloom_encoding_stats") else { return };
        check(&file, FIRST_READ, &[(0, 1643)]);
        check(&file, 411, &[(1232, 1643)]);
        check(&file, 410, &[(1233, 1643), (1232, 1233)]);
        check(&file, 0, &[(1635, 1643), (1232, 1635)]);
    }

    #[test]
    fn files_that_are_none() {
        for file in [&b""[..], b"PAR1", b"not a parquet file, but long enough", &[0; 12]] {
            let result = drive(file, |fetched| Footer::read(to_u64(file.len()), FIRST_READ, fetched));
            assert!(result.is_err(), "{file:?}");
        }
    }

    #[test]
    fn an_encrypted_footer_needs_a_key() {
        for (name, file) in fixtures::files() {
            let len = to_u64(file.len());
            let (footer, _) = drive(&file, |fetched| Footer::read(len, FIRST_READ, fetched)).unwrap();
            assert_eq!(ParquetFile::open(footer.clone()).is_err(), footer.tail.encrypted, "{name}");
        }
    }

    #[cfg(feature = "crypto")]
    #[test]
    fn with_keys_the_footer_is_authenticated() {
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
            // Without any key a plaintext footer still shows the columns that nobody hides.
            let open = ParquetFile::open_with(footer.clone(), &KeyRing::new());
            assert_eq!(open.is_ok(), !footer.tail.encrypted, "{name}");
            if let Ok(open) = open {
                let plain = |chunk: &&crate::parquet::ColumnChunk| chunk.protection == Protection::Plain;
                assert!(open.metadata.row_groups().iter().all(|group| group.chunks.iter().any(|chunk| plain(&chunk))));
            }
        }
    }
}
