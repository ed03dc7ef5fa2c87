//! The frame of every stored part: a magic that includes the version, and a checksum over everything before it.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32, to_u64};

/// A kind of stored part: its name in error messages and its magic, whose last byte is the version.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct PartKind {
    pub(in crate::sieve) name: &'static str,
    magic: [u8; 4],
}

/// The part of a segment that lookups read.
pub(in crate::sieve) const SEGMENT: PartKind = PartKind { name: "segment", magic: *b"SvL1" };
/// The part of a segment that lookups read, in version 2.
pub(in crate::sieve) const SEGMENT_2: PartKind = PartKind { name: "segment", magic: *b"SvL2" };
/// The part of a segment that compaction reads.
pub(in crate::sieve) const KEYS: PartKind = PartKind { name: "keys section", magic: *b"SvK1" };
/// The locations, their statistics and the directory of segments.
pub(in crate::sieve) const ROOT: PartKind = PartKind { name: "root", magic: *b"SvR1" };
/// The changes of one commit.
pub(in crate::sieve) const DELTA: PartKind = PartKind { name: "delta", magic: *b"SvD1" };

/// Version 2: the slices and the directories of unit pages and segments.
pub(in crate::sieve) const UNIT_ROOT: PartKind = PartKind { name: "root", magic: *b"SvR2" };
/// Version 2: the units of some slices with their statistics.
pub(in crate::sieve) const UNITS: PartKind = PartKind { name: "unit page", magic: *b"SvU2" };
/// Version 2: the changes of one commit.
pub(in crate::sieve) const UNIT_DELTA: PartKind = PartKind { name: "delta", magic: *b"SvD2" };

/// One chunk of a sorted run during a build. It is never part of an index.
pub(in crate::sieve) const RUN: PartKind = PartKind { name: "run", magic: *b"SvP1" };
/// The result of one partition of a build, to be joined with the others. It is never part of an index.
pub(in crate::sieve) const SHARE: PartKind = PartKind { name: "share", magic: *b"SvS1" };

impl PartKind {
    /// Returns true if a part begins with this magic.
    pub(in crate::sieve) fn begins(self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.magic)
    }
}

/// The bytes that the frame adds to a body.
const OVERHEAD: usize = 8;

/// Wraps a body in its frame.
pub(in crate::sieve) fn frame(part: PartKind, body: &[u8]) -> Vec<u8> {
    let mut bytes = begin(part, body.len());
    bytes.extend_from_slice(body);
    end(bytes)
}

/// Begins a frame to which the caller appends the body. This avoids copying large parts.
pub(in crate::sieve) fn begin(part: PartKind, room: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(room + OVERHEAD);
    bytes.extend_from_slice(&part.magic);
    bytes
}

/// Completes a frame from [`begin`] by appending the checksum.
pub(in crate::sieve) fn end(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns the body of a framed part after verifying its checksum.
pub(in crate::sieve) fn unframe(part: PartKind, bytes: &[u8]) -> Result<&[u8]> {
    if !part.begins(bytes) {
        return Err(Error::at(ErrorKind::SieveMagic { part: part.name }, 0));
    }
    let available = to_u64(bytes.len());
    let Some((framed, checksum)) = bytes.split_last_chunk::<4>().filter(|(framed, _)| framed.len() >= 4) else {
        return Err(Error::at(ErrorKind::Truncated { needed: to_u64(OVERHEAD), available }, 0));
    };
    if crc32c::crc32c(framed) != u32::from_le_bytes(*checksum) {
        return Err(Error::at(ErrorKind::SieveChecksum { part: part.name }, to_u64(framed.len())));
    }
    Ok(&framed[4..])
}

/// Begins a frame that other bytes may follow: after the magic, it has the size of its body.
pub(in crate::sieve) fn begin_sized(part: PartKind) -> Vec<u8> {
    [part.magic, [0; 4]].concat()
}

/// Completes a frame from [`begin_sized`].
pub(in crate::sieve) fn end_sized(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = saturating_u32(bytes.len() - 8);
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    end(bytes)
}

/// Returns the body of a frame from [`begin_sized`] after verifying its checksum, and the bytes after the frame.
pub(in crate::sieve) fn unframe_sized(part: PartKind, bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let available = to_u64(bytes.len());
    let len = bytes.get(4..8).and_then(|len| len.first_chunk::<4>()).map(|len| index(u32::from_le_bytes(*len)));
    let whole = len.and_then(|len| len.checked_add(12)).filter(|&whole| whole <= bytes.len());
    if !bytes.starts_with(&part.magic) {
        return Err(Error::at(ErrorKind::SieveMagic { part: part.name }, 0));
    }
    let Some(whole) = whole else {
        let needed = to_u64(len.unwrap_or(0)).saturating_add(12);
        return Err(Error::at(ErrorKind::Truncated { needed, available }, 0));
    };
    let body = unframe(part, &bytes[..whole])?;
    Ok((&body[4..], &bytes[whole..]))
}

/// Returns a cursor over a body. Its offsets count from the start of the frame.
pub(in crate::sieve) fn cursor(body: &[u8]) -> Cursor<'_> {
    Cursor::new(body, 4)
}

/// Builds an error for a field that contradicts the others.
pub(in crate::sieve) fn malformed(cursor: &Cursor<'_>, field: &'static str) -> Error {
    Error::at(ErrorKind::SieveMalformed { field }, cursor.offset())
}

/// Checks that no bytes follow the last field, so that a part has only one encoding.
pub(in crate::sieve) fn finished(cursor: &Cursor<'_>) -> Result<()> {
    if cursor.remaining() == 0 { Ok(()) } else { Err(malformed(cursor, "bytes after the last field")) }
}

/// Reads a varint that must fit in 32 bits.
pub(in crate::sieve) fn take_u32(cursor: &mut Cursor<'_>) -> Result<u32> {
    u32::try_from(cursor.varint()?).map_err(|_| malformed(cursor, "number"))
}
