//! The columns of a file as Arrow fields.

use std::ops::Range;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use base64::Engine as _;
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema_by_columns};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::contain::{contain, from_parquet};
use super::readable::why_unreadable;
use crate::error::{Error, ErrorKind, Result, RowsKind};
use crate::page_map::FileSchema;
use crate::parquet::{SchemaLeaf, always_compresses};

/// The columns of a file.
#[derive(Debug)]
pub(super) struct RowSchema {
    /// The metadata of a file without row groups, for the `parquet` crate.
    pub(super) metadata: ParquetMetaData,
    /// The file's own Arrow schema.
    hint: Option<Fields>,
    /// The fields of the top-level columns. The fields of unreadable columns may have the type `Null`.
    pub(super) fields: Vec<FieldRef>,
    /// Why each top-level column cannot be read exactly as pyarrow would.
    unreadable: Vec<Option<String>>,
    /// The leaves of each top-level column.
    leaves_of: Vec<Range<usize>>,
    pub(super) leaves: Vec<SchemaLeaf>,
    memory: usize,
}

impl RowSchema {
    /// Decodes a schema with the `parquet` crate. [`FileSchema`] has already limited its depth and size.
    pub(super) fn decode(schema: &FileSchema) -> Result<Self> {
        contain(|| {
            let metadata = ParquetMetaDataReader::decode_metadata(schema.bytes()).map_err(from_parquet)?;
            let leaves = schema.leaves().to_vec();
            let descriptor = metadata.file_metadata().schema_descr();
            if descriptor.num_columns() != leaves.len() {
                return Err(invalid("its leaves"));
            }
            let mut leaves_of = vec![0..0; descriptor.root_schema().get_fields().len()];
            for leaf in 0..leaves.len() {
                let range = &mut leaves_of[descriptor.get_column_root_idx(leaf)];
                *range = if Range::is_empty(range) { leaf..leaf + 1 } else { range.start..leaf + 1 };
            }
            let hint = schema.arrow_schema().map(arrow_schema).transpose();
            let names = |column: usize| descriptor.root_schema().get_fields()[column].name().to_owned();
            let (mut fields, mut unreadable) = (Vec::new(), Vec::new());
            let hint = match hint {
                Ok(hint) => hint,
                Err(_) => {
                    fields.extend((0..leaves_of.len()).map(|column| unknown(&names(column))));
                    unreadable.resize(leaves_of.len(), Some("its Arrow schema is damaged".to_owned()));
                    None
                }
            };
            if unreadable.is_empty() {
                let plain = fields_of(&metadata, false, leaves_of.len());
                let hinted = if hint.is_some() { fields_of(&metadata, true, leaves_of.len()) } else { plain.clone() };
                for (column, (plain, hinted)) in plain.into_iter().zip(hinted).enumerate() {
                    let hint = hint.as_ref().map(|hint| hint.get(column));
                    let node = &descriptor.root_schema().get_fields()[column];
                    let reason = match (&plain, &hinted, hint) {
                        (_, _, Some(None)) => Some("the file's Arrow schema has other columns".to_owned()),
                        (Some(plain), Some(hinted), hint) => {
                            why_unreadable(node, plain, hinted, hint.flatten().map(|field| &**field))
                        }
                        _ => Some("its type is not supported".to_owned()),
                    };
                    fields.push(hinted.unwrap_or_else(|| unknown(&names(column))));
                    unreadable.push(reason);
                }
            }
            // Decoded schemas take about ten times the space of their encoding.
            let memory = schema.bytes().len() * 10 + leaves.len() * 512;
            Ok(Self { hint, fields, unreadable, leaves_of, leaves, memory, metadata })
        })
    }

    /// Returns true if data pages of version 2 are compressed although their headers may deny it.
    pub(super) fn always_compressed(&self) -> bool {
        always_compresses(self.metadata.file_metadata().created_by())
    }

    pub(super) fn num_columns(&self) -> usize {
        self.fields.len()
    }

    /// Returns the leaves of a top-level column.
    pub(super) fn leaves_of(&self, column: usize) -> Result<Range<usize>> {
        self.leaves_of.get(column).cloned().ok_or_else(|| Error::new(ErrorKind::Rows(RowsKind::NoSuchColumn(column))))
    }

    /// Returns the name of the top-level column with a leaf.
    pub(super) fn name_of_leaf(&self, leaf: usize) -> String {
        let column = self.leaves_of.iter().position(|leaves| leaves.contains(&leaf));
        column.and_then(|column| self.fields.get(column)).map_or_else(String::new, |field| field.name().clone())
    }

    /// Returns why the type of a column prevents reading it.
    pub(super) fn unreadable(&self, column: usize) -> Option<&str> {
        self.unreadable.get(column).and_then(Option::as_deref)
    }

    /// Returns the fields of some columns in their order.
    pub(super) fn project(&self, columns: &[usize]) -> SchemaRef {
        Arc::new(Schema::new(columns.iter().map(|&column| Arc::clone(&self.fields[column])).collect::<Vec<_>>()))
    }

    /// Returns the levels of some columns for the crate's decoder, which has them in the order of the file.
    pub(super) fn levels(&self, columns: &[usize]) -> Result<FieldLevels> {
        contain(|| {
            let descriptor = self.metadata.file_metadata().schema_descr();
            let mask = ProjectionMask::roots(descriptor, columns.iter().copied());
            parquet_to_arrow_field_levels(descriptor, mask, self.hint.as_ref()).map_err(from_parquet)
        })
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }
}

/// Infers the fields of all columns, with or without the file's own Arrow schema.
fn fields_of(metadata: &ParquetMetaData, hinted: bool, columns: usize) -> Vec<Option<FieldRef>> {
    let descriptor = metadata.file_metadata().schema_descr();
    let key_values = if hinted { metadata.file_metadata().key_value_metadata() } else { None };
    let infer = |mask| {
        let schema = contain(|| parquet_to_arrow_schema_by_columns(descriptor, mask, key_values).map_err(from_parquet));
        schema.ok().map(|schema| schema.fields)
    };
    if let Some(fields) = infer(ProjectionMask::all()).filter(|fields| fields.len() == columns) {
        return fields.iter().cloned().map(Some).collect();
    }
    // One column prevents all of them.
    let column = |column| infer(ProjectionMask::roots(descriptor, [column]))?.first().cloned();
    (0..columns).map(column).collect()
}

/// Decodes the Arrow schema that some writers store in the metadata.
fn arrow_schema(encoded: &str) -> Result<Fields> {
    let damaged = || invalid("its Arrow schema");
    let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).map_err(|_| damaged())?;
    // A message may begin with a marker and its length.
    let message = if bytes.len() > 8 && bytes.starts_with(&[0xff; 4]) { &bytes[8..] } else { &bytes[..] };
    contain(|| {
        let message = arrow_ipc::root_as_message(message).map_err(|_| damaged())?;
        let schema = message.header_as_schema().ok_or_else(damaged)?;
        Ok(arrow_ipc::convert::fb_to_schema(schema).fields)
    })
}

fn unknown(name: &str) -> FieldRef {
    Arc::new(Field::new(name, DataType::Null, true))
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::Rows(RowsKind::Schema(format!("{what} cannot be decoded"))))
}
