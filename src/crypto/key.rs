//! Encryption keys, which are wiped when dropped and never printed.

use std::collections::BTreeMap;

use zeroize::Zeroize;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;

/// An AES key of 128, 192 or 256 bits. It does not implement `Debug`, so that it cannot leak into messages.
pub struct Key {
    // A boxed array leaves no copies: a growing `Vec` would reallocate, and moving a `Key` moves only the pointer.
    bytes: Box<[u8; 32]>,
    len: usize,
}

impl Key {
    /// Copies a key from `bytes`.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let len = bytes.len();
        if !matches!(len, 16 | 24 | 32) {
            return Err(Error::new(ErrorKind::File(FileKind::KeyLength(to_u64(len)))));
        }
        let mut key = Self { bytes: Box::new([0; 32]), len };
        key.bytes[..len].copy_from_slice(bytes);
        Ok(key)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// The caller's keys for one file.
#[derive(Default)]
pub struct KeyRing {
    footer: Option<Key>,
    columns: BTreeMap<String, Key>,
    aad_prefix: Option<Vec<u8>>,
}

impl KeyRing {
    /// Creates an empty key ring.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the footer key, which also decrypts the columns encrypted with it.
    #[must_use]
    pub fn with_footer_key(mut self, key: Key) -> Self {
        self.footer = Some(key);
        self
    }

    /// Adds the key of a column. `path` contains the names joined by dots.
    #[must_use]
    pub fn with_column_key(mut self, path: &str, key: Key) -> Self {
        self.columns.insert(path.to_owned(), key);
        self
    }

    /// Adds the AAD prefix, for files that do not store it.
    #[must_use]
    pub fn with_aad_prefix(mut self, prefix: &[u8]) -> Self {
        self.aad_prefix = Some(prefix.to_vec());
        self
    }

    /// Returns the footer key.
    pub fn footer_key(&self) -> Result<&Key> {
        self.footer
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::File(FileKind::KeyMissing { what: "the footer".to_owned() })))
    }

    /// Returns the key of a column.
    pub fn column_key(&self, path: &[&str]) -> Result<&Key> {
        // Two paths may be equal when joined by dots. The wrong key does no harm, because authentication fails.
        let path = path.join(".");
        self.columns
            .get(&path)
            .ok_or_else(|| Error::new(ErrorKind::File(FileKind::KeyMissing { what: format!("column {path:?}") })))
    }

    /// Returns the AAD prefix, if the caller gave one.
    pub fn aad_prefix(&self) -> Option<&[u8]> {
        self.aad_prefix.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_of_three_lengths() {
        for len in 0..40 {
            assert_eq!(Key::new(&vec![7; len]).is_ok(), matches!(len, 16 | 24 | 32), "{len} bytes");
        }
    }

    #[test]
    fn errors_name_the_column_without_a_key() {
        let ring = KeyRing::new().with_column_key("a.b", Key::new(&[1; 16]).unwrap());
        assert!(ring.column_key(&["a", "b"]).is_ok());
        let missing = ring.column_key(&["a", "c"]).err().unwrap();
        assert_eq!(missing.kind(), &ErrorKind::File(FileKind::KeyMissing { what: "column \"a.c\"".to_owned() }));
        assert!(ring.footer_key().is_err());
    }
}
