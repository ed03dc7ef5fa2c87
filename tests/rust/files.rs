//! Adds filters to files of the `parquet` crate, and checks that all values are found by parsieve and by that crate.

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::properties::WriterProperties;
use parsieve::bloom::{ColumnOptions, Filter, FilterBuilder, Sbbf};
use parsieve::isa::InstructionSet;
use parsieve::parquet::{FIRST_READ, Footer, NewFilter, OldFooter, ParquetFile};
use parsieve::ranges::{Fetched, Step, coalesce};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROWS: i64 = 3000;
const FPP: f64 = 0.01;

fn columns(from: i64) -> Vec<(&'static str, ArrayRef)> {
    let range = from..from + ROWS;
    let some = |value: i64| (value % 7 != 0).then_some(value);
    let mut lists = ListBuilder::new(StringBuilder::new());
    for value in range.clone() {
        lists.append_value([Some(format!("tag {}", value % 50)), None, Some(format!("tag {value}"))]);
    }
    let text = range.clone().map(|value| some(value).map(|value| format!("a string of some length, {value}")));
    let decimals = range.clone().map(|value| some(value).map(|value| i128::from(value) << 40));
    vec![
        ("int8", Arc::new(Int8Array::from_iter(range.clone().map(|value| some(value).map(|value| value as i8))))),
        ("int64", Arc::new(Int64Array::from_iter(range.clone().map(some)))),
        ("unique", Arc::new(UInt64Array::from_iter_values(range.clone().map(|value| value as u64 ^ (1 << 63))))),
        (
            "double",
            Arc::new(Float64Array::from_iter(range.clone().map(|value| some(value).map(|value| value as f64 / 8.0)))),
        ),
        ("text", Arc::new(StringArray::from_iter(text))),
        ("decimal", Arc::new(Decimal128Array::from_iter(decimals).with_precision_and_scale(38, 3).unwrap())),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter(range.map(some)).with_timezone("UTC"))),
        ("list", Arc::new(lists.finish())),
    ]
}

fn write(codec: Compression) -> Vec<u8> {
    let fields: Vec<_> =
        columns(0).iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    assert_eq!(*fields[6].data_type(), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    let schema = Arc::new(Schema::new(fields));
    let properties = WriterProperties::builder().set_compression(codec).set_data_page_row_count_limit(700).build();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, schema.clone(), Some(properties)).unwrap();
    for group in 0..2 {
        let arrays = columns(group * 100_000).into_iter().map(|(_, array)| array).collect();
        writer.write(&RecordBatch::try_new(schema.clone(), arrays).unwrap()).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    file
}

/// Runs a step as a file reader would. Returns its result and the number of bytes read.
fn drive<T>(file: &[u8], mut step: impl FnMut(&Fetched) -> parsieve::Result<Step<T>>) -> (T, u64) {
    let (mut fetched, mut read) = (Fetched::new(), 0);
    loop {
        match step(&fetched).unwrap() {
            Step::Ready(value) => return (value, read),
            Step::Need(ranges) => {
                for range in coalesce(ranges, 0) {
                    fetched.insert(range.start, file[range.start as usize..range.end as usize].to_vec());
                    read += range.end - range.start;
                }
            }
        }
    }
}

fn open(file: &[u8]) -> ParquetFile {
    let (footer, _) = drive(file, |fetched| Footer::read(file.len() as u64, FIRST_READ, fetched));
    ParquetFile::open(footer).unwrap()
}

/// Adds a filter to every column chunk.
fn with_filters(file: &[u8]) -> Vec<u8> {
    let old = open(file);
    let mut filters = BTreeMap::new();
    for row_group in 0..old.metadata.row_groups().len() {
        for column in 0..old.metadata.leaves().len() {
            let range = old.chunk_range(row_group, column).unwrap();
            let bytes = &file[range.start as usize..range.end as usize];
            let isa = InstructionSet::detect();
            let mut scan = old.scan_chunk(row_group, column, isa).unwrap();
            let mut builder = FilterBuilder::new(scan.stated_values(), FPP, Sbbf::MAX_BLOCKS, isa).unwrap();
            scan.feed(&old, bytes, None, &mut |hashes| builder.insert(hashes)).unwrap();
            scan.finish().unwrap();
            let built = builder.finish().unwrap();
            assert!(built.fpp <= FPP);
            filters.insert((row_group, column), built.filter);
        }
    }
    let add: Vec<_> = (filters.iter())
        .map(|(&(row_group, column), filter)| NewFilter { row_group, column, num_blocks: filter.num_blocks() })
        .collect();
    let (plan, _) = drive(file, |fetched| old.plan_rewrite(&add, &[], OldFooter::Replaced, None, fetched));
    let mut new = file[..plan.copy as usize].to_vec();
    for placed in &plan.filters {
        let filter = &filters[&(placed.row_group, placed.column)];
        new.extend(old.encode_filter(placed.row_group, placed.column, filter, None).unwrap());
    }
    new.extend(plan.footer);
    new
}

#[test]
fn new_filters_contain_every_value_of_the_file() {
    for codec in [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(Default::default())] {
        let before = write(codec);
        let after = with_filters(&before);
        let opened = open(&after);
        for (row_group, from) in [(0, 0), (1, 100_000)] {
            for (column, (name, array)) in columns(from).into_iter().enumerate() {
                let location = opened.filter_location(row_group, column).unwrap().unwrap();
                let (sbbf, read) = drive(&after, |fetched| opened.read_filter(&location, None, fetched));
                assert_eq!(Some(read), location.length);
                let column_type = opened.metadata.leaves()[column].column_type();
                assert!(column_type.is_some(), "{name}");
                let filter = Filter::new(sbbf, column_type);
                let answers = filter.check(&array, ColumnOptions::default()).unwrap();
                assert!(answers.iter().all(|answer| answer != Some(false)), "{name}: no value may be missing");
                assert!(answers.true_count() > 2000, "{name}");
                // Nearly all unique values of the other row group are excluded.
                if name == "unique" {
                    let (_, other) = columns(500_000).swap_remove(column);
                    let absent = filter.check(&other, ColumnOptions::default()).unwrap();
                    assert!(absent.true_count() < 100, "{} of {ROWS}", absent.true_count());
                }
            }
        }
    }
}

#[test]
fn the_parquet_crate_reads_the_same_rows_and_page_index_after_filters_are_added() {
    let before = write(Compression::SNAPPY);
    let after = with_filters(&before);
    let open = |file: &[u8]| {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        ParquetRecordBatchReaderBuilder::try_new_with_options(Bytes::copy_from_slice(file), options).unwrap()
    };
    let (old, new) = (open(&before), open(&after));
    assert_eq!(old.metadata().column_index(), new.metadata().column_index());
    assert_eq!(old.metadata().offset_index(), new.metadata().offset_index());
    let filter = new.get_row_group_column_bloom_filter(1, 1).unwrap().unwrap();
    assert!((100_000..103_000i64).filter(|value| value % 7 != 0).all(|value| filter.check(&value)));
    let text = new.get_row_group_column_bloom_filter(0, 4).unwrap().unwrap();
    assert!(text.check(&"a string of some length, 2999") && !text.check(&"a string of some length, 0"));
    let rows = |reader: ParquetRecordBatchReaderBuilder<Bytes>| {
        reader.build().unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    assert_eq!(rows(old), rows(new));
}
