//! `SievePairs` sorts rows into runs. `SieveRuns` merges runs into one.

use super::axis::SieveAxis;
use super::{Erased, bytes_of, erased_by, for_each_key, to_bytes};
use crate::error::Result;
use crate::python::column::Column;
use crate::sieve::{ArrowKey, Axis, Bytes, Merge, RunSorter, RunWriter};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError};

/// The rows of a column in any order.
pub(super) type AnySorter = Erased<RunSorter<u64>, RunSorter<u128>, RunSorter<Bytes>>;

/// Collects the rows of a column in any order, and sorts them.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SievePairs {
    axis: Axis,
    pairs: Mutex<AnySorter>,
}

impl SievePairs {
    /// Replaces the rows, and returns the rows so far.
    pub(super) fn replace(&self, rows: AnySorter) -> AnySorter {
        std::mem::replace(&mut *self.pairs.lock().unwrap_or_else(PoisonError::into_inner), rows)
    }

    /// Takes the rows so far.
    pub(super) fn take(&self) -> AnySorter {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = sibling(&pairs);
        std::mem::replace(&mut *pairs, empty)
    }
}

fn sibling(pairs: &AnySorter) -> AnySorter {
    match pairs {
        Erased::Word(pairs) => Erased::Word(pairs.sibling()),
        Erased::Wide(pairs) => Erased::Wide(pairs.sibling()),
        Erased::Text(pairs) => Erased::Text(pairs.sibling()),
    }
}

#[pymethods]
impl SievePairs {
    #[new]
    fn new(axis: &SieveAxis) -> Self {
        let pairs = erased_by!(axis.0.width, K => RunSorter::<K>::default());
        Self { axis: axis.0.clone(), pairs: Mutex::new(pairs) }
    }

    /// Return an empty object for another thread. A build can sort the rows of both together.
    fn sibling(&self) -> Self {
        let pairs = sibling(&self.pairs.lock().unwrap_or_else(PoisonError::into_inner));
        Self { axis: self.axis.clone(), pairs: Mutex::new(pairs) }
    }

    /// Add the rows of a column of a location. Return the number of rows, nulls and NaNs.
    fn push(&self, py: Python<'_>, column: Column, location: u32) -> PyResult<(u64, u64, u64)> {
        py.detach(|| {
            let mut sum = (0, 0, 0);
            column.for_each(|array| {
                // Locked separately for each array, because a stream may run Python code to produce the next one.
                let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
                let sides = for_each_key!(&mut *pairs, pairs => pairs.push(&self.axis, array, location))?;
                sum = (sum.0 + sides.rows, sum.1 + sides.nulls, sum.2 + sides.nans);
                Ok(())
            })?;
            Ok(sum)
        })
    }

    /// The memory in use, in bytes. Memory that may double when it grows counts twice.
    #[getter]
    fn num_bytes(&self) -> usize {
        for_each_key!(&*self.pairs.lock().unwrap_or_else(PoisonError::into_inner), pairs => pairs.num_bytes())
    }

    /// Return all rows so far as a sorted run, in pieces, and free their memory.
    fn sort<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let pieces = py.detach(|| {
            let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
            for_each_key!(&mut *pairs, pairs => pairs.sort())
        });
        to_bytes(py, pieces)
    }

    /// Return the next pieces of a sorted run of all rows so far, or None at its end.
    fn sort_next<'py>(&self, py: Python<'py>) -> Option<Vec<Bound<'py, PyBytes>>> {
        let pieces = py.detach(|| {
            let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
            for_each_key!(&mut *pairs, pairs => pairs.sort_next())
        });
        pieces.map(|pieces| to_bytes(py, pieces))
    }
}

/// Merges runs into one, in pieces.
struct RunMerge<K: ArrowKey> {
    merge: Merge<K>,
    pieces: RunWriter<K>,
    /// The last pair, which may be combined with the next one.
    last: Option<(K, u32, u64)>,
}

impl<K: ArrowKey> RunMerge<K> {
    fn new(num_runs: usize) -> Self {
        Self { merge: Merge::new(num_runs), pieces: RunWriter::default(), last: None }
    }

    fn step(&mut self) -> Result<Option<usize>> {
        let Self { merge, pieces, last } = self;
        merge.pour(|key, location, rows| {
            match last {
                Some((previous_key, previous_location, sum))
                    if *previous_location == location && *previous_key == key =>
                {
                    *sum = sum.saturating_add(rows)
                }
                _ => {
                    if let Some((key, location, rows)) = last.replace((key, location, rows)) {
                        pieces.push(key, location, rows);
                    }
                }
            }
            Ok(())
        })
    }

    fn finish(&mut self) -> Vec<Vec<u8>> {
        if let Some((key, location, rows)) = self.last.take() {
            self.pieces.push(key, location, rows);
        }
        std::mem::take(&mut self.pieces).finish()
    }
}

/// Merges sorted runs into one.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveRuns(Mutex<Erased<RunMerge<u64>, RunMerge<u128>, RunMerge<Bytes>>>);

#[pymethods]
impl SieveRuns {
    #[new]
    fn new(axis: &SieveAxis, num_runs: usize) -> Self {
        Self(Mutex::new(erased_by!(axis.0.width, K => RunMerge::<K>::new(num_runs))))
    }

    /// Feed the next piece of a run, or None at its end.
    #[pyo3(signature = (run, piece))]
    fn feed(&self, py: Python<'_>, run: usize, piece: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let piece = piece.map(bytes_of).transpose()?;
        py.detach(|| {
            let mut run_merge = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(for_each_key!(&mut *run_merge, run_merge => run_merge.merge.feed(run, piece))?)
        })
    }

    /// Merge until a run needs its next piece, and return its number. Return None when all runs have ended.
    fn step(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        py.detach(|| {
            let mut run_merge = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(for_each_key!(&mut *run_merge, run_merge => run_merge.step())?)
        })
    }

    /// Return the pieces of the merged run since the last call.
    fn take<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let mut run_merge = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        to_bytes(py, for_each_key!(&mut *run_merge, run_merge => run_merge.pieces.take()))
    }

    /// Return the last pieces of the merged run.
    fn finish<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let mut run_merge = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        to_bytes(py, for_each_key!(&mut *run_merge, run_merge => run_merge.finish()))
    }
}
