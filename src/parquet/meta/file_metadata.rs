//! FileMetaData: what a file holds and where, as far as filters need it.
//!
//! Nothing is copied out of the metadata: names, statistics and modules stay positions in its bytes. So memory is a small
//! multiple of the input whatever the input claims, and `patch.rs` can rewrite the same bytes with everything unknown kept.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;
use crate::parquet::meta::chunk::{ColumnChunk, ColumnMeta, Statistics};
use crate::parquet::meta::encryption::Algorithm;
use crate::parquet::meta::record::{Record, required};
use crate::parquet::meta::schema::{Leaf, Schema};
use crate::parquet::meta::span::Span;
use crate::thrift::{Reader, Type};

/// One row group.
#[derive(Debug, Clone)]
pub struct RowGroup {
    /// Its column chunks, one for each leaf, in schema order.
    pub chunks: Vec<ColumnChunk>,
    /// Rows.
    pub num_rows: u64,
    /// Bytes before compression.
    pub total_byte_size: i64,
    /// Where it starts, if the writer says it; what the writer claimed, unchecked.
    pub file_offset: Option<i64>,
    /// Its number when the file was written, where the writer says it.
    pub ordinal: Option<i16>,
}

/// By which order a column's statistics were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnOrder {
    /// The order of the column's type.
    TypeDefined,
    /// IEEE 754 total order of floats.
    Ieee754,
    /// An order newer than this code.
    Unknown(i16),
}

/// The metadata of one file.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The bytes that all spans point into: the metadata, then every column's metadata that was decrypted later.
    bytes: Vec<u8>,
    len: usize,
    schema: Arc<Schema>,
    row_groups: Vec<RowGroup>,
    num_rows: i64,
    key_values: Vec<(Span, Option<Span>)>,
    created_by: Option<Span>,
    column_orders: Vec<ColumnOrder>,
    algorithm: Option<Algorithm>,
    signing_key_metadata: Option<Span>,
}

impl Metadata {
    /// Reads the metadata at the start of `bytes`, which lie at offset `base` of their file. What follows them (the
    /// signature of a plaintext footer) is not read.
    pub fn decode(mut bytes: Vec<u8>, base: u64) -> Result<Self> {
        let mut reader = Reader::new(&bytes, base);
        let mut found = Found::default();
        let mut record = Record::new(&mut reader, "FileMetaData");
        while let Some(id) = record.next()? {
            found.field(id, &mut record)?;
        }
        let at = record.offset();
        let len = record.position();
        let schema = required(found.schema, "FileMetaData.schema", at)?;
        let row_groups = required(found.row_groups, "FileMetaData.row_groups", at)?;
        // The schema may follow the row groups, so these are read when both have been seen.
        let mut reader = Reader::starting_at(&bytes, row_groups, base)?;
        let row_groups = decode_row_groups(&mut reader, &bytes, &schema)?;
        bytes.truncate(len);
        Ok(Self {
            bytes,
            len,
            schema: Arc::new(schema),
            row_groups,
            num_rows: required(found.num_rows, "FileMetaData.num_rows", at)?,
            key_values: found.key_values,
            created_by: found.created_by,
            column_orders: found.column_orders,
            algorithm: found.algorithm,
            signing_key_metadata: found.signing_key_metadata,
        })
    }

    /// The metadata exactly as they were read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The columns that hold data.
    pub fn leaves(&self) -> &[Leaf] {
        self.schema.leaves()
    }

    /// The names from the top of the schema down to a leaf.
    pub fn path(&self, leaf: &Leaf) -> Vec<&str> {
        self.schema.path(leaf, &self.bytes)
    }

    /// The row groups, in file order.
    pub fn row_groups(&self) -> &[RowGroup] {
        &self.row_groups
    }

    /// Rows of the whole file, as the writer counted them.
    pub fn num_rows(&self) -> i64 {
        self.num_rows
    }

    /// One column chunk.
    pub fn chunk(&self, row_group: usize, column: usize) -> Result<&ColumnChunk> {
        self.row_groups.get(row_group).and_then(|group| group.chunks.get(column)).ok_or_else(|| {
            Error::new(ErrorKind::File(FileKind::NoSuchChunk { row_group: to_u64(row_group), column: to_u64(column) }))
        })
    }

    /// Statistics of a chunk, read when asked for: a mistake in them harms nothing else.
    pub fn statistics(&self, chunk: &ColumnChunk) -> Result<Option<Statistics<'_>>> {
        let span = chunk.meta.as_ref().and_then(|meta| meta.statistics);
        span.map(|span| Statistics::decode(span.of(&self.bytes))).transpose()
    }

    /// Keys and values that applications left in the file.
    pub fn key_values(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.key_values.iter().map(|(key, value)| (self.text(key), value.as_ref().map(|value| self.text(value))))
    }

    /// The program that wrote the file.
    pub fn created_by(&self) -> Option<&str> {
        self.created_by.as_ref().map(|span| self.text(span))
    }

    /// By which order the statistics of a column were made; `None` in old files, whose order is not defined.
    pub fn column_order(&self, column: usize) -> Option<ColumnOrder> {
        self.column_orders.get(column).copied()
    }

    /// How a file with a plaintext footer is encrypted or signed.
    pub fn algorithm(&self) -> Option<&Algorithm> {
        self.algorithm.as_ref()
    }

    /// What identifies the key that signs a plaintext footer.
    pub fn signing_key_metadata(&self) -> Option<&[u8]> {
        self.signing_key_metadata.as_ref().map(|span| span.of(&self.bytes))
    }

    /// What identifies a column's own key.
    pub fn key_metadata(&self, chunk: &ColumnChunk) -> Option<&[u8]> {
        chunk.key_metadata.as_ref().map(|span| span.of(&self.bytes))
    }

    /// A chunk's metadata as an encrypted module.
    pub fn encrypted_meta(&self, chunk: &ColumnChunk) -> Option<&[u8]> {
        chunk.encrypted_meta.as_ref().map(|span| span.of(&self.bytes))
    }

    /// The number that encryption knows a row group by.
    pub fn ordinal(&self, row_group: usize) -> Result<i16> {
        let stated = self.row_groups.get(row_group).and_then(|group| group.ordinal);
        stated.map_or_else(|| column_ordinal(row_group), Ok)
    }

    /// Puts decrypted metadata in the place of what the footer says about a chunk: only they can be trusted, and
    /// they say more.
    pub fn set_column_meta(&mut self, row_group: usize, column: usize, decrypted: &[u8]) -> Result<()> {
        self.chunk(row_group, column)?;
        let leaf = &self.schema.leaves()[column];
        let path = self.schema.path(leaf, &self.bytes);
        let mut meta = ColumnMeta::decode(&mut Reader::new(decrypted, 0), leaf, &path)?;
        meta.move_spans(self.bytes.len()).ok_or_else(|| Error::new(ErrorKind::IntegerRange))?;
        self.bytes.extend_from_slice(decrypted);
        self.row_groups[row_group].chunks[column].meta = Some(Box::new(meta));
        Ok(())
    }

    fn text(&self, span: &Span) -> &str {
        // Text for people only; one that is not UTF-8 is not worth refusing a file.
        std::str::from_utf8(span.of(&self.bytes)).unwrap_or_default()
    }
}

/// A position in the file or the row group as the 16 bits that encryption has for it.
pub fn column_ordinal(position: usize) -> Result<i16> {
    i16::try_from(position).map_err(|_| Error::new(ErrorKind::File(FileKind::Ordinal(to_u64(position)))))
}

/// The fields of FileMetaData that were met so far.
#[derive(Default)]
struct Found {
    schema: Option<Schema>,
    num_rows: Option<i64>,
    row_groups: Option<usize>,
    key_values: Vec<(Span, Option<Span>)>,
    created_by: Option<Span>,
    column_orders: Vec<ColumnOrder>,
    algorithm: Option<Algorithm>,
    signing_key_metadata: Option<Span>,
}

impl Found {
    fn field(&mut self, id: i16, record: &mut Record<'_, '_>) -> Result<()> {
        match id {
            2 => {
                let list = record.list(Type::Struct)?;
                self.schema = list.map(|(len, reader)| Schema::decode(len, reader)).transpose()?;
            }
            3 => self.num_rows = record.i64()?,
            4 => {
                let start = record.position();
                if let Some((len, reader)) = record.list(Type::Struct)? {
                    (0..len).try_for_each(|_| reader.skip(Type::Struct))?;
                    self.row_groups = Some(start);
                }
            }
            5 => self.key_values = decode_key_values(record)?,
            6 => self.created_by = Span::binary(record)?,
            7 => self.column_orders = decode_column_orders(record)?,
            8 => self.algorithm = Some(Algorithm::decode_field(record)?),
            9 => self.signing_key_metadata = Span::binary(record)?,
            _ => record.skip()?,
        }
        Ok(())
    }
}

fn decode_row_groups(reader: &mut Reader<'_>, bytes: &[u8], schema: &Schema) -> Result<Vec<RowGroup>> {
    let header = reader.list()?;
    let mut row_groups = Vec::new();
    for _ in 0..header.len {
        row_groups.push(decode_row_group(reader, bytes, schema, to_u64(row_groups.len()))?);
    }
    Ok(row_groups)
}

fn decode_row_group(reader: &mut Reader<'_>, bytes: &[u8], schema: &Schema, row_group: u64) -> Result<RowGroup> {
    let (mut chunks, mut num_rows, mut total_byte_size) = (None, None, None);
    let (mut file_offset, mut ordinal) = (None, None);
    let mut record = Record::new(reader, "RowGroup");
    while let Some(id) = record.next()? {
        match id {
            1 => {
                let at = record.offset();
                let Some((found, reader)) = record.list(Type::Struct)? else { continue };
                let leaves = schema.leaves();
                if found != leaves.len() {
                    let (found, leaves) = (to_u64(found), to_u64(leaves.len()));
                    return Err(Error::at(ErrorKind::File(FileKind::ColumnCount { row_group, found, leaves }), at));
                }
                // A claim is not worth memory before it is proved, and a vector of one need not have room for four.
                let mut decoded = Vec::with_capacity(found.min(16));
                for leaf in leaves {
                    decoded.push(ColumnChunk::decode(reader, leaf, &schema.path(leaf, bytes))?);
                }
                chunks = Some(decoded);
            }
            2 => total_byte_size = record.i64()?,
            3 => num_rows = count(&mut record, "RowGroup.num_rows")?,
            5 => file_offset = record.i64()?,
            7 => ordinal = record.i16()?,
            _ => record.skip()?,
        }
    }
    let at = record.offset();
    Ok(RowGroup {
        chunks: required(chunks, "RowGroup.columns", at)?,
        num_rows: required(num_rows, "RowGroup.num_rows", at)?,
        total_byte_size: required(total_byte_size, "RowGroup.total_byte_size", at)?,
        file_offset,
        ordinal,
    })
}

fn count(record: &mut Record<'_, '_>, field: &'static str) -> Result<Option<u64>> {
    let at = record.offset();
    let Some(value) = record.i64()? else { return Ok(None) };
    u64::try_from(value).map(Some).map_err(|_| Error::at(ErrorKind::File(FileKind::FieldValue { field, value }), at))
}

fn decode_key_values(record: &mut Record<'_, '_>) -> Result<Vec<(Span, Option<Span>)>> {
    let mut pairs = Vec::new();
    let Some((len, reader)) = record.list(Type::Struct)? else { return Ok(pairs) };
    for _ in 0..len {
        let (mut key, mut value) = (None, None);
        let mut record = Record::new(reader, "KeyValue");
        while let Some(id) = record.next()? {
            match id {
                // Applications put bytes of their own into values, which nobody but them reads.
                1 => key = Span::binary(&mut record)?,
                2 => value = Span::binary(&mut record)?,
                _ => record.skip()?,
            }
        }
        pairs.push((required(key, "KeyValue.key", record.offset())?, value));
    }
    Ok(pairs)
}

fn decode_column_orders(record: &mut Record<'_, '_>) -> Result<Vec<ColumnOrder>> {
    let mut orders = Vec::new();
    let Some((len, reader)) = record.list(Type::Struct)? else { return Ok(orders) };
    for _ in 0..len {
        let mut order = ColumnOrder::Unknown(0);
        let mut record = Record::new(reader, "ColumnOrder");
        while let Some(id) = record.next()? {
            record.skip()?;
            order = match id {
                1 => ColumnOrder::TypeDefined,
                2 => ColumnOrder::Ieee754,
                other => ColumnOrder::Unknown(other),
            };
        }
        orders.push(order);
    }
    Ok(orders)
}

#[cfg(test)]
mod tests {
    use parquet::file::metadata::ParquetMetaDataReader;

    use super::*;
    use crate::parquet::fixtures;
    use crate::parquet::{Logical, Physical};

    fn code(physical: Physical) -> i32 {
        (0..8).find(|&code| Physical::from_code(code) == physical).unwrap()
    }

    /// The peer's decoder as the oracle, for everything that both decode.
    #[test]
    fn real_footers_read_as_the_parquet_crate_reads_them() {
        for (name, bytes) in fixtures::plain_footers() {
            let ours = Metadata::decode(bytes.clone(), 4).unwrap_or_else(|error| panic!("{name}: {error}"));
            let Ok(theirs) = ParquetMetaDataReader::decode_metadata(&bytes) else {
                // Dremio's own use of field 15 as a list, which the peer refuses and Thrift's generated readers skip.
                assert!(name.starts_with("dict-page-offset-zero"), "{name}");
                assert_eq!(ours.row_groups()[0].chunks[0].meta.as_ref().unwrap().bloom_filter_length, None);
                continue;
            };
            assert_eq!(ours.created_by(), theirs.file_metadata().created_by(), "{name}");
            let schema = theirs.file_metadata().schema_descr();
            assert_eq!(ours.leaves().len(), schema.num_columns(), "{name}");
            for (leaf, column) in ours.leaves().iter().zip(schema.columns()) {
                assert_eq!(ours.path(leaf), column.path().parts(), "{name}");
                assert_eq!((leaf.max_def, leaf.max_rep), (column.max_def_level(), column.max_rep_level()), "{name}");
                assert_eq!(code(leaf.physical), column.physical_type() as i32, "{name}");
            }
            assert_eq!(ours.row_groups().len(), theirs.num_row_groups(), "{name}");
            for (group, peer) in ours.row_groups().iter().zip(theirs.row_groups()) {
                assert_eq!(group.num_rows, peer.num_rows().cast_unsigned(), "{name}");
                for (chunk, peer) in group.chunks.iter().zip(peer.columns()) {
                    let meta = chunk.meta.as_ref().unwrap();
                    assert_eq!(meta.num_values, peer.num_values(), "{name}");
                    assert_eq!(meta.data_page_offset, peer.data_page_offset(), "{name}");
                    assert_eq!(meta.dictionary_page_offset, peer.dictionary_page_offset(), "{name}");
                    assert_eq!(meta.total_compressed_size, peer.compressed_size(), "{name}");
                    assert_eq!(meta.bloom_filter_offset, peer.bloom_filter_offset(), "{name}");
                    assert_eq!(meta.bloom_filter_length, peer.bloom_filter_length(), "{name}");
                    assert_eq!(chunk.offset_index.map(|place| place.offset), peer.offset_index_offset(), "{name}");
                    assert_eq!(chunk.column_index.map(|place| place.length), peer.column_index_length(), "{name}");
                    let statistics = ours.statistics(chunk).unwrap().unwrap_or_default();
                    let nulls = peer.statistics().and_then(|statistics| statistics.null_count_opt());
                    assert_eq!(statistics.null_count.map(i64::cast_unsigned), nulls, "{name}");
                    let min = statistics.min_value.or(statistics.old_min);
                    assert_eq!(min, peer.statistics().and_then(|statistics| statistics.min_bytes_opt()), "{name}");
                }
            }
        }
    }

    #[test]
    fn what_a_newer_format_adds_is_kept_as_unknown() {
        let Some(file) = fixtures::file("unknown-logical-type") else { return };
        let metadata = Metadata::decode(fixtures::footer(&file).1, 4).unwrap();
        let logical: Vec<_> = metadata.leaves().iter().map(|leaf| leaf.logical).collect();
        assert!(matches!(logical[..], [Some(Logical::String), Some(Logical::Unknown(_))]), "{logical:?}");
    }

    fn check(bytes: &[u8], expect: &ErrorKind) {
        assert_eq!(Metadata::decode(bytes.to_vec(), 0).unwrap_err().kind(), expect, "{bytes:x?}");
    }

    #[test]
    fn damaged_structures_are_named() {
        let schema = |elements: &[&[u8]]| [&[0x29, (elements.len() as u8) << 4 | 12], &elements.concat()[..]].concat();
        let file = |elements: &[&[u8]], rest: &[u8]| [&schema(elements)[..], rest].concat();
        let root = |children: u8| [0x48, 1, b'r', 0x15, children * 2, 0];
        let leaf: &[u8] = &[0x15, 2, 0x25, 0, 0x18, 1, b'a', 0];
        let shape = |what| ErrorKind::File(FileKind::SchemaShape(what));
        // num_rows 0, row_groups [ { columns [], 0, 0 } ]
        let one_group: &[u8] = &[0x16, 0, 0x19, 0x1c, 0x19, 0x0c, 0x16, 0, 0x16, 0, 0, 0];
        check(&[0], &ErrorKind::MissingField { field: "FileMetaData.schema" });
        check(&file(&[&root(0)], &[0]), &ErrorKind::MissingField { field: "FileMetaData.row_groups" });
        check(&file(&[], &[0]), &shape("a group has fewer children than it claims"));
        check(&file(&[&root(2), leaf], &[0]), &shape("a group has fewer children than it claims"));
        check(&file(&[&root(0), leaf], &[0]), &shape("an element follows the last group"));
        check(&file(&[leaf], &[0]), &shape("the root is not a group"));
        check(
            &file(&[&root(1), &[0x15, 2, 0x38, 1, b'a', 0]], &[0]),
            &ErrorKind::MissingField { field: "SchemaElement.repetition_type" },
        );
        check(
            &file(&[&root(1), leaf], one_group),
            &ErrorKind::File(FileKind::ColumnCount { row_group: 0, found: 0, leaves: 1 }),
        );
        check(
            &[0x36, 0, 0x06, 6, 2, 0],
            &ErrorKind::File(FileKind::DuplicateField { structure: "FileMetaData", id: 3 }),
        );
        assert_eq!(Metadata::decode(file(&[&root(0)], one_group), 0).unwrap().row_groups().len(), 1);
    }

    /// Every prefix and every changed byte of real footers: a value or a typed error, and never much memory.
    #[test]
    fn damaged_footers_do_no_harm() {
        for (_, bytes) in fixtures::plain_footers() {
            let end = Metadata::decode(bytes.clone(), 0).unwrap().bytes().len();
            for cut in 0..end {
                assert!(Metadata::decode(bytes[..cut].to_vec(), 0).is_err(), "prefix of {cut} bytes");
            }
            for at in 0..bytes.len() {
                for flip in [0x01, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= flip;
                    if let Ok(metadata) = Metadata::decode(damaged, 0) {
                        read_everything(&metadata);
                    }
                }
            }
        }
    }

    fn read_everything(metadata: &Metadata) {
        metadata.leaves().iter().for_each(|leaf| drop(metadata.path(leaf)));
        let _ = (metadata.key_values().count(), metadata.created_by());
        for group in metadata.row_groups() {
            for chunk in &group.chunks {
                let _ = metadata.statistics(chunk);
                let _ = chunk.meta.as_ref().map(|meta| meta.data(1 << 40));
            }
        }
    }

    #[test]
    fn structures_stay_a_small_multiple_of_their_smallest_encoding() {
        // A chunk of a hostile footer takes at least 24 bytes with its metadata, and 35 with an encrypted module instead.
        assert!(size_of::<ColumnChunk>() + size_of::<ColumnMeta>() <= 24 * 12);
        assert!(size_of::<RowGroup>() <= 8 * 16, "{}", size_of::<RowGroup>());
        assert!(size_of::<Leaf>() <= 5 * 16, "{}", size_of::<Leaf>());
    }
}
