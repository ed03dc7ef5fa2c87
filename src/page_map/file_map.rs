//! The chunks and pages of one file.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{PageMapKind, Result};
use crate::int::to_u64;
use crate::page_map::bits::LIMIT;
use crate::page_map::error;
use crate::page_map::schema::FileSchema;
use crate::parquet::{ColumnChunk, ColumnMeta, ParquetFile, Protection, page_locations};
use crate::ranges::{Fetched, Step};

/// A data page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Offset of the page header in the file.
    pub offset: u64,
    /// Size in bytes with the header.
    pub len: u64,
    /// Number of its first row in the row group.
    pub first_row: u64,
}

/// A column chunk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The number of its column among the leaves of the schema.
    pub column: usize,
    /// The format's code for the compression codec.
    pub codec: i32,
    /// The encodings in use, as bits `1 << code`.
    pub encodings: u32,
    /// Number of values, including nulls.
    pub num_values: u64,
    /// Offset of its first page, the dictionary page if there is one.
    pub start: u64,
    /// Size in bytes of all pages with their headers.
    pub len: u64,
    /// Size in bytes of the dictionary page with its header, if the footer states its position.
    pub dictionary_len: Option<u64>,
    /// The data pages in file order, or `None` if the file has no usable offset index. Never empty.
    pub pages: Option<Vec<Page>>,
}

/// A row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowGroup {
    /// Its number in the file.
    pub number: usize,
    /// Number of its first row in the file.
    pub first_row: u64,
    /// Number of rows.
    pub num_rows: u64,
    /// Its column chunks in schema order.
    pub chunks: Vec<Chunk>,
}

/// The chunks and pages of a file, or of a selection of its row groups and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMap {
    /// Size of the file in bytes.
    pub file_len: u64,
    /// The schema, which files share.
    pub schema: Arc<FileSchema>,
    /// Number of row groups of the file.
    pub num_row_groups: usize,
    /// The row groups in file order.
    pub row_groups: Vec<RowGroup>,
}

impl Chunk {
    /// Returns the end of the chunk.
    pub fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Returns the position of the first data page, according to the footer.
    pub fn data_start(&self) -> u64 {
        self.start + self.dictionary_len.unwrap_or(0)
    }

    /// Returns the ranges that hold all values of some rows: the pages that touch one of the ranges of rows, and the
    /// bytes before the first data page, such as a dictionary. Returns the whole chunk if its pages are unknown.
    pub fn ranges_of(&self, rows: &[Range<u64>], num_rows: u64) -> Vec<Range<u64>> {
        let Some(pages) = &self.pages else { return std::iter::once(self.start..self.end()).collect() };
        let mut ranges = Vec::new();
        let ends = pages.iter().skip(1).map(|page| page.first_row).chain([num_rows]);
        for (page, end) in pages.iter().zip(ends) {
            if rows.iter().any(|rows| rows.start < end && page.first_row < rows.end && !rows.is_empty()) {
                ranges.push(page.offset..page.offset + page.len);
            }
        }
        let first = pages.first().map_or(self.end(), |page| page.offset);
        if !ranges.is_empty() && self.start < first {
            ranges.insert(0, self.start..first);
        }
        crate::ranges::coalesce(ranges, 0)
    }
}

impl FileMap {
    /// Reads the map of a file from its footer and its offset indexes. `arrow` replaces the value of the file's key for
    /// the Arrow schema.
    ///
    /// Returns an error of the class `Unsupported` for encrypted files, and for files with chunks at unusual places.
    /// An offset index that is missing or inconsistent leaves the pages of its chunk unknown.
    pub fn of(file: &ParquetFile, arrow: Option<&[u8]>, fetched: &Fetched) -> Result<Step<Self>> {
        let no_map = |reason| error(PageMapKind::NoMap { reason });
        if file.algorithm().is_some() {
            return Err(no_map("it is encrypted or signed"));
        }
        if file.footer.file_len >= LIMIT {
            return Err(no_map("it is too large"));
        }
        let indexes = index_ranges(file);
        let missing: Vec<_> = indexes.iter().filter_map(|range| fetched.missing(range)).collect();
        if !missing.is_empty() {
            return Ok(Step::Need(missing));
        }
        let schema = Arc::new(FileSchema::of(&file.metadata, arrow)?);
        let mut row_groups = Vec::new();
        let mut first_row = 0u64;
        for (number, group) in file.metadata.row_groups().iter().enumerate() {
            let num_rows = group.num_rows;
            let mut chunks = Vec::with_capacity(group.chunks.len());
            for (column, chunk) in group.chunks.iter().enumerate() {
                if chunk.protection != Protection::Plain || chunk.in_other_file {
                    return Err(no_map("a column chunk is encrypted or in another file"));
                }
                let meta = chunk.meta.as_ref().ok_or_else(|| no_map("a column chunk has no metadata"))?;
                chunks.push(place(column, meta, file.data_end()).map_err(no_map)?);
                if let (Some(index), Some(placed)) = (index_range(file, chunk, num_rows), chunks.last_mut()) {
                    placed.pages = fetched.get(&index).and_then(|bytes| pages_of(bytes, placed, num_rows));
                }
            }
            row_groups.push(RowGroup { number, first_row, num_rows, chunks });
            first_row = first_row
                .checked_add(num_rows)
                .filter(|&rows| rows < LIMIT)
                .ok_or_else(|| no_map("its number of rows"))?;
        }
        let num_row_groups = row_groups.len();
        Ok(Step::Ready(Self { file_len: file.footer.file_len, schema, num_row_groups, row_groups }))
    }

    /// Returns true if the map has all row groups and columns of the file.
    pub fn is_complete(&self) -> bool {
        self.row_groups.len() == self.num_row_groups
            && self.row_groups.iter().all(|group| group.chunks.len() == self.schema.leaves().len())
    }
}

/// Locates a column chunk, before the offset `limit`. Returns the reason if it is at an unusual place.
pub(crate) fn place(column: usize, meta: &ColumnMeta, limit: u64) -> std::result::Result<Chunk, &'static str> {
    let data = meta.data(limit).map_err(|_| "a column chunk is outside of the file")?;
    let num_values = u64::try_from(meta.num_values).ok().filter(|&count| count < LIMIT);
    let dictionary_len = match meta.dictionary_page_offset {
        // Some writers store 0 if there is no dictionary.
        Some(offset) if offset > 0 => {
            // A chunk without values may have a dictionary page but no data page.
            let first =
                if meta.data_page_offset <= 0 { Some(data.end) } else { u64::try_from(meta.data_page_offset).ok() };
            let len = first.filter(|&first| first <= data.end).and_then(|first| first.checked_sub(data.start));
            let starts_here = u64::try_from(offset).ok() == Some(data.start);
            Some(len.filter(|_| starts_here).ok_or("a dictionary page is after the data pages")?)
        }
        _ => None,
    };
    Ok(Chunk {
        column,
        codec: meta.codec,
        encodings: meta.encodings,
        num_values: num_values.ok_or("the number of values of a column chunk")?,
        start: data.start,
        len: data.end - data.start,
        dictionary_len,
        pages: None,
    })
}

/// Returns the position of a chunk's offset index, or `None` if it cannot be right.
pub(crate) fn index_range(file: &ParquetFile, chunk: &ColumnChunk, num_rows: u64) -> Option<Range<u64>> {
    // A page has at least one row, and its location takes less than 40 bytes, including the size of its byte arrays.
    let longest = num_rows.saturating_mul(40).saturating_add(64);
    let location = chunk.offset_index?;
    let (start, len) = (u64::try_from(location.offset).ok()?, u64::try_from(location.length).ok()?);
    let end = start.checked_add(len).filter(|&end| end <= file.data_end())?;
    (len > 0 && len <= longest && start > 0).then_some(start..end)
}

fn index_ranges(file: &ParquetFile) -> Vec<Range<u64>> {
    let groups = file.metadata.row_groups().iter();
    let chunks = groups.flat_map(|group| group.chunks.iter().map(|chunk| index_range(file, chunk, group.num_rows)));
    crate::ranges::coalesce(chunks.flatten().collect(), 0)
}

/// Decodes an offset index. Returns `None` unless its pages are inside the chunk and ascend without overlaps, and begin
/// with row 0 and ascending rows of the row group.
pub(crate) fn pages_of(bytes: &[u8], chunk: &Chunk, num_rows: u64) -> Option<Vec<Page>> {
    let locations = page_locations(bytes, 0).ok()?;
    let (mut position, mut next_row) = (chunk.data_start(), 0);
    let mut pages = Vec::with_capacity(locations.len());
    for location in locations {
        let page = Page {
            offset: u64::try_from(location.offset).ok()?,
            len: u64::try_from(location.compressed_size).ok().filter(|&len| len > 0)?,
            first_row: u64::try_from(location.first_row).ok()?,
        };
        let is_first_row = if pages.is_empty() { page.first_row == 0 } else { page.first_row >= next_row };
        if page.offset < position || !is_first_row || page.first_row >= num_rows {
            return None;
        }
        position = page.offset.checked_add(page.len).filter(|&end| end <= chunk.end())?;
        next_row = page.first_row + 1;
        pages.push(page);
    }
    (!pages.is_empty() && to_u64(pages.len()) <= num_rows).then_some(pages)
}
