//! Decodes the pages of a column chunk into the hashes of its values.

pub(in crate::parquet) mod codec;
pub(in crate::parquet) mod decode;
pub(in crate::parquet) mod delta;
pub(in crate::parquet) mod dictionary;
pub(in crate::parquet) mod encrypted_pages;
pub(in crate::parquet) mod page;
pub(in crate::parquet) mod values;
