//! The figures of an index, as a dict.

use crate::sieve::Report;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Returns the figures of a report by name.
pub(super) fn report_dict<'py>(py: Python<'py>, report: &Report, absent: f64) -> PyResult<Bound<'py, PyDict>> {
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
        ("slices", report.slices),
        ("lookup_bytes", report.lookup_bytes),
        ("largest_lookup", report.largest_lookup),
        ("keys_bytes", report.keys_bytes),
        ("root_bytes", report.root_bytes),
        ("page_bytes", report.page_bytes),
    ] {
        dict.set_item(name, value)?;
    }
    dict.set_item("bits_per_row", report.bits_per_row())?;
    dict.set_item("waste_per_key", report.waste_per_key())?;
    dict.set_item("error", report.error())?;
    dict.set_item("reads_of_absent_keys", absent)?;
    Ok(dict)
}
