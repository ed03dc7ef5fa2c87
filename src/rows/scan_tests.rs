//! Scans of written files: the same rows as a read of everything, from as few bytes as possible.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};

use super::*;
use crate::error::Class;
use crate::page_map::{FileMap, Page};
use crate::parquet::{FIRST_READ, Footer, ParquetFile};
use crate::ranges::Step;
use crate::ranges::tests::drive;
use crate::rows::{RowFile, RowSet};

const ROWS: i64 = 40_000;

fn batch() -> RecordBatch {
    let scattered = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
    let lists = (0..ROWS).map(|row| (row % 7 > 0).then(|| (0..row % 4).map(Some).collect::<Vec<_>>()));
    let columns: [(&str, ArrayRef); 4] = [
        ("number", Arc::new(Int64Array::from_iter_values(0..ROWS))),
        (
            "text",
            Arc::new(StringArray::from_iter(
                (0..ROWS).map(|row| (row % 5 > 0).then(|| format!("{:x}", scattered(row)))),
            )),
        ),
        ("real", Arc::new(Float64Array::from_iter_values((0..ROWS).map(|row| scattered(row) as f64)))),
        ("list", Arc::new(ListArray::from_iter_primitive::<types::Int64Type, _, _>(lists))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_data_page_row_count_limit(2000)
        .set_write_batch_size(250)
        .set_max_row_group_row_count(Some(16_000))
        .set_compression(Compression::ZSTD(Default::default()))
}

fn write(properties: WriterPropertiesBuilder) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch().schema(), Some(properties.build())).unwrap();
    writer.write(&batch()).unwrap();
    writer.close().unwrap();
    file
}

fn open(file: &[u8]) -> Arc<RowFile> {
    Arc::new(drive(file, |fetched| RowFile::open(to_u64(file.len()), fetched)).unwrap().0)
}

/// Reads rows, and returns them with the number of steps that named ranges, and the bytes of these.
fn scan(
    file: &[u8],
    opened: &Arc<RowFile>,
    columns: &[usize],
    rows: &RowSet,
    budget: u64,
) -> (RecordBatch, usize, u64) {
    let mut scan = RowScan::new(Arc::clone(opened), columns, rows, 1000, budget).unwrap();
    let (mut batches, mut trips, mut size) = (Vec::new(), 0, 0);
    loop {
        match scan.step().unwrap() {
            Step::Need(ranges) => {
                assert!(!ranges.is_empty());
                trips += 1;
                for range in ranges {
                    assert!(range.start < range.end && range.end <= to_u64(file.len()));
                    size += range.end - range.start;
                    let bytes = &file[range.start as usize..range.end as usize];
                    // Fetched in two parts.
                    let (left, right) = bytes.split_at(bytes.len() / 3);
                    scan.push(range.start, Bytes::copy_from_slice(left));
                    scan.push(range.start + to_u64(left.len()), Bytes::copy_from_slice(right));
                }
            }
            Step::Ready(Some(batch)) => {
                assert!((1..=1000).contains(&batch.num_rows()));
                batches.push(batch);
            }
            Step::Ready(None) => return (concat_batches(scan.schema(), &batches).unwrap(), trips, size),
        }
    }
}

fn expected(columns: &[usize], rows: &RowSet) -> RecordBatch {
    let all = batch().project(columns).unwrap();
    let parts: Vec<_> =
        rows.ranges().iter().map(|rows| all.slice(rows.start as usize, (rows.end - rows.start) as usize)).collect();
    concat_batches(&all.schema(), &parts).unwrap()
}

fn check(file: &[u8], opened: &Arc<RowFile>, columns: &[usize], rows: &RowSet, budget: u64) -> (usize, u64) {
    let (found, trips, size) = scan(file, opened, columns, rows, budget);
    let expected = expected(columns, rows);
    assert_eq!(found.num_rows(), expected.num_rows());
    for (found, expected) in found.columns().iter().zip(expected.columns()) {
        match (found.data_type(), expected.data_type()) {
            // The element is named by the file.
            (DataType::List(_), DataType::List(_)) => {
                use arrow_array::cast::AsArray;
                let (found, expected) = (found.as_list::<i32>(), expected.as_list::<i32>());
                assert!(found.iter().eq(expected.iter()));
            }
            _ => assert_eq!(found, expected),
        }
    }
    (trips, size)
}

fn some(rows: &[Range<u64>]) -> RowSet {
    RowSet::of(rows.to_vec())
}

fn one(rows: Range<u64>) -> RowSet {
    std::iter::once(rows).collect()
}

fn sets() -> Vec<RowSet> {
    vec![
        RowSet::all(ROWS as u64),
        some(&[]),
        one(15_999..16_001),
        some(&[0..1, 2..3, 17..18, 19_999..22_700, 39_999..40_000]),
        (0..ROWS as u64).filter(|row| row % 3 == 0).map(|row| row..row + 1).collect(),
        (0..ROWS as u64).filter(|row| row % 4001 == 5).map(|row| row..row + 1).collect(),
    ]
}

#[test]
fn scans_return_exactly_the_rows() {
    let zstd = properties();
    let files = [
        write(zstd.clone()),
        write(zstd.clone().set_offset_index_disabled(true)),
        write(zstd.clone().set_writer_version(WriterVersion::PARQUET_2_0)),
        write(zstd.clone().set_writer_version(WriterVersion::PARQUET_2_0).set_offset_index_disabled(true)),
        write(zstd.clone().set_dictionary_enabled(false).set_compression(Compression::UNCOMPRESSED)),
        write(WriterProperties::builder()),
    ];
    for file in &files {
        let opened = open(file);
        for rows in sets() {
            for (columns, budget) in [(&[0, 1, 2, 3][..], BUDGET), (&[3, 0], 1), (&[], BUDGET)] {
                check(file, &opened, columns, &rows, budget);
            }
        }
    }
}

#[test]
fn only_pages_with_wanted_rows_are_fetched() {
    let file = write(properties().set_dictionary_enabled(false));
    let opened = open(&file);
    let (trips, size) = check(&file, &opened, &[0, 1, 2, 3], &one(20_000..20_001), BUDGET);
    assert_eq!(trips, 1, "the offset index came with the footer");
    assert!(size < to_u64(file.len()) / 15, "{size} of {}", file.len());
    let estimate = opened.compressed_size(&[0, 1, 2, 3], &one(20_000..20_001)).unwrap();
    assert_eq!(estimate, size);
    // Far from the end, the offset index is fetched first, for all row groups together.
    let footer = drive(&file, |fetched| Footer::read(to_u64(file.len()), FIRST_READ, fetched)).unwrap().0;
    let bare = Arc::new(RowFile::from_footer(footer.bytes, to_u64(file.len())).unwrap());
    let rows = some(&[5..6, 20_000..20_001, 36_000..36_001]);
    assert_eq!(check(&file, &bare, &[1, 2], &rows, BUDGET).0, 2);
    assert_eq!(check(&file, &bare, &[1, 2], &rows, BUDGET).0, 1, "the offset index is known");
    assert_eq!(check(&file, &bare, &[1, 2], &rows, 1).0, 3, "one step for each row group");
}

#[test]
fn decoded_sizes_count_the_values_of_dictionaries() {
    let all = RowSet::all(ROWS as u64);
    for dictionary in [true, false] {
        let opened = open(&write(properties().set_dictionary_enabled(dictionary)));
        let numbers = opened.decoded_size(&[0], &all).unwrap();
        assert!(numbers >= 8 * ROWS as u64, "{numbers}");
        assert!(opened.decoded_size(&[0], &one(0..10)).unwrap() <= numbers / (ROWS as u64 / 10) + 8);
        assert!(opened.has_page_index(0).unwrap());
    }
    let opened = open(&write(properties().set_offset_index_disabled(true)));
    assert!(!opened.has_page_index(0).unwrap());
    assert!(opened.decoded_size(&[9], &all).is_err());
}

#[test]
fn maps_of_pages_replace_footers() {
    let file = write(properties());
    let footer = drive(&file, |fetched| Footer::read(to_u64(file.len()), FIRST_READ, fetched)).unwrap().0;
    let parquet = ParquetFile::open(footer).unwrap();
    let arrow = parquet.metadata.key_values().find(|(key, _)| *key == "ARROW:schema").and_then(|(_, value)| value);
    let map = drive(&file, |fetched| FileMap::of(&parquet, arrow.map(str::as_bytes), fetched)).unwrap().0;
    let opened = Arc::new(RowFile::from_map(&map).unwrap());
    assert_eq!(opened.schema(), open(&file).schema());
    for rows in sets() {
        assert!(check(&file, &opened, &[0, 1, 2, 3], &rows, BUDGET).0 <= 1);
    }
    // A part of the map has only these row groups and columns.
    let mut part = map.clone();
    part.row_groups.remove(0);
    part.row_groups.iter_mut().for_each(|group| drop(group.chunks.remove(2)));
    let opened = Arc::new(RowFile::from_map(&part).unwrap());
    check(&file, &opened, &[1, 3], &one(16_000..16_010), BUDGET);
    for (columns, rows) in [(&[1][..], one(15_999..16_000)), (&[2], one(16_000..16_001))] {
        let error = RowScan::new(Arc::clone(&opened), columns, &rows, 10, BUDGET).and_then(|mut scan| scan.step());
        assert_eq!(error.unwrap_err().class(), Class::Value);
    }
}

#[test]
fn wrong_offset_indexes_are_ignored() {
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let file = write(properties().set_writer_version(version));
        for column in 0..4 {
            for damage in [shift, merge, late] {
                let opened = open(&file);
                let rows = some(&[5400..5401, 9700..9720]);
                // Learns the pages.
                check(&file, &opened, &[column], &rows, BUDGET);
                opened.damage(0, column, damage);
                let (trips, _) = check(&file, &opened, &[column], &rows, BUDGET);
                assert_eq!(trips, 2, "the whole chunk is fetched");
                assert!(opened.pages(0, column).is_some_and(|pages| pages.is_none()));
                check(&file, &opened, &[column], &rows, BUDGET);
            }
        }
    }
}

/// Moves the first row of a page, so that its neighbors have other numbers of rows.
#[expect(clippy::ptr_arg, reason = "one type for all damages")]
fn shift(pages: &mut Vec<Page>) {
    pages[2].first_row += 7;
}

/// Joins two pages into one.
fn merge(pages: &mut Vec<Page>) {
    let next = pages.remove(3);
    pages[2].len += next.len;
}

/// Moves the boundary between two pages.
#[expect(clippy::ptr_arg, reason = "one type for all damages")]
fn late(pages: &mut Vec<Page>) {
    pages[2].len += 3;
    pages[3].offset += 3;
    pages[3].len -= 3;
}

#[test]
fn rows_and_columns_that_do_not_exist_are_errors() {
    let file = write(properties());
    let opened = open(&file);
    let start =
        |columns: &[usize], rows: &RowSet| RowScan::new(Arc::clone(&opened), columns, rows, 10, BUDGET).map(drop);
    assert!(start(&[0], &RowSet::all(ROWS as u64)).is_ok());
    assert!(start(&[0], &RowSet::all(ROWS as u64 + 1)).is_err());
    assert!(start(&[4], &RowSet::all(1)).is_err());
    assert!(opened.unreadable(4).is_err());
}

#[test]
fn dictionaries_and_old_types_are_refused() {
    let words: DictionaryArray<types::Int32Type> = ["a", "b", "a"].into_iter().collect();
    let schema = Schema::new(vec![
        Field::new("dictionary", words.data_type().clone(), true),
        Field::new("view", DataType::Utf8View, true),
        Field::new("plain", DataType::Int32, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(words),
        Arc::new(StringViewArray::from(vec!["a", "b", "c"])),
        Arc::new(Int32Array::from(vec![1, 2, 3])),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let opened = open(&file);
    assert!(opened.unreadable(0).unwrap().is_some_and(|reason| reason.contains("Dictionary")));
    assert!(opened.unreadable(1).unwrap().is_some_and(|reason| reason.contains("Utf8View")));
    assert_eq!(opened.unreadable(2).unwrap(), None);
    let error = RowScan::new(Arc::clone(&opened), &[2, 0], &RowSet::all(3), 10, BUDGET).unwrap_err();
    assert_eq!(error.class(), Class::Unsupported);
}
