//! Columns of every layout have the hashes of their values.

use super::*;
use crate::arrow::{Meaning, PhysicalType};
use crate::hash::hash_bytes;
use arrow_array::types::{ArrowDictionaryKeyType, ArrowPrimitiveType, Float16Type, UInt8Type};
use arrow_array::{
    BinaryViewArray, Decimal256Array, DictionaryArray, FixedSizeBinaryArray, Float16Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, LargeStringArray, PrimitiveArray, StringArray, UInt32Array, UInt64Array,
};
use arrow_buffer::i256;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

type Numbers = [Option<u8>];
/// Stores small numbers in an array of some type.
type Store = fn(&Numbers) -> ArrayRef;
/// Returns the bytes that Parquet has for a number in a column.
type Bytes = fn(u8) -> Vec<u8>;

/// Returns how each kind of array is made, the type of the column, and its bytes.
fn kinds() -> [(Store, DataType, Bytes); 9] {
    let int64: Store = |numbers| Arc::new(map(numbers, i64::from).collect::<Int64Array>());
    let int16: Store = |numbers| Arc::new(map(numbers, i16::from).collect::<Int16Array>());
    let uint32: Store = |numbers| Arc::new(map(numbers, u32::from).collect::<UInt32Array>());
    let string: Store = |numbers| Arc::new(map(numbers, text).collect::<StringArray>());
    let large_string: Store = |numbers| Arc::new(map(numbers, text).collect::<LargeStringArray>());
    let binary_view: Store = |numbers| Arc::new(map(numbers, text).collect::<BinaryViewArray>());
    let text_bytes: Bytes = |number| text(number).into_bytes();
    [
        (int64, DataType::Int64, |number| i64::from(number).to_le_bytes().to_vec()),
        (uint32, DataType::UInt32, |number| u32::from(number).to_le_bytes().to_vec()),
        // Parquet stores at least 32 bits.
        (int16, DataType::Int16, |number| i32::from(number).to_le_bytes().to_vec()),
        // These columns are wider than the arrays.
        (int16, DataType::Int64, |number| i64::from(number).to_le_bytes().to_vec()),
        (uint32, DataType::Decimal128(38, 2), |number| (100 * i128::from(number)).to_be_bytes().to_vec()),
        (string, DataType::Utf8, text_bytes),
        (large_string, DataType::LargeUtf8, text_bytes),
        (binary_view, DataType::BinaryView, text_bytes),
        (store_fixed, DataType::FixedSizeBinary(3), |number| vec![number; 3]),
    ]
}

fn map<T>(numbers: &Numbers, convert: fn(u8) -> T) -> impl Iterator<Item = Option<T>> {
    numbers.iter().map(move |number| number.map(convert))
}

/// Returns texts of different lengths. The long ones do not fit into a view.
fn text(number: u8) -> String {
    format!("{number:0width$}", width = usize::from(number))
}

fn store_fixed(numbers: &Numbers) -> ArrayRef {
    let values = map(numbers, |number| [number; 3]);
    Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 3).unwrap())
}

/// Stores numbers in a dictionary with an unused entry and a null entry. Every other null is the null entry.
fn store_dictionary<K: ArrowDictionaryKeyType>(numbers: &Numbers, store: Store) -> ArrayRef
where
    K::Native: TryFrom<usize, Error: std::fmt::Debug>,
{
    let mut entries: Vec<Option<u8>> = vec![Some(99), None];
    let keys = numbers.iter().enumerate().map(|(slot, number)| match number {
        None if slot % 2 == 0 => None,
        number => Some(entries.iter().position(|entry| entry == number).unwrap_or_else(|| {
            entries.push(*number);
            entries.len() - 1
        })),
    });
    let keys: PrimitiveArray<K> = keys.map(|key| key.map(|key| K::Native::try_from(key).unwrap())).collect();
    Arc::new(DictionaryArray::new(keys, store(&entries)))
}

/// Stores numbers as runs of equal numbers.
fn store_runs<R: RunEndIndexType>(numbers: &Numbers, store: Store) -> ArrayRef
where
    R::Native: TryFrom<usize, Error: std::fmt::Debug>,
{
    let (mut ends, mut values) = (vec![], vec![]);
    for run in numbers.chunk_by(PartialEq::eq) {
        ends.push(R::Native::try_from(ends.last().map_or(0, |end: &R::Native| end.as_usize()) + run.len()).unwrap());
        values.push(run[0]);
    }
    Arc::new(RunArray::<R>::try_new(&PrimitiveArray::from_iter_values(ends), &store(&values)).unwrap())
}

fn layouts(numbers: &Numbers, store: Store) -> [ArrayRef; 6] {
    [
        store(numbers),
        store_dictionary::<UInt8Type>(numbers, store),
        store_dictionary::<Int64Type>(numbers, store),
        store_runs::<Int16Type>(numbers, store),
        store_runs::<Int32Type>(numbers, store),
        store_runs::<Int64Type>(numbers, store),
    ]
}

fn batches(column: &HashedColumn, isa: InstructionSet, range: Range<usize>) -> Vec<u64> {
    let mut all = vec![];
    column
        .for_each_batch(isa, range, |hashes| {
            assert!(!hashes.is_empty() && hashes.len() <= BATCH);
            all.extend(hashes);
        })
        .unwrap();
    all
}

/// Checks an array with the given numbers. Slots are also null where their parents are.
fn check(array: &ArrayRef, numbers: &Numbers, parents: &NullBuffer, to: &DataType, bytes: Bytes, isa: InstructionSet) {
    let leaf = Leaf { nulls: NullBuffer::union(array.nulls(), Some(parents)), array: array.clone() };
    let to = ColumnType::of(to).unwrap();
    let expected: Vec<Option<u64>> = numbers
        .iter()
        .zip(parents)
        .map(|(number, parent)| number.filter(|_| parent).map(|number| hash_bytes(&bytes(number))))
        .collect();
    let context = format!("{} with {} slots", array.data_type(), numbers.len());

    let slots = HashedColumn::of_slots(&leaf, to, isa).unwrap();
    assert_eq!((slots.len(), slots.is_empty()), (numbers.len(), numbers.is_empty()), "{context}");
    assert_eq!(slots.holds_values(), expected.iter().any(Option::is_some), "{context}");
    let valid: Vec<bool> =
        (0..numbers.len()).map(|slot| slots.nulls().is_none_or(|nulls| nulls.is_valid(slot))).collect();
    assert_eq!(valid, expected.iter().map(Option::is_some).collect::<Vec<_>>(), "{context}");
    assert_eq!(slots.nulls().is_some(), expected.contains(&None), "{context}");
    for range in [0..numbers.len(), numbers.len() / 3..numbers.len() / 2, numbers.len()..numbers.len()] {
        let in_range: Vec<u64> = expected[range.clone()].iter().flatten().copied().collect();
        assert_eq!(batches(&slots, isa, range.clone()), in_range, "{context}");
        let mut hashes = vec![0; range.len()];
        slots.hash_slots(isa, range.start, &mut hashes).unwrap();
        assert!(expected[range].iter().zip(&hashes).all(|(one, hash)| one.is_none_or(|one| one == *hash)), "{context}");
    }

    let values = HashedColumn::of_values(&leaf, to, isa).unwrap();
    let distinct: BTreeSet<u64> = expected.iter().flatten().copied().collect();
    let hashed = batches(&values, isa, 0..values.len());
    assert_eq!(hashed.iter().copied().collect::<BTreeSet<u64>>(), distinct, "{context}");
    if matches!(array.data_type(), DataType::Dictionary(..)) {
        assert_eq!(hashed.len(), distinct.len(), "{context}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    #[cfg_attr(miri, ignore = "thousands of values")]
    fn every_layout_has_the_hashes_of_its_values(
        runs in prop::collection::vec((prop::option::weighted(0.8, 0u8..40), 1usize..4), 0..900),
        null_parents in prop::collection::vec(any::<bool>(), 0..2700),
        all_valid in any::<bool>(),
        start in 0usize..1200,
    ) {
        let mut numbers: Vec<Option<u8>> = runs.iter().flat_map(|&(number, len)| vec![number; len]).collect();
        if all_valid {
            numbers.retain(Option::is_some);
        }
        let parents = NullBuffer::from_iter((0..numbers.len()).map(|slot| {
            all_valid || null_parents.get(slot).copied().unwrap_or(true)
        }));
        let start = start.min(numbers.len());
        let len = numbers.len() - start;
        for (store, to, bytes) in kinds() {
            for array in layouts(&numbers, store) {
                for isa in InstructionSet::all() {
                    check(&array, &numbers, &parents, &to, bytes, isa);
                    check(&array.slice(start, len), &numbers[start..], &parents.slice(start, len), &to, bytes, isa);
                }
            }
        }
    }
}

#[test]
fn columns_without_values_are_not_hashed() {
    let numbers = [None; 3];
    let parents = NullBuffer::new_valid(3);
    for (store, to, bytes) in kinds() {
        for array in layouts(&numbers, store) {
            check(&array, &numbers, &parents, &to, bytes, InstructionSet::detect());
        }
    }
    let array: ArrayRef = Arc::new(arrow_array::NullArray::new(3));
    let column = HashedColumn::of_slots(
        &Leaf { array, nulls: None },
        ColumnType::of(&DataType::Int32).unwrap(),
        InstructionSet::detect(),
    )
    .unwrap();
    assert!(!column.holds_values() && column.len() == 3);
    assert_eq!(batches(&column, InstructionSet::detect(), 0..3), [0; 0]);
}

#[test]
fn runs_decode_to_their_values() {
    let numbers = [Some(1), Some(1), None, Some(2), Some(2), Some(2)];
    for (store, _, _) in kinds() {
        let plain = store(&numbers);
        for array in layouts(&numbers, store) {
            let is_dictionary = matches!(array.data_type(), DataType::Dictionary(..));
            let decoded = without_runs(&array.slice(1, 4)).unwrap();
            assert_eq!(&decoded, &if is_dictionary { array.slice(1, 4) } else { plain.slice(1, 4) });
        }
    }
}

#[test]
fn keys_without_an_entry_are_errors_unless_the_slot_is_null() {
    let keys = PrimitiveArray::<Int32Type>::new(vec![0, 7].into(), Some(NullBuffer::from(vec![true, false])));
    let entries: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
    let of = |keys: PrimitiveArray<Int32Type>| {
        // SAFETY: the test reads only the hashes, which must not use the entry.
        let array: ArrayRef = Arc::new(unsafe { DictionaryArray::new_unchecked(keys, entries.clone()) });
        let leaf = Leaf { nulls: array.nulls().cloned(), array };
        let to = ColumnType::of(&DataType::Utf8).unwrap();
        HashedColumn::of_slots(&leaf, to, InstructionSet::detect())
            .map(|column| batches(&column, InstructionSet::detect(), 0..2))
    };
    assert_eq!(of(keys.clone()), Ok(vec![hash_bytes(b"a")]));
    assert!(matches!(of(PrimitiveArray::from(vec![0, 7])).unwrap_err().kind(), ErrorKind::ArrowType { .. }));
}

/// Returns the hash of the only value of an array in a column of some type.
fn hash_one(array: ArrayRef, physical: PhysicalType, meaning: Meaning) -> Result<u64> {
    let isa = InstructionSet::detect();
    let mut hash = [0];
    let column = HashedColumn::of_slots(&Leaf { array, nulls: None }, ColumnType { physical, meaning }, isa)?;
    column.hash_slots(isa, 0, &mut hash)?;
    Ok(hash[0])
}

#[test]
fn floats_have_the_hash_of_the_equal_float_in_the_column_or_none() {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    for value in [1.5, -2.0, 0.1, 1e300, f64::INFINITY, f64::NAN] {
        let (single, half) = (value as f32, Half::from_f64(value));
        let is_single = value.is_nan() || f64::from(single) == value;
        let is_half = value.is_nan() || half.to_f64() == value;
        let single_bytes = single.to_bits().to_le_bytes().to_vec();
        let half_bytes = half.to_bits().to_le_bytes().to_vec();
        let double: ArrayRef = Arc::new(Float64Array::from(vec![value]));
        let mut cases = vec![
            (double.clone(), PhysicalType::Double, Some(value.to_le_bytes().to_vec())),
            (double.clone(), PhysicalType::Float, is_single.then(|| single_bytes.clone())),
            (double, PhysicalType::FixedLenByteArray(2), is_half.then(|| half_bytes.clone())),
        ];
        if is_single {
            let single: ArrayRef = Arc::new(Float32Array::from(vec![single]));
            cases.push((single.clone(), PhysicalType::Double, Some(value.to_le_bytes().to_vec())));
            cases.push((single.clone(), PhysicalType::Float, Some(single_bytes.clone())));
            cases.push((single, PhysicalType::FixedLenByteArray(2), is_half.then(|| half_bytes.clone())));
        }
        if is_half {
            let half: ArrayRef = Arc::new(Float16Array::from(vec![half]));
            cases.push((half.clone(), PhysicalType::Double, Some(value.to_le_bytes().to_vec())));
            cases.push((half.clone(), PhysicalType::Float, Some(single_bytes)));
            cases.push((half, PhysicalType::FixedLenByteArray(2), Some(half_bytes)));
        }
        for (array, physical, bytes) in cases {
            let context = format!("{value} as {} in {physical}", array.data_type());
            let hash = hash_one(array, physical, Meaning::Real).ok();
            assert_eq!(hash, bytes.map(|bytes| hash_bytes(&bytes)), "{context}");
        }
    }
}

#[test]
fn integers_without_an_equal_value_in_the_column_have_no_hash() {
    let arrays: [(ArrayRef, PhysicalType, bool); 6] = [
        (Arc::new(UInt32Array::from(vec![u32::MAX])), PhysicalType::Int32, true),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), PhysicalType::Int64, true),
        (Arc::new(Int32Array::from(vec![-1])), PhysicalType::Int32, false),
        (Arc::new(Int64Array::from(vec![-1])), PhysicalType::Int64, false),
        (Arc::new(Int64Array::from(vec![1 << 31])), PhysicalType::Int32, true),
        (Arc::new(Int64Array::from(vec![1 << 32])), PhysicalType::Int32, false),
    ];
    for (array, physical, signed) in arrays {
        let context = format!("{} in {physical}, signed: {signed}", array.data_type());
        assert!(hash_one(array, physical, Meaning::Integer { signed }).is_err(), "{context}");
    }
    let seven: ArrayRef = Arc::new(UInt32Array::from(vec![7]));
    let hash = hash_one(seven, PhysicalType::Int32, Meaning::Integer { signed: true });
    assert_eq!(hash, Ok(hash_bytes(&7i32.to_le_bytes())));
}

#[test]
fn decimals_of_256_bits_have_the_hash_of_every_physical_type() {
    let decimal = || Arc::new(Decimal256Array::from(vec![i256::from(150)]).with_precision_and_scale(76, 1).unwrap());
    // 15.0 with a scale of two.
    let bytes = [
        (PhysicalType::Int32, 1500i32.to_le_bytes().to_vec()),
        (PhysicalType::Int64, 1500i64.to_le_bytes().to_vec()),
        (PhysicalType::ByteArray, vec![5, 220]),
        (PhysicalType::FixedLenByteArray(4), vec![0, 0, 5, 220]),
    ];
    for (physical, bytes) in bytes {
        let hash = hash_one(decimal(), physical, Meaning::Decimal { scale: 2 });
        assert_eq!(hash, Ok(hash_bytes(&bytes)), "{physical}");
    }
    assert!(hash_one(decimal(), PhysicalType::Double, Meaning::Decimal { scale: 2 }).is_err());
}
