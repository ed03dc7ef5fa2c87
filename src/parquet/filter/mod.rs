//! Bloom filters of a file: locate them, probe them, replace them.

pub(in crate::parquet) mod locate;
pub(in crate::parquet) mod patch;
pub(in crate::parquet) mod probe;
pub(in crate::parquet) mod rewrite;
