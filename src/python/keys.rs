//! `FileKeys`: the keys of an encrypted file, which no message shows.

use super::column::LeafPath;
use crate::crypto::{Key, KeyRing};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::collections::HashMap;

/// The keys for files with Parquet's modular encryption: of the footer, of columns by their path, and the AAD prefix
/// where files do not hold it. AES keys have 16, 24 or 32 bytes. A key never appears in a message, and does not pickle.
///
/// >>> import parsieve as ps
/// >>> ps.FileKeys(footer_key=b"0123456789012345", column_keys={"a.b": b"1234567890123450"})
/// <parsieve.FileKeys: footer, a.b>
#[pyclass(frozen, module = "parsieve")]
pub(super) struct FileKeys {
    ring: KeyRing,
    names: Vec<String>,
}

impl FileKeys {
    pub(super) fn ring(&self) -> &KeyRing {
        &self.ring
    }
}

#[pymethods]
impl FileKeys {
    #[new]
    #[pyo3(signature = (footer_key=None, column_keys=None, aad_prefix=None))]
    fn new(
        footer_key: Option<PyBackedBytes>,
        column_keys: Option<HashMap<ColumnName, PyBackedBytes>>,
        aad_prefix: Option<PyBackedBytes>,
    ) -> PyResult<Self> {
        let (mut ring, mut names) = (KeyRing::new(), Vec::new());
        if let Some(key) = footer_key {
            ring = ring.with_footer_key(Key::new(&key)?);
        }
        for (ColumnName(name), key) in column_keys.unwrap_or_default() {
            ring = ring.with_column_key(&name, Key::new(&key)?);
            names.push(name);
        }
        if let Some(prefix) = aad_prefix {
            ring = ring.with_aad_prefix(&prefix);
        }
        names.sort_unstable();
        if ring.footer_key().is_ok() {
            names.insert(0, "footer".to_owned());
        }
        Ok(Self { ring, names })
    }

    fn __repr__(&self) -> String {
        let names = if self.names.is_empty() { "none".to_owned() } else { self.names.join(", ") };
        format!("<parsieve.FileKeys: {names}>")
    }
}

/// A column's names joined by dots.
#[derive(PartialEq, Eq, Hash)]
struct ColumnName(String);

impl<'py> FromPyObject<'_, 'py> for ColumnName {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(object.extract::<LeafPath>()?.names().join(".")))
    }
}
