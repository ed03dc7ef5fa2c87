//! Column arguments: any object that supports the Arrow C data interface, and numpy arrays, which pyarrow converts.

use super::error::UnsupportedError;
use super::import::Arrays;
use crate::arrow::types::RequestedPhysical;
use crate::arrow::{ColumnType, PhysicalType};
use crate::bloom::ColumnOptions;
use crate::isa::InstructionSet;
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::DataType;
use pyo3::exceptions::{PyNotImplementedError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3_arrow::{PyArray, PyDataType};

/// A column: an array or a stream of arrays. Streams are consumed one array at a time.
pub(super) struct Column(Arrays);

impl Column {
    /// Returns true if a file may store these values in another form: a BYTE_ARRAY column may contain the text of
    /// UUIDs.
    pub(super) fn may_be_written_otherwise(&self, column: Option<ColumnType>) -> bool {
        self.0.has_uuids && column.is_some_and(|column| column.physical == PhysicalType::ByteArray)
    }

    /// Raises an error if a file may store these values in another form.
    pub(super) fn refuse_other_forms(&self, column: Option<ColumnType>) -> PyResult<()> {
        if self.may_be_written_otherwise(column) {
            return Err(PyTypeError::new_err(UUIDS_ARE_BYTES));
        }
        Ok(())
    }

    /// Returns the only array.
    fn one(mut self) -> PyResult<ArrayRef> {
        self.0.next().unwrap_or_else(|| Err(PyTypeError::new_err("expected an array")))
    }

    /// Raises an error if a filter of unknown column type cannot answer for these values. The hash of a number, time or
    /// decimal depends on its form in the file, so a guess could cause a false "no".
    pub(super) fn refuse_guesses(&self) -> PyResult<()> {
        refuse_guesses(&self.0.data_type)
    }

    /// Rejects times in columns of Python objects, because pyarrow and pandas silently drop their nanoseconds.
    fn with_exact_times(self, is_of_objects: bool) -> PyResult<Self> {
        let is_time =
            matches!(self.0.data_type, DataType::Timestamp(_, _) | DataType::Duration(_) | DataType::Time64(_));
        if is_of_objects && is_time {
            return Err(UnsupportedError::new_err(
                "a column of Python objects may lose the nanoseconds of its times; convert it to datetime64 or timedelta64, or to an Arrow type",
            ));
        }
        Ok(self)
    }

    /// Calls `take` with each array. If there are none, calls it with an empty array, so that the type is still
    /// checked.
    pub(super) fn for_each(self, mut take: impl FnMut(&ArrayRef) -> PyResult<()>) -> PyResult<()> {
        let (data_type, mut is_empty) = (self.0.data_type.clone(), true);
        for array in self.0 {
            is_empty = false;
            take(&array?)?;
        }
        if is_empty { take(&new_empty_array(&data_type)) } else { Ok(()) }
    }
}

/// Returns true if the elements are Python objects, whose Arrow type was inferred.
fn is_of_objects(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(dtype) = object.getattr_opt(intern!(object.py(), "dtype"))? else { return Ok(false) };
    let name = dtype.str()?;
    if name == "Object" {
        return Err(UnsupportedError::new_err(
            "polars does not export Object columns; cast the column to another type first",
        ));
    }
    Ok(name == "object")
}

/// Returns the kind of a numpy time (`M` for timestamps, `m` for durations), its unit, such as `D` for days, and the
/// number of units per tick. Returns `None` for other values.
fn numpy_unit(object: &Bound<'_, PyAny>) -> PyResult<Option<(String, String, i64)>> {
    let py = object.py();
    let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
    // If numpy was not imported, this cannot be a numpy value.
    let modules = py.import("sys")?.getattr("modules")?;
    if !modules.contains("numpy")? {
        return Ok(None);
    }
    let numpy = modules.get_item("numpy")?;
    if !dtype.is_instance(&numpy.getattr("dtype")?)? {
        return Ok(None);
    }
    let kind: String = dtype.getattr("kind")?.extract()?;
    if kind != "M" && kind != "m" {
        return Ok(None);
    }
    let (unit, count) = numpy.call_method1("datetime_data", (dtype,))?.extract()?;
    Ok(Some((kind, unit, count)))
}

/// Rejects numpy times with several units per tick, because pyarrow ignores the multiple and reads wrong times.
fn refuse_multiples(object: &Bound<'_, PyAny>) -> PyResult<()> {
    match numpy_unit(object)? {
        Some((_, unit, count)) if count != 1 => Err(UnsupportedError::new_err(format!(
            "pyarrow misreads numpy times in steps of {count} {unit}; convert them with astype to a unit of one step"
        ))),
        _ => Ok(()),
    }
}

/// Raises an error if the hash of a value of this type depends on the type of an unknown column.
pub(super) fn refuse_guesses(data_type: &DataType) -> PyResult<()> {
    use DataType as D;
    match data_type {
        D::Utf8 | D::LargeUtf8 | D::Utf8View | D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_) => {
            Ok(())
        }
        D::Null => Ok(()),
        D::Dictionary(_, values) => refuse_guesses(values),
        D::RunEndEncoded(_, values) => refuse_guesses(values.data_type()),
        D::List(item) | D::LargeList(item) | D::ListView(item) | D::LargeListView(item) | D::FixedSizeList(item, _) => {
            refuse_guesses(item.data_type())
        }
        D::Map(item, _) => refuse_guesses(item.data_type()),
        // Check all leaves. A rejected leaf can still be passed as a separate column.
        D::Struct(children) => children.iter().try_for_each(|child| refuse_guesses(child.data_type())),
        other => Err(PyTypeError::new_err(format!(
            "the hash of a {other} depends on the column's type, which this filter does not know; \
             read the filter with open_filters, or with from_bytes and type="
        ))),
    }
}

impl<'py> FromPyObject<'_, 'py> for Column {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        let is_of_objects = is_of_objects(&object)?;
        if let Some(arrays) = Arrays::of(&object)? {
            return Self(arrays).with_exact_times(is_of_objects);
        }
        // A numpy scalar also has `__array__`, but it is not a column.
        let is_array = object.hasattr(intern!(py, "__array__"))?
            && object.getattr_opt(intern!(py, "ndim"))?.is_none_or(|ndim| ndim.gt(0).unwrap_or(true));
        if is_array {
            refuse_multiples(&object)?;
            let array = pyarrow(py)?.call_method1(intern!(py, "array"), (object,)).map_err(|error| {
                if !error.is_instance_of::<PyNotImplementedError>(py) {
                    return error;
                }
                let why = error.value(py);
                UnsupportedError::new_err(format!(
                    "pyarrow does not take this numpy array ({why}); convert its dtype first"
                ))
            })?;
            if let Some(arrays) = Arrays::of(&array)? {
                return Self(arrays).with_exact_times(is_of_objects);
            }
        }
        let kind = object.get_type().qualname()?;
        Err(PyTypeError::new_err(format!(
            "a column must be an Arrow array (anything with __arrow_c_array__ or __arrow_c_stream__) or a numpy array, \
             not {kind}; wrap Python values in pyarrow.array(...)"
        )))
    }
}

pub(super) fn pyarrow(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "pyarrow"))
}

/// Converts one Python value to an array of length one, to look for it in a column of type `column`, if that is known.
/// The type of the value is inferred by pyarrow or given as `data_type`.
pub(super) fn single(
    value: &Bound<'_, PyAny>,
    data_type: Option<&Bound<'_, PyAny>>,
    column: Option<ColumnType>,
) -> PyResult<ArrayRef> {
    let py = value.py();
    // pyarrow treats pandas times as datetimes, whose resolution is only microseconds.
    let nanoseconds = |name| value.getattr_opt(name)?.map_or(Ok(false), |part| part.is_truthy());
    if nanoseconds("nanosecond")? || nanoseconds("nanoseconds")? {
        let exact =
            value.call_method0(if value.hasattr("to_datetime64")? { "to_datetime64" } else { "to_timedelta64" })?;
        let zone = value.getattr_opt("tzinfo")?.filter(|zone| !zone.is_none());
        let array = py.import("numpy")?.call_method1("array", (vec![exact],))?;
        let mut array = pyarrow(py)?.call_method1("array", (array,))?;
        if zone.is_some() {
            array = array.call_method1("cast", (pyarrow(py)?.call_method1("timestamp", ("ns", "UTC"))?,))?;
        }
        if let Some(data_type) = data_type {
            array = array.call_method1("cast", (data_type,))?;
        }
        return Ok(array.extract::<PyArray>()?.into_inner().0);
    }
    refuse_multiples(value)?;
    if numpy_unit(value)?.is_some_and(|(kind, unit, _)| kind == "M" && unit == "D") {
        // pyarrow converts arrays of numpy days to dates, but rejects a single one.
        let days = py.import("numpy")?.call_method1("array", (vec![value],))?;
        let mut dates = pyarrow(py)?.call_method1("array", (days,))?;
        if let Some(data_type) = data_type {
            dates = dates.call_method1("cast", (data_type,))?;
        }
        let dates = dates.extract::<PyArray>()?.into_inner().0;
        return if dates.is_null(0) { Err(PyTypeError::new_err(NO_NULLS)) } else { Ok(dates) };
    }
    let array = pyarrow(py)?.call_method1(intern!(py, "array"), (vec![value], data_type)).map_err(|error| {
        if let Some(data_type) = data_type {
            let overflows = error.is_instance_of::<PyOverflowError>(py);
            let problem = || PyValueError::new_err(format!("{value} has no exact form as {data_type}"));
            return if overflows { problem() } else { error };
        }
        let kind = value.get_type().qualname().map_or_else(|_| "value".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("pyarrow has no Arrow type for this {kind}; pass type= or another value"))
    })?;
    // A scalar of Arrow may be a UUID, or an entry of a dictionary of UUIDs.
    let one = array.extract::<Column>()?;
    one.refuse_other_forms(column)?;
    let array = one.one()?;
    let kind = value.get_type().qualname()?;
    if array.data_type().is_nested() {
        return Err(PyTypeError::new_err(format!(
            "a filter holds single values, not a {kind}; use check() for columns"
        )));
    }
    if array.is_null(0) {
        return Err(PyTypeError::new_err(NO_NULLS));
    }
    Ok(array)
}

/// The error for a UUID and a column of bytes, which may contain the text of UUIDs.
pub(super) const UUIDS_ARE_BYTES: &str = "a UUID can be compared with a FIXED_LEN_BYTE_ARRAY(16) only";

/// The error for a probe of null.
pub(super) const NO_NULLS: &str = "a filter holds no nulls; it cannot answer for one";

/// Converts an Arrow array to a pyarrow array.
pub(super) fn to_pyarrow(py: Python<'_>, array: ArrayRef) -> PyResult<Bound<'_, PyAny>> {
    let array = PyArray::from_array_ref(array);
    let exported = array.to_pyarrow(py)?.unbind();
    Ok(exported.into_bound(py))
}

/// Returns the column type given by `type=` and `physical_type=`.
pub(super) fn column_type(
    data_type: Option<&Bound<'_, PyAny>>,
    physical_type: Option<&str>,
) -> PyResult<Option<ColumnType>> {
    let physical = physical_type.map(str::parse::<RequestedPhysical>).transpose()?;
    match (data_type, physical) {
        (Some(data_type), physical) => {
            let kind = || data_type.get_type().qualname().map_or_else(|_| "object".to_owned(), |name| name.to_string());
            let arrow = data_type.extract::<PyDataType>().map_err(|_| {
                PyTypeError::new_err(format!(
                    "type must be an Arrow data type such as pyarrow.int64(), not a {}",
                    kind()
                ))
            })?;
            let arrow = arrow.into_inner();
            Ok(Some(match physical {
                Some(physical) => ColumnType::with_physical(&arrow, physical)?,
                None => ColumnType::of(&arrow)?,
            }))
        }
        (None, None) => Ok(None),
        (None, Some(_)) => Err(PyValueError::new_err("physical_type also needs type=, the Arrow type of the values")),
    }
}

/// The path of a leaf: dotted text, or a sequence of names, which may contain dots.
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

/// Checks the keyword arguments that batch functions share.
pub(super) fn options<'a>(
    leaf: Option<&'a [String]>,
    threads: i64,
    instruction_set: Option<&str>,
) -> PyResult<ColumnOptions<'a>> {
    let threads = usize::try_from(threads).ok().filter(|threads| *threads > 0);
    let threads = threads.ok_or_else(|| PyValueError::new_err("threads must be at least 1"))?;
    let isa = match instruction_set {
        None => InstructionSet::detect(),
        Some(name) => InstructionSet::by_name(name).ok_or_else(|| {
            let names: Vec<_> = InstructionSet::all().into_iter().map(InstructionSet::name).collect();
            PyValueError::new_err(format!("this machine has no instruction set {name:?}; it has {}", names.join(", ")))
        })?,
    };
    Ok(ColumnOptions { leaf, threads, isa })
}

/// Converts an argument to an integer from 0 to 2^64 - 1. Unlike Python's own error, the error names the argument.
pub(super) fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            return PyValueError::new_err(format!("{name} must be an integer from 0 to 2^64 - 1, not {value}"));
        }
        if error.is_instance_of::<PyTypeError>(value.py()) {
            return PyTypeError::new_err(format!("{name} must be an integer, not {value:?}"));
        }
        error
    })
}
