//! One Parquet file without its I/O: every step answers, or names the ranges of bytes that it needs first.

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

/// Start and end of each range.
pub(super) type Ranges = Vec<(u64, u64)>;

/// The parts of a file that were read for one question.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct Fetched(Mutex<ranges::Fetched>);

impl Fetched {
    /// Runs a step on the parts; either the ranges that are missing, or the answer.
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
        // Copied under the interpreter's protection, for another thread might write to the memory meanwhile.
        let bytes = PyBuffer::<u8>::get(data)?.to_vec(py)?;
        py.detach(|| self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(start, bytes));
        Ok(())
    }
}

/// Values to look for in the filters of one column.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct Probe(pub(super) ColumnProbe);

/// A file whose footer was read.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct FileReader {
    pub(super) file: ParquetFile,
    keys: Option<Py<FileKeys>>,
    /// The data before the footer that came with it, so that small files are read once, and the headers of filters that
    /// questions met.
    known: Mutex<ranges::Fetched>,
}

impl FileReader {
    pub(super) fn key_ring(&self) -> Result<Option<FileKeyRing<'_>>> {
        self.keys.as_ref().map_or(Ok(None), |keys| self.file.key_ring(keys.get().ring()))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, ranges::Fetched> {
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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
                let known = Mutex::new(fetched.before(file.data_end()));
                Ok(Step::Ready((file, known)))
            })
        });
        let (needed, opened) = opened?;
        Ok((needed, opened.map(|(file, known)| Self { file, keys, known })))
    }

    /// What identifies the key of the footer, for it is encrypted or signed.
    #[staticmethod]
    fn footer_key_metadata<'py>(
        py: Python<'py>,
        file_len: u64,
        fetched: &Fetched,
    ) -> PyResult<(Ranges, Option<Option<Bound<'py, PyBytes>>>)> {
        let (needed, found) = py.detach(|| {
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
        Ok((needed, found.map(|found| found.map(|bytes| PyBytes::new(py, &bytes)))))
    }

    /// What identifies the key of each column that has one of its own, by the column's path.
    fn column_key_metadata<'py>(&self, py: Python<'py>) -> Vec<(Vec<String>, Bound<'py, PyBytes>)> {
        let metadata = &self.file.metadata;
        let mut found = Vec::new();
        for (column, leaf) in metadata.leaves().iter().enumerate() {
            // A column has one key, and a row group may lack its chunk's.
            let mut chunks = metadata.row_groups().iter().filter_map(|group| group.chunks.get(column));
            if let Some(bytes) = chunks.find_map(|chunk| metadata.key_metadata(chunk)) {
                let path = metadata.path(leaf).into_iter().map(str::to_owned).collect();
                found.push((path, PyBytes::new(py, bytes)));
            }
        }
        found
    }

    /// What is known of the file before a question reads more of it.
    fn fetched(&self) -> Fetched {
        Fetched(Mutex::new(self.known().clone()))
    }

    /// The paths of the columns that hold data.
    #[getter]
    fn columns(&self) -> Vec<Vec<String>> {
        let leaves = self.file.metadata.leaves().iter();
        leaves.map(|leaf| self.file.metadata.path(leaf).into_iter().map(str::to_owned).collect()).collect()
    }

    /// Physical type and meaning of each column, where its values have a hash.
    #[getter]
    fn column_types(&self) -> Vec<Option<String>> {
        let leaves = self.file.metadata.leaves().iter();
        leaves.map(|leaf| leaf.column_type().map(|column| column.to_string())).collect()
    }

    /// Physical type and meaning of each column whose statistics can be understood.
    #[getter]
    fn bound_types(&self) -> Vec<Option<String>> {
        let leaves = self.file.metadata.leaves().iter();
        let named = |leaf: &SchemaLeaf| match (leaf.physical, leaf.logical) {
            (Physical::Boolean, None) => Some("BOOLEAN boolean".to_owned()),
            _ => leaf.column_type().map(|column| column.to_string()),
        };
        leaves.map(named).collect()
    }

    /// The number by which table formats know each column, and whether it lies inside lists.
    #[getter]
    fn leaf_ids(&self) -> Vec<(Option<i32>, bool)> {
        self.file.metadata.leaves().iter().map(|leaf| (leaf.field_id, leaf.max_rep > 0)).collect()
    }

    /// What is certain of a column, row group by row group: lower, upper, nulls, NaNs, values.
    #[expect(clippy::type_complexity, reason = "the answer as Python sees it")]
    fn statistics<'py>(
        &self,
        py: Python<'py>,
        column: usize,
    ) -> PyResult<Vec<(Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Option<u64>, Option<u64>, Option<u64>)>>
    {
        let groups = 0..self.file.metadata.row_groups().len();
        let known = groups.map(|row_group| {
            let known = self.file.bounds(row_group, column);
            let value = |bound: Option<parquet::Bound<'_>>| bound.map(|bound| stored(py, bound)).transpose();
            Ok((value(known.lower)?, value(known.upper)?, known.nulls, known.nans, known.values))
        });
        known.collect()
    }

    /// Rows of each row group.
    #[getter]
    fn num_rows(&self) -> Vec<u64> {
        self.file.metadata.row_groups().iter().map(|group| group.num_rows).collect()
    }

    /// The program that wrote the file.
    #[getter]
    fn created_by(&self) -> Option<&str> {
        self.file.metadata.created_by()
    }

    /// Whether the file is encrypted or signed.
    #[getter]
    fn encrypted(&self) -> bool {
        self.file.algorithm().is_some()
    }

    /// Row group, column, offset and length of each filter by the file's own words.
    fn ranges(&self) -> Vec<(usize, usize, i64, Option<i32>)> {
        self.file.claimed_filters().collect()
    }

    /// The filter of a column chunk, if there is one.
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

    /// Values to look for in a column: an Arrow column, or a list of Python values. What has no exact form there cannot
    /// be excluded.
    fn probe(&self, py: Python<'_>, column: usize, values: &Bound<'_, PyAny>) -> PyResult<Probe> {
        let Some(column_type) = self.file.metadata.leaves().get(column).and_then(SchemaLeaf::column_type) else {
            let none = values.cast::<PyList>().is_ok_and(|list| list.is_empty());
            let probe = if none { probe::Probe::NOTHING } else { probe::Probe::ANYTHING };
            return Ok(Probe(ColumnProbe { column, probe }));
        };
        let probe = probe_of(py, column_type, values)?;
        Ok(Probe(ColumnProbe { column, probe }))
    }

    /// Which row groups from `first` on may hold a row that has one of the values of each probe, as many as fit into
    /// memory at once; and the filters in plaintext of encrypted columns that were not trusted.
    #[expect(clippy::type_complexity, reason = "the answer as Python sees it")]
    fn might_contain(
        &self,
        py: Python<'_>,
        probes: Vec<Bound<'_, Probe>>,
        first: usize,
        fetched: &Fetched,
    ) -> PyResult<(Ranges, Option<(Vec<bool>, Vec<(usize, usize)>)>)> {
        let probes: Vec<_> = probes.iter().map(|probe| probe.get().0.clone()).collect();
        let (needed, verdicts) = py.detach(|| {
            let key_ring = self.key_ring()?;
            let decryptor = key_ring.as_ref().map(|key_ring| key_ring as &dyn Decryptor);
            fetched.step(|fetched| {
                let step = self.file.might_contain(&probes, first, decryptor, fetched);
                if let Step::Ready(verdicts) = &step {
                    let asked = first..first + verdicts.may_contain.len();
                    let mut known = self.known();
                    for (offset, header) in self.file.headers(asked, &probes, fetched) {
                        if known.get(&(offset..offset + to_u64(header.len()))).is_none() {
                            known.insert(offset, header);
                        }
                    }
                }
                Ok(step)
            })
        })?;
        Ok((needed, verdicts.map(|verdicts| (verdicts.may_contain, verdicts.plaintext))))
    }
}

/// The hashes of values in a column of this type: of an Arrow column, or a list of Python values. What has no exact form
/// there cannot be excluded.
pub(super) fn probe_of(py: Python<'_>, column_type: ColumnType, values: &Bound<'_, PyAny>) -> PyResult<probe::Probe> {
    let found = || -> PyResult<probe::Probe> {
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
    match found() {
        Err(error) if error.is_instance_of::<PyException>(py) => Ok(probe::Probe::ANYTHING),
        found => found,
    }
}

fn stored<'py>(py: Python<'py>, bound: parquet::Bound<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match bound {
        parquet::Bound::Integer(value) => value.into_pyobject(py)?.into_any(),
        parquet::Bound::Real(value) => value.into_pyobject(py)?.into_any(),
        parquet::Bound::Bytes(value) => PyBytes::new(py, value).into_any(),
    })
}

/// The same bytes in fewer ranges: neighbours at most `gap` bytes apart are joined.
#[pyfunction]
pub(super) fn coalesce(ranges: Ranges, gap: u64) -> Ranges {
    pairs(ranges::coalesce(ranges.into_iter().map(|(start, end)| start..end).collect(), gap))
}

pub(super) fn pairs(ranges: Vec<Range<u64>>) -> Ranges {
    ranges.into_iter().map(|range| (range.start, range.end)).collect()
}
