//! What all stored parts share: a magic with the version, and a checksum over everything before it.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;

/// A stored part: its name in errors and its first four bytes, the last of which is the version.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct Part {
    pub(in crate::sieve) name: &'static str,
    magic: [u8; 4],
}

/// What lookups read of a segment.
pub(in crate::sieve) const SEGMENT: Part = Part { name: "segment", magic: *b"SvL1" };
/// What compaction reads of a segment.
pub(in crate::sieve) const KEYS: Part = Part { name: "keys section", magic: *b"SvK1" };
/// Locations, their statistics and the directory of segments.
pub(in crate::sieve) const ROOT: Part = Part { name: "root", magic: *b"SvR1" };
/// The changes of one commit.
pub(in crate::sieve) const DELTA: Part = Part { name: "delta", magic: *b"SvD1" };

/// A piece of a sorted run on its way to the builder; never part of an index.
pub(in crate::sieve) const RUN: Part = Part { name: "run", magic: *b"SvP1" };
/// What one partition of a build tells the one who joins them; never part of an index.
pub(in crate::sieve) const SHARE: Part = Part { name: "share", magic: *b"SvS1" };

/// Bytes that every part has beyond its body.
const OVERHEAD: usize = 8;

/// Puts a body into its frame.
pub(in crate::sieve) fn frame(part: Part, body: &[u8]) -> Vec<u8> {
    let mut bytes = begin(part, body.len());
    bytes.extend_from_slice(body);
    end(bytes)
}

/// A frame whose body is appended to it, for parts too long to be copied.
pub(in crate::sieve) fn begin(part: Part, room: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(room + OVERHEAD);
    bytes.extend_from_slice(&part.magic);
    bytes
}

/// Closes a frame that was begun.
pub(in crate::sieve) fn end(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The body of a framed part, once its checksum matches.
pub(in crate::sieve) fn unframe(part: Part, bytes: &[u8]) -> Result<&[u8]> {
    if !bytes.starts_with(&part.magic) {
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

/// A cursor over a body; its offsets are those of the framed part.
pub(in crate::sieve) fn cursor(body: &[u8]) -> Cursor<'_> {
    Cursor::new(body, 4)
}

/// An error of a field that contradicts the others.
pub(in crate::sieve) fn malformed(cursor: &Cursor<'_>, field: &'static str) -> Error {
    Error::at(ErrorKind::SieveMalformed { field }, cursor.offset())
}

/// A value that every byte after the last field would make ambiguous: there must be none.
pub(in crate::sieve) fn finished(cursor: &Cursor<'_>) -> Result<()> {
    if cursor.remaining() == 0 { Ok(()) } else { Err(malformed(cursor, "bytes after the last field")) }
}

/// A number of 32 bits.
pub(in crate::sieve) fn take_u32(cursor: &mut Cursor<'_>) -> Result<u32> {
    u32::try_from(cursor.varint()?).map_err(|_| malformed(cursor, "number"))
}
