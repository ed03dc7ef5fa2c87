//! Reads the values of column chunks in parts, and plans files with other filters. Does not write anything.

use super::bloom::BloomFilter;
use super::file::{Fetched, FileReader, Ranges, pairs};
use crate::arrow::ColumnType;
use crate::bloom::{Block, Filter, FilterBuilder};
use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;
use crate::isa::InstructionSet;
use crate::parquet::{self, Decryptor, NewFilter, OldFooter};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError};

/// A row group and a column.
type Chunk = (usize, usize);
/// The missing ranges, or the result.
type Answer<T> = (Ranges, Option<T>);
/// The bytes to copy, the ranges to overwrite with zeros, the new filters (row group, column, offset, length), and the
/// footer with its tail.
type Plan<'py> = (u64, Ranges, Vec<(usize, usize, u64, u64)>, Bound<'py, PyBytes>);

/// Runs `step` with the keys of the file.
fn with_decryptor<T>(reader: &FileReader, step: impl FnOnce(Option<&dyn Decryptor>) -> Result<T>) -> Result<T> {
    let key_ring = reader.key_ring()?;
    step(key_ring.as_ref().map(|key_ring| key_ring as &dyn Decryptor))
}

/// Plans a file whose column chunks get other filters.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct Rewriter(Py<FileReader>);

#[pymethods]
impl Rewriter {
    #[new]
    fn new(reader: Py<FileReader>) -> Self {
        Self(reader)
    }

    /// Return whether all metadata of a column chunk can be read. This includes metadata in an encrypted module, which
    /// may refer to a filter that a plaintext footer does not show.
    fn is_open(&self, py: Python<'_>, row_group: usize, column: usize) -> PyResult<bool> {
        let reader = self.0.get();
        let open = py.detach(|| {
            with_decryptor(reader, |decryptor| {
                let metadata = &reader.file.metadata;
                let chunk = metadata.chunk(row_group, column)?;
                let encrypted = metadata.encrypted_meta(chunk).is_some();
                let opens = |decryptor: &dyn Decryptor| decryptor.open_column(metadata, row_group, column).is_ok();
                Ok(chunk.meta.is_some() && (!encrypted || decryptor.is_some_and(opens)))
            })
        });
        Ok(open?)
    }

    /// Start to build the filter of a column chunk.
    fn build(&self, py: Python<'_>, chunk: Chunk, fpp: f64, max_bytes: u64) -> PyResult<ChunkBuild> {
        if max_bytes < to_u64(Block::BYTES) {
            return Err(PyValueError::new_err(format!("max_bytes must be at least 32, not {max_bytes}")));
        }
        let scan = self.scan(py, chunk)?;
        let (max_values, max_blocks) = (scan.scan.stated_values(), max_bytes / to_u64(Block::BYTES));
        let builder = FilterBuilder::new(max_values, fpp, max_blocks, InstructionSet::detect())?;
        let column_type = self.0.get().file.metadata.leaves().get(chunk.1).and_then(parquet::SchemaLeaf::column_type);
        Ok(ChunkBuild { column_type, state: Mutex::new(Some((scan, builder))) })
    }

    /// Start to look up the values of a column chunk in a filter.
    fn check(&self, py: Python<'_>, chunk: Chunk, filter: Py<BloomFilter>) -> PyResult<ChunkCheck> {
        Ok(ChunkCheck { filter, state: Mutex::new(Some((self.scan(py, chunk)?, Checked::default()))) })
    }

    /// Plan a file in which the chunks `add` (row group, column, blocks) get new filters and the chunks `drop` lose
    /// theirs.
    ///
    /// With `keep_footer`, the new bytes are appended to the complete old file.
    fn plan<'py>(
        &self,
        py: Python<'py>,
        add: Vec<(usize, usize, u64)>,
        drop: Vec<Chunk>,
        keep_footer: bool,
        fetched: &Fetched,
    ) -> PyResult<Answer<Plan<'py>>> {
        let reader = self.0.get();
        let (needed, plan) = py.detach(|| {
            let add: Vec<_> = (add.into_iter())
                .map(|(row_group, column, num_blocks)| NewFilter { row_group, column, num_blocks })
                .collect();
            let old_footer = if keep_footer { OldFooter::Kept } else { OldFooter::Replaced };
            let plan = |fetched: &_| {
                with_decryptor(reader, |decryptor| {
                    reader.file.plan_rewrite(&add, &drop, old_footer, decryptor, fetched)
                })
            };
            fetched.step(plan)
        })?;
        let plan = plan.map(|plan| {
            let placed = plan.filters.iter().map(|new| (new.row_group, new.column, new.offset, new.length)).collect();
            (plan.copy, pairs(plan.wipe), placed, PyBytes::new(py, &plan.footer))
        });
        Ok((needed, plan))
    }

    /// Return the bytes of a filter in the file, encrypted if its column is. Every call encrypts with a new nonce.
    fn encode<'py>(&self, py: Python<'py>, chunk: Chunk, filter: &BloomFilter) -> PyResult<Bound<'py, PyBytes>> {
        let reader = self.0.get();
        let bytes = filter.read(py, |filter| {
            with_decryptor(reader, |decryptor| reader.file.encode_filter(chunk.0, chunk.1, filter.sbbf(), decryptor))
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}

impl Rewriter {
    fn scan(&self, py: Python<'_>, chunk: Chunk) -> Result<Scan> {
        let scan = self.0.get().file.scan_chunk(chunk.0, chunk.1, InstructionSet::detect())?;
        Ok(Scan { reader: self.0.clone_ref(py), scan })
    }
}

/// A column chunk whose bytes arrive in parts.
struct Scan {
    reader: Py<FileReader>,
    scan: parquet::ChunkScan,
}

impl Scan {
    fn feed(&mut self, data: &[u8], take: &mut dyn FnMut(&[u64]) -> Result<()>) -> Result<()> {
        let reader = self.reader.get();
        with_decryptor(reader, |decryptor| self.scan.feed(&reader.file, data, decryptor, take))
    }
}

/// A scan, and the result so far. It is `None` after an error, or once the result has been taken.
type State<T> = Mutex<Option<(Scan, T)>>;

/// Returns the range of the file that is needed next, up to the end of the chunk.
fn left<T>(state: &State<T>) -> (u64, u64) {
    let state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.as_ref().map_or((0, 0), |(scan, _)| (scan.scan.left().start, scan.scan.left().end))
}

/// Applies `feed` to a scan that has not failed.
fn feed<T>(state: &State<T>, feed: impl FnOnce(&mut Scan, &mut T) -> Result<()>) -> Result<()> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((scan, result)) = &mut *state else { return Ok(()) };
    let fed = feed(scan, result);
    if fed.is_err() {
        *state = None;
    }
    fed
}

/// Takes the result, once all bytes have been fed.
fn finish<T>(state: &State<T>) -> Result<(parquet::ScannedChunk, T)> {
    let taken = state.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (scan, result) = taken.ok_or_else(|| Error::new(ErrorKind::Truncated { needed: 1, available: 0 }))?;
    Ok((scan.scan.finish()?, result))
}

/// Builds the filter of a column chunk whose bytes arrive in parts.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct ChunkBuild {
    column_type: Option<ColumnType>,
    state: State<FilterBuilder>,
}

#[pymethods]
impl ChunkBuild {
    /// Return the range of the file that is needed next, up to the end of the chunk.
    fn left(&self) -> (u64, u64) {
        left(&self.state)
    }

    /// Feed the next bytes.
    fn feed(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let insert =
            |scan: &mut Scan, builder: &mut FilterBuilder| scan.feed(data, &mut |hashes| builder.insert(hashes));
        Ok(py.detach(|| feed(&self.state, insert))?)
    }

    /// Return the filter of all values, the number of distinct values, and the false positive rate. The number is an
    /// estimate if there are more than a few thousand.
    fn finish(&self, py: Python<'_>) -> PyResult<(BloomFilter, u64, f64)> {
        let built = py.detach(|| {
            let (chunk, mut builder) = finish(&self.state)?;
            builder.insert(&chunk.equal_hashes)?;
            builder.finish()
        })?;
        Ok((BloomFilter::from(Filter::new(built.filter, self.column_type)), built.ndv, built.fpp))
    }
}

/// The numbers of values that were looked up, and of those that the filter excludes.
#[derive(Default)]
struct Checked {
    values: u64,
    excluded: u64,
}

/// Looks up the values of a column chunk, whose bytes arrive in parts, in a filter.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct ChunkCheck {
    filter: Py<BloomFilter>,
    state: State<Checked>,
}

#[pymethods]
impl ChunkCheck {
    /// Return the range of the file that is needed next, up to the end of the chunk.
    fn left(&self) -> (u64, u64) {
        left(&self.state)
    }

    /// Feed the next bytes.
    fn feed(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let result = self.filter.get().read(py, |filter| {
            feed(&self.state, |scan, checked| {
                scan.feed(data, &mut |hashes| {
                    let excluded = hashes.iter().filter(|hash| !filter.sbbf().may_contain_hash(**hash)).count();
                    checked.values += to_u64(hashes.len());
                    checked.excluded += to_u64(excluded);
                    Ok(())
                })
            })
        });
        Ok(result?)
    }

    /// Return the number of values, how many of them the filter excludes, and whether all of them are values of rows.
    ///
    /// Each value of a dictionary counts once. The last result is False if it is unknown which values of a dictionary rows
    /// have.
    fn finish(&self) -> PyResult<(u64, u64, bool)> {
        let (chunk, checked) = finish(&self.state)?;
        Ok((checked.values, checked.excluded, chunk.is_exact))
    }
}
