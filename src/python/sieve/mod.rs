//! The Sieve index for Python: columns in, pieces and parts of files out, answers in the numbers of locations.
//!
//! What is generic over keys in the core is one of three here, behind classes that know which.

mod axis;
mod build;
mod delta;
mod query;
mod runs;
mod timeline;

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
    module.add_function(wrap_pyfunction!(build::join_sieve_shares, module)?)?;
    module.add_function(wrap_pyfunction!(build::sieve_piece_keys, module)?)?;
    module.add_function(wrap_pyfunction!(delta::sieve_delta, module)?)?;
    Ok(())
}

/// Something for each of the three key types.
pub(super) enum Erased<A, B, C> {
    Word(A),
    Wide(B),
    Text(C),
}

/// The same code for whichever of the three it is.
macro_rules! for_each_key {
    ($erased:expr, $inner:pat => $body:expr) => {
        match $erased {
            $crate::python::sieve::Erased::Word($inner) => $body,
            $crate::python::sieve::Erased::Wide($inner) => $body,
            $crate::python::sieve::Erased::Text($inner) => $body,
        }
    };
}

/// An [`Erased`] made by the same code for the width that is asked for.
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

/// Partition and group.
type Place = (String, String);

fn locations(places: Vec<Place>) -> Vec<Location> {
    places.into_iter().map(|(partition, group)| Location { partition, group }).collect()
}

/// The bytes of anything with the buffer protocol, copied while nobody can write to them.
fn bytes_of(data: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    PyBuffer::<u8>::get(data)?.to_vec(data.py())
}

fn to_bytes<'py>(py: Python<'py>, pieces: Vec<Vec<u8>>) -> Vec<Bound<'py, PyBytes>> {
    pieces.into_iter().map(|piece| PyBytes::new(py, &piece)).collect()
}

fn other_keys() -> PyErr {
    PyTypeError::new_err("these parts belong to columns with other kinds of keys")
}
