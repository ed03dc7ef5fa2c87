//! Calls into the `parquet` crate.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::error::{Error, ErrorKind, Result, RowsKind};

/// Calls a function of the `parquet` crate, which panics on some invalid bytes. Its data must not be used again
/// after an error.
pub(super) fn contain<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    let panicked = |_| decode_error("the decoder found bytes that it does not expect".to_owned());
    let outer = IS_CONTAINED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(call));
    IS_CONTAINED.set(outer);
    result.unwrap_or_else(|panic| Err(panicked(panic)))
}

thread_local! {
    /// True while this thread is in [`contain`].
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Stops messages on stderr about contained panics, which become errors. Other panics are reported as before.
pub fn silence_contained_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            if !IS_CONTAINED.get() {
                report(panic);
            }
        }));
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_contained_panics_are_silent() {
        thread_local! {
            static REPORTS: Cell<u32> = const { Cell::new(0) };
        }
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            REPORTS.set(REPORTS.get() + 1);
            report(panic);
        }));
        silence_contained_panics();
        let result: Result<()> = contain(|| {
            let inner: Result<()> = contain(|| panic!("contained"));
            assert!(inner.is_err());
            panic!("also contained")
        });
        assert!(result.is_err_and(|error| matches!(error.kind(), ErrorKind::Rows(RowsKind::Decode(_)))));
        assert_eq!(REPORTS.get(), 0);
        assert!(catch_unwind(|| panic!("as expected by this test")).is_err());
        assert_eq!(REPORTS.get(), 1);
    }
}
