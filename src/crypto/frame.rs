//! The frame of an encrypted module, which can be read without a key.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};

/// Size of the length field before a module.
pub(super) const LENGTH_LEN: usize = 4;
/// Size of the nonce.
pub(super) const NONCE_LEN: usize = 12;
/// Size of the authentication tag.
pub(super) const TAG_LEN: usize = 16;

/// Number of bytes by which a module is longer than its plaintext.
pub const MODULE_OVERHEAD: u64 = (LENGTH_LEN + NONCE_LEN + TAG_LEN) as u64;

/// Size of the signature after a plaintext footer: a nonce and a tag.
pub const SIGNATURE_LEN: usize = NONCE_LEN + TAG_LEN;

/// Returns the size of a module, including its length field, from its first four bytes.
pub fn module_len(prefix: [u8; LENGTH_LEN]) -> Result<u64> {
    let claimed = u32::from_le_bytes(prefix);
    // Java reads the length as a signed integer. Every module contains a nonce and a tag.
    match i32::try_from(claimed) {
        Ok(28..) => Ok(u64::from(claimed) + to_u64(LENGTH_LEN)),
        _ => Err(Error::new(ErrorKind::File(FileKind::ModuleLength(claimed.into())))),
    }
}

/// Splits `bytes` after the module at their start.
pub fn split_module(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let len = module_len(Cursor::new(bytes, 0).take_array()?)?;
    let truncated = Error::new(ErrorKind::Truncated { needed: len, available: to_u64(bytes.len()) });
    to_usize(len).and_then(|len| bytes.split_at_checked(len)).ok_or(truncated)
}
