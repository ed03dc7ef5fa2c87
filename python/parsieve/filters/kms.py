"""Unwrap the keys of encrypted files with a key management service (KMS), like pyarrow and parquet-java.

The metadata of a file has "key material" for each key. The key is wrapped either by a master key of the KMS, or by a
key encryption key that the master key wraps ("double wrapping"). Only the KMS can unwrap with a master key; with a key
encryption key, this module unwraps itself.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

from parsieve import _core
from parsieve.filters.open import run
from parsieve.io.ranges import RangeReader
from parsieve.sharing import Lock

MATERIAL_TYPE = "PKMT1"
AES_LENGTHS = (16, 24, 32)
# The most keys to remember. Each takes about 1 KiB with its key material.
MOST_KEYS = 50_000
# How long a refusal of the KMS counts for the other files whose columns have the same master key.
REFUSED_SECONDS = 5.0


def keys_of(
    source: Any,
    kms: Any,
    connection: Any = None,
    aad_prefix: bytes | None = None,
    refused: Callable[[tuple[str, ...], Exception], None] | None = None,
) -> _core.FileKeys:
    """Unwrap the keys of a file; the public name is `ps.FileKeys.from_kms`.

    Args:
        source: The file, as for `open_filters`.
        kms: A `KmsClient` of `pyarrow.parquet.encryption`, another object with the method `unwrap_key`, a function that
            returns one for a `KmsConnectionConfig` (as for pyarrow's `CryptoFactory`), or an `Unwrapper` to share
            between files.
        connection: The `KmsConnectionConfig` for such a function.
        aad_prefix: The AAD prefix, if the file does not store it.
        refused: Called with the path of each column whose key the KMS does not unwrap, and the error. Without it, the
            error is raised.
    """
    unwrapper = kms if isinstance(kms, Unwrapper) else Unwrapper(kms, connection)
    reader = RangeReader(source)
    try:
        fetched = _core.Fetched()
        material = run(reader, lambda fetched: _core.FileReader.footer_key_metadata(reader.size, fetched), fetched)
        footer_key = None if material is None else unwrapper.key(material, "the footer")
        keys = _core.FileKeys(footer_key, None, aad_prefix)
        file = run(reader, lambda fetched: _core.FileReader.open(reader.size, fetched, keys), fetched)
    finally:
        unwrapper.count(reader)
        reader.close()
    assert file is not None
    columns: dict[str | list[str] | tuple[str, ...], bytes] = {}
    for path, material in file.column_key_metadata():
        try:
            owner = f"column {'.'.join(path)!r}"
            columns[tuple(path)] = unwrapper.key(material, owner, ask_again=refused is None)
        except Exception as error:
            if refused is None:
                raise
            refused(tuple(path), error)
    return _core.FileKeys(footer_key, columns, aad_prefix)


class Unwrapper:
    """Unwraps keys and remembers them, so that the KMS unwraps each key only once."""

    def __init__(self, kms: Any, connection: Any = None) -> None:
        if not hasattr(kms, "unwrap_key"):
            if not callable(kms):
                raise TypeError(
                    f"kms must be an object with unwrap_key, or a function that returns one, not {type(kms).__name__}"
                )
            kms = kms(connection)
        self._kms = kms
        self._keys: dict[bytes, bytes] = {}
        # Key encryption keys, by their id and their wrapped form.
        self._encryption_keys: dict[tuple[str, str], bytes] = {}
        # When and why the KMS last refused a master key.
        self._refusals: dict[str, tuple[float, Exception]] = {}
        self._lock = Lock()
        # The requests made and the bytes read for the key material of files.
        self.cost = (0, 0)

    def count(self, reader: RangeReader) -> None:
        """Add what a reader has read for key material."""
        with self._lock:
            requests, num_bytes = self.cost
            self.cost = (requests + reader.requests, num_bytes + reader.bytes_fetched)

    def key(self, material: bytes, owner: str, *, ask_again: bool = True) -> bytes:
        """Unwrap the key in `material`; `owner` names the footer or column in error messages.

        Without `ask_again`, raise the last error of the KMS again if it has just refused the same master key.
        """
        key = self._keys.get(material)
        if key is None:
            fields = _fields(material, owner)
            if not ask_again:
                self._raise_last_refusal(fields.get("masterKeyID"))
            key = self._unwrap(fields, owner)
            if len(self._keys) >= MOST_KEYS:
                # Every file has its own keys, so the keys of a large table would fill the memory.
                self._keys.clear()
            self._keys[material] = key
        return key

    def _raise_last_refusal(self, master: Any) -> None:
        refusal = self._refusals.get(master) if isinstance(master, str) else None
        if refusal is not None and time.monotonic() - refusal[0] < REFUSED_SECONDS:
            raise refusal[1].with_traceback(None)

    def _unwrap(self, fields: dict[str, Any], owner: str) -> bytes:
        master, wrapped = _text(fields, "masterKeyID", owner), _text(fields, "wrappedDEK", owner)
        if not fields.get("doubleWrapping"):
            return self._unwrap_with_kms(wrapped, master, owner)
        known = _text(fields, "keyEncryptionKeyID", owner), _text(fields, "wrappedKEK", owner)
        # Another thread may forget the key meanwhile.
        encryption_key = self._encryption_keys.get(known)
        if encryption_key is None:
            encryption_key = self._encryption_keys[known] = self._unwrap_with_kms(known[1], master, owner)
        try:
            key_id, sealed = base64.b64decode(known[0]), base64.b64decode(wrapped)
        except ValueError:
            raise _core.FormatError(f"the key material of {owner} is not valid base64") from None
        try:
            return _core.unwrap_key(encryption_key, sealed, key_id)
        except _core.DecryptionError:
            # Ask the KMS again next time.
            self._encryption_keys.pop(known, None)
            raise _core.DecryptionError(
                f"the key of {owner} is not wrapped with the key that the KMS returned for {master!r}"
            ) from None

    def _unwrap_with_kms(self, wrapped: str, master: str, owner: str) -> bytes:
        try:
            # pyarrow passes text too.
            key = checked_key(self._kms.unwrap_key(wrapped, master), master)
        except Exception as error:
            self._refusals[master] = time.monotonic(), error
            raise
        if len(key) not in AES_LENGTHS:
            raise _core.DecryptionError(
                f"the KMS returned a key of {len(key)} bytes for {master!r}, the master key of {owner}; "
                "AES keys have 16, 24 or 32 bytes"
            )
        return key


def checked_key(key: Any, master: str) -> bytes:
    """Return the result of a KMS client as bytes; raise `TypeError` if it is no key."""
    if not isinstance(key, (bytes, bytearray, str)):
        raise TypeError(f"unwrap_key of the KMS must return bytes for {master!r}, not {type(key).__name__}")
    return key.encode("latin-1") if isinstance(key, str) else bytes(key)


def material_of(metadata: bytes) -> dict[str, Any] | None:
    """Return the fields of a KMS's key material, or None if the key metadata is something else."""
    try:
        fields = json.loads(metadata)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and fields.get("keyMaterialType") == MATERIAL_TYPE else None


def _fields(material: bytes, owner: str) -> dict[str, Any]:
    """Return the fields of key material; raise an error if this version cannot use it."""
    fields = material_of(material)
    if fields is None:
        raise _core.UnsupportedError(
            f"the metadata has no key material of a KMS for {owner}; pass the keys themselves, with ps.FileKeys(...)"
        )
    if fields.get("internalStorage") is False:
        raise _core.UnsupportedError(
            f"the key material of {owner} is in a separate file, which this version does not read; pass the keys "
            "themselves, with ps.FileKeys(...)"
        )
    return fields


def _text(fields: dict[str, Any], name: str, owner: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _core.FormatError(f"the key material of {owner} has no {name}")
    return value
