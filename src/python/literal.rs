//! Python values as the Arrow values they plainly are, for one value of a probe.

use super::column::{pyarrow, single};
use crate::arrow::{ColumnType, Meaning, PhysicalType};
use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array, StringArray, UInt64Array};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};
use std::sync::Arc;

/// One value as an array of one; a number is taken as the column has it, exactly.
pub(super) fn literal(value: &Bound<'_, PyAny>, column: Option<ColumnType>) -> PyResult<ArrayRef> {
    let is_integer = value.cast::<PyInt>().is_ok() || (value.hasattr("__index__")? && !value.is_none());
    Ok(if value.cast::<PyBool>().is_ok() {
        return Err(PyTypeError::new_err("Parquet has no Bloom filters of booleans"));
    } else if value.is_none() {
        return Err(PyTypeError::new_err("a filter holds no nulls; it cannot answer for None"));
    } else if let Ok(text) = value.cast::<PyString>() {
        Arc::new(StringArray::from_iter_values([text.to_str()?]))
    } else if let Ok(bytes) = value.cast::<PyBytes>() {
        Arc::new(BinaryArray::from_iter_values([bytes.as_bytes()]))
    } else if is_integer || value.cast::<PyFloat>().is_ok() {
        number(value, is_integer, column)?
    } else {
        other(value, column)?
    })
}

fn number(value: &Bound<'_, PyAny>, is_integer: bool, column: Option<ColumnType>) -> PyResult<ArrayRef> {
    let column = column.ok_or_else(|| {
        PyTypeError::new_err("a number has many hashes and this filter does not know its column's type; give type=")
    })?;
    Ok(match (column.meaning, is_integer) {
        (Meaning::Real, true) => {
            // Python's float() rounds; the comparison is exact.
            let float = value.call_method0("__index__")?.call_method0("__float__")?;
            if !float.eq(value)? {
                return Err(PyValueError::new_err(format!("{value} has no exact form as a {}", column.physical)));
            }
            Arc::new(Float64Array::from_iter_values([float.extract::<f64>()?]))
        }
        (Meaning::Integer { .. }, false) if value.call_method0("is_integer")?.extract()? => {
            integer(&value.call_method0("__int__")?)?
        }
        (_, true) => integer(value)?,
        (_, false) => Arc::new(Float64Array::from_iter_values([value.extract::<f64>()?])),
    })
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if let Ok(signed) = value.extract::<i64>() {
        return Ok(Arc::new(Int64Array::from_iter_values([signed])));
    }
    let unsigned = value.extract::<u64>();
    let unsigned = unsigned.map_err(|_| PyValueError::new_err(format!("{value} has no exact form in 64 bits")))?;
    Ok(Arc::new(UInt64Array::from_iter_values([unsigned])))
}

/// Dates, times, decimals, UUIDs and whatever else pyarrow knows, less what it would quietly drop.
fn other(value: &Bound<'_, PyAny>, column: Option<ColumnType>) -> PyResult<ArrayRef> {
    let py = value.py();
    let is = |module: &str, name: &str| value.is_instance(&py.import(module)?.getattr(name)?);
    if is("datetime", "time")? && !value.getattr(intern!(py, "tzinfo"))?.is_none() {
        return Err(PyTypeError::new_err("Parquet's times have no zone of their own; give a time without one"));
    }
    // A UUID is equal to 16 bytes, and to no text, which a BYTE_ARRAY may well hold of it.
    let fixed = PhysicalType::FixedLenByteArray(16);
    if is("uuid", "UUID")? {
        return match column.is_none_or(|column| column.physical == fixed && column.meaning == Meaning::Bytes) {
            true => single(&value.getattr("bytes")?, Some(&pyarrow(py)?.call_method1("binary", (16,))?)),
            false => Err(PyTypeError::new_err("a UUID can be compared with a FIXED_LEN_BYTE_ARRAY(16) only")),
        };
    }
    // pyarrow takes pandas' timestamps and durations for datetime's, which have no nanoseconds.
    let has = |name| value.getattr_opt(name)?.map_or(Ok(false), |part: Bound<'_, PyAny>| part.is_truthy());
    if is("datetime", "datetime")? && has("nanosecond")? {
        let zone = pyarrow(py)?.call_method1("array", (vec![value],))?.getattr("type")?.getattr("tz")?;
        return single(value, Some(&pyarrow(py)?.call_method1("timestamp", ("ns", zone))?));
    }
    if is("datetime", "timedelta")? && has("nanoseconds")? {
        return single(value, Some(&pyarrow(py)?.call_method1("duration", ("ns",))?));
    }
    single(value, None)
}
