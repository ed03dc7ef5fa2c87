//! Scans of random rows of random files return the same rows as a full read by the `parquet` crate.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use arrow_array::*;
use arrow_schema::{Field, Schema};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parsieve::ranges::{Fetched, Step};
use parsieve::rows::{RowFile, RowScan, RowSet};
use proptest::prelude::*;

/// How a file is written.
#[derive(Debug, Clone)]
struct Layout {
    rows: usize,
    group_rows: usize,
    page_rows: usize,
    page_bytes: usize,
    dictionary: bool,
    second_version: bool,
    index: bool,
    compression: Compression,
    /// One in this number of values is null.
    nulls: u64,
}

fn layouts() -> impl Strategy<Value = Layout> {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(Default::default()),
        Compression::LZ4_RAW,
        Compression::LZ4,
        Compression::GZIP(Default::default()),
        Compression::BROTLI(Default::default()),
    ];
    let sizes = (1usize..400, 1usize..200, 1usize..50, 1usize..2000);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), prop::sample::select(codecs.to_vec()), 1u64..9);
    (sizes, flags).prop_map(
        |((rows, group_rows, page_rows, page_bytes), (dictionary, second_version, index, compression, nulls))| Layout {
            rows,
            group_rows,
            page_rows,
            page_bytes,
            dictionary,
            second_version,
            index,
            compression,
            nulls,
        },
    )
}

fn batch(layout: &Layout) -> RecordBatch {
    let mix = |row: usize, salt: u64| {
        ((row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 20
    };
    let is_null = |row: usize, salt: u64| mix(row, salt) % layout.nulls == 0;
    let rows = 0..layout.rows;
    let text = |row: usize| "x".repeat((mix(row, 3) % 20) as usize) + &(row % 13).to_string();
    let mut lists = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    let mut words = ListBuilder::new(StringBuilder::new());
    for row in rows.clone() {
        for item in 0..mix(row, 5) % 4 {
            for value in 0..mix(row, 6 + item) % 3 {
                lists.values().values().append_option((value > 0).then_some(row as i32));
            }
            lists.values().append(mix(row, 9 + item) % 5 > 0);
        }
        lists.append(!is_null(row, 10));
        (0..mix(row, 12) % 3).for_each(|word| words.values().append_option((word > 0).then(|| text(row))));
        words.append(!is_null(row, 13));
    }
    let words: ArrayRef = Arc::new(words.finish());
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter(rows.clone().map(|row| (!is_null(row, 1)).then(|| mix(row, 2) as i64))));
    let inner = vec![
        Field::new("words", words.data_type().clone(), true),
        Field::new("number", numbers.data_type().clone(), true),
    ];
    let valid = rows.clone().map(|row| !is_null(row, 14)).collect::<Vec<bool>>();
    let group = StructArray::new(inner.into(), vec![words, Arc::clone(&numbers)], Some(valid.into()));
    let columns: [(&str, ArrayRef); 7] = [
        ("number", numbers),
        ("text", Arc::new(StringArray::from_iter(rows.clone().map(|row| (!is_null(row, 4)).then(|| text(row)))))),
        ("flag", Arc::new(BooleanArray::from_iter(rows.clone().map(|row| (!is_null(row, 7)).then_some(row % 3 == 0))))),
        ("real", Arc::new(Float32Array::from_iter_values(rows.clone().map(|row| row as f32)))),
        (
            "decimal",
            Arc::new(Decimal128Array::from_iter(rows.map(|row| (!is_null(row, 8)).then(|| mix(row, 9).into())))),
        ),
        ("lists", Arc::new(lists.finish())),
        ("group", Arc::new(group)),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), *name != "real")).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn write(layout: &Layout) -> Bytes {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(layout.group_rows))
        .set_data_page_row_count_limit(layout.page_rows)
        .set_data_page_size_limit(layout.page_bytes)
        .set_write_batch_size(7)
        .set_dictionary_enabled(layout.dictionary)
        .set_offset_index_disabled(!layout.index)
        .set_compression(layout.compression)
        .set_writer_version(if layout.second_version {
            WriterVersion::PARQUET_2_0
        } else {
            WriterVersion::PARQUET_1_0
        });
    let batch = batch(layout);
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    file.into()
}

fn open(file: &Bytes) -> RowFile {
    let mut fetched = Fetched::new();
    loop {
        match RowFile::open(file.len() as u64, &fetched).unwrap() {
            Step::Ready(file) => return file,
            Step::Need(ranges) => ranges.into_iter().for_each(|range| {
                fetched.insert(range.start, file[range.start as usize..range.end as usize].to_vec());
            }),
        }
    }
}

fn scan(file: &Bytes, mut scan: RowScan) -> RecordBatch {
    let mut batches = Vec::new();
    loop {
        match scan.step().unwrap() {
            Step::Need(ranges) => ranges.into_iter().for_each(|range| {
                scan.push(range.start, file.slice(range.start as usize..range.end as usize));
            }),
            Step::Ready(Some(batch)) => batches.push(batch),
            Step::Ready(None) => return concat_batches(scan.schema(), &batches).unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn scans_return_the_rows_of_a_full_read(
        layout in layouts(),
        ranges in prop::collection::vec((0u64..400, 1u64..40), 0..9),
        every in 1u64..50,
        columns in prop::sample::subsequence((0..7usize).collect::<Vec<_>>(), 1..=7).prop_shuffle(),
        batch_rows in 1usize..100,
        budget in prop::sample::select(vec![1, 2000, 1 << 24]),
    ) {
        let file = write(&layout);
        let reader = ParquetRecordBatchReaderBuilder::try_new(file.clone()).unwrap().build().unwrap();
        let schema = reader.schema();
        let all = concat_batches(&schema, &reader.collect::<Result<Vec<_>, _>>().unwrap()).unwrap();
        let opened = Arc::new(open(&file));
        prop_assert_eq!(opened.num_rows(), layout.rows as u64);
        let found_schema = opened.schema();
        prop_assert_eq!(found_schema.fields(), schema.fields());
        let num_rows = layout.rows as u64;
        let scattered = (0..num_rows).filter(|row| row % every == 0).map(|row| row..row + 1);
        let wanted = ranges.into_iter().map(|(start, len)| start.min(num_rows)..(start + len).min(num_rows));
        for rows in [RowSet::of(wanted.collect()), scattered.collect(), RowSet::all(num_rows)] {
            let found = scan(&file, RowScan::new(Arc::clone(&opened), &columns, &rows, batch_rows, budget).unwrap());
            let part = |rows: &Range<u64>| all.slice(rows.start as usize, (rows.end - rows.start) as usize);
            let parts: Vec<_> = rows.ranges().iter().map(part).collect();
            let expected = concat_batches(&all.schema(), &parts).unwrap().project(&columns).unwrap();
            prop_assert_eq!(found, expected);
        }
    }
}
