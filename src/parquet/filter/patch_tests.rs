//! Checks patches with an independent Thrift parser, which knows no structs and keeps every value as raw bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{ChunkPatch, Pointer, patch_column_metadata, patch_metadata};
use crate::error::{ErrorKind, FileKind};
use crate::parquet::{Metadata, fixtures};

/// A value of any type. Numbers keep their bytes, so a longer encoding of the same number is a different value.
#[derive(Debug, Clone, PartialEq)]
enum Tree {
    Flag,
    Raw(Vec<u8>),
    Struct(Vec<Field>),
    List(Vec<u8>, Vec<Tree>),
}

#[derive(Debug, Clone)]
struct Field {
    id: i16,
    code: u8,
    /// True if the header stores the id even though a difference would suffice.
    long: bool,
    value: Tree,
}

impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.code, &self.value) == (other.id, other.code, &other.value)
    }
}

fn varint(bytes: &[u8]) -> (u64, usize) {
    let len = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let value = bytes[..len].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    (value, len)
}

fn unzigzag(value: u64) -> i64 {
    (value / 2) as i64 * if value & 1 == 0 { 1 } else { -1 } - (value % 2) as i64
}

fn number(value: i64) -> Vec<u8> {
    let mut left = if value < 0 { (-(value + 1)) as u64 * 2 + 1 } else { value as u64 * 2 };
    let mut bytes = Vec::new();
    while left > 127 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes
}

/// Parses the value of type `code` at the start of `bytes`, and returns its length too. `element` is true inside lists.
fn parse(code: u8, bytes: &[u8], element: bool) -> (Tree, usize) {
    let raw = |len: usize| (Tree::Raw(bytes[..len].to_vec()), len);
    match code {
        1 | 2 if !element => (Tree::Flag, 0),
        1..=3 => raw(1),
        4..=6 => raw(varint(bytes).1),
        7 => raw(8),
        8 => {
            let (len, prefix) = varint(bytes);
            raw(prefix + len as usize)
        }
        9 | 10 => {
            let (count, header) = match bytes[0] >> 4 {
                15 => (varint(&bytes[1..]).0, 1 + varint(&bytes[1..]).1),
                count => (u64::from(count), 1),
            };
            let (mut at, mut trees) = (header, Vec::new());
            for _ in 0..count {
                let (tree, len) = parse(bytes[0] & 15, &bytes[at..], true);
                trees.push(tree);
                at += len;
            }
            (Tree::List(bytes[..header].to_vec(), trees), at)
        }
        12 => {
            let (mut at, mut last, mut fields) = (0, 0, Vec::new());
            while bytes[at] != 0 {
                let (code, delta) = (bytes[at] & 15, i16::from(bytes[at] >> 4));
                at += 1;
                let long = delta == 0;
                let mut id = last + delta;
                if long {
                    let (value, len) = varint(&bytes[at..]);
                    id = unzigzag(value) as i16;
                    at += len;
                }
                let (value, len) = parse(code, &bytes[at..], false);
                at += len;
                last = id;
                fields.push(Field { id, code, long, value });
            }
            (Tree::Struct(fields), at + 1)
        }
        other => panic!("type {other} is not in the test"),
    }
}

fn emit(tree: &Tree, out: &mut Vec<u8>) {
    match tree {
        Tree::Flag => {}
        Tree::Raw(bytes) => out.extend(bytes),
        Tree::List(header, trees) => {
            out.extend(header);
            trees.iter().for_each(|tree| emit(tree, out));
        }
        Tree::Struct(fields) => {
            let mut last = 0;
            for field in fields {
                match i32::from(field.id) - i32::from(last) {
                    delta @ 1..=15 if !field.long => out.push((delta as u8) << 4 | field.code),
                    _ => {
                        out.push(field.code);
                        out.extend(number(field.id.into()));
                    }
                }
                emit(&field.value, out);
                last = field.id;
            }
            out.push(0);
        }
    }
}

fn bytes(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    emit(tree, &mut out);
    out
}

/// Applies `patch_column_metadata` to a parsed struct.
fn with_pointer_fields(fields: &[Field], pointer: Pointer) -> Vec<Field> {
    let ours = |field: &Field| (field.id, field.code) == (14, 6) || (field.id, field.code) == (15, 5);
    let mut new: Vec<Field> = fields.iter().filter(|field| !ours(field)).cloned().collect();
    if let Pointer::Set { offset, length } = pointer {
        let foreign = new.iter().any(|field| field.id == 15);
        for (id, code, value) in [(14, 6, offset), (15, 5, length.into())] {
            if id == 15 && foreign {
                continue;
            }
            let at = new.iter().position(|field| field.id > id).unwrap_or(new.len());
            new.insert(at, Field { id, code, long: false, value: Tree::Raw(number(value)) });
        }
    }
    new
}

/// Generates numbers whose encoding may be longer than necessary.
fn any_number() -> impl Strategy<Value = Tree> {
    (any::<i64>(), any::<bool>()).prop_map(|(value, padded)| {
        let mut bytes = number(value);
        if padded && bytes.len() < 9 {
            *bytes.last_mut().unwrap() |= 0x80;
            bytes.push(0);
        }
        Tree::Raw(bytes)
    })
}

fn any_value(depth: u32) -> BoxedStrategy<(u8, Tree)> {
    let flat = prop_oneof![
        Just((1, Tree::Flag)),
        Just((2, Tree::Flag)),
        any::<u8>().prop_map(|byte| (3, Tree::Raw(vec![byte]))),
        any_number().prop_map(|tree| (6, tree)),
        any::<[u8; 8]>().prop_map(|bytes| (7, Tree::Raw(bytes.to_vec()))),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| (8, blob(&bytes))),
    ];
    if depth == 0 {
        return flat.boxed();
    }
    // Lists of fifteen elements or more have a longer header.
    let most = if depth == 1 { 17 } else { 4 };
    let list = prop::collection::vec(any_struct(depth - 1), 0..most).prop_map(|structs| (9, list(structs)));
    prop_oneof![4 => flat, 1 => any_struct(depth - 1).prop_map(|tree| (12, tree)), 1 => list].boxed()
}

/// Generates structs with fields in any order, whose distances require both forms of headers.
fn any_struct(depth: u32) -> BoxedStrategy<Tree> {
    let ids = prop_oneof![4 => 1i16..40, 1 => any::<i16>()];
    let fields = prop::collection::btree_map(ids, (any_value(depth), any::<bool>()), 0..12);
    (fields, prop::bool::weighted(0.2), any::<prop::sample::Index>())
        .prop_map(|(fields, turned, by)| {
            let mut fields: Vec<Field> = (fields.into_iter())
                .filter(|(id, ((code, _), _))| *id != 14 || *code == 6)
                .map(|(id, ((code, value), long))| Field { id, code, long, value })
                .collect();
            if turned && !fields.is_empty() {
                let by = by.index(fields.len());
                fields.rotate_left(by);
            }
            Tree::Struct(fields)
        })
        .boxed()
}

fn blob(content: &[u8]) -> Tree {
    Tree::Raw([&[content.len() as u8], content].concat())
}

fn list(trees: Vec<Tree>) -> Tree {
    let header = match trees.len() {
        len @ 0..15 => vec![(len as u8) << 4 | 12],
        len => vec![0xfc, len as u8],
    };
    Tree::List(header, trees)
}

fn any_pointer() -> impl Strategy<Value = Pointer> {
    prop_oneof![
        Just(Pointer::Clear),
        (any::<i64>(), any::<i32>()).prop_map(|(offset, length)| Pointer::Set { offset, length }),
    ]
}

/// Replaces field `id` of a random struct by `value`, so that all other fields are unknown.
fn with(tree: Tree, id: i16, code: u8, value: Tree) -> Tree {
    let Tree::Struct(mut fields) = tree else { unreachable!() };
    fields.retain(|field| field.id != id);
    let at = fields.iter().position(|field| field.id > id).unwrap_or(fields.len());
    fields.insert(at, Field { id, code, long: false, value });
    Tree::Struct(fields)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn patching_a_column_keeps_all_other_fields(tree in any_struct(2), pointer in any_pointer()) {
        let Tree::Struct(fields) = &tree else { unreachable!() };
        let patched = patch_column_metadata(&bytes(&tree), pointer).unwrap();
        let (actual, len) = parse(12, &patched, true);
        prop_assert_eq!(len, patched.len());
        prop_assert_eq!(actual, Tree::Struct(with_pointer_fields(fields, pointer)));
    }

    #[test]
    fn setting_and_clearing_a_pointer_restores_the_bytes(tree in any_struct(2), offset: i64, length: i32) {
        let bare = patch_column_metadata(&bytes(&tree), Pointer::Clear).unwrap();
        let set = patch_column_metadata(&bare, Pointer::Set { offset, length }).unwrap();
        prop_assert_eq!(parse(12, &patch_column_metadata(&set, Pointer::Clear).unwrap(), true), parse(12, &bare, true));
    }

    #[test]
    fn patching_a_file_keeps_everything_else(
        outer in any_struct(1),
        group in any_struct(1),
        chunk in any_struct(1),
        metas in prop::collection::vec((any_struct(1), any_pointer(), any::<bool>()), 1..5),
        module in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let file = |metas: Vec<(Tree, Tree)>| {
            let chunks = metas.into_iter().map(|(meta, module)| with(with(chunk.clone(), 3, 12, meta), 9, 8, module));
            let groups = vec![with(group.clone(), 1, 9, list(chunks.collect()))];
            with(outer.clone(), 4, 9, list(groups))
        };
        let before = file(metas.iter().map(|(meta, ..)| (meta.clone(), blob(b"old module"))).collect());
        let mut patches = BTreeMap::new();
        let mut after = Vec::new();
        for (column, (meta, pointer, chosen)) in metas.iter().enumerate() {
            let Tree::Struct(fields) = meta else { unreachable!() };
            if *chosen {
                let patch = ChunkPatch { pointer: Some(*pointer), encrypted_meta: Some(module.clone()) };
                patches.insert((0, column), patch);
                let mut prefix = vec![module.len() as u8];
                if module.len() > 127 {
                    prefix = vec![module.len() as u8 | 0x80, (module.len() >> 7) as u8];
                }
                after.push((Tree::Struct(with_pointer_fields(fields, *pointer)), Tree::Raw([prefix, module.clone()].concat())));
            } else {
                after.push((meta.clone(), blob(b"old module")));
            }
        }
        let trailing = [bytes(&before), b"signature".to_vec()].concat();
        let patched = patch_metadata(&trailing, &patches).unwrap();
        if patches.is_empty() {
            prop_assert_eq!(&patched, &bytes(&before));
        }
        prop_assert_eq!(parse(12, &patched, true).0, file(after));
    }
}

#[test]
fn only_the_pointers_of_real_footers_change() {
    for (name, footer) in fixtures::plain_footers() {
        let before = Metadata::decode(footer.clone(), 0).unwrap();
        assert_eq!(patch_metadata(&footer, &BTreeMap::new()).unwrap(), before.bytes(), "{name}");
        for pointer in [Pointer::Set { offset: 1 << 40, length: 77 }, Pointer::Clear] {
            let all = (0..before.row_groups().len())
                .flat_map(|group| (0..before.leaves().len()).map(move |column| (group, column)))
                .filter(|&(group, column)| before.chunk(group, column).unwrap().meta.is_some());
            let patch = ChunkPatch { pointer: Some(pointer), encrypted_meta: None };
            let patches: BTreeMap<_, _> = all.map(|at| (at, patch.clone())).collect();
            let patched = patch_metadata(&footer, &patches).unwrap();
            let after = Metadata::decode(patched.clone(), 0).unwrap();
            for &(group, column) in patches.keys() {
                let meta = after.chunk(group, column).unwrap().meta.as_ref().unwrap();
                let dremio = name.starts_with("dict-page-offset-zero");
                let expect = match pointer {
                    Pointer::Set { offset, length } => (Some(offset), (!dremio).then_some(length)),
                    Pointer::Clear => (None, None),
                };
                assert_eq!((meta.bloom_filter_offset, meta.bloom_filter_length), expect, "{name}");
            }
            // Clearing the pointer again restores the original bytes. The `parquet` crate sees all other values
            // unchanged.
            let clear = ChunkPatch { pointer: Some(Pointer::Clear), encrypted_meta: None };
            let cleared = patches.keys().map(|&at| (at, clear.clone())).collect();
            let bare = patch_metadata(&footer, &cleared).unwrap();
            assert_eq!(parse(12, &patch_metadata(&patched, &cleared).unwrap(), true), parse(12, &bare, true), "{name}");
        }
    }
}

#[test]
fn impossible_patches_are_errors() {
    let column = |fields: &[u8]| patch_column_metadata(fields, Pointer::Clear).map_err(|error| error.kind().clone());
    assert_eq!(
        column(&[0xe5, 2, 0]),
        Err(ErrorKind::File(FileKind::ForeignField { structure: "ColumnMetaData", id: 14 }))
    );
    assert_eq!(
        column(&[0xe6, 2, 6, 28, 4, 0]),
        Err(ErrorKind::File(FileKind::DuplicateField { structure: "ColumnMetaData", id: 14 }))
    );
    assert!(column(&[0xe6]).is_err());
    let patches = BTreeMap::from([((2, 1), ChunkPatch::default())]);
    let missing = patch_metadata(&[0x49, 0x0c, 0], &patches).unwrap_err();
    assert_eq!(missing.kind(), &ErrorKind::File(FileKind::NoSuchChunk { row_group: 2, column: 1 }));
}

#[test]
fn damaged_metadata_is_patched_or_an_error() {
    for (_, footer) in fixtures::plain_footers() {
        let patch = ChunkPatch { pointer: Some(Pointer::Set { offset: 5, length: 6 }), encrypted_meta: None };
        let patches = BTreeMap::from([((0, 0), patch)]);
        for at in 0..footer.len() {
            let _ = patch_metadata(&footer[..at], &patches);
            let mut damaged = footer.clone();
            damaged[at] ^= 0xff;
            let _ = patch_metadata(&damaged, &patches);
        }
    }
}
