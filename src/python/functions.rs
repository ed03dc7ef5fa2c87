//! Hashes of a column, and sizes.

use super::column::{Column, LeafPath, count, options, to_pyarrow};
use crate::arrow::types::Physical;
use crate::arrow::{ColumnType, Leaf};
use crate::bloom::Sbbf;
use crate::bloom::sizing::{self, Model, Sizes};
use crate::hash::HashedColumn;
use crate::isa::InstructionSet;
use arrow_array::UInt64Array;
use arrow_buffer::NullBufferBuilder;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

/// XXH64 (seed 0) of each value, as Parquet's Bloom filters hash it.
///
/// The hash is one of the value's plain encoding in its Parquet physical type: the one that pyarrow's writer
/// chooses for the Arrow type, or `physical_type` (INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY,
/// FIXED_LEN_BYTE_ARRAY(n)). Nulls stay null; nested columns are flattened to `leaf`.
///
/// >>> import pyarrow as pa, parsieve as ps
/// >>> ps.hash_column(pa.array(["", None])).to_pylist()
/// [17241709254077376921, None]
#[pyfunction]
#[pyo3(signature = (column, physical_type=None, *, leaf=None, instruction_set=None))]
pub(super) fn hash_column<'py>(
    py: Python<'py>,
    column: Column,
    physical_type: Option<&str>,
    leaf: Option<LeafPath>,
    instruction_set: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let physical = physical_type.map(str::parse::<Physical>).transpose()?;
    let leaf = leaf.map(LeafPath::names);
    let options = options(leaf.as_deref(), 1, instruction_set)?;
    let hashes = py.detach(move || -> PyResult<UInt64Array> {
        let (mut hashes, mut nulls) = (Vec::new(), NullBufferBuilder::new(0));
        column.for_each(|array| {
            let leaf = Leaf::find(array, options.leaf)?;
            let arrow = leaf.array.data_type();
            let to = match physical {
                Some(physical) => ColumnType::with_physical(arrow, physical)?,
                None => ColumnType::of(arrow)?,
            };
            let slots = HashedColumn::of_slots(&leaf, to, options.isa)?;
            let start = hashes.len();
            hashes.resize(start + slots.len(), 0);
            slots.hash_slots(options.isa, 0, &mut hashes[start..])?;
            match slots.nulls() {
                Some(more) => nulls.append_buffer(more),
                None => nulls.append_n_non_nulls(slots.len()),
            }
            Ok(())
        })?;
        Ok(UInt64Array::new(hashes.into(), nulls.finish()))
    })?;
    to_pyarrow(py, Arc::new(hashes))
}

/// The bytes of a filter that keeps the rate `fpp` for `ndv` distinct values.
///
/// `model="exact"` never breaks the promise; `"simple"` is the formula of other writers, which does in some cases.
/// Powers of two, unless `tight=True` (any multiple of 32 bytes; some older Arrow readers refuse those).
///
/// >>> import parsieve as ps
/// >>> ps.optimal_num_bytes(1_000_000, 0.01)
/// 2097152
/// >>> ps.optimal_num_bytes(1_000_000, 0.01, tight=True)
/// 1316160
#[pyfunction]
#[pyo3(signature = (ndv, fpp=0.01, *, tight=false, model="exact"))]
pub(super) fn optimal_num_bytes(
    ndv: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = rate)] fpp: f64,
    tight: bool,
    model: &str,
) -> PyResult<u64> {
    let model = match model {
        "exact" => Model::Exact,
        "simple" => Model::Simple,
        _ => return Err(PyValueError::new_err(format!("model must be \"exact\" or \"simple\", not {model:?}"))),
    };
    Ok(sizing::optimal_blocks(count("ndv", ndv)?, fpp, sizes(tight), model)? * 32)
}

/// A false positive rate as an argument; the error for `"1%"` says what to pass instead.
pub(super) fn rate(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    value.extract().map_err(|_| {
        let shown = value.repr().map_or_else(|_| "this value".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!("fpp must be a number between 0 and 1, such as 0.01 for 1%, not {shown}"))
    })
}

pub(super) fn sizes(tight: bool) -> Sizes {
    if tight { Sizes::Any } else { Sizes::PowersOfTwo }
}

/// The blocks in a filter of so many bytes, as an argument.
pub(super) fn num_blocks(num_bytes: &Bound<'_, PyAny>) -> PyResult<u64> {
    let num_bytes = count("num_bytes", num_bytes)?;
    Sbbf::blocks_of(num_bytes).map_err(|_| {
        let most = Sbbf::MAX_BLOCKS * 32;
        PyValueError::new_err(format!("num_bytes must be a positive multiple of 32, at most {most}, not {num_bytes}"))
    })
}

/// The rate of false positives of a filter of `num_bytes` that holds `ndv` distinct values, by the exact model.
///
/// >>> import parsieve as ps
/// >>> round(ps.false_positive_rate(32 * 1024, 26_214), 6)
/// 0.012648
#[pyfunction]
pub(super) fn false_positive_rate(num_bytes: &Bound<'_, PyAny>, ndv: &Bound<'_, PyAny>) -> PyResult<f64> {
    Ok(sizing::false_positive_rate(count("ndv", ndv)?, num_blocks(num_bytes)?))
}

/// The instruction sets of this machine that batches can run on, slowest first.
#[pyfunction]
pub(super) fn instruction_sets() -> Vec<&'static str> {
    InstructionSet::all().into_iter().map(InstructionSet::name).collect()
}
