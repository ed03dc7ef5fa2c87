//! Decodes the wanted rows of some row groups whose pages were fetched.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::filter::filter_record_batch;
use parquet::arrow::FieldLevels;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::contain::{contain, decode_error, from_arrow, from_parquet};
use super::file::RowFile;
use super::load::GroupPlan;
use super::pages::{ChunkPages, Failure};
use crate::error::Result;
use crate::int::{to_u64, to_usize};
use crate::parquet::PageKind;

/// Wanted rows that are closer than this are decoded together with the rows between them, which are dropped afterwards.
/// Skipping has a fixed cost.
const GAP: u64 = 16;
/// About how many bytes of values a batch has. A batch of long values has fewer rows.
const BATCH_BYTES: u64 = 32 << 20;

/// The fetched row groups of a scan.
pub(super) struct LoadedGroups {
    pub(super) file: Arc<RowFile>,
    /// The row groups by number, each with the pages of the scan's leaves.
    pub(super) groups: Vec<(usize, Vec<ChunkPages>)>,
    /// The leaves of the scan.
    pub(super) leaves: Vec<usize>,
    /// Where the pages put their errors.
    pub(super) failure: Failure,
}

impl RowGroups for LoadedGroups {
    fn num_rows(&self) -> usize {
        let rows = self.groups.iter().map(|(group, _)| self.file.groups[*group].num_rows());
        to_usize(rows.sum()).unwrap_or(usize::MAX)
    }

    fn column_chunks(&self, leaf: usize) -> parquet::errors::Result<Box<dyn PageIterator>> {
        let position = self.leaves.iter().position(|own| *own == leaf);
        let position = position.ok_or_else(|| ParquetError::General(format!("leaf {leaf} was not fetched")))?;
        let chunks = self.groups.iter().filter_map(|(_, chunks)| chunks.get(position).cloned()).collect();
        Ok(Box::new(Chunks(chunks)))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        // Only virtual columns need them.
        Box::new(std::iter::empty())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.file.schema.metadata
    }
}

/// The chunks of a leaf in the order of the file.
struct Chunks(VecDeque<ChunkPages>);

impl Iterator for Chunks {
    type Item = parquet::errors::Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.pop_front().map(|pages| Ok(Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for Chunks {}

impl LoadedGroups {
    /// Returns a number of rows whose values have about [`BATCH_BYTES`].
    fn batch_rows(&self, most: usize) -> usize {
        let bytes_of_row = |leaf: usize| {
            let dense = |chunk: &ChunkPages| {
                // The largest value of a dictionary is not known, so take four times its mean.
                let entry = chunk.dictionary.as_ref().map_or(0, |page| match page.header.kind {
                    PageKind::Dictionary { num_values, .. } => {
                        page.header.uncompressed_len.saturating_mul(4) / u64::from(num_values.max(1))
                    }
                    _ => 0,
                });
                let pages = chunk.data.iter().filter_map(|page| Some((page.loaded.as_ref()?, page.rows)));
                let plain = pages.map(|(page, rows)| page.header.uncompressed_len / to_u64(rows.unwrap_or(1)).max(1));
                plain.max().unwrap_or(0).max(entry)
            };
            self.groups.iter().filter_map(|(_, chunks)| chunks.get(leaf)).map(dense).max().unwrap_or(0)
        };
        let bytes: u64 = (0..self.leaves.len()).map(bytes_of_row).fold(0, u64::saturating_add);
        to_usize(BATCH_BYTES / bytes.max(1)).unwrap_or(most).clamp(1, most.max(1))
    }
}

/// Decodes batches of the wanted rows of some row groups.
pub(super) struct Batches {
    reader: ParquetRecordBatchReader,
    failure: Failure,
    /// Which decoded rows to keep, as numbers of rows to drop and then to keep. `None` if all of them.
    kept: Option<VecDeque<(usize, usize)>>,
    /// Number of rows that were not decoded yet.
    left: u64,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").finish_non_exhaustive()
    }
}

impl Batches {
    /// Starts decoding. `plans` have the wanted rows of each row group, and `absent` the rows with pages that were not
    /// fetched.
    pub(super) fn new(
        levels: &FieldLevels,
        groups: &LoadedGroups,
        plans: &[GroupPlan],
        absent: &[Vec<Range<u64>>],
        batch_rows: usize,
    ) -> Result<Self> {
        let mut selectors = Vec::new();
        let (mut kept, mut all) = (VecDeque::new(), true);
        let mut decoded = 0u64;
        for (plan, absent) in plans.iter().zip(absent) {
            let mut position = 0;
            for joined in join(&plan.rows, absent) {
                let (start, end) =
                    (joined.first().map_or(0, |rows| rows.start), joined.last().map_or(0, |rows| rows.end));
                selectors.push(RowSelector::skip(length(start - position)?));
                selectors.push(RowSelector::select(length(end - start)?));
                position = start;
                for rows in joined {
                    all &= rows.start == position;
                    kept.push_back((length(rows.start - position)?, length(rows.end - rows.start)?));
                    position = rows.end;
                }
                decoded += end - start;
            }
            selectors.push(RowSelector::skip(length(groups.file.groups[plan.group].num_rows() - position)?));
        }
        // By default the crate chooses masks for short ranges, and then reads rows between them, whose pages may be
        // absent. A long range at the end, which it never skips, prevents that.
        selectors.push(RowSelector::skip(usize::MAX / 4));
        let batch_rows = groups.batch_rows(batch_rows).min(length(decoded)?.max(1));
        let reader = contain(|| {
            ParquetRecordBatchReader::try_new_with_row_groups(
                levels,
                groups,
                batch_rows,
                Some(RowSelection::from(selectors)),
            )
            .map_err(from_parquet)
        })?;
        Ok(Self { reader, failure: groups.failure.clone(), kept: (!all).then_some(kept), left: decoded })
    }

    /// Returns the next batch, with the columns in the order of the file.
    pub(super) fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let next = contain(|| self.reader.next().transpose().map_err(from_arrow));
            let next = next.map_err(|error| self.failure.take().unwrap_or(error))?;
            let Some(batch) = next else {
                return if self.left == 0 { Ok(None) } else { Err(decode_error("a column ends early".to_owned())) };
            };
            let left = self.left.checked_sub(to_u64(batch.num_rows()));
            self.left = left.ok_or_else(|| decode_error("a column has too many rows".to_owned()))?;
            let Some(kept) = &mut self.kept else { return Ok(Some(batch)) };
            let mask = take_mask(kept, batch.num_rows());
            let batch = filter_record_batch(&batch, &mask).map_err(from_arrow)?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
    }
}

fn length(rows: u64) -> Result<usize> {
    to_usize(rows).ok_or_else(|| decode_error("a row group has too many rows".to_owned()))
}

/// Groups ranges of rows that are close to each other, and have no absent page between them. Both ascend.
fn join<'a>(rows: &'a [Range<u64>], absent: &'a [Range<u64>]) -> impl Iterator<Item = &'a [Range<u64>]> {
    let mut absent = absent.iter().peekable();
    rows.chunk_by(move |left, right| {
        while absent.next_if(|absent| absent.end <= left.end).is_some() {}
        right.start - left.end < GAP && absent.peek().is_none_or(|absent| absent.start >= right.start)
    })
}

/// Takes the next `len` values of a mask off its runs.
fn take_mask(runs: &mut VecDeque<(usize, usize)>, len: usize) -> BooleanArray {
    let mut mask = BooleanBufferBuilder::new(len);
    while mask.len() < len {
        let Some((drop, keep)) = runs.front_mut() else {
            mask.append_n(len - mask.len(), false);
            break;
        };
        let dropped = (*drop).min(len - mask.len());
        mask.append_n(dropped, false);
        *drop -= dropped;
        let kept = if *drop == 0 { (*keep).min(len - mask.len()) } else { 0 };
        mask.append_n(kept, true);
        *keep -= kept;
        if *drop == 0 && *keep == 0 {
            runs.pop_front();
        }
    }
    BooleanArray::new(mask.finish(), None)
}
