//! Imports Arrow arrays from the capsules of the C data interface, with the FFI of the arrow crates.
//!
//! pyo3-arrow offers the same, but builds arrays before the offsets of nested slices can be normalized; see
//! `arrow/normalize_offsets.rs`.

use super::error::UnsupportedError;
use crate::arrow::normalize_offsets::normalize_offsets;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::HashMap;
use std::ffi::CStr;
use std::os::raw::c_int;

/// The arrays of a column in order, and their type, which is known even if there are none.
pub(super) struct Arrays {
    pub(super) data_type: DataType,
    /// True if the column contains UUIDs: 16 bytes, which some writers store as text.
    pub(super) has_uuids: bool,
    source: Source,
}

enum Source {
    One(Option<ArrayData>),
    Stream(FFI_ArrowArrayStream),
}

impl Arrays {
    /// Imports a column by `__arrow_c_array__` or `__arrow_c_stream__`. Returns `None` if the object has neither
    /// method.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let py = object.py();
        if object.hasattr(intern!(py, "__arrow_c_array__"))? {
            let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) =
                object.call_method0(intern!(py, "__arrow_c_array__"))?.extract()?;
            return Self::of_array(&schema, &array).map(Some);
        }
        if object.hasattr(intern!(py, "__arrow_c_stream__"))? {
            let stream = object.call_method0(intern!(py, "__arrow_c_stream__"))?;
            return Self::of_stream(&stream).map(Some);
        }
        Ok(None)
    }

    fn of_array(schema: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let schema = pointer::<FFI_ArrowSchema>(schema, c"arrow_schema")?;
        let array = pointer::<FFI_ArrowArray>(array, c"arrow_array")?;
        // SAFETY: capsules with these names contain these structs, which are valid while the capsules live. The array
        // is moved out and leaves a released struct behind, as the interface requires.
        let (array, schema) = unsafe { (FFI_ArrowArray::from_raw(array), &*schema) };
        if array.is_released() {
            return Err(PyValueError::new_err("the Arrow array was already consumed"));
        }
        let field = Field::try_from(schema).map_err(to_type_error)?;
        let data = take_over(array, field.data_type())?;
        let has_uuids = has_uuids(schema);
        Ok(Self { data_type: field.data_type().clone(), has_uuids, source: Source::One(Some(data)) })
    }

    fn of_stream(stream: &Bound<'_, PyAny>) -> PyResult<Self> {
        let stream = pointer::<FFI_ArrowArrayStream>(stream, c"arrow_array_stream")?;
        // SAFETY: as above.
        let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
        let mut schema = FFI_ArrowSchema::empty();
        let get_schema = stream.get_schema.filter(|_| stream.release.is_some());
        let get_schema = get_schema.ok_or_else(|| PyValueError::new_err("the Arrow stream was already consumed"))?;
        // SAFETY: the stream is not released, so its functions may be called with it.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        check(&mut stream, code)?;
        let field = Field::try_from(&schema).map_err(to_type_error)?;
        let has_uuids = has_uuids(&schema);
        Ok(Self { data_type: field.data_type().clone(), has_uuids, source: Source::Stream(stream) })
    }

    fn pull(&mut self) -> PyResult<Option<ArrayData>> {
        let stream = match &mut self.source {
            Source::One(data) => return Ok(data.take()),
            Source::Stream(stream) => stream,
        };
        let mut array = FFI_ArrowArray::empty();
        let get_next = stream.get_next.ok_or_else(|| PyValueError::new_err("the Arrow stream was already consumed"))?;
        // SAFETY: as in `of_stream`.
        let code = unsafe { get_next(std::ptr::from_mut(stream), &raw mut array) };
        check(stream, code)?;
        if array.is_released() {
            return Ok(None);
        }
        take_over(array, &self.data_type).map(Some)
    }
}

impl Iterator for Arrays {
    type Item = PyResult<ArrayRef>;

    fn next(&mut self) -> Option<Self::Item> {
        let data = self.pull().transpose()?;
        Some(data.map(|data| make_array(normalize_offsets(&data))))
    }
}

/// Returns true if a type is or contains UUIDs. A `Field` does not tell, because it has no metadata for the values of a
/// dictionary.
fn has_uuids(schema: &FFI_ArrowSchema) -> bool {
    let is_uuid = |metadata: HashMap<String, String>| {
        metadata.get(EXTENSION_TYPE_NAME_KEY).is_some_and(|name| name == "arrow.uuid")
    };
    schema.metadata().is_ok_and(is_uuid)
        || schema.dictionary().is_some_and(has_uuids)
        || schema.children().any(has_uuids)
}

/// Takes over an imported array. The producer guarantees that it has this type.
fn take_over(array: FFI_ArrowArray, data_type: &DataType) -> PyResult<ArrayData> {
    if !lengths_are_aligned(&array, data_type) {
        return Err(UnsupportedError::new_err("the Arrow data has offsets at an unaligned address; copy it first"));
    }
    if *data_type == DataType::Null {
        // Null arrays have no data, but polars exports a buffer, which arrow-rs rejects.
        return Ok(ArrayData::new_null(data_type, array.len()));
    }
    // SAFETY: the producer guarantees the type, and the buffers that arrow-rs reads during the import are aligned.
    unsafe { from_ffi_and_data_type(array, data_type.clone()) }.map_err(to_type_error)
}

/// Returns true if the values that determine the sizes of other buffers are aligned. arrow-rs copies all other
/// unaligned buffers, but reads these values first.
fn lengths_are_aligned(array: &FFI_ArrowArray, data_type: &DataType) -> bool {
    let aligned =
        |buffer: usize, size: usize| buffer >= array.num_buffers() || array.buffer(buffer).addr().is_multiple_of(size);
    let child = |index: usize, data_type: &DataType| {
        index >= array.num_children() || lengths_are_aligned(array.child(index), data_type)
    };
    match data_type {
        DataType::Utf8 | DataType::Binary => aligned(1, 4),
        DataType::LargeUtf8 | DataType::LargeBinary => aligned(1, 8),
        DataType::Utf8View | DataType::BinaryView => aligned(array.num_buffers().saturating_sub(1), 8),
        DataType::Dictionary(_, values) => {
            array.dictionary().is_none_or(|entries| lengths_are_aligned(entries, values))
        }
        DataType::RunEndEncoded(_, values) => child(1, values.data_type()),
        DataType::Struct(fields) => fields.iter().enumerate().all(|(index, field)| child(index, field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => child(0, item.data_type()),
        _ => true,
    }
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<*mut T> {
    Ok(capsule.cast::<PyCapsule>()?.pointer_checked(Some(name))?.cast::<T>().as_ptr())
}

/// Raises the producer's error message if `code` is not 0.
fn check(stream: &mut FFI_ArrowArrayStream, code: c_int) -> PyResult<()> {
    if code == 0 {
        return Ok(());
    }
    let text = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: the stream is not released, and the text is valid until the next call.
        let text = unsafe { get_last_error(std::ptr::from_mut(stream)) };
        // SAFETY: a non-null text ends with a zero byte.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    let text = text.unwrap_or_else(|| format!("error code {code}"));
    Err(PyValueError::new_err(format!("the Arrow stream failed: {text}")))
}

fn to_type_error(error: arrow_schema::ArrowError) -> PyErr {
    PyTypeError::new_err(format!("the Arrow data cannot be read: {error}"))
}
