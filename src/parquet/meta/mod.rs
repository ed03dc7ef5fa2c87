//! Parses the footer and the metadata of a file.

pub(in crate::parquet) mod chunk;
pub(in crate::parquet) mod column_type;
pub(in crate::parquet) mod encryption;
pub(in crate::parquet) mod file_metadata;
pub(in crate::parquet) mod footer;
pub(in crate::parquet) mod offset_index;
pub(in crate::parquet) mod record;
pub(in crate::parquet) mod schema;
pub(in crate::parquet) mod span;
