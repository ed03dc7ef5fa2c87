//! All Rust integration tests in one binary: one link instead of one for each file. Each file is one subject.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests read files; only the core must not")]

#[cfg(feature = "decode")]
mod files;
mod layers;
mod parquet_crate;
mod properties;
mod vectors;
