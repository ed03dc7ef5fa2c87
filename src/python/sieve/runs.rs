//! `SievePairs` sorts rows into runs; `SieveRuns` makes one run of several.

use super::axis::SieveAxis;
use super::{Erased, bytes_of, erased_by, for_each_key, to_bytes};
use crate::error::Result;
use crate::python::column::Column;
use crate::sieve::{ArrowKey, Axis, Bytes, Merge, RunSorter, RunWriter};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError};

/// Rows of one column in any order, until they are sorted.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SievePairs {
    axis: Axis,
    pairs: Mutex<Erased<RunSorter<u64>, RunSorter<u128>, RunSorter<Bytes>>>,
}

#[pymethods]
impl SievePairs {
    #[new]
    fn new(axis: &SieveAxis) -> Self {
        let pairs = erased_by!(axis.0.width, K => RunSorter::<K>::default());
        Self { axis: axis.0.clone(), pairs: Mutex::new(pairs) }
    }

    /// Add the rows of a column of a location; its rows, nulls and NaN.
    fn push(&self, py: Python<'_>, column: Column, location: u32) -> PyResult<(u64, u64, u64)> {
        py.detach(|| {
            let mut sum = (0, 0, 0);
            column.for_each(|array| {
                // Taken anew for each array: where a stream's next one comes from, Python may run.
                let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
                let sides = for_each_key!(&mut *pairs, pairs => pairs.push(&self.axis, array, location))?;
                sum = (sum.0 + sides.rows, sum.1 + sides.nulls, sum.2 + sides.nans);
                Ok(())
            })?;
            Ok(sum)
        })
    }

    /// Bytes that are held.
    #[getter]
    fn num_bytes(&self) -> usize {
        for_each_key!(&*self.pairs.lock().unwrap_or_else(PoisonError::into_inner), pairs => pairs.num_bytes())
    }

    /// The rows so far as a sorted run, in pieces; nothing is held afterwards.
    fn sort<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let pieces = py.detach(|| {
            let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
            for_each_key!(&mut *pairs, pairs => pairs.sort())
        });
        to_bytes(py, pieces)
    }
}

/// Runs that become one, in pieces.
struct Joining<K: ArrowKey> {
    merge: Merge<K>,
    pieces: RunWriter<K>,
    /// The last pair, which the next one may continue.
    last: Option<(K, u32, u64)>,
}

impl<K: ArrowKey> Joining<K> {
    fn new(num_runs: usize) -> Self {
        Self { merge: Merge::new(num_runs), pieces: RunWriter::default(), last: None }
    }

    fn step(&mut self) -> Result<Option<usize>> {
        let Self { merge, pieces, last } = self;
        merge.pour(|key, location, rows| {
            match last {
                Some((same, at, sum)) if *at == location && *same == key => *sum = sum.saturating_add(rows),
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

/// Sorted runs on their way to one.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveRuns(Mutex<Erased<Joining<u64>, Joining<u128>, Joining<Bytes>>>);

#[pymethods]
impl SieveRuns {
    #[new]
    fn new(axis: &SieveAxis, num_runs: usize) -> Self {
        Self(Mutex::new(erased_by!(axis.0.width, K => Joining::<K>::new(num_runs))))
    }

    /// Give a hungry run its next piece; None where it has no more.
    #[pyo3(signature = (run, piece))]
    fn feed(&self, py: Python<'_>, run: usize, piece: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let piece = piece.map(bytes_of).transpose()?;
        py.detach(|| {
            let mut joining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(for_each_key!(&mut *joining, joining => joining.merge.feed(run, piece))?)
        })
    }

    /// Merge until a run is hungry, and say which; None when all runs are used up.
    fn step(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        py.detach(|| {
            let mut joining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(for_each_key!(&mut *joining, joining => joining.step())?)
        })
    }

    /// The pieces of the new run since the last call.
    fn take<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let mut joining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        to_bytes(py, for_each_key!(&mut *joining, joining => joining.pieces.take()))
    }

    /// The last pieces of the new run.
    fn finish<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        let mut joining = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        to_bytes(py, for_each_key!(&mut *joining, joining => joining.finish()))
    }
}
