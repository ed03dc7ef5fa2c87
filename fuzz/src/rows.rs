//! Scans of the rows of damaged files. Either they fail, or they return the requested number of rows, in valid arrays.

use std::sync::Arc;

use arrow_array::builder::{Int64Builder, MapBuilder, StringBuilder};
use arrow_array::types::{Int8Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray, Int64Array,
    LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray, StructArray,
};
use arrow_schema::Field;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parsieve::Result;
use parsieve::page_map::FileMap;
use parsieve::parquet::ParquetFile;
use parsieve::ranges::Step;
use parsieve::rows::{RowFile, RowScan, RowSet};

use super::{drive, probe, read_footer};

/// The most rows that a scan of a damaged file returns.
const MAX_ROWS: u64 = 5000;

/// Reads `data` as a complete file.
pub fn run(data: &[u8]) {
    let Ok(file) = drive(data, |fetched| RowFile::open(data.len() as u64, fetched)) else { return };
    let file = Arc::new(file);
    check_map(data, &file);
    let rows = file.num_rows().min(MAX_ROWS);
    let some = RowSet::of(vec![1..2, 7..9, 25..40]).intersect(&RowSet::all(rows));
    for column in 0..file.num_columns().min(8) {
        if file.unreadable(column) != Ok(None) {
            continue;
        }
        let count = |rows: &RowSet, budget| {
            let mut count = 0;
            scan(data, &file, column, rows, budget, |values| count += values.len() as u64).map(|()| count)
        };
        let all = count(&RowSet::all(rows), 1 << 20);
        for budget in [1, 1 << 20] {
            let found = count(&some, budget);
            // A scan of some rows may need no damaged page.
            if let (Ok(all), Ok(found)) = (&all, &found) {
                assert_eq!((*all, *found), (rows, some.num_rows()));
            }
        }
        let size = file.compressed_size(&[column], &some).unwrap();
        assert!(size <= data.len() as u64 * 2 || file.row_groups().count() > 1);
    }
}

/// Checks that a scan by the map of the pages, as an index stores it, returns as many rows.
fn check_map(data: &[u8], file: &RowFile) {
    let Ok(parquet) = read_footer(data).and_then(ParquetFile::open) else { return };
    let Ok(map) = drive(data, |fetched| FileMap::of(&parquet, None, fetched)) else { return };
    let Ok(mapped) = RowFile::from_map(&map).map(Arc::new) else { return };
    assert_eq!((mapped.num_rows(), mapped.num_columns()), (file.num_rows(), file.num_columns()));
    let rows = RowSet::all(mapped.num_rows().min(MAX_ROWS));
    for column in (0..mapped.num_columns().min(8)).filter(|&column| mapped.unreadable(column) == Ok(None)) {
        let mut count = 0;
        if scan(data, &mapped, column, &rows, 1 << 20, |values| count += values.len() as u64).is_ok() {
            assert_eq!(count, rows.num_rows());
        }
    }
}

/// Scans some rows of a column, and passes the values of each batch to `take`.
pub fn scan(
    data: &[u8],
    file: &Arc<RowFile>,
    column: usize,
    rows: &RowSet,
    budget: u64,
    mut take: impl FnMut(&ArrayRef),
) -> Result<()> {
    let mut scan = RowScan::new(Arc::clone(file), &[column], rows, 64, budget)?;
    for _ in 0..100_000 {
        match scan.step()? {
            Step::Need(ranges) => {
                assert!(!ranges.is_empty(), "a step requested no ranges");
                for range in ranges {
                    assert!(range.start < range.end && range.end <= data.len() as u64, "{range:?}");
                    let bytes = &data[range.start as usize..range.end as usize];
                    scan.push(range.start, Bytes::copy_from_slice(bytes));
                }
            }
            Step::Ready(Some(batch)) => {
                assert!((1..=64).contains(&batch.num_rows()));
                let column = batch.column(0);
                column.to_data().validate_full().expect("a valid array");
                take(column);
            }
            Step::Ready(None) => return Ok(()),
        }
    }
    panic!("the scan never ends");
}

/// Returns files with every encoding, with and without offset indexes, and with many types.
pub fn seeds() -> Vec<Vec<u8>> {
    let plain = WriterProperties::builder().set_data_page_row_count_limit(8).set_write_batch_size(8);
    let second = plain.clone().set_writer_version(WriterVersion::PARQUET_2_0);
    let encoded = second
        .clone()
        .set_dictionary_enabled(false)
        .set_column_encoding("number".into(), Encoding::DELTA_BINARY_PACKED)
        .set_column_encoding("text".into(), Encoding::DELTA_BYTE_ARRAY)
        .set_column_encoding("fixed".into(), Encoding::BYTE_STREAM_SPLIT)
        .set_column_encoding("flag".into(), Encoding::RLE);
    let mut files: Vec<Vec<u8>> = [
        plain.clone(),
        plain.clone().set_dictionary_enabled(false).set_offset_index_disabled(true),
        second.clone(),
        second.set_offset_index_disabled(true).set_compression(Compression::SNAPPY),
        encoded.clone(),
        encoded
            .set_column_encoding("text".into(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
            .set_compression(Compression::SNAPPY),
    ]
    .map(|properties| table(properties.build()))
    .to_vec();
    files.extend([probe::dates(), probe::many_types(), nested()].map(|batch| probe::write(&batch, plain.clone())));
    files.push(old_times());
    files
}

/// Returns structs, maps, and types that the file's Arrow schema gives the columns.
fn nested() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "a"]));
    let pair =
        |name: &str, values: &ArrayRef| (Arc::new(Field::new(name, values.data_type().clone(), true)), values.clone());
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in 0..3 {
        map.keys().append_value(format!("key {row}"));
        map.values().append_value(row);
        map.append(row != 1).unwrap();
    }
    let words: DictionaryArray<Int8Type> = vec!["x", "y", "x"].into_iter().collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("struct", Arc::new(StructArray::from(vec![pair("number", &numbers), pair("text", &texts)]))),
        ("map", Arc::new(map.finish())),
        ("large", Arc::new(LargeStringArray::from(vec!["a", "b", "c"]))),
        ("view", Arc::new(StringViewArray::from(vec!["a", "b", "a text of more than 12 bytes"]))),
        ("words", Arc::new(words)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Returns a file with types of times that are no longer written.
fn old_times() -> Vec<u8> {
    let schema = "message m {
        optional group s { optional int64 t (TIMESTAMP_MILLIS); }
        optional group l (LIST) { repeated group list { optional int64 element (TIMESTAMP_MICROS); } } }";
    let mut file = Vec::new();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(&mut file, schema, WriterProperties::builder().build().into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let levels: [(&[i16], Option<&[i16]>); 2] = [(&[2, 1, 2], None), (&[3, 3, 1, 0], Some(&[0, 1, 0, 0]))];
    for (defined, repeated) in levels {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<parquet::data_type::Int64Type>().write_batch(&[7, -9], Some(defined), repeated).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    file
}

fn table(properties: WriterProperties) -> Vec<u8> {
    let lists = (0..30).map(|row| (row % 7 > 0).then(|| (0..row % 4).map(Some).collect::<Vec<_>>()));
    let columns: [(&str, ArrayRef); 6] = [
        ("number", Arc::new(Int64Array::from_iter((0..30).map(|i| (i % 7 != 0).then_some(i * i))))),
        ("text", Arc::new(StringArray::from_iter_values((0..30).map(|i| format!("text {}", i % 9))))),
        ("flag", Arc::new(BooleanArray::from_iter((0..30).map(|i| Some(i % 2 == 0))))),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_iter((0..30).map(|i: u32| i.to_le_bytes())).unwrap())),
        ("decimal", Arc::new(Decimal128Array::from_iter((0..30).map(|i| (i % 5 > 0).then_some(i))))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
    for _ in 0..2 {
        writer.write(&batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
    file
}
