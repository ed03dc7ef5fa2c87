//! The schema of files, which a map stores once: the metadata of a file without its row groups.
//!
//! It is encoded like the metadata in a footer, so that any reader of footers can decode it.

use crate::error::{PageMapKind, Result};
use crate::page_map::error;
use crate::parquet::{Metadata, SchemaLeaf};
use crate::thrift::{Reader, Type, Writer};

/// The key of the Arrow schema in the metadata of a file.
const ARROW_SCHEMA: &[u8] = b"ARROW:schema";
/// The field ids of FileMetaData.
const VERSION: i16 = 1;
const SCHEMA: i16 = 2;
const NUM_ROWS: i16 = 3;
const ROW_GROUPS: i16 = 4;
const KEY_VALUES: i16 = 5;
const CREATED_BY: i16 = 6;

/// The metadata of a file without row groups: the schema, the name of the writer, and the Arrow schema.
#[derive(Debug, Clone)]
pub struct FileSchema {
    metadata: Metadata,
}

impl PartialEq for FileSchema {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for FileSchema {}

impl FileSchema {
    /// Takes the schema out of a file's metadata. `arrow` becomes the value of the key for the Arrow schema; `None`
    /// leaves the key out.
    pub(crate) fn of(metadata: &Metadata, arrow: Option<&[u8]>) -> Result<Self> {
        let (mut version, mut schema, mut created_by) = (None, None, None);
        let bytes = metadata.bytes();
        let mut reader = Reader::new(bytes, 0);
        let mut last = 0;
        while let Some(field) = reader.field(last)? {
            let start = reader.position();
            reader.skip(field.kind)?;
            let value = bytes.get(start..reader.position());
            match (field.id, field.kind) {
                (VERSION, Type::I32) => version = value,
                (SCHEMA, Type::List) => schema = value,
                (CREATED_BY, Type::Binary) => created_by = value,
                _ => {}
            }
            last = field.id;
        }
        let missing = || error(PageMapKind::NoMap { reason: "its footer has no schema" });
        let mut writer = Writer::new();
        if let Some(version) = version {
            writer.field(Type::I32, VERSION, 0);
            writer.raw(version);
        }
        writer.field(Type::List, SCHEMA, if version.is_some() { VERSION } else { 0 });
        writer.raw(schema.ok_or_else(missing)?);
        writer.field(Type::I64, NUM_ROWS, SCHEMA);
        writer.integer(0);
        writer.field(Type::List, ROW_GROUPS, NUM_ROWS);
        writer.raw(&[Type::Struct as u8]);
        let mut last = ROW_GROUPS;
        if let Some(arrow) = arrow {
            writer.field(Type::List, KEY_VALUES, last);
            writer.raw(&[0x10 | Type::Struct as u8]);
            writer.field(Type::Binary, 1, 0);
            writer.binary(ARROW_SCHEMA);
            writer.field(Type::Binary, 2, 1);
            writer.binary(arrow);
            writer.stop();
            last = KEY_VALUES;
        }
        if let Some(created_by) = created_by {
            writer.field(Type::Binary, CREATED_BY, last);
            writer.raw(created_by);
        }
        writer.stop();
        Self::decode(writer.into_bytes())
    }

    /// Decodes the metadata of a file without row groups.
    pub(super) fn decode(bytes: Vec<u8>) -> Result<Self> {
        let len = bytes.len();
        let metadata = Metadata::decode(bytes, 0)?;
        if metadata.bytes().len() == len && metadata.row_groups().is_empty() && metadata.num_rows() == 0 {
            return Ok(Self { metadata });
        }
        Err(super::malformed("a schema", 0))
    }

    /// Returns the encoded metadata.
    pub fn bytes(&self) -> &[u8] {
        self.metadata.bytes()
    }

    /// Returns the leaf columns.
    pub fn leaves(&self) -> &[SchemaLeaf] {
        self.metadata.leaves()
    }

    /// Returns the names from the top of the schema down to a leaf.
    pub fn path(&self, leaf: &SchemaLeaf) -> Vec<&str> {
        self.metadata.path(leaf)
    }

    /// Returns the value of the file's key for its Arrow schema.
    pub fn arrow_schema(&self) -> Option<&str> {
        self.metadata.key_values().find(|(key, _)| key.as_bytes() == ARROW_SCHEMA).and_then(|(_, value)| value)
    }

    /// Returns the name and version of the program that wrote the file.
    pub fn created_by(&self) -> Option<&str> {
        self.metadata.created_by()
    }
}
