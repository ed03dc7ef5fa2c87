//! Metadata as Arrow columns: Avro rows, Delta's log, and the bindings of an index.

use super::column::{Column, to_pyarrow};
use crate::avro::{Columns, Layout};
use crate::delta::{Adds, Bound as Kind, Statistics};
use crate::json::Bindings;
use arrow_array::{Array, ArrayRef, StringArray};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Decodes blocks of Avro rows into columns.
#[pyclass(module = "parsieve._core")]
pub(super) struct AvroColumns(Option<Columns>);

#[pymethods]
impl AvroColumns {
    /// Create empty columns. The codes of `layout` describe a row: see `parsieve.lake.rows.avro_codes`.
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

/// The columns of added files, and the other lines: the number of files in front of each, its start and its end.
type Read<'py> = (Vec<Bound<'py, PyAny>>, Vec<(usize, usize, usize)>);

/// Read the `add` actions in the lines of commits.
///
/// Returns the paths, partition values, sizes, times, statistics and deletion vectors, and the lines with other actions
/// or with unusual `add` actions.
#[pyfunction]
pub(super) fn delta_adds<'py>(py: Python<'py>, log: &[u8]) -> PyResult<Read<'py>> {
    let (columns, others) = py.detach(|| {
        let (adds, others) = Adds::read(log);
        (adds.finish(), others)
    });
    let others = others.iter().map(|other| (other.num_adds, other.start, other.end)).collect();
    Ok((to_columns(py, columns)?, others))
}

/// Read the statistics of one column of many files: JSON texts, which are null for files without statistics.
///
/// Returns the numbers of rows, whether the bounds are tight, the numbers of nulls, the minima, the maxima, and whether
/// each text was read. Without a `bound`, reads only the numbers of rows.
#[pyfunction]
#[pyo3(signature = (texts, names=Vec::new(), bound=None))]
pub(super) fn delta_statistics<'py>(
    py: Python<'py>,
    texts: Column,
    names: Vec<String>,
    bound: Option<&str>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let bound = match bound {
        None => None,
        Some("bool") => Some(Kind::Bool),
        Some("int64") => Some(Kind::Int64),
        Some("float64") => Some(Kind::Float64),
        Some("string") => Some(Kind::Utf8),
        Some("decimal") => Some(Kind::Decimal),
        Some(other) => return Err(PyValueError::new_err(format!("bounds of an unknown kind: {other}"))),
    };
    let mut columns = None;
    texts.for_each(|array| {
        let texts = array.as_any().downcast_ref::<StringArray>();
        let texts = texts.filter(|_| columns.is_none());
        let texts = texts.ok_or_else(|| PyTypeError::new_err("the texts must be one Arrow array of strings"))?;
        columns = Some(py.detach(|| Statistics::read(texts, &names, bound).finish()));
        Ok(())
    })?;
    to_columns(py, columns.into_iter().flatten())
}

/// Columns of bindings, and the start and end of their rows in the document.
type ReadBindings<'py> = Option<(Vec<Bound<'py, PyAny>>, usize, usize)>;

/// Read the rows of a document with bindings.
///
/// Returns the partitions, groups, tokens and numbers, and the position of the rows. Returns None for a document with
/// other members or types.
#[pyfunction]
pub(super) fn index_bindings<'py>(py: Python<'py>, text: &[u8], has_numbers: bool) -> PyResult<ReadBindings<'py>> {
    let read = py.detach(|| {
        let (bindings, place) = Bindings::read(std::str::from_utf8(text).ok()?, has_numbers)?;
        Some((bindings.finish(), place))
    });
    let Some((columns, place)) = read else { return Ok(None) };
    Ok(Some((to_columns(py, columns)?, place.start, place.end)))
}

fn to_columns<'py>(py: Python<'py>, columns: impl IntoIterator<Item = ArrayRef>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    columns.into_iter().map(|column| to_pyarrow(py, column)).collect()
}
