//! Hashes the values of a column with XXH64, in batches, as the bytes that Parquet stores.

pub mod column;
mod exact;
pub mod form;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod plain;
mod slots;
mod strings;
mod xxh64;

pub use column::HashedColumn;
pub use form::Form;
pub use strings::hash_strings;
pub use xxh64::{hash_bytes, hash_u32, hash_u32s, hash_u64, hash_u64s};
