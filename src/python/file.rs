//! A Parquet file without I/O. Each step returns either its result or the byte ranges that it needs first.

use super::bloom::BloomFilter;
use super::column::Column;
use super::keys::FileKeys;
use super::literal::literal;
use crate::arrow::ColumnType;
use crate::bloom::probe;
use crate::error::Result;
use crate::int::to_u64;
use crate::parquet::{
    self, ColumnProbe, Decryptor, FIRST_READ, FileCrypto, FileKeyRing, Footer, ParquetFile, Physical, SchemaLeaf,
};
use crate::ranges::{self, Step};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use std::ops::Range;
use std::sync::Mutex;

/// The start and end of each range.
pub(super) type Ranges = Vec<(u64, u64)>;

/// The bytes that were read for a query.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct Fetched(Mutex<ranges::Fetched>);

impl Fetched {
    /// Runs a step on the bytes read so far. Returns either the missing ranges or the result.
    pub(super) fn step<T>(
        &self,
        step: impl FnOnce(&ranges::Fetched) -> Result<Step<T>>,
    ) -> Result<(Ranges, Option<T>)> {
        let fetched = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(match step(&fetched)? {
            Step::Need(needed) => (pairs(needed), None),
            Step::Ready(answer) => (Vec::new(), Some(answer)),
        })
    }
}

#[pymethods]
impl Fetched {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(ranges::Fetched::new()))
    }

    /// Add the bytes at offset `start`.
    fn insert(&self, py: Python<'_>, start: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        // Copied with the GIL held, because another thread could otherwise modify the memory.
        let bytes = PyBuffer::<u8>::get(data)?.to_vec(py)?;
        py.detach(|| self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(start, bytes));
        Ok(())
    }
}

/// The values to look for in the filters of a column.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct Probe(pub(super) ColumnProbe);

/// A Parquet file whose footer has been read.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct FileReader {
    pub(super) file: ParquetFile,
    keys: Option<Py<FileKeys>>,
    /// Bytes to reuse: data that was read together with the footer, so that small files are read only once, and filter
    /// headers that earlier queries have read.
    cached: Mutex<ranges::Fetched>,
}

impl FileReader {
    pub(super) fn key_ring(&self) -> Result<Option<FileKeyRing<'_>>> {
        self.keys.as_ref().map_or(Ok(None), |keys| self.file.key_ring(keys.get().ring()))
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, ranges::Fetched> {
        self.cached.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl FileReader {
    /// Read the footer of a file of `file_len` bytes.
    #[staticmethod]
    #[pyo3(signature = (file_len, fetched, keys=None))]
    fn open(
        py: Python<'_>,
        file_len: u64,
        fetched: &Fetched,
        keys: Option<Py<FileKeys>>,
    ) -> PyResult<(Ranges, Option<Self>)> {
        let opened = py.detach(|| {
            fetched.step(|fetched| {
                let footer = match Footer::read(file_len, FIRST_READ, fetched)? {
                    Step::Ready(footer) => footer,
                    Step::Need(needed) => return Ok(Step::Need(needed)),
                };
                let file = match &keys {
                    Some(keys) => ParquetFile::open_with(footer, keys.get().ring())?,
                    None => ParquetFile::open(footer)?,
                };
                let cached = Mutex::new(fetched.before(file.data_end()));
                Ok(Step::Ready((file, cached)))
            })
        });
        let (needed, opened) = opened?;
        Ok((needed, opened.map(|(file, cached)| Self { file, keys, cached })))
    }

    /// Return the metadata that identifies the key with which the footer is encrypted or signed.
    #[staticmethod]
    fn footer_key_metadata<'py>(
        py: Python<'py>,
        file_len: u64,
        fetched: &Fetched,
    ) -> PyResult<(Ranges, Option<Option<Bound<'py, PyBytes>>>)> {
        let (needed, key_metadata) = py.detach(|| {
            fetched.step(|fetched| {
                let footer = match Footer::read(file_len, FIRST_READ, fetched)? {
                    Step::Ready(footer) => footer,
                    Step::Need(needed) => return Ok(Step::Need(needed)),
                };
                Ok(Step::Ready(if footer.tail.encrypted {
                    FileCrypto::decode(&footer.bytes, footer.tail.metadata.start)?.key_metadata
                } else {
                    ParquetFile::open(footer)?.metadata.signing_key_metadata().map(<[u8]>::to_vec)
                }))
            })
        })?;
        Ok((needed, key_metadata.map(|metadata| metadata.map(|bytes| PyBytes::new(py, &bytes)))))
    }

    /// Return the path and the key metadata of each column that has its own key.
    fn column_key_metadata<'py>(&self, py: Python<'py>) -> Vec<(Vec<String>, Bound<'py, PyBytes>)> {
        let metadata = &self.file.metadata;
        let mut key_metadata = Vec::new();
        for (column, leaf) in metadata.leaves().iter().enumerate() {
            // All chunks of a column have the same key, but not every chunk needs to be encrypted.
            let mut chunks = metadata.row_groups().iter().filter_map(|group| group.chunks.get(column));
            if let Some(bytes) = chunks.find_map(|chunk| metadata.key_metadata(chunk)) {
                let path = metadata.path(leaf).into_iter().map(str::to_owned).collect();
                key_metadata.push((path, PyBytes::new(py, bytes)));
            }
        }
        key_metadata
    }

    /// Return the bytes that are already known, as the start of a new query.
    fn fetched(&self) -> Fetched {
        Fetched(Mutex::new(self.cached().clone()))
    }

    /// The paths of the leaf columns.
    #[getter]
    fn columns(&self) -> Vec<Vec<String>> {
        let leaves = self.file.metadata.leaves().iter();
        leaves.map(|leaf| self.file.metadata.path(leaf).into_iter().map(str::to_owned).collect()).collect()
    }

    /// The physical type and the meaning of each column, or None if its values have no hash.
    #[getter]
    fn column_types(&self) -> Vec<Option<String>> {
        let leaves = self.file.metadata.leaves().iter();
        leaves.map(|leaf| leaf.column_type().map(|column| column.to_string())).collect()
    }

    /// The physical type and the meaning of each column, or None if its statistics are not supported.
    #[getter]
    fn bound_types(&self) -> Vec<Option<String>> {
        let leaves = self.file.metadata.leaves().iter();
        let named = |leaf: &SchemaLeaf| match (leaf.physical, leaf.logical) {
            (Physical::Boolean, None) => Some("BOOLEAN boolean".to_owned()),
            _ => leaf.column_type().map(|column| column.to_string()),
        };
        leaves.map(named).collect()
    }

    /// The field id of each column, and whether the column is inside a list.
    #[getter]
    fn leaf_ids(&self) -> Vec<(Option<i32>, bool)> {
        self.file.metadata.leaves().iter().map(|leaf| (leaf.field_id, leaf.max_rep > 0)).collect()
    }

    /// Return the trusted statistics of a column per row group: lower bound, upper bound, nulls, NaNs, values.
    #[expect(clippy::type_complexity, reason = "the answer as Python sees it")]
    fn statistics<'py>(
        &self,
        py: Python<'py>,
        column: usize,
    ) -> PyResult<Vec<(Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<u64>, Option<u64>, Option<u64>)>>
    {
        let groups = 0..self.file.metadata.row_groups().len();
        let statistics = groups.map(|row_group| {
            let bounds = self.file.bounds(row_group, column);
            let value = |bound: Option<parquet::Bound<'_>>| bound.map(|bound| bound_to_python(py, bound)).transpose();
            Ok((value(bounds.lower)?, value(bounds.upper)?, bounds.nulls, bounds.nans, bounds.values))
        });
        statistics.collect()
    }

    /// The number of rows of each row group.
    #[getter]
    fn num_rows(&self) -> Vec<u64> {
        self.file.metadata.row_groups().iter().map(|group| group.num_rows).collect()
    }

    /// The program that wrote the file.
    #[getter]
    fn created_by(&self) -> Option<&str> {
        self.file.metadata.created_by()
    }

    /// The value of the file's key for its Arrow schema.
    #[getter]
    fn arrow_schema(&self) -> Option<&str> {
        self.file.metadata.key_values().find(|(key, _)| *key == "ARROW:schema").and_then(|(_, value)| value)
    }

    /// Whether the file is encrypted or signed.
    #[getter]
    fn encrypted(&self) -> bool {
        self.file.algorithm().is_some()
    }

    /// Return the row group, column, offset and length of each filter, as claimed by the file.
    fn ranges(&self) -> Vec<(usize, usize, i64, Option<i32>)> {
        self.file.claimed_filters().collect()
    }

    /// Return the filter of a column chunk, or None if it has none.
    fn filter(
        &self,
        py: Python<'_>,
        row_group: usize,
        column: usize,
        fetched: &Fetched,
    ) -> PyResult<(Ranges, Option<BloomFilter>)> {
        let (needed, filter) = py.detach(|| {
            let key_ring = self.key_ring()?;
            let decryptor = key_ring.as_ref().map(|key_ring| key_ring as &dyn Decryptor);
            fetched.step(|fetched| self.file.filter(row_group, column, decryptor, fetched))
        })?;
        Ok((needed, filter.flatten().map(BloomFilter::from)))
    }

    /// Return a probe for values of a column, given as an Arrow column or a list of Python values.
    ///
    /// Values that cannot be converted exactly to the column's type are never excluded.
    fn probe(&self, py: Python<'_>, column: usize, values: &Bound<'_, PyAny>) -> PyResult<Probe> {
        let Some(column_type) = self.file.metadata.leaves().get(column).and_then(SchemaLeaf::column_type) else {
            let none = values.cast::<PyList>().is_ok_and(|list| list.is_empty());
            let probe = if none { probe::Probe::NOTHING } else { probe::Probe::ANYTHING };
            return Ok(Probe(ColumnProbe { column, probe }));
        };
        let probe = probe_of(py, column_type, values)?;
        Ok(Probe(ColumnProbe { column, probe }))
    }

    /// Return which row groups from `first` on may contain a row with one of the values of each probe.
    ///
    /// Returns as many row groups as fit into memory at once, and the filters that cannot be used: row group, column,
    /// whether it is a plaintext filter of an encrypted column, and the reason.
    #[expect(clippy::type_complexity, reason = "the answer as Python sees it")]
    fn might_contain(
        &self,
        py: Python<'_>,
        probes: Vec<Bound<'_, Probe>>,
        first: usize,
        fetched: &Fetched,
    ) -> PyResult<(Ranges, Option<(Vec<bool>, Vec<(usize, usize, bool, String)>)>)> {
        let probes: Vec<_> = probes.iter().map(|probe| probe.get().0.clone()).collect();
        let (needed, verdicts) = py.detach(|| {
            let key_ring = self.key_ring()?;
            let decryptor = key_ring.as_ref().map(|key_ring| key_ring as &dyn Decryptor);
            fetched.step(|fetched| {
                let step = self.file.might_contain(&probes, first, decryptor, fetched);
                if let Step::Ready(verdicts) = &step {
                    let row_groups = first..first + verdicts.may_contain.len();
                    let mut cached = self.cached();
                    for (offset, header) in self.file.headers(row_groups, &probes, fetched) {
                        if cached.get(&(offset..offset + to_u64(header.len()))).is_none() {
                            cached.insert(offset, header);
                        }
                    }
                }
                Ok(step)
            })
        })?;
        let verdicts = verdicts.map(|verdicts| {
            let unusable = verdicts.unusable.iter();
            let unusable = unusable.map(|f| (f.row_group, f.column, f.is_plaintext(), f.error.to_string()));
            (verdicts.may_contain, unusable.collect())
        });
        Ok((needed, verdicts))
    }
}

/// Hashes values as a column of this type, given as an Arrow column or a list of Python values. Values that cannot be
/// converted exactly are never excluded.
pub(super) fn probe_of(py: Python<'_>, column_type: ColumnType, values: &Bound<'_, PyAny>) -> PyResult<probe::Probe> {
    let probe_all = || -> PyResult<probe::Probe> {
        let mut all = probe::Probe::NOTHING;
        let mut add = |array: &_| {
            all = std::mem::replace(&mut all, probe::Probe::ANYTHING).or(probe::Probe::new(array, column_type)?);
            Ok(())
        };
        match values.cast::<PyList>() {
            Ok(list) => list.iter().try_for_each(|value| add(&literal(&value, Some(column_type))?))?,
            Err(_) => {
                let column = values.extract::<Column>()?;
                column.refuse_other_forms(Some(column_type))?;
                py.detach(|| column.for_each(add))?;
            }
        }
        Ok(all)
    };
    match probe_all() {
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(probe::Probe::ANYTHING),
        result => result,
    }
}

fn bound_to_python<'py>(py: Python<'py>, bound: parquet::Bound<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match bound {
        parquet::Bound::Integer(value) => value.into_pyobject(py)?.into_any(),
        parquet::Bound::Real(value) => value.into_pyobject(py)?.into_any(),
        parquet::Bound::Bytes(value) => PyBytes::new(py, value).into_any(),
    })
}

/// Return whether a writer, given by its name and version, is known to store wrong minima, maxima or numbers of nulls.
#[pyfunction]
#[pyo3(signature = (created_by))]
pub(super) fn has_wrong_statistics(created_by: Option<&str>) -> bool {
    parquet::has_wrong_statistics(created_by)
}

/// Merge ranges that are at most `gap` bytes apart.
#[pyfunction]
pub(super) fn coalesce(ranges: Ranges, gap: u64) -> Ranges {
    pairs(ranges::coalesce(ranges.into_iter().map(|(start, end)| start..end).collect(), gap))
}

pub(super) fn pairs(ranges: Vec<Range<u64>>) -> Ranges {
    ranges.into_iter().map(|range| (range.start, range.end)).collect()
}
