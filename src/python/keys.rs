//! `FileKeys`: the keys of encrypted files. Keys never appear in messages.

use super::column::LeafPath;
use crate::crypto::{Key, KeyRing, open};
use pyo3::exceptions::PyValueError as ValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::collections::HashMap;

/// The keys for files with Parquet modular encryption.
///
/// `footer_key` decrypts the footer, `column_keys` maps column paths to keys, and `aad_prefix` is required for files
/// that do not store it. AES keys have 16, 24 or 32 bytes. Keys never appear in messages and cannot be pickled.
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

    /// Return the keys of a file whose keys are wrapped by a key management service (KMS).
    ///
    /// `kms` is a `KmsClient` of `pyarrow.parquet.encryption`, or a function that creates one from a
    /// `KmsConnectionConfig`, as for a `CryptoFactory`.
    ///
    /// Any object with the method `unwrap_key` works. It gets the wrapped key as text, as it does from pyarrow. Each
    /// key is requested only once.
    ///
    /// >>> import io, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    /// >>> class Kms:
    /// ...     def unwrap_key(self, wrapped_key, master_key_identifier):
    /// ...         raise PermissionError("a file without encryption needs no keys")
    /// >>> file = io.BytesIO()
    /// >>> pq.write_table(pa.table({"id": [1]}), file)
    /// >>> ps.FileKeys.from_kms(file, Kms())
    /// <parsieve.FileKeys: none>
    #[staticmethod]
    #[pyo3(signature = (source, kms, connection=None, *, aad_prefix=None))]
    fn from_kms<'py>(
        py: Python<'py>,
        source: &Bound<'py, PyAny>,
        kms: &Bound<'py, PyAny>,
        connection: Option<&Bound<'py, PyAny>>,
        aad_prefix: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        py.import("parsieve.filters.kms")?.getattr("keys_of")?.call1((source, kms, connection, aad_prefix))
    }

    fn __repr__(&self) -> String {
        let names = if self.names.is_empty() { "none".to_owned() } else { self.names.join(", ") };
        format!("<parsieve.FileKeys: {names}>")
    }
}

/// Decrypt a wrapped key. `wrapped` is a nonce, a ciphertext and a tag, without the length of a module.
#[pyfunction]
pub(super) fn unwrap_key<'py>(
    py: Python<'py>,
    key: PyBackedBytes,
    wrapped: PyBackedBytes,
    aad: PyBackedBytes,
) -> PyResult<Bound<'py, PyBytes>> {
    let Ok(len) = u32::try_from(wrapped.len()) else { return Err(ValueError::new_err("the wrapped key is too long")) };
    let module = [&len.to_le_bytes(), &wrapped[..]].concat();
    Ok(PyBytes::new(py, &open(&Key::new(&key)?, &aad, &module)?))
}

/// The names of a column's path, joined by dots.
#[derive(PartialEq, Eq, Hash)]
struct ColumnName(String);

impl<'py> FromPyObject<'_, 'py> for ColumnName {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(object.extract::<LeafPath>()?.names().join(".")))
    }
}
