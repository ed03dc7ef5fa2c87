//! The distinct values of a column chunk, as hashes, decoded from its pages.

pub(in crate::parquet) mod codec;
pub(in crate::parquet) mod decode;
pub(in crate::parquet) mod delta;
pub(in crate::parquet) mod distinct;
pub(in crate::parquet) mod encrypted_pages;
pub(in crate::parquet) mod page;
pub(in crate::parquet) mod values;
