//! `SieveTimeline`: a base with the deltas after it, asked, loaded, compacted and reported on.

use super::axis::{SieveAxis, SieveOptions};
use super::query::{Asked, SieveQuery};
use super::{Erased, Place, bytes_of, erased_by, for_each_key, locations, other_keys};
use crate::error::{Error, ErrorKind, Result};
use crate::int::saturating_u32;
use crate::python::column::to_pyarrow;
use crate::sieve::{
    Answer, ArrowKey, Bytes, Delta, Index, Lookup, Query, Report, RunChunk, SectionRange, Timeline, check_keys, root,
};
use arrow_array::UInt32Array;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::cell::RefCell;
use std::sync::{Arc, PoisonError, RwLock};

/// A timeline with what Python asks about beside it.
struct Open<K> {
    timeline: Timeline<K>,
    /// The base once more, never loaded: the timeline shows none of it.
    base: Option<Index<K>>,
    changes: usize,
}

type Opened = Erased<Open<u64>, Open<u128>, Open<Bytes>>;
/// Segment, file, offset, length.
type NeedRow = (usize, u32, u64, u64);
/// File, offset and length of a lookup section, then of the keys section.
type SegmentRow = (u32, u64, u64, u32, u64, u64);

impl<K: ArrowKey> Open<K> {
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

    fn needs(&self, asked: &Asked<K>) -> Result<Vec<NeedRow>> {
        let lookup = self.timeline.latest()?.lookup(&asked.query);
        let Lookup::Need(needs) = lookup else { return Ok(Vec::new()) };
        let row = |need: crate::sieve::Need| (need.segment, need.extent.file, need.extent.offset, need.extent.len);
        Ok(needs.into_iter().map(row).collect())
    }

    fn answer(&self, asked: &Asked<K>) -> Result<Option<Vec<u32>>> {
        let view = self.timeline.latest()?;
        let Answer::Only(mut kept) = view.answer(&asked.query) else { return Ok(None) };
        if asked.nan {
            let Answer::Only(more) = view.answer(&Query::Nan) else { return Ok(None) };
            kept.extend(more);
            kept.sort_unstable();
            kept.dedup();
        }
        Ok(Some(kept))
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
        places: Vec<Place>,
        options: Option<&SieveOptions>,
        read: &mut dyn FnMut(SectionRange) -> Result<Vec<u8>>,
        write: &mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<()>,
    ) -> Result<(Vec<u8>, u64)> {
        let stored = self.base.as_ref().map(|base| base.root().options);
        let options = options.map(|options| options.0).or(stored).unwrap_or_default();
        let view = self.timeline.latest()?;
        let compacted = view.compact_into(options, locations(places), read, |_| i64::MAX, write)?;
        Ok((root::write(&compacted.root), compacted.unmatched))
    }

    fn report(&self, loaded: &[(usize, Vec<u8>)]) -> Option<(Report, f64)> {
        let mut base = self.base.clone()?;
        for (segment, bytes) in loaded {
            // A damaged one says nothing of absent keys, and counts for none.
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

    fn places(&self) -> Vec<Place> {
        let place = |of: &crate::sieve::Location| (of.partition.clone(), of.group.clone());
        self.timeline.locations().iter().map(place).collect()
    }
}

/// One column of the index as of a version: a base and the deltas after it.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveTimeline(RwLock<Opened>);

impl SieveTimeline {
    fn read<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&Opened) -> PyResult<T> + Send) -> PyResult<T> {
        py.detach(|| act(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
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
            let open = erased_by!(axis.0.width, K => Open::<K>::new(axis, root.as_deref(), &deltas)?);
            Ok(Self(RwLock::new(open)))
        })
    }

    /// Partition and group of each location, by number.
    fn locations(&self, py: Python<'_>) -> PyResult<Vec<Place>> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.places())))
    }

    /// The segments that must be loaded before a question can be answered: number, file, offset, length.
    fn needs(&self, py: Python<'_>, query: &SieveQuery) -> PyResult<Vec<NeedRow>> {
        self.read(py, |open| match (open, &query.0) {
            (_, None) => Ok(Vec::new()),
            (Erased::Word(open), Some(Erased::Word(asked))) => Ok(open.needs(asked)?),
            (Erased::Wide(open), Some(Erased::Wide(asked))) => Ok(open.needs(asked)?),
            (Erased::Text(open), Some(Erased::Text(asked))) => Ok(open.needs(asked)?),
            _ => Err(other_keys()),
        })
    }

    /// Give a segment its bytes; b"" where they cannot be had, and the segment then stands for every location.
    fn load(&self, py: Python<'_>, segment: usize, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = bytes_of(data)?;
        py.detach(|| {
            let mut open = self.0.write().unwrap_or_else(PoisonError::into_inner);
            Ok(for_each_key!(&mut *open, open => open.load(segment, &bytes))?)
        })
    }

    /// The numbers of the locations that can match, of what is loaded; None for all of them.
    fn answer<'py>(&self, py: Python<'py>, query: &SieveQuery) -> PyResult<Option<Bound<'py, PyAny>>> {
        let kept = self.read(py, |open| match (open, &query.0) {
            (_, None) => Ok(None),
            (Erased::Word(open), Some(Erased::Word(asked))) => Ok(open.answer(asked)?),
            (Erased::Wide(open), Some(Erased::Wide(asked))) => Ok(open.answer(asked)?),
            (Erased::Text(open), Some(Erased::Text(asked))) => Ok(open.answer(asked)?),
            _ => Err(other_keys()),
        })?;
        kept.map(|kept| to_pyarrow(py, Arc::new(UInt32Array::from(kept)))).transpose()
    }

    /// The first key of a piece whose answer lacks a location; None if there is none.
    fn missing(&self, py: Python<'_>, piece: &Bound<'_, PyAny>, location: u32) -> PyResult<Option<String>> {
        let piece = bytes_of(piece)?;
        self.read(py, |open| Ok(for_each_key!(open, open => open.missing(piece, location))?))
    }

    /// Make a new base of this timeline: its root, and how many deletes met no row.
    ///
    /// `read(file, offset, length)` brings the exact keys; `write((lookups, keys))` takes more of both halves of the file.
    #[pyo3(signature = (locations, read, write, options=None))]
    fn compact<'py>(
        &self,
        py: Python<'py>,
        locations: Vec<Place>,
        read: &Bound<'py, PyAny>,
        write: &Bound<'py, PyAny>,
        options: Option<&SieveOptions>,
    ) -> PyResult<(Bound<'py, PyBytes>, u64)> {
        let (read, write) = (read.clone().unbind(), write.clone().unbind());
        let (compacted, failed) = py.detach(|| {
            let failed = RefCell::new(None);
            let fail = |error: PyErr, field| {
                failed.replace(Some(error));
                Error::new(ErrorKind::SieveMalformed { field })
            };
            let open = self.0.read().unwrap_or_else(PoisonError::into_inner);
            let mut keys_at = |extent: SectionRange| {
                Python::attach(|py| {
                    let data = read.call1(py, (extent.file, extent.offset, extent.len))?;
                    bytes_of(data.bind(py))
                })
                .map_err(|error| fail(error, "keys section, which could not be read"))
            };
            let mut take = |lookups: Vec<u8>, keys: Vec<u8>| {
                Python::attach(|py| write.call1(py, ((PyBytes::new(py, &lookups), PyBytes::new(py, &keys)),)))
                    .map(drop)
                    .map_err(|error| fail(error, "segments, which could not be written"))
            };
            let compacted = for_each_key!(&*open, open => open.compact(locations, options, &mut keys_at, &mut take));
            (compacted, failed.into_inner())
        });
        match (compacted, failed) {
            (_, Some(error)) => Err(error),
            (Err(error), None) => Err(error.into()),
            (Ok((root, unmatched)), None) => Ok((PyBytes::new(py, &root), unmatched)),
        }
    }

    /// Every segment of the base: file, offset and length of its lookup section, then of its keys.
    fn segments(&self, py: Python<'_>) -> PyResult<Vec<SegmentRow>> {
        self.read(py, |open| {
            let row = |(lookup, keys): (SectionRange, SectionRange)| {
                (lookup.file, lookup.offset, lookup.len, keys.file, keys.offset, keys.len)
            };
            Ok(for_each_key!(open, open => open.segments()).into_iter().map(row).collect())
        })
    }

    /// Raise what is wrong with a keys section of the base.
    fn check_keys(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = bytes_of(data)?;
        self.read(py, |open| Ok(for_each_key!(open, open => open.check_keys(&data))?))
    }

    /// Changes of keys in the deltas.
    #[getter]
    fn num_changes(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.changes)))
    }

    /// What the base costs and wastes; None without a base. Absent keys are judged by the segments that are given.
    fn report<'py>(
        &self,
        py: Python<'py>,
        loaded: Vec<(usize, Bound<'py, PyAny>)>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let bytes = |(segment, data): &(usize, Bound<'py, PyAny>)| Ok((*segment, bytes_of(data)?));
        let loaded = loaded.iter().map(bytes).collect::<PyResult<Vec<_>>>()?;
        let report = self.read(py, |open| Ok(for_each_key!(open, open => open.report(&loaded))))?;
        let Some((report, absent)) = report else { return Ok(None) };
        let dict = PyDict::new(py);
        let counts = report.counts;
        for (name, value) in [
            ("keys", counts.keys),
            ("rows", counts.rows),
            ("pairs", counts.pairs),
            ("reads", counts.reads),
            ("runs", counts.runs),
            ("blocks", counts.blocks),
            ("segments", report.segments),
            ("locations", report.locations),
            ("lookup_bytes", report.lookup_bytes),
            ("largest_lookup", report.largest_lookup),
            ("keys_bytes", report.keys_bytes),
            ("root_bytes", report.root_bytes),
        ] {
            dict.set_item(name, value)?;
        }
        dict.set_item("bits_per_row", report.bits_per_row())?;
        dict.set_item("waste_per_key", report.waste_per_key())?;
        dict.set_item("error", report.error())?;
        dict.set_item("reads_of_absent_keys", absent)?;
        Ok(Some(dict))
    }
}
