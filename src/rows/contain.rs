//! Calls into the `parquet` crate.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::error::{Error, ErrorKind, Result, RowsKind};

/// Calls a function of the `parquet` crate, which panics on some invalid bytes. Its data must not be used again
/// after an error.
pub(super) fn contain<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| decode_error("the decoder found bytes that it does not expect".to_owned());
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic)))
}

pub(super) fn decode_error(reason: String) -> Error {
    Error::new(ErrorKind::Rows(RowsKind::Decode(reason)))
}

/// Converts an error of the crate.
pub(super) fn from_parquet(error: ParquetError) -> Error {
    decode_error(match error {
        ParquetError::General(reason) | ParquetError::EOF(reason) | ParquetError::ArrowError(reason) => reason,
        other => other.to_string(),
    })
}

/// Converts an error of the Arrow crates.
pub(super) fn from_arrow(error: ArrowError) -> Error {
    decode_error(match error {
        ArrowError::ParquetError(reason) | ArrowError::SchemaError(reason) => reason,
        other => other.to_string(),
    })
}
