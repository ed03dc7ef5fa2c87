//! `SieveBuild` builds segments from runs or from sorted rows.

use super::axis::{SieveAxis, SieveOptions};
use super::places::{Places, SideCounts, stats};
use super::runs::SievePairs;
use super::unit_timeline::SieveUnitTimeline;
use super::units::check_sides;
use super::{Erased, LocationNames, bytes_of, erased_by, for_each_key, key_type_mismatch, locations};
use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;
use crate::python::column::Column;
use crate::sieve::{
    ArrowKey, Axis, Builder, Built, Bytes, EncodedRoot, IndexInfo, Kept, Layout, Merge, Options, RunSorter,
    SegmentStream, Share, SortableKey, SortedBuild, root, root_over, unit_root_over,
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
/// The bytes of both sections.
type SectionBytes = (Vec<u8>, Vec<u8>);
/// A root or share, and the last bytes of both sections.
type Finished = (Vec<u8>, SectionBytes);
/// A root of version 2, and the last bytes of both sections.
type FinishedUnits = (EncodedRoot, SectionBytes);

struct PartialIndex<K: SortableKey> {
    merge: Merge<K>,
    builder: Builder<K>,
    stream: SegmentStream<K>,
    /// The build of rows that were not sorted before, instead of the builder.
    sorted: Option<SortedBuild<K>>,
    /// True if the build has neither runs nor a range of keys.
    whole: bool,
    num_locations: u32,
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

impl<K: SortableKey> PartialIndex<K> {
    fn new(plan: &BuildPlan<'_>) -> Result<Self> {
        let BuildPlan { num_runs, num_locations, file, options, partition, ref range } = *plan;
        let (low, high) = (key::<K>(range.low)?, key::<K>(range.high)?);
        let builder = match key::<K>(range.after)? {
            Some(after) => Builder::following(num_locations, options, after)?,
            None if partition => Builder::partition(num_locations, options)?,
            None => Builder::new(num_locations, options)?,
        };
        let merge = Merge::new(num_runs).until(high.clone());
        let stream = SegmentStream::new(file);
        let whole = num_runs == 0 && !partition && [range.low, range.high, range.after] == [None; 3];
        Ok(Self { merge, builder, stream, sorted: None, whole, num_locations, options, low, high, kept: None })
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

    /// Takes rows to sort. Returns them if they can only be sorted as runs.
    fn sort_rows(&mut self, sorters: Vec<RunSorter<K>>, threads: usize) -> Result<Option<Vec<RunSorter<K>>>> {
        if !self.whole || self.kept.is_some() || self.builder.buffered() > 0 || self.sorted.is_some() {
            let problem = "rows are sorted in a build of a whole index, without runs, kept segments or other rows";
            return Err(Error::new(ErrorKind::SieveOption(problem)));
        }
        match RunSorter::sort_all(sorters, threads) {
            Ok(rows) => {
                self.sorted = Some(SortedBuild::new(rows, self.num_locations, self.options, threads)?);
                Ok(None)
            }
            Err(sorters) => Ok(Some(sorters)),
        }
    }

    fn keep(&mut self, kept: Kept<K>) -> Result<()> {
        if self.sorted.is_some() {
            return Err(Error::new(ErrorKind::SieveOption("a build of rows to sort cannot keep segments")));
        }
        self.kept = Some(kept);
        Ok(())
    }

    fn build_rows(&mut self) -> Result<bool> {
        let Some(sorted) = &mut self.sorted else { return Ok(false) };
        let more = sorted.step();
        self.stream.put(sorted.take_segments());
        more
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
        if self.sorted.is_some() {
            return Err(Error::new(ErrorKind::SieveOption("a build has either sorted rows or rows to sort")));
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

    /// Moves the last segments to the stream, and returns its bytes. The result has no segments any more.
    fn last_segments(
        sorted: Option<SortedBuild<K>>,
        builder: Builder<K>,
        stream: &mut SegmentStream<K>,
    ) -> Result<(Built<K>, SectionBytes)> {
        let mut built = match sorted {
            Some(sorted) => sorted.finish()?,
            None => builder.finish(),
        };
        stream.put(std::mem::take(&mut built.segments));
        Ok((built, stream.take()))
    }

    fn finish(
        mut self,
        axis: &Axis,
        instant: i64,
        location_names: Vec<LocationNames>,
        sides: SideCounts,
    ) -> Result<Finished> {
        let (built, sections) = Self::last_segments(self.sorted.take(), self.builder, &mut self.stream)?;
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
        let (built, sections) = Self::last_segments(self.sorted.take(), self.builder, &mut self.stream)?;
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

    /// Take all rows of some `SievePairs`, and sort them with several threads. `build_rows` then builds the segments.
    ///
    /// Return False if the rows can only be sorted as runs, because they are long texts.
    fn sort_rows(&self, py: Python<'_>, pairs: Vec<Py<SievePairs>>, threads: usize) -> PyResult<bool> {
        self.with(py, |building| {
            let taken = || pairs.iter().map(|pairs| pairs.get().take());
            macro_rules! sort {
                ($kind:path, $building:expr) => {{
                    let sorters = taken().map(|taken| match taken {
                        $kind(sorter) => Ok(sorter),
                        _ => Err(key_type_mismatch()),
                    });
                    let rest = $building.sort_rows(sorters.collect::<PyResult<Vec<_>>>()?, threads)?;
                    rest.map(|rest| rest.into_iter().map($kind).collect::<Vec<_>>())
                }};
            }
            let rest = match building {
                Erased::Word(building) => sort!(Erased::Word, building),
                Erased::Wide(building) => sort!(Erased::Wide, building),
                Erased::Text(building) => sort!(Erased::Text, building),
            };
            let sorted = rest.is_none();
            for (pairs, rows) in pairs.iter().zip(rest.into_iter().flatten()) {
                pairs.get().replace(rows);
            }
            Ok(sorted)
        })
    }

    /// Build some segments of the rows that `sort_rows` took. Return False if all are built.
    fn build_rows(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |building| Ok(for_each_key!(building, building => building.build_rows())?))
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
                    building.keep(open.kept(&rebuilt, &files, &masked, &changed)?)?;
                }
                (Erased::Wide(building), Erased::Wide(open)) => {
                    building.keep(open.kept(&rebuilt, &files, &masked, &changed)?)?;
                }
                (Erased::Text(building), Erased::Text(open)) => {
                    building.keep(open.kept(&rebuilt, &files, &masked, &changed)?)?;
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

fn sections_to_bytes<'py>(py: Python<'py>, sections: &SectionBytes) -> Sections<'py> {
    (PyBytes::new(py, &sections.0), PyBytes::new(py, &sections.1))
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("this build is finished")
}
