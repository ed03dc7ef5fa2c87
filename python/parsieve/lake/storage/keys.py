"""The keys of a table's encrypted files: as the core takes them for footers and filters, as pyarrow does for rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parsieve import _core
from parsieve._core import DecryptionError, FileKeys, ParsieveError, UnsupportedError
from parsieve.filters.kms import Unwrapper, keys_of, material_of
from parsieve.io.ranges import RangeReader

FORMS = "FileKeys, a dict of footer_key, column_keys and aad_prefix, or (kms, connection)"


class TableKeys:
    """What `decryption=` says of a table: keys for all its files, or the service that unwraps those of each file."""

    def __init__(self, given: Any) -> None:
        self._bytes: Mapping[str, Any] | None = None
        self._keys: FileKeys | None = None
        self._unwrapper: Unwrapper | None = None
        # pyarrow's own look at the same service; it keeps what that unwrapped.
        self._factory: Any = None
        self._connection: Any = None
        if isinstance(given, FileKeys):
            self._keys = given
        elif isinstance(given, Mapping):
            self._keys = FileKeys(**given)
            self._bytes = dict(given)
        elif isinstance(given, tuple) and len(given) == 2:
            self._of_service(*given)
        elif hasattr(given, "unwrap_key"):
            self._of_service(given, None)
        else:
            raise TypeError(f"decryption is {FORMS}, not {type(given).__qualname__}")

    def __repr__(self) -> str:
        return "<the keys of a table>" if self._keys is None else repr(self._keys)

    def _of_service(self, kms: Any, connection: Any) -> None:
        encryption = _encryption()
        self._connection = encryption.KmsConnectionConfig() if connection is None else connection
        self._unwrapper = Unwrapper(kms, self._connection)
        self._factory = encryption.CryptoFactory(kms if callable(kms) else lambda _: kms)

    def of(self, source: Any) -> FileKeys:
        """The keys of one file; `DecryptionError` where the service gives none."""
        if self._keys is not None:
            return self._keys
        assert self._unwrapper is not None
        try:
            return keys_of(source, self._unwrapper)
        except (ParsieveError, OSError):
            raise
        except Exception as error:
            # Whatever a service of somebody else's raises.
            raise DecryptionError(f"the KMS gave no key: {type(error).__name__}: {error}") from error

    def for_rows(self, source: Any) -> Any:
        """As pyarrow takes them, None for a file that is open; `UnsupportedError` for keys that it refuses."""
        encryption = _encryption()
        if self._factory is not None:
            return self._factory.file_decryption_properties(self._connection)
        if self._bytes is None:
            raise UnsupportedError(
                "FileKeys tells nobody its keys, and pyarrow reads rows by their bytes: give decryption as a dict of "
                "footer_key and column_keys, or as (kms, connection)"
            )
        footer_key, columns = self._bytes.get("footer_key"), self._bytes.get("column_keys") or {}
        named = {name if isinstance(name, str) else ".".join(name): bytes(key) for name, key in columns.items()}
        wrapped = self._wrapped(source, named) if named else {}
        if wrapped is None:
            return None
        if wrapped:
            # Files of a KMS: pyarrow asks it for each key, and here it is told those that are known.
            factory = encryption.CryptoFactory(lambda _: _known(encryption.KmsClient, wrapped))
            return factory.file_decryption_properties(encryption.KmsConnectionConfig())
        if footer_key is None:
            raise DecryptionError("pyarrow reads no rows without footer_key, by which it checks the file")
        create = getattr(encryption, "create_decryption_properties", None)
        if create is None:
            raise UnsupportedError("keys by their bytes need a newer pyarrow; (kms, connection) works with this one")
        return create(bytes(footer_key), aad_prefix=self._bytes.get("aad_prefix"), allow_plaintext_files=True)

    def _wrapped(self, source: Any, named: Mapping[str, bytes]) -> dict[str, bytes] | None:
        """The keys by what the file calls them, where a KMS wrapped them, else none; None for an open file."""
        assert self._keys is not None
        assert self._bytes is not None
        reader = RangeReader(source)
        try:
            footer = _drive(reader, _core.FileReader.footer_key_metadata)
            file = _drive(reader, lambda size, fetched: _core.FileReader.open(size, fetched, self._keys))
        finally:
            reader.close()
        assert file is not None
        if not file.encrypted:
            return None
        told = [(path, material) for path, material in file.column_key_metadata()]
        if footer is not None and self._bytes.get("footer_key") is not None:
            told.append(([], footer))
        found: dict[str, bytes] = {}
        for path, material in told:
            fields = material_of(material)
            if fields is None:
                return {}
            key = named.get(".".join(path)) if path else bytes(self._bytes["footer_key"])
            if key is None:
                continue
            if fields.get("doubleWrapping") or fields.get("internalStorage") is False:
                raise UnsupportedError(
                    "pyarrow takes the keys of such a file from its KMS alone: give decryption=(kms, connection)"
                )
            found[str(fields.get("wrappedDEK"))] = key
        return found


def _drive(reader: RangeReader, step: Any) -> Any:
    fetched = _core.Fetched()
    while True:
        needed, answer = step(reader.size, fetched)
        if not needed:
            return answer
        reader.fetch(needed, fetched)


def _known(client: Any, wrapped: Mapping[str, bytes]) -> Any:
    """A KMS that holds some keys."""

    class Known(client):  # type: ignore[misc]
        def wrap_key(self, key: bytes, master_key_identifier: str) -> bytes:
            raise NotImplementedError

        def unwrap_key(self, wrapped_key: Any, master_key_identifier: str) -> bytes:
            name = wrapped_key if isinstance(wrapped_key, str) else bytes(wrapped_key).decode()
            if name not in wrapped:
                raise DecryptionError(f"decryption= has no key for what is encrypted by {master_key_identifier!r}")
            return wrapped[name]

    return Known()


def _encryption() -> Any:
    try:
        import pyarrow.parquet.encryption as encryption
    except ImportError as error:
        raise UnsupportedError(f"this pyarrow reads no encrypted files: {error}") from error
    return encryption
