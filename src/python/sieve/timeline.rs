//! `SieveTimeline`: a base and its deltas, which can be queried, loaded, compacted and analyzed.

use super::axis::{SieveAxis, SieveOptions};
use super::callbacks::with_callbacks;
use super::query::{KeyQuery, SieveQuery};
use super::report::report_dict;
use super::unit_timeline::SieveUnitTimeline;
use super::{Erased, LocationNames, bytes_of, erased_by, for_each_key, key_type_mismatch, locations};
use crate::error::{Error, ErrorKind, Result};
use crate::int::saturating_u32;
use crate::python::column::to_pyarrow;
use crate::sieve::{
    Answer, ArrowKey, Bytes, Delta, Index, Lookup, Query, Report, RunChunk, SectionRange, Timeline, check_keys, root,
};
use arrow_array::UInt32Array;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, PoisonError, RwLock};

/// A timeline, with additional data for reports.
struct OpenTimeline<K> {
    timeline: Timeline<K>,
    /// A second copy of the base, into which no segment is loaded, because the timeline does not give access to its
    /// own.
    base: Option<Index<K>>,
    changes: usize,
}

type AnyTimeline = Erased<OpenTimeline<u64>, OpenTimeline<u128>, OpenTimeline<Bytes>>;
/// Segment, file, offset and length.
type NeedRow = (usize, u32, u64, u64);
/// File, offset and length of a lookup section, then of the keys section.
type SegmentRow = (u32, u64, u64, u32, u64, u64);

impl<K: ArrowKey> OpenTimeline<K> {
    fn new(axis: &SieveAxis, base: Option<&[u8]>, deltas: &[Vec<u8>]) -> Result<Self> {
        let base = base.map(root::read::<K>).transpose()?.map(Index::new);
        if base.as_ref().is_some_and(|base| base.root().axis != axis.0.axis) {
            return Err(Error::new(ErrorKind::SieveMalformed { field: "axis" }));
        }
        let mut timeline = match &base {
            Some(base) => Timeline::starting_with(base.clone()),
            None => Timeline::new(axis.0.axis),
        };
        let mut changes = 0;
        for delta in deltas {
            let delta = Delta::read(delta)?;
            changes += delta.num_changes();
            timeline.commit(delta)?;
        }
        Ok(Self { timeline, base, changes })
    }

    fn needs(&self, key_query: &KeyQuery<K>) -> Result<Vec<NeedRow>> {
        let lookup = self.timeline.latest()?.lookup(&key_query.query);
        let Lookup::Need(needs) = lookup else { return Ok(Vec::new()) };
        let row = |need: crate::sieve::Need| (need.segment, need.extent.file, need.extent.offset, need.extent.len);
        Ok(needs.into_iter().map(row).collect())
    }

    fn answer(&self, key_query: &KeyQuery<K>) -> Result<Option<Vec<u32>>> {
        let view = self.timeline.latest()?;
        let Answer::Only(mut locations) = view.answer(&key_query.query) else { return Ok(None) };
        if key_query.nan {
            let Answer::Only(nan_locations) = view.answer(&Query::Nan) else { return Ok(None) };
            locations.extend(nan_locations);
            locations.sort_unstable();
            locations.dedup();
        }
        Ok(Some(locations))
    }

    fn load(&mut self, segment: usize, bytes: &[u8]) -> Result<()> {
        let instant = self.base.as_ref().map_or(i64::MIN, |base| base.root().instant);
        self.timeline.load(instant, segment, bytes)
    }

    fn missing(&self, piece: Vec<u8>, location: u32) -> Result<Option<String>> {
        let view = self.timeline.latest()?;
        let mut piece = RunChunk::<K>::new(piece)?;
        while let Some((key, _, _)) = piece.next_pair()? {
            if !view.answer(&Query::Point(key.clone())).keeps(location) {
                return Ok(Some(format!("{key:?}")));
            }
        }
        Ok(None)
    }

    fn compact(
        &self,
        location_names: Vec<LocationNames>,
        options: Option<&SieveOptions>,
        read: &mut dyn FnMut(SectionRange) -> Result<Vec<u8>>,
        write: &mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<(Vec<u8>, u64)> {
        let stored = self.base.as_ref().map(|base| base.root().options);
        let options = options.map(|options| options.0).or(stored).unwrap_or_default();
        let view = self.timeline.latest()?;
        let compacted = view.compact_into(options, locations(location_names), read, |_| i64::MAX, write)?;
        Ok((root::write(&compacted.root), compacted.unmatched))
    }

    fn report(&self, loaded: &[(usize, Vec<u8>)]) -> Option<(Report, f64)> {
        let mut base = self.base.clone()?;
        for (segment, bytes) in loaded {
            // A damaged segment counts as unloaded.
            base.load(*segment, bytes).ok();
        }
        Some((base.report(), base.reads_of_absent_keys()))
    }

    fn segments(&self) -> Vec<(SectionRange, SectionRange)> {
        let entries = self.base.iter().flat_map(|base| &base.root().segments);
        entries.map(|entry| (entry.lookup, entry.keys)).collect()
    }

    fn check_keys(&self, data: &[u8]) -> Result<()> {
        let num_locations = self.base.as_ref().map_or(0, |base| saturating_u32(base.root().locations.len()));
        check_keys::<K>(data, num_locations)
    }

    fn location_names(&self) -> Vec<LocationNames> {
        let place = |of: &crate::sieve::Location| (of.partition.clone(), of.group.clone());
        self.timeline.locations().iter().map(place).collect()
    }
}

/// A column of the index at a version: a base and the deltas after it.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveTimeline(RwLock<AnyTimeline>);

impl SieveTimeline {
    fn read<T: Send>(&self, py: Python<'_>, f: impl FnOnce(&AnyTimeline) -> PyResult<T> + Send) -> PyResult<T> {
        py.detach(|| f(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl SieveTimeline {
    #[new]
    #[pyo3(signature = (axis, root, deltas))]
    fn new(
        py: Python<'_>,
        axis: &SieveAxis,
        root: Option<&Bound<'_, PyAny>>,
        deltas: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let root = root.map(bytes_of).transpose()?;
        let deltas = deltas.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let open = erased_by!(axis.0.width, K => OpenTimeline::<K>::new(axis, root.as_deref(), &deltas)?);
            Ok(Self(RwLock::new(open)))
        })
    }

    /// Open a base of version 2, or None, and the deltas after it.
    #[staticmethod]
    #[pyo3(signature = (axis, root, deltas))]
    fn open2(
        py: Python<'_>,
        axis: &SieveAxis,
        root: Option<&Bound<'_, PyAny>>,
        deltas: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<SieveUnitTimeline> {
        let root = root.map(bytes_of).transpose()?;
        let deltas = deltas.iter().map(bytes_of).collect::<PyResult<Vec<_>>>()?;
        py.detach(|| SieveUnitTimeline::open(&axis.0, root.as_deref(), &deltas))
    }

    /// Return the partition and the group of each location, by number.
    fn locations(&self, py: Python<'_>) -> PyResult<Vec<LocationNames>> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.location_names())))
    }

    /// Return the segments that must be loaded to answer a query: number, file, offset, length.
    fn needs(&self, py: Python<'_>, query: &SieveQuery) -> PyResult<Vec<NeedRow>> {
        self.read(py, |open| match (open, &query.0) {
            (_, None) => Ok(Vec::new()),
            (Erased::Word(open), Some(Erased::Word(key_query))) => Ok(open.needs(key_query)?),
            (Erased::Wide(open), Some(Erased::Wide(key_query))) => Ok(open.needs(key_query)?),
            (Erased::Text(open), Some(Erased::Text(key_query))) => Ok(open.needs(key_query)?),
            _ => Err(key_type_mismatch()),
        })
    }

    /// Load the bytes of a segment. Pass b"" if they are unavailable; the segment then matches every location.
    fn load(&self, py: Python<'_>, segment: usize, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = bytes_of(data)?;
        py.detach(|| {
            let mut open = self.0.write().unwrap_or_else(PoisonError::into_inner);
            Ok(for_each_key!(&mut *open, open => open.load(segment, &bytes))?)
        })
    }

    /// Return the numbers of the locations that may match, given the loaded segments, or None for all locations.
    fn answer<'py>(&self, py: Python<'py>, query: &SieveQuery) -> PyResult<Option<Bound<'py, PyAny>>> {
        let locations = self.read(py, |open| match (open, &query.0) {
            (_, None) => Ok(None),
            (Erased::Word(open), Some(Erased::Word(key_query))) => Ok(open.answer(key_query)?),
            (Erased::Wide(open), Some(Erased::Wide(key_query))) => Ok(open.answer(key_query)?),
            (Erased::Text(open), Some(Erased::Text(key_query))) => Ok(open.answer(key_query)?),
            _ => Err(key_type_mismatch()),
        })?;
        locations.map(|locations| to_pyarrow(py, Arc::new(UInt32Array::from(locations)))).transpose()
    }

    /// Return the first key of a piece whose answer lacks the location, or None if there is none.
    fn missing(&self, py: Python<'_>, piece: &Bound<'_, PyAny>, location: u32) -> PyResult<Option<String>> {
        let piece = bytes_of(piece)?;
        self.read(py, |open| Ok(for_each_key!(open, open => open.missing(piece, location))?))
    }

    /// Compact the timeline into a new base. Return its root and the number of deletes that matched no row.
    ///
    /// `read(file, offset, length)` must return bytes of the exact keys. `write((lookups, keys))` receives the next
    /// bytes of both sections of the new file.
    #[pyo3(signature = (locations, read, write, options=None))]
    fn compact<'py>(
        &self,
        py: Python<'py>,
        locations: Vec<LocationNames>,
        read: &Bound<'py, PyAny>,
        write: &Bound<'py, PyAny>,
        options: Option<&SieveOptions>,
    ) -> PyResult<(Bound<'py, PyBytes>, u64)> {
        let (root, unmatched) = with_callbacks(py, read, write, |keys_at, take| {
            let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
            for_each_key!(&*open, open => open.compact(locations, options, keys_at, take))
        })?;
        Ok((PyBytes::new(py, &root), unmatched))
    }

    /// Convert the timeline to a base of version 2. Return its root, its unit pages and the number of deletes that
    /// matched no row.
    ///
    /// Each location becomes a slice of one unit, whose ID is its position in `locations`. `read` and `write` are those
    /// of `compact`. The segments become file 0.
    #[pyo3(signature = (locations, read, write, options, *, pages_file=1))]
    fn convert<'py>(
        &self,
        py: Python<'py>,
        locations: Vec<LocationNames>,
        read: &Bound<'py, PyAny>,
        write: &Bound<'py, PyAny>,
        options: &SieveOptions,
        pages_file: u32,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64)> {
        let (names, options) = (super::locations(locations), options.0);
        let (root, unmatched) = with_callbacks(py, read, write, |keys_at, take| {
            let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
            for_each_key!(&*open, open => open.timeline.latest()?.convert(options, &names, keys_at, take, pages_file))
        })?;
        Ok((PyBytes::new(py, &root.root), PyBytes::new(py, &root.pages), unmatched))
    }

    /// Return the segments of the base: file, offset and length of the lookup section, then of the keys section.
    fn segments(&self, py: Python<'_>) -> PyResult<Vec<SegmentRow>> {
        self.read(py, |open| {
            let row = |(lookup, keys): (SectionRange, SectionRange)| {
                (lookup.file, lookup.offset, lookup.len, keys.file, keys.offset, keys.len)
            };
            Ok(for_each_key!(open, open => open.segments()).into_iter().map(row).collect())
        })
    }

    /// Raise an error if a keys section of the base is invalid.
    fn check_keys(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = bytes_of(data)?;
        self.read(py, |open| Ok(for_each_key!(open, open => open.check_keys(&data))?))
    }

    /// The number of key changes in the deltas.
    #[getter]
    fn num_changes(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.changes)))
    }

    /// Return the size and the false positives of the base as a dict, or None without a base.
    ///
    /// The reads caused by missing keys are computed from the given segments.
    fn report<'py>(
        &self,
        py: Python<'py>,
        loaded: Vec<(usize, Bound<'py, PyAny>)>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let bytes = |(segment, data): &(usize, Bound<'py, PyAny>)| Ok((*segment, bytes_of(data)?));
        let loaded = loaded.iter().map(bytes).collect::<PyResult<Vec<_>>>()?;
        let report = self.read(py, |open| Ok(for_each_key!(open, open => open.report(&loaded))))?;
        let Some((report, absent)) = report else { return Ok(None) };
        Ok(Some(report_dict(py, &report, absent)?))
    }
}
