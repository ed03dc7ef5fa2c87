//! New filters for the column chunks of a file, and the plan of the file that holds them. Writes nothing.

use super::bloom::BloomFilter;
use super::file::{Fetched, FileReader, Ranges, pairs};
use crate::bloom::Sbbf;
use crate::bloom::sizing::{self, Model, Sizes};
use crate::error::{ErrorKind, Result};
use crate::int::to_u64;
use crate::isa::InstructionSet;
use crate::parquet::ranges::Step;
use crate::parquet::{ChunkHashes, NewFilter, Vault};
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Row group and column.
type Chunk = (usize, usize);
/// The ranges that are missing, or the answer.
type Answer<T> = (Ranges, Option<T>);
/// Bytes to copy, ranges to fill with zeros, the new filters (row group, column, offset, length), footer with tail.
type Plan<'py> = (u64, Ranges, Vec<(usize, usize, u64, u64)>, Bound<'py, PyBytes>);

/// Filters that were made of a file's own pages. They wait here until the file is written.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct NewFilters {
    reader: Py<FileReader>,
    filters: Mutex<BTreeMap<Chunk, Sbbf>>,
}

impl NewFilters {
    fn filters(&self) -> MutexGuard<'_, BTreeMap<Chunk, Sbbf>> {
        self.filters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `step` with the file's keys.
    fn with_vault<T>(&self, step: impl FnOnce(&FileReader, Option<&dyn Vault>) -> Result<T>) -> Result<T> {
        let reader = self.reader.get();
        let secrets = reader.secrets()?;
        step(reader, secrets.as_ref().map(|secrets| secrets as &dyn Vault))
    }

    /// The values in the pages of a column chunk.
    fn hashes(&self, (row_group, column): Chunk, bytes: &[u8]) -> Result<ChunkHashes> {
        let isa = InstructionSet::detect();
        self.with_vault(|reader, vault| reader.file.hash_chunk(row_group, column, bytes, vault, u64::MAX, isa))
    }
}

#[pymethods]
impl NewFilters {
    #[new]
    fn new(reader: Py<FileReader>) -> Self {
        Self { reader, filters: Mutex::default() }
    }

    /// Whether all metadata of a column chunk can be read: those in a module of their own too, which may know a filter
    /// that a plaintext footer does not show.
    fn is_open(&self, py: Python<'_>, row_group: usize, column: usize) -> PyResult<bool> {
        let open = py.detach(|| {
            self.with_vault(|reader, vault| {
                let metadata = &reader.file.metadata;
                let chunk = metadata.chunk(row_group, column)?;
                let sealed = metadata.encrypted_meta(chunk).is_some();
                let opens = |vault: &dyn Vault| vault.open_column(metadata, row_group, column).is_ok();
                Ok(chunk.meta.is_some() && (!sealed || vault.is_some_and(opens)))
            })
        });
        Ok(open?)
    }

    /// Make the filter of a column chunk: its blocks, its distinct values, and the rate that the model foretells.
    fn make(
        &self,
        py: Python<'_>,
        chunk: Chunk,
        fpp: f64,
        max_bytes: u64,
        fetched: &Fetched,
    ) -> PyResult<Answer<(u64, u64, f64)>> {
        let most = match max_bytes / 32 {
            0 => return Err(PyValueError::new_err(format!("max_bytes is at least 32, not {max_bytes}"))),
            blocks => 1 << blocks.min(Sbbf::MAX_BLOCKS).ilog2(),
        };
        let (needed, made) = py.detach(|| {
            fetched.step(|fetched| {
                let range = self.reader.get().file.chunk_range(chunk.0, chunk.1)?;
                let Some(bytes) = fetched.get(&range) else { return Ok(Step::Need(vec![range])) };
                let isa = InstructionSet::detect();
                let found = self.hashes(chunk, bytes)?;
                let ndv = to_u64(found.hashes.len());
                let blocks = match sizing::optimal_blocks(ndv, fpp, Sizes::PowersOfTwo, Model::Exact) {
                    Err(error) if matches!(error.kind(), ErrorKind::TooManyValues { .. }) => most,
                    blocks => blocks?.min(most),
                };
                let mut filter = Sbbf::new(blocks)?;
                filter.insert_hashes(isa, &found.hashes);
                let complete = found.hashes.iter().all(|hash| filter.may_contain_hash(*hash));
                self.filters().insert(chunk, filter);
                Ok(Step::Ready((complete, (blocks, ndv, sizing::false_positive_rate(ndv, blocks)))))
            })
        })?;
        match made {
            Some((false, _)) => Err(PyRuntimeError::new_err("a new filter lacks a value: a defect of parsieve")),
            made => Ok((needed, made.map(|(_, made)| made))),
        }
    }

    /// Let go of the filters of a column.
    fn forget(&self, py: Python<'_>, column: usize) {
        py.detach(|| self.filters().retain(|chunk, _| chunk.1 != column));
    }

    /// Plan the file with the filters that were made, and without those of the chunks `drop`.
    fn plan<'py>(&self, py: Python<'py>, drop: Vec<Chunk>, fetched: &Fetched) -> PyResult<Answer<Plan<'py>>> {
        let (needed, plan) = py.detach(|| {
            let add: Vec<_> = (self.filters().iter())
                .map(|(&(row_group, column), filter)| NewFilter { row_group, column, num_blocks: filter.num_blocks() })
                .collect();
            fetched
                .step(|fetched| self.with_vault(|reader, vault| reader.file.plan_rewrite(&add, &drop, vault, fetched)))
        })?;
        let plan = plan.map(|plan| {
            let placed = plan.filters.iter().map(|new| (new.row_group, new.column, new.offset, new.length)).collect();
            (plan.copy, pairs(plan.wipe), placed, PyBytes::new(py, &plan.footer))
        });
        Ok((needed, plan))
    }

    /// The bytes of a filter that was made, encrypted as its column is; anew on every call.
    fn encode<'py>(&self, py: Python<'py>, chunk: Chunk) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let filters = self.filters();
            let made = filters.get(&chunk).map(|filter| {
                self.with_vault(|reader, vault| reader.file.encode_filter(chunk.0, chunk.1, filter, vault))
            });
            made.transpose()
        })?;
        let bytes = bytes.ok_or_else(|| PyKeyError::new_err(chunk))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Whether a filter that was read has the bits of the one that was made.
    fn equals(&self, py: Python<'_>, chunk: Chunk, read: &BloomFilter) -> bool {
        read.read(py, |read| self.filters().get(&chunk).is_some_and(|made| made.bitset() == read.sbbf().bitset()))
    }

    /// How many distinct values a column chunk has, how many of them a filter excludes, and whether all are values of
    /// rows: of a dictionary some may be unused.
    fn excluded(
        &self,
        py: Python<'_>,
        chunk: Chunk,
        filter: &BloomFilter,
        fetched: &Fetched,
    ) -> PyResult<Answer<(u64, u64, bool)>> {
        let excluded = filter.read(py, |filter| {
            fetched.step(|fetched| {
                let range = self.reader.get().file.chunk_range(chunk.0, chunk.1)?;
                let Some(bytes) = fetched.get(&range) else { return Ok(Step::Need(vec![range])) };
                let found = self.hashes(chunk, bytes)?;
                let excluded = found.hashes.iter().filter(|hash| !filter.sbbf().may_contain_hash(**hash)).count();
                Ok(Step::Ready((to_u64(found.hashes.len()), to_u64(excluded), !found.all_dictionary)))
            })
        });
        Ok(excluded?)
    }
}
