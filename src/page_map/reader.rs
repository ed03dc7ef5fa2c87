//! Reads a map without I/O.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, PageMapKind, Result};
use crate::int::{saturating_u32, to_u64, to_usize};
use crate::page_map::block::{RunHeader, find_run};
use crate::page_map::directory::{BlockEntry, Directory};
use crate::page_map::file_map::FileMap;
use crate::page_map::malformed;
use crate::page_map::run::{self, RunPlace};
use crate::ranges::{Fetched, Step};

/// The row groups and columns of a file to read. `None` means all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Selection<'a> {
    /// Numbers of row groups, in any order. Numbers that the file does not have are ignored.
    pub row_groups: Option<&'a [usize]>,
    /// Numbers of columns, in any order.
    pub columns: Option<&'a [usize]>,
}

/// The directory of a map. Its blocks are read by ranges.
#[derive(Debug, Clone)]
pub struct PageMap {
    directory: Directory,
    /// The blocks of a small map, which are stored behind the directory.
    inline: Vec<u8>,
}

impl PageMap {
    /// Opens a map by its directory.
    pub fn open(bytes: &[u8]) -> Result<Self> {
        let (directory, inline) = Directory::read(bytes)?;
        Ok(Self { directory, inline: inline.to_vec() })
    }

    /// Returns the number of slices, with or without a map.
    pub fn num_slices(&self) -> u32 {
        self.directory.num_slices
    }

    /// Returns the number of distinct schemas.
    pub fn num_schemas(&self) -> usize {
        self.directory.schemas.len()
    }

    /// Returns the number of blocks.
    pub fn num_blocks(&self) -> usize {
        self.directory.blocks.len()
    }

    /// Returns the size in bytes of all blocks.
    pub fn blocks_len(&self) -> u64 {
        self.directory.blocks.last().map_or(0, |block| block.offset + block.len)
    }

    /// Returns the map of a slice's file, or `None` if the slice has none. `fetched` are bytes of the blocks.
    pub fn file(&self, slice: u32, selection: Selection<'_>, fetched: &Fetched) -> Result<Step<Option<FileMap>>> {
        let blocks = self.blocks(slice, selection);
        let mut missing = Vec::new();
        if self.inline.is_empty() {
            missing
                .extend(blocks.iter().filter_map(|block| fetched.missing(&(block.offset..block.offset + block.len))));
        }
        if !missing.is_empty() {
            return Ok(Step::Need(missing));
        }
        let mut file: Option<(RunHeader, FileMap)> = None;
        for block in blocks {
            let bytes = self.bytes_of(block, fetched)?;
            let Some((header, bits)) = find_run(bytes, block.first_slice, slice)? else { continue };
            let schema =
                self.directory.schemas.get(header.schema).ok_or_else(|| malformed("the schema of a slice", 0))?;
            let place = RunPlace {
                first_group: header.first_group,
                num_groups: header.num_groups,
                first_row: header.first_row,
                num_columns: schema.leaves().len(),
                file_len: header.file_len,
            };
            let wants = |wanted: Option<&[usize]>, number: usize| wanted.is_none_or(|wanted| wanted.contains(&number));
            let groups = run::read(
                bits,
                place,
                |group| wants(selection.row_groups, group),
                |column| wants(selection.columns, column),
            )?;
            let (first, map) = file.get_or_insert_with(|| {
                let (file_len, schema) = (header.file_len, Arc::clone(schema));
                (header, FileMap { file_len, schema, num_row_groups: header.total, row_groups: Vec::new() })
            });
            let same = |header: &RunHeader| (header.schema, header.file_len, header.total);
            let follows = map.row_groups.last().is_none_or(|last| last.number < header.first_group);
            if same(first) != same(&header) || !follows {
                return Err(malformed("the runs of a slice", 0));
            }
            map.row_groups.extend(groups);
        }
        let map = file.map(|(_, map)| map);
        match &map {
            // A missing run must not look like a file with fewer row groups.
            Some(map) if !has_wanted(map, selection) => Err(malformed("the row groups of a slice", 0)),
            _ => Ok(Step::Ready(map)),
        }
    }

    /// Returns the blocks that may have a part of the selection, in order.
    fn blocks(&self, slice: u32, selection: Selection<'_>) -> Vec<&BlockEntry> {
        let Some(wanted) = selection.row_groups.filter(|wanted| !wanted.is_empty()) else {
            return self.directory.blocks_of(slice, 0, u32::MAX).iter().collect();
        };
        let mut blocks: Vec<&BlockEntry> = wanted
            .iter()
            .flat_map(|&group| self.directory.blocks_of(slice, saturating_u32(group), saturating_u32(group)))
            .collect();
        blocks.sort_by_key(|block| block.offset);
        blocks.dedup_by_key(|block| block.offset);
        blocks
    }

    fn bytes_of<'a>(&'a self, block: &BlockEntry, fetched: &'a Fetched) -> Result<&'a [u8]> {
        let range = block.offset..block.offset + block.len;
        let bytes = if self.inline.is_empty() {
            fetched.get(&range)
        } else {
            to_usize(range.start).zip(to_usize(range.end)).and_then(|(start, end)| self.inline.get(start..end))
        };
        let truncated = ErrorKind::Truncated { needed: block.len, available: to_u64(self.inline.len()) };
        let bytes = bytes.ok_or_else(|| Error::at(truncated, block.offset))?;
        if crc32c::crc32c(bytes) != block.crc {
            return Err(Error::at(ErrorKind::PageMap(PageMapKind::Checksum), block.offset));
        }
        Ok(bytes)
    }
}

fn has_wanted(map: &FileMap, selection: Selection<'_>) -> bool {
    let has = |number: &usize| map.row_groups.iter().any(|group| group.number == *number);
    match selection.row_groups {
        Some(wanted) => wanted.iter().filter(|number| **number < map.num_row_groups).all(has),
        None => map.row_groups.len() == map.num_row_groups,
    }
}
