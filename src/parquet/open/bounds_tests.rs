//! Bounds of each type, and the bounds of files of several writers.

use std::sync::Arc;

use arrow_array::{ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::*;
use crate::parquet::fixtures;

const ANY_WRITER: &str = "a writer version 1.0";
const JAVA: &str = "parquet-mr version 1.12.0";

/// Writes a file with one column, and opens it.
fn write(column: ArrayRef, created_by: &str, key_values: &[(&str, &str)]) -> ParquetFile {
    let key_values = key_values.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned()));
    let properties = WriterProperties::builder()
        .set_created_by(created_by.to_owned())
        .set_key_value_metadata(Some(key_values.collect()))
        .build();
    let batch = RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    fixtures::open(&file).unwrap()
}

#[test]
fn files_have_the_bounds_of_their_values() {
    let check = |column: ArrayRef, lower, upper, nulls| {
        let file = write(column, ANY_WRITER, &[]);
        let expected =
            Bounds { lower: Some(lower), upper: Some(upper), nulls: Some(nulls), nans: None, values: Some(3) };
        assert_eq!(Bounds { nans: None, ..file.bounds(0, 0) }, expected);
        assert_eq!((file.bounds(0, 1), file.bounds(1, 0)), (Bounds::default(), Bounds::default()));
    };
    let integers = Int64Array::from(vec![Some(5), None, Some(-3)]);
    check(Arc::new(integers), Bound::Integer(-3), Bound::Integer(5), 1);
    check(Arc::new(UInt32Array::from(vec![u32::MAX, 0, 7])), Bound::Integer(0), Bound::Integer(u32::MAX.into()), 0);
    check(Arc::new(Float64Array::from(vec![0.5, -2.5, 1e9])), Bound::Real(-2.5), Bound::Real(1e9), 0);
    check(Arc::new(StringArray::from(vec!["b", "a", "c"])), Bound::Bytes(b"a"), Bound::Bytes(b"c"), 0);
    let nulls = write(Arc::new(Int64Array::from(vec![None, None])), ANY_WRITER, &[]);
    assert_eq!(nulls.bounds(0, 0), Bounds { nulls: Some(2), values: Some(2), ..Bounds::default() });
}

#[test]
fn only_statistics_of_the_file_itself_that_are_plain_or_authenticated_are_trusted() {
    let mut file = write(Arc::new(Int64Array::from(vec![5, -3])), ANY_WRITER, &[]);
    let chunk = |file: &mut ParquetFile, in_other_file, protection| {
        let chunk = file.metadata.chunk_mut(0, 0);
        (chunk.in_other_file, chunk.protection) = (in_other_file, protection);
    };
    for (in_other_file, protection, authenticated, is_trusted) in [
        (false, Protection::Plain, false, true),
        (false, Protection::FooterKey, true, true),
        (false, Protection::FooterKey, false, false),
        (false, Protection::ColumnKey, false, false),
        (true, Protection::Plain, true, false),
        (true, Protection::Plain, false, false),
    ] {
        chunk(&mut file, in_other_file, protection);
        let bounds = file.metadata.trusted_bounds(0, 0, authenticated);
        assert_eq!(bounds.is_some_and(|bounds| bounds.lower.is_some()), is_trusted, "{in_other_file} {protection:?}");
    }
}

#[test]
fn a_chunk_without_statistics_has_a_number_of_values() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None]));
    let batch = RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap();
    let properties = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert_eq!(fixtures::open(&file).unwrap().bounds(0, 0), Bounds { values: Some(2), ..Bounds::default() });
}

#[test]
fn dates_before_the_calendars_agree_depend_on_the_writer() {
    let version = "org.apache.spark.version";
    for (writer, key_values, is_trusted) in [
        (ANY_WRITER, &[][..], true),
        (JAVA, &[], false),
        (JAVA, &[(version, "2.4.8")], false),
        (JAVA, &[(version, "3.5.1")], true),
        (ANY_WRITER, &[(version, "2.4.8")], false),
        (JAVA, &[(version, "3.5.1"), ("org.apache.spark.legacyDateTime", "")], false),
    ] {
        for (first, is_old) in [(-141_428, true), (-141_427, false)] {
            let bounds = write(Arc::new(Date32Array::from(vec![first, 20_000])), writer, key_values);
            let expected = (is_trusted || !is_old).then_some(Bound::Integer(first.into()));
            assert_eq!(bounds.bounds(0, 0).lower, expected, "{writer} {key_values:?} {first}");
        }
    }
}

#[test]
fn old_statistics_are_trusted_for_known_writers_only() {
    let integers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let (least, most) = ((-3i64).to_le_bytes(), 5i64.to_le_bytes());
    let old = |min, max| Statistics { old_min: Some(min), old_max: Some(max), ..Statistics::default() };
    let known = Some((Bound::Integer(-3), Bound::Integer(5)));
    for (writer, expected) in [(JAVA, known), (ANY_WRITER, None)] {
        let file = write(integers.clone(), writer, &[]);
        assert_eq!(file.metadata.range(0, &old(&least, &most)), expected, "{writer}");
        assert_eq!(file.metadata.range(0, &old(&most, &least)), None, "the minimum exceeds the maximum");
        let file = write(texts.clone(), writer, &[]);
        assert_eq!(file.metadata.range(0, &old(b"a", b"b")), None, "{writer} compared the bytes as signed");
    }
}

fn leaf(physical: Physical, length: Option<i32>, logical: Option<Logical>) -> SchemaLeaf {
    SchemaLeaf::for_test(physical, length, logical)
}

#[test]
fn bounds_are_decoded_by_type() {
    let int = |bit_width, signed| Some(Logical::Integer { bit_width, signed });
    let decimal = Some(Logical::Decimal { precision: 5, scale: 2 });
    let check = |leaf: SchemaLeaf, stored: &[u8], expected| assert_eq!(leaf.bound(stored), expected, "{leaf:?}");
    check(leaf(Physical::Boolean, None, None), &[1], Some(Bound::Integer(1)));
    check(leaf(Physical::Boolean, None, None), &[2], None);
    check(leaf(Physical::Int32, None, None), &[0xff; 4], Some(Bound::Integer(-1)));
    check(leaf(Physical::Int32, None, int(32, false)), &[0xff; 4], Some(Bound::Integer(u32::MAX.into())));
    check(leaf(Physical::Int64, None, int(64, false)), &[0xff; 8], Some(Bound::Integer(u64::MAX.into())));
    check(leaf(Physical::Int32, None, int(8, false)), &[255, 0, 0, 0], Some(Bound::Integer(255)));
    check(leaf(Physical::Int32, None, int(8, false)), &[0, 1, 0, 0], None);
    check(leaf(Physical::Int32, None, int(8, false)), &[0xff; 4], None);
    check(leaf(Physical::Int32, None, int(8, true)), &[0x80, 0xff, 0xff, 0xff], Some(Bound::Integer(-128)));
    check(leaf(Physical::Int32, None, int(8, true)), &[0x7f, 0, 0, 0], Some(Bound::Integer(127)));
    check(leaf(Physical::Int32, None, int(8, true)), &[0x7f, 0xff, 0xff, 0xff], None);
    check(leaf(Physical::Int32, None, int(8, true)), &[0x80, 0, 0, 0], None);
    check(leaf(Physical::Int32, None, Some(Logical::Unknown(99))), &[0; 4], None);
    check(leaf(Physical::Int32, None, None), &[0; 8], None);
    check(leaf(Physical::Double, None, None), &f64::NAN.to_le_bytes(), None);
    check(leaf(Physical::Float, None, None), &1.5f32.to_le_bytes(), Some(Bound::Real(1.5)));
    check(leaf(Physical::Int96, None, None), &[0; 12], None);
    check(leaf(Physical::FixedLenByteArray, Some(2), decimal), &[0xff, 0x85], Some(Bound::Integer(-123)));
    check(leaf(Physical::FixedLenByteArray, Some(2), decimal), &[0x7b], None);
    check(leaf(Physical::FixedLenByteArray, Some(17), decimal), &[0; 17], None);
    check(leaf(Physical::ByteArray, None, decimal), &[0x7b], None);
    check(leaf(Physical::ByteArray, None, Some(Logical::String)), b"a", Some(Bound::Bytes(b"a")));
    check(leaf(Physical::ByteArray, None, Some(Logical::String)), b"", None);
    check(leaf(Physical::FixedLenByteArray, Some(12), Some(Logical::Interval)), &[0; 12], None);
}

#[test]
fn half_precision_floats_are_decoded() {
    for (bits, expected) in [
        (0x3c00u16, 1.0),
        (0xc000, -2.0),
        (0x7bff, 65504.0),
        (0x0001, 2f64.powi(-24)),
        (0x7c00, f64::INFINITY),
        (0x8000, 0.0),
    ] {
        assert_eq!(half(bits.to_le_bytes()), expected, "{bits:x}");
    }
    assert!(half(0x7e00u16.to_le_bytes()).is_nan());
}

#[test]
fn old_statistics_are_trusted_for_signed_types_only() {
    let unsigned = Some(Logical::Integer { bit_width: 32, signed: false });
    assert!(leaf(Physical::Int32, None, None).has_signed_order());
    assert!(!leaf(Physical::Int32, None, unsigned).has_signed_order());
    assert!(!leaf(Physical::ByteArray, None, Some(Logical::String)).has_signed_order());
    assert!(!leaf(Physical::FixedLenByteArray, Some(4), None).has_signed_order());
    assert!(!leaf(Physical::Double, None, None).has_signed_order());
}

#[test]
fn real_numbers_have_three_widths() {
    let half = leaf(Physical::FixedLenByteArray, Some(2), Some(Logical::Float16));
    assert!(
        half.is_real() && leaf(Physical::Float, None, None).is_real() && leaf(Physical::Double, None, None).is_real()
    );
    assert!(
        !leaf(Physical::FixedLenByteArray, Some(2), None).is_real() && !leaf(Physical::Int32, None, None).is_real()
    );
}

#[test]
fn timestamps_before_1900_are_ambiguous_in_every_unit() {
    let first = |logical| leaf(Physical::Int64, None, Some(logical)).first_unambiguous_tick();
    for (unit, per_second) in
        [(TimeUnit::Millis, 1_000), (TimeUnit::Micros, 1_000_000), (TimeUnit::Nanos, 1_000_000_000)]
    {
        let timestamp = Logical::Timestamp { unit, utc: true };
        assert_eq!(first(timestamp), Some(-(70 * 365 + 17) * 86_400 * per_second));
    }
    assert_eq!(first(Logical::Timestamp { unit: TimeUnit::Unknown(9), utc: true }), None);
    assert_eq!(first(Logical::Integer { bit_width: 64, signed: true }), None);
    assert_eq!(leaf(Physical::Int64, None, None).first_unambiguous_tick(), None);
}

#[test]
fn calendar_constants_are_correct() {
    // In the proleptic Gregorian calendar, 1 January 1970 is 719,162 days after 1 January of year 1, and 15 October
    // 1582 is 577,735 days after it.
    assert_eq!(FIRST_GREGORIAN_DAY, 577_735 - 719_162);
    // 70 years with 17 leap days before 1970.
    assert_eq!(FIRST_UNAMBIGUOUS_SECOND, -(70 * 365 + 17) * 86_400);
}
