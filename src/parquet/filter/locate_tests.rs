//! Filters of real files, also with wrong metadata.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;
use twox_hash::XxHash64;

use super::*;
use crate::parquet::{ChunkPatch, Pointer, Tail, fixtures, patch_metadata};
use crate::ranges::tests::drive;

const IN: [&str; 14] = [
    "Hello",
    "This is",
    "a",
    "test",
    "How",
    "are you",
    "doing ",
    "today",
    "the quick",
    "brown fox",
    "jumps",
    "over",
    "the lazy",
    "dog",
];
const OUT: [&str; 3] = ["Hello_Not_Exists", "", "hello"];
/// Two files with the same values: one stores no filter length, the other stores it.
const FILES: [&str; 2] = ["data_index_bloom_encoding_stats", "data_index_bloom_encoding_with_length"];

fn hashes(values: &[&str]) -> Vec<u64> {
    values.iter().map(|value| XxHash64::oneshot(0, value.as_bytes())).collect()
}

/// Returns the file with a changed pointer to its only filter.
fn with_pointer(file: &[u8], offset: i64, length: Option<i32>) -> Vec<u8> {
    let (tail, footer) = fixtures::footer(file);
    let pointer = Pointer::Set { offset, length: length.unwrap_or(0) };
    let patch = ChunkPatch { pointer: Some(pointer), encrypted_meta: None };
    let mut metadata = patch_metadata(&footer, &BTreeMap::from([((0, 0), patch)])).unwrap();
    if length.is_none() {
        // No function of this crate writes an offset without a length, so field 15 (delta 1, i32, value 0) is cut out.
        let field = metadata.windows(2).rposition(|bytes| bytes == [0x15, 0]).unwrap();
        metadata.drain(field..field + 2);
    }
    let data = &file[..to_usize(tail.metadata.start).unwrap()];
    [data, &metadata, &Tail::encode(false, to_u64(metadata.len())).unwrap()].concat()
}

/// Reads and probes the filter.
fn read(file: &[u8]) -> Result<(Sbbf, Vec<Range<u64>>)> {
    let opened = fixtures::open(file)?;
    let location = opened.filter_location(0, 0)?.expect("there is a filter");
    let read = drive(file, |fetched| opened.read_filter(&location, None, fetched))?;
    let (answers, _) = drive(file, |fetched| opened.probe_filter(&location, None, &hashes(&IN), fetched))?;
    assert_eq!(answers, hashes(&IN).iter().map(|hash| read.0.may_contain_hash(*hash)).collect::<Vec<_>>());
    Ok(read)
}

#[test]
fn real_filters_contain_their_values_and_take_few_reads() {
    for (name, reads) in FILES.iter().zip([&[(192, 256), (256, 1232)][..], &[(253, 2317)]]) {
        let Some(file) = fixtures::file(name) else { return };
        let (filter, read) = read(&file).unwrap();
        assert!(hashes(&IN).iter().all(|hash| filter.may_contain_hash(*hash)), "{name}");
        assert!(hashes(&OUT).iter().all(|hash| !filter.may_contain_hash(*hash)), "{name}");
        let read: Vec<_> = read.into_iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(read, *reads, "{name}");
    }
}

#[test]
fn chunks_without_a_filter_have_no_location() {
    for (name, file) in fixtures::files() {
        let Ok(opened) = fixtures::open(&file) else { continue };
        let all = (0..opened.metadata.row_groups().len())
            .flat_map(|group| (0..opened.metadata.leaves().len()).map(move |column| (group, column)));
        let filters = all.filter(|&(group, column)| opened.filter_location(group, column).unwrap().is_some()).count();
        assert_eq!(filters, usize::from(name.starts_with("data_index_bloom")), "{name}");
        assert!(opened.filter_location(opened.metadata.row_groups().len(), 0).is_err());
    }
}

#[test]
fn wrong_pointers_are_errors() {
    let Some(file) = fixtures::file(FILES[1]) else { return };
    let check = |offset, length, expect: fn(&ErrorKind) -> bool| {
        let error = read(&with_pointer(&file, offset, length)).map(|_| ()).unwrap_err();
        assert!(expect(error.kind()), "{offset} {length:?}: {error}");
    };
    let outside = |kind: &ErrorKind| matches!(kind, ErrorKind::File(FileKind::OutsideFile { .. }));
    let disagrees = |kind: &ErrorKind| matches!(kind, ErrorKind::File(FileKind::FilterLength { .. }));
    assert!(read(&with_pointer(&file, 253, Some(2064))).is_ok() && read(&with_pointer(&file, 253, None)).is_ok());
    for length in [0, -1, i32::MIN, i32::MAX, 2632] {
        check(253, Some(length), outside);
    }
    for length in [16, 48, 1040, 2032, 2063, 2065, 2096, 2100] {
        check(253, Some(length), disagrees);
    }
    check(253, Some(8), |kind| matches!(kind, ErrorKind::Truncated { .. }));
    for offset in [-1, i64::MIN, i64::MAX, 2884, 3_000_000] {
        check(offset, Some(2064), outside);
        check(offset, None, outside);
    }
    // Offset 0 is valid. Here it holds the magic bytes.
    check(0, None, |kind| !matches!(kind, ErrorKind::File(FileKind::OutsideFile { .. })));
    // A header whose bitset would extend into the footer.
    let mut reaching = file.clone();
    let at = 253 + 2064 - 16;
    reaching.copy_within(253..269, at);
    let reaching = with_pointer(&reaching, i64::try_from(at).unwrap(), None);
    let error = read(&reaching).map(|_| ()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::BitsetBeyondInput { .. }), "{error}");
}

#[test]
fn filters_of_other_algorithms_are_errors() {
    for name in ["bloom_filter.bin", "bloom_filter.xxhash.bin"] {
        let Some(bytes) = fixtures::other_file(name) else { return };
        let data_end = to_u64(bytes.len());
        let location = |length| FilterLocation {
            row_group: 0,
            column: 0,
            offset: 0,
            length,
            protection: Protection::Plain,
            data_end,
        };
        for length in [None, Some(data_end)] {
            let header = drive(&bytes, |fetched| location(length).header(fetched));
            // The older of the two predates the standard and uses another hash, so its values must not be looked up.
            assert_eq!(header.is_ok(), name.contains("xxhash"), "{name}");
        }
    }
}

/// Builds a file of zeros with a filter in it, as far as locating and probing the filter requires.
fn file_around(filter: &Sbbf, before: usize, with_length: bool) -> (Vec<u8>, FilterLocation) {
    let bytes = filter.to_bytes().unwrap();
    let location = FilterLocation {
        row_group: 0,
        column: 0,
        offset: to_u64(before),
        length: with_length.then_some(to_u64(bytes.len())),
        protection: Protection::Plain,
        data_end: to_u64(before + bytes.len() + 100),
    };
    ([vec![0; before], bytes, vec![0; 100]].concat(), location)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn probing_single_blocks_gives_the_answers_of_the_filter(
        num_blocks in 1u64..3000,
        present in prop::collection::vec(any::<u64>(), 0..50),
        absent in prop::collection::vec(any::<u64>(), 0..5),
        with_length: bool,
        known in prop::collection::vec((0usize..96_000, 1usize..200), 0..3),
    ) {
        let Some(any_file) = fixtures::file(FILES[0]) else { return Ok(()) };
        let opened = fixtures::open(&any_file).unwrap();
        let mut filter = Sbbf::new(num_blocks).unwrap();
        present.iter().for_each(|hash| filter.insert_hash(*hash));
        let (file, location) = file_around(&filter, 1000, with_length);
        let probes: Vec<u64> = present.iter().take(3).chain(&absent).copied().collect();
        let mut fetched = Fetched::new();
        for (start, len) in known {
            let start = start.min(file.len() - 1);
            fetched.insert(to_u64(start), file[start..(start + len).min(file.len())].to_vec());
        }
        let mut rounds = 0;
        let answers = loop {
            match opened.probe_filter(&location, None, &probes, &fetched).unwrap() {
                Step::Ready(answers) => break answers,
                Step::Need(ranges) => {
                    rounds += 1;
                    prop_assert!(rounds <= 3 && !ranges.is_empty());
                    for range in ranges {
                        let (start, end) = (to_usize(range.start).unwrap(), to_usize(range.end).unwrap());
                        prop_assert!(end - start <= 4096, "one block or the header, or a small filter");
                        fetched.insert(range.start, file[start..end].to_vec());
                    }
                }
            }
        };
        let expect: Vec<bool> = probes.iter().map(|hash| filter.may_contain_hash(*hash)).collect();
        prop_assert_eq!(answers, expect);
        for &hash in &probes {
            let mut one_value = Sbbf::new(num_blocks).unwrap();
            one_value.insert_hash(hash);
            let index = one_value.blocks().iter().position(|block| block.count_ones() > 0).unwrap();
            prop_assert_eq!(block_index(hash, num_blocks), to_u64(index));
        }
    }
}

#[test]
fn one_value_in_a_large_filter_takes_one_round_of_96_bytes() {
    let Some(any_file) = fixtures::file(FILES[0]) else { return };
    let opened = fixtures::open(&any_file).unwrap();
    for (with_length, rounds) in [(true, 1), (false, 2)] {
        let (file, location) = file_around(&Sbbf::new(1 << 15).unwrap(), 10, with_length);
        let mut asked = 0;
        let step = |fetched: &Fetched| {
            asked += 1;
            opened.probe_filter(&location, None, &[u64::MAX / 2], fetched)
        };
        let (answers, read) = drive(&file, step).unwrap();
        assert_eq!((answers, asked - 1), (vec![false], rounds));
        assert_eq!(read.iter().map(|range| range.end - range.start).sum::<u64>(), 64 + 32);
    }
}

#[test]
fn an_encrypted_filter_ends_where_its_metadata_says() {
    let module = |len: u32| [&len.to_le_bytes()[..], &vec![0xff; to_usize(len.into()).unwrap()]].concat();
    let bytes = [module(128), module(60), vec![0xff; 100]].concat();
    let extent = |length, data_end| {
        let protection = Protection::FooterKey;
        let location = FilterLocation { row_group: 0, column: 0, offset: 0, length, protection, data_end };
        drive(&bytes, |fetched| location.extent(fetched))
    };
    assert_eq!(extent(Some(196), 296).unwrap().0, FilterBytes::Encrypted(0..196));
    assert_eq!(extent(None, 296).unwrap().0, FilterBytes::Encrypted(0..196));
    assert_eq!(extent(None, 196).unwrap().0, FilterBytes::Encrypted(0..196));
    for (length, data_end) in [(Some(195), 296), (Some(197), 296), (Some(134), 296), (None, 195), (None, 134)] {
        assert!(extent(length, data_end).is_err(), "{length:?} {data_end}");
    }
}

#[test]
fn damaged_filters_are_errors_or_complete_filters() {
    let Some(file) = fixtures::file(FILES[1]) else { return };
    for at in 253..253 + 24 {
        for value in 0..=255 {
            let mut damaged = file.clone();
            damaged[at] = value;
            if let Ok((filter, _)) = read(&damaged) {
                assert_eq!(filter.num_blocks(), 64, "a decoded filter has a complete bitset");
            }
        }
    }
}

#[test]
fn oversized_headers_are_rejected_after_a_few_reads() {
    // Field 5 is a binary of 1 MiB, which the file is large enough to contain.
    let mut file = vec![0x58, 0x80, 0x80, 0x40];
    file.resize(1 << 21, 0);
    let location = FilterLocation {
        row_group: 0,
        column: 0,
        offset: 0,
        length: None,
        protection: Protection::Plain,
        data_end: 1 << 21,
    };
    let mut read = 0;
    let error = drive(&file, |fetched| {
        read = fetched.prefix(0).len();
        location.header(fetched)
    });
    assert_eq!(error.unwrap_err().kind(), &ErrorKind::File(FileKind::FilterHeaderTooLong(4096)));
    assert_eq!(read, 4096);
}
