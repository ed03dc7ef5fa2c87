//! The frame of an encrypted module, which is readable without any key.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::{to_u64, to_usize};

/// Bytes of the length before a module.
pub(super) const LENGTH_LEN: usize = 4;
/// Bytes of the nonce.
pub(super) const NONCE_LEN: usize = 12;
/// Bytes of the tag.
pub(super) const TAG_LEN: usize = 16;

/// Bytes that a module has more than its plaintext.
pub const MODULE_OVERHEAD: u64 = (LENGTH_LEN + NONCE_LEN + TAG_LEN) as u64;

/// Bytes of the signature after a plaintext footer: a nonce and a tag.
pub const SIGNATURE_LEN: usize = NONCE_LEN + TAG_LEN;

/// Bytes of a module, from the first four of them, its own length included.
pub fn module_len(prefix: [u8; LENGTH_LEN]) -> Result<u64> {
    let claimed = u32::from_le_bytes(prefix);
    // Java reads the length as a signed integer. Every module has a nonce and a tag.
    match i32::try_from(claimed) {
        Ok(28..) => Ok(u64::from(claimed) + to_u64(LENGTH_LEN)),
        _ => Err(Error::new(ErrorKind::File(FileKind::ModuleLength(claimed.into())))),
    }
}

/// The module at the start of `bytes` and what follows it.
pub fn split_module(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let len = module_len(Cursor::new(bytes, 0).take_array()?)?;
    let truncated = Error::new(ErrorKind::Truncated { needed: len, available: to_u64(bytes.len()) });
    to_usize(len).and_then(|len| bytes.split_at_checked(len)).ok_or(truncated)
}
