//! Encodes the changes of a commit as a stored delta.

use super::axis::SieveAxis;
use super::{LocationNames, bytes_of, erased_by, for_each_key};
use crate::error::Result;
use crate::sieve::{ArrowKey, Change, Delta, KeylessRows, Location, RunChunk};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The number of a location, its inserted and deleted nulls, its inserted and deleted NaNs, and whether it has unread
/// rows.
type SideRow = (u32, (u64, u64), (u64, u64), bool);

/// Encode the delta of a commit.
///
/// The numbers in the other arguments refer to `locations`. The runs of `plus` contain inserted
/// rows, and `minus` has deleted rows. A location in `dead` loses all its earlier rows.
#[pyfunction]
#[pyo3(signature = (axis, *, instant, locations, dead, sides, plus, minus))]
#[expect(clippy::too_many_arguments, reason = "they are named in Python")]
pub(super) fn sieve_delta<'py>(
    py: Python<'py>,
    axis: &SieveAxis,
    instant: i64,
    locations: Vec<LocationNames>,
    dead: Vec<u32>,
    sides: Vec<SideRow>,
    plus: Vec<Bound<'py, PyAny>>,
    minus: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let read = |pieces: Vec<Bound<'py, PyAny>>| pieces.iter().map(bytes_of).collect::<PyResult<Vec<_>>>();
    let (plus, minus) = (read(plus)?, read(minus)?);
    let sides =
        sides.into_iter().map(|(location, nulls, nans, unknown)| KeylessRows { location, nulls, nans, unknown });
    let sides: Vec<KeylessRows> = sides.collect();
    let bytes = py.detach(|| {
        let about = (instant, super::locations(locations), dead, sides);
        let bytes = erased_by!(axis.0.width, K => delta::<K>(about, plus, minus)?);
        for_each_key!(bytes, bytes => Ok::<_, crate::error::Error>(bytes))
    })?;
    Ok(PyBytes::new(py, &bytes))
}

fn delta<K: ArrowKey>(
    (instant, locations, dead, sides): (i64, Vec<Location>, Vec<u32>, Vec<KeylessRows>),
    plus: Vec<Vec<u8>>,
    minus: Vec<Vec<u8>>,
) -> Result<Vec<u8>> {
    let mut changes = Vec::new();
    for (pieces, inserted) in [(plus, true), (minus, false)] {
        for piece in pieces {
            let mut piece = RunChunk::<K>::new(piece)?;
            while let Some((key, location, rows)) = piece.next_pair()? {
                let (plus, minus) = if inserted { (rows, 0) } else { (0, rows) };
                changes.push(Change { key, location, plus, minus });
            }
        }
    }
    Ok(Delta::new(instant, locations, dead, sides, changes)?.write())
}
