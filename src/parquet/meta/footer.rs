//! The last eight bytes of a Parquet file, which give the position of its metadata and whether it is encrypted.

use std::ops::Range;

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;

/// Size of the tail: the metadata's length and the magic bytes.
pub const TAIL_LEN: u64 = 8;

/// Size of the magic bytes at the start of the file.
pub const MAGIC_LEN: u64 = 4;

const PLAIN: [u8; 4] = *b"PAR1";
const ENCRYPTED: [u8; 4] = *b"PARE";

/// The tail, validated against the size of its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// True if the metadata is an encrypted module, preceded by a small header.
    pub encrypted: bool,
    /// Position of the metadata in the file.
    pub metadata: Range<u64>,
}

impl Tail {
    /// Decodes the tail from the last bytes of a file of `file_len` bytes.
    pub fn decode(last: &[u8], file_len: u64) -> Result<Self> {
        let at = file_len.saturating_sub(TAIL_LEN);
        // The smallest file has magic bytes at both ends and a length between them.
        if file_len < MAGIC_LEN + TAIL_LEN || to_u64(last.len()) < TAIL_LEN {
            let available = file_len.min(to_u64(last.len()));
            return Err(Error::new(ErrorKind::Truncated { needed: MAGIC_LEN + TAIL_LEN, available }));
        }
        let mut cursor = Cursor::new(&last[last.len() - 8..], at);
        let claimed = u64::from(cursor.u32()?);
        let encrypted = match cursor.take_array()? {
            PLAIN => false,
            ENCRYPTED => true,
            _ => return Err(Error::at(ErrorKind::File(FileKind::NotParquet), at + 4)),
        };
        let available = at - MAGIC_LEN;
        match claimed {
            1.. if claimed <= available => Ok(Self { encrypted, metadata: at - claimed..at }),
            _ => Err(Error::at(ErrorKind::File(FileKind::FooterLength { claimed, available }), at)),
        }
    }

    /// Encodes the tail after `metadata_len` bytes of metadata.
    pub fn encode(encrypted: bool, metadata_len: u64) -> Result<[u8; 8]> {
        // Java reads the length as a signed integer, so writers must not use the upper half of the range.
        let length = i32::try_from(metadata_len).map_err(|_| {
            Error::new(ErrorKind::File(FileKind::FooterLength {
                claimed: metadata_len,
                available: i32::MAX.unsigned_abs().into(),
            }))
        })?;
        let mut tail = [0; 8];
        tail[..4].copy_from_slice(&length.to_le_bytes());
        tail[4..].copy_from_slice(if encrypted { &ENCRYPTED } else { &PLAIN });
        Ok(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tail: &[u8], file_len: u64, expect: std::result::Result<(bool, Range<u64>), ErrorKind>) {
        let actual = Tail::decode(tail, file_len);
        let actual = actual.map(|tail| (tail.encrypted, tail.metadata)).map_err(|error| error.kind().clone());
        assert_eq!(actual, expect, "{tail:?} of {file_len} bytes");
    }

    #[test]
    fn tails_are_decoded_and_validated() {
        check(b"\x05\0\0\0PAR1", 100, Ok((false, 87..92)));
        check(b"more before\x05\0\0\0PARE", 100, Ok((true, 87..92)));
        check(b"\x01\0\0\0PAR1", 13, Ok((false, 4..5)));
        check(b"\x01\0\0\0PAR1", 12, Err(ErrorKind::File(FileKind::FooterLength { claimed: 1, available: 0 })));
        check(b"\x00\0\0\0PAR1", 12, Err(ErrorKind::File(FileKind::FooterLength { claimed: 0, available: 0 })));
        check(
            b"\xff\xff\xff\xffPAR1",
            100,
            Err(ErrorKind::File(FileKind::FooterLength { claimed: 0xffff_ffff, available: 88 })),
        );
        check(b"\x01\0\0\0PAR2", 100, Err(ErrorKind::File(FileKind::NotParquet)));
        check(b"\0\0\0PAR1", 100, Err(ErrorKind::Truncated { needed: 12, available: 7 }));
        check(b"PAR1\0\0\0\0PAR1", 8, Err(ErrorKind::Truncated { needed: 12, available: 8 }));
    }

    #[test]
    fn encoded_tails_can_be_decoded() {
        for (encrypted, len) in [(false, 1), (true, 70_000)] {
            let tail = Tail::encode(encrypted, len).unwrap();
            check(&tail, len + 12, Ok((encrypted, 4..4 + len)));
        }
        assert!(Tail::encode(false, 1 << 31).is_err());
    }
}
