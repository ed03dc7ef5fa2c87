//! Calls of Python functions during a compaction.

use super::bytes_of;
use crate::error::{Error, ErrorKind, Result};
use crate::sieve::SectionRange;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::RefCell;

type ReadKeys<'a> = &'a mut dyn FnMut(SectionRange) -> Result<Vec<u8>>;
type WriteSections<'a> = &'a mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<()>;

/// Runs a compaction that reads keys sections and writes segments with Python functions, and raises their exceptions.
pub(super) fn with_callbacks<T: Send>(
    py: Python<'_>,
    read: &Bound<'_, PyAny>,
    write: &Bound<'_, PyAny>,
    compact: impl FnOnce(ReadKeys<'_>, WriteSections<'_>) -> Result<T> + Send,
) -> PyResult<T> {
    let (read, write) = (read.clone().unbind(), write.clone().unbind());
    let (compacted, failed) = py.detach(|| {
        let failed = RefCell::new(None);
        let fail = |error: PyErr, field| {
            failed.replace(Some(error));
            Error::new(ErrorKind::SieveMalformed { field })
        };
        let mut keys_at = |extent: SectionRange| {
            Python::attach(|py| {
                let data = read.call1(py, (extent.file, extent.offset, extent.len))?;
                bytes_of(data.bind(py))
            })
            .map_err(|error| fail(error, "keys section, which could not be read"))
        };
        let mut take = |lookups: Vec<u8>, keys: Vec<u8>| {
            Python::attach(|py| write.call1(py, ((PyBytes::new(py, &lookups), PyBytes::new(py, &keys)),)))
                .map(drop)
                .map_err(|error| fail(error, "segments, which could not be written"))
        };
        let compacted = compact(&mut keys_at, &mut take);
        (compacted, failed.into_inner())
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(compacted?),
    }
}
