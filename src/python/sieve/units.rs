//! `SieveUnits`: how slices are divided into units.

use crate::int::to_u64;
use crate::sieve::{Cut, Layout, SliceLayout, layout};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The row group, the first row in the file and the number of rows of a unit.
pub(super) type RangeRow = (u32, u64, u64);

/// The units of some slices, numbered in order of the slices' IDs and then in file order.
#[pyclass(frozen, module = "parsieve._core")]
#[derive(Default)]
pub(super) struct SieveUnits(Mutex<Layout>);

impl SieveUnits {
    pub(super) fn from_layout(layout: Layout) -> Self {
        Self(Mutex::new(layout))
    }

    pub(super) fn layout(&self) -> MutexGuard<'_, Layout> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at<T>(&self, position: usize, f: impl FnOnce(u32, SliceLayout<'_>) -> T) -> PyResult<T> {
        let layout = self.layout();
        match layout.first(position).zip(layout.get(position)) {
            Some((first, slice)) => Ok(f(first, slice)),
            None => Err(PyIndexError::new_err(format!("there is no slice at position {position}"))),
        }
    }
}

#[pymethods]
impl SieveUnits {
    /// A slice has at most this many units.
    #[classattr]
    const MAX_UNITS: u32 = layout::MAX_UNITS;

    /// Row groups of at most this many rows are never cut.
    #[classattr]
    const UNCUT_ROWS: u64 = layout::UNCUT_ROWS;

    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Add a slice with the number of rows of each row group. IDs must ascend.
    ///
    /// Without row groups, the slice is one unit of unknown rows. If `rows_per_unit` is None, each row group is a unit.
    /// If it is 0, the whole file is a unit. Otherwise each row group of more than 50,000 rows is cut every
    /// `rows_per_unit` rows. A slice with more than 8,192 units is divided less finely.
    fn add(&self, slice_id: u32, row_groups: Vec<u64>, rows_per_unit: Option<u32>) -> PyResult<()> {
        let cut = match rows_per_unit {
            None => Cut::RowGroups,
            Some(0) => Cut::Whole,
            Some(rows) => Cut::Rows(rows),
        };
        Ok(self.layout().add(SliceLayout { id: slice_id, cut, row_groups: &row_groups })?)
    }

    /// The number of slices.
    #[getter]
    fn num_slices(&self) -> usize {
        self.layout().num_slices()
    }

    /// The number of units of all slices.
    #[getter]
    fn num_units(&self) -> usize {
        self.layout().num_units()
    }

    /// The IDs of the slices in order.
    #[getter]
    fn ids(&self) -> Vec<u32> {
        self.layout().ids().to_vec()
    }

    /// Return the position of a slice, or None if it was not added.
    fn position(&self, slice_id: u32) -> Option<usize> {
        self.layout().position(slice_id)
    }

    /// Return the number of the first unit of the slice at a position.
    fn first(&self, position: usize) -> PyResult<u32> {
        self.at(position, |first, _| first)
    }

    /// Return the number of units of the slice at a position.
    fn count(&self, position: usize) -> PyResult<u64> {
        self.at(position, |_, slice| slice.num_units())
    }

    /// Return the rows of each row group of the slice at a position. Empty if they are unknown.
    fn row_groups(&self, position: usize) -> PyResult<Vec<u64>> {
        self.at(position, |_, slice| slice.row_groups.to_vec())
    }

    /// Return the row group, the first row in the file and the number of rows of each unit. Empty if they are unknown.
    ///
    /// A unit that is a whole file begins in row group 0 and has the rows of all row groups.
    fn ranges(&self, position: usize) -> PyResult<Vec<RangeRow>> {
        self.at(position, |_, slice| range_rows(&slice))
    }

    /// Return the same units with other slice IDs.
    fn renumbered(&self, ids: Vec<u32>) -> PyResult<Self> {
        Ok(Self::from_layout(self.layout().renumbered(&ids)?))
    }

    fn __repr__(&self) -> String {
        let layout = self.layout();
        format!("<SieveUnits: {} slices, {} units>", layout.num_slices(), layout.num_units())
    }
}

pub(super) fn range_rows(slice: &SliceLayout<'_>) -> Vec<RangeRow> {
    slice.ranges().iter().map(|range| (range.row_group, range.first_row, range.rows)).collect()
}

/// Checks that each unit has counts.
pub(super) fn check_sides(layout: &Layout, num_sides: usize) -> PyResult<()> {
    if layout.num_units() == num_sides {
        return Ok(());
    }
    let (units, sides) = (layout.num_units(), to_u64(num_sides));
    Err(PyValueError::new_err(format!("{units} units need as many side counts, not {sides}")))
}
