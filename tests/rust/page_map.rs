//! Maps of files by the `parquet` crate and other writers: the same chunks and pages, readable rows, and a bounded size.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::Schema;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parsieve::page_map::{BLOCK_BYTES, Builder, FileMap, PageMap, Selection};
use parsieve::parquet::{FIRST_READ, Footer, ParquetFile};
use parsieve::ranges::{Fetched, Step};

/// Runs a step on a complete file.
fn drive<T>(file: &[u8], mut step: impl FnMut(&Fetched) -> parsieve::Result<Step<T>>) -> parsieve::Result<T> {
    let mut fetched = Fetched::new();
    loop {
        match step(&fetched)? {
            Step::Ready(value) => return Ok(value),
            Step::Need(ranges) => ranges.into_iter().for_each(|range| {
                fetched.insert(range.start, file[range.start as usize..range.end as usize].to_vec());
            }),
        }
    }
}

fn map_of(file: &[u8]) -> parsieve::Result<FileMap> {
    let footer = drive(file, |fetched| Footer::read(file.len() as u64, FIRST_READ, fetched))?;
    let opened = ParquetFile::open(footer)?;
    drive(file, |fetched| FileMap::of(&opened, None, fetched))
}

fn batch(rows: std::ops::Range<i64>) -> RecordBatch {
    let scattered = |row: i64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
    let lists = (rows.clone()).map(|row| Some((0..row % 4).map(Some).collect::<Vec<_>>()));
    let columns: [(&str, ArrayRef); 5] = [
        ("sequence", Arc::new(Int64Array::from_iter_values(rows.clone()))),
        (
            "few",
            Arc::new(StringArray::from_iter(
                rows.clone().map(|row| (row % 5 > 0).then(|| format!("value {}", row % 97))),
            )),
        ),
        ("text", Arc::new(StringArray::from_iter_values(rows.clone().map(|row| format!("{:x}", scattered(row)))))),
        ("real", Arc::new(Float64Array::from_iter_values(rows.clone().map(|row| scattered(row) as f64)))),
        ("list", Arc::new(ListArray::from_iter_primitive::<types::Int64Type, _, _>(lists))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn write(properties: WriterProperties, groups: &[i64]) -> Vec<u8> {
    let schema: Arc<Schema> = batch(0..0).schema();
    let mut file = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut file, schema, Some(properties)).unwrap();
    let mut first = 0;
    for rows in groups {
        writer.write(&batch(first..first + rows)).unwrap();
        writer.flush().unwrap();
        first += rows;
    }
    writer.close().unwrap();
    file
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let properties = || WriterProperties::builder().set_data_page_row_count_limit(2000);
    let zstd = Compression::ZSTD(Default::default());
    vec![
        ("plain", write(properties().set_dictionary_enabled(false).build(), &[30_000, 30_000, 7])),
        ("zstd", write(properties().set_compression(zstd).build(), &[50_000, 49_999])),
        ("large pages", write(WriterProperties::builder().set_compression(Compression::SNAPPY).build(), &[60_000])),
        (
            "pages of bytes",
            write(properties().set_data_page_size_limit(3000).set_write_batch_size(64).build(), &[40_000; 3]),
        ),
        ("version 2", write(properties().set_writer_version(WriterVersion::PARQUET_2_0).build(), &[10_000; 9])),
        ("no offset index", write(properties().set_offset_index_disabled(true).build(), &[20_000; 2])),
        ("one row", write(properties().build(), &[1])),
        ("no rows", write(properties().build(), &[])),
    ]
}

fn metadata_of(file: &[u8]) -> ParquetMetaData {
    let reader = ParquetMetaDataReader::new().with_offset_index_policy(PageIndexPolicy::Optional);
    reader.parse_and_finish(&Bytes::copy_from_slice(file)).unwrap()
}

/// Checks that a map has exactly the chunks and pages that the `parquet` crate finds.
fn check(name: &str, map: &FileMap, theirs: &ParquetMetaData) {
    assert_eq!(map.row_groups.len(), theirs.num_row_groups(), "{name}");
    for (group, peer) in map.row_groups.iter().zip(theirs.row_groups()) {
        assert_eq!(group.num_rows as i64, peer.num_rows(), "{name}");
        for (chunk, column) in group.chunks.iter().zip(peer.columns()) {
            assert_eq!((chunk.start, chunk.len), column.byte_range(), "{name}");
            assert_eq!(chunk.num_values as i64, column.num_values(), "{name}");
            assert_eq!(chunk.data_start() as i64, column.data_page_offset(), "{name}");
            let encodings = column.encodings().fold(0, |set, encoding| set | 1 << encoding as i32);
            assert_eq!(chunk.encodings, encodings, "{name}");
            assert_eq!(chunk.dictionary_len.is_some(), column.dictionary_page_offset().is_some(), "{name}");
            let peer = theirs.offset_index().and_then(|index| index.get(group.number)?.get(chunk.column));
            let peer = peer.map(|index| index.page_locations()).filter(|pages| !pages.is_empty());
            let fields = |pages: &Vec<_>| -> Vec<_> {
                let page =
                    |page: &parsieve::page_map::Page| (page.offset as i64, page.len as i32, page.first_row as i64);
                pages.iter().map(page).collect()
            };
            let locations = |pages: &Vec<parquet::file::page_index::offset_index::PageLocation>| -> Vec<_> {
                pages.iter().map(|page| (page.offset, page.compressed_page_size, page.first_row_index)).collect()
            };
            assert_eq!(chunk.pages.as_ref().map(fields), peer.map(locations), "{name}");
        }
    }
}

#[test]
fn maps_have_the_chunks_and_pages_that_the_parquet_crate_finds() {
    for (name, file) in files() {
        check(name, &map_of(&file).unwrap(), &metadata_of(&file));
    }
}

#[test]
fn rows_are_read_with_the_footer_of_a_map() {
    for (name, file) in files() {
        let footer = map_of(&file).unwrap().footer().unwrap();
        let metadata = ParquetMetaDataReader::decode_metadata(&footer).unwrap();
        let read = |metadata: ParquetMetaData| -> Vec<RecordBatch> {
            let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new()).unwrap();
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(Bytes::from(file.clone()), metadata);
            builder.build().unwrap().map(Result::unwrap).collect()
        };
        let columns = |batches: Vec<RecordBatch>| -> Vec<Vec<ArrayRef>> {
            batches.iter().map(|batch| batch.columns().to_vec()).collect()
        };
        assert_eq!(columns(read(metadata)), columns(read(metadata_of(&file))), "{name}");
    }
}

#[test]
fn a_map_is_small() {
    let many = |rows: i64, properties: WriterProperties| write(properties, &[rows; 6]);
    let properties = || WriterProperties::builder().set_data_page_row_count_limit(500).set_write_batch_size(500);
    let mut files = files();
    files.push(("many pages", many(50_000, properties().build())));
    files.push(("many plain pages", many(50_000, properties().set_dictionary_enabled(false).build())));
    for (name, file) in files {
        let map = map_of(&file).unwrap();
        let chunks = map.row_groups.iter().flat_map(|group| &group.chunks);
        let (mut num_chunks, mut num_pages) = (0, 0);
        for chunk in chunks {
            num_chunks += 1;
            num_pages += chunk.pages.as_ref().map_or(0, Vec::len);
        }
        // Ten slices, so that the schema and the directory count as they do in a table.
        let mut builder = Builder::new();
        (0..10).for_each(|slice| builder.add(slice, &map).unwrap());
        let (directory, blocks) = builder.finish(10).unwrap();
        let size = directory.len() + blocks.len() - map.schema.bytes().len();
        let bound = 10 * (24 * num_chunks + 4 * num_pages) + 128;
        assert!(
            size <= bound,
            "{name}: {size} bytes for 10 x {num_chunks} chunks and {num_pages} pages, {bound} allowed"
        );
    }
}

#[test]
fn a_directory_of_many_slices_is_small() {
    let map = map_of(&files().swap_remove(1).1).unwrap();
    let (slices, mut builder) = (20_000, Builder::new());
    let mut blocks = 0;
    for slice in 0..slices {
        builder.add(slice, &map).unwrap();
        blocks += builder.take_blocks().len();
    }
    let (directory, rest) = builder.finish(slices).unwrap();
    blocks += rest.len();
    assert!(directory.len() < blocks / 2000, "{} bytes for blocks of {blocks}", directory.len());
    let opened = PageMap::open(&directory).unwrap();
    assert_eq!(opened.blocks_len(), blocks as u64);
    let Step::Need(ranges) = opened.file(12_345, Selection::default(), &Fetched::new()).unwrap() else {
        panic!("a block must be read")
    };
    assert!(ranges.len() == 1 && ranges[0].end - ranges[0].start <= BLOCK_BYTES as u64);
}

#[test]
#[expect(clippy::print_stdout, reason = "says which files are missing")]
fn files_of_other_writers_have_the_same_chunks() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/parquet-testing");
    let folders = [folder.to_owned(), format!("{folder}/no-bloom")];
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut maps = 0;
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let file = std::fs::read(entry.path()).unwrap_or_default();
        match map_of(&file) {
            // Dremio's use of field 15 as a list, which the `parquet` crate rejects.
            Ok(map) if !name.starts_with("dict-page-offset-zero") => {
                check(&name, &map, &metadata_of(&file));
                maps += 1;
            }
            Ok(_) => {}
            Err(_) => assert!(!name.ends_with(".parquet"), "{name} has no map"),
        }
    }
    if maps == 0 {
        println!("skipped: the data files of apache/parquet-testing are not next to the checkout");
    }
}
