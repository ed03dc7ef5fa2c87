//! Statistics and encodings of a column chunk, from metadata that the tests write field by field.

use super::*;
use crate::thrift::Writer;

/// Writes a struct with a single field, whose ID is 1.
fn in_first_field(kind: Type, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.field(kind, 1, 0);
    write(&mut writer);
    writer.stop();
    writer.into_bytes()
}

/// Writes PageEncodingStats: the type of the page, its encoding and the number of pages.
fn encoding_stats(entries: &[(i64, i64, i64)]) -> Vec<u8> {
    in_first_field(Type::List, |writer| {
        writer.raw(&[u8::try_from(entries.len() << 4).unwrap() | 0x0c]);
        for &(page, encoding, count) in entries {
            for (id, value) in (1..).zip([page, encoding, count]) {
                writer.field(Type::I32, id, id - 1);
                writer.integer(value);
            }
            writer.stop();
        }
    })
}

#[test]
fn statistics_have_the_values_of_their_fields() {
    let mut writer = Writer::new();
    let mut last = 0;
    for (id, bytes) in [(1, "old max"), (2, "old min"), (5, "max"), (6, "min")] {
        if id == 5 {
            writer.field(Type::I64, 3, last);
            writer.integer(11);
            last = 3;
        }
        writer.field(Type::Binary, id, last);
        writer.binary(bytes.as_bytes());
        last = id;
    }
    writer.field(Type::True, 7, 6);
    writer.field(Type::False, 8, 7);
    writer.field(Type::I64, 9, 8);
    writer.integer(12);
    writer.stop();
    let expected = Statistics {
        max_value: Some(b"max"),
        min_value: Some(b"min"),
        old_max: Some(b"old max"),
        old_min: Some(b"old min"),
        null_count: Some(11),
        nan_count: Some(12),
        max_is_exact: Some(true),
        min_is_exact: Some(false),
    };
    assert_eq!(Statistics::decode(&writer.into_bytes()), Ok(expected));
    assert_eq!(Statistics::decode(&[0]), Ok(Statistics::default()));
}

#[test]
fn a_chunk_with_a_path_is_in_another_file() {
    let leaf = SchemaLeaf::for_test(Physical::Int64, None, None);
    for (path, in_other_file) in [(&b"other.parquet"[..], true), (b"", false)] {
        let mut writer = Writer::new();
        writer.field(Type::Binary, 1, 0);
        writer.binary(path);
        // A chunk has metadata, plain or encrypted.
        writer.field(Type::Binary, 9, 1);
        writer.binary(&[0; 40]);
        writer.stop();
        let bytes = writer.into_bytes();
        let chunk = ColumnChunk::decode(&mut Reader::new(&bytes, 0), &leaf, &["c"]).unwrap();
        assert_eq!(chunk.in_other_file, in_other_file);
    }
}

#[test]
fn only_data_pages_count_for_the_dictionary() {
    let check = |entries: &[(i64, i64, i64)]| {
        let bytes = encoding_stats(entries);
        let mut reader = Reader::new(&bytes, 0);
        let mut record = Record::new(&mut reader, "ColumnMetaData");
        assert_eq!(record.next(), Ok(Some(1)));
        every_page_uses_the_dictionary(&mut record).unwrap()
    };
    // A dictionary page with plain values, and data pages of both versions.
    for encoding in [2, 8] {
        assert!(check(&[(2, 0, 1), (0, encoding, 5)]));
        assert!(check(&[(2, 0, 1), (3, encoding, 5), (0, 0, 0)]));
        assert!(!check(&[(2, 0, 1), (0, encoding, 5), (0, 0, 1)]));
        assert!(!check(&[(2, 0, 1), (3, encoding, 5), (3, 6, 1)]));
        assert!(!check(&[(0, encoding, 0)]), "no pages");
    }
    assert!(!check(&[(0, 0, 5)]) && !check(&[(0, 7, 5)]) && !check(&[]));
    assert!(!check(&[(0, 2, 5), (9, 2, 5)]), "an unknown kind of page");
}

#[test]
fn encodings_are_a_set() {
    let check = |encodings: &[i64]| {
        let bytes = in_first_field(Type::List, |writer| {
            writer.raw(&[u8::try_from(encodings.len() << 4).unwrap() | 0x05]);
            encodings.iter().for_each(|encoding| writer.integer(*encoding));
        });
        let mut reader = Reader::new(&bytes, 0);
        let mut record = Record::new(&mut reader, "ColumnMetaData");
        assert_eq!(record.next(), Ok(Some(1)));
        encoding_set(&mut record).unwrap()
    };
    assert_eq!(check(&[]), Some(0));
    assert_eq!(check(&[0, 3, 3, 8]), Some(0b1_0000_1001));
    assert_eq!(check(&[-1, 31, 99]), Some(1 << 31), "unknown encodings");
}
