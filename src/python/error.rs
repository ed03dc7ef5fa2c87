//! The exception family, and the one match from the core's error to it.

use crate::error::{Class, Error};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;

create_exception!(parsieve, ParsieveError, PyException, "Base of all errors that parsieve defines.");
create_exception!(parsieve, FormatError, ParsieveError, "Bytes that do not follow their format.");
create_exception!(parsieve, DecryptionError, ParsieveError, "Encrypted bytes without the right key.");
create_exception!(parsieve, UnsupportedError, ParsieveError, "Something correct that parsieve does not handle.");

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
