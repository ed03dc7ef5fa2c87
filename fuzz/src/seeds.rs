//! Valid inputs of every target, which are the seeds of fuzzing.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::encryption::encrypt::FileEncryptionProperties;
use parquet::file::properties::WriterProperties;
use parsieve::bloom::Sbbf;
use parsieve::crypto;
use parsieve::parquet::{Decryptor, NewFilter, OldFooter, ParquetFile};
use parsieve::sieve::{
    AxisType, Builder, Change, ChangedSlice, Delta, Format, IndexInfo, Key, KeylessRows, Options, SectionRange,
    SegmentStream, Stats, UnitDelta, root, unit_root_over,
};

use super::samples::{index_with, layout, texts, words};
use super::sieve::{SMALL, locations, unframe};
use super::{avro, bindings, delta_log, drive, page_map, probe, read_footer, rows, shelf, sieve_compact};

/// The footer key of the encrypted seeds.
pub const FOOTER_KEY: &[u8; 16] = b"0123456789012345";
/// The key of their column `a`.
pub const COLUMN_KEY: &[u8; 16] = b"1234567890123450";

/// Small segments of version 2 with fingerprints or gaps.
const VERSION_2: Options = Options { format: Format::V2, fingerprints: Some(true), ..SMALL };

/// Writes the seeds of a target into the folder named by `FUZZ_SEEDS`, if it is set.
pub fn write(target: &str) {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else { return };
    std::fs::create_dir_all(&folder).unwrap();
    for (number, seed) in of(target).iter().enumerate() {
        std::fs::write(std::path::Path::new(&folder).join(format!("seed-{number}")), seed).unwrap();
    }
}

/// Returns the keys of the encrypted seeds.
pub fn keys() -> crypto::KeyRing {
    let key = |text: &[u8; 16]| crypto::Key::new(text).unwrap();
    crypto::KeyRing::new().with_footer_key(key(FOOTER_KEY)).with_column_key("a", key(COLUMN_KEY))
}

/// Returns the seeds of a target.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "footer" => {
            let mut footers: Vec<_> = plain_files().iter().map(|file| read_footer(file).unwrap().bytes).collect();
            footers.push(with_untyped_list(&footers[0]));
            footers
        }
        "bloom_header" => vec![filter(0).to_bytes().unwrap(), Sbbf::new(1).unwrap().to_bytes().unwrap()],
        "rewrite" => plain_files(),
        "decrypt" => encrypted_files(),
        "sieve_segment" => [bodies(Section::Lookup, SMALL), bodies(Section::Lookup, VERSION_2)].concat(),
        "sieve_keys" => bodies(Section::Keys, SMALL),
        "sieve_root" => bodies(Section::Root, SMALL),
        "sieve_delta" => vec![delta(words(20)), delta(texts(20)), delta(Vec::<(u128, u32)>::new())],
        "avro" => avro::seeds(),
        "delta_log" => delta_log::seeds(),
        "page_map" => page_map::seeds(table),
        "rows" | "page_values" => rows::seeds(),
        "bindings" => bindings::seeds(),
        "probe" => probe::seeds(),
        "sieve_compact" => sieve_compact::seeds(),
        "shelf" => shelf::seeds(),
        "sieve_index" => vec![vec![], vec![1, 0, 1], vec![0, 1, 255, 200, 2, 16]],
        "sieve_unit_root" => vec![unit_root(&words(120)), unit_root(&texts(80))],
        "sieve_unit_delta" => vec![unit_delta(words(20)), unit_delta(texts(20))],
        other => panic!("unknown target: {other}"),
    }
}

/// Returns the filter of a column in the encrypted seeds.
pub fn filter(column: usize) -> Sbbf {
    let mut filter = Sbbf::new(2).unwrap();
    (1..20).for_each(|i| filter.insert_hash((i + column as u64 * 100).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    filter
}

fn table(properties: WriterProperties) -> Vec<u8> {
    let columns: [(&str, ArrayRef); 3] = [
        ("a", Arc::new(Int64Array::from_iter((0..30).map(|i| (i % 7 != 0).then_some(i * i))))),
        ("b", Arc::new(StringArray::from_iter_values((0..30).map(|i| format!("text {}", i % 9))))),
        ("flag", Arc::new(BooleanArray::from_iter((0..30).map(|i| Some(i % 2 == 0))))),
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

fn plain_files() -> Vec<Vec<u8>> {
    let plain = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED);
    let small = WriterProperties::builder().set_bloom_filter_enabled(true).set_bloom_filter_max_ndv(30);
    vec![table(plain.build()), table(small.set_compression(Compression::SNAPPY).build())]
}

/// Appends a list without elements and element type to the metadata, as fastparquet writes it.
fn with_untyped_list(metadata: &[u8]) -> Vec<u8> {
    let (stop, fields) = metadata.split_last().unwrap();
    [fields, &[0x09, 40 << 1, 0x00, *stop]].concat()
}

/// Returns files with an encrypted footer and with a plaintext footer.
pub fn encrypted_files() -> Vec<Vec<u8>> {
    vec![encrypted_file(true), encrypted_file(false)]
}

/// Returns a file with filters in column `a`, which is encrypted, and in column `b`.
fn encrypted_file(encrypted_footer: bool) -> Vec<u8> {
    let encryption = FileEncryptionProperties::builder(FOOTER_KEY.to_vec())
        .with_plaintext_footer(!encrypted_footer)
        .with_column_key("a", COLUMN_KEY.to_vec())
        .build();
    let file = table(WriterProperties::builder().with_file_encryption_properties(encryption.unwrap()).build());
    let keys = keys();
    let old = ParquetFile::open_with(read_footer(&file).unwrap(), &keys).unwrap();
    let key_ring = old.key_ring(&keys).unwrap().unwrap();
    let decryptor = Some(&key_ring as &dyn Decryptor);
    let add = [(0, 0), (0, 1), (1, 0)].map(|(row_group, column)| NewFilter { row_group, column, num_blocks: 2 });
    let plan = drive(&file, |fetched| old.plan_rewrite(&add, &[], OldFooter::Replaced, decryptor, fetched)).unwrap();
    let mut new = file[..plan.copy as usize].to_vec();
    for placed in &plan.filters {
        new.extend(old.encode_filter(placed.row_group, placed.column, &filter(placed.column), decryptor).unwrap());
    }
    new.extend(plan.footer);
    new
}

/// A stored section of an index.
#[derive(Clone, Copy)]
enum Section {
    Root,
    Lookup,
    Keys,
}

/// Returns the bodies of one kind of section, from three small indexes with keys of different widths.
fn bodies(section_kind: Section, options: Options) -> Vec<Vec<u8>> {
    let wide: Vec<(u128, u32)> = words(60).into_iter().map(|(key, at)| (u128::from(key) << 40 | 7, at)).collect();
    [
        body(&words(120), section_kind, options),
        body(&wide, section_kind, options),
        body(&texts(80), section_kind, options),
    ]
    .concat()
}

fn body<K: Key>(pairs: &[(K, u32)], section_kind: Section, options: Options) -> Vec<Vec<u8>> {
    let (root, file) = index_with(pairs, options);
    let section = |extent: SectionRange| unframe(&file[extent.offset as usize..][..extent.len as usize]).to_vec();
    match section_kind {
        Section::Root => vec![unframe(&root::write(&root)).to_vec()],
        Section::Lookup => root.segments.iter().map(|entry| section(entry.lookup)).collect(),
        Section::Keys => root.segments.iter().map(|entry| section(entry.keys)).collect(),
    }
}

fn delta<K: Key>(pairs: Vec<(K, u32)>) -> Vec<u8> {
    let changes =
        pairs.into_iter().zip(0..).map(|((key, location), i)| Change { key, location, plus: i % 3, minus: i % 2 });
    let side = KeylessRows { location: 1, nulls: (2, 1), nans: (0, 3), unknown: false };
    let delta = Delta::new(5, locations(9), vec![3, 4], vec![side], changes.collect()).unwrap();
    unframe(&delta.write()).to_vec()
}

/// Returns a root with the unit pages behind it, as the target reads it.
fn unit_root<K: Key>(pairs: &[(K, u32)]) -> Vec<u8> {
    let mut sorted = pairs.to_vec();
    sorted.sort();
    let mut builder = Builder::new(9, VERSION_2).unwrap();
    sorted.into_iter().for_each(|(key, location)| builder.push(key, location, 1).unwrap());
    let axis = [AxisType::Signed, AxisType::Uuid, AxisType::Bytes][usize::from(K::CODE) - 1];
    let stats = (0..9).map(|i| Stats { nulls: i % 3, nans: i % 2, unknown: i == 8, ..Stats::default() }).collect();
    let built = builder.finish();
    let mut stream = SegmentStream::new(0);
    stream.put(built.segments);
    let info = IndexInfo { axis, instant: 7, options: VERSION_2 };
    let root = unit_root_over(info, layout(), stats, &built.spans, stream.into_entries(), 1).unwrap().root;
    let len = u32::from_le_bytes(root[4..8].try_into().unwrap()) as usize;
    let mut behind = root[len + 12..].to_vec();
    behind.resize(behind.len().next_multiple_of(4), 0);
    [&[u8::try_from(behind.len() / 4).unwrap()], &root[8..len + 8], &behind].concat()
}

fn unit_delta<K: Key>(pairs: Vec<(K, u32)>) -> Vec<u8> {
    let changes =
        pairs.into_iter().zip(0..).map(|((key, location), i)| Change { key, location, plus: i % 3, minus: i % 2 });
    // The last location is a slice that is known.
    let changes = changes.map(|change| Change { location: change.location + u32::from(change.plus == 2), ..change });
    let changed = ChangedSlice { id: 3, nulls: (2, 1), nans: (0, 3), unknown: false };
    let sides: Vec<(u64, u64, bool)> = (0..9).map(|i| (i % 3, i % 2, i == 8)).collect();
    let delta = UnitDelta::new(5, layout(), &sides, vec![changed], changes.collect()).unwrap();
    unframe(&delta.write()).to_vec()
}
