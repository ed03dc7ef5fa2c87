//! The hashes of values to look for in filters that have not been read yet.

use super::filter::{flat, zeros};
use crate::arrow::{ColumnType, Leaf, Meaning};
use crate::error::Result;
use crate::hash::{Form, HashedColumn};
use crate::isa::InstructionSet;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

/// A query for filters of one column type: may *any* of the given values be present?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    hashes: Option<Vec<u64>>,
}

impl Probe {
    /// Looks for no value, so no filter contains it.
    pub const NOTHING: Self = Self { hashes: Some(Vec::new()) };
    /// Looks for a value that no filter can exclude.
    pub const ANYTHING: Self = Self { hashes: None };

    /// Collects every hash that the values of `array` may have in a column of type `column`. Nulls and NaNs are never
    /// excluded.
    ///
    /// An error means that a value cannot be converted exactly, or that the type cannot be converted at all. The caller
    /// must then assume that the value may be present.
    pub fn new(array: &ArrayRef, column: ColumnType) -> Result<Self> {
        let leaf = Leaf::find(array, None)?;
        // BOOLEAN is invalid for every column that has hashes.
        ColumnType::of(leaf.array.data_type())?;
        let isa = InstructionSet::detect();
        let mut hashes = Vec::new();
        for form in Form::all(column) {
            let values = HashedColumn::of_values_as(&leaf, column, form, isa)?;
            values.for_each_batch(isa, 0..values.len(), |batch| hashes.extend_from_slice(batch))?;
        }
        if column.meaning == Meaning::Real {
            let zeros = zeros(column.physical);
            if hashes.iter().any(|hash| zeros.contains(hash)) {
                hashes.extend(zeros);
            }
        }
        let nulls = leaf.nulls.as_ref().map_or(0, |nulls| nulls.null_count()) + leaf.array.logical_null_count();
        if nulls > 0 || has_nan(&leaf)? {
            return Ok(Self::ANYTHING);
        }
        hashes.sort_unstable();
        hashes.dedup();
        Ok(Self { hashes: Some(hashes) })
    }

    /// Combines two probes into one that looks for the values of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let pair = self.hashes.zip(other.hashes);
        let hashes = pair.map(|(mut ours, theirs)| {
            ours.extend(theirs);
            ours
        });
        Self { hashes }
    }

    /// Returns the hashes to look for, or `None` if no filter can exclude the values.
    pub fn hashes(&self) -> Option<&[u64]> {
        self.hashes.as_deref()
    }
}

fn has_nan(leaf: &Leaf) -> Result<bool> {
    let array = flat(leaf)?;
    // Null slots may contain NaN as well, which only causes a false "maybe".
    Ok(match array.data_type() {
        DataType::Float16 => array.as_primitive::<Float16Type>().values().iter().any(|value| value.is_nan()),
        DataType::Float32 => array.as_primitive::<Float32Type>().values().iter().any(|value| value.is_nan()),
        DataType::Float64 => array.as_primitive::<Float64Type>().values().iter().any(|value| value.is_nan()),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::ArrowPrimitiveType;
    use arrow_array::{BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array, NullArray};
    use arrow_array::{Float16Array, TimestampMicrosecondArray, TimestampNanosecondArray};

    use super::*;
    use crate::bloom::{ColumnOptions, Filter, Sbbf};
    use crate::hash::{hash_bytes, hash_u64};

    type HalfFloat = <Float16Type as ArrowPrimitiveType>::Native;

    fn probe(array: impl Array + 'static, column: &str) -> Result<Probe> {
        Probe::new(&(Arc::new(array) as ArrayRef), column.parse().unwrap())
    }

    fn sorted(hashes: impl IntoIterator<Item = u64>) -> Option<Vec<u64>> {
        let mut hashes: Vec<u64> = hashes.into_iter().collect();
        hashes.sort_unstable();
        Some(hashes)
    }

    #[test]
    fn each_distinct_value_has_one_hash() {
        let integers = probe(Int64Array::from(vec![5, 6, 5]), "INT64 integer").unwrap();
        assert_eq!(integers.hashes, sorted([5, 6].map(hash_u64)));
        let zeros = probe(Float32Array::from(vec![-0.0]), "DOUBLE real").unwrap();
        assert_eq!(zeros.hashes, sorted([0, 1 << 63].map(hash_u64)));
        assert_eq!(probe(Int64Array::from(Vec::<i64>::new()), "INT64 integer"), Ok(Probe::NOTHING));
    }

    #[test]
    fn nulls_nans_and_inexact_values_are_never_excluded() {
        for (result, what) in [
            (probe(Int64Array::from(vec![Some(1), None]), "INT64 integer"), "a null"),
            (probe(NullArray::new(2), "INT64 integer"), "nulls of no type"),
            (probe(Float64Array::from(vec![1.0, f64::NAN]), "DOUBLE real"), "a NaN"),
            (probe(Float32Array::from(vec![f32::NAN]), "FLOAT real"), "a NaN of 32 bits"),
            (
                probe(Float16Array::from_iter_values([HalfFloat::NAN]), "FIXED_LEN_BYTE_ARRAY(2) real"),
                "a NaN of 16 bits",
            ),
            (probe(BooleanArray::from(vec![true]), "INT32 integer"), "a boolean"),
            (probe(Int64Array::from(vec![1 << 40]), "INT32 integer"), "too large"),
            (probe(Int64Array::from(vec![1]), "INT64 instant[us]"), "another meaning"),
            (probe(TimestampMicrosecondArray::from(vec![1]), "INT64 instant[us]"), "no zone"),
            (probe(TimestampNanosecondArray::from(vec![1]), "INT64 timestamp[us]"), "a fraction"),
        ] {
            assert!(result.is_err() || result == Ok(Probe::ANYTHING), "{what}");
        }
    }

    #[test]
    fn decimals_are_looked_up_in_every_width() {
        let value = || Decimal128Array::from(vec![-2]).with_precision_and_scale(9, 2).unwrap();
        let column = "BYTE_ARRAY decimal[2]".parse().unwrap();
        let widths = (1..=32).map(|width| [vec![0xff; width - 1], vec![0xfe]].concat());
        let decimals = probe(value(), "BYTE_ARRAY decimal[2]").unwrap();
        assert_eq!(decimals.hashes, sorted(widths.clone().map(|bytes| hash_bytes(&bytes))));
        for bytes in widths {
            // As written by a writer that pads decimals.
            let mut sbbf = Sbbf::new(64).unwrap();
            sbbf.insert_hash(hash_bytes(&bytes));
            let filter = Filter::new(sbbf, Some(column));
            let answer = filter.check(&(Arc::new(value()) as ArrayRef), ColumnOptions::default()).unwrap();
            assert!(answer.value(0), "{bytes:x?}");
        }
        let bytes = probe(BinaryArray::from_vec(vec![b"x"]), "BYTE_ARRAY bytes").unwrap();
        assert_eq!(bytes.hashes, sorted([hash_bytes(b"x")]));
    }

    #[test]
    fn int96_before_1970_is_looked_up_in_two_forms() {
        let int96_probe = |value| probe(TimestampNanosecondArray::from(vec![value]), "INT96 timestamp[ns]").unwrap();
        assert_eq!(int96_probe(-1).hashes().map(<[u64]>::len), Some(2));
        assert_eq!(int96_probe(1).hashes().map(<[u64]>::len), Some(1));
    }

    #[test]
    fn or_looks_for_the_values_of_both_probes() {
        let int_probe = |value| probe(Int64Array::from(vec![value]), "INT64 integer").unwrap();
        assert_eq!(int_probe(1).or(int_probe(2)).hashes, Some(vec![hash_u64(1), hash_u64(2)]));
        assert_eq!(int_probe(1).or(Probe::ANYTHING), Probe::ANYTHING);
        assert_eq!(Probe::NOTHING.or(int_probe(1)), int_probe(1));
    }
}
