//! The Python bindings of the Sieve index. They take columns, return parts of runs and of files, and answer queries
//! with the numbers of locations.
//!
//! Core types that are generic over the key type exist here in three variants, and classes that know which one they
//! hold.

mod axis;
mod build;
mod callbacks;
mod delta;
mod places;
mod query;
mod report;
mod runs;
mod shares;
mod timeline;
mod unit_timeline;
mod units;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::sieve::Location;

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<axis::SieveAxis>()?;
    module.add_class::<axis::SieveOptions>()?;
    module.add_class::<build::SieveBuild>()?;
    module.add_class::<runs::SieveRuns>()?;
    module.add_class::<runs::SievePairs>()?;
    module.add_class::<query::SieveQuery>()?;
    module.add_class::<timeline::SieveTimeline>()?;
    module.add_class::<unit_timeline::SieveUnitTimeline>()?;
    module.add_class::<units::SieveUnits>()?;
    module.add_function(wrap_pyfunction!(shares::join_sieve_shares, module)?)?;
    module.add_function(wrap_pyfunction!(shares::sieve_piece_keys, module)?)?;
    module.add_function(wrap_pyfunction!(delta::sieve_delta, module)?)?;
    module.add_function(wrap_pyfunction!(delta::sieve_delta2, module)?)?;
    Ok(())
}

/// A value for one of the three key types.
pub(super) enum Erased<A, B, C> {
    Word(A),
    Wide(B),
    Text(C),
}

/// Runs the same code for each of the three key types.
macro_rules! for_each_key {
    ($erased:expr, $inner:pat => $body:expr) => {
        match $erased {
            $crate::python::sieve::Erased::Word($inner) => $body,
            $crate::python::sieve::Erased::Wide($inner) => $body,
            $crate::python::sieve::Erased::Text($inner) => $body,
        }
    };
}

/// Creates an [`Erased`] value by running the same code for the key type of a given width.
macro_rules! erased_by {
    ($width:expr, $key:ident => $body:expr) => {
        match $width {
            $crate::sieve::Width::Word => {
                type $key = u64;
                $crate::python::sieve::Erased::Word($body)
            }
            $crate::sieve::Width::Wide => {
                type $key = u128;
                $crate::python::sieve::Erased::Wide($body)
            }
            $crate::sieve::Width::Text => {
                type $key = $crate::sieve::Bytes;
                $crate::python::sieve::Erased::Text($body)
            }
        }
    };
}

use {erased_by, for_each_key};

/// The partition and the group of a location.
type LocationNames = (String, String);

fn locations(names: Vec<LocationNames>) -> Vec<Location> {
    names.into_iter().map(|(partition, group)| Location { partition, group }).collect()
}

/// Copies the bytes of an object with the buffer protocol, with the GIL held so that no other thread can modify them.
fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    PyBuffer::<u8>::get(data)?.to_vec(data.py())
}

fn to_bytes<'py>(py: Python<'py>, pieces: Vec<Vec<u8>>) -> Vec<Bound<'py, PyBytes>> {
    pieces.into_iter().map(|piece| PyBytes::new(py, &piece)).collect()
}

fn key_type_mismatch() -> PyErr {
    PyTypeError::new_err("these parts belong to columns with other kinds of keys")
}
