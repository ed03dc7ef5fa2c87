//! Reads the values of column chunks in parts, and plans files with other filters. Does not write anything.

use super::bloom::BloomFilter;
use super::file::{Fetched, FileReader, Ranges, pairs};
use crate::bloom::Sbbf;
use crate::bloom::filter::Filter;
use crate::bloom::sizing::{self, Model, Sizes};
use crate::error::{ErrorKind, Result};
use crate::int::to_u64;
use crate::isa::InstructionSet;
use crate::parquet::{self, ChunkHashes, Decryptor, HashOptions, NewFilter, OldFooter};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
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

    /// Start reading the values of a column chunk.
    fn scan(&self, py: Python<'_>, chunk: Chunk) -> PyResult<ChunkScan> {
        // No limit on the number of values: a filter must contain all of them, even if it is smaller than it should be.
        let scan = self.0.get().file.scan_chunk(chunk.0, chunk.1, HashOptions::default())?;
        Ok(ChunkScan {
            reader: self.0.clone_ref(py),
            column: chunk.1,
            state: Mutex::new(State::Reading(Box::new(scan))),
        })
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

enum State {
    Reading(Box<parquet::ChunkScan>),
    Read(ChunkHashes),
    Failed,
}

/// The distinct values of a column chunk, whose bytes arrive in parts.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct ChunkScan {
    reader: Py<FileReader>,
    column: usize,
    state: Mutex<State>,
}

impl ChunkScan {
    /// Calls `then` with the hashes. The first call requires all bytes to have been fed, and finishes the scan.
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
    /// Return the range of the file that is needed next, up to the end of the chunk.
    fn left(&self) -> (u64, u64) {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Reading(scan) => (scan.left().start, scan.left().end),
            _ => (0, 0),
        }
    }

    /// Feed the next bytes.
    fn feed(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        let reader = self.reader.get();
        let result = py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let State::Reading(scan) = &mut *state else { return Ok(()) };
            let result = with_decryptor(reader, |decryptor| scan.feed(&reader.file, data, decryptor));
            if result.is_err() {
                *state = State::Failed;
            }
            result
        });
        Ok(result?)
    }

    /// Return the filter of all values, their number, and the expected false positive rate.
    fn make(&self, py: Python<'_>, fpp: f64, max_bytes: u64) -> PyResult<(BloomFilter, u64, f64)> {
        let max_blocks = match max_bytes / 32 {
            0 => return Err(PyValueError::new_err(format!("max_bytes must be at least 32, not {max_bytes}"))),
            blocks => 1 << blocks.min(Sbbf::MAX_BLOCKS).ilog2(),
        };
        let column_type =
            self.reader.get().file.metadata.leaves().get(self.column).and_then(parquet::SchemaLeaf::column_type);
        let (filter, ndv, complete) = py.detach(|| {
            self.with_hashes(|chunk| {
                let ndv = to_u64(chunk.hashes.len());
                let blocks = match sizing::optimal_blocks(ndv, fpp, Sizes::PowersOfTwo, Model::Exact) {
                    Err(error) if matches!(error.kind(), ErrorKind::TooManyValues { .. }) => max_blocks,
                    blocks => blocks?.min(max_blocks),
                };
                let mut filter = Sbbf::new(blocks)?;
                filter.insert_hashes(InstructionSet::detect(), &chunk.hashes);
                let complete = chunk.hashes.iter().all(|hash| filter.may_contain_hash(*hash));
                Ok((filter, ndv, complete))
            })
        })?;
        if !complete {
            return Err(PyRuntimeError::new_err("a new filter lacks a value: a defect of parsieve"));
        }
        let rate = sizing::false_positive_rate(ndv, filter.num_blocks());
        Ok((BloomFilter::from(Filter::new(filter, column_type)), ndv, rate))
    }

    /// Return the number of distinct values, how many of them a filter excludes, and whether all of them are values of
    /// rows.
    ///
    /// The last is False if only the dictionary was hashed, because some of its values may be unused.
    fn excluded(&self, py: Python<'_>, filter: &BloomFilter) -> PyResult<(u64, u64, bool)> {
        let excluded = filter.read(py, |filter| {
            self.with_hashes(|chunk| {
                let excluded = chunk.hashes.iter().filter(|hash| !filter.sbbf().may_contain_hash(**hash)).count();
                Ok((to_u64(chunk.hashes.len()), to_u64(excluded), !chunk.all_dictionary))
            })
        });
        Ok(excluded?)
    }
}
