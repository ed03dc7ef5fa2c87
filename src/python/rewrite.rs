//! The values of column chunks, piece by piece, and the plan of a file with other filters. Writes nothing.

use super::bloom::BloomFilter;
use super::file::{Fetched, FileReader, Ranges, pairs};
use crate::bloom::Sbbf;
use crate::bloom::filter::Filter;
use crate::bloom::sizing::{self, Model, Sizes};
use crate::error::{ErrorKind, Result};
use crate::int::to_u64;
use crate::isa::InstructionSet;
use crate::parquet::{self, ChunkHashes, Decryptor, NewFilter, OldFooter};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError};

/// Row group and column.
type Chunk = (usize, usize);
/// The ranges that are missing, or the answer.
type Answer<T> = (Ranges, Option<T>);
/// Bytes to copy, ranges to fill with zeros, the new filters (row group, column, offset, length), footer with tail.
type Plan<'py> = (u64, Ranges, Vec<(usize, usize, u64, u64)>, Bound<'py, PyBytes>);

/// Runs `step` with the file's keys.
fn with_decryptor<T>(reader: &FileReader, step: impl FnOnce(Option<&dyn Decryptor>) -> Result<T>) -> Result<T> {
    let key_ring = reader.key_ring()?;
    step(key_ring.as_ref().map(|key_ring| key_ring as &dyn Decryptor))
}

/// What becomes of a file whose column chunks get other filters.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct Rewriter(Py<FileReader>);

#[pymethods]
impl Rewriter {
    #[new]
    fn new(reader: Py<FileReader>) -> Self {
        Self(reader)
    }

    /// Whether all metadata of a column chunk can be read: those in a module of their own too, which may know a filter
    /// that a plaintext footer does not show.
    fn is_open(&self, py: Python<'_>, row_group: usize, column: usize) -> PyResult<bool> {
        let reader = self.0.get();
        let open = py.detach(|| {
            with_decryptor(reader, |decryptor| {
                let metadata = &reader.file.metadata;
                let chunk = metadata.chunk(row_group, column)?;
                let sealed = metadata.encrypted_meta(chunk).is_some();
                let opens = |decryptor: &dyn Decryptor| decryptor.open_column(metadata, row_group, column).is_ok();
                Ok(chunk.meta.is_some() && (!sealed || decryptor.is_some_and(opens)))
            })
        });
        Ok(open?)
    }

    /// Begin to read the values of a column chunk.
    fn scan(&self, py: Python<'_>, chunk: Chunk) -> PyResult<ChunkScan> {
        // The column's largest filter says nothing about how many values it has; all of them must be in it.
        let scan = self.0.get().file.scan_chunk(chunk.0, chunk.1, u64::MAX, InstructionSet::detect())?;
        Ok(ChunkScan {
            reader: self.0.clone_ref(py),
            column: chunk.1,
            state: Mutex::new(State::Reading(Box::new(scan))),
        })
    }

    /// Plan the file where the chunks `add` (row group, column, blocks) get filters and the chunks `drop` lose theirs; with
    /// `keep_footer` the new bytes follow the whole old file.
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

    /// The bytes of a filter in the file, encrypted as its column is; anew on every call.
    fn encode<'py>(&self, py: Python<'py>, chunk: Chunk, filter: &BloomFilter) -> PyResult<Bound<'py, PyBytes>> {
        let reader = self.0.get();
        let bytes = filter.read(py, |filter| {
            with_decryptor(reader, |decryptor| reader.file.encode_filter(chunk.0, chunk.1, filter.sbbf(), decryptor))
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}

enum State {
    Reading(Box<parquet::ChunkScan>),
    Read(ChunkHashes),
    Failed,
}

/// The distinct values of a column chunk whose bytes come piece by piece.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct ChunkScan {
    reader: Py<FileReader>,
    column: usize,
    state: Mutex<State>,
}

impl ChunkScan {
    /// Hands over the values, which are whole from the first question on.
    fn with_hashes<T>(&self, then: impl FnOnce(&ChunkHashes) -> Result<T>) -> Result<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Reading(_) = &*state
            && let State::Reading(scan) = std::mem::replace(&mut *state, State::Failed)
        {
            *state = State::Read(scan.finish()?);
        }
        match &*state {
            State::Read(hashes) => then(hashes),
            _ => Err(crate::error::Error::new(ErrorKind::Truncated { needed: 1, available: 0 })),
        }
    }
}

#[pymethods]
impl ChunkScan {
    /// The bytes of the file that come next, until the end of the chunk.
    fn left(&self) -> (u64, u64) {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Reading(scan) => (scan.left().start, scan.left().end),
            _ => (0, 0),
        }
    }

    /// Take the next bytes.
    fn feed(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let reader = self.reader.get();
        let fed = py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State::Reading(scan) = &mut *state else { return Ok(()) };
            let fed = with_decryptor(reader, |decryptor| scan.feed(&reader.file, data, decryptor));
            if fed.is_err() {
                *state = State::Failed;
            }
            fed
        });
        Ok(fed?)
    }

    /// The filter of all values, with their number and the rate that the model foretells.
    fn make(&self, py: Python<'_>, fpp: f64, max_bytes: u64) -> PyResult<(BloomFilter, u64, f64)> {
        let most = match max_bytes / 32 {
            0 => return Err(PyValueError::new_err(format!("max_bytes must be at least 32, not {max_bytes}"))),
            blocks => 1 << blocks.min(Sbbf::MAX_BLOCKS).ilog2(),
        };
        let column_type =
            self.reader.get().file.metadata.leaves().get(self.column).and_then(parquet::SchemaLeaf::column_type);
        let (filter, ndv, complete) = py.detach(|| {
            self.with_hashes(|found| {
                let ndv = to_u64(found.hashes.len());
                let blocks = match sizing::optimal_blocks(ndv, fpp, Sizes::PowersOfTwo, Model::Exact) {
                    Err(error) if matches!(error.kind(), ErrorKind::TooManyValues { .. }) => most,
                    blocks => blocks?.min(most),
                };
                let mut filter = Sbbf::new(blocks)?;
                filter.insert_hashes(InstructionSet::detect(), &found.hashes);
                let complete = found.hashes.iter().all(|hash| filter.may_contain_hash(*hash));
                Ok((filter, ndv, complete))
            })
        })?;
        if !complete {
            return Err(PyRuntimeError::new_err("a new filter lacks a value: a defect of parsieve"));
        }
        let rate = sizing::false_positive_rate(ndv, filter.num_blocks());
        Ok((BloomFilter::from(Filter::new(filter, column_type)), ndv, rate))
    }

    /// How many distinct values there are, how many of them a filter excludes, and whether all are values of rows: of a
    /// dictionary some may be unused.
    fn excluded(&self, py: Python<'_>, filter: &BloomFilter) -> PyResult<(u64, u64, bool)> {
        let excluded = filter.read(py, |filter| {
            self.with_hashes(|found| {
                let excluded = found.hashes.iter().filter(|hash| !filter.sbbf().may_contain_hash(**hash)).count();
                Ok((to_u64(found.hashes.len()), to_u64(excluded), !found.all_dictionary))
            })
        });
        Ok(excluded?)
    }
}
