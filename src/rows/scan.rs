//! One scan of some rows and columns of a file.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parquet::arrow::FieldLevels;

use super::RowSet;
use super::batches::{Batches, LoadedGroups};
use super::contain::{decode_error, from_arrow};
use super::file::RowFile;
use super::load::{GroupPlan, Load, Plan};
use super::pages::Failure;
use super::parts::Parts;
use crate::error::{Error, ErrorKind, Result, RowsKind};
use crate::int::{to_u64, to_usize};
use crate::ranges::{Step, coalesce};

/// The usual size of the ranges that a step names.
pub const BUDGET: u64 = 16 << 20;

/// A scan of some rows and columns of a file. Each step names the ranges that it needs, or returns a batch.
#[derive(Debug)]
pub struct RowScan {
    file: Arc<RowFile>,
    schema: SchemaRef,
    /// The position of each output column among the decoded columns.
    order: Vec<usize>,
    /// The leaves of the decoded columns.
    leaves: Vec<usize>,
    levels: Option<Levels>,
    /// The row groups that were not read yet, in reverse order.
    left: Vec<(usize, Vec<Range<u64>>)>,
    /// The number of these row groups whose offset indexes are known or not needed.
    indexed: usize,
    batch_rows: usize,
    budget: u64,
    parts: Parts,
    /// The row groups whose pages are being fetched.
    plans: Vec<GroupPlan>,
    batches: Option<Batches>,
    /// Rows of a scan without columns.
    counted: u64,
}

struct Levels(FieldLevels);

impl std::fmt::Debug for Levels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Levels").finish_non_exhaustive()
    }
}

impl RowScan {
    /// Starts a pass. Batches have the columns in the given order, and at most `batch_rows` rows in the order of the
    /// file. A step names ranges of about `budget` bytes, or of one row group if that is more.
    pub fn new(file: Arc<RowFile>, columns: &[usize], rows: &RowSet, batch_rows: usize, budget: u64) -> Result<Self> {
        let mut left = file.selected(rows);
        let covered: u64 = left.iter().flat_map(|(_, rows)| rows).map(|rows| rows.end - rows.start).sum();
        if covered != rows.num_rows() {
            return Err(Error::new(ErrorKind::Rows(RowsKind::NoSuchRow { num_rows: file.num_rows() })));
        }
        for &column in columns {
            if let Some(reason) = file.unreadable(column)? {
                let column = file.schema.fields[column].name().clone();
                return Err(Error::new(ErrorKind::Rows(RowsKind::Unreadable { column, reason })));
            }
        }
        let mut sorted = columns.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let order = columns.iter().map(|column| sorted.partition_point(|other| other < column)).collect();
        let mut leaves = Vec::new();
        for &column in &sorted {
            leaves.extend(file.schema.leaves_of(column)?);
        }
        let levels = if sorted.is_empty() { None } else { Some(Levels(file.schema.levels(&sorted)?)) };
        let schema = file.schema.project(columns);
        left.reverse();
        let counted = if sorted.is_empty() { rows.num_rows() } else { 0 };
        Ok(Self {
            file,
            schema,
            order,
            leaves,
            levels,
            left,
            indexed: 0,
            batch_rows: batch_rows.max(1),
            budget,
            parts: Parts::default(),
            plans: Vec::new(),
            batches: None,
            counted,
        })
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds bytes at offset `start` of the file.
    pub fn push(&mut self, start: u64, bytes: Bytes) {
        self.parts.insert(start, bytes);
    }

    /// Returns the next batch, or the ranges that it needs. Returns `None` at the end.
    pub fn step(&mut self) -> Result<Step<Option<RecordBatch>>> {
        if self.levels.is_none() {
            return self.count();
        }
        loop {
            if self.batches.is_some() {
                if let Some(batch) = self.decode()? {
                    return self.arrange(&batch).map(|batch| Step::Ready(Some(batch)));
                }
                continue;
            }
            if self.plans.is_empty() {
                let indexes = self.missing_indexes()?;
                if !indexes.is_empty() {
                    return Ok(Step::Need(indexes));
                }
                self.plan()?;
                if self.plans.is_empty() {
                    self.parts.clear();
                    return Ok(Step::Ready(None));
                }
            }
            let missing = self.missing_pages()?;
            if !missing.is_empty() {
                return Ok(Step::Need(missing));
            }
            self.load()?;
        }
    }

    /// Decodes the next batch of the fetched row groups. Returns `None` at their end, or if they must be read again.
    fn decode(&mut self) -> Result<Option<RecordBatch>> {
        let Some(batches) = &mut self.batches else { return Ok(None) };
        let batch = match batches.next() {
            // Nothing was returned yet, so the pages can be read without the index.
            Err(error) if *error.kind() == ErrorKind::Rows(RowsKind::OffsetIndex) => {
                self.batches = None;
                for plan in &mut self.plans {
                    for (&leaf, chunk_plan) in self.leaves.iter().zip(&mut plan.plans) {
                        if self.file.schema.leaves[leaf].max_rep > 0 {
                            self.file.distrust(plan.group, leaf);
                            *chunk_plan = Plan::All;
                        }
                    }
                }
                return if self.plans.is_empty() { Err(error) } else { Ok(None) };
            }
            batch => batch?,
        };
        self.plans.clear();
        if batch.is_none() {
            self.batches = None;
        }
        Ok(batch)
    }

    /// Returns a batch without columns.
    fn count(&mut self) -> Result<Step<Option<RecordBatch>>> {
        let rows = self.counted.min(to_u64(self.batch_rows));
        self.counted -= rows;
        if rows == 0 {
            return Ok(Step::Ready(None));
        }
        let options = RecordBatchOptions::new().with_row_count(to_usize(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), Vec::new(), &options);
        batch.map(|batch| Step::Ready(Some(batch))).map_err(from_arrow)
    }

    /// Puts the columns of a decoded batch in their order.
    fn arrange(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.order.iter().map(|&column| {
            batch.columns().get(column).cloned().ok_or_else(|| decode_error("a column is missing".to_owned()))
        });
        RecordBatch::try_new(Arc::clone(&self.schema), columns.collect::<Result<_>>()?).map_err(from_arrow)
    }

    /// Decodes the offset indexes that were fetched, and returns the ranges of others.
    fn missing_indexes(&mut self) -> Result<Vec<Range<u64>>> {
        if self.indexed > 0 {
            return Ok(Vec::new());
        }
        let (mut missing, mut size) = (Vec::new(), 0u64);
        for (group, rows) in self.left.iter().rev() {
            for &leaf in &self.leaves {
                let Some(index) = self.file.index_to_fetch(*group, leaf, rows) else { continue };
                match self.parts.missing(&index) {
                    Some(range) => {
                        size = size.saturating_add(range.end - range.start);
                        missing.push(range);
                    }
                    None => {
                        if let Ok(bytes) = self.parts.get(&index) {
                            self.file.learn(*group, leaf, &bytes);
                        }
                    }
                }
            }
            self.indexed += usize::from(missing.is_empty());
            // The rest is fetched when it is needed.
            if size > self.budget / 4 {
                break;
            }
        }
        if !missing.is_empty() {
            self.indexed = 0;
        }
        Ok(coalesce(missing, 0))
    }

    /// Plans as many row groups as fit into the budget.
    fn plan(&mut self) -> Result<()> {
        let mut size = 0u64;
        while let Some((group, rows)) = self.left.last() {
            let mut plans = Vec::with_capacity(self.leaves.len());
            for &leaf in &self.leaves {
                let plan = Plan::new(&self.file, *group, leaf, rows);
                let ranges = plan.ranges(self.file.chunk(*group, leaf)?);
                size = ranges.iter().fold(size, |size, range| size.saturating_add(range.end - range.start));
                plans.push(plan);
            }
            if !self.plans.is_empty() && (size > self.budget || self.indexed == 0) {
                break;
            }
            self.indexed = self.indexed.saturating_sub(1);
            if let Some((group, rows)) = self.left.pop() {
                self.plans.push(GroupPlan { group, rows, plans });
            }
        }
        Ok(())
    }

    fn missing_pages(&self) -> Result<Vec<Range<u64>>> {
        let mut missing = Vec::new();
        for plan in &self.plans {
            for (leaf, chunk_plan) in self.leaves.iter().zip(&plan.plans) {
                let chunk = self.file.chunk(plan.group, *leaf)?;
                missing.extend(chunk_plan.ranges(chunk).iter().filter_map(|range| self.parts.missing(range)));
            }
        }
        Ok(coalesce(missing, 0))
    }

    /// Starts to decode the planned row groups, or plans to fetch more of a chunk whose offset index is wrong.
    fn load(&mut self) -> Result<()> {
        let (mut groups, mut absent) = (Vec::with_capacity(self.plans.len()), Vec::with_capacity(self.plans.len()));
        let mut wrong = false;
        let failure = Failure::default();
        for plan in &mut self.plans {
            let mut chunks = Vec::with_capacity(self.leaves.len());
            let mut absent_rows = Vec::new();
            let num_rows = self.file.groups[plan.group].num_rows();
            for (&leaf, chunk_plan) in self.leaves.iter().zip(&mut plan.plans) {
                match chunk_plan.load(&self.file, plan.group, leaf, &self.parts, &failure)? {
                    Load::Ready(pages) => chunks.push(pages),
                    Load::WrongIndex => {
                        self.file.distrust(plan.group, leaf);
                        *chunk_plan = Plan::All;
                        wrong = true;
                    }
                }
                chunk_plan.absent(num_rows, &mut absent_rows);
            }
            absent_rows.sort_unstable_by_key(|rows| rows.start);
            groups.push((plan.group, chunks));
            absent.push(absent_rows);
        }
        if wrong {
            return Ok(());
        }
        // The plans are kept until the first batch shows whether the pages are as expected.
        self.parts.clear();
        let loaded = LoadedGroups { file: Arc::clone(&self.file), groups, leaves: self.leaves.clone(), failure };
        if let Some(Levels(levels)) = &self.levels {
            self.batches = Some(Batches::new(levels, &loaded, &self.plans, &absent, self.batch_rows)?);
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
