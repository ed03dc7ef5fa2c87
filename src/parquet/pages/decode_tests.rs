//! Compares chunks of other writers and of the `parquet` crate with the reader of that crate.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::reader::ColumnReader;
use parquet::data_type as types;
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;

use super::*;
use crate::hash::hash_bytes;
use crate::parquet::{Physical, fixtures};

/// The hashes of the distinct values in a chunk, sorted.
#[derive(Debug, PartialEq)]
pub(crate) struct ChunkHashes {
    pub(crate) hashes: Vec<u64>,
    pub(crate) num_values: u64,
}

fn our_hashes(file: &[u8], row_group: usize, column: usize) -> Result<ChunkHashes> {
    let opened = fixtures::open(file)?;
    let range = opened.chunk_range(row_group, column)?;
    let bytes = &file[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
    hash_chunk(&opened, (row_group, column), bytes, None)
}

/// Hashes a chunk, and checks that feeding it in parts of any size gives the same result or error.
pub(crate) fn hash_chunk(
    file: &ParquetFile,
    chunk: (usize, usize),
    bytes: &[u8],
    decryptor: Option<&dyn Decryptor>,
) -> Result<ChunkHashes> {
    let in_parts = |part_len| hash_in_parts(file, chunk, (bytes, part_len), decryptor);
    let complete = in_parts(bytes.len().max(1));
    for part_len in [1, 13, 77, 100, 4000] {
        if bytes.len() / part_len < 20_000 {
            assert_eq!(complete, in_parts(part_len), "parts of {part_len}");
        }
    }
    complete
}

fn hash_in_parts(
    file: &ParquetFile,
    chunk: (usize, usize),
    (bytes, part_len): (&[u8], usize),
    decryptor: Option<&dyn Decryptor>,
) -> Result<ChunkHashes> {
    let mut scan = file.scan_chunk(chunk.0, chunk.1, InstructionSet::detect())?;
    let mut hashes = BTreeSet::new();
    bytes.chunks(part_len).try_for_each(|bytes| {
        scan.feed(file, bytes, decryptor, &mut |batch| {
            hashes.extend(batch);
            // A damaged page may claim billions of values.
            if hashes.len() < 100_000 { Ok(()) } else { Err(Error::new(ErrorKind::TooManyValues { ndv: 100_000 })) }
        })
    })?;
    Ok(ChunkHashes { num_values: scan.finish()?.num_values, hashes: hashes.into_iter().collect() })
}

#[test]
fn an_incomplete_chunk_is_an_error() {
    let (version, codec) = (WriterVersion::PARQUET_2_0, Compression::SNAPPY);
    let values = (0..90).map(Some).collect();
    let file = write(&Recipe { values, version, codec, encoding: 0, dictionary: false, page_rows: 7 });
    let opened = fixtures::open(&file).unwrap();
    let range = opened.chunk_range(1, 1).unwrap();
    let bytes = &file[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
    for cut in 0..bytes.len() {
        let mut scan = opened.scan_chunk(1, 1, InstructionSet::detect()).unwrap();
        scan.feed(&opened, &bytes[..cut], None, &mut |_| Ok(())).unwrap();
        assert_eq!(scan.left().start, range.start + to_u64(cut));
        assert!(matches!(scan.finish().unwrap_err().kind(), ErrorKind::Truncated { .. }), "cut at {cut}");
    }
    let longer = [bytes, b"what follows"].concat();
    assert_eq!(hash_chunk(&opened, (1, 1), &longer, None).unwrap().hashes.len(), 90);
}

#[test]
fn only_a_page_of_nulls_does_not_need_the_dictionary() {
    let (version, codec) = (WriterVersion::PARQUET_2_0, Compression::SNAPPY);
    let values = (0..90).map(Some).collect();
    let file = write(&Recipe { values, version, codec, encoding: 0, dictionary: false, page_rows: 7 });
    let mut chunk = fixtures::open(&file).unwrap().scan_chunk(1, 1, InstructionSet::detect()).unwrap().chunk;
    for code in [encoding::PLAIN_DICTIONARY, encoding::RLE_DICTIONARY] {
        for (bytes, min_values, is_null) in
            [(&[][..], 0, true), (&[0], 0, true), (&[], 1, false), (&[0], 1, false), (&[1, 6, 0], 0, false)]
        {
            let values = (PageValues { all: 3, present: None }, min_values);
            let result = chunk.values(code, bytes, values, &mut |_| panic!("there are no hashes"));
            let expected = if is_null { Ok(()) } else { Err(Error::new(ErrorKind::File(FileKind::NoDictionary))) };
            assert_eq!(result, expected, "{bytes:?} with {min_values} values");
        }
    }
}

#[test]
fn a_page_with_fewer_values_than_it_must_have_is_an_error() {
    let (version, codec) = (WriterVersion::PARQUET_2_0, Compression::UNCOMPRESSED);
    let values = (0..90).map(Some).collect();
    let file = write(&Recipe { values, version, codec, encoding: 0, dictionary: false, page_rows: 7 });
    let mut chunk = fixtures::open(&file).unwrap().scan_chunk(0, 1, InstructionSet::detect()).unwrap().chunk;
    for (len, stated, min_values) in [(16, 3, 3), (16, 3, 2), (0, 3, 1), (0, 3, 0)] {
        let values = (PageValues { all: stated, present: None }, min_values);
        let found = to_u64(len / 8);
        let expected = if found < u64::from(min_values) {
            Err(Error::new(ErrorKind::File(FileKind::ValueCount { stated: min_values.into(), found })))
        } else {
            Ok(())
        };
        assert_eq!(chunk.values(encoding::PLAIN, &[7; 16][..len], values, &mut |_| Ok(())), expected, "{len} bytes");
    }
}

#[test]
fn guesses_of_an_earlier_dictionary_are_remembered() {
    let (version, codec) = (WriterVersion::PARQUET_2_0, Compression::UNCOMPRESSED);
    let values = (0..90).map(Some).collect();
    let file = write(&Recipe { values, version, codec, encoding: 0, dictionary: false, page_rows: 7 });
    let kind = PageKind::Dictionary { num_values: 2, encoding: encoding::PLAIN };
    let header = PageHeader { kind, uncompressed_len: 16, stored_len: 16, len: 0 };
    let mut chunk = fixtures::open(&file).unwrap().scan_chunk(0, 1, InstructionSet::detect()).unwrap().chunk;
    let add_dictionary = |chunk: &mut ChunkDecoder| {
        chunk.page(&header, &[1; 16], &mut |_| Ok(())).unwrap();
        chunk.has_guesses
    };
    assert!(!add_dictionary(&mut chunk));
    assert!(!add_dictionary(&mut chunk));
    // An index of 40 bits is too wide, so all entries count as used.
    let values = (PageValues { all: 1, present: Some(1) }, 1);
    chunk.values(encoding::RLE_DICTIONARY, &[40, 2, 0], values, &mut |_| Ok(())).unwrap();
    assert!(add_dictionary(&mut chunk));
    assert!(add_dictionary(&mut chunk));
}

#[test]
fn a_chunk_ends_before_the_end_of_the_data() {
    let (version, codec) = (WriterVersion::PARQUET_2_0, Compression::UNCOMPRESSED);
    let file = write(&Recipe { values: vec![Some(1)], version, codec, encoding: 0, dictionary: false, page_rows: 7 });
    let opened = fixtures::open(&file).unwrap();
    let chunk = opened.metadata.chunk(1, 8).unwrap().meta.as_ref().unwrap();
    let range = chunk.data(opened.data_end()).unwrap();
    assert_eq!(chunk.data(range.end), Ok(range.clone()));
    let error = chunk.data(range.end - 1).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::File(FileKind::OutsideFile { .. })), "{error}");
}

/// Returns the distinct values as read by the `parquet` crate, in plain encoding.
fn peer_values(file: &SerializedFileReader<Bytes>, row_group: usize, column: usize) -> Option<BTreeSet<Vec<u8>>> {
    fn all<T: types::DataType>(mut reader: parquet::column::reader::ColumnReaderImpl<T>) -> Option<BTreeSet<Vec<u8>>> {
        let mut values = BTreeSet::new();
        loop {
            let (mut defs, mut reps, mut batch) = (Vec::new(), Vec::new(), Vec::new());
            let read = reader.read_records(1000, Some(&mut defs), Some(&mut reps), &mut batch).ok()?;
            values.extend(batch.iter().map(|value| types::AsBytes::as_bytes(value).to_vec()));
            if read == (0, 0, 0) {
                return Some(values);
            }
        }
    }
    match file.get_row_group(row_group).ok()?.get_column_reader(column).ok()? {
        ColumnReader::BoolColumnReader(_) => None,
        ColumnReader::Int32ColumnReader(reader) => all(reader),
        ColumnReader::Int64ColumnReader(reader) => all(reader),
        ColumnReader::Int96ColumnReader(reader) => all(reader),
        ColumnReader::FloatColumnReader(reader) => all(reader),
        ColumnReader::DoubleColumnReader(reader) => all(reader),
        ColumnReader::ByteArrayColumnReader(reader) => all(reader),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => all(reader),
    }
}

fn hashes(values: &BTreeSet<Vec<u8>>) -> Vec<u64> {
    let mut hashes: Vec<_> = values.iter().map(|value| hash_bytes(value)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

#[test]
fn real_chunks_contain_the_values_that_the_parquet_crate_reads() {
    for (name, file) in fixtures::files() {
        let Ok(opened) = fixtures::open(&file) else { continue };
        if opened.algorithm().is_some() {
            continue;
        }
        let peer = SerializedFileReader::new(Bytes::copy_from_slice(&file));
        for row_group in 0..opened.metadata.row_groups().len() {
            for (column, leaf) in opened.metadata.leaves().iter().enumerate() {
                let actual = our_hashes(&file, row_group, column);
                if leaf.physical == Physical::Boolean {
                    assert!(matches!(actual.unwrap_err().kind(), ErrorKind::File(FileKind::NoHash { .. })), "{name}");
                    continue;
                }
                let actual = actual.unwrap_or_else(|error| panic!("{name}, column {column}: {error}"));
                let Ok(peer) = &peer else {
                    assert!(name.starts_with("dict-page-offset-zero"), "{name}");
                    assert_eq!(actual.hashes, [hash_bytes(&1552i32.to_le_bytes())]);
                    continue;
                };
                let Some(values) = peer_values(peer, row_group, column) else { panic!("{name}: the peer reads it") };
                assert_eq!(actual.hashes, hashes(&values), "{name}, column {column}");
            }
        }
    }
}

/// Describes a file with one column per physical type, in one encoding, codec and page version.
#[derive(Debug, Clone)]
struct Recipe {
    values: Vec<Option<i64>>,
    version: WriterVersion,
    codec: Compression,
    encoding: usize,
    dictionary: bool,
    page_rows: usize,
}

const SCHEMA: &str = "message m {
    OPTIONAL INT32 a; OPTIONAL INT64 b; OPTIONAL FLOAT c; OPTIONAL DOUBLE d; OPTIONAL INT96 e;
    OPTIONAL BYTE_ARRAY f; OPTIONAL FIXED_LEN_BYTE_ARRAY (5) g; REQUIRED INT64 h;
    OPTIONAL group list (LIST) { REPEATED group list { OPTIONAL BYTE_ARRAY element; } }
}";

/// Returns the encodings other than plain that a column supports.
fn encodings(column: usize) -> &'static [Encoding] {
    match column {
        0 | 1 | 7 => &[Encoding::PLAIN, Encoding::DELTA_BINARY_PACKED, Encoding::BYTE_STREAM_SPLIT],
        2 | 3 => &[Encoding::PLAIN, Encoding::BYTE_STREAM_SPLIT],
        5 | 8 => &[Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY],
        6 => &[Encoding::PLAIN, Encoding::DELTA_BYTE_ARRAY, Encoding::BYTE_STREAM_SPLIT],
        _ => &[Encoding::PLAIN],
    }
}

fn text(value: i64) -> Vec<u8> {
    "shared prefix, ".bytes().chain(value.to_string().bytes()).take(4 + value.unsigned_abs() as usize % 30).collect()
}

fn write(recipe: &Recipe) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(SCHEMA).unwrap());
    let mut properties = WriterProperties::builder()
        .set_writer_version(recipe.version)
        .set_compression(recipe.codec)
        .set_data_page_row_count_limit(recipe.page_rows)
        .set_write_batch_size(recipe.page_rows)
        // A small dictionary limit makes the writer fall back to the other encoding in the middle of a chunk.
        .set_dictionary_page_size_limit(200)
        .set_dictionary_enabled(recipe.dictionary);
    let paths = ["a", "b", "c", "d", "e", "f", "g", "h", "list.list.element"];
    for (column, path) in paths.iter().enumerate() {
        let choice = encodings(column);
        let path = parquet::schema::types::ColumnPath::from(path.split('.').map(str::to_owned).collect::<Vec<_>>());
        properties = properties.set_column_encoding(path, choice[recipe.encoding % choice.len()]);
    }
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema, Arc::new(properties.build())).unwrap();
    let present: Vec<i64> = recipe.values.iter().flatten().copied().collect();
    let defs: Vec<i16> = recipe.values.iter().map(|value| i16::from(value.is_some())).collect();
    for _ in 0..2 {
        let mut group = writer.next_row_group().unwrap();
        macro_rules! column {
            ($kind:ty, $value:expr) => {{
                let mut column = group.next_column().unwrap().unwrap();
                let values: Vec<_> = present.iter().map($value).collect();
                column.typed::<$kind>().write_batch(&values, Some(&defs), None).unwrap();
                column.close().unwrap();
            }};
        }
        column!(types::Int32Type, |value| *value as i32);
        column!(types::Int64Type, |value| *value);
        column!(types::FloatType, |value| *value as f32);
        column!(types::DoubleType, |value| *value as f64);
        column!(types::Int96Type, |value| types::Int96::from(vec![*value as u32, (*value >> 32) as u32, 7]));
        column!(types::ByteArrayType, |value| types::ByteArray::from(text(*value)));
        column!(types::FixedLenByteArrayType, |value| {
            types::FixedLenByteArray::from(types::ByteArray::from(value.to_le_bytes()[..5].to_vec()))
        });
        let mut column = group.next_column().unwrap().unwrap();
        let all: Vec<i64> = recipe.values.iter().map(|value| value.unwrap_or(-1)).collect();
        column.typed::<types::Int64Type>().write_batch(&all, None, None).unwrap();
        column.close().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        // Lists of two elements, either both null or both present.
        let defs: Vec<i16> = recipe.values.iter().flat_map(|value| [2 + i16::from(value.is_some()); 2]).collect();
        let reps: Vec<i16> = recipe.values.iter().flat_map(|_| [0, 1]).collect();
        let values: Vec<_> = (present.iter())
            .flat_map(|value| [*value, value ^ 5].map(|value| types::ByteArray::from(text(value))))
            .collect();
        column.typed::<types::ByteArrayType>().write_batch(&values, Some(&defs), Some(&reps)).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.close().unwrap();
    out
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let codec = prop_oneof![
        Just(Compression::UNCOMPRESSED),
        Just(Compression::SNAPPY),
        Just(Compression::GZIP(Default::default())),
        Just(Compression::BROTLI(Default::default())),
        Just(Compression::LZ4),
        Just(Compression::ZSTD(Default::default())),
        Just(Compression::LZ4_RAW),
    ];
    let value = prop_oneof![
        4 => (0i64..40).prop_map(Some),
        2 => any::<i64>().prop_map(Some),
        1 => any::<i32>().prop_map(|value| Some(value.into())),
        2 => Just(None),
    ];
    let values = prop_oneof![
        8 => prop::collection::vec(value, 0..400),
        1 => prop::collection::vec(Just(None), 0..30),
        1 => (any::<i64>(), 0..900i64).prop_map(|(from, len)| (0..len).map(|i| Some(from.wrapping_add(i * 3))).collect()),
    ];
    let version = prop_oneof![Just(WriterVersion::PARQUET_1_0), Just(WriterVersion::PARQUET_2_0)];
    (values, version, codec, 0usize..6, any::<bool>(), prop_oneof![Just(7usize), Just(64), Just(10_000)]).prop_map(
        |(values, version, codec, encoding, dictionary, page_rows)| Recipe {
            values,
            version,
            codec,
            encoding,
            dictionary,
            page_rows,
        },
    )
}

/// The `parquet` crate then writes a dictionary, and 0 as the offset of the missing data page.
#[test]
fn chunks_without_values_may_have_a_dictionary() {
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let codec = Compression::UNCOMPRESSED;
        let file = write(&Recipe { values: vec![], version, codec, encoding: 0, dictionary: true, page_rows: 7 });
        for column in 0..9 {
            let actual = our_hashes(&file, 0, column).unwrap_or_else(|error| panic!("column {column}: {error}"));
            assert_eq!((actual.hashes, actual.num_values), (vec![], 0), "column {column}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_of_every_encoding_codec_and_page_version_give_all_values(recipe in recipe()) {
        let file = write(&recipe);
        let peer = SerializedFileReader::new(Bytes::copy_from_slice(&file)).unwrap();
        for row_group in 0..2 {
            for column in 0..9 {
                let actual = our_hashes(&file, row_group, column);
                let actual = actual.unwrap_or_else(|error| panic!("column {column}: {error}"));
                let values = peer_values(&peer, row_group, column).unwrap();
                prop_assert_eq!(actual.hashes, hashes(&values), "column {}", column);
                prop_assert_eq!(actual.num_values, to_u64(recipe.values.len()) * if column == 8 { 2 } else { 1 });
            }
        }
    }

    #[test]
    fn damaged_pages_are_errors_or_can_be_decoded(recipe in recipe(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut file = write(&recipe);
        let end = to_usize(fixtures::open(&file).unwrap().data_end()).unwrap();
        for (at, byte) in changes {
            let at = at.index(end);
            file[at] ^= byte;
        }
        for column in 0..9 {
            let _ = our_hashes(&file, 0, column);
        }
    }
}
