//! The metadata of a file that a scan of its rows needs.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_schema::SchemaRef;

use super::RowSet;
use super::schema::RowSchema;
use crate::error::{Error, ErrorKind, Result, RowsKind};
use crate::int::{to_u64, to_usize};
use crate::page_map::{Chunk, FileMap, FileSchema, Page, index_range, pages_of, place};
use crate::parquet::{Codec, ColumnMeta, FIRST_READ, Footer, ParquetFile, Physical, Protection, SchemaLeaf, Tail};
use crate::ranges::{Fetched, Step, USUAL_GAP};

/// Chunks up to this size are read whole, because reading more costs less than first reading their offset index.
const SMALL_CHUNK: u64 = USUAL_GAP;
/// The most rows of a file.
const MAX_ROWS: u64 = 1 << 48;

/// The metadata of one version of a file.
#[derive(Debug)]
pub struct RowFile {
    pub(super) schema: RowSchema,
    pub(super) groups: Vec<Group>,
    num_rows: u64,
    /// Bytes with offset indexes that were fetched together with the footer, and their offset.
    tail: (u64, Vec<u8>),
    /// The known pages of chunks, by row group and leaf.
    pages: Mutex<HashMap<(usize, usize), Pages>>,
}

/// The data pages of a chunk, or `None` if its offset index is missing or cannot be trusted.
pub(super) type Pages = Option<Arc<[Page]>>;

/// A row group.
#[derive(Debug)]
pub(super) struct Group {
    /// Its rows in the file.
    pub(super) rows: Range<u64>,
    /// Its chunks by leaf. `None` if a map of pages lacks the chunk.
    chunks: Vec<Option<Place>>,
}

/// The position of a chunk.
#[derive(Debug)]
struct Place {
    chunk: Chunk,
    index: Option<Range<u64>>,
    /// About how many bytes its values take in memory. This is a claim of the file.
    decoded: u64,
    /// Why the chunk cannot be read.
    problem: Option<&'static str>,
}

impl Group {
    pub(super) fn num_rows(&self) -> u64 {
        self.rows.end - self.rows.start
    }
}

impl RowFile {
    /// Opens a file of `file_len` bytes by its footer.
    pub fn open(file_len: u64, fetched: &Fetched) -> Result<Step<Self>> {
        let footer = match Footer::read(file_len, FIRST_READ, fetched)? {
            Step::Ready(footer) => footer,
            Step::Need(needed) => return Ok(Step::Need(needed)),
        };
        let mut file = Self::of(&ParquetFile::open(footer)?)?;
        file.keep_indexes(fetched);
        Ok(Step::Ready(file))
    }

    /// Decodes the metadata in a footer, without the eight bytes at its end.
    pub fn from_footer(footer: Vec<u8>, file_len: u64) -> Result<Self> {
        let end = file_len.saturating_sub(crate::parquet::TAIL_LEN);
        let start = end.saturating_sub(to_u64(footer.len()));
        let tail = Tail { encrypted: false, metadata: start..end };
        Self::of(&ParquetFile::open(Footer { tail, file_len, bytes: footer })?)
    }

    /// Takes the metadata out of a map of pages.
    pub fn from_map(map: &FileMap) -> Result<Self> {
        let schema = RowSchema::decode(&map.schema)?;
        let (mut groups, mut pages) = (Vec::with_capacity(map.row_groups.len()), HashMap::new());
        for (number, group) in map.row_groups.iter().enumerate() {
            let mut chunks: Vec<Option<Place>> = schema.leaves.iter().map(|_| None).collect();
            for chunk in &group.chunks {
                let known = chunk.pages.as_deref().filter(|pages| have_no_gaps(chunk, pages)).map(Arc::from);
                pages.insert((number, chunk.column), known);
                let problem = Codec::from_code(chunk.codec).err().map(|_| UNKNOWN_CODEC);
                if let Some(place) = chunks.get_mut(chunk.column) {
                    // A map does not have the sizes before compression.
                    let decoded = decoded_size(&schema.leaves[chunk.column], chunk, None);
                    *place =
                        Some(Place { chunk: Chunk { pages: None, ..chunk.clone() }, index: None, decoded, problem });
                }
            }
            let end = group.first_row.checked_add(group.num_rows).filter(|end| *end <= MAX_ROWS);
            let end = end.ok_or_else(|| Error::new(ErrorKind::IntegerRange))?;
            groups.push(Group { rows: group.first_row..end, chunks });
        }
        let num_rows = groups.last().map_or(0, |group| group.rows.end);
        Ok(Self { schema, groups, num_rows, tail: (0, Vec::new()), pages: Mutex::new(pages) })
    }

    fn of(file: &ParquetFile) -> Result<Self> {
        let arrow = file.metadata.key_values().find(|(key, _)| *key == "ARROW:schema").and_then(|(_, value)| value);
        let schema = RowSchema::decode(&FileSchema::of(&file.metadata, arrow.map(str::as_bytes))?)?;
        let mut groups = Vec::with_capacity(file.metadata.row_groups().len());
        let mut num_rows = 0u64;
        for group in file.metadata.row_groups() {
            let mut chunks = Vec::with_capacity(group.chunks.len());
            for (leaf, chunk) in group.chunks.iter().enumerate() {
                let placed = match &chunk.meta {
                    _ if chunk.protection != Protection::Plain => Err("it is encrypted"),
                    _ if chunk.in_other_file => Err("its data is in another file"),
                    Some(meta) => place(leaf, meta, file.data_end()),
                    None => Err("it is encrypted"),
                };
                chunks.push(Some(match placed {
                    Ok(chunk_place) => {
                        let problem = Codec::from_code(chunk_place.codec).err().map(|_| UNKNOWN_CODEC);
                        let schema_leaf = schema.leaves.get(leaf);
                        let decoded =
                            schema_leaf.map_or(0, |leaf| decoded_size(leaf, &chunk_place, chunk.meta.as_deref()));
                        Place { chunk: chunk_place, index: index_range(file, chunk, group.num_rows), decoded, problem }
                    }
                    Err(problem) => Place { chunk: Chunk::default(), index: None, decoded: 0, problem: Some(problem) },
                }));
            }
            let end = num_rows.checked_add(group.num_rows).filter(|end| *end <= MAX_ROWS);
            let end = end.ok_or_else(|| Error::new(ErrorKind::IntegerRange))?;
            groups.push(Group { rows: num_rows..end, chunks });
            num_rows = end;
        }
        Ok(Self { schema, groups, num_rows, tail: (0, Vec::new()), pages: Mutex::new(HashMap::new()) })
    }

    /// Keeps the offset indexes that were fetched together with the footer.
    fn keep_indexes(&mut self, fetched: &Fetched) {
        let places = self.groups.iter().flat_map(|group| group.chunks.iter().flatten());
        let known = places.filter_map(|place| place.index.as_ref()).filter(|index| fetched.get(index).is_some());
        let span = known.fold(None, |span: Option<Range<u64>>, index| {
            Some(span.map_or(index.clone(), |span| span.start.min(index.start)..span.end.max(index.end)))
        });
        if let Some(span) = span
            && let Some(bytes) = fetched.get(&span)
        {
            self.tail = (span.start, bytes.to_vec());
        }
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Returns the number of rows of each row group.
    pub fn row_groups(&self) -> impl Iterator<Item = u64> {
        self.groups.iter().map(Group::num_rows)
    }

    /// Returns the number of top-level columns.
    pub fn num_columns(&self) -> usize {
        self.schema.num_columns()
    }

    /// Returns the top-level columns, with the types that a scan returns.
    pub fn schema(&self) -> SchemaRef {
        self.schema.project(&(0..self.schema.num_columns()).collect::<Vec<_>>())
    }

    /// Returns why a top-level column cannot be read exactly as pyarrow would. Returns `None` if it can.
    pub fn unreadable(&self, column: usize) -> Result<Option<String>> {
        let leaves = self.schema.leaves_of(column)?;
        if let Some(reason) = self.schema.unreadable(column) {
            return Ok(Some(reason.to_owned()));
        }
        let places = self.groups.iter().flat_map(|group| group.chunks.get(leaves.clone()).unwrap_or_default());
        Ok(places.flatten().find_map(|place| place.problem).map(str::to_owned))
    }

    /// Estimates the number of bytes that a scan fetches.
    pub fn compressed_size(&self, columns: &[usize], rows: &RowSet) -> Result<u64> {
        let mut size = 0u64;
        for (group, rows) in self.selected(rows) {
            for &column in columns {
                for leaf in self.schema.leaves_of(column)? {
                    size = size.saturating_add(self.chunk_size(group, leaf, &rows)?);
                }
            }
        }
        Ok(size)
    }

    /// Estimates the bytes of memory that the values of some rows take, by what the footer states.
    pub fn decoded_size(&self, columns: &[usize], rows: &RowSet) -> Result<u64> {
        let mut size = 0u64;
        for (group, rows) in self.selected(rows) {
            let wanted: u64 = rows.iter().map(|range| range.end - range.start).sum();
            for &column in columns {
                for leaf in self.schema.leaves_of(column)? {
                    let chunk = self.place(group, leaf).map_or(0, |place| place.decoded);
                    let share =
                        u128::from(chunk) * u128::from(wanted) / u128::from(self.groups[group].num_rows().max(1));
                    size = size.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
                }
            }
        }
        Ok(size)
    }

    /// Returns true if some rows of a column can be read without the other pages of their row group.
    pub fn has_page_index(&self, column: usize) -> Result<bool> {
        let mut leaves = self.schema.leaves_of(column)?;
        Ok(leaves.all(|leaf| {
            (0..self.groups.len()).all(|group| match self.pages(group, leaf) {
                Some(pages) => pages.is_some(),
                None => self.place(group, leaf).is_none_or(|place| place.index.is_some()),
            })
        }))
    }

    fn chunk_size(&self, group: usize, leaf: usize, rows: &[Range<u64>]) -> Result<u64> {
        let chunk = self.chunk(group, leaf)?;
        let num_rows = self.groups[group].num_rows();
        if let Some(Some(pages)) = self.pages(group, leaf) {
            let is_nested = self.schema.leaves[leaf].max_rep > 0;
            return Ok(super::load::needed_ranges(chunk, &pages, rows, num_rows, is_nested)
                .iter()
                .map(|range| range.end - range.start)
                .sum());
        }
        if self.index_to_fetch(group, leaf, rows).is_none() {
            return Ok(chunk.len);
        }
        // A page usually has 20,000 rows or a mebibyte. Each range of rows needs one page more than it fills.
        let page = (chunk.len / (num_rows / 20_000).max(1)).min(1 << 20);
        let wanted: u64 = rows.iter().map(|range| range.end - range.start).sum();
        let filled = u128::from(chunk.len) * u128::from(wanted) / u128::from(num_rows.max(1));
        let filled = u64::try_from(filled).unwrap_or(u64::MAX);
        Ok(filled.saturating_add(page.saturating_mul(to_u64(rows.len()))).min(chunk.len))
    }

    /// Returns about how many bytes of memory the metadata takes.
    pub fn memory(&self) -> usize {
        let chunks: usize = self.groups.iter().map(|group| group.chunks.len() * size_of::<Option<Place>>() + 64).sum();
        let pages = self.lock();
        let pages: usize =
            pages.values().map(|pages| 96 + pages.as_ref().map_or(0, |pages| size_of_val(&**pages))).sum();
        size_of::<Self>() + self.schema.memory() + chunks + pages + self.tail.1.len()
    }

    /// Returns the row groups that have some of the rows, each with these rows relative to its first one.
    pub(super) fn selected(&self, rows: &RowSet) -> Vec<(usize, Vec<Range<u64>>)> {
        let groups = self.groups.iter().enumerate();
        groups.map(|(number, group)| (number, rows.within(&group.rows))).filter(|(_, rows)| !rows.is_empty()).collect()
    }

    pub(super) fn chunk(&self, group: usize, leaf: usize) -> Result<&Chunk> {
        let place = self.place(group, leaf).ok_or_else(|| Error::new(ErrorKind::Rows(RowsKind::NotInMap)))?;
        match place.problem {
            None => Ok(&place.chunk),
            Some(reason) => {
                let column = self.schema.name_of_leaf(leaf);
                Err(Error::new(ErrorKind::Rows(RowsKind::Unreadable { column, reason: reason.to_owned() })))
            }
        }
    }

    fn place(&self, group: usize, leaf: usize) -> Option<&Place> {
        self.groups.get(group)?.chunks.get(leaf)?.as_ref()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(usize, usize), Pages>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the pages of a chunk if its offset index was read.
    pub(super) fn pages(&self, group: usize, leaf: usize) -> Option<Pages> {
        self.lock().get(&(group, leaf)).cloned()
    }

    /// Returns the position of a chunk's offset index, if it must be known before some of the chunk's rows are read.
    pub(super) fn index_to_fetch(&self, group: usize, leaf: usize, rows: &[Range<u64>]) -> Option<Range<u64>> {
        let place = self.place(group, leaf)?;
        let index = place.index.clone()?;
        let wanted: u64 = rows.iter().map(|range| range.end - range.start).sum();
        let most = wanted > self.groups.get(group)?.num_rows() / 4 * 3;
        if most || self.pages(group, leaf).is_some() {
            return None;
        }
        let (start, tail) = &self.tail;
        let inside = |offset: u64| offset.checked_sub(*start).and_then(to_usize);
        let known = inside(index.start).zip(inside(index.end)).and_then(|(start, end)| tail.get(start..end));
        match known {
            Some(bytes) => self.learn(group, leaf, bytes),
            None if place.chunk.len > SMALL_CHUNK => return Some(index),
            None => {}
        }
        None
    }

    /// Decodes the offset index of a chunk.
    pub(super) fn learn(&self, group: usize, leaf: usize, bytes: &[u8]) {
        let Some(place) = self.place(group, leaf) else { return };
        let num_rows = self.groups.get(group).map_or(0, Group::num_rows);
        let pages = pages_of(bytes, &place.chunk, num_rows).filter(|pages| have_no_gaps(&place.chunk, pages));
        self.lock().insert((group, leaf), pages.map(Arc::from));
    }

    /// Sets the known pages of a chunk.
    #[cfg(test)]
    pub(super) fn damage(&self, group: usize, leaf: usize, change: impl FnOnce(&mut Vec<Page>)) {
        let mut pages = self.pages(group, leaf).flatten().expect("known pages").to_vec();
        change(&mut pages);
        self.lock().insert((group, leaf), Some(Arc::from(pages)));
    }

    /// Forgets the pages of a chunk, because its offset index contradicts them.
    pub(super) fn distrust(&self, group: usize, leaf: usize) {
        self.lock().insert((group, leaf), None);
    }
}

/// Estimates the bytes that the values of a chunk take in memory. A dictionary can make pages much smaller than their
/// values, so the size before compression is not enough.
fn decoded_size(leaf: &SchemaLeaf, chunk: &Chunk, meta: Option<&ColumnMeta>) -> u64 {
    let width = match leaf.physical {
        Physical::Boolean => 0,
        Physical::Int64 | Physical::Double => 8,
        Physical::Int96 => 12,
        Physical::FixedLenByteArray => leaf.type_length.and_then(|length| u64::try_from(length).ok()).unwrap_or(0),
        // The offset of a string.
        Physical::Int32 | Physical::Float | Physical::ByteArray | Physical::Unknown(_) => 4,
    };
    let strings = meta.and_then(|meta| meta.string_bytes).and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
    let pages = meta.and_then(|meta| u64::try_from(meta.total_uncompressed_size).ok()).unwrap_or(0);
    chunk.num_values.saturating_mul(width).saturating_add(strings).max(pages).max(chunk.len)
}

const UNKNOWN_CODEC: &str = "its compression is not supported";

/// Returns true if the pages fill the chunk after its dictionary. A page that the index omits would shift all rows.
fn have_no_gaps(chunk: &Chunk, pages: &[Page]) -> bool {
    let ends = pages.iter().map(|page| page.offset + page.len);
    let starts = pages.iter().skip(1).map(|page| page.offset).chain([chunk.end()]);
    !pages.is_empty() && ends.eq(starts)
}
