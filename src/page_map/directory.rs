//! The directory of a map: its schemas, and the place and checksum of each block.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, PageMapKind, Result};
use crate::int::to_u64;
use crate::page_map::malformed;
use crate::page_map::schema::FileSchema;
use crate::varint::{put_varint, take_len};
use std::sync::Arc;

/// The first bytes of a directory. The last of them is the version.
const MAGIC: &[u8; 4] = b"PgM1";
const CRC: usize = 4;
/// The magic and the length of the body.
const HEAD: usize = 8;

/// A block, as the directory describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockEntry {
    pub(super) first_slice: u32,
    /// The first row group of the block's first run.
    pub(super) first_group: u32,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) crc: u32,
}

/// The content of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    /// Number of slices, with or without a map.
    pub(super) num_slices: u32,
    pub(super) schemas: Vec<Arc<FileSchema>>,
    pub(super) blocks: Vec<BlockEntry>,
}

impl Directory {
    pub(super) fn write(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_varint(&mut body, self.num_slices.into());
        put_varint(&mut body, to_u64(self.schemas.len()));
        for schema in &self.schemas {
            put_varint(&mut body, to_u64(schema.bytes().len()));
            body.extend_from_slice(schema.bytes());
        }
        put_varint(&mut body, to_u64(self.blocks.len()));
        let mut last = 0;
        for block in &self.blocks {
            put_varint(&mut body, (block.first_slice - last).into());
            put_varint(&mut body, block.first_group.into());
            put_varint(&mut body, block.len);
            body.extend_from_slice(&block.crc.to_le_bytes());
            last = block.first_slice;
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend_from_slice(&body);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a directory at the start of `bytes`. Also returns the bytes after it.
    pub(super) fn read(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let Some((head, rest)) = bytes.split_at_checked(HEAD).filter(|(head, _)| head.starts_with(MAGIC)) else {
            return Err(Error::at(ErrorKind::PageMap(PageMapKind::Magic), 0));
        };
        let len = Cursor::new(&head[4..], 4).u32()?;
        let available = to_u64(rest.len());
        let body = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
        let split =
            body.and_then(|(body, after)| after.split_first_chunk::<CRC>().map(|(crc, after)| (body, crc, after)));
        let (body, crc, after) = split.ok_or_else(|| {
            Error::at(ErrorKind::Truncated { needed: u64::from(len) + to_u64(CRC), available }, to_u64(HEAD))
        })?;
        if crc32c::crc32c(&bytes[..HEAD + body.len()]) != u32::from_le_bytes(*crc) {
            return Err(Error::at(ErrorKind::PageMap(PageMapKind::Checksum), to_u64(HEAD + body.len())));
        }
        Ok((Self::read_body(body)?, after))
    }

    fn read_body(body: &[u8]) -> Result<Self> {
        let mut cursor = Cursor::new(body, to_u64(HEAD));
        let cursor = &mut cursor;
        let num_slices = take_u32(cursor)?;
        let mut schemas = Vec::new();
        // Each iteration consumes bytes, so a false count fails at the end of the input.
        for _ in 0..cursor.varint()? {
            let len = take_len(cursor)?;
            schemas.push(Arc::new(FileSchema::decode(cursor.take(len)?.to_vec())?));
        }
        let mut blocks: Vec<BlockEntry> = Vec::new();
        let (mut last, mut offset) = (0u32, 0u64);
        for _ in 0..cursor.varint()? {
            let at = cursor.offset();
            let distance = take_u32(cursor)?;
            let first_slice = last.checked_add(distance).filter(|&slice| slice < num_slices);
            let first_slice = first_slice.ok_or_else(|| malformed("the first slice of a block", at))?;
            let block = BlockEntry {
                first_slice,
                first_group: take_u32(cursor)?,
                offset,
                len: cursor.varint()?,
                crc: cursor.u32()?,
            };
            let is_after = blocks.last().is_none_or(|last| last.start() < block.start());
            offset = offset
                .checked_add(block.len)
                .filter(|_| is_after && block.len > 0)
                .ok_or_else(|| malformed("the blocks", at))?;
            blocks.push(block);
            last = first_slice;
        }
        if cursor.remaining() > 0 {
            return Err(malformed("bytes after the last block", cursor.offset()));
        }
        Ok(Self { num_slices, schemas, blocks })
    }

    /// Returns the blocks with the row groups of a slice from `first` to `last`.
    pub(super) fn blocks_of(&self, slice: u32, first: u32, last: u32) -> &[BlockEntry] {
        let end = self.blocks.partition_point(|block| block.start() <= (slice, last));
        let start = self.blocks.partition_point(|block| block.start() <= (slice, first)).saturating_sub(1);
        self.blocks.get(start..end).unwrap_or_default()
    }
}

impl BlockEntry {
    fn start(&self) -> (u32, u32) {
        (self.first_slice, self.first_group)
    }
}

fn take_u32(cursor: &mut Cursor<'_>) -> Result<u32> {
    let at = cursor.offset();
    u32::try_from(cursor.varint()?).map_err(|_| malformed("a number", at))
}
