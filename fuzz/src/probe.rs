//! Filters and min/max statistics of damaged files. A probe excludes a row group only if its filter can be read and has
//! none of the values.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryArray, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, RecordBatch, StringArray, Time64MicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, UInt32Array, UInt64Array,
};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parsieve::bloom::Probe;
use parsieve::parquet::{Bound, Bounds, ColumnProbe, ParquetFile};
use parsieve::ranges::{Fetched, Step};

use super::{drive, drive_from, read_footer};

/// Reads `data` as a complete file.
pub fn run(data: &[u8]) {
    let Ok(file) = read_footer(data).and_then(ParquetFile::open) else { return };
    for column in 0..file.metadata.leaves().len().min(20) {
        for row_group in 0..file.metadata.row_groups().len().min(2) {
            check_bounds(file.bounds(row_group, column));
        }
        for probe in probes(&file, column) {
            check_probe(&file, data, &ColumnProbe { column, probe });
        }
    }
}

/// Returns a probe for one value and one for several values of the seeds.
fn probes(file: &ParquetFile, column: usize) -> Vec<Probe> {
    let Some(column_type) = file.metadata.leaves()[column].column_type() else { return Vec::new() };
    let values: [ArrayRef; 6] = [
        Arc::new(Int64Array::from(vec![49])),
        Arc::new(Int64Array::from_iter_values(7..16)),
        Arc::new(StringArray::from(vec!["text 3"])),
        Arc::new(StringArray::from(vec!["text 4", "", "none"])),
        Arc::new(Float64Array::from(vec![0.0])),
        Arc::new(TimestampNanosecondArray::from(vec![1_000_000])),
    ];
    values.iter().filter_map(|values| Probe::new(values, column_type).ok()).collect()
}

fn check_probe(file: &ParquetFile, data: &[u8], query: &ColumnProbe) {
    let probes = std::slice::from_ref(query);
    let mut read = Fetched::new();
    let step = |fetched: &Fetched| {
        let step = file.might_contain(probes, 0, None, fetched);
        if let Step::Ready(_) = step {
            read = fetched.clone();
        }
        Ok(step)
    };
    let verdicts = drive(data, step).unwrap();
    let row_groups = file.metadata.row_groups().len();
    assert!(verdicts.may_contain.len() <= row_groups && verdicts.may_contain.is_empty() == (row_groups == 0));
    let mut unusable = verdicts.unusable.iter();
    assert!(unusable.all(|filter| filter.row_group < row_groups && filter.column == query.column));
    for (row_group, may_contain) in verdicts.may_contain.iter().enumerate().take(2) {
        let filter = drive(data, |fetched| file.filter(row_group, query.column, None, fetched));
        let hashes = query.probe.hashes();
        let is_excluded = match (&filter, hashes) {
            (Ok(Some(filter)), Some(hashes)) => !hashes.iter().any(|&hash| filter.sbbf().may_contain_hash(hash)),
            _ => false,
        };
        assert!(*may_contain || is_excluded, "row group {row_group} is skipped without a filter that excludes it");
    }
    // Headers that a caller has cached do not change the result.
    let mut cached = Fetched::new();
    for (offset, bytes) in file.headers(0..verdicts.may_contain.len(), probes, &read) {
        let start = offset as usize;
        assert_eq!(data[start..start + bytes.len()], bytes);
        cached.insert(offset, bytes);
    }
    let again = drive_from(cached, data, |fetched| Ok(file.might_contain(probes, 0, None, fetched)));
    assert_eq!(again.unwrap(), verdicts);
}

fn check_bounds(bounds: Bounds<'_>) {
    match (bounds.lower, bounds.upper) {
        (Some(Bound::Integer(lower)), Some(Bound::Integer(upper))) => assert!(lower <= upper),
        (Some(Bound::Real(lower)), Some(Bound::Real(upper))) => assert!(lower <= upper),
        (Some(Bound::Bytes(lower)), Some(Bound::Bytes(upper))) => assert!(lower <= upper),
        (None, None) => {}
        other => panic!("bounds of different types: {other:?}"),
    }
    for count in [bounds.nulls, bounds.nans].into_iter().flatten() {
        assert!(bounds.values.is_some_and(|values| count <= values));
    }
}

/// Returns files with statistics of many types, and with filters that are read completely or by blocks.
pub fn seeds() -> Vec<Vec<u8>> {
    let plain = || WriterProperties::builder().set_dictionary_enabled(false);
    let small = || plain().set_bloom_filter_enabled(true).set_bloom_filter_max_ndv(20);
    let spark = |version: &str| vec![KeyValue::new("org.apache.spark.version".into(), version.to_owned())];
    let legacy = vec![KeyValue::new("org.apache.spark.legacyDateTime".into(), String::new())];
    let numbers = || table(&[("a", Arc::new(Int64Array::from_iter((0..20).map(|i| (i % 7 > 0).then_some(i * i)))))]);
    vec![
        write(&many_types(), plain()),
        write(&many_types(), plain().set_created_by("parquet-mr version 1.10.1".into())),
        write(&dates(), plain().set_created_by("parquet-mr".into())),
        write(&dates(), plain().set_key_value_metadata(Some(spark("2.4.8")))),
        write(&dates(), small().set_key_value_metadata(Some(spark("3.5.1")))),
        write(&dates(), small().set_key_value_metadata(Some(legacy))),
        write(&numbers(), small()),
        write(&numbers(), small().set_bloom_filter_max_ndv(3000)),
        write(&table(&[("a", text())]), small()),
    ]
}

fn text() -> ArrayRef {
    Arc::new(StringArray::from_iter_values((0..9).map(|i| format!("text {i}"))))
}

/// Returns dates and timestamps, some of them before all calendars agree.
pub fn dates() -> RecordBatch {
    table(&[
        ("date", Arc::new(Date32Array::from(vec![-200_000, 49, 9]))),
        ("millis", Arc::new(TimestampMillisecondArray::from(vec![-9_000_000_000_000, 1, 49]))),
        ("nanos", Arc::new(TimestampNanosecondArray::from(vec![1_000_000, -5, 49]))),
    ])
}

/// Returns values of many types.
pub fn many_types() -> RecordBatch {
    let fixed = |bytes: [u8; 4]| Arc::new(FixedSizeBinaryArray::try_from_iter([bytes, [9; 4]].iter()).unwrap());
    let decimal = |precision| {
        Arc::new(Decimal128Array::from(vec![-5, 700]).with_precision_and_scale(precision, 2).unwrap()) as ArrayRef
    };
    table(&[
        ("flag", Arc::new(BooleanArray::from(vec![false, true]))),
        ("small", Arc::new(Int16Array::from(vec![-3, 49]))),
        ("int", Arc::new(Int32Array::from(vec![-3, 49]))),
        ("unsigned", Arc::new(UInt32Array::from(vec![3, u32::MAX]))),
        ("large", Arc::new(UInt64Array::from(vec![3, u64::MAX]))),
        ("float", Arc::new(Float32Array::from(vec![-0.0, 1.5]))),
        ("double", Arc::new(Float64Array::from(vec![f64::NAN, 1.5]))),
        ("fixed", fixed([1, 2, 3, 4])),
        ("number", decimal(9)),
        ("wide", decimal(30)),
        ("time", Arc::new(Time64MicrosecondArray::from(vec![0, 49]))),
        ("text", Arc::new(StringArray::from(vec!["text 3", ""]))),
    ])
}

fn table(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter(columns.iter().cloned()).unwrap()
}

/// Writes a file.
pub fn write(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
    file
}
