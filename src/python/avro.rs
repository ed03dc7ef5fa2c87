//! Avro rows as Arrow columns.

use super::column::to_pyarrow;
use crate::avro::{Columns, Layout};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Decodes blocks of Avro rows into columns.
#[pyclass(module = "parsieve._core")]
pub(super) struct AvroColumns(Option<Columns>);

#[pymethods]
impl AvroColumns {
    /// Create empty columns. The codes of `layout` describe a row: see `parsieve.lake.iceberg.avro`.
    #[new]
    fn new(layout: Vec<u32>) -> PyResult<Self> {
        Ok(Self(Some(Columns::new(Layout::parse(&layout)?))))
    }

    /// Decode an uncompressed block of `count` rows.
    fn push(&mut self, py: Python<'_>, block: &[u8], count: u64) -> PyResult<()> {
        // An error leaves incomplete rows behind, so the columns are put back only after success.
        let mut columns = self.0.take().ok_or_else(finished)?;
        py.detach(|| columns.push(block, count))?;
        self.0 = Some(columns);
        Ok(())
    }

    /// Return the columns.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let columns = self.0.take().ok_or_else(finished)?.finish();
        columns.into_iter().map(|column| to_pyarrow(py, column)).collect()
    }
}

fn finished() -> PyErr {
    PyValueError::new_err("the columns are finished")
}
