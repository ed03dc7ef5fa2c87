//! `BloomFilter`: a core filter behind a lock, so that threads can share it.
//!
//! Code takes the lock only after it has released the GIL, and never acquires the GIL while it holds the lock. So the
//! lock and the GIL cannot deadlock. Two filters are locked in the order of their addresses.

use super::column::{Column, LeafPath, column_type, count, options, single, to_pyarrow};
use super::functions::{num_blocks, rate, sizes};
use super::literal::literal;
use crate::arrow::Meaning;
use crate::bloom::sizing::{self, Model};
use crate::bloom::{ColumnOptions, Filter, Sbbf};
use crate::error::Result;
use arrow_array::{Array, ArrayRef};
use arrow_select::concat::concat;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyMemoryView, PyTuple, PyType};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A Parquet Bloom filter in memory: split blocks of 256 bits, with XXH64.
///
/// Pass either the expected number of distinct values and the false positive rate (`ndv`, `fpp`), or the size
/// (`num_bytes`, a multiple of 32). A filter takes its column type from `type`, or else from the first insert. Pass
/// `physical_type` if the file stores the values with an unusual physical type. Columns of other types are converted
/// exactly, or raise an error.
///
/// Threads can share a filter. Checks run in parallel, and inserts run one at a time.
///
/// >>> import pyarrow as pa, parsieve as ps
/// >>> f = ps.BloomFilter(ndv=1000, fpp=0.01)
/// >>> f.insert(pa.array([1, 2, None, 3]))
/// >>> f.check(pa.array([1, None])).to_pylist()
/// [True, None]
/// >>> f.might_contain(3)
/// True
#[pyclass(frozen, module = "parsieve")]
pub(super) struct BloomFilter {
    filter: RwLock<Filter>,
    exports: AtomicUsize,
}

impl From<Filter> for BloomFilter {
    fn from(filter: Filter) -> Self {
        Self { filter: RwLock::new(filter), exports: AtomicUsize::new(0) }
    }
}

impl BloomFilter {
    /// Runs `read` on the filter, with the GIL released.
    pub(super) fn read<T: Send>(&self, py: Python<'_>, read: impl FnOnce(&Filter) -> T + Send) -> T {
        py.detach(|| read(&self.shared()))
    }

    /// Runs `change` on the filter, with the GIL released. Raises an error while the filter's buffer is exported.
    fn change<T: Send>(&self, py: Python<'_>, change: impl FnOnce(&mut Filter) -> Result<T> + Send) -> PyResult<T> {
        py.detach(|| Ok(change(&mut *self.exclusive()?)?))
    }

    // A panic cannot leave a filter in a harmful state, because bits are only ever added.
    pub(super) fn shared(&self) -> RwLockReadGuard<'_, Filter> {
        self.filter.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn exclusive(&self) -> PyResult<RwLockWriteGuard<'_, Filter>> {
        let filter = self.filter.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Exports are counted under the shared lock, so none can start now.
        if self.exports.load(Ordering::Acquire) > 0 {
            return Err(PyBufferError::new_err(
                "the filter cannot change while its buffer is exported; release the memoryview",
            ));
        }
        Ok(filter)
    }

    fn is(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }

    fn before(&self, other: &Self) -> bool {
        std::ptr::from_ref(self) < std::ptr::from_ref(other)
    }

    /// Adds all values of another filter.
    fn merge_from(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        if self.is(other) {
            return Ok(());
        }
        py.detach(|| {
            let (mut ours, theirs) = if self.before(other) {
                let ours = self.exclusive()?;
                (ours, other.shared())
            } else {
                let theirs = other.shared();
                (self.exclusive()?, theirs)
            };
            Ok(ours.merge(&theirs)?)
        })
    }

    /// Raises an error for columns for which the filter could cause a false "no".
    fn refuse_guesses(&self, py: Python<'_>, column: &Column) -> PyResult<()> {
        if self.has_unknown_type(py) {
            column.refuse_guesses()?;
        }
        column.refuse_other_forms(self.read(py, Filter::column))
    }

    /// Returns true if the filter holds values of undeclared type, because it was read from bytes.
    fn has_unknown_type(&self, py: Python<'_>) -> bool {
        self.read(py, |filter| filter.column().is_none() && filter.sbbf().estimated_ndv() > 0.0)
    }

    fn check_array(&self, py: Python<'_>, array: &ArrayRef) -> PyResult<bool> {
        let answer = self.read(py, |filter| filter.check(array, ColumnOptions::default()))?;
        match (answer.len(), answer.null_count()) {
            (1, 0) => Ok(answer.value(0)),
            (1, _) => Err(PyTypeError::new_err("a filter holds no nulls; it cannot answer for one")),
            (len, _) => Err(PyValueError::new_err(format!("expected one value, not {len}; use check() for several"))),
        }
    }
}

#[pymethods]
impl BloomFilter {
    #[new]
    #[pyo3(signature = (ndv=None, fpp=0.01, *, num_bytes=None, tight=false, r#type=None, physical_type=None))]
    fn new(
        ndv: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = rate)] fpp: f64,
        num_bytes: Option<&Bound<'_, PyAny>>,
        tight: bool,
        r#type: Option<&Bound<'_, PyAny>>,
        physical_type: Option<&str>,
    ) -> PyResult<Self> {
        sizing::check_fpp(fpp)?;
        let num_blocks = match (ndv, num_bytes) {
            (Some(ndv), None) => sizing::optimal_blocks(count("ndv", ndv)?, fpp, sizes(tight), Model::Exact)?,
            (None, Some(num_bytes)) => num_blocks(num_bytes)?,
            _ => return Err(PyValueError::new_err("pass either ndv (and fpp) or num_bytes")),
        };
        Ok(Filter::empty(num_blocks, column_type(r#type, physical_type)?)?.into())
    }

    /// Insert the values of a column. Nulls are skipped, and dictionary entries and runs are hashed only once.
    ///
    /// `leaf` selects a leaf of a nested column (``"a.b"``, or a tuple if names contain dots). The result does not
    /// depend on `threads`. Each additional thread temporarily needs as much memory as the filter.
    ///
    /// >>> import pyarrow as pa, parsieve as ps
    /// >>> f = ps.BloomFilter(ndv=1000)
    /// >>> f.insert(pa.array([[1, 2], None, [3]]))
    /// >>> f.physical_type
    /// 'INT64'
    #[pyo3(signature = (column, *, leaf=None, threads=1, instruction_set=None))]
    fn insert(
        &self,
        py: Python<'_>,
        column: Column,
        leaf: Option<LeafPath>,
        threads: i64,
        instruction_set: Option<&str>,
    ) -> PyResult<()> {
        let leaf = leaf.map(LeafPath::names);
        let options = options(leaf.as_deref(), threads, instruction_set)?;
        column.refuse_other_forms(self.read(py, Filter::column))?;
        // Pull arrays without holding the lock: a producer may run Python code, even code that uses this filter.
        py.detach(|| column.for_each(|array| Ok(self.exclusive()?.insert(array, options)?)))
    }

    /// Return whether each value may be present, as a `pyarrow.BooleanArray`. `False` is certain, and nulls stay null.
    ///
    /// Zero is looked up with both signs, and NaN is never excluded.
    ///
    /// >>> import pyarrow as pa, parsieve as ps
    /// >>> f = ps.BloomFilter(ndv=1000)
    /// >>> f.insert(pa.array(["a", "b"]))
    /// >>> f.check(pa.array(["a", None, "b"])).to_pylist()
    /// [True, None, True]
    #[pyo3(signature = (column, *, leaf=None, threads=1, instruction_set=None))]
    fn check<'py>(
        &self,
        py: Python<'py>,
        column: Column,
        leaf: Option<LeafPath>,
        threads: i64,
        instruction_set: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let leaf = leaf.map(LeafPath::names);
        let options = options(leaf.as_deref(), threads, instruction_set)?;
        self.refuse_guesses(py, &column)?;
        let answers = py.detach(|| -> PyResult<ArrayRef> {
            let mut answers = Vec::new();
            column.for_each(|array| {
                answers.push(self.shared().check(array, options)?);
                Ok(())
            })?;
            if answers.len() == 1 {
                return Ok(Arc::new(answers.remove(0)));
            }
            let arrays: Vec<&dyn Array> = answers.iter().map(|array| array as &dyn Array).collect();
            concat(&arrays).map_err(|error| PyValueError::new_err(error.to_string()))
        })?;
        to_pyarrow(py, answers)
    }

    /// Return whether a value may be present. `False` is certain.
    ///
    /// The value is converted exactly to the filter's column type, or to `type`.
    ///
    /// >>> import pyarrow as pa, parsieve as ps
    /// >>> f = ps.BloomFilter(ndv=1000)
    /// >>> f.insert(pa.array([0.0]))
    /// >>> f.might_contain(-0.0), f.might_contain(0)
    /// (True, True)
    #[pyo3(signature = (value, *, r#type=None))]
    fn might_contain(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        r#type: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let array = match r#type {
            Some(data_type) => single(value, Some(data_type), self.read(py, Filter::column))?,
            None => literal(value, self.read(py, Filter::column))?,
        };
        self.check_array(py, &array)
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.might_contain(py, value, None)
    }

    /// Add all values of another filter of the same size and column type.
    ///
    /// >>> import pyarrow as pa, parsieve as ps
    /// >>> f, g = ps.BloomFilter(num_bytes=1024), ps.BloomFilter(num_bytes=1024)
    /// >>> g.insert(pa.array(["x"]))
    /// >>> f.merge(g)
    /// >>> "x" in f
    /// True
    fn merge(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.merge_from(py, other)
    }

    /// Return a new filter with the values of both.
    fn __or__(&self, py: Python<'_>, other: &Self) -> PyResult<Self> {
        let union = Self::from(self.read(py, Filter::try_clone)?);
        union.merge_from(py, other)?;
        Ok(union)
    }

    fn __ior__(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        self.merge_from(py, other)
    }

    /// Shrink the filter in place, by `factor` or as far as the estimated false positive rate stays at most `fpp`.
    ///
    /// The result is identical to a filter that was built at the smaller size. Factors are powers of two unless
    /// `tight=True`, which allows any divisor of the number of blocks. Some older Arrow readers reject the resulting
    /// sizes.
    ///
    /// >>> import pyarrow as pa, parsieve as ps
    /// >>> f = ps.BloomFilter(num_bytes=1 << 20)
    /// >>> f.insert(pa.array(range(1000)))
    /// >>> f.fold(fpp=0.01)
    /// >>> f.num_bytes
    /// 2048
    #[pyo3(signature = (fpp=0.01, *, factor=None, tight=false))]
    fn fold(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = rate)] fpp: f64,
        factor: Option<&Bound<'_, PyAny>>,
        tight: bool,
    ) -> PyResult<()> {
        let factor = factor.map(|factor| count("factor", factor)).transpose()?;
        self.change(py, |filter| {
            let factor = filter.fold_factor(factor, fpp, sizes(tight))?;
            if factor != 1 {
                *filter = filter.folded(factor)?;
            }
            Ok(())
        })
    }

    /// Return a smaller copy. The arguments are the same as for `fold`.
    ///
    /// >>> import parsieve as ps
    /// >>> ps.BloomFilter(num_bytes=96).folded(factor=3, tight=True).num_blocks
    /// 1
    #[pyo3(signature = (fpp=0.01, *, factor=None, tight=false))]
    fn folded(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = rate)] fpp: f64,
        factor: Option<&Bound<'_, PyAny>>,
        tight: bool,
    ) -> PyResult<Self> {
        let factor = factor.map(|factor| count("factor", factor)).transpose()?;
        let folded = self.read(py, |filter| {
            let factor = filter.fold_factor(factor, fpp, sizes(tight))?;
            filter.folded(factor)
        })?;
        Ok(folded.into())
    }

    /// The size of the bitset in bytes.
    #[getter]
    fn num_bytes(&self, py: Python<'_>) -> u64 {
        self.num_blocks(py) * 32
    }

    /// The number of blocks, of 32 bytes each.
    #[getter]
    fn num_blocks(&self, py: Python<'_>) -> u64 {
        self.read(py, |filter| filter.sbbf().num_blocks())
    }

    /// The false positive rate, estimated from the bits that are set.
    #[getter]
    fn estimated_fpp(&self, py: Python<'_>) -> f64 {
        self.read(py, |filter| filter.sbbf().estimated_fpp())
    }

    /// The number of distinct values, estimated from the bits that are set; `inf` if all bits are set.
    #[getter]
    fn estimated_ndv(&self, py: Python<'_>) -> f64 {
        self.read(py, |filter| filter.sbbf().estimated_ndv())
    }

    /// The Parquet physical type of the values, or None if it is not known yet.
    #[getter]
    fn physical_type(&self, py: Python<'_>) -> Option<String> {
        self.read(py, |filter| filter.column().map(|column| column.physical.to_string()))
    }

    /// The physical type and the meaning of the values, such as ``"INT64 timestamp[us]"``, or None if not known yet.
    #[getter]
    fn column_type(&self, py: Python<'_>) -> Option<String> {
        self.read(py, |filter| filter.column().map(|column| column.to_string()))
    }

    /// Return the Thrift header and the bitset, as stored in a Parquet file.
    ///
    /// The bytes do not include the column type. Pickles do.
    ///
    /// >>> import parsieve as ps
    /// >>> len(ps.BloomFilter(num_bytes=32).to_bytes())
    /// 47
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.read(py, |filter| filter.sbbf().to_bytes())?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Read a filter from its Thrift header and bitset. Pass `type` and `physical_type` if you know the column type.
    ///
    /// Without a type, only text and binary values can be checked, because the hash of a number, time or decimal
    /// depends on how the file stores it.
    ///
    /// >>> import parsieve as ps
    /// >>> f = ps.BloomFilter(num_bytes=32)
    /// >>> ps.BloomFilter.from_bytes(f.to_bytes()) == f
    /// True
    #[classmethod]
    #[pyo3(signature = (data, *, r#type=None, physical_type=None))]
    fn from_bytes(
        _: &Bound<'_, PyType>,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        r#type: Option<&Bound<'_, PyAny>>,
        physical_type: Option<&str>,
    ) -> PyResult<Self> {
        let column = column_type(r#type, physical_type)?;
        if physical_type.is_none() && column.is_some_and(|column| matches!(column.meaning, Meaning::Decimal { .. })) {
            return Err(PyValueError::new_err(
                "files store decimals in several forms with different hashes; pass physical_type as in the file's schema \
                 (INT32, INT64, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY(n))",
            ));
        }
        // Some buffers have signed bytes, so cast them. The bytes are copied with the GIL held, because another thread
        // could otherwise modify the memory.
        let view = PyMemoryView::from(data)?.call_method1("cast", ("B",))?;
        let bytes = PyBuffer::<u8>::get(&view)?.to_vec(py)?;
        let sbbf = py.detach(|| Sbbf::from_bytes(&bytes, 0))?;
        Ok(Filter::new(sbbf, column).into())
    }

    #[staticmethod]
    fn _restore(py: Python<'_>, data: &[u8], column_type: Option<&str>) -> PyResult<Self> {
        let column = column_type.map(str::parse).transpose()?;
        let sbbf = py.detach(|| Sbbf::from_bytes(data, 0))?;
        Ok(Filter::new(sbbf, column).into())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, filter) = (slf.py(), slf.get());
        let state = (filter.to_bytes(py)?, filter.column_type(py));
        (slf.get_type().getattr("_restore")?, state).into_pyobject(py)
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(self.read(py, Filter::try_clone)?.into())
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Self> {
        self.__copy__(py)
    }

    /// Filters are equal if their bitsets are equal.
    fn __eq__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> Py<PyAny> {
        let Ok(other) = other.cast::<Self>() else { return py.NotImplemented() };
        let other = other.get();
        let equal = self.is(other)
            || py.detach(|| {
                let (first, second) = if self.before(other) { (self, other) } else { (other, self) };
                let (first, second) = (first.shared(), second.shared());
                first.sbbf() == second.sbbf()
            });
        PyBool::new(py, equal).to_owned().into_any().unbind()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (num_bytes, ndv, fpp, column) = self.read(py, |filter| {
            let sbbf = filter.sbbf();
            (sbbf.num_blocks() * 32, sbbf.estimated_ndv(), sbbf.estimated_fpp(), filter.column())
        });
        let column = column.map_or_else(|| "of an unknown type".to_owned(), |column| format!("of {column}"));
        format!("<parsieve.BloomFilter {column}: {num_bytes} bytes, about {ndv:.0} values, estimated fpp {fpp:.2e}>")
    }

    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let filter = slf.get();
        let bitset = {
            let shared = filter.shared();
            filter.exports.fetch_add(1, Ordering::AcqRel);
            let bitset = shared.sbbf().bitset();
            (bitset.as_ptr(), bitset.len())
        };
        // SAFETY: `view` is provided by Python to be filled. The memory lives as long as `slf`, which the view keeps
        // alive, and does not change while an export is counted. The export is read-only, so requests for a writable
        // view fail.
        let result = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bitset.0.cast_mut().cast::<c_void>(),
                bitset.1 as ffi::Py_ssize_t,
                1,
                flags,
            )
        };
        if result != 0 {
            filter.exports.fetch_sub(1, Ordering::AcqRel);
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }

    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.exports.fetch_sub(1, Ordering::AcqRel);
    }
}
