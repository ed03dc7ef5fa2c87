//! Opens files, including encrypted ones, and returns the statistics that can be trusted.

pub(in crate::parquet) mod bounds;
pub(in crate::parquet) mod decryptor;
pub(in crate::parquet) mod file;
#[cfg(feature = "crypto")]
pub(in crate::parquet) mod keyring;
pub(in crate::parquet) mod writer;
