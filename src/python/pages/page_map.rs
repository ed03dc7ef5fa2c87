//! Maps of pages: where the chunks and pages of the files of a table are.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::page_map::{self, Chunk, RowGroup, Selection};
use crate::parquet::{Physical, SchemaLeaf};
use crate::python::error::FormatError;
use crate::python::file::{Fetched, FileReader, Ranges, pairs};
use crate::ranges::Step;

/// The chunks and pages of a file, or of a selection of its row groups and columns.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct FileMap(pub(super) page_map::FileMap);

impl FileMap {
    fn row_group(&self, number: usize) -> PyResult<&RowGroup> {
        let group = self.0.row_groups.iter().find(|group| group.number == number);
        group.ok_or_else(|| PyIndexError::new_err(format!("the map has no row group {number}")))
    }

    fn chunk_of(&self, row_group: usize, column: usize) -> PyResult<(&RowGroup, &Chunk)> {
        let group = self.row_group(row_group)?;
        let chunk = group.chunks.iter().find(|chunk| chunk.column == column);
        let chunk = chunk.ok_or_else(|| PyIndexError::new_err(format!("the map has no column {column}")))?;
        Ok((group, chunk))
    }
}

/// The path, physical type, length, maximum definition level and maximum repetition level of a leaf column.
type Leaf = (Vec<String>, String, Option<i32>, i16, i16);
/// The start, length, length of the dictionary page, codec, encodings and number of values of a chunk.
type ChunkFields = (u64, u64, Option<u64>, i32, Vec<u32>, u64);

#[pymethods]
impl FileMap {
    /// Return the map of a file, read from its footer and its offset indexes.
    ///
    /// `arrow_schema` replaces the value of the file's key for the Arrow schema. Raises `UnsupportedError` for
    /// encrypted files.
    #[staticmethod]
    #[pyo3(signature = (file, fetched, arrow_schema=None))]
    fn of(
        py: Python<'_>,
        file: &FileReader,
        fetched: &Fetched,
        arrow_schema: Option<&[u8]>,
    ) -> PyResult<(Ranges, Option<Self>)> {
        let arrow = arrow_schema.map(<[u8]>::to_vec);
        let (needed, map) =
            py.detach(|| fetched.step(|fetched| page_map::FileMap::of(&file.file, arrow.as_deref(), fetched)))?;
        Ok((needed, map.map(Self)))
    }

    /// Decode the result of `to_bytes`.
    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        let map = page_map::PageMap::open(data)?;
        match map.file(0, Selection::default(), &crate::ranges::Fetched::new())? {
            Step::Ready(Some(map)) => Ok(Self(map)),
            _ => Err(FormatError::new_err("the bytes have no map of a file")),
        }
    }

    /// Encode the map of a whole file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut builder = page_map::Builder::new();
        builder.add(0, &self.0)?;
        let (mut directory, blocks) = builder.finish(1)?;
        directory.extend(blocks);
        Ok(PyBytes::new(py, &directory))
    }

    /// The size of the file in bytes.
    #[getter]
    fn file_size(&self) -> u64 {
        self.0.file_len
    }

    /// The number of row groups of the file.
    #[getter]
    fn num_row_groups(&self) -> usize {
        self.0.num_row_groups
    }

    /// The number, first row and number of rows of each row group of the map.
    #[getter]
    fn row_groups(&self) -> Vec<(usize, u64, u64)> {
        self.0.row_groups.iter().map(|group| (group.number, group.first_row, group.num_rows)).collect()
    }

    /// The path, physical type, length, maximum definition level and maximum repetition level of each leaf column.
    #[getter]
    fn leaves(&self) -> Vec<Leaf> {
        let schema = &self.0.schema;
        let path = |leaf| schema.path(leaf).into_iter().map(str::to_owned).collect();
        let leaves = schema.leaves().iter();
        leaves.map(|leaf| (path(leaf), physical(leaf), leaf.type_length, leaf.max_def, leaf.max_rep)).collect()
    }

    /// The program that wrote the file.
    #[getter]
    fn created_by(&self) -> Option<&str> {
        self.0.schema.created_by()
    }

    /// Return the start, length, length of the dictionary page, codec, encodings and number of values of a chunk.
    fn chunk(&self, row_group: usize, column: usize) -> PyResult<ChunkFields> {
        let (_, chunk) = self.chunk_of(row_group, column)?;
        let encodings = (0..32).filter(|code| chunk.encodings >> code & 1 == 1).collect();
        Ok((chunk.start, chunk.len, chunk.dictionary_len, chunk.codec, encodings, chunk.num_values))
    }

    /// Return the offset, length and first row of each data page of a chunk, or None if they are unknown.
    fn pages(&self, row_group: usize, column: usize) -> PyResult<Option<Vec<(u64, u64, u64)>>> {
        let (_, chunk) = self.chunk_of(row_group, column)?;
        let pages = chunk.pages.as_ref();
        Ok(pages.map(|pages| pages.iter().map(|page| (page.offset, page.len, page.first_row)).collect()))
    }

    /// Return the byte ranges that hold all values of some rows of a chunk, given as ranges of rows of the row group.
    fn ranges_of(&self, row_group: usize, column: usize, rows: Ranges) -> PyResult<Ranges> {
        let (group, chunk) = self.chunk_of(row_group, column)?;
        let rows: Vec<Range<u64>> = rows.into_iter().map(|(start, end)| start..end).collect();
        Ok(pairs(chunk.ranges_of(&rows, group.num_rows)))
    }

    /// Return the metadata of a Parquet file with these row groups, as in a footer. It has no statistics and indexes.
    fn footer<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.0.footer()?))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        format!("<FileMap of {} row groups, {} columns>", self.0.row_groups.len(), self.0.schema.leaves().len())
    }
}

fn physical(leaf: &SchemaLeaf) -> String {
    let name = match leaf.physical {
        Physical::Boolean => "BOOLEAN",
        Physical::Int32 => "INT32",
        Physical::Int64 => "INT64",
        Physical::Int96 => "INT96",
        Physical::Float => "FLOAT",
        Physical::Double => "DOUBLE",
        Physical::ByteArray => "BYTE_ARRAY",
        Physical::FixedLenByteArray => "FIXED_LEN_BYTE_ARRAY",
        Physical::Unknown(code) => return format!("UNKNOWN({code})"),
    };
    name.to_owned()
}

/// Builds the map of some slices, which are added in ascending order.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct PageMapBuilder(Mutex<Option<page_map::Builder>>);

impl PageMapBuilder {
    fn lock(&self) -> MutexGuard<'_, Option<page_map::Builder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the map is finished; create another PageMapBuilder")
}

#[pymethods]
impl PageMapBuilder {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(Some(page_map::Builder::new())))
    }

    /// Add the map of a slice's file. Raises `UnsupportedError` if the files have too many different schemas.
    fn add(&self, py: Python<'_>, slice: u32, file: &FileMap) -> PyResult<()> {
        py.detach(|| self.lock().as_mut().ok_or_else(finished)?.add(slice, &file.0).map_err(PyErr::from))
    }

    /// Return the finished blocks that were not taken yet.
    fn take_blocks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.lock().as_mut().ok_or_else(finished)?.take_blocks()))
    }

    /// Return the directory of `num_slices` slices, and the blocks that were not taken yet.
    ///
    /// A small map has no blocks, because its directory includes them.
    fn finish<'py>(&self, py: Python<'py>, num_slices: u32) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let builder = self.lock().take().ok_or_else(finished)?;
        let (directory, blocks) = py.detach(|| builder.finish(num_slices))?;
        Ok((PyBytes::new(py, &directory), PyBytes::new(py, &blocks)))
    }
}

/// The map of some slices. Its blocks are read by ranges.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct PageMap(page_map::PageMap);

#[pymethods]
impl PageMap {
    /// Open a map by its directory.
    #[new]
    fn new(py: Python<'_>, directory: &[u8]) -> PyResult<Self> {
        let bytes = directory.to_vec();
        Ok(Self(py.detach(|| page_map::PageMap::open(&bytes))?))
    }

    /// The number of slices, with or without a map.
    #[getter]
    fn num_slices(&self) -> u32 {
        self.0.num_slices()
    }

    /// The number of blocks.
    #[getter]
    fn num_blocks(&self) -> usize {
        self.0.num_blocks()
    }

    /// The size of all blocks in bytes.
    #[getter]
    fn blocks_size(&self) -> u64 {
        self.0.blocks_len()
    }

    /// Return the missing ranges of the blocks, and the map of a slice's file.
    ///
    /// The second value is None as long as ranges are missing, and `(None,)` if the slice has no map. `row_groups` and
    /// `columns` are the numbers of the row groups and leaf columns to read, or None for all.
    #[pyo3(signature = (slice, fetched, row_groups=None, columns=None))]
    fn file(
        &self,
        py: Python<'_>,
        slice: u32,
        fetched: &Fetched,
        row_groups: Option<Vec<usize>>,
        columns: Option<Vec<usize>>,
    ) -> PyResult<(Ranges, Option<(Option<FileMap>,)>)> {
        let selection = Selection { row_groups: row_groups.as_deref(), columns: columns.as_deref() };
        let (needed, file) = py.detach(|| fetched.step(|fetched| self.0.file(slice, selection, fetched)))?;
        Ok((needed, file.map(|file| (file.map(FileMap),))))
    }
}
