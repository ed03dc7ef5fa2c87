//! The bits of a run: successive row groups of one file.
//!
//! Each chunk is predicted from the chunk of the same column in the row group before it, or in the first row group of the
//! run from the column before it. It is expected to begin where the last chunk ended.

use crate::error::Result;
use crate::int::to_u64;
use crate::page_map::bits::{BitReader, BitWriter, LIMIT};
use crate::page_map::file_map::{Chunk, Page, RowGroup};
use crate::page_map::malformed;

/// The beginning of the first chunk of most files, after the magic bytes.
const FIRST_CHUNK: u64 = 4;

/// How the pages of a chunk are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Pages {
    /// They are unknown.
    #[default]
    Unknown,
    /// They fill the chunk after its dictionary without gaps, so that the length of the last page follows.
    Dense,
    /// Each has a gap before it and a length.
    Spaced,
}

/// The properties of a chunk that are likely the same in the next chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Shape {
    codec: u32,
    encodings: u32,
    has_dictionary: bool,
    pages: Pages,
}

/// The properties of a chunk from which the next chunk is predicted.
#[derive(Debug, Clone, Copy, Default)]
struct Previous {
    shape: Shape,
    len: u64,
    dictionary_len: u64,
    num_pages: u64,
}

/// The state of a run between two row groups.
#[derive(Debug, Clone)]
struct Prediction {
    /// The end of the last chunk.
    position: u64,
    num_rows: u64,
    /// By column; empty before the first row group.
    previous: Vec<Previous>,
}

impl Prediction {
    fn new() -> Self {
        Self { position: FIRST_CHUNK, num_rows: 0, previous: Vec::new() }
    }

    fn of(&self, column: usize, before: Previous) -> Previous {
        self.previous.get(column).copied().unwrap_or(before)
    }
}

impl Shape {
    fn of(chunk: &Chunk) -> Self {
        let pages = match &chunk.pages {
            None => Pages::Unknown,
            Some(pages) => {
                let mut position = chunk.data_start();
                let dense = pages.iter().all(|page| {
                    let fits = page.offset == position;
                    position = page.offset + page.len;
                    fits
                });
                if dense && position == chunk.end() { Pages::Dense } else { Pages::Spaced }
            }
        };
        Self {
            codec: chunk.codec.cast_unsigned(),
            encodings: chunk.encodings,
            has_dictionary: chunk.dictionary_len.is_some(),
            pages,
        }
    }

    fn write(self, writer: &mut BitWriter) {
        writer.number(self.codec.into());
        writer.number(self.encodings.into());
        writer.flag(self.has_dictionary);
        writer.put(
            match self.pages {
                Pages::Unknown => 0,
                Pages::Dense => 1,
                Pages::Spaced => 2,
            },
            2,
        );
    }

    fn read(reader: &mut BitReader<'_>) -> Result<Self> {
        let at = reader.offset();
        let narrow = |value: u64| u32::try_from(value).map_err(|_| malformed("a codec or encoding", at));
        Ok(Self {
            codec: narrow(reader.number()?)?,
            encodings: narrow(reader.number()?)?,
            has_dictionary: reader.flag()?,
            pages: match reader.take(2)? {
                0 => Pages::Unknown,
                1 => Pages::Dense,
                2 => Pages::Spaced,
                _ => return Err(malformed("the kind of pages", at)),
            },
        })
    }
}

/// Encodes row groups one by one.
#[derive(Debug, Clone)]
pub(super) struct RunWriter {
    writer: BitWriter,
    prediction: Prediction,
}

impl RunWriter {
    pub(super) fn new() -> Self {
        Self { writer: BitWriter::default(), prediction: Prediction::new() }
    }

    /// Returns the number of bytes so far.
    pub(super) fn len(&self) -> usize {
        usize::try_from(self.writer.len().div_ceil(8)).unwrap_or(usize::MAX)
    }

    /// Appends a row group with all of its columns.
    pub(super) fn push(&mut self, group: &RowGroup) {
        let (writer, prediction) = (&mut self.writer, &mut self.prediction);
        writer.difference(group.num_rows, prediction.num_rows);
        let mut before = Previous::default();
        let mut rows_before: Option<&[Page]> = None;
        for (column, chunk) in group.chunks.iter().enumerate() {
            let expected = prediction.of(column, before);
            before = Self::chunk(writer, chunk, expected, prediction.position, group.num_rows);
            prediction.position = chunk.end();
            if let Some(pages) = &chunk.pages {
                Self::pages(writer, chunk, pages, before.shape.pages, rows_before);
                rows_before = Some(pages);
            }
            match prediction.previous.get_mut(column) {
                Some(previous) => *previous = before,
                None => prediction.previous.push(before),
            }
        }
        prediction.num_rows = group.num_rows;
    }

    fn chunk(writer: &mut BitWriter, chunk: &Chunk, expected: Previous, position: u64, num_rows: u64) -> Previous {
        let shape = Shape::of(chunk);
        writer.flag(shape == expected.shape);
        if shape != expected.shape {
            shape.write(writer);
        }
        writer.flag(chunk.start == position);
        if chunk.start != position {
            writer.difference(chunk.start, position);
        }
        writer.difference(chunk.len, expected.len);
        writer.flag(chunk.num_values == num_rows);
        if chunk.num_values != num_rows {
            writer.difference(chunk.num_values, num_rows);
        }
        let mut now = Previous { shape, len: chunk.len, ..expected };
        if let Some(len) = chunk.dictionary_len {
            writer.difference(len, expected.dictionary_len);
            now.dictionary_len = len;
        }
        if let Some(pages) = &chunk.pages {
            now.num_pages = to_u64(pages.len());
            writer.difference(now.num_pages, expected.num_pages);
        }
        now
    }

    fn pages(writer: &mut BitWriter, chunk: &Chunk, pages: &[Page], kind: Pages, rows_before: Option<&[Page]>) {
        if let Some(before) = rows_before.filter(|before| before.len() == pages.len()) {
            let same = pages.iter().zip(before).all(|(page, before)| page.first_row == before.first_row);
            writer.flag(same);
            if !same {
                writer.list(&rows_of(pages));
            }
        } else {
            writer.list(&rows_of(pages));
        }
        let lengths: Vec<u64> = pages.iter().map(|page| page.len).collect();
        if kind == Pages::Dense {
            return writer.list(&lengths[..lengths.len().saturating_sub(1)]);
        }
        writer.list(&lengths);
        let mut position = chunk.data_start();
        let gaps = pages.iter().map(|page| page.offset - std::mem::replace(&mut position, page.offset + page.len));
        writer.list(&gaps.collect::<Vec<u64>>());
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.writer.finish()
    }
}

/// Returns the number of rows of each page except the last one.
fn rows_of(pages: &[Page]) -> Vec<u64> {
    pages.iter().zip(pages.iter().skip(1)).map(|(page, next)| next.first_row - page.first_row).collect()
}

/// The position of a run in its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunPlace {
    /// The number of its first row group.
    pub(super) first_group: usize,
    /// Number of row groups.
    pub(super) num_groups: usize,
    /// The number of its first row.
    pub(super) first_row: u64,
    pub(super) num_columns: usize,
    /// The size of the file.
    pub(super) file_len: u64,
}

/// Decodes a run. Returns only the wanted row groups, and in them only the wanted columns.
pub(super) fn read(
    mut reader: BitReader<'_>,
    place: RunPlace,
    wants_group: impl Fn(usize) -> bool,
    wants_column: impl Fn(usize) -> bool,
) -> Result<Vec<RowGroup>> {
    let reader = &mut reader;
    let mut prediction = Prediction::new();
    let (mut row_groups, mut first_row) = (Vec::new(), place.first_row);
    let (mut pages, mut first_rows) = (Vec::new(), Vec::new());
    for number in place.first_group..place.first_group.saturating_add(place.num_groups) {
        let at = reader.offset();
        let num_rows = reader.difference(prediction.num_rows)?;
        let mut chunks = Vec::new();
        let mut before = Previous::default();
        first_rows.clear();
        for column in 0..place.num_columns {
            let expected = prediction.of(column, before);
            let (mut chunk, now) = read_chunk(reader, column, expected, prediction.position, num_rows)?;
            if chunk.end() > place.file_len {
                return Err(malformed("the end of a chunk", at));
            }
            prediction.position = chunk.end();
            if now.shape.pages != Pages::Unknown {
                read_pages(reader, &chunk, now, num_rows, &mut first_rows, &mut pages)?;
            }
            if wants_group(number) && wants_column(column) {
                chunk.pages = (now.shape.pages != Pages::Unknown).then(|| pages.clone());
                chunks.push(chunk);
            }
            match prediction.previous.get_mut(column) {
                Some(previous) => *previous = now,
                None => prediction.previous.push(now),
            }
            before = now;
        }
        if wants_group(number) {
            row_groups.push(RowGroup { number, first_row, num_rows, chunks });
        }
        prediction.num_rows = num_rows;
        first_row =
            first_row.checked_add(num_rows).filter(|&rows| rows < LIMIT).ok_or_else(|| malformed("rows", at))?;
    }
    Ok(row_groups)
}

fn read_chunk(
    reader: &mut BitReader<'_>,
    column: usize,
    expected: Previous,
    position: u64,
    num_rows: u64,
) -> Result<(Chunk, Previous)> {
    let at = reader.offset();
    let shape = if reader.flag()? { expected.shape } else { Shape::read(reader)? };
    let start = if reader.flag()? { position } else { reader.difference(position)? };
    let len = reader.difference(expected.len)?;
    let num_values = if reader.flag()? { num_rows } else { reader.difference(num_rows)? };
    let mut now = Previous { shape, len, ..expected };
    if shape.has_dictionary {
        now.dictionary_len = reader.difference(expected.dictionary_len)?;
        if now.dictionary_len > len {
            return Err(malformed("the length of a dictionary", at));
        }
    }
    if shape.pages != Pages::Unknown {
        now.num_pages = reader.difference(expected.num_pages)?;
        if now.num_pages == 0 || now.num_pages > num_rows {
            return Err(malformed("the number of pages", at));
        }
    }
    let dictionary_len = shape.has_dictionary.then_some(now.dictionary_len);
    let (codec, encodings) = (shape.codec.cast_signed(), shape.encodings);
    Ok((Chunk { column, codec, encodings, num_values, start, len, dictionary_len, pages: None }, now))
}

/// Reads the pages of a chunk. `first_rows` belongs to the last chunk with pages in the row group.
fn read_pages(
    reader: &mut BitReader<'_>,
    chunk: &Chunk,
    now: Previous,
    num_rows: u64,
    first_rows: &mut Vec<u64>,
    pages: &mut Vec<Page>,
) -> Result<()> {
    let at = reader.offset();
    let outside = || malformed("a page outside of its chunk", at);
    let has_same_rows = to_u64(first_rows.len()) == now.num_pages && reader.flag()?;
    if !has_same_rows {
        first_rows.clear();
        first_rows.push(0);
        let list = if now.num_pages > 1 { Some(reader.list()?) } else { None };
        let mut first_row = 0;
        // Each number takes at least one bit, so a false count fails at the end of the run.
        for _ in 1..now.num_pages {
            let Some(list) = &list else { break };
            let rows = list.next(reader)?;
            first_row += rows;
            if rows == 0 || first_row >= num_rows {
                return Err(malformed("the first row of a page", at));
            }
            first_rows.push(first_row);
        }
    }
    pages.clear();
    let dense = now.shape.pages == Pages::Dense;
    let num_lengths = if dense { first_rows.len() - 1 } else { first_rows.len() };
    let lengths = if num_lengths > 0 { Some(reader.list()?) } else { None };
    let mut position = chunk.data_start();
    for (number, &first_row) in first_rows.iter().enumerate() {
        let len = match &lengths {
            Some(lengths) if number < num_lengths => lengths.next(reader)?,
            _ => chunk.end().checked_sub(position).ok_or_else(outside)?,
        };
        if len == 0 || len > chunk.len {
            return Err(outside());
        }
        pages.push(Page { offset: position, len, first_row });
        position = position.checked_add(len).filter(|&end| end <= chunk.end()).ok_or_else(outside)?;
    }
    if !dense {
        let gaps = reader.list()?;
        let mut shift = 0u64;
        for page in pages.iter_mut() {
            shift = shift.checked_add(gaps.next(reader)?).ok_or_else(outside)?;
            page.offset = page.offset.checked_add(shift).ok_or_else(outside)?;
        }
    }
    let end = pages.last().and_then(|page| page.offset.checked_add(page.len));
    if end.is_none_or(|end| end > chunk.end()) { Err(outside()) } else { Ok(()) }
}
