//! Maps of random files, read back completely and in parts, and damaged maps.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::error::Result;
use crate::int::{to_u64, to_usize};
use crate::ranges::{Fetched, Step};
use crate::thrift::{Type, Writer};

/// Returns a schema with this many columns of type INT64.
fn schema(columns: usize, created_by: &str) -> Arc<FileSchema> {
    let mut writer = Writer::new();
    writer.field(Type::I32, 1, 0);
    writer.integer(2);
    writer.field(Type::List, 2, 1);
    writer.raw(&[0xf0 | Type::Struct as u8]);
    let mut count = Vec::new();
    crate::varint::put_varint(&mut count, to_u64(columns + 1));
    writer.raw(&count);
    writer.field(Type::Binary, 4, 0);
    writer.binary(b"schema");
    writer.field(Type::I32, 5, 4);
    writer.integer(i64::try_from(columns).unwrap());
    writer.stop();
    for column in 0..columns {
        writer.field(Type::I32, 1, 0);
        writer.integer(2);
        writer.field(Type::I32, 3, 1);
        writer.integer(1);
        writer.field(Type::Binary, 4, 3);
        writer.binary(format!("column {column}").as_bytes());
        writer.stop();
    }
    writer.field(Type::I64, 3, 2);
    writer.integer(0);
    writer.field(Type::List, 4, 3);
    writer.raw(&[Type::Struct as u8]);
    writer.field(Type::Binary, 6, 4);
    writer.binary(created_by.as_bytes());
    writer.stop();
    Arc::new(FileSchema::decode(writer.into_bytes()).unwrap())
}

/// The random numbers from which a test makes a file.
#[derive(Debug, Clone)]
struct Recipe {
    columns: usize,
    /// For each row group, its rows and the seed of its chunks.
    groups: Vec<(u64, u64)>,
    writer: u8,
}

fn recipe() -> impl Strategy<Value = Recipe> {
    let groups = prop::collection::vec((0u64..200_000, any::<u64>()), 0..5);
    (0usize..6, groups, 0u8..3).prop_map(|(columns, groups, writer)| Recipe { columns, groups, writer })
}

impl Recipe {
    fn file(&self) -> FileMap {
        let mut position = 4;
        let mut first_row = 0;
        let mut row_groups = Vec::new();
        for (number, &(num_rows, seed)) in self.groups.iter().enumerate() {
            let mut random = Random(seed);
            let chunks = (0..self.columns).map(|column| chunk(column, num_rows, &mut position, &mut random));
            row_groups.push(RowGroup { number, first_row, num_rows, chunks: chunks.collect() });
            first_row += num_rows;
        }
        let schema = schema(self.columns, &format!("writer {}", self.writer));
        FileMap { file_len: position + 100, schema, num_row_groups: row_groups.len(), row_groups }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x1234_5677);
        (self.0 >> 11) % bound.max(1)
    }
}

fn chunk(column: usize, num_rows: u64, position: &mut u64, random: &mut Random) -> Chunk {
    *position += [0, 0, 0, 17][usize::try_from(random.below(4)).unwrap()];
    let start = *position;
    let dictionary_len = (random.below(2) == 0).then(|| random.below(70_000));
    *position += dictionary_len.unwrap_or(0);
    let mut pages = Vec::new();
    let (kind, rows_of_page) = (random.below(4), 1 + random.below(30_000));
    let mut first_row = 0;
    while first_row < num_rows && kind > 0 {
        *position += if kind == 1 { random.below(50) } else { 0 };
        let len = 1 + random.below(1 << 20);
        pages.push(Page { offset: *position, len, first_row });
        *position += len;
        first_row += if kind == 2 { rows_of_page } else { 1 + random.below(rows_of_page) };
    }
    *position += if kind == 1 { random.below(50) } else { 0 };
    Chunk {
        column,
        codec: i32::try_from(random.below(3)).unwrap(),
        encodings: u32::try_from(random.below(600)).unwrap(),
        num_values: if random.below(4) == 0 { num_rows + random.below(1000) } else { num_rows },
        start,
        len: *position - start,
        dictionary_len,
        pages: (!pages.is_empty()).then_some(pages),
    }
}

/// Builds a map of some slices. Returns its directory and its blocks.
fn build(files: &[(u32, FileMap)], take: bool) -> (Vec<u8>, Vec<u8>) {
    let mut builder = Builder::new();
    let mut blocks = Vec::new();
    for (slice, file) in files {
        builder.add(*slice, file).unwrap();
        if take {
            blocks.extend(builder.take_blocks());
        }
    }
    let (directory, rest) = builder.finish(files.last().map_or(0, |(slice, _)| slice + 1)).unwrap();
    blocks.extend(rest);
    (directory, blocks)
}

fn read(map: &PageMap, blocks: &[u8], slice: u32, selection: Selection<'_>) -> Result<Option<FileMap>> {
    let mut fetched = Fetched::new();
    loop {
        match map.file(slice, selection, &fetched)? {
            Step::Ready(file) => return Ok(file),
            Step::Need(ranges) => {
                for range in ranges {
                    let bytes = blocks.get(to_usize(range.start).unwrap()..to_usize(range.end).unwrap());
                    let bytes = bytes.ok_or_else(|| error(PageMapKind::Checksum))?;
                    assert!(fetched.get(&range).is_none(), "{range:?} is known");
                    fetched.insert(range.start, bytes.to_vec());
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn maps_read_back_completely_and_in_parts(
        recipes in prop::collection::vec((recipe(), 1u32..4), 0..8),
        take in any::<bool>(),
        groups in prop::collection::vec(0usize..6, 0..4),
        columns in prop::collection::vec(0usize..7, 0..4),
    ) {
        let mut slice = 0;
        let files: Vec<(u32, FileMap)> = recipes.iter().map(|(recipe, step)| {
            slice += step;
            (slice, recipe.file())
        }).collect();
        let (directory, blocks) = build(&files, take);
        let map = PageMap::open(&directory).unwrap();
        prop_assert_eq!(map.num_slices(), files.last().map_or(0, |(slice, _)| slice + 1));
        for (slice, file) in &files {
            let complete = read(&map, &blocks, *slice, Selection::default()).unwrap();
            prop_assert_eq!(complete.as_ref(), Some(file));
            let selection = Selection { row_groups: Some(&groups), columns: Some(&columns) };
            let part = read(&map, &blocks, *slice, selection).unwrap().unwrap();
            let mut expected = file.clone();
            expected.row_groups.retain(|group| groups.contains(&group.number));
            expected.row_groups.iter_mut().for_each(|group| group.chunks.retain(|chunk| columns.contains(&chunk.column)));
            prop_assert_eq!(part, expected);
        }
        for slice in 0..slice + 3 {
            if files.iter().all(|(other, _)| *other != slice) {
                prop_assert_eq!(read(&map, &blocks, slice, Selection::default()).unwrap(), None);
            }
        }
        // Building the map again from the files that were read gives the same bytes.
        let again: Vec<_> = files.iter().map(|(slice, _)| (*slice, read(&map, &blocks, *slice, Selection::default()).unwrap().unwrap())).collect();
        prop_assert_eq!(build(&again, take), (directory, blocks));
    }

    #[test]
    fn ranges_of_rows_hold_all_of_their_values(recipe in recipe(), rows in prop::collection::vec((0u64..200_000, 0u64..3000), 0..5)) {
        let rows: Vec<_> = rows.into_iter().map(|(start, len)| start..start + len).collect();
        for group in recipe.file().row_groups {
            for chunk in &group.chunks {
                let ranges = chunk.ranges_of(&rows, group.num_rows);
                let Some(pages) = &chunk.pages else {
                    prop_assert!(ranges.len() == 1 && ranges[0] == (chunk.start..chunk.end()));
                    continue;
                };
                prop_assert!(ranges.iter().all(|range| chunk.start <= range.start && range.end <= chunk.end()));
                let has = |at: u64, len: u64| ranges.iter().any(|range| range.start <= at && at + len <= range.end);
                let mut touches_any = false;
                for (number, page) in pages.iter().enumerate() {
                    let end = pages.get(number + 1).map_or(group.num_rows, |next| next.first_row);
                    let touches = rows.iter().any(|rows| (page.first_row..end).any(|row| rows.contains(&row)));
                    touches_any |= touches;
                    prop_assert_eq!(has(page.offset, page.len), touches, "page {}", number);
                }
                let before = pages[0].offset - chunk.start;
                prop_assert_eq!(touches_any && before > 0, before > 0 && has(chunk.start, before));
            }
        }
    }
}

fn files() -> Vec<(u32, FileMap)> {
    let group = |number: u64| (150_000 + number, 77 * number + 5);
    // The second file needs several blocks.
    let large = Recipe { columns: 5, groups: (0..400).map(group).collect(), writer: 1 };
    let small = Recipe { columns: 3, groups: vec![group(1), group(2)], writer: 0 };
    vec![(0, small.file()), (2, large.file()), (3, small.file())]
}

#[test]
fn large_files_are_read_by_blocks() {
    let files = files();
    let (directory, blocks) = build(&files, false);
    let map = PageMap::open(&directory).unwrap();
    assert!(map.num_blocks() > 3 && map.blocks_len() == to_u64(blocks.len()));
    for row_group in [0, 150, 399] {
        let selection = Selection { row_groups: Some(&[row_group]), columns: Some(&[4]) };
        let Step::Need(ranges) = map.file(2, selection, &Fetched::new()).unwrap() else { panic!("no range") };
        assert_eq!(ranges.len(), 1);
        assert!(ranges[0].end - ranges[0].start <= to_u64(BLOCK_BYTES));
        let part = read(&map, &blocks, 2, selection).unwrap().unwrap();
        assert_eq!(part.row_groups[0].chunks[0], files[1].1.row_groups[row_group].chunks[4]);
        assert_eq!(part.row_groups[0].first_row, files[1].1.row_groups[row_group].first_row);
        assert!(part.footer().is_err(), "a footer needs all columns");
    }
}

#[test]
fn damage_never_changes_what_is_read() {
    let files = files();
    let small = vec![files[0].clone(), files[2].clone()];
    for files in [small, files] {
        let (directory, blocks) = build(&files, false);
        let check = |directory: &[u8], blocks: &[u8]| {
            let Ok(map) = PageMap::open(directory) else { return 1 };
            let mut failures = 0;
            for (slice, file) in &files {
                match read(&map, blocks, *slice, Selection::default()) {
                    Ok(found) => assert_eq!(found.as_ref(), Some(file)),
                    Err(_) => failures += 1,
                }
            }
            failures
        };
        assert_eq!(check(&directory, &blocks), 0);
        let damages = |bytes: &[u8]| {
            let step = (bytes.len() / 300).max(1);
            let mut damaged: Vec<Vec<u8>> = (0..bytes.len()).step_by(step).map(|end| bytes[..end].to_vec()).collect();
            for at in (0..bytes.len()).step_by(step) {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << (at % 8);
                damaged.push(flipped);
            }
            damaged
        };
        damages(&directory).iter().for_each(|damaged| assert!(check(damaged, &blocks) > 0));
        damages(&blocks).iter().for_each(|damaged| assert!(check(&directory, damaged) > 0));
        if !blocks.is_empty() {
            let mut swapped = blocks.clone();
            swapped.rotate_left(BLOCK_BYTES);
            assert!(check(&directory, &swapped) > 0);
        }
    }
}

#[test]
fn footers_decode_to_the_same_chunks() {
    use crate::parquet::Metadata;

    for (_, file) in files() {
        let metadata = Metadata::decode(file.footer().unwrap(), 0).unwrap();
        assert_eq!(metadata.leaves(), file.schema.leaves());
        assert_eq!(metadata.row_groups().len(), file.row_groups.len());
        for (theirs, ours) in metadata.row_groups().iter().zip(&file.row_groups) {
            assert_eq!(theirs.num_rows, ours.num_rows);
            for (theirs, ours) in theirs.chunks.iter().zip(&ours.chunks) {
                let meta = theirs.meta.as_ref().unwrap();
                assert_eq!(meta.data(file.file_len).unwrap(), ours.start..ours.end());
                assert_eq!((meta.codec, meta.encodings), (ours.codec, ours.encodings));
            }
        }
    }
}

#[test]
fn slices_must_ascend_and_schemas_are_limited() {
    let file = files()[0].1.clone();
    let mut builder = Builder::new();
    builder.add(4, &file).unwrap();
    assert!(builder.add(4, &file).is_err() && builder.add(3, &file).is_err());
    let partial = FileMap { num_row_groups: 9, ..file.clone() };
    assert!(builder.add(5, &partial).is_err());
    let distinct =
        |number: usize| FileMap { schema: schema(3, &format!("{number}{}", "x".repeat(100_000))), ..file.clone() };
    let added = (0..20).filter(|&number| builder.add(5 + u32::try_from(number).unwrap(), &distinct(number)).is_ok());
    assert_eq!(added.count(), MAX_SCHEMA_BYTES / 100_000);
    builder.add(30, &file).unwrap();
    assert!(builder.finish(30).is_err(), "slice 30 is outside of 0..30");
}
