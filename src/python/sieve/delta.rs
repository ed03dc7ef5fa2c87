//! Encodes the changes of a commit as a stored delta.

use super::axis::SieveAxis;
use super::units::{SieveUnits, check_sides};
use super::{LocationNames, bytes_of, erased_by, for_each_key};
use crate::error::Result;
use crate::sieve::{ArrowKey, Change, ChangedSlice, Delta, KeylessRows, Layout, Location, RunChunk, UnitDelta};
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

/// The ID of a known slice, its added and removed nulls, its added and removed NaNs, and whether it has unread rows.
type ChangedRow = (u32, (u64, u64), (u64, u64), bool);

/// Encode the delta of a commit in version 2.
///
/// `units` are the new slices, and `sides` has the nulls and NaNs of each of their units, and whether it has unread
/// rows. `changed` lists known slices. The runs of `plus` contain inserted rows, and `minus` has deleted rows. Their
/// location numbers are unit numbers, and after them the positions in `changed`.
#[pyfunction]
#[pyo3(signature = (axis, *, instant, units, sides, changed=Vec::new(), plus, minus=Vec::new()))]
#[expect(clippy::too_many_arguments, reason = "they are named in Python")]
pub(super) fn sieve_delta2<'py>(
    py: Python<'py>,
    axis: &SieveAxis,
    instant: i64,
    units: &SieveUnits,
    sides: Vec<(u64, u64, bool)>,
    changed: Vec<ChangedRow>,
    plus: Vec<Bound<'py, PyAny>>,
    minus: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let read = |pieces: Vec<Bound<'py, PyAny>>| pieces.iter().map(bytes_of).collect::<PyResult<Vec<_>>>();
    let (plus, minus, layout) = (read(plus)?, read(minus)?, units.layout().clone());
    check_sides(&layout, sides.len())?;
    let changed = changed.into_iter().map(|(id, nulls, nans, unknown)| ChangedSlice { id, nulls, nans, unknown });
    let changed: Vec<ChangedSlice> = changed.collect();
    let bytes = py.detach(|| {
        let about = (instant, layout, sides, changed);
        let bytes = erased_by!(axis.0.width, K => unit_delta::<K>(about, plus, minus)?);
        for_each_key!(bytes, bytes => Ok::<_, crate::error::Error>(bytes))
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// The instant, the new slices with the side counts of their units, and the changed slices.
type UnitDeltaParts = (i64, Layout, Vec<(u64, u64, bool)>, Vec<ChangedSlice>);

fn unit_delta<K: ArrowKey>(
    (instant, layout, sides, changed): UnitDeltaParts,
    plus: Vec<Vec<u8>>,
    minus: Vec<Vec<u8>>,
) -> Result<Vec<u8>> {
    Ok(UnitDelta::new(instant, layout, &sides, changed, changes::<K>(plus, minus)?)?.write())
}

fn delta<K: ArrowKey>(
    (instant, locations, dead, sides): (i64, Vec<Location>, Vec<u32>, Vec<KeylessRows>),
    plus: Vec<Vec<u8>>,
    minus: Vec<Vec<u8>>,
) -> Result<Vec<u8>> {
    Ok(Delta::new(instant, locations, dead, sides, changes::<K>(plus, minus)?)?.write())
}

fn changes<K: ArrowKey>(plus: Vec<Vec<u8>>, minus: Vec<Vec<u8>>) -> Result<Vec<Change<K>>> {
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
    Ok(changes)
}
