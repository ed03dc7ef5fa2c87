//! Calls into the `parquet` crate.

use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::errors::ParquetError;

use crate::error::{Error, ErrorKind, Result, RowsKind};

/// Calls a function of the `parquet` crate, which panics on some invalid bytes. What it worked on must not be used
/// again after an error.
pub(super) fn contain<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| decode_error("the decoder found bytes that it does not expect".to_owned());
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic)))
}

pub(super) fn decode_error(reason: String) -> Error {
    Error::new(ErrorKind::Rows(RowsKind::Decode(reason)))
}

/// Converts an error of the crate. Our own errors pass through it unchanged.
pub(super) fn from_parquet(error: ParquetError) -> Error {
    match error {
        ParquetError::External(error) => match error.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => decode_error(other.to_string()),
        },
        other => decode_error(other.to_string()),
    }
}
