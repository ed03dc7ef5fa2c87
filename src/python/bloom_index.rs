//! The Bloom index of a table: a directory, and rows of which a question reads a few.

use super::bloom::BloomFilter;
use super::file::{Fetched, Probe, Ranges, probe_of};
use crate::bloom::sizing::{self, Model, Sizes};
use crate::bloom::{Filter, Sbbf};
use crate::bloom_index;
use crate::error::Result;
use crate::parquet::ColumnProbe;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Partition, group, filter (none where the location has no values), and whether there are nulls, NaNs, unread rows.
type Shelved<'py> = (String, String, Option<Bound<'py, BloomFilter>>, bool, bool, bool);

type Unshelved = (String, String, Option<BloomFilter>, bool, bool, bool);

/// The directory of a shelf of filters.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct Shelf(bloom_index::Shelf);

#[pymethods]
impl Shelf {
    /// Shelve the filters of locations of one column type; also the rows.
    #[staticmethod]
    fn arrange<'py>(
        py: Python<'py>,
        column_type: &str,
        filters: Vec<Shelved<'py>>,
    ) -> PyResult<(Self, Bound<'py, PyBytes>)> {
        let column = column_type.parse()?;
        let mut shelved = Vec::with_capacity(filters.len());
        for (partition, group, filter, nulls, nans, unknown) in filters {
            let copy = |filter: &Filter| -> Result<Sbbf> { filter.sbbf().try_clone() };
            let filter = filter.map(|filter| filter.get().read(py, copy)).transpose()?;
            shelved.push((bloom_index::Member { partition, group, nulls, nans, unknown }, filter));
        }
        let (shelf, rows) = py.detach(|| bloom_index::Shelf::arrange(column, shelved));
        Ok((Self(shelf), PyBytes::new(py, &rows)))
    }

    /// Read a directory.
    #[staticmethod]
    fn read(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        Ok(Self(py.detach(|| bloom_index::Shelf::read(data))?))
    }

    /// The filters from all rows, as `arrange` took them.
    fn unshelve(&self, py: Python<'_>, rows: &[u8]) -> PyResult<Vec<Unshelved>> {
        let filters = py.detach(|| self.0.unshelve(rows))?;
        let column = Some(self.0.column());
        let unshelved = filters.into_iter().map(|(of, sbbf)| {
            let filter = sbbf.map(|sbbf| BloomFilter::from(Filter::new(sbbf, column)));
            (of.partition, of.group, filter, of.nulls, of.nans, of.unknown)
        });
        Ok(unshelved.collect())
    }

    /// The directory as bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.write()))
    }

    /// Partition and group of each location.
    #[getter]
    fn locations(&self) -> Vec<(String, String)> {
        self.0.members().iter().map(|member| (member.partition.clone(), member.group.clone())).collect()
    }

    /// Whether each location has rows without a value, and rows that were not read.
    #[getter]
    fn flags(&self) -> Vec<(bool, bool)> {
        self.0.members().iter().map(|member| (member.nulls, member.unknown)).collect()
    }

    /// Physical type and meaning of the values.
    #[getter]
    fn column_type(&self) -> String {
        self.0.column().to_string()
    }

    /// Bytes of the rows.
    #[getter]
    fn num_bytes(&self) -> u64 {
        self.0.rows_len()
    }

    /// Values to look for: an Arrow column, or a list of Python values.
    fn probe(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Probe> {
        Ok(Probe(ColumnProbe { column: 0, probe: probe_of(py, self.0.column(), values)? }))
    }

    /// For each location whether it may hold one of the values, and how many rows were damaged.
    #[expect(clippy::type_complexity, reason = "the answer as Python sees it")]
    fn might_contain(
        &self,
        py: Python<'_>,
        probe: &Probe,
        fetched: &Fetched,
    ) -> PyResult<(Ranges, Option<(Vec<bool>, u64)>)> {
        let (needed, verdicts) =
            py.detach(|| fetched.step(|fetched| Ok(self.0.might_contain(&probe.0.probe, fetched))))?;
        Ok((needed, verdicts.map(|verdicts| (verdicts.may_contain, verdicts.damaged))))
    }
}

/// Bytes of a filter on a shelf for so many distinct values at most: one of few sizes, which halve into each other.
#[pyfunction]
pub(super) fn shelf_num_bytes(ndv: u64, fpp: f64) -> PyResult<u64> {
    let blocks = sizing::optimal_blocks(ndv.max(1), fpp, Sizes::Any, Model::Exact)?;
    Ok(bloom_index::shelf_blocks(blocks) * 32)
}
