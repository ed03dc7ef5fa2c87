//! FileMetaData: the contents of a file, limited to what filters need.
//!
//! Names, statistics and encrypted modules are stored as byte ranges within the metadata instead of copies. So the
//! memory is a small multiple of the input's size, even for invalid input, and `patch.rs` can rewrite the original
//! bytes and keep unknown fields.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::int::to_u64;
use crate::parquet::meta::chunk::{ColumnChunk, ColumnMeta, Statistics};
use crate::parquet::meta::encryption::Algorithm;
use crate::parquet::meta::record::{Record, required};
use crate::parquet::meta::schema::{Schema, SchemaLeaf};
use crate::parquet::meta::span::ByteSpan;
use crate::thrift::{Reader, Type};

/// A row group.
#[derive(Debug, Clone)]
pub struct RowGroup {
    /// Its column chunks, one per leaf, in schema order.
    pub chunks: Vec<ColumnChunk>,
    /// Number of rows.
    pub num_rows: u64,
    /// Size in bytes before compression.
    pub total_byte_size: i64,
    /// Offset of its first page, if the writer stores it. Not validated.
    pub file_offset: Option<i64>,
    /// Its number when the file was written, if the writer stores it.
    pub ordinal: Option<i16>,
}

/// The sort order on which a column's statistics are based.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnOrder {
    /// The order of the column's type.
    TypeDefined,
    /// The IEEE 754 total order of floating-point numbers.
    Ieee754,
    /// An order that this version does not know.
    Unknown(i16),
}

/// The metadata of a file.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// The bytes that all ranges refer to: the metadata, followed by the decrypted metadata of columns.
    bytes: Vec<u8>,
    len: usize,
    schema: Arc<Schema>,
    row_groups: Vec<RowGroup>,
    num_rows: i64,
    key_values: Vec<(ByteSpan, Option<ByteSpan>)>,
    created_by: Option<ByteSpan>,
    column_orders: Vec<ColumnOrder>,
    algorithm: Option<Algorithm>,
    signing_key_metadata: Option<ByteSpan>,
}

impl Metadata {
    /// Decodes the metadata at the start of `bytes`, which begin at offset `base` of their file. Ignores any bytes
    /// after it, such as the signature of a plaintext footer.
    pub fn decode(mut bytes: Vec<u8>, base: u64) -> Result<Self> {
        let mut reader = Reader::new(&bytes, base);
        let mut fields = FileMetadataFields::default();
        let mut record = Record::new(&mut reader, "FileMetaData");
        while let Some(id) = record.next()? {
            fields.field(id, &mut record)?;
        }
        let at = record.offset();
        let len = record.position();
        let schema = required(fields.schema, "FileMetaData.schema", at)?;
        let row_groups = required(fields.row_groups, "FileMetaData.row_groups", at)?;
        // The schema may come after the row groups, so decode the row groups once both have been found.
        let mut reader = Reader::starting_at(&bytes, row_groups, base)?;
        let row_groups = decode_row_groups(&mut reader, &bytes, &schema)?;
        bytes.truncate(len);
        Ok(Self {
            bytes,
            len,
            schema: Arc::new(schema),
            row_groups,
            num_rows: required(fields.num_rows, "FileMetaData.num_rows", at)?,
            key_values: fields.key_values,
            created_by: fields.created_by,
            column_orders: fields.column_orders,
            algorithm: fields.algorithm,
            signing_key_metadata: fields.signing_key_metadata,
        })
    }

    /// Returns the metadata exactly as it was read.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the leaf columns.
    pub fn leaves(&self) -> &[SchemaLeaf] {
        self.schema.leaves()
    }

    /// Returns the names from the top of the schema down to a leaf.
    pub fn path(&self, leaf: &SchemaLeaf) -> Vec<&str> {
        self.schema.path(leaf, &self.bytes)
    }

    /// Returns the row groups in file order.
    pub fn row_groups(&self) -> &[RowGroup] {
        &self.row_groups
    }

    /// Returns the number of rows in the file, as counted by the writer.
    pub fn num_rows(&self) -> i64 {
        self.num_rows
    }

    /// Returns a column chunk.
    pub fn chunk(&self, row_group: usize, column: usize) -> Result<&ColumnChunk> {
        self.row_groups.get(row_group).and_then(|group| group.chunks.get(column)).ok_or_else(|| {
            Error::new(ErrorKind::File(FileKind::NoSuchChunk { row_group: to_u64(row_group), column: to_u64(column) }))
        })
    }

    #[cfg(test)]
    pub(in crate::parquet) fn chunk_mut(&mut self, row_group: usize, column: usize) -> &mut ColumnChunk {
        &mut self.row_groups[row_group].chunks[column]
    }

    /// Decodes the statistics of a chunk. They are decoded lazily, so that invalid statistics do not affect the rest of
    /// the file.
    pub fn statistics(&self, chunk: &ColumnChunk) -> Result<Option<Statistics<'_>>> {
        let span = chunk.meta.as_ref().and_then(|meta| meta.statistics);
        span.map(|span| Statistics::decode(span.of(&self.bytes))).transpose()
    }

    /// Returns the key-value metadata of applications.
    pub fn key_values(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.key_values.iter().map(|(key, value)| (self.text(key), value.as_ref().map(|value| self.text(value))))
    }

    /// Returns the name and version of the program that wrote the file.
    pub fn created_by(&self) -> Option<&str> {
        self.created_by.as_ref().map(|span| self.text(span))
    }

    /// Returns the sort order of a column's statistics. `None` in old files, where the order is undefined.
    pub fn column_order(&self, column: usize) -> Option<ColumnOrder> {
        self.column_orders.get(column).copied()
    }

    /// Returns the encryption algorithm of a file with a plaintext footer.
    pub fn algorithm(&self) -> Option<&Algorithm> {
        self.algorithm.as_ref()
    }

    /// Returns the metadata that identifies the key with which a plaintext footer is signed.
    pub fn signing_key_metadata(&self) -> Option<&[u8]> {
        self.signing_key_metadata.as_ref().map(|span| span.of(&self.bytes))
    }

    /// Returns the metadata that identifies the key of a column.
    pub fn key_metadata(&self, chunk: &ColumnChunk) -> Option<&[u8]> {
        chunk.key_metadata.as_ref().map(|span| span.of(&self.bytes))
    }

    /// Returns the encrypted metadata of a chunk.
    pub fn encrypted_meta(&self, chunk: &ColumnChunk) -> Option<&[u8]> {
        chunk.encrypted_meta.as_ref().map(|span| span.of(&self.bytes))
    }

    /// Returns the ordinal of a row group that its AADs contain.
    pub fn ordinal(&self, row_group: usize) -> Result<i16> {
        let stated = self.row_groups.get(row_group).and_then(|group| group.ordinal);
        stated.map_or_else(|| column_ordinal(row_group), Ok)
    }

    /// Replaces the plaintext metadata of a chunk by its decrypted metadata, which is authenticated and more complete.
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

    fn text(&self, span: &ByteSpan) -> &str {
        // Only for display, so invalid UTF-8 is not worth rejecting the file.
        std::str::from_utf8(span.of(&self.bytes)).unwrap_or_default()
    }
}

/// Converts a position in the file or the row group to the 16 bits that AADs use.
pub fn column_ordinal(position: usize) -> Result<i16> {
    i16::try_from(position).map_err(|_| Error::new(ErrorKind::File(FileKind::Ordinal(to_u64(position)))))
}

/// The decoded fields of FileMetaData.
#[derive(Default)]
struct FileMetadataFields {
    schema: Option<Schema>,
    num_rows: Option<i64>,
    row_groups: Option<usize>,
    key_values: Vec<(ByteSpan, Option<ByteSpan>)>,
    created_by: Option<ByteSpan>,
    column_orders: Vec<ColumnOrder>,
    algorithm: Option<Algorithm>,
    signing_key_metadata: Option<ByteSpan>,
}

impl FileMetadataFields {
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
            6 => self.created_by = ByteSpan::binary(record)?,
            7 => self.column_orders = decode_column_orders(record)?,
            8 => self.algorithm = Some(Algorithm::decode_field(record)?),
            9 => self.signing_key_metadata = ByteSpan::binary(record)?,
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
                let Some((num_chunks, reader)) = record.list(Type::Struct)? else { continue };
                let leaves = schema.leaves();
                if num_chunks != leaves.len() {
                    let (found, leaves) = (to_u64(num_chunks), to_u64(leaves.len()));
                    return Err(Error::at(ErrorKind::File(FileKind::ColumnCount { row_group, found, leaves }), at));
                }
                // Do not allocate for a claimed length that may be wrong.
                let mut decoded = Vec::with_capacity(num_chunks.min(16));
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

fn decode_key_values(record: &mut Record<'_, '_>) -> Result<Vec<(ByteSpan, Option<ByteSpan>)>> {
    let mut pairs = Vec::new();
    let Some((len, reader)) = record.list(Type::Struct)? else { return Ok(pairs) };
    for _ in 0..len {
        let (mut key, mut value) = (None, None);
        let mut record = Record::new(reader, "KeyValue");
        while let Some(id) = record.next()? {
            match id {
                // Values may be arbitrary bytes, because only applications read them.
                1 => key = ByteSpan::binary(&mut record)?,
                2 => value = ByteSpan::binary(&mut record)?,
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

    /// Compares everything that the `parquet` crate decodes as well.
    #[test]
    fn real_footers_decode_as_by_the_parquet_crate() {
        let footers = fixtures::plain_footers();
        let (num_footers, mut with_ordinals) = (footers.len(), 0);
        for (name, bytes) in footers {
            let ours = Metadata::decode(bytes.clone(), 4).unwrap_or_else(|error| panic!("{name}: {error}"));
            let Ok(theirs) = ParquetMetaDataReader::decode_metadata(&bytes) else {
                // Dremio's use of field 15 as a list. The `parquet` crate rejects it; Thrift's generated readers skip
                // it.
                assert!(name.starts_with("dict-page-offset-zero"), "{name}");
                assert_eq!(ours.row_groups()[0].chunks[0].meta.as_ref().unwrap().bloom_filter_length, None);
                continue;
            };
            assert_eq!(ours.created_by(), theirs.file_metadata().created_by(), "{name}");
            let key_values: Vec<_> = ours.key_values().collect();
            let expected = theirs.file_metadata().key_value_metadata().into_iter().flatten();
            let expected: Vec<_> = expected.map(|pair| (&pair.key[..], pair.value.as_deref())).collect();
            assert_eq!(key_values, expected, "{name}");
            let orders = theirs.file_metadata().column_orders().map_or(0, Vec::len);
            let typed = (0..).map_while(|column| ours.column_order(column));
            assert_eq!(typed.filter(|order| *order == ColumnOrder::TypeDefined).count(), orders, "{name}");
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
                assert_eq!(group.total_byte_size, peer.total_byte_size(), "{name}");
                assert_eq!(group.file_offset, peer.file_offset(), "{name}");
                // Their crate numbers the row groups of a file without ordinals.
                assert!(group.ordinal.is_none() || group.ordinal == peer.ordinal(), "{name}");
                with_ordinals += usize::from(group.ordinal.is_some());
                for (chunk, peer) in group.chunks.iter().zip(peer.columns()) {
                    let meta = chunk.meta.as_ref().unwrap();
                    assert_eq!(meta.num_values, peer.num_values(), "{name}");
                    assert_eq!(meta.data_page_offset, peer.data_page_offset(), "{name}");
                    assert_eq!(meta.dictionary_page_offset, peer.dictionary_page_offset(), "{name}");
                    assert_eq!(meta.total_compressed_size, peer.compressed_size(), "{name}");
                    assert_eq!(meta.total_uncompressed_size, peer.uncompressed_size(), "{name}");
                    assert_eq!(meta.string_bytes, peer.unencoded_byte_array_data_bytes(), "{name}");
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
        assert!(with_ordinals > 0 || num_footers == 0);
    }

    #[test]
    fn unknown_logical_types_are_kept_as_unknown() {
        let Some(file) = fixtures::file("unknown-logical-type") else { return };
        let metadata = Metadata::decode(fixtures::footer(&file).1, 4).unwrap();
        let logical: Vec<_> = metadata.leaves().iter().map(|leaf| leaf.logical).collect();
        assert!(matches!(logical[..], [Some(Logical::String), Some(Logical::Unknown(_))]), "{logical:?}");
    }

    fn check(bytes: &[u8], expect: &ErrorKind) {
        assert_eq!(Metadata::decode(bytes.to_vec(), 0).unwrap_err().kind(), expect, "{bytes:x?}");
    }

    #[test]
    fn errors_name_the_invalid_struct_or_field() {
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
        let with_children = |children: u8| [&leaf[..7], &[0x15, children, 0]].concat();
        check(&file(&[&root(1), &with_children(2)], &[0]), &shape("an element is both a leaf and a group"));
        check(&file(&[&root(1), &with_children(1)], &[0]), &shape("a group has a negative number of children"));
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

    /// Every truncated footer is an error. Every changed byte gives a value or an error, without excessive memory.
    #[test]
    fn damaged_footers_are_errors_or_can_be_read() {
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
    fn structs_are_small_multiples_of_their_smallest_encoding() {
        // A chunk of a malicious footer takes at least 24 bytes with metadata, or 35 with an encrypted module instead.
        assert!(size_of::<ColumnChunk>() + size_of::<ColumnMeta>() <= 24 * 12);
        assert!(size_of::<RowGroup>() <= 8 * 16, "{}", size_of::<RowGroup>());
        assert!(size_of::<SchemaLeaf>() <= 5 * 16, "{}", size_of::<SchemaLeaf>());
    }
}
