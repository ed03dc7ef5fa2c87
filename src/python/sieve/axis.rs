//! `SieveAxis`: the mapping of a column's values to keys. `SieveOptions`: the options of an index.

use crate::sieve::{Axis, Bytes, Coarsen, Format, Options, Width};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3_arrow::PyDataType;

/// The mapping of an Arrow type's values to ordered keys. Raises `UnsupportedError` for types without one.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveAxis(pub(super) Axis);

#[pymethods]
impl SieveAxis {
    #[new]
    fn new(r#type: PyDataType) -> PyResult<Self> {
        Ok(Self(Axis::of(&r#type.into_inner())?))
    }

    /// The kind, unit, scale and time zone. Columns are comparable if these are equal.
    #[getter]
    fn meaning(&self) -> &str {
        &self.0.meaning
    }

    /// Whether different values always have different keys.
    #[getter]
    fn exact(&self) -> bool {
        self.0.axis.exact()
    }

    /// Whether a row can have several values.
    #[getter]
    fn repeated(&self) -> bool {
        self.0.repeated
    }

    /// Whether keys are byte strings.
    #[getter]
    fn has_prefixes(&self) -> bool {
        self.0.width == Width::Text
    }

    fn __repr__(&self) -> String {
        format!("<SieveAxis: {}>", self.0.meaning)
    }
}

/// The limits of a segment, and how much exact answers are coarsened. Stored with the index.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveOptions(pub(super) Options);

#[pymethods]
impl SieveOptions {
    #[new]
    #[pyo3(signature = (*, max_records=None, max_key_bytes=None, max_weight=None, error=None, slope=None, plain=None,
        format=1, keep_keys=false, fingerprints=None, fpp=0.02))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn new(
        max_records: Option<usize>,
        max_key_bytes: Option<usize>,
        max_weight: Option<u32>,
        error: Option<f64>,
        slope: Option<f64>,
        plain: Option<u32>,
        format: u8,
        keep_keys: bool,
        fingerprints: Option<bool>,
        fpp: f64,
    ) -> PyResult<Self> {
        let defaults = Options::default();
        let coarsen = match (error, slope, plain) {
            (None, None, None) => Coarsen::Exact,
            (Some(error), None, None) => Coarsen::Error { millionths: scaled("error", error, 1e6)? },
            (None, Some(slope), None) => Coarsen::Slope { thousandths: scaled("slope", slope, 1e3)? },
            (None, None, Some(keys)) => Coarsen::Plain { keys },
            _ => return Err(PyTypeError::new_err("give one of error, slope and plain")),
        };
        Ok(Self(Options {
            max_records: max_records.unwrap_or(defaults.max_records),
            max_key_bytes: max_key_bytes.unwrap_or(defaults.max_key_bytes),
            max_weight: max_weight.unwrap_or(defaults.max_weight),
            coarsen,
            format: match format {
                1 => Format::V1,
                2 => Format::V2,
                _ => return Err(PyValueError::new_err(format!("format must be 1 or 2, not {format}"))),
            },
            keep_keys,
            fingerprints,
            fpp: scaled("fpp", fpp, 1e6)?,
        }))
    }

    /// Return an upper bound for the memory in bytes of a build with these options, without its runs.
    fn memory_bound(&self, axis: &SieveAxis) -> usize {
        self.0.memory_bound(match axis.0.width {
            Width::Word => size_of::<u64>(),
            Width::Wide => size_of::<u128>(),
            Width::Text => size_of::<Bytes>(),
        })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
fn scaled(name: &str, value: f64, by: f64) -> PyResult<u32> {
    let scaled = (value * by).round();
    if !(0.0..=f64::from(u32::MAX)).contains(&scaled) {
        return Err(PyValueError::new_err(format!("{name} is out of range: {value}")));
    }
    Ok(scaled as u32)
}
