//! `SieveBuild` builds segments from runs or from sorted rows.

use super::axis::{SieveAxis, SieveOptions};
use super::unit_timeline::SieveUnitTimeline;
use super::units::{SieveUnits, check_sides};
use super::{Erased, LocationNames, bytes_of, erased_by, for_each_key, key_type_mismatch, locations, to_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::int::{saturating_u32, to_u64};
use crate::python::column::Column;
use crate::sieve::{
    ArrowKey, Axis, Builder, Bytes, EncodedRoot, IndexInfo, Kept, Layout, Merge, Options, RunChunk, SegmentStream,
    Share, Stats, join_shares, root, root_over, unit_root_over,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::{Mutex, PoisonError};

/// The two sections of a file: the lookups, and the keys, which only compaction reads.
type Sections<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);
/// A root or share, and the last bytes of both sections.
type Finished = (Vec<u8>, (Vec<u8>, Vec<u8>));
/// A root of version 2, and the last bytes of both sections.
type FinishedUnits = (EncodedRoot, (Vec<u8>, Vec<u8>));
/// The nulls and NaNs of each location, and whether it has unread rows.
type SideCounts = Vec<(u64, u64, bool)>;

struct PartialIndex<K: ArrowKey> {
    merge: Merge<K>,
    builder: Builder<K>,
    stream: SegmentStream<K>,
    options: Options,
    /// Keys below `low` are skipped. The build ends before `high`.
    low: Option<K>,
    high: Option<K>,
    /// In a compaction, the segments that the build goes around.
    kept: Option<Kept<K>>,
}

/// The input and output of a build.
struct BuildPlan<'a> {
    num_runs: usize,
    num_locations: u32,
    /// The number of the file that the build writes.
    file: u32,
    options: Options,
    /// True for a build of one partition.
    partition: bool,
    range: KeyRange<'a>,
}

/// The range of keys of a build, as ordinals: from `low` to before `high`. The page before `low` ends with `after`.
struct KeyRange<'a> {
    low: Option<&'a [u8]>,
    high: Option<&'a [u8]>,
    after: Option<&'a [u8]>,
}

impl<K: ArrowKey> PartialIndex<K> {
    fn new(plan: &BuildPlan<'_>) -> Result<Self> {
        let BuildPlan { num_runs, num_locations, file, options, partition, ref range } = *plan;
        let (low, high) = (key::<K>(range.low)?, key::<K>(range.high)?);
        let builder = match key::<K>(range.after)? {
            Some(after) => Builder::following(num_locations, options, after)?,
            None if partition => Builder::partition(num_locations, options)?,
            None => Builder::new(num_locations, options)?,
        };
        let merge = Merge::new(num_runs).until(high.clone());
        Ok(Self { merge, builder, stream: SegmentStream::new(file), options, low, high, kept: None })
    }

    fn step(&mut self) -> Result<Option<usize>> {
        let Self { merge, builder, stream, low, kept, .. } = self;
        let hungry = merge.pour(|key, location, rows| match (&*low, &mut *kept) {
            (Some(low), _) if key < *low => Ok(()),
            (_, Some(kept)) => kept.push(builder, key, location, rows),
            (_, None) => builder.push(key, location, rows),
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
            match &mut self.kept {
                Some(kept) => kept.push(&mut self.builder, key, *location, *rows)?,
                None => self.builder.push(key, *location, *rows)?,
            }
        }
        self.stream.put(self.builder.take_segments());
        Ok(true)
    }

    fn finish(
        mut self,
        axis: &Axis,
        instant: i64,
        location_names: Vec<LocationNames>,
        sides: SideCounts,
    ) -> Result<Finished> {
        let built = self.builder.finish();
        self.stream.put(built.segments);
        let sections = self.stream.take();
        let info = IndexInfo { axis: axis.axis, instant, options: self.options };
        let root =
            root_over::<K>(info, locations(location_names), stats(sides), &built.spans, self.stream.into_entries())?;
        Ok((root::write(&root), sections))
    }

    fn finish_units(
        mut self,
        axis: &Axis,
        instant: i64,
        layout: Layout,
        sides: SideCounts,
        pages_file: u32,
    ) -> Result<FinishedUnits> {
        if let Some(kept) = &mut self.kept {
            kept.end(&mut self.builder);
        }
        let mut built = self.builder.finish();
        self.stream.put(std::mem::take(&mut built.segments));
        let sections = self.stream.take();
        let info = IndexInfo { axis: axis.axis, instant, options: self.options };
        let entries = self.stream.into_entries();
        let (entries, spans) = match self.kept {
            Some(kept) => kept.join(built, entries),
            None => (entries, built.spans),
        };
        let root = unit_root_over::<K>(info, layout, stats(sides), &spans, entries, pages_file)?;
        Ok((root, sections))
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

type AnyBuild = Erased<PartialIndex<u64>, PartialIndex<u128>, PartialIndex<Bytes>>;

/// A build from sorted runs or sorted rows, of a complete index or of one partition of it.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveBuild {
    axis: Axis,
    /// The number of the file that the build writes.
    file: u32,
    building: Mutex<Option<AnyBuild>>,
}

impl SieveBuild {
    fn with<T: Send>(&self, py: Python<'_>, f: impl FnOnce(&mut AnyBuild) -> PyResult<T> + Send) -> PyResult<T> {
        py.detach(|| match self.building.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(building) => f(building),
            None => Err(finished()),
        })
    }

    fn end(&self) -> PyResult<AnyBuild> {
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
        let range = KeyRange { low, high, after };
        let plan = BuildPlan { num_runs, num_locations, file, options, partition, range };
        let building = erased_by!(axis.0.width, K => PartialIndex::<K>::new(&plan)?);
        Ok(Self { axis: axis.0.clone(), file, building: Mutex::new(Some(building)) })
    }

    /// Feed the next piece of a run, or None at its end.
    #[pyo3(signature = (run, piece))]
    fn feed(&self, py: Python<'_>, run: usize, piece: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let piece = piece.map(bytes_of).transpose()?;
        self.with(py, |building| Ok(for_each_key!(building, building => building.merge.feed(run, piece))?))
    }

    /// Build until a run needs its next piece, and return its number. Return None when all runs have ended.
    fn step(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        self.with(py, |building| Ok(for_each_key!(building, building => building.step())?))
    }

    /// Add sorted rows: keys, location numbers (uint32) and row counts (uint64).
    fn push(&self, py: Python<'_>, keys: Column, locations: Column, rows: Column) -> PyResult<()> {
        let (keys, locations, rows) = (single(keys)?, single(locations)?, single(rows)?);
        let (Some(locations), Some(rows)) =
            (locations.as_primitive_opt::<UInt32Type>(), rows.as_primitive_opt::<UInt64Type>())
        else {
            return Err(PyTypeError::new_err("locations must be uint32 and rows must be uint64"));
        };
        if locations.len() != keys.len() || rows.len() != keys.len() {
            return Err(PyValueError::new_err("keys, locations and rows must have the same length"));
        }
        if matches!(keys.data_type(), DataType::Dictionary(_, _)) {
            return Err(PyTypeError::new_err("sorted keys must not be dictionary-encoded; decode them first"));
        }
        let pushed = self.with(py, |building| {
            let (locations, rows) = (locations.values(), rows.values());
            Ok(for_each_key!(building, building => building.push(&self.axis, &keys, locations, rows))?)
        })?;
        if pushed {
            Ok(())
        } else {
            Err(PyValueError::new_err("nulls and NaN have no key; count them in `sides` instead"))
        }
    }

    /// Return the bytes of the segments finished since the last call.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Sections<'py>> {
        let sections = self.with(py, |building| Ok(for_each_key!(building, building => building.stream.take())))?;
        Ok(sections_to_bytes(py, &sections))
    }

    /// Keep all segments of a base except `rebuilt`. Keys in them are skipped if the segment has them, and are an error
    /// otherwise. Call this before the first row.
    ///
    /// `files` has the new number of each file of the base. `masked` are the slices that are gone, and `changed` slices
    /// that are read again because their keys were not exact. All unit pages and the kept segments must be loaded.
    #[pyo3(signature = (timeline, rebuilt, files, *, masked=Vec::new(), changed=Vec::new()))]
    fn keep(
        &self,
        py: Python<'_>,
        timeline: &SieveUnitTimeline,
        rebuilt: Vec<usize>,
        files: Vec<u32>,
        masked: Vec<u32>,
        changed: Vec<u32>,
    ) -> PyResult<()> {
        self.with(py, |building| {
            let open = timeline.timeline.read().unwrap_or_else(PoisonError::into_inner);
            match (building, &*open) {
                (Erased::Word(building), Erased::Word(open)) => {
                    building.kept = Some(open.kept(&rebuilt, &files, &masked, &changed)?);
                }
                (Erased::Wide(building), Erased::Wide(open)) => {
                    building.kept = Some(open.kept(&rebuilt, &files, &masked, &changed)?);
                }
                (Erased::Text(building), Erased::Text(open)) => {
                    building.kept = Some(open.kept(&rebuilt, &files, &masked, &changed)?);
                }
                _ => return Err(key_type_mismatch()),
            }
            Ok(())
        })
    }

    /// Finish the build. Return the root and the last bytes of both sections.
    ///
    /// `sides` contains the nulls and NaNs of each location, and whether it has unread rows. If `locations` are
    /// `SieveUnits`, the root has version 2, and the result also has the unit pages: b"" if they are stored behind the
    /// root, otherwise the bytes of file number `pages_file`, which is the number after `file` by default.
    #[pyo3(signature = (instant, locations, sides, *, pages_file=None))]
    fn finish<'py>(
        &self,
        py: Python<'py>,
        instant: i64,
        locations: Places<'py>,
        sides: SideCounts,
        pages_file: Option<u32>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let axis = &self.axis;
        match locations {
            Places::Names(names) => {
                let building = self.end()?;
                let (root, sections) =
                    py.detach(|| for_each_key!(building, building => building.finish(axis, instant, names, sides)))?;
                (PyBytes::new(py, &root), sections_to_bytes(py, &sections)).into_pyobject(py)
            }
            Places::Units(units) => {
                let (layout, pages_file) = (units.get().layout().clone(), pages_file.unwrap_or(self.file + 1));
                check_sides(&layout, sides.len())?;
                let building = self.end()?;
                let (root, sections) = py.detach(|| {
                    for_each_key!(building, building => building.finish_units(axis, instant, layout, sides, pages_file))
                })?;
                let (root, pages) = (PyBytes::new(py, &root.root), PyBytes::new(py, &root.pages));
                (root, pages, sections_to_bytes(py, &sections)).into_pyobject(py)
            }
        }
    }

    /// Return the ordinals of the last key of a partition's first page and of the key after it, or None if not known
    /// yet.
    fn border<'py>(&self, py: Python<'py>) -> PyResult<Option<Sections<'py>>> {
        let border = self.with(py, |building| Ok(for_each_key!(building, building => building.border())))?;
        Ok(border.map(|border| sections_to_bytes(py, &border)))
    }

    /// Finish a build of the pages before `high`. Return its share, which holds no keys, and the last bytes of both
    /// sections.
    fn finish_pages<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Sections<'py>)> {
        let building = self.end()?;
        let (share, sections) = py.detach(|| for_each_key!(building, building => building.pages()))?;
        Ok((PyBytes::new(py, &share), sections_to_bytes(py, &sections)))
    }

    /// Finish the build of a partition. Return its share and the last bytes of both sections.
    fn finish_share<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, Sections<'py>)> {
        let building = self.end()?;
        let (share, sections) = py.detach(|| for_each_key!(building, building => building.share()));
        Ok((PyBytes::new(py, &share), sections_to_bytes(py, &sections)))
    }
}

/// Join the shares of all partitions in the order of their keys.
///
/// Return the root and the segments on the partitions' borders, which form the file number `file`. If `locations` are
/// `SieveUnits`, the root has version 2. The unit pages follow it in the result, as in `SieveBuild.finish`.
#[pyfunction]
#[pyo3(signature = (axis, shares, *, instant, locations, sides, options=None, file=0, pages_file=None))]
#[expect(clippy::too_many_arguments, reason = "they are named in Python")]
pub(super) fn join_sieve_shares<'py>(
    py: Python<'py>,
    axis: &SieveAxis,
    shares: Vec<Bound<'py, PyAny>>,
    instant: i64,
    locations: Places<'py>,
    sides: SideCounts,
    options: Option<&SieveOptions>,
    file: u32,
    pages_file: Option<u32>,
) -> PyResult<Bound<'py, PyTuple>> {
    let shares = shares.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
    let options = options.map_or_else(Options::default, |options| options.0);
    let info = IndexInfo { axis: axis.0.axis, instant, options };
    match locations {
        Places::Names(names) => {
            let joined = py.detach(|| {
                let joined =
                    erased_by!(axis.0.width, K => joined::<K>(info, &shares, super::locations(names), sides, file)?);
                for_each_key!(joined, joined => Ok::<_, Error>(joined))
            })?;
            (PyBytes::new(py, &joined.0), PyBytes::new(py, &joined.1)).into_pyobject(py)
        }
        Places::Units(units) => {
            let layout = units.get().layout().clone();
            check_sides(&layout, sides.len())?;
            let files = (file, pages_file.unwrap_or(file + 1));
            let joined = py.detach(|| {
                let joined = erased_by!(axis.0.width, K => joined_units::<K>(info, &shares, layout, sides, files)?);
                for_each_key!(joined, joined => Ok::<_, Error>(joined))
            })?;
            let (root, pages) = (PyBytes::new(py, &joined.0.root), PyBytes::new(py, &joined.0.pages));
            (root, pages, PyBytes::new(py, &joined.1)).into_pyobject(py)
        }
    }
}

/// The places of an index: named locations, or units of slices.
#[derive(FromPyObject)]
pub(super) enum Places<'py> {
    Units(Bound<'py, SieveUnits>),
    Names(Vec<LocationNames>),
}

/// Return the number of pairs in a piece of a run, and a sample of `count` keys at even distances, starting with the
/// first.
///
/// Keys are returned as ordinals: bytes that sort like the keys.
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

fn joined_units<K: ArrowKey>(
    info: IndexInfo,
    shares: &[Vec<u8>],
    layout: Layout,
    sides: SideCounts,
    (file, pages_file): (u32, u32),
) -> Result<(EncodedRoot, Vec<u8>)> {
    let num_units = saturating_u32(layout.num_units());
    let shares = shares.iter().map(|share| Share::<K>::read(share, num_units)).collect::<Result<Vec<_>>>()?;
    let joined = join_shares(shares, num_units, info.options, file)?;
    let root = unit_root_over::<K>(info, layout, stats(sides), &joined.spans, joined.segments, pages_file)?;
    Ok((root, joined.file))
}

fn single(column: Column) -> PyResult<ArrayRef> {
    let mut arrays = Vec::new();
    column.for_each(|array| {
        arrays.push(array.clone());
        Ok(())
    })?;
    match (arrays.len(), arrays.pop()) {
        (1, Some(array)) => Ok(array),
        (several, _) => Err(PyTypeError::new_err(format!("expected one array, not {}", to_u64(several)))),
    }
}

fn sections_to_bytes<'py>(py: Python<'py>, sections: &(Vec<u8>, Vec<u8>)) -> Sections<'py> {
    (PyBytes::new(py, &sections.0), PyBytes::new(py, &sections.1))
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("this build is finished")
}
