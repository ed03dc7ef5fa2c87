//! Keys: wiped when dropped, never printed.

use std::collections::BTreeMap;

use zeroize::Zeroize;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;

/// An AES key of 128, 192 or 256 bits. It has no `Debug`, so that no message can hold it by accident.
pub struct Key {
    // An array in a box, not a growing vector, which leaves copies behind; moving a `Key` moves only the pointer.
    bytes: Box<[u8; 32]>,
    len: usize,
}

impl Key {
    /// A copy of `bytes`.
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

/// The keys that a caller brings for one file.
#[derive(Default)]
pub struct KeyRing {
    footer: Option<Key>,
    columns: BTreeMap<String, Key>,
    aad_prefix: Option<Vec<u8>>,
}

impl KeyRing {
    /// No keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the key of the footer, which is also that of columns encrypted with the footer's key.
    #[must_use]
    pub fn with_footer_key(mut self, key: Key) -> Self {
        self.footer = Some(key);
        self
    }

    /// Adds the key of one column; `path` is its names joined by dots.
    #[must_use]
    pub fn with_column_key(mut self, path: &str, key: Key) -> Self {
        self.columns.insert(path.to_owned(), key);
        self
    }

    /// Adds the prefix of all AADs, for files that do not hold it.
    #[must_use]
    pub fn with_aad_prefix(mut self, prefix: &[u8]) -> Self {
        self.aad_prefix = Some(prefix.to_vec());
        self
    }

    /// The key of the footer.
    pub fn footer_key(&self) -> Result<&Key> {
        self.footer
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::File(FileKind::KeyMissing { what: "the footer".to_owned() })))
    }

    /// The key of one column.
    pub fn column_key(&self, path: &[&str]) -> Result<&Key> {
        // Two paths that read the same with dots cannot do harm: the wrong one's key fails to authenticate.
        let path = path.join(".");
        self.columns
            .get(&path)
            .ok_or_else(|| Error::new(ErrorKind::File(FileKind::KeyMissing { what: format!("column {path:?}") })))
    }

    /// The prefix of all AADs, if the caller brought one.
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
    fn a_missing_key_is_named_by_its_column() {
        let ring = KeyRing::new().with_column_key("a.b", Key::new(&[1; 16]).unwrap());
        assert!(ring.column_key(&["a", "b"]).is_ok());
        let missing = ring.column_key(&["a", "c"]).err().unwrap();
        assert_eq!(missing.kind(), &ErrorKind::File(FileKind::KeyMissing { what: "column \"a.c\"".to_owned() }));
        assert!(ring.footer_key().is_err());
    }
}
