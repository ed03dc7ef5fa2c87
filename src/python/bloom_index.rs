//! The Bloom index of a table: a directory and rows. A query reads only a few of the rows.

use super::bloom::BloomFilter;
use super::column::Column;
use super::file::{Fetched, Probe, Ranges, probe_of};
use crate::bloom::sizing::{self, Model, Sizes};
use crate::bloom::{Filter, Sbbf};
use crate::bloom_index;
use crate::isa::InstructionSet;
use crate::parquet::ColumnProbe;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The rows of each row group of a location, and the number of rows at which large row groups are cut (0 cuts none).
type Division = (Vec<u64>, u32);

/// The partition and the group of a location, the number of blocks of the filter of each unit (None if it has no
/// values), whether the location has nulls, NaNs, and unread rows, and how it is divided into units.
type Shelved = (String, String, Vec<Option<u64>>, bool, bool, bool, Division);

/// The same with the filters instead of their sizes.
type Unshelved = (String, String, Vec<Option<BloomFilter>>, bool, bool, bool, Division);

/// A shelf under construction. It is filled with the filters of one column type, one location at a time.
#[pyclass(module = "parsieve._core")]
pub(super) struct ShelfArrangement(Option<bloom_index::Arrangement>);

#[pymethods]
impl ShelfArrangement {
    #[new]
    fn new(py: Python<'_>, column_type: &str, locations: Vec<Shelved>) -> PyResult<Self> {
        let column = column_type.parse()?;
        let members = locations.into_iter().map(|(partition, group, num_blocks, nulls, nans, unknown, division)| {
            let (row_groups, rows_per_unit) = division;
            (bloom_index::Member { partition, group, nulls, nans, unknown, row_groups, rows_per_unit }, num_blocks)
        });
        Ok(Self(Some(py.detach(|| bloom_index::Arrangement::new(column, members.collect()))?)))
    }

    /// Place the filter of the unit with this number.
    fn place(&mut self, py: Python<'_>, number: usize, filter: &Bound<'_, BloomFilter>) -> PyResult<()> {
        let arrangement = self.0.as_mut().ok_or_else(finished)?;
        Ok(filter.get().read(py, |filter| arrangement.place(number, filter.sbbf()))?)
    }

    /// Return the directory and the rows, once every filter has been placed.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<(Shelf, Bound<'py, PyBytes>)> {
        let arrangement = self.0.take().ok_or_else(finished)?;
        let (shelf, rows) = py.detach(|| arrangement.finish())?;
        Ok((Shelf(shelf), PyBytes::new(py, &rows)))
    }
}

fn finished() -> PyErr {
    PyValueError::new_err("the shelf is finished")
}

/// The directory of a shelf of filters.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct Shelf(bloom_index::Shelf);

#[pymethods]
impl Shelf {
    /// Decode a directory.
    #[staticmethod]
    fn read(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        Ok(Self(py.detach(|| bloom_index::Shelf::read(data))?))
    }

    /// Return the filters from all rows, with the flags of their locations.
    fn unshelve(&self, py: Python<'_>, rows: &[u8]) -> PyResult<Vec<Unshelved>> {
        let filters = py.detach(|| self.0.unshelve(rows))?;
        let column = Some(self.0.column());
        let filter_of = |sbbf: Option<Sbbf>| sbbf.map(|sbbf| BloomFilter::from(Filter::new(sbbf, column)));
        let unshelved = filters.into_iter().map(|(of, sbbfs)| {
            let filters = sbbfs.into_iter().map(filter_of).collect();
            (of.partition, of.group, filters, of.nulls, of.nans, of.unknown, (of.row_groups, of.rows_per_unit))
        });
        Ok(unshelved.collect())
    }

    /// Encode the directory.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.write()))
    }

    /// The partition and the group of each location.
    #[getter]
    fn locations(&self) -> Vec<(String, String)> {
        self.0.members().iter().map(|member| (member.partition.clone(), member.group.clone())).collect()
    }

    /// For each location: whether it has nulls, and whether it has unread rows.
    #[getter]
    fn flags(&self) -> Vec<(bool, bool)> {
        self.0.members().iter().map(|member| (member.nulls, member.unknown)).collect()
    }

    /// For each location: the rows of each row group, and the number of rows at which large ones are cut.
    #[getter]
    fn divisions(&self) -> Vec<Division> {
        self.0.members().iter().map(|member| (member.row_groups.clone(), member.rows_per_unit)).collect()
    }

    /// The physical type and the meaning of the values.
    #[getter]
    fn column_type(&self) -> String {
        self.0.column().to_string()
    }

    /// The size of the rows in bytes.
    #[getter]
    fn num_bytes(&self) -> u64 {
        self.0.rows_len()
    }

    /// Return a probe for values, given as an Arrow column or a list of Python values.
    fn probe(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Probe> {
        Ok(Probe(ColumnProbe { column: 0, probe: probe_of(py, self.0.column(), values)? }))
    }

    /// Return the ranges of units that may contain one of the values, and the number of damaged rows.
    fn might_contain(
        &self,
        py: Python<'_>,
        probe: &Probe,
        fetched: &Fetched,
    ) -> PyResult<(Ranges, Option<(Ranges, u64)>)> {
        let (needed, answer) =
            py.detach(|| fetched.step(|fetched| Ok(self.0.might_contain(&probe.0.probe, fetched))))?;
        let kept =
            |answer: &bloom_index::ShelfAnswer| answer.kept.iter().map(|units| (units.start, units.end)).collect();
        Ok((needed, answer.map(|answer| (kept(&answer), answer.damaged))))
    }
}

/// Return the size in bytes of a filter on a shelf for at most `ndv` distinct values.
///
/// The size is rounded up to one of four sizes per power of two, so that many filters have the same size.
#[pyfunction]
pub(super) fn shelf_num_bytes(ndv: u64, fpp: f64) -> PyResult<u64> {
    let blocks = sizing::optimal_blocks(ndv.max(1), fpp, Sizes::Any, Model::Exact)?;
    Ok(bloom_index::shelf_blocks(blocks) * 32)
}

/// Insert the trigrams of all texts of a column into a filter of strings: three neighboring characters each.
///
/// Nulls and texts of fewer than three characters have no trigrams.
#[pyfunction]
pub(super) fn insert_trigrams(py: Python<'_>, filter: &Bound<'_, BloomFilter>, column: Column) -> PyResult<()> {
    let (filter, isa) = (filter.get(), InstructionSet::detect());
    // Pull arrays without holding the lock: a producer may run Python code, even code that uses this filter.
    py.detach(|| column.for_each(|array| Ok(filter.exclusive()?.insert_trigrams(array, isa)?)))
}

/// Return whether a filter contains the trigrams of all texts of a column.
#[pyfunction]
pub(super) fn contains_trigrams(py: Python<'_>, filter: &Bound<'_, BloomFilter>, column: Column) -> PyResult<bool> {
    let filter = filter.get();
    py.detach(|| {
        let mut contains = true;
        column.for_each(|array| {
            contains = contains && filter.shared().contains_trigrams(array)?;
            Ok(())
        })?;
        Ok(contains)
    })
}

/// Insert the words of all texts of a column into a filter of strings. A word is an unbroken run of ASCII letters,
/// ASCII digits and non-ASCII characters.
#[pyfunction]
pub(super) fn insert_words(py: Python<'_>, filter: &Bound<'_, BloomFilter>, column: Column) -> PyResult<()> {
    let (filter, isa) = (filter.get(), InstructionSet::detect());
    // As in `insert_trigrams`, pull arrays without holding the lock.
    py.detach(|| column.for_each(|array| Ok(filter.exclusive()?.insert_words(array, isa)?)))
}

/// Return whether a filter contains the words of all texts of a column.
#[pyfunction]
pub(super) fn contains_words(py: Python<'_>, filter: &Bound<'_, BloomFilter>, column: Column) -> PyResult<bool> {
    let filter = filter.get();
    py.detach(|| {
        let mut contains = true;
        column.for_each(|array| {
            contains = contains && filter.shared().contains_words(array)?;
            Ok(())
        })?;
        Ok(contains)
    })
}
