//! Arrow columns as keys: the axis of each type, and the keys of an array with its null and NaN counts.

use crate::arrow::Leaf;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::column::without_runs;
use crate::int::to_u64;
use crate::sieve::key::axis::{AxisType, Bytes, Key, double, signed, uuid, wide_signed};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryType, BinaryViewType, Decimal128Type, Float16Type, Float32Type, Float64Type, LargeBinaryType, LargeUtf8Type,
    StringViewType, Utf8Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

/// The most digits of a decimal that fits in 64 bits.
const WORD_DIGITS: u8 = 18;

/// The key type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// `u64`.
    Word,
    /// `u128`.
    Wide,
    /// [`Bytes`].
    Text,
}

/// How the values of a column become keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// The order of the values.
    pub axis: AxisType,
    /// The type of the keys.
    pub width: Width,
    /// The properties that make two columns comparable: unit, scale, time zone. Stored with the index.
    pub meaning: String,
    /// True if a row can have several values. A null slot then does not mean that the row is null.
    pub repeated: bool,
}

impl Axis {
    /// Returns the axis of a column type. A nested type must have exactly one leaf.
    pub fn of(arrow: &DataType) -> Result<Self> {
        use DataType as A;
        let of = |axis, width, meaning: String| Ok(Self { axis, width, meaning, repeated: false });
        let word = |axis, meaning: &str| of(axis, Width::Word, meaning.to_owned());
        match arrow {
            A::Boolean => word(AxisType::Boolean, "boolean"),
            A::Int8 | A::Int16 | A::Int32 | A::Int64 => word(AxisType::Signed, "integer"),
            A::UInt8 | A::UInt16 | A::UInt32 | A::UInt64 => word(AxisType::Unsigned, "unsigned integer"),
            A::Float16 | A::Float32 | A::Float64 => word(AxisType::Float, "float"),
            A::Date32 => word(AxisType::Signed, "date in days"),
            A::Date64 => word(AxisType::Signed, "date in milliseconds"),
            A::Time32(unit) | A::Time64(unit) => word(AxisType::Signed, &format!("time in {}", name(*unit))),
            A::Duration(unit) => word(AxisType::Signed, &format!("duration in {}", name(*unit))),
            A::Timestamp(unit, zone) => {
                let kind = if zone.is_some() { "instant" } else { "local time" };
                word(AxisType::Signed, &format!("{kind} in {}", name(*unit)))
            }
            A::Decimal32(precision, scale) | A::Decimal64(precision, scale) | A::Decimal128(precision, scale) => {
                let narrow = *precision <= WORD_DIGITS;
                let (axis, width) =
                    if narrow { (AxisType::Signed, Width::Word) } else { (AxisType::WideSigned, Width::Wide) };
                of(axis, width, format!("{}decimal of scale {scale}", if narrow { "" } else { "wide " }))
            }
            A::FixedSizeBinary(16) => of(AxisType::Uuid, Width::Wide, "16 bytes".to_owned()),
            A::Utf8
            | A::LargeUtf8
            | A::Utf8View
            | A::Binary
            | A::LargeBinary
            | A::BinaryView
            | A::FixedSizeBinary(_) => of(AxisType::Bytes, Width::Text, "bytes".to_owned()),
            A::Dictionary(_, values) => Self::of(values),
            A::RunEndEncoded(_, values) => Self::of(values.data_type()),
            A::List(item) | A::LargeList(item) | A::ListView(item) | A::LargeListView(item) => {
                Ok(Self { repeated: true, ..Self::of(item.data_type())? })
            }
            A::FixedSizeList(item, _) => Ok(Self { repeated: true, ..Self::of(item.data_type())? }),
            A::Struct(fields) if fields.len() == 1 => Self::of(fields[0].data_type()),
            A::Struct(_) | A::Map(_, _) => Err(unsupported(arrow, "it has several leaves; name one of them")),
            A::Decimal256(_, _) => Err(unsupported(arrow, "decimals of more than 38 digits need a Bloom index")),
            A::Interval(_) => Err(unsupported(arrow, "intervals have no order")),
            A::Null => Err(unsupported(arrow, "a column of nulls has no values; give the column's type")),
            _ => Err(unsupported(arrow, "a Sieve index does not support it")),
        }
    }

    /// Calls `take` with each value and the number of rows that have it. A plain array yields every row separately. A
    /// dictionary array yields every used entry once.
    pub fn visit<K: ArrowKey>(
        &self,
        column: &ArrayRef,
        mut take: impl FnMut(K::Value<'_>, u64),
    ) -> Result<ColumnCounts> {
        let leaf = Leaf::find(column, None)?;
        let axis = Self::of(leaf.array.data_type())?;
        if axis.meaning != self.meaning {
            return Err(Error::new(ErrorKind::SieveMeaning { column: self.meaning.clone(), found: axis.meaning }));
        }
        let mut counts = ColumnCounts { rows: to_u64(column.len()), ..ColumnCounts::default() };
        if let DataType::Dictionary(_, _) = leaf.array.data_type() {
            let dictionary = leaf.array.as_any_dictionary();
            if dictionary.values().is_empty() {
                counts.nulls = to_u64(leaf.array.len());
                return Ok(counts);
            }
            let values = without_runs(dictionary.values())
                .map_err(|_| unsupported(column.data_type(), "it could not be read"))?;
            let nulls = NullBuffer::union(leaf.nulls.as_ref(), leaf.array.logical_nulls().as_ref());
            let mut uses = vec![0u64; values.len()];
            for (slot, entry) in dictionary.normalized_keys().into_iter().enumerate() {
                if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(slot)) {
                    uses[entry] += 1;
                }
            }
            counts.nulls = to_u64(nulls.map_or(0, |nulls| nulls.null_count()));
            let unused = |slot: usize| uses[slot] == 0;
            K::each(&*values, unused, |slot, value| match value {
                Some(value) => take(value, uses[slot]),
                None => counts.nans += uses[slot],
            })?;
            return Ok(counts);
        }
        let values = without_runs(&leaf.array).map_err(|_| unsupported(column.data_type(), "it could not be read"))?;
        // `without_runs` also expands the nulls of a run-end encoded array.
        let nulls = NullBuffer::union(leaf.nulls.as_ref(), values.nulls());
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        counts.nulls = to_u64(nulls.as_ref().map_or(0, NullBuffer::null_count));
        let skipped = |slot: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(slot));
        K::each(&*values, skipped, |_, value| match value {
            Some(value) => take(value, 1),
            None => counts.nans += 1,
        })?;
        Ok(counts)
    }

    /// Returns the keys of a column of literals, in no particular order, and counts the slots that have no key.
    pub fn keys<K: ArrowKey>(&self, column: &ArrayRef) -> Result<(Vec<K>, ColumnCounts)> {
        let mut keys = Vec::new();
        let counts = self.visit::<K>(column, |value, _| keys.push(K::owned(value)))?;
        Ok((keys, counts))
    }
}

/// The number of rows in a column, and of slots without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ColumnCounts {
    /// All rows.
    pub rows: u64,
    /// Null slots.
    pub nulls: u64,
    /// NaN slots.
    pub nans: u64,
}

/// A key type that can be read from Arrow arrays.
pub trait ArrowKey: Key {
    /// A value borrowed from an array.
    type Value<'a>: Copy;

    /// Visits every slot that is not skipped, with `None` for NaN. A skipped slot may contain arbitrary bytes.
    fn each(
        array: &dyn Array,
        skipped: impl Fn(usize) -> bool,
        visit: impl FnMut(usize, Option<Self::Value<'_>>),
    ) -> Result<()>;
    /// Converts a value to a key.
    fn owned(value: Self::Value<'_>) -> Self;
    /// Returns the next greater key, or `None` if there is none or it is not known.
    fn next(self) -> Option<Self>;
    /// Returns the next smaller key, or `None` if there is none or it is not known.
    fn previous(self) -> Option<Self>;
}

impl ArrowKey for u64 {
    type Value<'a> = Self;

    fn each(
        array: &dyn Array,
        skipped: impl Fn(usize) -> bool,
        mut visit: impl FnMut(usize, Option<u64>),
    ) -> Result<()> {
        use DataType as A;
        let mut visit = |slot: usize, value: Option<u64>| {
            if !skipped(slot) {
                visit(slot, value);
            }
        };
        match array.data_type() {
            A::Boolean => {
                let values = array.as_boolean().values();
                (0..array.len()).for_each(|slot| visit(slot, Some(u64::from(values.value(slot)))));
            }
            A::Int8 => integers::<i8>(array, visit),
            A::Int16 => integers::<i16>(array, visit),
            A::Int32 | A::Date32 | A::Time32(_) | A::Decimal32(_, _) => integers::<i32>(array, visit),
            A::Int64 | A::Date64 | A::Time64(_) | A::Timestamp(_, _) | A::Duration(_) | A::Decimal64(_, _) => {
                integers::<i64>(array, visit);
            }
            A::UInt8 => naturals::<u8>(array, visit),
            A::UInt16 => naturals::<u16>(array, visit),
            A::UInt32 => naturals::<u32>(array, visit),
            A::UInt64 => naturals::<u64>(array, visit),
            // A value with more digits than its type allows is clamped. Every literal is within the limits, so
            // comparisons with literals stay correct.
            A::Decimal128(_, _) => {
                let clamped = |value: i128| value.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
                let word = |value: i128| signed(i64::try_from(clamped(value)).unwrap_or_default());
                let values = array.as_primitive::<Decimal128Type>().values();
                values.iter().enumerate().for_each(|(slot, value)| visit(slot, Some(word(*value))));
            }
            A::Float16 => {
                let values = array.as_primitive::<Float16Type>().values();
                values.iter().enumerate().for_each(|(slot, value)| visit(slot, double(value.to_f64())));
            }
            A::Float32 => {
                let values = array.as_primitive::<Float32Type>().values();
                values.iter().enumerate().for_each(|(slot, value)| visit(slot, double(f64::from(*value))));
            }
            A::Float64 => {
                let values = array.as_primitive::<Float64Type>().values();
                values.iter().enumerate().for_each(|(slot, value)| visit(slot, double(*value)));
            }
            other => return Err(unsupported(other, "it does not fit the axis, which has 64 bits")),
        }
        Ok(())
    }

    fn owned(value: u64) -> Self {
        value
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

impl ArrowKey for u128 {
    type Value<'a> = Self;

    fn each(
        array: &dyn Array,
        skipped: impl Fn(usize) -> bool,
        mut visit: impl FnMut(usize, Option<u128>),
    ) -> Result<()> {
        let mut visit = |slot: usize, value: Option<u128>| {
            if !skipped(slot) {
                visit(slot, value);
            }
        };
        match array.data_type() {
            DataType::Decimal128(_, _) => {
                let values = array.as_primitive::<Decimal128Type>().values();
                values.iter().enumerate().for_each(|(slot, value)| visit(slot, Some(wide_signed(*value))));
            }
            DataType::FixedSizeBinary(16) => {
                let values = array.as_fixed_size_binary();
                let key = |slot| <[u8; 16]>::try_from(values.value(slot)).map_or(0, uuid);
                (0..values.len()).for_each(|slot| visit(slot, Some(key(slot))));
            }
            other => return Err(unsupported(other, "it does not fit the axis, which has 128 bits")),
        }
        Ok(())
    }

    fn owned(value: u128) -> Self {
        value
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

impl ArrowKey for Bytes {
    type Value<'a> = &'a [u8];

    fn each(
        array: &dyn Array,
        skipped: impl Fn(usize) -> bool,
        mut visit: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        use DataType as A;
        macro_rules! strings {
            ($array:expr) => {{
                let values = $array;
                (0..values.len())
                    .filter(|slot| !skipped(*slot))
                    .for_each(|slot| visit(slot, Some(values.value(slot).as_ref())))
            }};
        }
        match array.data_type() {
            A::Utf8 => strings!(array.as_bytes::<Utf8Type>()),
            A::LargeUtf8 => strings!(array.as_bytes::<LargeUtf8Type>()),
            A::Binary => strings!(array.as_bytes::<BinaryType>()),
            A::LargeBinary => strings!(array.as_bytes::<LargeBinaryType>()),
            A::Utf8View => strings!(array.as_byte_view::<StringViewType>()),
            A::BinaryView => strings!(array.as_byte_view::<BinaryViewType>()),
            A::FixedSizeBinary(_) => strings!(array.as_fixed_size_binary()),
            other => return Err(unsupported(other, "it does not fit the axis, which has bytes")),
        }
        Ok(())
    }

    fn owned(value: &[u8]) -> Self {
        Self::new(value)
    }

    fn next(self) -> Option<Self> {
        None
    }

    fn previous(self) -> Option<Self> {
        None
    }
}

/// Returns the array's buffer as integers of its physical width. Dates, times, timestamps and decimals are stored so.
fn raw<N: ArrowNativeType>(array: &dyn Array) -> ScalarBuffer<N> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

fn integers<N: ArrowNativeType + Into<i64>>(array: &dyn Array, mut visit: impl FnMut(usize, Option<u64>)) {
    raw::<N>(array).iter().enumerate().for_each(|(slot, value)| visit(slot, Some(signed((*value).into()))));
}

fn naturals<N: ArrowNativeType + Into<u64>>(array: &dyn Array, mut visit: impl FnMut(usize, Option<u64>)) {
    raw::<N>(array).iter().enumerate().for_each(|(slot, value)| visit(slot, Some((*value).into())));
}

fn name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn unsupported(arrow: &DataType, reason: &'static str) -> Error {
    Error::new(ErrorKind::SieveType { arrow: arrow.to_string(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::StringDictionaryBuilder;
    use arrow_array::types::Int8Type;
    use arrow_array::{BooleanArray, Decimal128Array, Float32Array, Int8Array, StringViewArray, UInt64Array};
    use std::sync::Arc;

    fn keys<K: ArrowKey>(array: impl Array + 'static) -> (Vec<K>, ColumnCounts) {
        let array: ArrayRef = Arc::new(array);
        Axis::of(array.data_type()).unwrap().keys::<K>(&array).unwrap()
    }

    #[test]
    fn keys_keep_the_order_of_values_and_both_zeros_are_equal() {
        let expected = |rows, nulls, nans| ColumnCounts { rows, nulls, nans };
        let (sorted, counts) = keys::<u64>(Int8Array::from(vec![Some(-128), None, Some(-1), Some(0), Some(127)]));
        assert!(sorted.is_sorted() && sorted.len() == 4);
        assert_eq!(counts, expected(5, 1, 0));
        let (sorted, counts) = keys::<u64>(Float32Array::from(vec![-1.5, -0.0, 0.0, f32::NAN, 3.0, f32::INFINITY]));
        assert!(sorted.is_sorted() && sorted[1] == sorted[2]);
        assert_eq!((sorted.len(), counts), (5, expected(6, 0, 1)));
        assert_eq!(keys::<u64>(BooleanArray::from(vec![false, true])).0, [0, 1]);
        assert_eq!(keys::<u64>(UInt64Array::from(vec![0, u64::MAX])).0, [0, u64::MAX]);
        let decimals = |digits| {
            Decimal128Array::from(vec![i128::MIN, -5, 7, i128::MAX]).with_precision_and_scale(digits, 2).unwrap()
        };
        assert!(keys::<u64>(decimals(18)).0.is_sorted(), "values beyond their type keep their side");
        assert!(keys::<u128>(decimals(38)).0.is_sorted());
        let views = StringViewArray::from(vec!["", "a", "a string longer than a view holds"]);
        assert!(keys::<Bytes>(views).0.is_sorted());
    }

    #[test]
    fn a_dictionary_entry_counts_once_per_row() {
        let mut builder = StringDictionaryBuilder::<Int8Type>::new();
        ["b", "a", "b"].iter().for_each(|text| builder.append_value(text));
        builder.append_null();
        let array: ArrayRef = Arc::new(builder.finish());
        let mut entries = Vec::new();
        let axis = Axis::of(array.data_type()).unwrap();
        let counts = axis.visit::<Bytes>(&array, |value, rows| entries.push((value.to_vec(), rows))).unwrap();
        assert_eq!(entries, [(b"b".to_vec(), 2), (b"a".to_vec(), 1)]);
        assert_eq!(counts, ColumnCounts { rows: 4, nulls: 1, nans: 0 });
    }

    #[test]
    fn a_row_of_a_list_can_have_several_values() {
        let item = Arc::new(arrow_schema::Field::new("item", DataType::Int64, true));
        let fixed = DataType::FixedSizeList(item.clone(), 2);
        let in_struct = DataType::Struct(vec![arrow_schema::Field::new("a", fixed.clone(), true)].into());
        for list in [DataType::List(item.clone()), DataType::LargeList(item), fixed, in_struct] {
            assert!(Axis::of(&list).unwrap().repeated, "{list}");
        }
        assert!(!Axis::of(&DataType::Int64).unwrap().repeated);
    }

    #[test]
    fn other_units_and_unordered_types_are_rejected() {
        let axis = Axis::of(&DataType::Timestamp(TimeUnit::Microsecond, None)).unwrap();
        let other: ArrayRef = Arc::new(arrow_array::TimestampMillisecondArray::from(vec![1]));
        assert!(matches!(axis.keys::<u64>(&other).unwrap_err().kind(), ErrorKind::SieveMeaning { .. }));
        for data_type in [DataType::Null, DataType::Decimal256(50, 2), DataType::Struct(arrow_schema::Fields::empty())]
        {
            assert!(matches!(Axis::of(&data_type).unwrap_err().kind(), ErrorKind::SieveType { .. }), "{data_type}");
        }
    }
}
