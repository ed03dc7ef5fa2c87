//! Adds filters to real files, drops them, and reads the files with parsieve and with the `parquet` crate.

use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::*;
use crate::bloom::Sbbf;
use crate::int::to_usize;
use crate::parquet::fixtures;
use crate::ranges::tests::drive;

/// Returns a filter whose content depends on its chunk, so that swapped filters are detected.
fn sample(row_group: usize, column: usize, num_blocks: u64) -> Sbbf {
    let mut filter = Sbbf::new(num_blocks).unwrap();
    (0..20).for_each(|i| filter.insert_hash(hash(row_group, column, i)));
    filter
}

fn hash(row_group: usize, column: usize, i: u64) -> u64 {
    (to_u64(row_group) * 1000 + to_u64(column) * 100 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Applies a plan, as the writer of a file would.
fn apply(old: &ParquetFile, file: &[u8], plan: &Rewrite, blocks: u64, decryptor: Option<&dyn Decryptor>) -> Vec<u8> {
    let mut new = file[..to_usize(plan.copy).unwrap()].to_vec();
    for range in &plan.wipe {
        new[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()].fill(0);
    }
    for placed in &plan.filters {
        assert_eq!(to_u64(new.len()), placed.offset);
        let filter = sample(placed.row_group, placed.column, blocks);
        let bytes = old.encode_filter(placed.row_group, placed.column, &filter, decryptor).unwrap();
        assert_eq!(to_u64(bytes.len()), placed.length);
        new.extend(bytes);
    }
    new.extend(&plan.footer);
    assert_eq!(to_u64(new.len()), plan.file_len);
    new
}

fn plan(
    old: &ParquetFile,
    file: &[u8],
    add: &[NewFilter],
    drop: &[Chunk],
    decryptor: Option<&dyn Decryptor>,
) -> Result<Rewrite> {
    drive(file, |fetched| old.plan_rewrite(add, drop, OldFooter::Replaced, decryptor, fetched)).map(|(plan, _)| plan)
}

/// Returns a new filter for every chunk that supports one.
fn filters_for_all_chunks(old: &ParquetFile, num_blocks: u64) -> Vec<NewFilter> {
    let chunks = (0..old.metadata.row_groups().len())
        .flat_map(|row_group| (0..old.metadata.leaves().len()).map(move |column| (row_group, column)));
    let hashed = chunks.filter(|&(_, column)| old.metadata.leaves()[column].physical != Physical::Boolean);
    hashed.map(|(row_group, column)| NewFilter { row_group, column, num_blocks }).collect()
}

fn assert_holds(new: &ParquetFile, file: &[u8], filters: &[NewFilter], decryptor: Option<&dyn Decryptor>) {
    for &NewFilter { row_group, column, num_blocks } in filters {
        let location = new.filter_location(row_group, column).unwrap().unwrap();
        let (filter, _) = drive(file, |fetched| new.read_filter(&location, decryptor, fetched)).unwrap();
        assert_eq!(filter, sample(row_group, column, num_blocks));
    }
}

#[test]
fn filters_of_real_files_can_be_added_and_dropped() {
    for (name, file) in fixtures::files() {
        let Ok(old) = fixtures::open(&file) else { continue };
        if old.algorithm().is_some() {
            continue;
        }
        let mut add = filters_for_all_chunks(&old, 3);
        // The caller's order does not matter.
        add.reverse();
        let added = plan(&old, &file, &add, &[], None).unwrap();
        assert!(added.filters.is_sorted_by_key(|filter| (filter.row_group, filter.column)), "{name}");
        assert!(added.wipe.is_empty());
        let written = apply(&old, &file, &added, 3, None);
        assert_eq!(written[..to_usize(old.data_end()).unwrap()], file[..to_usize(old.data_end()).unwrap()], "{name}");
        let new = fixtures::open(&written).unwrap();
        assert_holds(&new, &written, &add, None);
        check_with_parquet_crate(&name, &file, &written, &add);

        let everything: Vec<_> = add.iter().map(|filter| (filter.row_group, filter.column)).collect();
        let dropped = plan(&new, &written, &[], &everything, None).unwrap();
        let bare = fixtures::open(&apply(&new, &written, &dropped, 3, None)).unwrap();
        for &(row_group, column) in &everything {
            assert_eq!(bare.filter_location(row_group, column), Ok(None), "{name}");
        }
        if everything.iter().all(|&(group, column)| old.filter_location(group, column) == Ok(None)) {
            assert_eq!(bare.metadata.bytes(), old.metadata.bytes(), "{name}: as if nothing had been");
        }
    }
}

/// Checks that rows and statistics are unchanged and that the `parquet` crate reads the new filters.
fn check_with_parquet_crate(name: &str, before: &[u8], after: &[u8], add: &[NewFilter]) {
    let open = |file: &[u8]| ParquetRecordBatchReaderBuilder::try_new(Bytes::copy_from_slice(file));
    let (Ok(old), Ok(new)) = (open(before), open(after)) else {
        assert!(name.starts_with("dict-page-offset-zero"), "{name}: the peer reads it");
        return;
    };
    assert_eq!(old.schema(), new.schema(), "{name}");
    assert_eq!(old.metadata().file_metadata(), new.metadata().file_metadata(), "{name}");
    for filter in add {
        let theirs = new.get_row_group_column_bloom_filter(filter.row_group, filter.column).unwrap().unwrap();
        let mut bytes = Vec::new();
        theirs.write(&mut bytes).unwrap();
        assert_eq!(bytes, sample(filter.row_group, filter.column, 3).to_bytes().unwrap(), "{name}");
    }
    let rows = |reader: ParquetRecordBatchReaderBuilder<Bytes>| {
        reader.build()?.collect::<std::result::Result<Vec<_>, _>>().map_err(parquet::errors::ParquetError::from)
    };
    // This build of the `parquet` crate lacks some codecs. Then reading fails both before and after.
    assert_eq!(rows(old).ok(), rows(new).ok(), "{name}");
}

#[test]
fn impossible_changes_are_errors() {
    let check = |name, add: &[Chunk], drop: &[Chunk], num_blocks, expect: fn(&ErrorKind) -> bool| {
        let Some(file) = fixtures::file(name) else { return };
        let old = fixtures::open(&file).unwrap();
        let add: Vec<_> = add.iter().map(|&(row_group, column)| NewFilter { row_group, column, num_blocks }).collect();
        let error = plan(&old, &file, &add, drop, None).unwrap_err();
        assert!(expect(error.kind()), "{name}: {error}");
    };
    let plain = "data_index_bloom_encoding_stats";
    check(plain, &[(0, 1)], &[], 1, |kind| matches!(kind, ErrorKind::File(FileKind::NoSuchChunk { .. })));
    check(plain, &[], &[(1, 0)], 1, |kind| matches!(kind, ErrorKind::File(FileKind::NoSuchChunk { .. })));
    check(plain, &[(0, 0), (0, 0)], &[], 1, |kind| matches!(kind, ErrorKind::File(FileKind::ChunkTwice { .. })));
    check(plain, &[(0, 0)], &[(0, 0)], 1, |kind| matches!(kind, ErrorKind::File(FileKind::ChunkTwice { .. })));
    check(plain, &[(0, 0)], &[], 0, |kind| matches!(kind, ErrorKind::NumBlocks(_)));
    check(plain, &[(0, 0)], &[], 67_108_864, |kind| matches!(kind, ErrorKind::NumBlocks(_)));
    check("alltypes_plain", &[(0, 1)], &[], 1, |kind| matches!(kind, ErrorKind::File(FileKind::NoHash { .. })));
    // A plaintext footer is signed, so even a plaintext column requires the footer key.
    let signed = "encrypt_columns_plaintext_footer";
    check(signed, &[(0, 1)], &[], 1, |kind| {
        matches!(kind, ErrorKind::File(FileKind::KeyMissing { .. }) | ErrorKind::File(FileKind::NoCrypto))
    });
}

#[test]
fn plans_for_damaged_files_keep_the_data_or_fail() {
    for (name, file) in fixtures::files() {
        let Ok(old) = fixtures::open(&file) else { continue };
        let add = [NewFilter { row_group: 0, column: 0, num_blocks: 1 }];
        for at in to_usize(old.data_end()).unwrap()..file.len() - 8 {
            let mut damaged = file.clone();
            damaged[at] ^= 0xff;
            let Ok(damaged_file) = fixtures::open(&damaged) else { continue };
            let planned = plan(&damaged_file, &damaged, &add, &[], None);
            // Every plan keeps the data, and its footer can be opened.
            if let Ok(planned) = planned {
                assert_eq!(planned.copy, old.data_end(), "{name}");
                assert!(fixtures::open(&apply(&damaged_file, &damaged, &planned, 1, None)).is_ok(), "{name}");
            }
        }
    }
}

/// The largest filter of the format fits the length field, but may not fit when encrypted as two modules.
#[test]
fn filter_lengths_beyond_31_bits_are_errors() {
    let Some(file) = fixtures::file("data_index_bloom_encoding_stats") else { return };
    let old = fixtures::open(&file).unwrap();
    let add = [NewFilter { row_group: 0, column: 0, num_blocks: 67_108_863 }];
    let plan = plan(&old, &file, &add, &[], None).unwrap();
    assert_eq!(plan.filters[0].length, 67_108_863 * 32 + 19);
}

#[cfg(feature = "crypto")]
mod encrypted {
    use super::*;
    use crate::crypto::{Key, KeyRing};
    use crate::parquet::Footer;

    fn ring() -> KeyRing {
        let key = |bytes| Key::new(bytes).unwrap();
        let ring = KeyRing::new().with_footer_key(key(b"0123456789012345"));
        let ring = ring.with_column_key("double_field", key(b"1234567890123450"));
        ring.with_column_key("float_field", key(b"1234567890123451"))
    }

    fn open(file: &[u8], keys: &KeyRing) -> Result<ParquetFile> {
        let (tail, bytes) = fixtures::footer(file);
        ParquetFile::open_with(Footer { tail, bytes, file_len: to_u64(file.len()) }, keys)
    }

    #[test]
    fn new_filters_of_encrypted_columns_are_encrypted() {
        let keys = ring();
        for name in ["encrypt_columns_and_footer", "encrypt_columns_plaintext_footer", "uniform_encryption"] {
            let Some(file) = fixtures::file(name) else { return };
            let old = open(&file, &keys).unwrap();
            let key_ring = old.key_ring(&keys).unwrap();
            let decryptor = key_ring.as_ref().map(|key_ring| key_ring as &dyn Decryptor);
            let add = filters_for_all_chunks(&old, 5);
            let added = plan(&old, &file, &add, &[], decryptor).unwrap();
            let written = apply(&old, &file, &added, 5, decryptor);
            let new = open(&written, &keys).unwrap();
            assert!(new.authenticated, "{name}");
            assert_holds(&new, &written, &add, decryptor);
            let start = to_usize(old.data_end()).unwrap();
            assert_eq!(written[..start], file[..start], "{name}");
            for placed in &added.filters {
                let bits = sample(placed.row_group, placed.column, 5).bitset().to_vec();
                let plain =
                    old.metadata.chunk(placed.row_group, placed.column).unwrap().protection == Protection::Plain;
                let in_plaintext = written.windows(bits.len()).any(|window| window == bits);
                assert_eq!(in_plaintext, plain, "{name}: a filter is in plaintext only if its column is");
            }
            // Without the column's key, the footer can be opened but not the filter.
            let footer_only = KeyRing::new().with_footer_key(Key::new(b"0123456789012345").unwrap());
            let closed = open(&written, &footer_only).unwrap();
            let closed_columns = add.iter().filter(|filter| {
                let chunk = closed.metadata.chunk(filter.row_group, filter.column).unwrap();
                chunk.protection == Protection::ColumnKey
            });
            for filter in closed_columns {
                let location = closed.filter_location(filter.row_group, filter.column);
                let key_ring = closed.key_ring(&footer_only).unwrap().unwrap();
                let error = location.and_then(|location| {
                    drive(&written, |fetched| closed.read_filter(location.as_ref().unwrap(), Some(&key_ring), fetched))
                });
                assert!(matches!(error.unwrap_err().kind(), ErrorKind::File(FileKind::KeyMissing { .. })), "{name}");
            }
            assert_eq!(open(&written, &KeyRing::new()).is_ok(), !old.footer.tail.encrypted);
        }
    }

    #[test]
    fn forged_footers_are_not_signed() {
        let Some(mut file) = fixtures::file("encrypt_columns_plaintext_footer") else { return };
        let keys = ring();
        let writer = fixtures::open(&file).unwrap().metadata.created_by().unwrap().as_bytes().to_vec();
        let at = file.windows(writer.len()).rposition(|window| window == writer).unwrap();
        file[at] ^= 1;
        let forged = fixtures::open(&file).unwrap();
        let key_ring = forged.key_ring(&keys).unwrap().unwrap();
        let add = [NewFilter { row_group: 0, column: 2, num_blocks: 1 }];
        let error = plan(&forged, &file, &add, &[], Some(&key_ring)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::File(FileKind::Decryption));
    }

    /// Returns a file whose encrypted first column points to a plaintext filter, as a faulty tool might leave it.
    fn file_with_plaintext_filter(keys: &KeyRing, at: Option<i64>) -> Option<(Vec<u8>, ParquetFile, Range<u64>)> {
        let file = fixtures::file("encrypt_columns_and_footer")?;
        let old = open(&file, keys).unwrap();
        let key_ring = old.key_ring(keys).unwrap().unwrap();
        let filter = sample(0, 0, 4).to_bytes().unwrap();
        let start = old.data_end();
        let offset = at.unwrap_or(i64::try_from(start).unwrap());
        let length = i32::try_from(filter.len()).unwrap();
        let patch = old.patch((0, 0), Pointer::Set { offset, length }, Some(&key_ring)).unwrap();
        let footer = old.footer_with(&BTreeMap::from([((0, 0), patch)]), Some(&key_ring)).unwrap();
        let written = [&file[..to_usize(start).unwrap()], &filter, &footer].concat();
        let opened = open(&written, keys).unwrap();
        Some((written, opened, start..start + to_u64(filter.len())))
    }

    #[test]
    fn plaintext_filters_of_encrypted_columns_are_reported_and_wiped() {
        let keys = ring();
        let Some((file, old, range)) = file_with_plaintext_filter(&keys, None) else { return };
        let key_ring = old.key_ring(&keys).unwrap().unwrap();
        let location = old.filter_location(0, 0).unwrap().unwrap();
        let read = drive(&file, |fetched| old.read_filter(&location, Some(&key_ring), fetched));
        assert_eq!(read.unwrap_err().kind(), &ErrorKind::File(FileKind::PlaintextFilter));
        let probed = drive(&file, |fetched| old.probe_filter(&location, Some(&key_ring), &[1], fetched));
        assert_eq!(probed.unwrap_err().kind(), &ErrorKind::File(FileKind::PlaintextFilter));
        let add = [NewFilter { row_group: 0, column: 0, num_blocks: 4 }];
        for (add, drop) in [(&add[..], &[][..]), (&[], &[(0, 0)])] {
            let plan = plan(&old, &file, add, drop, Some(&key_ring)).unwrap();
            assert_eq!(plan.wipe, std::slice::from_ref(&range));
            let written = apply(&old, &file, &plan, 4, Some(&key_ring));
            let bits = sample(0, 0, 4).bitset().to_vec();
            assert!(file.windows(bits.len()).any(|window| window == bits));
            assert!(!written.windows(bits.len()).any(|window| window == bits));
            // The other column's filter is unchanged.
            let new = open(&written, &keys).unwrap();
            let location = new.filter_location(0, 1).unwrap().unwrap();
            assert!(drive(&written, |fetched| new.read_filter(&location, Some(&key_ring), fetched)).is_ok());
        }
    }

    #[test]
    fn wrong_pointers_do_not_wipe_data() {
        let keys = ring();
        let Some(file) = fixtures::file("encrypt_columns_and_footer") else { return };
        let (_, old, _) = file_with_plaintext_filter(&keys, None).unwrap();
        let data = old.metadata.chunk(0, 2).unwrap().meta.as_ref().unwrap().data(old.data_end()).unwrap();
        // Data of another column that looks like a filter.
        let at = data.start + 5;
        let (mut file_with, opened, _) = file_with_plaintext_filter(&keys, Some(i64::try_from(at).unwrap())).unwrap();
        let filter = sample(0, 0, 4).to_bytes().unwrap();
        file_with[to_usize(at).unwrap()..][..filter.len()].copy_from_slice(&filter);
        let key_ring = opened.key_ring(&keys).unwrap().unwrap();
        let error = plan(&opened, &file_with, &[], &[(0, 0)], Some(&key_ring)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::File(FileKind::SharedBytes { .. })), "{error}");
        // Bytes that are not a filter have an unknown range and cannot be wiped.
        let (garbage, opened, _) = file_with_plaintext_filter(&keys, Some(0)).unwrap();
        assert!(plan(&opened, &garbage, &[], &[(0, 0)], Some(&key_ring)).is_err());
        // A pointer to the end of the data, or outside of the file, refers to nothing that could be wiped.
        let (_, _, range) = file_with_plaintext_filter(&keys, None).unwrap();
        for out in [i64::try_from(range.end).unwrap(), i64::try_from(file.len() * 2).unwrap()] {
            let (file, opened, _) = file_with_plaintext_filter(&keys, Some(out)).unwrap();
            assert!(plan(&opened, &file, &[], &[(0, 0)], Some(&key_ring)).unwrap().wipe.is_empty());
        }
    }
}
