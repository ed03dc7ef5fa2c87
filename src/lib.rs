//! Skip the Parquet files and row groups that a query does not need.
//!
//! Pure functions on bytes and Arrow buffers: no file, network, clock or environment. `ARCHITECTURE.md` is the map.

pub mod cursor;
pub mod error;
pub mod int;
pub mod sieve;
pub mod thrift;

pub use error::{Class, Error, ErrorKind, Result};
