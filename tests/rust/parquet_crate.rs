//! Compares our filters with the filters of the `parquet` crate, for every type and physical type.

use arrow_array::types::*;
use arrow_array::*;
use arrow_buffer::i256;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::Type;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parsieve::arrow::types::RequestedPhysical;
use parsieve::arrow::{ColumnType, PhysicalType};
use parsieve::bloom::{ColumnOptions, Filter, Sbbf};
use std::sync::Arc;

/// Writes a column with a filter. Returns the filter's bytes and the column's physical type.
fn write_with_filter(array: &ArrayRef) -> (Vec<u8>, PhysicalType) {
    let schema = Arc::new(Schema::new(vec![Field::new("column", array.data_type().clone(), true)]));
    let properties = WriterProperties::builder().set_bloom_filter_enabled(true).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, schema.clone(), Some(properties)).unwrap();
    writer.write(&RecordBatch::try_new(schema, vec![array.clone()]).unwrap()).unwrap();
    writer.close().unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(file.clone())).unwrap();
    let chunk = reader.metadata().row_group(0).column(0);
    let start = usize::try_from(chunk.bloom_filter_offset().expect("a filter")).unwrap();
    let len = usize::try_from(chunk.bloom_filter_length().expect("its length")).unwrap();
    let physical = match chunk.column_descr().physical_type() {
        Type::INT32 => PhysicalType::Int32,
        Type::INT64 => PhysicalType::Int64,
        Type::FLOAT => PhysicalType::Float,
        Type::DOUBLE => PhysicalType::Double,
        Type::BYTE_ARRAY => PhysicalType::ByteArray,
        Type::FIXED_LEN_BYTE_ARRAY => {
            PhysicalType::FixedLenByteArray(chunk.column_descr().type_length().try_into().unwrap())
        }
        other => panic!("{other}"),
    };
    (file[start..start + len].to_vec(), physical)
}

/// Checks the filter of a column. `as_hashed` are the values to hash, which may have another type than the written
/// ones.
fn check_as(array: impl Array + 'static, as_hashed: impl Array + 'static) {
    let array: ArrayRef = Arc::new(array);
    let (bytes, physical) = write_with_filter(&array);
    let theirs = Sbbf::from_bytes(&bytes, 0).unwrap();
    let column = ColumnType::with_physical(as_hashed.data_type(), RequestedPhysical::Exactly(physical)).unwrap();
    let mut ours = Filter::new(Sbbf::new(theirs.num_blocks()).unwrap(), Some(column));
    ours.insert(&(Arc::new(as_hashed) as ArrayRef), ColumnOptions::default()).unwrap();
    assert!(ours.sbbf().estimated_ndv() > 0.5, "no value was inserted");
    assert!(*ours.sbbf() == theirs, "{} as {column}", array.data_type());
    assert_eq!(ours.sbbf().to_bytes().unwrap(), bytes, "header and bitset");
}

fn check(array: impl Array + Clone + 'static) {
    check_as(array.clone(), array.clone());
    check_as(array.slice(3, 4), array.slice(3, 4));
}

fn primitive<T: ArrowPrimitiveType>(data_type: DataType, value: impl Fn(i64) -> T::Native) -> PrimitiveArray<T> {
    let values = (-5..95).map(|n| (n % 7 != 0).then(|| value(n)));
    PrimitiveArray::<T>::from_iter(values).with_data_type(data_type)
}

#[test]
fn filters_of_integers_and_floats_equal_those_of_the_parquet_crate() {
    check(primitive::<Int8Type>(DataType::Int8, |n| n as i8));
    check(primitive::<Int16Type>(DataType::Int16, |n| (n * 331) as i16));
    check(primitive::<Int32Type>(DataType::Int32, |n| (n * 40_000_003) as i32));
    check(primitive::<Int64Type>(DataType::Int64, |n| n * 90_000_000_000_000_001));
    check(primitive::<UInt8Type>(DataType::UInt8, |n| n as u8));
    check(primitive::<UInt16Type>(DataType::UInt16, |n| n as u16));
    check(primitive::<UInt32Type>(DataType::UInt32, |n| n as u32));
    check(primitive::<UInt64Type>(DataType::UInt64, |n| n as u64));
    check(primitive::<Float32Type>(DataType::Float32, |n| n as f32 / 3.0));
    check(primitive::<Float64Type>(DataType::Float64, |n| n as f64 / 3.0));
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    check(primitive::<Float16Type>(DataType::Float16, |n| Half::from_f64(n as f64 / 3.0)));
    check(Float64Array::from(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN, f64::MAX, f64::MIN_POSITIVE, -1.0]));
}

#[test]
fn filters_of_dates_and_times_equal_those_of_the_parquet_crate() {
    check(primitive::<Date32Type>(DataType::Date32, |n| (n * 331) as i32));
    // The crate stores Date64 as milliseconds in an INT64.
    check(primitive::<Date64Type>(DataType::Date64, |n| n * 86_400_000));
    check(primitive::<Time32MillisecondType>(DataType::Time32(TimeUnit::Millisecond), |n| (n + 5) as i32));
    check(primitive::<Time64MicrosecondType>(DataType::Time64(TimeUnit::Microsecond), |n| n + 5));
    check(primitive::<Time64NanosecondType>(DataType::Time64(TimeUnit::Nanosecond), |n| n + 5));
    let zone = || Some("Europe/Berlin".into());
    for zone in [None, zone()] {
        let stamp = |unit| DataType::Timestamp(unit, zone.clone());
        check(primitive::<TimestampMillisecondType>(stamp(TimeUnit::Millisecond), |n| n * 1_000_003));
        check(primitive::<TimestampMicrosecondType>(stamp(TimeUnit::Microsecond), |n| n * 1_000_003));
        check(primitive::<TimestampNanosecondType>(stamp(TimeUnit::Nanosecond), |n| n * 1_000_003));
    }
    // The crate stores seconds unchanged. Parquet has no such unit, so they are read as integers.
    let seconds = primitive::<TimestampSecondType>(DataType::Timestamp(TimeUnit::Second, None), |n| n * 77);
    check_as(seconds.clone(), seconds.reinterpret_cast::<Int64Type>());
}

#[test]
fn filters_of_decimals_equal_those_of_the_parquet_crate() {
    // Not with one digit: the crate then chooses INT64, but fails to write it.
    for precision in [2, 4, 9] {
        check(primitive::<Decimal32Type>(DataType::Decimal32(precision, 1), |n| (n % 10) as i32));
    }
    for precision in [5, 9, 10, 18] {
        check(primitive::<Decimal64Type>(DataType::Decimal64(precision, 2), |n| n * 997));
    }
    for precision in [9, 18, 19, 30, 38] {
        check(primitive::<Decimal128Type>(DataType::Decimal128(precision, 3), |n| i128::from(n) * 9_999_991));
    }
    check(primitive::<Decimal128Type>(DataType::Decimal128(38, 0), |n| i128::from(n) * 10i128.pow(35)));
    for precision in [9, 18, 38, 39, 60, 76] {
        check(primitive::<Decimal256Type>(DataType::Decimal256(precision, 4), |n| {
            i256::from_i128(i128::from(n) * 997)
        }));
    }
}

#[test]
fn filters_of_strings_equal_those_of_the_parquet_crate() {
    let texts = || (0..100usize).map(|n| (n % 7 != 3).then(|| "x".repeat(n % 40) + &n.to_string()));
    check(StringArray::from_iter(texts()));
    check(LargeStringArray::from_iter(texts()));
    check(StringViewArray::from_iter(texts()));
    check(BinaryArray::from_iter(texts()));
    check(LargeBinaryArray::from_iter(texts()));
    check(BinaryViewArray::from_iter(texts()));
    let sixteen = (0..100u128).map(|n| Some((n * 0x1234_5678_9abc_def1_2345).to_be_bytes()));
    check(FixedSizeBinaryArray::try_from_sparse_iter_with_size(sixteen, 16).unwrap());
}

#[test]
fn filters_of_dictionaries_contain_only_the_values_in_use() {
    let words = (0..100usize).map(|n| (n % 7 != 3).then(|| ["a", "bb", "ccc"][n % 3]));
    let words: DictionaryArray<Int32Type> = words.collect();
    check(words);
    let keys = Int8Array::from(vec![Some(0), None, Some(3), Some(3), Some(1), None, None, Some(0)]);
    let numbers = Int64Array::from(vec![Some(10), None, Some(30), Some(40)]);
    check(DictionaryArray::new(keys, Arc::new(numbers)));
}
