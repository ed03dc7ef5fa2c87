//! Functions that hash columns and compute filter sizes.

use super::column::{Column, LeafPath, count, options, to_pyarrow};
use crate::arrow::types::RequestedPhysical;
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

/// Return the XXH64 hash (seed 0) of each value, as used by Parquet's Bloom filters.
///
/// The hash covers the value's plain encoding in its Parquet physical type. This is the type that pyarrow's writer uses
/// for the Arrow type, or `physical_type` (INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY(n)).
/// Nulls stay null. Nested columns are flattened to `leaf`.
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
    let physical = physical_type.map(str::parse::<RequestedPhysical>).transpose()?;
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

/// Return the size in bytes of a filter for `ndv` distinct values with a false positive rate of at most `fpp`.
///
/// `model="exact"` never exceeds the rate. `"simple"` is the formula of other writers, which exceeds it in some cases.
/// The size is a power of two unless `tight=True`, which allows any multiple of 32 bytes. Some older Arrow readers
/// reject sizes that are not powers of two.
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

/// Converts an argument to a false positive rate. The error for values such as `"1%"` explains what to pass instead.
pub(super) fn rate(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    value.extract().map_err(|_| {
        let shown = value.repr().map_or_else(|_| "this value".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!("fpp must be a number between 0 and 1, such as 0.01 for 1%, not {shown}"))
    })
}

pub(super) fn sizes(tight: bool) -> Sizes {
    if tight { Sizes::Any } else { Sizes::PowersOfTwo }
}

/// Converts an argument `num_bytes` to a number of blocks.
pub(super) fn num_blocks(num_bytes: &Bound<'_, PyAny>) -> PyResult<u64> {
    let num_bytes = count("num_bytes", num_bytes)?;
    Sbbf::blocks_of(num_bytes).map_err(|_| {
        let most = Sbbf::MAX_BLOCKS * 32;
        PyValueError::new_err(format!("num_bytes must be a positive multiple of 32, at most {most}, not {num_bytes}"))
    })
}

/// Return the false positive rate of a filter of `num_bytes` that contains `ndv` distinct values, by the exact model.
///
/// >>> import parsieve as ps
/// >>> round(ps.false_positive_rate(32 * 1024, 26_214), 6)
/// 0.012648
#[pyfunction]
pub(super) fn false_positive_rate(num_bytes: &Bound<'_, PyAny>, ndv: &Bound<'_, PyAny>) -> PyResult<f64> {
    Ok(sizing::false_positive_rate(count("ndv", ndv)?, num_blocks(num_bytes)?))
}

/// Return the instruction sets that this machine supports for batches, slowest first.
#[pyfunction]
pub(super) fn instruction_sets() -> Vec<&'static str> {
    InstructionSet::all().into_iter().map(InstructionSet::name).collect()
}
