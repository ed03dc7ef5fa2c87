//! The places of an index, and the counts of rows without keys in each of them.

use super::LocationNames;
use super::units::SieveUnits;
use crate::sieve::Stats;
use pyo3::prelude::*;

/// The places of an index: named locations, or units of slices.
#[derive(FromPyObject)]
pub(super) enum Places<'py> {
    Units(Bound<'py, SieveUnits>),
    Names(Vec<LocationNames>),
}

/// The nulls and NaNs of each location, and whether it has unread rows.
pub(super) type SideCounts = Vec<(u64, u64, bool)>;

pub(super) fn stats<K>(sides: SideCounts) -> Vec<Stats<K>> {
    sides.into_iter().map(|(nulls, nans, unknown)| Stats { span: None, nulls, nans, unknown }).collect()
}
