//! Metadata of a file. Decoded metadata can be read completely, and patched without other changes.

use std::collections::BTreeMap;

use parsieve::ErrorKind;
use parsieve::parquet::{ChunkPatch, Metadata, ParquetFile, Pointer, Tail, patch_metadata};

/// Decodes `data` as the metadata of a file with room for a mebibyte of column chunks.
pub fn run(data: &[u8]) {
    let Ok(metadata) = Metadata::decode(data.to_vec(), 1 << 20) else { return };
    let bytes = metadata.bytes().to_vec();
    match patch_metadata(&bytes, &BTreeMap::new()) {
        Ok(copy) => assert_eq!(copy, bytes),
        // Reading counts the depth of an unknown field from this field, and patching from the field of FileMetaData
        // that contains it.
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::ThriftDepth(_)), "{error}");
            return;
        }
    }
    let tail = Tail::decode(&Tail::encode(false, data.len() as u64).unwrap(), (1 << 20) + data.len() as u64 + 8);
    let file_len = (1 << 20) + data.len() as u64 + 8;
    let Ok(tail) = tail else { return };
    let footer = parsieve::parquet::Footer { tail, file_len, bytes: data.to_vec() };
    let file = ParquetFile::open(footer).unwrap();
    read_everything(&file);
    let pointer = Pointer::Set { offset: 77, length: 1234 };
    let Some(column) =
        metadata.row_groups().first().and_then(|group| group.chunks.iter().position(|chunk| chunk.meta.is_some()))
    else {
        return;
    };
    let patches = BTreeMap::from([((0, column), ChunkPatch { pointer: Some(pointer), encrypted_meta: None })]);
    if let Ok(patched) = patch_metadata(&bytes, &patches) {
        let patched = Metadata::decode(patched, 1 << 20).unwrap();
        let meta = patched.chunk(0, column).unwrap().meta.as_ref().unwrap();
        assert_eq!(
            (meta.bloom_filter_offset, meta.num_values),
            (Some(77), metadata.chunk(0, column).unwrap().meta.as_ref().unwrap().num_values)
        );
        assert_eq!((patched.leaves(), patched.num_rows()), (metadata.leaves(), metadata.num_rows()));
    }
}

/// Reads everything that metadata contains.
pub fn read_everything(file: &ParquetFile) {
    let metadata = &file.metadata;
    let _ =
        (metadata.key_values().count(), metadata.created_by(), metadata.signing_key_metadata(), file.after_metadata());
    for (column, leaf) in metadata.leaves().iter().enumerate() {
        assert!(!metadata.path(leaf).is_empty());
        let _ = (leaf.column_type(), metadata.column_order(column));
    }
    assert!(file.claimed_filters().count() <= metadata.row_groups().len() * metadata.leaves().len());
    for (row_group, group) in metadata.row_groups().iter().enumerate() {
        let _ = metadata.ordinal(row_group);
        for (column, chunk) in group.chunks.iter().enumerate() {
            let _ = (metadata.statistics(chunk).is_ok(), file.chunk_range(row_group, column).is_ok());
            if let Ok(Some(location)) = file.filter_location(row_group, column) {
                assert!(location.offset < file.data_end());
            }
        }
    }
}
