//! Changes the Bloom filter pointers of column chunks in the metadata, and keeps every other byte.
//!
//! The metadata is not decoded and encoded again, which would lose unknown fields. Instead, its fields are walked, and
//! only the structs that change are replaced. A field's header stores the difference to the id of the previous field.
//! So if a field gets a new predecessor, its header is rewritten, and its value is copied byte for byte.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;
use crate::thrift::{Reader, Type, Writer};

const BLOOM_FILTER_OFFSET: i16 = 14;
const BLOOM_FILTER_LENGTH: i16 = 15;

/// The change to the two fields that point to a chunk's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pointer {
    /// Sets the position of a filter.
    Set {
        /// Offset in the file.
        offset: i64,
        /// Size in bytes of the filter including its header and encryption.
        length: i32,
    },
    /// Removes both fields.
    Clear,
}

/// The changes to a column chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkPatch {
    /// The change to the metadata in the footer, if the footer contains it in plaintext.
    pub pointer: Option<Pointer>,
    /// A module that replaces the chunk's encrypted metadata.
    pub encrypted_meta: Option<Vec<u8>>,
}

/// Patches a FileMetaData. Patches are keyed by row group and column. Bytes after the struct are dropped.
pub fn patch_metadata(bytes: &[u8], patches: &BTreeMap<(usize, usize), ChunkPatch>) -> Result<Vec<u8>> {
    let mut splices = Splices::default();
    let mut reader = Reader::new(bytes, 0);
    let mut remaining = patches.len();
    for field in fields(&mut reader, "FileMetaData")? {
        if (field.id, field.kind) == (4, Type::List) {
            let mut groups = field.reader(bytes)?;
            for row_group in 0..structures(&mut groups, "FileMetaData.row_groups")? {
                remaining -= patch_row_group(bytes, &mut groups, row_group, patches, &mut splices)?;
            }
        }
    }
    match (remaining, patches.keys().next_back()) {
        (1.., Some(&(row_group, column))) => Err(Error::new(ErrorKind::File(FileKind::NoSuchChunk {
            row_group: to_u64(row_group),
            column: to_u64(column),
        }))),
        _ => Ok(splices.apply(&bytes[..reader.position()])),
    }
}

/// Patches a standalone ColumnMetaData. Bytes after the struct are dropped.
pub fn patch_column_metadata(bytes: &[u8], pointer: Pointer) -> Result<Vec<u8>> {
    let mut reader = Reader::new(bytes, 0);
    let fields = fields(&mut reader, "ColumnMetaData")?;
    with_pointer(bytes, &fields, pointer)
}

/// Patches the chunks of a row group, and returns the number of patches applied.
fn patch_row_group(
    bytes: &[u8],
    reader: &mut Reader<'_>,
    row_group: usize,
    patches: &BTreeMap<(usize, usize), ChunkPatch>,
    splices: &mut Splices,
) -> Result<usize> {
    let mut num_patched = 0;
    for field in fields(reader, "RowGroup")? {
        if (field.id, field.kind) == (1, Type::List) {
            let mut chunks = field.reader(bytes)?;
            for column in 0..structures(&mut chunks, "RowGroup.columns")? {
                let fields = fields(&mut chunks, "ColumnChunk")?;
                if let Some(patch) = patches.get(&(row_group, column)) {
                    patch_chunk(bytes, &fields, patch, splices)?;
                    num_patched += 1;
                }
            }
        }
    }
    Ok(num_patched)
}

fn patch_chunk(bytes: &[u8], chunk: &[FieldRange], patch: &ChunkPatch, splices: &mut Splices) -> Result<()> {
    let has = |id, kind| chunk.iter().find(|field| (field.id, field.kind) == (id, kind));
    if let Some(pointer) = patch.pointer {
        let missing = || Error::new(ErrorKind::MissingField { field: "ColumnChunk.meta_data" });
        let meta = has(3, Type::Struct).ok_or_else(missing)?;
        let inner = fields(&mut meta.reader(bytes)?, "ColumnMetaData")?;
        splices.push(meta.value.clone(), with_pointer(bytes, &inner, pointer)?);
    }
    if let Some(module) = &patch.encrypted_meta {
        let missing = || Error::new(ErrorKind::MissingField { field: "ColumnChunk.encrypted_column_metadata" });
        let old = has(9, Type::Binary).ok_or_else(missing)?;
        let mut writer = Writer::new();
        writer.binary(module);
        splices.push(old.value.clone(), writer.into_bytes());
    }
    Ok(())
}

/// A field of a struct, as byte ranges within the metadata.
#[derive(Debug)]
struct FieldRange {
    id: i16,
    kind: Type,
    header: Range<usize>,
    value: Range<usize>,
    /// The id of the previous field, if the header stores the difference to it.
    previous: Option<i16>,
}

impl FieldRange {
    fn reader<'a>(&self, bytes: &'a [u8]) -> Result<Reader<'a>> {
        Reader::starting_at(bytes, self.value.start, 0)
    }
}

/// Returns the fields of the struct at the reader's position.
fn fields(reader: &mut Reader<'_>, structure: &'static str) -> Result<Vec<FieldRange>> {
    let mut fields: Vec<FieldRange> = Vec::new();
    let (mut last, mut seen) = (0, 0u64);
    loop {
        let start = reader.position();
        let Some(field) = reader.field(last)? else { return Ok(fields) };
        // Readers disagree about which of two equal fields counts, so a patch of one would be ambiguous.
        if let Ok(bit @ 0..64) = u32::try_from(field.id) {
            if seen >> bit & 1 == 1 {
                return Err(Error::at(
                    ErrorKind::File(FileKind::DuplicateField { structure, id: field.id }),
                    to_u64(start),
                ));
            }
            seen |= 1 << bit;
        }
        let value = reader.position();
        reader.skip(field.kind)?;
        // A one-byte header stores the difference from the previous id. A longer header stores the id itself.
        let previous = (value - start == 1).then_some(last);
        let (id, kind) = (field.id, field.kind);
        fields.push(FieldRange { id, kind, header: start..value, value: value..reader.position(), previous });
        last = id;
    }
}

/// Returns the number of structs in the list at the reader's position.
fn structures(reader: &mut Reader<'_>, field: &'static str) -> Result<usize> {
    let at = reader.offset();
    let header = reader.list()?;
    match header.element == Some(Type::Struct) || header.len == 0 {
        true => Ok(header.len),
        false => Err(Error::at(ErrorKind::FieldType { field }, at)),
    }
}

/// Returns a ColumnMetaData with a changed pointer to its filter.
fn with_pointer(bytes: &[u8], fields: &[FieldRange], pointer: Pointer) -> Result<Vec<u8>> {
    let foreign = |id, kind| fields.iter().any(|field| field.id == id && field.kind != kind);
    if foreign(BLOOM_FILTER_OFFSET, Type::I64) {
        return Err(Error::new(ErrorKind::File(FileKind::ForeignField {
            structure: "ColumnMetaData",
            id: BLOOM_FILTER_OFFSET,
        })));
    }
    let mut new = Vec::new();
    if let Pointer::Set { offset, length } = pointer {
        new.push((BLOOM_FILTER_OFFSET, Type::I64, offset));
        // Keep a field 15 of another type, which is not the length. The length is optional: readers can use the
        // filter's header.
        if !foreign(BLOOM_FILTER_LENGTH, Type::I32) {
            new.push((BLOOM_FILTER_LENGTH, Type::I32, length.into()));
        }
    }
    let mut writer = Writer::new();
    let mut last = 0;
    let put = |(id, kind, value): (i16, Type, i64), last: &mut i16, writer: &mut Writer| {
        writer.field(kind, id, *last);
        writer.integer(value);
        *last = id;
    };
    let mut new = new.into_iter().peekable();
    for field in fields {
        while let Some(added) = new.next_if(|added| added.0 <= field.id) {
            put(added, &mut last, &mut writer);
        }
        let old = matches!((field.id, field.kind), (BLOOM_FILTER_OFFSET, Type::I64) | (BLOOM_FILTER_LENGTH, Type::I32));
        if !old {
            match field.previous {
                Some(previous) if previous != last => writer.field(field.kind, field.id, last),
                _ => writer.raw(&bytes[field.header.clone()]),
            }
            writer.raw(&bytes[field.value.clone()]);
            last = field.id;
        }
    }
    new.for_each(|added| put(added, &mut last, &mut writer));
    writer.stop();
    Ok(writer.into_bytes())
}

/// Byte ranges and their replacements.
#[derive(Default)]
struct Splices(Vec<(Range<usize>, Vec<u8>)>);

impl Splices {
    fn push(&mut self, range: Range<usize>, bytes: Vec<u8>) {
        self.0.push((range, bytes));
    }

    fn apply(mut self, bytes: &[u8]) -> Vec<u8> {
        // Fields may be in any order, so the splices of one chunk may be as well.
        self.0.sort_by_key(|(range, _)| range.start);
        let mut out = Vec::with_capacity(bytes.len());
        let mut copied = 0;
        for (range, new) in &self.0 {
            out.extend_from_slice(&bytes[copied..range.start]);
            out.extend_from_slice(new);
            copied = range.end;
        }
        out.extend_from_slice(&bytes[copied..]);
        out
    }
}

#[cfg(test)]
#[path = "patch_tests.rs"]
mod tests;
