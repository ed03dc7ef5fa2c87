//! Reads rows of known files with the `parquet` crate.

use crate::request::{KnownFile, Predicate, Request, Rows};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowFilter,
    RowSelection, RowSelectionPolicy,
};
use parquet::file::metadata::PageIndexPolicy;
use std::collections::HashMap;
use std::fs::File;
use std::thread;
use std::time::Instant;

/// The rows of a batch: a large answer has few batches, and a small one costs no memory.
const BATCH_ROWS: usize = 8192;

/// The footers of files, with their page indexes, by path.
#[derive(Default)]
pub(crate) struct Footers(HashMap<String, ArrowReaderMetadata>);

impl Footers {
    /// Returns the seconds of a request, and its rows.
    pub(crate) fn answer(&mut self, request: &Request) -> (f64, Vec<RecordBatch>) {
        if request.footers_are_held {
            for file in &request.files {
                self.0.entry(file.path.clone()).or_insert_with(|| load(&open(&file.path)));
            }
        }
        let start = Instant::now();
        let batches = self.read(request);
        (start.elapsed().as_secs_f64(), batches)
    }

    fn read(&self, request: &Request) -> Vec<RecordBatch> {
        let (files, threads) = (&request.files, request.threads);
        if threads == 1 {
            return files.iter().flat_map(|file| self.read_file(request, file)).collect();
        }
        thread::scope(|scope| {
            let read =
                |first: usize| files.iter().skip(first).step_by(threads).flat_map(|file| self.read_file(request, file));
            let handles: Vec<_> =
                (0..threads).map(|first| scope.spawn(move || read(first).collect::<Vec<_>>())).collect();
            handles.into_iter().flat_map(|handle| handle.join().expect("no thread panics")).collect()
        })
    }

    fn read_file(&self, request: &Request, known: &KnownFile) -> Vec<RecordBatch> {
        let file = open(&known.path);
        let footer = if request.footers_are_held { self.0[&known.path].clone() } else { load(&file) };
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer).with_batch_size(BATCH_ROWS);
        let builder = match &request.rows {
            Rows::All => builder,
            Rows::Exact => selected(builder, &known.rows),
            Rows::Filtered(predicate) => filtered(builder, predicate),
        };
        let reader = builder.build().expect("the file can be read");
        reader.map(|batch| batch.expect("the pages can be decoded")).collect()
    }
}

fn open(path: &str) -> File {
    File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn load(file: &File) -> ArrowReaderMetadata {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    ArrowReaderMetadata::load(file, options).expect("the footer can be read")
}

/// Selects rows of a file by their numbers, and only the row groups that have one of them.
fn selected(builder: ParquetRecordBatchReaderBuilder<File>, rows: &[usize]) -> ParquetRecordBatchReaderBuilder<File> {
    let (mut groups, mut ranges) = (vec![], vec![]);
    // The first row of the row group in the file, and in the selected row groups.
    let (mut in_file, mut in_selection) = (0, 0);
    let mut rest = rows;
    for (group, metadata) in builder.metadata().row_groups().iter().enumerate() {
        let num_rows = usize::try_from(metadata.num_rows()).expect("a row group has rows");
        let (here, after) = rest.split_at(rest.partition_point(|&row| row < in_file + num_rows));
        if !here.is_empty() {
            groups.push(group);
            ranges.extend(here.iter().map(|row| row - in_file + in_selection).map(|row| row..row + 1));
            in_selection += num_rows;
        }
        rest = after;
        in_file += num_rows;
    }
    // A mask would decode all values of the pages that are read.
    builder
        .with_row_groups(groups)
        .with_row_selection(RowSelection::from_consecutive_ranges(ranges.into_iter(), in_selection))
        .with_row_selection_policy(RowSelectionPolicy::Selectors)
}

/// Filters the rows of a file. The column of the predicate is read first.
fn filtered(
    builder: ParquetRecordBatchReaderBuilder<File>,
    predicate: &Predicate,
) -> ParquetRecordBatchReaderBuilder<File> {
    let mask = ProjectionMask::columns(builder.parquet_schema(), [predicate.column()]);
    let predicate = predicate.clone();
    let matches = move |batch: RecordBatch| Ok::<_, ArrowError>(matches(&predicate, batch.column(0)));
    builder.with_row_filter(RowFilter::new(vec![Box::new(ArrowPredicateFn::new(mask, matches))]))
}

/// Returns which values match. This bench is optimized fully, unlike the comparisons of Arrow (see `Cargo.toml`).
fn matches(predicate: &Predicate, column: &ArrayRef) -> BooleanArray {
    match predicate {
        Predicate::Request(id) => column.as_string::<i32>().iter().map(|value| Some(value == Some(id))).collect(),
        Predicate::User(user) => BooleanArray::from_unary(column.as_primitive::<Int64Type>(), |value| value == *user),
        Predicate::Time(from, before) => {
            let times = column.as_primitive::<TimestampMicrosecondType>();
            BooleanArray::from_unary(times, |value| (*from..*before).contains(&value))
        }
    }
}
