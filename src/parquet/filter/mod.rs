//! Locates, probes and replaces the Bloom filters of a file.

pub(in crate::parquet) mod locate;
pub(in crate::parquet) mod patch;
pub(in crate::parquet) mod probe;
pub(in crate::parquet) mod rewrite;
