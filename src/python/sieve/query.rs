//! `SieveQuery`: a predicate on one column, with its literals as keys.

use super::axis::SieveAxis;
use super::{Erased, erased_by};
use crate::error::Result;
use crate::python::column::Column;
use crate::sieve::{ArrowKey, Axis, Bytes, Query, Width};
use arrow_array::{Array, ArrayRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

/// A query, and whether it also includes NaN, whose locations are listed separately.
pub(super) struct KeyQuery<K> {
    pub(super) query: Query<K>,
    pub(super) nan: bool,
}

/// A query on a column, or `None` if every location must be kept.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveQuery(pub(super) Option<Erased<KeyQuery<u64>, KeyQuery<u128>, KeyQuery<Bytes>>>);

#[pymethods]
impl SieveQuery {
    /// Match values equal to one of the values of a column. Nulls in the column match nothing.
    #[staticmethod]
    fn points(py: Python<'_>, axis: &SieveAxis, values: Column) -> PyResult<Self> {
        let arrays = arrays(values)?;
        py.detach(|| Ok(Self(Some(erased_by!(axis.0.width, K => points::<K>(&axis.0, &arrays)?)))))
    }

    /// Match values between two bounds, each a column of one value. A missing bound is unlimited.
    #[staticmethod]
    #[pyo3(signature = (axis, low=None, high=None, *, low_strict=false, high_strict=false))]
    fn between(
        axis: &SieveAxis,
        low: Option<Column>,
        high: Option<Column>,
        low_strict: bool,
        high_strict: bool,
    ) -> PyResult<Self> {
        let low = low.map(arrays).transpose()?.map(|low| (low, low_strict));
        let high = high.map(arrays).transpose()?.map(|high| (high, high_strict));
        if [&low, &high].into_iter().flatten().any(|(side, _)| side.iter().map(|array| array.len()).sum::<usize>() != 1)
        {
            return Err(PyValueError::new_err("each end of an interval is a column of one value"));
        }
        Ok(match axis.0.width {
            Width::Word => Self(between::<u64>(&axis.0, low, high)?.map(Erased::Word)),
            Width::Wide => Self(between::<u128>(&axis.0, low, high)?.map(Erased::Wide)),
            Width::Text => Self(between::<Bytes>(&axis.0, low, high)?.map(Erased::Text)),
        })
    }

    /// Match text or binary values with a prefix.
    #[staticmethod]
    fn prefix(axis: &SieveAxis, prefix: PyBackedBytes) -> PyResult<Self> {
        if axis.0.width != Width::Text {
            return Err(PyTypeError::new_err(format!("values of kind {:?} have no prefixes", axis.0.meaning)));
        }
        Ok(Self(Some(Erased::Text(KeyQuery { query: Query::<Bytes>::prefix(&prefix), nan: false }))))
    }

    /// Match nulls.
    #[staticmethod]
    fn null(axis: &SieveAxis) -> Self {
        side(&axis.0, &Side::Null)
    }

    /// Match values other than null.
    #[staticmethod]
    fn not_null(axis: &SieveAxis) -> Self {
        side(&axis.0, &Side::NotNull)
    }

    /// Match NaN.
    #[staticmethod]
    fn nan(axis: &SieveAxis) -> Self {
        side(&axis.0, &Side::Nan)
    }
}

enum Side {
    Null,
    NotNull,
    Nan,
}

fn side(axis: &Axis, side: &Side) -> SieveQuery {
    // A row of a list column can contain both values and nulls, or neither, so nulls are not known per row.
    if axis.repeated && !matches!(side, Side::Nan) {
        return SieveQuery(None);
    }
    fn query<K>(side: &Side) -> KeyQuery<K> {
        let query = match side {
            Side::Null => Query::Null,
            Side::NotNull => Query::NotNull,
            Side::Nan => Query::Nan,
        };
        KeyQuery { query, nan: false }
    }
    SieveQuery(Some(erased_by!(axis.width, K => query::<K>(side))))
}

fn arrays(column: Column) -> PyResult<Vec<ArrayRef>> {
    let mut arrays = Vec::new();
    column.for_each(|array| {
        arrays.push(array.clone());
        Ok(())
    })?;
    Ok(arrays)
}

fn points<K: ArrowKey>(axis: &Axis, arrays: &[ArrayRef]) -> Result<KeyQuery<K>> {
    let (mut keys_of_values, mut nan) = (Vec::new(), false);
    for array in arrays {
        let (keys, sides) = axis.keys::<K>(array)?;
        keys_of_values.extend(keys);
        nan |= sides.nans > 0;
    }
    keys_of_values.sort_unstable();
    keys_of_values.dedup();
    Ok(KeyQuery { query: Query::In(keys_of_values), nan })
}

/// Returns `None` if a bound is null or NaN. Engines disagree about the result, so every location is kept.
fn between<K: ArrowKey>(
    axis: &Axis,
    low: Option<(Vec<ArrayRef>, bool)>,
    high: Option<(Vec<ArrayRef>, bool)>,
) -> Result<Option<KeyQuery<K>>> {
    let end = |side: Option<(Vec<ArrayRef>, bool)>, inwards: fn(K) -> Option<K>| -> Result<(bool, Option<K>)> {
        let Some((arrays, strict)) = side else { return Ok((true, None)) };
        let mut keys = Vec::new();
        for array in &arrays {
            keys.extend(axis.keys::<K>(array)?.0);
        }
        let Some(key) = keys.pop() else { return Ok((false, None)) };
        // A key at either end of the axis may stand for a value outside its range, so it stays included.
        let at_an_end = key.clone().next().is_none() || key.clone().previous().is_none();
        let strict = strict && axis.axis.exact() && !at_an_end;
        Ok((true, if strict { inwards(key) } else { Some(key) }))
    };
    let ((low_known, low), (high_known, high)) = (end(low, K::next)?, end(high, K::previous)?);
    if !low_known || !high_known {
        return Ok(None);
    }
    let query = match (low, high) {
        (Some(low), Some(high)) => Query::Between(low, high),
        (Some(low), None) => Query::AtLeast(low),
        (None, Some(high)) => Query::AtMost(high),
        (None, None) => return Ok(None),
    };
    Ok(Some(KeyQuery { query, nan: false }))
}
