//! Skip the Parquet files and row groups that a query does not need.
//!
//! The crate consists of pure functions on bytes and Arrow buffers. It does no I/O and reads neither the clock nor the
//! environment. See `ARCHITECTURE.md` for a map of the modules.

// Four tests of text filters and decimals fail in Miri on s390x: filters lack values that were inserted.
#[cfg(all(feature = "python", target_endian = "big"))]
compile_error!("parsieve skips files with matches on big-endian machines; build it for a little-endian one");

pub mod arrow;
pub mod avro;
pub mod bloom;
pub mod bloom_index;
pub mod crypto;
pub mod cursor;
pub mod delta;
pub mod error;
pub mod hash;
pub mod int;
pub mod isa;
pub mod json;
pub mod page_map;
pub mod parquet;
#[cfg(feature = "python")]
mod python;
pub mod ranges;
#[cfg(feature = "rows")]
pub mod rows;
pub mod sieve;
pub mod thrift;
pub mod value_set;
pub mod varint;

pub use error::{Class, Error, ErrorKind, FileKind, PageMapKind, Result, RowsKind};
