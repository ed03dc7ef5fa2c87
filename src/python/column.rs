//! Column arguments: whatever speaks the Arrow C data interface, and numpy arrays by way of pyarrow.

use crate::arrow::ColumnType;
use crate::arrow::types::Physical;
use crate::bloom::Options;
use crate::isa::InstructionSet;
use arrow_array::ArrayRef;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3_arrow::ffi::ArrayReader;
use pyo3_arrow::input::AnyArray;
use pyo3_arrow::{PyArray, PyDataType};

/// A column: one array, or a stream of them.
pub(super) struct Column(AnyArray);

impl Column {
    /// Its arrays in order. They are pulled one by one, so a stream is never held whole.
    pub(super) fn arrays(self) -> PyResult<Box<dyn ArrayReader + Send>> {
        self.0.into_reader()
    }
}

impl<'py> FromPyObject<'_, 'py> for Column {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if object.hasattr(intern!(py, "__arrow_c_array__"))? || object.hasattr(intern!(py, "__arrow_c_stream__"))? {
            return Ok(Self(object.extract()?));
        }
        if object.hasattr(intern!(py, "__array__"))? {
            let array = pyarrow(py)?.call_method1(intern!(py, "array"), (object,))?;
            return Ok(Self(array.extract()?));
        }
        let kind = object.get_type().qualname()?;
        Err(PyTypeError::new_err(format!(
            "a column is an Arrow array (anything with __arrow_c_array__ or __arrow_c_stream__) or a numpy array, not {kind}; \
             wrap Python values in pyarrow.array(...)"
        )))
    }
}

pub(super) fn pyarrow(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "pyarrow"))
}

/// One Python value as an array of one, by pyarrow's inference or as `data_type`.
pub(super) fn single(value: &Bound<'_, PyAny>, data_type: Option<&Bound<'_, PyAny>>) -> PyResult<ArrayRef> {
    let py = value.py();
    let array = pyarrow(py)?.call_method1(intern!(py, "array"), (vec![value], data_type)).map_err(|error| {
        if data_type.is_some() {
            return error;
        }
        let kind = value.get_type().qualname().map_or_else(|_| "value".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("a {kind} has no Arrow type of its own; give type= or another value"))
    })?;
    let array = array.extract::<PyArray>()?.into_inner().0;
    if array.data_type().is_nested() {
        let kind = value.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!("a filter holds single values, not a {kind}; check() takes columns")));
    }
    Ok(array)
}

/// An Arrow result as a pyarrow array.
pub(super) fn to_pyarrow(py: Python<'_>, array: ArrayRef) -> PyResult<Bound<'_, PyAny>> {
    let array = PyArray::from_array_ref(array);
    let exported = array.to_pyarrow(py)?.unbind();
    Ok(exported.into_bound(py))
}

/// The column type that `type=` and `physical_type=` name together.
pub(super) fn column_type(
    data_type: Option<&Bound<'_, PyAny>>,
    physical_type: Option<&str>,
) -> PyResult<Option<ColumnType>> {
    let physical = physical_type.map(str::parse::<Physical>).transpose()?;
    match (data_type, physical) {
        (Some(data_type), physical) => {
            let arrow = data_type.extract::<PyDataType>()?.into_inner();
            Ok(Some(match physical {
                Some(physical) => ColumnType::with_physical(&arrow, physical)?,
                None => ColumnType::of(&arrow)?,
            }))
        }
        (None, None) => Ok(None),
        (None, Some(_)) => Err(PyValueError::new_err("physical_type needs type=, the Arrow type of the values")),
    }
}

/// A leaf's path: dotted text, or a sequence of names where names hold dots.
#[derive(FromPyObject)]
pub(super) enum LeafPath {
    Dotted(String),
    Names(Vec<String>),
}

impl LeafPath {
    pub(super) fn names(self) -> Vec<String> {
        match self {
            Self::Dotted(text) => text.split('.').map(str::to_owned).collect(),
            Self::Names(names) => names,
        }
    }
}

/// The keyword arguments of every batch call, checked.
pub(super) fn options<'a>(
    leaf: Option<&'a [String]>,
    threads: usize,
    instruction_set: Option<&str>,
) -> PyResult<Options<'a>> {
    if threads == 0 {
        return Err(PyValueError::new_err("threads must be at least 1"));
    }
    let isa = match instruction_set {
        None => InstructionSet::detect(),
        Some(name) => InstructionSet::by_name(name).ok_or_else(|| {
            let names: Vec<_> = InstructionSet::all().into_iter().map(InstructionSet::name).collect();
            PyValueError::new_err(format!("this machine has no instruction set {name:?}; it has {}", names.join(", ")))
        })?,
    };
    Ok(Options { leaf, threads, isa })
}
