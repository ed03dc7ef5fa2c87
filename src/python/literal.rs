//! Converts single Python values to Arrow arrays, for probes of one value.

use super::column::{NO_NULLS, UUIDS_ARE_BYTES, single};
use crate::arrow::{ColumnType, Meaning, PhysicalType};
use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array, StringArray, UInt64Array};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString};
use std::sync::Arc;

/// Converts a value to an array of length one, as a column of this type would contain it.
pub(super) fn literal(value: &Bound<'_, PyAny>, column: Option<ColumnType>) -> PyResult<ArrayRef> {
    if value.is_none() {
        return Err(PyTypeError::new_err(NO_NULLS));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Arc::new(StringArray::from_iter_values([text.to_str()?])));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(Arc::new(BinaryArray::from_iter_values([bytes.as_bytes()])));
    }
    if value.cast::<PyBool>().is_ok() {
        return Err(PyTypeError::new_err("Parquet has no Bloom filters of booleans"));
    }
    // The hash of a number or time depends on its width and unit, so a guess could cause a false "no".
    let column = column.ok_or_else(|| {
        PyTypeError::new_err(
            "the hash of this value depends on the column's type, which this filter does not know; pass type=",
        )
    })?;
    let is_integer = value.cast::<PyInt>().is_ok() || value.hasattr("__index__")?;
    match (column.meaning, is_integer) {
        (Meaning::Real, true) => {
            // Python's float() may round or overflow. Comparing with the original value detects both.
            let float = value.call_method0("__index__")?.call_method0("__float__");
            let exact = match &float {
                Ok(float) => float.eq(value)?,
                Err(_) => false,
            };
            if !exact {
                return Err(PyValueError::new_err(format!("{value} has no exact form as a {}", column.physical)));
            }
            let float = float?;
            Ok(Arc::new(Float64Array::from_iter_values([float.extract::<f64>()?])))
        }
        (Meaning::Decimal { .. }, true) => {
            let decimal = value.py().import("decimal")?.getattr("Decimal")?;
            single(&decimal.call1((value.call_method0("__index__")?,))?, None, Some(column))
        }
        (_, true) => integer(value),
        (Meaning::Integer { .. }, false)
            if value.hasattr("is_integer")? && value.call_method0("is_integer")?.extract()? =>
        {
            integer(&value.call_method0("__int__")?)
        }
        (_, false) => other(value, column),
    }
}

fn integer(value: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    if let Ok(signed) = value.extract::<i64>() {
        return Ok(Arc::new(Int64Array::from_iter_values([signed])));
    }
    let unsigned = value.extract::<u64>();
    let unsigned = unsigned.map_err(|_| PyValueError::new_err(format!("{value} has no exact form in 64 bits")))?;
    Ok(Arc::new(UInt64Array::from_iter_values([unsigned])))
}

/// Converts floats, dates, times, decimals, UUIDs and other values that pyarrow supports. Rejects values that pyarrow
/// would silently truncate.
fn other(value: &Bound<'_, PyAny>, column: ColumnType) -> PyResult<ArrayRef> {
    let py = value.py();
    let is = |module: &str, name: &str| value.is_instance(&py.import(module)?.getattr(name)?);
    if is("datetime", "time")? && !value.getattr(intern!(py, "tzinfo"))?.is_none() {
        return Err(PyTypeError::new_err("Parquet times have no time zone; pass a time without tzinfo"));
    }
    if is("uuid", "UUID")? {
        // A UUID is stored as 16 bytes. A BYTE_ARRAY may contain its text instead.
        if column != (ColumnType { physical: PhysicalType::FixedLenByteArray(16), meaning: Meaning::Bytes }) {
            return Err(PyTypeError::new_err(UUIDS_ARE_BYTES));
        }
        let bytes = value.getattr(intern!(py, "bytes"))?;
        return Ok(Arc::new(BinaryArray::from_iter_values([bytes.extract::<&[u8]>()?])));
    }
    single(value, None, Some(column))
}
