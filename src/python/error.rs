//! The exception classes, and the mapping from core errors to them.

use crate::error::{Class, Error};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;

create_exception!(parsieve, ParsieveError, PyException, "Base class of all parsieve exceptions.");
create_exception!(parsieve, FormatError, ParsieveError, "Raised if bytes do not conform to their format.");
create_exception!(parsieve, DecryptionError, ParsieveError, "Raised if data cannot be decrypted with the given keys.");
create_exception!(parsieve, UnsupportedError, ParsieveError, "Raised for valid input that parsieve does not support.");

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("ParsieveError", py.get_type::<ParsieveError>())?;
    module.add("FormatError", py.get_type::<FormatError>())?;
    module.add("DecryptionError", py.get_type::<DecryptionError>())?;
    module.add("UnsupportedError", py.get_type::<UnsupportedError>())?;
    Ok(())
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error.class() {
            Class::Format => FormatError::new_err(message),
            Class::Decryption => DecryptionError::new_err(message),
            Class::Unsupported => UnsupportedError::new_err(message),
            Class::Value => PyValueError::new_err(message),
            Class::Type => PyTypeError::new_err(message),
            Class::Memory => PyMemoryError::new_err(message),
        }
    }
}
