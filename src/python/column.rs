//! Column arguments: whatever speaks the Arrow C data interface, and numpy arrays by way of pyarrow.

use super::error::UnsupportedError;
use super::import::Arrays;
use crate::arrow::types::Physical;
use crate::arrow::{ColumnType, PhysicalType};
use crate::bloom::Options;
use crate::isa::InstructionSet;
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_schema::DataType;
use pyo3::exceptions::{PyNotImplementedError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3_arrow::{PyArray, PyDataType};

/// A column: one array, or a stream of them. They are pulled one by one, so a stream is never held whole.
pub(super) struct Column(Arrays);

impl Column {
    /// Whether a column like `column` would hold these values in another form than ours: the text of a UUID has other bytes.
    pub(super) fn may_be_written_otherwise(&self, column: Option<ColumnType>) -> bool {
        self.0.has_uuids && column.is_some_and(|column| column.physical == PhysicalType::ByteArray)
    }

    /// Raises what that means for a filter.
    pub(super) fn refuse_other_forms(&self, column: Option<ColumnType>) -> PyResult<()> {
        if self.may_be_written_otherwise(column) {
            return Err(PyTypeError::new_err("a UUID can be compared with a FIXED_LEN_BYTE_ARRAY(16) only"));
        }
        Ok(())
    }

    /// Refuses what a filter cannot answer whose column nobody knows: a number, a time or a decimal has another hash for each
    /// form in which a file may hold it, and a guess could be a wrong "no".
    pub(super) fn refuse_guesses(&self) -> PyResult<()> {
        refuse_guesses(&self.0.data_type)
    }

    /// pyarrow and pandas make microseconds of Python's times, and drop the nanoseconds of pandas' own without a word.
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

    /// Gives each array to `take`; one without rows where there is none, so that its type is judged all the same.
    pub(super) fn for_each(self, mut take: impl FnMut(&ArrayRef) -> PyResult<()>) -> PyResult<()> {
        let (data_type, mut is_empty) = (self.0.data_type.clone(), true);
        for array in self.0 {
            is_empty = false;
            take(&array?)?;
        }
        if is_empty { take(&new_empty_array(&data_type)) } else { Ok(()) }
    }
}

/// Whether the elements are Python objects, whose Arrow type somebody had to guess.
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

/// Of a numpy time: whether it is a `M` (moment) or `m` (duration), its unit, such as `D` for days, and how many of them one
/// step counts. `None` for all other values.
fn numpy_unit(object: &Bound<'_, PyAny>) -> PyResult<Option<(String, String, i64)>> {
    let py = object.py();
    let Some(dtype) = object.getattr_opt(intern!(py, "dtype"))? else { return Ok(None) };
    // A value of numpy's own is there only after numpy was imported.
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

/// Refuses numpy times that count several units in a tick: pyarrow ignores how many, and takes them for other times.
fn refuse_multiples(object: &Bound<'_, PyAny>) -> PyResult<()> {
    match numpy_unit(object)? {
        Some((_, unit, count)) if count != 1 => Err(UnsupportedError::new_err(format!(
            "pyarrow misreads numpy times in steps of {count} {unit}; convert them with astype to a unit of one step"
        ))),
        _ => Ok(()),
    }
}

/// The same for the type of one value.
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
        // Whichever leaf is meant: what is refused here can be asked for as a column of its own.
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
        // A numpy scalar has `__array__` too, but no rows.
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

/// One Python value as an array of one, by pyarrow's inference or as `data_type`.
pub(super) fn single(value: &Bound<'_, PyAny>, data_type: Option<&Bound<'_, PyAny>>) -> PyResult<ArrayRef> {
    let py = value.py();
    // pyarrow takes the times of pandas for those of datetime, which end at microseconds.
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
        // pyarrow takes arrays of days for dates, and refuses one of them.
        let days = py.import("numpy")?.call_method1("array", (vec![value],))?;
        let mut dates = pyarrow(py)?.call_method1("array", (days,))?;
        if let Some(data_type) = data_type {
            dates = dates.call_method1("cast", (data_type,))?;
        }
        let dates = dates.extract::<PyArray>()?.into_inner().0;
        return if dates.is_null(0) { Err(PyTypeError::new_err(NO_NULLS)) } else { Ok(dates) };
    }
    let array = pyarrow(py)?.call_method1(intern!(py, "array"), (vec![value], data_type)).map_err(|error| {
        if data_type.is_some() {
            return error;
        }
        let kind = value.get_type().qualname().map_or_else(|_| "value".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("pyarrow has no Arrow type for this {kind}; pass type= or another value"))
    })?;
    let array = array.extract::<PyArray>()?.into_inner().0;
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

/// The answer to a probe for nothing.
pub(super) const NO_NULLS: &str = "a filter holds no nulls; it cannot answer for one";

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
    threads: i64,
    instruction_set: Option<&str>,
) -> PyResult<Options<'a>> {
    let threads = usize::try_from(threads).ok().filter(|threads| *threads > 0);
    let threads = threads.ok_or_else(|| PyValueError::new_err("threads must be at least 1"))?;
    let isa = match instruction_set {
        None => InstructionSet::detect(),
        Some(name) => InstructionSet::by_name(name).ok_or_else(|| {
            let names: Vec<_> = InstructionSet::all().into_iter().map(InstructionSet::name).collect();
            PyValueError::new_err(format!("this machine has no instruction set {name:?}; it has {}", names.join(", ")))
        })?,
    };
    Ok(Options { leaf, threads, isa })
}

/// A whole number from 0 to 2^64 - 1; Python's own error would not say which argument is wrong.
pub(super) fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract().map_err(|error: PyErr| {
        if error.is_instance_of::<PyOverflowError>(value.py()) {
            return PyValueError::new_err(format!("{name} must be an integer from 0 to 2^64 - 1, not {value}"));
        }
        error
    })
}
