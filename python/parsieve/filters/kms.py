"""Keys that a key management service wrapped: the material that pyarrow and parquet-java store in a file's metadata.

Each key of a file is wrapped by a master key of the service, or by a key of its own which the master key wraps ("double
wrapping"). The service alone unwraps with master keys; the second step happens here.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from parsieve import _core
from parsieve.filters.open import FileFilters
from parsieve.io.sources import RangeReader

MATERIAL_TYPE = "PKMT1"


def keys_of(source: Any, kms: Any, connection: Any = None, aad_prefix: bytes | None = None) -> _core.FileKeys:
    """The keys of a file whose metadata hold them wrapped; `ps.FileKeys.from_kms` is the name for callers.

    Args:
        source: what `open_filters` takes.
        kms: a `KmsClient` of `pyarrow.parquet.encryption`, or any object with its `unwrap_key`; or a function that
            makes one of a `KmsConnectionConfig`, as for pyarrow's `CryptoFactory`; or an `Unwrapper` of many files.
        connection: the `KmsConnectionConfig` for such a function.
        aad_prefix: where the file does not hold it.
    """
    unwrapper = kms if isinstance(kms, Unwrapper) else Unwrapper(kms, connection)
    reader = RangeReader(source)
    try:
        fetched = _core.Fetched()
        while True:
            needed, footer_material = _core.FileReader.footer_key_metadata(reader.size, fetched)
            if not needed:
                break
            reader.fetch(needed, fetched)
    finally:
        reader.close()
    footer_key = None if footer_material is None else unwrapper.key(footer_material, "the footer")
    known = _core.FileKeys(footer_key, None, aad_prefix)
    with FileFilters(source, known) as file:
        columns: dict[str | list[str] | tuple[str, ...], bytes] = {
            tuple(path): unwrapper.key(material, f"column {'.'.join(path)!r}")
            for path, material in file._file.column_key_metadata()
        }
    return _core.FileKeys(footer_key, columns, aad_prefix)


class Unwrapper:
    """Unwraps each key once, for all columns that it encrypts."""

    def __init__(self, kms: Any, connection: Any = None) -> None:
        if not hasattr(kms, "unwrap_key"):
            if not callable(kms):
                raise TypeError(f"a KMS has unwrap_key, or is a function that makes one, not {type(kms).__name__}")
            kms = kms(connection)
        self._kms = kms
        self._known: dict[bytes, bytes] = {}
        # Keys that wrap other keys, by what the material calls them.
        self._wrapping: dict[tuple[str, str], bytes] = {}

    def key(self, material: bytes, whose: str) -> bytes:
        """The key that a file's metadata hold for something."""
        if material not in self._known:
            self._known[material] = self._unwrap(_fields(material, whose), whose)
        return self._known[material]

    def _unwrap(self, fields: dict[str, Any], whose: str) -> bytes:
        master, wrapped = _text(fields, "masterKeyID", whose), _text(fields, "wrappedDEK", whose)
        if not fields.get("doubleWrapping"):
            return self._ask(wrapped, master)
        wrapping = _text(fields, "keyEncryptionKeyID", whose), _text(fields, "wrappedKEK", whose)
        if wrapping not in self._wrapping:
            self._wrapping[wrapping] = self._ask(wrapping[1], master)
        try:
            name, sealed = base64.b64decode(wrapping[0]), base64.b64decode(wrapped)
        except binascii.Error:
            raise _core.FormatError(f"the key material of {whose} is not valid base64") from None
        return _core.unwrap_key(self._wrapping[wrapping], sealed, name)

    def _ask(self, wrapped: str, master: str) -> bytes:
        key = self._kms.unwrap_key(wrapped.encode(), master)
        if not isinstance(key, (bytes, bytearray, str)):
            raise TypeError(f"the KMS gave no key for {master!r}, but a {type(key).__name__}")
        return key.encode("latin-1") if isinstance(key, str) else bytes(key)


def material_of(metadata: bytes) -> dict[str, Any] | None:
    """What a file holds of a key as the fields of a KMS's material; None where it is something else."""
    try:
        fields = json.loads(metadata)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and fields.get("keyMaterialType") == MATERIAL_TYPE else None


def _fields(material: bytes, whose: str) -> dict[str, Any]:
    """Key material, checked as far as it is used."""
    fields = material_of(material)
    if fields is None:
        raise _core.UnsupportedError(
            f"the key of {whose} is not stored as material of a KMS; give the keys themselves, by ps.FileKeys(...)"
        )
    if fields.get("internalStorage") is False:
        raise _core.UnsupportedError(
            f"the key material of {whose} lies in a file of its own, which this version does not read; give the keys "
            "themselves, by ps.FileKeys(...)"
        )
    return fields


def _text(fields: dict[str, Any], name: str, whose: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _core.FormatError(f"the key material of {whose} has no {name}")
    return value
