//! `SieveUnitTimeline`: a base of version 2 and its deltas, which answer with slices and units.

use super::callbacks::with_callbacks;
use super::query::{KeyQuery, SieveQuery};
use super::report::report_dict;
use super::units::{RangeRow, SieveUnits, range_rows};
use super::{Erased, bytes_of, erased_by, for_each_key, key_type_mismatch, to_bytes};
use crate::error::Result;
use crate::python::column::{Column, to_pyarrow};
use crate::sieve::{
    ArrowKey, Axis, Bytes, CompactionFiles, Index, Key, Query, Report, RunChunk, RunWriter, SectionRange, UnitDelta,
    UnitNeed, UnitTimeline, WHOLE_SLICE, check_keys,
};
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, Int64Array, UInt32Array};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Arc, PoisonError, RwLock};

type AnyTimeline = Erased<UnitTimeline<u64>, UnitTimeline<u128>, UnitTimeline<Bytes>>;
/// The kind of part, its number, and its file, offset and length.
type NeedRow = (&'static str, usize, u32, u64, u64);
/// File, offset and length of a lookup section, then of the keys section.
type SegmentRow = (u32, u64, u64, u32, u64, u64);
/// The rows of each row group, and the rows of each unit.
type LayoutRow = (Vec<u64>, Vec<RangeRow>);
/// The least and greatest key as ordinals, whether both are exact, the rows with keys, nulls, NaNs, and whether not all
/// rows were read.
type StatisticsRow<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>, bool, u64, u64, u64, bool);
type UnitArrays<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

fn open<K: ArrowKey>(axis: &Axis, root: Option<&[u8]>, deltas: &[Vec<u8>]) -> Result<UnitTimeline<K>> {
    let base = root.map(Index::<K>::open_units).transpose()?;
    let deltas = deltas.iter().map(|delta| UnitDelta::read(delta)).collect::<Result<Vec<_>>>()?;
    UnitTimeline::new(axis.axis, base, deltas)
}

fn answer<K: ArrowKey>(timeline: &UnitTimeline<K>, key_query: &KeyQuery<K>) -> Option<Vec<(u32, u32)>> {
    let queries = [&key_query.query, &Query::Nan];
    timeline.answer(&queries[..if key_query.nan { 2 } else { 1 }])
}

fn needs<K: ArrowKey>(timeline: &UnitTimeline<K>, key_query: &KeyQuery<K>) -> Vec<NeedRow> {
    let mut needs = timeline.needs(&key_query.query);
    if key_query.nan {
        needs.extend(timeline.needs(&Query::Nan));
    }
    let mut rows: Vec<NeedRow> = needs.into_iter().map(need_row).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn need_row(need: UnitNeed) -> NeedRow {
    match need {
        UnitNeed::Segment(number, extent) => ("segment", number, extent.file, extent.offset, extent.len),
        UnitNeed::Page(number, extent) => ("units", number, extent.file, extent.offset, extent.len),
    }
}

/// Returns the first key of a piece whose answer lacks its unit.
fn missing<K: ArrowKey>(timeline: &UnitTimeline<K>, piece: Vec<u8>, slice: u32, first: u32) -> Result<Option<String>> {
    let mut piece = RunChunk::<K>::new(piece)?;
    while let Some((key, location, _)) = piece.next_pair()? {
        let Some(kept) = timeline.answer(&[&Query::Point(key.clone())]) else { continue };
        let unit = location.wrapping_sub(first);
        if ![unit, WHOLE_SLICE].iter().any(|unit| kept.binary_search(&(slice, *unit)).is_ok()) {
            return Ok(Some(format!("{key:?}")));
        }
    }
    Ok(None)
}

fn report<K: ArrowKey>(timeline: &UnitTimeline<K>, loaded: &[(usize, Vec<u8>)]) -> Option<(Report, f64)> {
    let mut base = timeline.base()?.clone();
    for (segment, bytes) in loaded {
        // A damaged segment counts as unloaded.
        base.load(*segment, bytes).ok();
    }
    Some((base.report(), base.reads_of_absent_keys()))
}

fn segments<K: ArrowKey>(timeline: &UnitTimeline<K>) -> Vec<SegmentRow> {
    let entries = timeline.base().into_iter().flat_map(|base| &base.root().segments);
    let row = |(lookup, keys): (SectionRange, SectionRange)| {
        (lookup.file, lookup.offset, lookup.len, keys.file, keys.offset, keys.len)
    };
    entries.map(|entry| row((entry.lookup, entry.keys))).collect()
}

/// The ordinals of a unit's bounds and its counts.
type UnitStatistics = (Option<(Vec<u8>, Vec<u8>)>, bool, u64, u64, u64, bool);

fn statistics<K: ArrowKey>(timeline: &UnitTimeline<K>, id: u32) -> Option<Vec<UnitStatistics>> {
    let (page, position) = timeline.slice(id)?;
    let changed = timeline.is_changed(id);
    let row = |stats: &crate::sieve::Stats<K>| {
        let span = stats.span.as_ref();
        let exact = span.is_none_or(|span| !span.least.is_cut() && !span.most.is_cut());
        let bounds = span.map(|span| (span.least.ordinal(), span.most.ordinal()));
        let rows = span.map_or(0, |span| span.rows);
        (bounds, exact, rows, stats.nulls, stats.nans, stats.unknown || changed)
    };
    Some(page.stats[page.units(position)].iter().map(row).collect())
}

/// Returns the keys of the new slices of the deltas as a sorted run.
fn delta_run<K: ArrowKey>(timeline: &UnitTimeline<K>, masked: &[u32], changed: &[u32]) -> Vec<Vec<u8>> {
    let mut run = RunWriter::default();
    timeline.delta_keys(masked, changed).into_iter().for_each(|(key, unit, rows)| run.push(key, unit, rows));
    run.finish()
}

/// The versions of a column: a base and the deltas after it.
#[pyclass(frozen, module = "parsieve._core")]
pub(super) struct SieveUnitTimeline {
    pub(super) timeline: RwLock<AnyTimeline>,
}

impl SieveUnitTimeline {
    pub(super) fn open(axis: &Axis, root: Option<&[u8]>, deltas: &[Vec<u8>]) -> PyResult<Self> {
        let timeline = erased_by!(axis.width, K => open::<K>(axis, root, deltas)?);
        Ok(Self { timeline: RwLock::new(timeline) })
    }

    pub(super) fn read<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&AnyTimeline) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| f(&self.timeline.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl SieveUnitTimeline {
    /// Return the IDs of all slices of the base and the deltas in ascending order.
    fn slices(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.slices())))
    }

    /// Return the parts to load before a query can be answered: kind, number, file, offset, length.
    fn needs(&self, py: Python<'_>, query: &SieveQuery) -> PyResult<Vec<NeedRow>> {
        self.read(py, |open| match (open, &query.0) {
            (_, None) => Ok(Vec::new()),
            (Erased::Word(open), Some(Erased::Word(key_query))) => Ok(needs(open, key_query)),
            (Erased::Wide(open), Some(Erased::Wide(key_query))) => Ok(needs(open, key_query)),
            (Erased::Text(open), Some(Erased::Text(key_query))) => Ok(needs(open, key_query)),
            _ => Err(key_type_mismatch()),
        })
    }

    /// Return the unit pages of some slices, or of all slices, that are not loaded yet.
    #[pyo3(signature = (slices=None))]
    fn needs_units(&self, py: Python<'_>, slices: Option<Column>) -> PyResult<Vec<NeedRow>> {
        let ids = slices.map(slice_ids).transpose()?;
        self.read(py, |open| {
            let needs = for_each_key!(open, open => open.needs_slices(ids.as_deref()));
            Ok(needs.into_iter().map(need_row).collect())
        })
    }

    /// Load a part. Pass b"" if it is unavailable; everything that it could exclude is then kept.
    fn load(&self, py: Python<'_>, part: &str, number: usize, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = bytes_of(data)?;
        let segment = match part {
            "segment" => true,
            "units" => false,
            _ => return Err(PyValueError::new_err(format!("a part is \"segment\" or \"units\", not {part:?}"))),
        };
        py.detach(|| {
            let mut open = self.timeline.write().unwrap_or_else(PoisonError::into_inner);
            Ok(for_each_key!(&mut *open, open => {
                if segment { open.load_segment(number, &bytes) } else { open.load_page(number, &bytes) }
            })?)
        })
    }

    /// Return the slices and units that may match, given the loaded parts, or None if everything must be kept.
    ///
    /// Pairs ascend. Unit 0xFFFFFFFF means all units of a slice.
    fn answer2<'py>(&self, py: Python<'py>, query: &SieveQuery) -> PyResult<Option<UnitArrays<'py>>> {
        let pairs = self.read(py, |open| match (open, &query.0) {
            (_, None) => Ok(None),
            (Erased::Word(open), Some(Erased::Word(key_query))) => Ok(answer(open, key_query)),
            (Erased::Wide(open), Some(Erased::Wide(key_query))) => Ok(answer(open, key_query)),
            (Erased::Text(open), Some(Erased::Text(key_query))) => Ok(answer(open, key_query)),
            _ => Err(key_type_mismatch()),
        })?;
        let Some(pairs) = pairs else { return Ok(None) };
        let (slices, units): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
        let array = |numbers| to_pyarrow(py, Arc::new(UInt32Array::from(numbers)));
        Ok(Some((array(slices)?, array(units)?)))
    }

    /// Return for each slice the rows of its row groups, and the row group, first row and rows of its units.
    ///
    /// An item is None if the rows are unknown, or if the slice's unit page is not loaded.
    fn unit_ranges(&self, py: Python<'_>, slices: Column) -> PyResult<Vec<Option<LayoutRow>>> {
        let ids = slice_ids(slices)?;
        self.read(py, |open| Ok(for_each_key!(open, open => ids.iter().map(|&id| layout_row(open, id)).collect())))
    }

    /// Return the same as `unit_ranges`, as columns: for each slice the number of its row groups and of its units, then
    /// the rows of all row groups, and the first row and the rows of all units. Unknown rows count as no units.
    fn unit_columns<'py>(&self, py: Python<'py>, slices: Column) -> PyResult<[Bound<'py, PyAny>; 5]> {
        let ids = slice_ids(slices)?;
        let columns = self.read(py, |open| Ok(for_each_key!(open, open => layout_columns(open, &ids))))?;
        columns_to_pyarrow(py, columns)
    }

    /// Return for each slice the statistics of its units, or None if the slice's unit page is not loaded.
    ///
    /// The least and greatest key are ordinals: bytes that sort like the keys. They are bounds, and exact only if the
    /// third item is true. If the last item is true, there may be other rows.
    fn unit_statistics<'py>(&self, py: Python<'py>, slices: Column) -> PyResult<Vec<Option<Vec<StatisticsRow<'py>>>>> {
        let ids = slice_ids(slices)?;
        let rows: Vec<Option<Vec<UnitStatistics>>> = self
            .read(py, |open| Ok(for_each_key!(open, open => ids.iter().map(|&id| statistics(open, id)).collect())))?;
        let row = |(bounds, exact, rows, nulls, nans, unknown): UnitStatistics| {
            let (least, most) = bounds.unzip();
            let bytes = |ordinal: Option<Vec<u8>>| ordinal.map(|ordinal| PyBytes::new(py, &ordinal));
            (bytes(least), bytes(most), exact, rows, nulls, nans, unknown)
        };
        Ok(rows.into_iter().map(|slice| slice.map(|units| units.into_iter().map(row).collect())).collect())
    }

    /// Return the first key of a piece whose answer lacks its unit, or None if there is none.
    ///
    /// The location numbers of the piece are `first` plus the unit within the slice.
    #[pyo3(signature = (piece, slice_id, first=0))]
    fn missing(&self, py: Python<'_>, piece: &Bound<'_, PyAny>, slice_id: u32, first: u32) -> PyResult<Option<String>> {
        let piece = bytes_of(piece)?;
        self.read(py, |open| Ok(for_each_key!(open, open => missing(open, piece, slice_id, first))?))
    }

    /// Return the segments of the base: file, offset and length of the lookup section, then of the keys section.
    fn segments(&self, py: Python<'_>) -> PyResult<Vec<SegmentRow>> {
        self.read(py, |open| Ok(for_each_key!(open, open => segments(open))))
    }

    /// Return the file, offset and length of each unit page. Empty if the pages are stored behind the root.
    fn unit_pages(&self, py: Python<'_>) -> PyResult<Vec<(u32, u64, u64)>> {
        self.read(py, |open| {
            let extents = for_each_key!(open, open => open.page_extents());
            Ok(extents.into_iter().map(|extent| (extent.file, extent.offset, extent.len)).collect())
        })
    }

    /// Raise an error if a keys section of the base is invalid.
    fn check_keys(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = bytes_of(data)?;
        self.read(py, |open| Ok(for_each_key!(open, open => check(open, &data))?))
    }

    /// The number of key changes in the deltas.
    #[getter]
    fn num_changes(&self, py: Python<'_>) -> PyResult<usize> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.deltas().iter().map(UnitDelta::num_changes).sum())))
    }

    /// The instant of the newest part.
    #[getter]
    fn instant(&self, py: Python<'_>) -> PyResult<i64> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.instant())))
    }

    /// The options of the base, or None without a base.
    #[getter]
    fn options(&self, py: Python<'_>) -> PyResult<Option<super::axis::SieveOptions>> {
        let options =
            self.read(py, |open| Ok(for_each_key!(open, open => open.base().map(|base| base.root().options))))?;
        Ok(options.map(super::axis::SieveOptions))
    }

    /// The IDs of the slices to which deltas add rows.
    #[getter]
    fn changed(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.changed())))
    }

    /// Return all slices of the base and the deltas with their units. All unit pages must be loaded.
    fn units(&self, py: Python<'_>) -> PyResult<SieveUnits> {
        let units = self.read(py, |open| Ok(for_each_key!(open, open => open.all_units()?.layout)))?;
        Ok(SieveUnits::from_layout(units))
    }

    /// Return the share of the base's rows that belong to slices in `masked`. All unit pages must be loaded.
    fn masked_share(&self, py: Python<'_>, masked: Vec<u32>) -> PyResult<f64> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.masked_share(&masked))?))
    }

    /// Return the segments that a compaction must rebuild, and the slices that it must read again.
    ///
    /// `masked` are the slices that are gone, and `changed` slices whose keys are not exact, in addition to those that
    /// deltas change. Segments that are not loaded count as touched.
    #[pyo3(signature = (masked, changed=Vec::new()))]
    fn touched(&self, py: Python<'_>, masked: Vec<u32>, changed: Vec<u32>) -> PyResult<(Vec<usize>, Vec<u32>)> {
        self.read(py, |open| {
            let touched = for_each_key!(open, open => open.touched(&masked, &changed));
            Ok((touched.segments, touched.slices))
        })
    }

    /// Return the nulls and NaNs of each unit, and whether it has unread rows. All unit pages must be loaded.
    #[pyo3(signature = (masked=Vec::new()))]
    fn sides(&self, py: Python<'_>, masked: Vec<u32>) -> PyResult<Vec<(u64, u64, bool)>> {
        self.read(py, |open| Ok(for_each_key!(open, open => open.sides(&masked))?))
    }

    /// Return the keys of the deltas' new slices as a run, with the location numbers of `units()`.
    #[pyo3(signature = (masked, changed=Vec::new()))]
    fn delta_keys<'py>(
        &self,
        py: Python<'py>,
        masked: Vec<u32>,
        changed: Vec<u32>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let pieces = self.read(py, |open| Ok(for_each_key!(open, open => delta_run(open, &masked, &changed))))?;
        Ok(to_bytes(py, pieces))
    }

    /// Compact an index with keys sections. Return the root, the unit pages and the number of deletes that matched no
    /// row.
    ///
    /// `read(file, offset, length)` must return the bytes of a keys section. `write((lookups, keys))` receives the next
    /// bytes of both sections of file number `file`. `files` has the new number of each old file. Segments in `rebuilt`
    /// are rebuilt in addition to those with new keys.
    #[pyo3(signature = (read, write, *, masked, file, pages_file, files, rebuilt=None))]
    #[expect(clippy::too_many_arguments, reason = "they are named in Python")]
    fn compact<'py>(
        &self,
        py: Python<'py>,
        read: &Bound<'py, PyAny>,
        write: &Bound<'py, PyAny>,
        masked: Vec<u32>,
        file: u32,
        pages_file: u32,
        files: Vec<u32>,
        rebuilt: Option<Vec<usize>>,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64)> {
        let (root, unmatched) = with_callbacks(py, read, write, |keys_at, take| {
            let open = self.timeline.read().unwrap_or_else(PoisonError::into_inner);
            let files = CompactionFiles { segments: file, pages: pages_file, old: &files };
            for_each_key!(&*open, open => open.compact_keys(&masked, rebuilt.as_deref(), files, keys_at, take))
        })?;
        Ok((PyBytes::new(py, &root.root), PyBytes::new(py, &root.pages), unmatched))
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
        let report = self.read(py, |open| Ok(for_each_key!(open, open => report(open, &loaded))))?;
        report.map(|(report, absent)| report_dict(py, &report, absent)).transpose()
    }
}

fn check<K: ArrowKey>(timeline: &UnitTimeline<K>, data: &[u8]) -> Result<()> {
    check_keys::<K>(data, timeline.base().map_or(0, Index::num_units))
}

fn layout_row<K: Key>(timeline: &UnitTimeline<K>, id: u32) -> Option<LayoutRow> {
    let (page, position) = timeline.slice(id)?;
    let slice = page.layout.get(position)?;
    (!slice.row_groups.is_empty()).then(|| (slice.row_groups.to_vec(), range_rows(&slice)))
}

/// Returns the columns of `unit_columns`.
fn layout_columns<K: Key>(timeline: &UnitTimeline<K>, ids: &[u32]) -> [Vec<i64>; 5] {
    let mut columns: [Vec<i64>; 5] = Default::default();
    let [num_groups, num_units, group_rows, starts, rows] = &mut columns;
    for &id in ids {
        let slice = timeline.slice(id).and_then(|(page, position)| page.layout.get(position));
        let groups = slice.as_ref().map_or(&[][..], |slice| slice.row_groups);
        let units = slice.filter(|slice| !slice.row_groups.is_empty()).map_or_else(Vec::new, |slice| slice.ranges());
        num_groups.push(to_i64(groups.len()));
        num_units.push(to_i64(units.len()));
        group_rows.extend(groups.iter().map(|&rows| rows.cast_signed()));
        starts.extend(units.iter().map(|unit| unit.first_row.cast_signed()));
        rows.extend(units.iter().map(|unit| unit.rows.cast_signed()));
    }
    columns
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn columns_to_pyarrow(py: Python<'_>, columns: [Vec<i64>; 5]) -> PyResult<[Bound<'_, PyAny>; 5]> {
    let [groups, units, group_rows, starts, rows] =
        columns.map(|column| to_pyarrow(py, Arc::new(Int64Array::from(column))));
    Ok([groups?, units?, group_rows?, starts?, rows?])
}

fn slice_ids(column: Column) -> PyResult<Vec<u32>> {
    let mut ids = Vec::new();
    column.for_each(|array| {
        let wrong = || PyTypeError::new_err("slice IDs must be uint32 without nulls");
        let numbers = array.as_primitive_opt::<UInt32Type>().filter(|ids| ids.null_count() == 0).ok_or_else(wrong)?;
        ids.extend_from_slice(numbers.values());
        Ok(())
    })?;
    Ok(ids)
}
