//! Finds the pages of a chunk that hold wanted rows, and checks them against the offset index.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::file::RowFile;
use super::levels::Records;
use super::pages::{ChunkPages, DataPage, Failure, Loaded};
use super::parts::Parts;
use crate::error::{Error, ErrorKind, Result, RowsKind};
use crate::int::{to_u64, to_usize};
use crate::page_map::{Chunk, Page};
use crate::parquet::{Codec, PageHeader, PageKind, SchemaLeaf};
use crate::ranges::coalesce;

/// The most bytes of a chunk's pages that stay decompressed after their records were counted.
const MAX_UNPACKED: u64 = 16 << 20;

/// What to fetch of a chunk.
#[derive(Debug)]
pub(super) enum Plan {
    /// The pages that are needed for wanted rows, in one entry for each page.
    Some(Arc<[Page]>, Vec<bool>),
    /// All pages, because their positions are unknown.
    All,
}

/// The wanted rows of a row group, and what to fetch for them.
#[derive(Debug)]
pub(super) struct GroupPlan {
    pub(super) group: usize,
    /// Ascending rows of the row group.
    pub(super) rows: Vec<Range<u64>>,
    /// One plan for each leaf of the scan.
    pub(super) plans: Vec<Plan>,
}

/// The pages of a chunk, or a sign that its offset index is wrong.
pub(super) enum Load {
    Ready(ChunkPages),
    WrongIndex,
}

/// Returns for each page whether it holds one of the rows, which ascend.
///
/// Some writers let the last record of a nested column continue on the next page, against the rules for offset indexes.
/// If that record is wanted, the next page is needed, too, because only its levels tell.
fn needed(pages: &[Page], rows: &[Range<u64>], num_rows: u64, is_nested: bool) -> Vec<bool> {
    let ends = pages.iter().skip(1).map(|page| page.first_row).chain([num_rows]);
    let mut rows = rows.iter().peekable();
    let mut continues = false;
    let holds = |(page, end): (&Page, u64)| {
        while rows.next_if(|rows| rows.end <= page.first_row).is_some() {}
        let holds = rows.peek().is_some_and(|rows| rows.start < end);
        while rows.next_if(|rows| rows.end < end).is_some() {}
        let holds_last = rows.peek().is_some_and(|rows| rows.start < end);
        let continued = std::mem::replace(&mut continues, is_nested && holds_last);
        holds || continued
    };
    pages.iter().zip(ends).map(holds).collect()
}

/// Returns the ranges of a chunk's pages that are needed for some rows, with its dictionary.
pub(super) fn needed_ranges(
    chunk: &Chunk,
    pages: &[Page],
    rows: &[Range<u64>],
    num_rows: u64,
    is_nested: bool,
) -> Vec<Range<u64>> {
    ranges_of(chunk, pages, &needed(pages, rows, num_rows, is_nested))
}

fn ranges_of(chunk: &Chunk, pages: &[Page], needed: &[bool]) -> Vec<Range<u64>> {
    let data = pages.iter().zip(needed).filter(|(_, needed)| **needed);
    let mut ranges: Vec<_> = data.map(|(page, _)| page.offset..page.offset + page.len).collect();
    let first = pages.first().map_or(chunk.start, |page| page.offset);
    if !ranges.is_empty() {
        ranges.push(chunk.start..first);
    }
    coalesce(ranges, 0)
}

impl Plan {
    pub(super) fn new(file: &RowFile, group: usize, leaf: usize, rows: &[Range<u64>]) -> Self {
        match file.pages(group, leaf) {
            Some(Some(pages)) => {
                let is_nested = file.schema.leaves[leaf].max_rep > 0;
                let needed = needed(&pages, rows, file.groups[group].num_rows(), is_nested);
                Self::Some(pages, needed)
            }
            _ => Self::All,
        }
    }

    /// Returns the ranges to fetch.
    pub(super) fn ranges(&self, chunk: &Chunk) -> Vec<Range<u64>> {
        match self {
            Self::Some(pages, needed) => ranges_of(chunk, pages, needed),
            Self::All => coalesce(std::iter::once(chunk.start..chunk.end()).collect(), 0),
        }
    }

    /// Appends the rows of the pages that are not fetched.
    pub(super) fn absent(&self, num_rows: u64, absent: &mut Vec<Range<u64>>) {
        let Self::Some(pages, needed) = self else { return };
        let ends = pages.iter().skip(1).map(|page| page.first_row).chain([num_rows]);
        let rows = pages.iter().zip(ends).zip(needed).filter(|(_, needed)| !**needed);
        absent.extend(rows.map(|((page, end), _)| page.first_row..end));
    }

    /// Parses the headers of the fetched pages.
    pub(super) fn load(
        &self,
        file: &RowFile,
        group: usize,
        leaf: usize,
        parts: &Parts,
        failure: &Failure,
    ) -> Result<Load> {
        let chunk = file.chunk(group, leaf)?;
        let num_rows = file.groups[group].num_rows();
        let schema_leaf = &file.schema.leaves[leaf];
        let always_compressed = file.schema.always_compressed();
        let loader = Loader { chunk, leaf: schema_leaf, num_rows, always_compressed, parts, failure };
        let loaded = match self {
            Self::Some(pages, needed) => loader.some(pages, needed),
            Self::All => loader.all().map(Load::Ready),
        };
        loaded.map_err(|problem| problem.into_error(|| file.schema.name_of_leaf(leaf)))
    }
}

enum Problem {
    Error(Error),
    Pages(&'static str),
}

impl Problem {
    fn into_error(self, column: impl FnOnce() -> String) -> Error {
        match self {
            Self::Error(error) => error,
            Self::Pages(reason) => {
                Error::new(ErrorKind::Rows(RowsKind::Pages { column: column(), reason: reason.to_owned() }))
            }
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

struct Loader<'a> {
    chunk: &'a Chunk,
    leaf: &'a SchemaLeaf,
    num_rows: u64,
    /// True if the data pages are compressed although their headers may deny it.
    always_compressed: bool,
    parts: &'a Parts,
    failure: &'a Failure,
}

impl Loader<'_> {
    fn pages(&self, dictionary: Option<Loaded>, data: VecDeque<DataPage>) -> Result<ChunkPages> {
        let codec = Codec::from_code(self.chunk.codec)?;
        let uses_dictionary = |page: &DataPage| page.loaded.as_ref().is_some_and(Loaded::uses_dictionary);
        let dictionary = if data.iter().any(uses_dictionary) {
            // Pages of nulls need no dictionary, but the decoder does.
            Some(dictionary.unwrap_or_else(Loaded::empty_dictionary))
        } else {
            None
        };
        Ok(ChunkPages { failure: self.failure.clone(), codec, leaf: self.leaf.clone(), dictionary, data })
    }

    fn bytes(&self, range: &Range<u64>) -> Result<Bytes> {
        self.parts
            .get(range)
            .map_err(|gap| Error::at(ErrorKind::Truncated { needed: range.end - gap, available: 0 }, gap))
    }

    /// Parses the page at the start of `bytes`, which begin at an offset of the file.
    fn page(&self, bytes: &Bytes, at: u64) -> Result<Loaded> {
        let mut header = PageHeader::decode(bytes, at)?;
        if let PageKind::DataV2 { is_compressed, .. } = &mut header.kind {
            *is_compressed |= self.always_compressed;
        }
        let truncated = || {
            let available = to_u64(bytes.len().saturating_sub(header.len));
            Error::at(ErrorKind::Truncated { needed: header.stored_len, available }, at)
        };
        let end = to_usize(header.stored_len).and_then(|len| header.len.checked_add(len));
        let end = end.filter(|end| *end <= bytes.len()).ok_or_else(truncated)?;
        let body = bytes.slice(header.len..end);
        Ok(Loaded { header, body, is_unpacked: false })
    }

    /// Parses the pages that are needed for wanted rows, and checks that the offset index describes them. The decoder
    /// checks the records of compressed levels.
    fn some(&self, pages: &[Page], needed: &[bool]) -> std::result::Result<Load, Problem> {
        let first = pages.first().map_or(self.chunk.start, |page| page.offset);
        let mut dictionary = None;
        let mut before = if needed.contains(&true) { self.bytes(&(self.chunk.start..first))? } else { Bytes::new() };
        while !before.is_empty() {
            let Ok(page) = self.page(&before, self.chunk.start) else { return Ok(Load::WrongIndex) };
            before = before.slice(page.header.len + page.body.len()..);
            match page.header.kind {
                PageKind::Dictionary { .. } if dictionary.is_none() => dictionary = Some(page),
                PageKind::Index => {}
                _ => return Ok(Load::WrongIndex),
            }
        }
        let ends = pages.iter().skip(1).map(|page| page.first_row).chain([self.num_rows]);
        let mut data = VecDeque::with_capacity(pages.len());
        for ((page, end), needed) in pages.iter().zip(ends).zip(needed) {
            let rows = end - page.first_row;
            let mut loaded = None;
            if *needed {
                let bytes = self.bytes(&(page.offset..page.offset + page.len))?;
                loaded = self.page(&bytes, page.offset).ok().filter(|loaded| self.fits(loaded, page.len, rows));
                if loaded.is_none() {
                    return Ok(Load::WrongIndex);
                }
            }
            data.push_back(DataPage { rows: to_usize(rows), loaded });
        }
        Ok(Load::Ready(self.pages(dictionary, data)?))
    }

    /// Returns true if the offset index describes a page.
    fn fits(&self, page: &Loaded, len: u64, rows: u64) -> bool {
        let found = match page.header.kind {
            PageKind::Data { num_values, .. } | PageKind::DataV2 { num_values, .. } if self.leaf.max_rep == 0 => {
                u64::from(num_values)
            }
            PageKind::Data { .. } => rows,
            PageKind::DataV2 { .. } => match page.records(self.leaf) {
                Ok(Records { begin, continues: false }) => begin,
                _ => return false,
            },
            PageKind::Dictionary { .. } | PageKind::Index => return false,
        };
        to_u64(page.header.len) + page.header.stored_len == len && found == rows
    }

    /// Counts the records of a data page of a nested column. Keeps it decompressed if it has at most `keep` bytes.
    ///
    /// A chunk with too few records would move the rows of all that follow, even in other row groups.
    fn count(&self, page: &mut Loaded, keep: &mut u64) -> std::result::Result<Records, Problem> {
        let mut unpacked = page.clone();
        unpacked.unpack(Codec::from_code(self.chunk.codec)?, self.leaf)?;
        let records = unpacked.records(self.leaf)?;
        if let Some(left) = keep.checked_sub(to_u64(unpacked.body.len())) {
            (*keep, *page) = (left, unpacked);
        }
        Ok(records)
    }

    /// Walks the headers of all pages.
    fn all(&self) -> std::result::Result<ChunkPages, Problem> {
        let (mut dictionary, mut data) = (None, VecDeque::new());
        let mut rest = self.bytes(&(self.chunk.start..self.chunk.end()))?;
        let (mut values, mut rows, mut spans) = (0u64, 0u64, false);
        let mut keep = MAX_UNPACKED;
        while !rest.is_empty() && values < self.chunk.num_values {
            let mut page = self.page(&rest, self.chunk.end() - to_u64(rest.len()))?;
            rest = rest.slice(page.header.len + page.body.len()..);
            match page.header.kind {
                PageKind::Dictionary { .. } if dictionary.is_none() && data.is_empty() => dictionary = Some(page),
                PageKind::Dictionary { .. } => return Err(Problem::Pages("a dictionary follows other pages")),
                PageKind::Index => {}
                // The decoder takes an empty page for the end of the chunk.
                PageKind::Data { num_values: 0, .. } | PageKind::DataV2 { num_values: 0, .. } => {}
                PageKind::DataV2 { num_values, num_rows, .. } if self.leaf.max_rep == 0 && num_values != num_rows => {
                    return Err(Problem::Pages("a page has another number of rows than of values"));
                }
                PageKind::Data { num_values, .. } | PageKind::DataV2 { num_values, .. } => {
                    values += u64::from(num_values);
                    let found = if self.leaf.max_rep == 0 {
                        Records { begin: num_values.into(), continues: false }
                    } else {
                        self.count(&mut page, &mut keep)?
                    };
                    if found.continues && data.is_empty() {
                        return Err(Problem::Pages("the first page does not begin a record"));
                    }
                    rows += found.begin;
                    spans |= found.continues;
                    data.push_back(DataPage { rows: to_usize(found.begin), loaded: Some(page) });
                }
            }
        }
        // A page that claims too many values would hide the last pages, and move the rows of the others.
        if !rest.is_empty() {
            return Err(Problem::Pages("bytes follow the last page"));
        }
        if values != self.chunk.num_values {
            return Err(Problem::Pages("their number of values differs from that in the footer"));
        }
        if rows != self.num_rows {
            return Err(Problem::Pages("their number of rows differs from that of the row group"));
        }
        // A record spans pages, so the decoder must look for its end.
        if spans {
            data.iter_mut().for_each(|page| page.rows = None);
        }
        Ok(self.pages(dictionary, data)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[Range<u64>], flat: &str, nested: &str) {
        let page = |first_row| Page { offset: first_row * 100, len: 100, first_row };
        let pages = [0, 10, 11, 20].map(page);
        for (is_nested, expected) in [(false, flat), (true, nested)] {
            let found = needed(&pages, rows, 30, is_nested).into_iter().map(|needed| if needed { 'x' } else { '.' });
            assert_eq!(found.collect::<String>(), expected, "{rows:?}");
        }
    }

    #[test]
    fn the_last_record_of_a_page_needs_the_next_page() {
        let rows = |starts: &[u64]| starts.iter().map(|row| *row..row + 1).collect::<Vec<_>>();
        check(&[], "....", "....");
        check(&rows(&[0]), "x...", "x...");
        check(&rows(&[9]), "x...", "xx..");
        check(&rows(&[3, 5, 9]), "x...", "xx..");
        check(&rows(&[8, 10]), "xx..", "xxx.");
        check(&rows(&[10]), ".x..", ".xx.");
        check(&rows(&[11, 18]), "..x.", "..x.");
        check(&rows(&[11, 19]), "..x.", "..xx");
        check(&rows(&[20, 29]), "...x", "...x");
        for (range, flat, nested) in [(2..10, "x...", "xx.."), (9..12, "xxx.", "xxx."), (5..30, "xxxx", "xxxx")] {
            check(&[range], flat, nested);
        }
    }
}
