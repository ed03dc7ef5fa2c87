//! `SieveBuild` merges runs, or takes sorted rows, into segments.

use super::axis::{SieveAxis, SieveOptions};
use super::{Erased, Place, bytes_of, erased_by, for_each_key, locations, to_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::int::{saturating_u32, to_u64};
use crate::python::column::Column;
use crate::sieve::{
    ArrowKey, Axis, Builder, Bytes, IndexInfo, Merge, Options, RunChunk, SegmentStream, Share, Stats, join_shares,
    root, root_over,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError};

/// Two sections of bytes: what lookups read, and what compaction reads.
type Sections<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);
/// A root or share, and the last bytes of both sections.
type Finished = (Vec<u8>, (Vec<u8>, Vec<u8>));
/// Nulls, NaN, and whether rows were not read, by location.
type SideCounts = Vec<(u64, u64, bool)>;

struct Building<K: ArrowKey> {
    merge: Merge<K>,
    builder: Builder<K>,
    stream: SegmentStream<K>,
    options: Options,
    /// Keys below `low` are passed over; from `high` on nothing is taken.
    low: Option<K>,
    high: Option<K>,
}

/// The inputs of a build, apart from its rows.
struct BuildPlan<'a> {
    num_runs: usize,
    num_locations: u32,
    options: Options,
    /// True to build one partition, whose first and last page may continue in others.
    partition: bool,
    /// The number of the segment file.
    file: u32,
    /// The bounds of the keys as ordinals: at least `low` and below `high`.
    low: Option<&'a [u8]>,
    high: Option<&'a [u8]>,
    /// The last key of the page before `low`, as an ordinal.
    after: Option<&'a [u8]>,
}

impl<K: ArrowKey> Building<K> {
    fn new(plan: &BuildPlan<'_>) -> Result<Self> {
        let BuildPlan { num_runs, num_locations, options, partition, file, .. } = *plan;
        let (low, high) = (key::<K>(plan.low)?, key::<K>(plan.high)?);
        let builder = match key::<K>(plan.after)? {
            Some(after) => Builder::following(num_locations, options, after)?,
            None if partition => Builder::partition(num_locations, options)?,
            None => Builder::new(num_locations, options)?,
        };
        let merge = Merge::new(num_runs).until(high.clone());
        Ok(Self { merge, builder, stream: SegmentStream::new(file), options, low, high })
    }

    fn step(&mut self) -> Result<Option<usize>> {
        let Self { merge, builder, stream, low, .. } = self;
        let hungry = merge.pour(|key, location, rows| match low {
            Some(low) if key < *low => Ok(()),
            _ => builder.push(key, location, rows),
        });
        stream.put(builder.take_segments());
        hungry
    }

    fn border(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.builder.border().map(|(last, next)| (last.ordinal(), next.ordinal()))
    }

    fn pages(self) -> Result<Finished> {
        let (share, lookups, keys) = Share::finish_before(self.builder, self.stream, self.high.as_ref())?;
        Ok((share.write(), (lookups, keys)))
    }

    fn push(&mut self, axis: &Axis, keys: &ArrayRef, locations: &[u32], rows: &[u64]) -> Result<bool> {
        let (keys, sides) = axis.keys::<K>(keys)?;
        if sides.nulls + sides.nans > 0 {
            return Ok(false);
        }
        for ((key, location), rows) in keys.into_iter().zip(locations).zip(rows) {
            self.builder.push(key, *location, *rows)?;
        }
        self.stream.put(self.builder.take_segments());
        Ok(true)
    }

    fn finish(mut self, axis: &Axis, instant: i64, places: Vec<Place>, sides: SideCounts) -> Result<Finished> {
        let built = self.builder.finish();
        self.stream.put(built.segments);
        let sections = self.stream.take();
        let info = IndexInfo { axis: axis.axis, instant, options: self.options };
        let root = root_over::<K>(info, locations(places), stats(sides), &built.spans, self.stream.into_entries())?;
        Ok((root::write(&root), sections))
    }

    fn share(self) -> Finished {
        let (share, lookups, keys) = Share::finish(self.builder, self.stream);
        (share.write(), (lookups, keys))
    }
}

fn key<K: ArrowKey>(ordinal: Option<&[u8]>) -> Result<Option<K>> {
    let key =
        |bytes| K::from_ordinal(bytes).ok_or(Error::new(ErrorKind::SieveOption("a bound is the ordinal of a key")));
    ordinal.map(key).transpose()
}

fn stats<K>(sides: SideCounts) -> Vec<Stats<K>> {
    sides.into_iter().map(|(nulls, nans, unknown)| Stats { span: None, nulls, nans, unknown }).collect()
}

type Buildings = Erased<Building<u64>, Building<u128>, Building<Bytes>>;

/// One build: of sorted runs, or of sorted rows; whole, or one partition of it.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveBuild {
    axis: Axis,
    building: Mutex<Option<Buildings>>,
}

impl SieveBuild {
    fn with<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&mut Buildings) -> PyResult<T> + Send) -> PyResult<T> {
        py.detach(|| match self.building.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(building) => act(building),
            None => Err(finished()),
        })
    }

    fn end(&self) -> PyResult<Buildings> {
        self.building.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(finished)
    }
}

#[pymethods]
impl SieveBuild {
    #[new]
    #[pyo3(signature = (axis, num_locations, *, num_runs=0, options=None, partition=false, file=0, low=None, high=None, after=None))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn new(
        axis: &SieveAxis,
        num_locations: u32,
        num_runs: usize,
        options: Option<&SieveOptions>,
        partition: bool,
        file: u32,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        after: Option<&[u8]>,
    ) -> PyResult<Self> {
        let options = options.map_or_else(Options::default, |options| options.0);
        let plan = BuildPlan { num_runs, num_locations, options, partition, file, low, high, after };
        let building = erased_by!(axis.0.width, K => Building::<K>::new(&plan)?);
        Ok(Self { axis: axis.0.clone(), building: Mutex::new(Some(building)) })
    }

    /// Give a hungry run its next piece; None where it has no more.
    #[pyo3(signature = (run, piece))]
    fn feed(&self, py: Python<'_>, run: usize, piece: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let piece = piece.map(bytes_of).transpose()?;
        self.with(py, |building| Ok(for_each_key!(building, building => building.merge.feed(run, piece))?))
    }

    /// Build until a run is hungry, and say which; None when all runs are used up.
    fn step(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        self.with(py, |building| Ok(for_each_key!(building, building => building.step())?))
    }

    /// Add sorted rows: keys, numbers of locations (uint32), rows (uint64).
    fn push(&self, py: Python<'_>, keys: Column, locations: Column, rows: Column) -> PyResult<()> {
        let (keys, locations, rows) = (single(keys)?, single(locations)?, single(rows)?);
        let (Some(locations), Some(rows)) =
            (locations.as_primitive_opt::<UInt32Type>(), rows.as_primitive_opt::<UInt64Type>())
        else {
            return Err(PyTypeError::new_err("locations are uint32 and rows are uint64"));
        };
        if locations.len() != keys.len() || rows.len() != keys.len() {
            return Err(PyValueError::new_err("keys, locations and rows are of one length"));
        }
        if matches!(keys.data_type(), DataType::Dictionary(_, _)) {
            return Err(PyTypeError::new_err("sorted keys are no dictionary; decode it first"));
        }
        let pushed = self.with(py, |building| {
            let (locations, rows) = (locations.values(), rows.values());
            Ok(for_each_key!(building, building => building.push(&self.axis, &keys, locations, rows))?)
        })?;
        if pushed { Ok(()) } else { Err(PyValueError::new_err("nulls and NaN have no key; count them apart")) }
    }

    /// The bytes of the segments finished since the last call.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Sections<'py>> {
        let sections = self.with(py, |building| Ok(for_each_key!(building, building => building.stream.take())))?;
        Ok(two(py, &sections))
    }

    /// End the build: the root, and the last bytes of both sections. `sides`: nulls, NaN and "not read" by location.
    fn finish<'py>(
        &self,
        py: Python<'py>,
        instant: i64,
        locations: Vec<Place>,
        sides: SideCounts,
    ) -> PyResult<(Bound<'py, PyBytes>, Sections<'py>)> {
        let building = self.end()?;
        let axis = &self.axis;
        let (root, sections) =
            py.detach(|| for_each_key!(building, building => building.finish(axis, instant, locations, sides)))?;
        Ok((PyBytes::new(py, &root), two(py, &sections)))
    }

    /// Of a partition, once it is known: the ordinals of the last key of its first page, and of the key after it.
    fn border<'py>(&self, py: Python<'py>) -> PyResult<Option<Sections<'py>>> {
        let border = self.with(py, |building| Ok(for_each_key!(building, building => building.border())))?;
        Ok(border.map(|border| two(py, &border)))
    }

    /// End the build of the pages before `high`: its share, which keeps no keys back, and the last bytes of both sections.
    fn finish_pages<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Sections<'py>)> {
        let building = self.end()?;
        let (share, sections) = py.detach(|| for_each_key!(building, building => building.pages()))?;
        Ok((PyBytes::new(py, &share), two(py, &sections)))
    }

    /// End the build of a partition: its share, and the last bytes of both sections.
    fn finish_share<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Sections<'py>)> {
        let building = self.end()?;
        let (share, sections) = py.detach(|| for_each_key!(building, building => building.share()));
        Ok((PyBytes::new(py, &share), two(py, &sections)))
    }
}

/// Join the shares of all partitions, in order of their keys: the root, and the segments on their borders, which are file
/// number `file`.
#[pyfunction]
#[pyo3(signature = (axis, shares, *, instant, locations, sides, options=None, file=0))]
#[expect(clippy::too_many_arguments, reason = "they are named in Python")]
pub(super) fn join_sieve_shares<'py>(
    py: Python<'py>,
    axis: &SieveAxis,
    shares: Vec<Bound<'py, PyAny>>,
    instant: i64,
    locations: Vec<Place>,
    sides: SideCounts,
    options: Option<&SieveOptions>,
    file: u32,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let shares = shares.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
    let options = options.map_or_else(Options::default, |options| options.0);
    let info = IndexInfo { axis: axis.0.axis, instant, options };
    let joined = py.detach(|| {
        let joined =
            erased_by!(axis.0.width, K => joined::<K>(info, &shares, super::locations(locations), sides, file)?);
        for_each_key!(joined, joined => Ok::<_, Error>(joined))
    })?;
    Ok((PyBytes::new(py, &joined.0), PyBytes::new(py, &joined.1)))
}

/// The pairs of a piece of a run, and so many of its keys at even distances, the first of them first: as ordinals, bytes
/// whose order is that of keys.
#[pyfunction]
pub(super) fn sieve_piece_keys<'py>(
    py: Python<'py>,
    axis: &SieveAxis,
    piece: &Bound<'py, PyAny>,
    count: usize,
) -> PyResult<(usize, Vec<Bound<'py, PyBytes>>)> {
    let piece = bytes_of(piece)?;
    let (pairs, keys) = py.detach(|| {
        let sample = erased_by!(axis.0.width, K => sampled::<K>(piece, count)?);
        for_each_key!(sample, sample => Ok::<_, Error>(sample))
    })?;
    Ok((pairs, to_bytes(py, keys)))
}

fn sampled<K: ArrowKey>(piece: Vec<u8>, count: usize) -> Result<(usize, Vec<Vec<u8>>)> {
    let (pairs, keys) = RunChunk::<K>::new(piece)?.sample(count)?;
    Ok((pairs, keys.iter().map(K::ordinal).collect()))
}

fn joined<K: ArrowKey>(
    info: IndexInfo,
    shares: &[Vec<u8>],
    locations: Vec<crate::sieve::Location>,
    sides: SideCounts,
    file: u32,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let num_locations = saturating_u32(locations.len());
    let shares = shares.iter().map(|share| Share::<K>::read(share, num_locations)).collect::<Result<Vec<_>>>()?;
    let joined = join_shares(shares, num_locations, info.options, file)?;
    let root = root_over::<K>(info, locations, stats(sides), &joined.spans, joined.segments)?;
    Ok((root::write(&root), joined.file))
}

fn single(column: Column) -> PyResult<ArrayRef> {
    let mut arrays = Vec::new();
    column.for_each(|array| {
        arrays.push(array.clone());
        Ok(())
    })?;
    match (arrays.len(), arrays.pop()) {
        (1, Some(array)) => Ok(array),
        (several, _) => Err(PyTypeError::new_err(format!("one array is expected, not {}", to_u64(several)))),
    }
}

fn two<'py>(py: Python<'py>, sections: &(Vec<u8>, Vec<u8>)) -> Sections<'py> {
    (PyBytes::new(py, &sections.0), PyBytes::new(py, &sections.1))
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("this build is finished")
}
