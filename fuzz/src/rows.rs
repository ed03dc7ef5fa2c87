//! Scans of the rows of damaged files. Either they fail, or they return the requested number of rows, in valid arrays.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow_array::{Decimal128Array, types::Int64Type};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
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
    files.extend([probe::dates(), probe::many_types()].map(|batch| probe::write(&batch, plain.clone())));
    files
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
