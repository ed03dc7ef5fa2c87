//! Maps of pages with valid checksums. Either reading fails, or a map of what was read reads the same.

use parquet::file::properties::WriterProperties;
use parsieve::page_map::{Builder, FileMap, PageMap, Selection};
use parsieve::parquet::ParquetFile;
use parsieve::ranges::{Fetched, Step};

use super::{drive, read_footer};

/// The first slices are read.
const SLICES: u32 = 8;

/// Reads `data` as the body of a directory with one block behind it: two bytes with the length of the body come first.
pub fn run(data: &[u8]) {
    let Some((len, rest)) = data.split_first_chunk::<2>() else { return };
    let Some((schemas, block)) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len))) else { return };
    let Ok(map) = PageMap::open(&directory(schemas, block)) else { return };
    for slice in 0..SLICES {
        let Some(file) = read(&map, slice, Selection::default()) else { continue };
        let part = Selection { row_groups: Some(&[1]), columns: Some(&[0]) };
        if let Some(part) = read(&map, slice, part) {
            assert!(part.row_groups.len() <= 1 && part.row_groups.iter().all(|group| group.chunks.len() <= 1));
        }
        for group in &file.row_groups {
            for chunk in &group.chunks {
                assert!(chunk.end() <= file.file_len);
                for range in chunk.ranges_of(&[0..1, 7..100], group.num_rows) {
                    assert!(chunk.start <= range.start && range.end <= chunk.end());
                }
            }
        }
        let _ = file.footer().map(|footer| parsieve::parquet::Metadata::decode(footer, 0));
        let mut builder = Builder::new();
        if builder.add(slice, &file).is_ok() {
            let (mut directory, blocks) = builder.finish(SLICES).unwrap();
            directory.extend(blocks);
            let again = PageMap::open(&directory).unwrap();
            assert_eq!(read(&again, slice, Selection::default()), Some(file));
        }
    }
}

/// Returns the map of a file with several pages in each chunk, in two of the slices, and of one without offset indexes.
pub fn seeds(table: fn(WriterProperties) -> Vec<u8>) -> Vec<Vec<u8>> {
    let properties = WriterProperties::builder().set_data_page_row_count_limit(7).set_write_batch_size(7);
    let files = [properties.clone().build(), properties.set_offset_index_disabled(true).build()];
    files.map(|properties| seed(&table(properties))).to_vec()
}

fn seed(file: &[u8]) -> Vec<u8> {
    let opened = ParquetFile::open(read_footer(file).unwrap()).unwrap();
    let map = drive(file, |fetched| FileMap::of(&opened, None, fetched)).unwrap();
    let mut builder = Builder::new();
    [0, 3].into_iter().for_each(|slice| builder.add(slice, &map).unwrap());
    let (directory, _) = builder.finish(SLICES).unwrap();
    let schema = map.schema.bytes();
    let len = u16::try_from(schema.len()).unwrap();
    let schemas = [&[1, len as u8 | 0x80, (len >> 7) as u8][..], schema].concat();
    let body = u32::from_le_bytes(directory[4..8].try_into().unwrap()) as usize;
    [&(schemas.len() as u16).to_le_bytes()[..], &schemas, &directory[8 + body + 4..]].concat()
}

fn read(map: &PageMap, slice: u32, selection: Selection<'_>) -> Option<FileMap> {
    match map.file(slice, selection, &Fetched::new()) {
        Ok(Step::Ready(file)) => file,
        Ok(Step::Need(_)) | Err(_) => None,
    }
}

/// Returns a directory of [`SLICES`] slices with these encoded schemas and one block, which is behind it.
pub fn directory(schemas: &[u8], block: &[u8]) -> Vec<u8> {
    let mut body = vec![SLICES as u8];
    body.extend_from_slice(schemas);
    body.extend_from_slice(&[1, 0, 0]);
    let mut len = block.len();
    while len >= 0x80 {
        body.push(len as u8 | 0x80);
        len >>= 7;
    }
    body.push(len as u8);
    body.extend_from_slice(&crc32c::crc32c(block).to_le_bytes());
    let mut bytes = b"PgM1".to_vec();
    bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend_from_slice(block);
    bytes
}
