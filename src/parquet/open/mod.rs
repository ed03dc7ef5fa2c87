//! Opening a file, encrypted ones included, and the statistics it can vouch for.

pub(in crate::parquet) mod bounds;
pub(in crate::parquet) mod decryptor;
pub(in crate::parquet) mod file;
#[cfg(feature = "crypto")]
pub(in crate::parquet) mod keyring;
