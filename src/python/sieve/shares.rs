//! Joins the shares of partitions that were built apart, and samples the keys of runs to divide them into partitions.

use super::axis::{SieveAxis, SieveOptions};
use super::places::{Places, SideCounts, stats};
use super::units::check_sides;
use super::{bytes_of, erased_by, for_each_key, to_bytes};
use crate::error::{Error, Result};
use crate::int::saturating_u32;
use crate::sieve::{
    ArrowKey, EncodedRoot, IndexInfo, Layout, Options, RunChunk, Share, join_shares, root, root_over, unit_root_over,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

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
