//! `ValueSet`: an exact set of values.

use super::column::to_pyarrow;
use super::import::Arrays;
use crate::isa::InstructionSet;
use crate::value_set;
use arrow_array::ArrayRef;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;

/// The distinct values of an Arrow array. Both zeros are one value, and so are all NaNs.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct ValueSet(value_set::ValueSet);

#[pymethods]
impl ValueSet {
    /// Return the set of the values of an array, without its nulls.
    #[new]
    fn new(py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<Self> {
        let values = array(values)?;
        Ok(Self(py.detach(|| value_set::ValueSet::of(&values, InstructionSet::detect()))?))
    }

    /// Return which values of an array are in the set, as a `pyarrow.BooleanArray`. Nulls are not.
    ///
    /// The array has the type of the set, or is a dictionary of values of this type.
    fn contains<'py>(&self, py: Python<'py>, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let values = array(values)?;
        let mask = py.detach(|| self.0.contains(&values))?;
        to_pyarrow(py, Arc::new(mask))
    }
}

fn array(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let arrays = Arrays::of(object)?.map(Iterator::collect::<PyResult<Vec<_>>>).transpose()?.unwrap_or_default();
    let [array] = <[ArrayRef; 1]>::try_from(arrays).map_err(|_| PyTypeError::new_err("an Arrow array is required"))?;
    Ok(array)
}
