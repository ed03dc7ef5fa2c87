//! Builds a map from the maps of files.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{PageMapKind, Result};
use crate::int::{saturating_u32, to_u64};
use crate::page_map::block::{RunHeader, put_run};
use crate::page_map::directory::{BlockEntry, Directory};
use crate::page_map::error;
use crate::page_map::file_map::FileMap;
use crate::page_map::run::RunWriter;
use crate::page_map::schema::FileSchema;

/// Size in bytes up to which a block is filled. A row group that needs more has a separate block.
pub const BLOCK_BYTES: usize = 64 * 1024;
/// Size in bytes of all schemas of a map. A file with a further schema gets no map.
pub const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// The longest header of a run.
const HEADER_BYTES: usize = 64;

/// Builds a map of slices, which are added in ascending order. The same files always give the same bytes.
#[derive(Debug, Default)]
pub struct Builder {
    directory: Vec<BlockEntry>,
    schemas: Vec<Arc<FileSchema>>,
    numbers: HashMap<Vec<u8>, usize>,
    schema_bytes: usize,
    /// The block that is being filled, and the place where it begins.
    block: Vec<u8>,
    block_start: (u32, u32),
    /// The slice after the last one in the block.
    next: u32,
    /// The finished blocks that were not taken yet, and the size of the blocks before them.
    blocks: Vec<u8>,
    taken: u64,
}

impl Builder {
    /// Creates a builder without slices.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a slice. Returns an error of the class `Unsupported` if the file cannot be added. The builder is unchanged
    /// then.
    pub fn add(&mut self, slice: u32, file: &FileMap) -> Result<()> {
        if slice < self.next || slice == u32::MAX || !file.is_complete() {
            return Err(error(PageMapKind::Order));
        }
        let schema = self.schema_number(&file.schema)?;
        let total = file.row_groups.len();
        let header = |first: usize, num: usize| RunHeader {
            slice,
            schema,
            file_len: file.file_len,
            total,
            first_group: first,
            num_groups: num,
            first_row: file.row_groups.get(first).map_or(0, |group| group.first_row),
        };
        let mut run = RunWriter::new();
        file.row_groups.iter().for_each(|group| run.push(group));
        if run.len() + HEADER_BYTES <= BLOCK_BYTES {
            if !self.block.is_empty() && self.block.len() + run.len() + HEADER_BYTES > BLOCK_BYTES {
                self.end_block();
            }
            self.put(&header(0, total), &run.finish());
            return Ok(());
        }
        // A file with more has separate blocks.
        self.end_block();
        let (mut first, mut run) = (0, RunWriter::new());
        for (number, group) in file.row_groups.iter().enumerate() {
            let mut longer = run.clone();
            longer.push(group);
            if number > first && longer.len() + HEADER_BYTES > BLOCK_BYTES {
                self.put(&header(first, number - first), &run.finish());
                self.end_block();
                first = number;
                longer = RunWriter::new();
                longer.push(group);
            }
            run = longer;
        }
        self.put(&header(first, total - first), &run.finish());
        self.end_block();
        Ok(())
    }

    /// Returns the bytes of finished blocks, in order, that were not taken yet.
    pub fn take_blocks(&mut self) -> Vec<u8> {
        self.taken += to_u64(self.blocks.len());
        std::mem::take(&mut self.blocks)
    }

    /// Returns the directory of `num_slices` slices, and the blocks that were not taken yet. If all blocks together are
    /// small and none was taken, the directory includes them.
    pub fn finish(mut self, num_slices: u32) -> Result<(Vec<u8>, Vec<u8>)> {
        self.end_block();
        if num_slices < self.next {
            return Err(error(PageMapKind::Order));
        }
        let mut directory = Directory { num_slices, schemas: self.schemas, blocks: self.directory }.write();
        if self.taken == 0 && self.blocks.len() <= BLOCK_BYTES {
            directory.append(&mut self.blocks);
        }
        Ok((directory, self.blocks))
    }

    fn schema_number(&mut self, schema: &Arc<FileSchema>) -> Result<usize> {
        if let Some(&number) = self.numbers.get(schema.bytes()) {
            return Ok(number);
        }
        let bytes = schema.bytes().len();
        if self.schema_bytes + bytes > MAX_SCHEMA_BYTES {
            return Err(error(PageMapKind::NoMap { reason: "the files of the table have too many different schemas" }));
        }
        self.schema_bytes += bytes;
        self.numbers.insert(schema.bytes().to_vec(), self.schemas.len());
        self.schemas.push(Arc::clone(schema));
        Ok(self.schemas.len() - 1)
    }

    fn put(&mut self, header: &RunHeader, bits: &[u8]) {
        if self.block.is_empty() {
            self.block_start = (header.slice, saturating_u32(header.first_group));
            self.next = header.slice;
        }
        put_run(&mut self.block, self.next, header, bits);
        self.next = header.slice + 1;
    }

    fn end_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let (first_slice, first_group) = self.block_start;
        let offset = self.taken + to_u64(self.blocks.len());
        let (len, crc) = (to_u64(self.block.len()), crc32c::crc32c(&self.block));
        self.directory.push(BlockEntry { first_slice, first_group, offset, len, crc });
        self.blocks.append(&mut self.block);
    }
}
