//! Rows of a file: their numbers, and the batches that a scan decodes.

use super::page_map::FileMap;
use crate::error::Result;
use crate::python::file::{Fetched, Ranges, pairs};
use crate::python::import::Arrays;
use crate::ranges::Step;
use crate::rows;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3_arrow::{PyRecordBatch, PySchema};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows of a file by their numbers.
#[pyclass(frozen, eq, module = "parsieve._core")]
#[derive(PartialEq)]
pub(super) struct RowSet(rows::RowSet);

#[pymethods]
impl RowSet {
    /// Return the first `num_rows` rows.
    #[staticmethod]
    fn all(num_rows: u64) -> Self {
        Self(rows::RowSet::all(num_rows))
    }

    /// Return the union of ranges, given as their first row and number of rows.
    #[staticmethod]
    fn of(py: Python<'_>, ranges: Ranges) -> Self {
        let range = |(start, len): (u64, u64)| start..start.saturating_add(len);
        py.detach(|| Self(rows::RowSet::of(ranges.into_iter().map(range).collect())))
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.num_rows()
    }

    /// The rows as ranges: their first row and number of rows.
    #[getter]
    fn ranges(&self) -> Ranges {
        self.0.ranges().iter().map(|range| (range.start, range.end - range.start)).collect()
    }

    /// Return the i-th rows of the set for which value i of a boolean column is true.
    fn filter(&self, py: Python<'_>, mask: &Bound<'_, PyAny>) -> PyResult<Self> {
        let masks = arrays(mask)?.into_iter().map(|array| match array.as_boolean_opt() {
            Some(mask) => Ok(mask.clone()),
            None => Err(PyTypeError::new_err(format!("a mask must be boolean, not {}", array.data_type()))),
        });
        let masks = masks.collect::<PyResult<Vec<BooleanArray>>>()?;
        Ok(Self(py.detach(|| self.0.filter(&masks))?))
    }

    /// Return the set without some rows, given as ascending numbers.
    fn without(&self, py: Python<'_>, positions: &Bound<'_, PyAny>) -> PyResult<Self> {
        let positions = arrays(positions)?;
        py.detach(|| {
            let mut removed = Vec::with_capacity(positions.iter().map(|array| array.len()).sum());
            positions.iter().try_for_each(|array| row_numbers(array, &mut removed))?;
            Ok(Self(self.0.without(removed)?))
        })
    }

    /// Return the rows of both sets.
    fn intersect(&self, py: Python<'_>, other: &Self) -> Self {
        py.detach(|| Self(self.0.intersect(&other.0)))
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.num_rows()).unwrap_or(usize::MAX)
    }

    fn __repr__(&self) -> String {
        format!("<RowSet of {} rows in {} ranges>", self.0.num_rows(), self.0.ranges().len())
    }
}

fn arrays(object: &Bound<'_, PyAny>) -> PyResult<Vec<ArrayRef>> {
    let arrays = Arrays::of(object)?.ok_or_else(|| PyTypeError::new_err("an Arrow array is required"))?;
    arrays.collect()
}

fn row_numbers(array: &ArrayRef, rows: &mut Vec<u64>) -> PyResult<()> {
    fn extend<T: ArrowPrimitiveType>(array: &ArrayRef, rows: &mut Vec<u64>) -> PyResult<()>
    where
        u64: TryFrom<T::Native>,
    {
        for value in array.as_primitive::<T>().values() {
            rows.push(u64::try_from(*value).map_err(|_| PyValueError::new_err("a row number is negative"))?);
        }
        Ok(())
    }
    if array.null_count() > 0 {
        return Err(PyValueError::new_err("a row number is null"));
    }
    match array.data_type() {
        DataType::Int8 => extend::<Int8Type>(array, rows),
        DataType::Int16 => extend::<Int16Type>(array, rows),
        DataType::Int32 => extend::<Int32Type>(array, rows),
        DataType::Int64 => extend::<Int64Type>(array, rows),
        DataType::UInt8 => extend::<UInt8Type>(array, rows),
        DataType::UInt16 => extend::<UInt16Type>(array, rows),
        DataType::UInt32 => extend::<UInt32Type>(array, rows),
        DataType::UInt64 => extend::<UInt64Type>(array, rows),
        // An empty list of positions.
        DataType::Null => Ok(()),
        other => Err(PyTypeError::new_err(format!("row numbers must be integers, not {other}"))),
    }
}

/// The metadata of a file that a scan of its rows needs.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct RowFile(Arc<rows::RowFile>);

#[pymethods]
impl RowFile {
    /// Read the footer of a file of `file_len` bytes.
    #[staticmethod]
    fn open(py: Python<'_>, file_len: u64, fetched: &Fetched) -> PyResult<(Ranges, Option<Self>)> {
        let (needed, file) = py.detach(|| fetched.step(|fetched| rows::RowFile::open(file_len, fetched)))?;
        Ok((needed, file.map(|file| Self(Arc::new(file)))))
    }

    /// Decode the metadata in the footer of a file of `file_len` bytes, without the eight bytes at its end.
    #[staticmethod]
    fn from_footer(py: Python<'_>, footer: &Bound<'_, PyAny>, file_len: u64) -> PyResult<Self> {
        let bytes = PyBuffer::<u8>::get(footer)?.to_vec(py)?;
        Ok(Self(Arc::new(py.detach(|| rows::RowFile::from_footer(bytes, file_len))?)))
    }

    /// Take the metadata out of a map of pages.
    #[staticmethod]
    fn from_map(py: Python<'_>, map: &FileMap) -> PyResult<Self> {
        Ok(Self(Arc::new(py.detach(|| rows::RowFile::from_map(&map.0))?)))
    }

    /// The number of rows.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.num_rows()
    }

    /// The number of rows of each row group.
    #[getter]
    fn row_groups(&self) -> Vec<u64> {
        self.0.row_groups().collect()
    }

    /// The top-level columns, with the types that a scan returns.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        PySchema::new(self.0.schema()).into_pyarrow(py)
    }

    /// Return why a top-level column cannot be read exactly as pyarrow would, or None if it can.
    fn unreadable(&self, column: usize) -> PyResult<Option<String>> {
        Ok(self.0.unreadable(column)?)
    }

    /// Estimate the number of bytes that a scan fetches.
    fn compressed_size(&self, py: Python<'_>, columns: Vec<usize>, rows: &RowSet) -> PyResult<u64> {
        Ok(py.detach(|| self.0.compressed_size(&columns, &rows.0))?)
    }

    /// Estimate the bytes of memory that the values of some rows take, by what the footer states.
    fn decoded_size(&self, py: Python<'_>, columns: Vec<usize>, rows: &RowSet) -> PyResult<u64> {
        Ok(py.detach(|| self.0.decoded_size(&columns, &rows.0))?)
    }

    /// Return whether some rows of a column can be read without the other pages of their row group.
    fn has_page_index(&self, column: usize) -> PyResult<bool> {
        Ok(self.0.has_page_index(column)?)
    }

    /// About how many bytes of memory the metadata takes.
    #[getter]
    fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Start to scan some rows of some top-level columns, which the batches have in the given order.
    #[pyo3(signature = (columns, rows, batch_rows=65536, budget=rows::BUDGET))]
    fn scan(
        &self,
        py: Python<'_>,
        columns: Vec<usize>,
        rows: &RowSet,
        batch_rows: usize,
        budget: u64,
    ) -> PyResult<RowScan> {
        let scan = py.detach(|| rows::RowScan::new(Arc::clone(&self.0), &columns, &rows.0, batch_rows, budget))?;
        Ok(RowScan(Mutex::new(scan)))
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.0.num_rows(), self.0.num_columns());
        format!("<RowFile of {rows} rows, {columns} columns>")
    }
}

/// A scan of some rows and columns of a file. Each step names the ranges that it needs, or returns a batch.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct RowScan(Mutex<rows::RowScan>);

impl RowScan {
    fn lock(&self) -> MutexGuard<'_, rows::RowScan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl RowScan {
    /// The schema of the batches.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = py.detach(|| Arc::clone(self.lock().schema()));
        PySchema::new(schema).into_pyarrow(py)
    }

    /// Return the ranges to fetch before the next step, or the next batch. Return neither at the end.
    fn step<'py>(&self, py: Python<'py>) -> PyResult<(Ranges, Option<Bound<'py, PyAny>>)> {
        let step = py.detach(|| -> Result<_> { self.lock().step() })?;
        Ok(match step {
            Step::Need(needed) => (pairs(needed), None),
            Step::Ready(None) => (Vec::new(), None),
            Step::Ready(Some(batch)) => (Vec::new(), Some(PyRecordBatch::new(batch).into_pyarrow(py)?)),
        })
    }

    /// Add bytes at offset `start` of the file.
    fn insert(&self, py: Python<'_>, start: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = match data.extract::<PyBackedBytes>() {
            // Python's bytes never change, so they are not copied.
            Ok(bytes) => Bytes::from_owner(bytes),
            Err(_) => Bytes::from(PyBuffer::<u8>::get(data)?.to_vec(py)?),
        };
        py.detach(|| self.lock().push(start, bytes));
        Ok(())
    }
}
