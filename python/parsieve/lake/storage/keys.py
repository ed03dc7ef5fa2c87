"""Provide the keys of encrypted files, both to the core for footers and filters, and to pyarrow for rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from parsieve import _core
from parsieve._core import DecryptionError, FileKeys, ParsieveError, UnsupportedError
from parsieve.filters.kms import Unwrapper, checked_key, keys_of, material_of
from parsieve.io.ranges import RangeReader, open_footer, run_step

FORMS = "FileKeys, a dict of footer_key, column_keys and aad_prefix, or (kms, connection)"


class TableKeys:
    """The value of `decryption=`: keys for all files of a table, or a KMS that unwraps the keys of each file."""

    def __init__(self, given: Any) -> None:
        self._bytes: Mapping[str, Any] | None = None
        self._keys: FileKeys | None = None
        self._unwrapper: Unwrapper | None = None
        # pyarrow's client of the same KMS. It caches unwrapped keys.
        self._factory: Any = None
        self._connection: Any = None
        # Why the KMS last unwrapped no key of a column, by the column's path in a file.
        self.refusals: dict[tuple[str, ...], str] = {}
        if isinstance(given, FileKeys):
            self._keys = given
        elif isinstance(given, Mapping):
            self._keys = FileKeys(**given)
            self._bytes = dict(given)
        elif isinstance(given, tuple) and len(given) == 2:
            self._connect(*given)
        elif hasattr(given, "unwrap_key"):
            self._connect(given, None)
        else:
            raise TypeError(f"decryption must be {FORMS}, not {type(given).__qualname__}")

    def __repr__(self) -> str:
        return "<the keys of a table>" if self._keys is None else repr(self._keys)

    def _connect(self, kms: Any, connection: Any) -> None:
        encryption = _encryption()
        self._connection = encryption.KmsConnectionConfig() if connection is None else connection
        self._unwrapper = Unwrapper(kms, self._connection)
        make = kms if callable(kms) else lambda _: kms
        self._factory = encryption.CryptoFactory(lambda config: _reporting_kms(encryption.KmsClient, make(config)))

    def of(self, source: Any) -> FileKeys:
        """Return the keys of one file. Raise `DecryptionError` if the KMS does not unwrap the key of its footer.

        A user may lack the right to some columns. Their keys are missing, and `refusals` has the reasons.
        """
        if self._keys is not None:
            return self._keys
        assert self._unwrapper is not None
        with _reported():
            return keys_of(source, self._unwrapper, refused=self._refuse)

    @property
    def cost(self) -> tuple[int, int]:
        """The requests made and the bytes read so far to find the keys of files."""
        return (0, 0) if self._unwrapper is None else self._unwrapper.cost

    def _refuse(self, path: tuple[str, ...], error: Exception) -> None:
        self.refusals[path] = f"{type(error).__name__}: {error}"

    def for_rows(self, source: Any) -> Any:
        """Return the keys of one file for pyarrow, or None for an unencrypted file.

        Raise `UnsupportedError` for keys that pyarrow does not support.
        """
        encryption = _encryption()
        if self._factory is not None:
            return self._factory.file_decryption_properties(self._connection)
        if self._bytes is None:
            raise UnsupportedError(
                "pyarrow needs the bytes of the keys to read rows, and FileKeys hides them; pass decryption as a dict "
                "with footer_key and column_keys, or as (kms, connection)"
            )
        footer_key, columns = self._bytes.get("footer_key"), self._bytes.get("column_keys") or {}
        column_keys = {name if isinstance(name, str) else ".".join(name): bytes(key) for name, key in columns.items()}
        wrapped = self._wrapped_keys(source, column_keys) if column_keys else {}
        if wrapped is None:
            return None
        if wrapped:
            # A KMS encrypted these files, and pyarrow asks a KMS to unwrap each key. Answer with the keys of the user.
            factory = encryption.CryptoFactory(lambda _: _make_kms(encryption.KmsClient, wrapped))
            return factory.file_decryption_properties(encryption.KmsConnectionConfig())
        if footer_key is None:
            raise DecryptionError("decryption has no footer_key; pyarrow needs it to verify files before it reads rows")
        create = getattr(encryption, "create_decryption_properties", None)
        if create is None:
            raise UnsupportedError(
                "this version of pyarrow does not accept keys as bytes; upgrade pyarrow, "
                "or pass decryption=(kms, connection)"
            )
        return create(bytes(footer_key), aad_prefix=self._bytes.get("aad_prefix"), allow_plaintext_files=True)

    def _wrapped_keys(self, source: Any, column_keys: Mapping[str, bytes]) -> dict[str, bytes] | None:
        """Return the keys by their wrapped form in the file. Return None for an unencrypted file.

        The result is empty if no KMS wrapped the keys of the file.
        """
        assert self._keys is not None
        assert self._bytes is not None
        reader = RangeReader(source)
        try:
            footer = run_step(reader, lambda fetched: _core.FileReader.footer_key_metadata(reader.size, fetched))
            file = open_footer(reader, self._keys)
        except DecryptionError as error:
            name = "a file" if reader.name is None else reader.name
            hint = "check footer_key, column_keys and aad_prefix of decryption="
            raise DecryptionError(f"{name}: a key is missing or wrong; {hint} ({error})") from None
        finally:
            reader.close()
        if not file.encrypted:
            return None
        materials = [(path, material) for path, material in file.column_key_metadata()]
        if footer is not None and self._bytes.get("footer_key") is not None:
            materials.append(([], footer))
        keys: dict[str, bytes] = {}
        for path, material in materials:
            fields = material_of(material)
            if fields is None:
                return {}
            key = column_keys.get(".".join(path)) if path else bytes(self._bytes["footer_key"])
            if key is None:
                continue
            if fields.get("doubleWrapping") or fields.get("internalStorage") is False:
                raise UnsupportedError(
                    "the keys of this file are wrapped twice or stored outside the file, so pyarrow can only get them "
                    "from the KMS; pass decryption=(kms, connection)"
                )
            keys[str(fields.get("wrappedDEK"))] = key
        return keys


@contextmanager
def _reported() -> Iterator[None]:
    """Map the exceptions of a user's KMS client, which may be of any type, to `DecryptionError`."""
    try:
        yield
    except (ParsieveError, OSError):
        raise
    except Exception as error:
        raise DecryptionError(f"the KMS returned no key: {type(error).__name__}: {error}") from error


def _reporting_kms(client: Any, kms: Any) -> Any:
    """Return a KMS client that raises `DecryptionError` if the client `kms` fails."""

    class ReportingKms(client):  # type: ignore[misc]
        def wrap_key(self, key: bytes, master_key_identifier: str) -> Any:
            return kms.wrap_key(key, master_key_identifier)

        def unwrap_key(self, wrapped_key: Any, master_key_identifier: str) -> Any:
            with _reported():
                return checked_key(kms.unwrap_key(wrapped_key, master_key_identifier), master_key_identifier)

    return ReportingKms()


def _make_kms(client: Any, wrapped: Mapping[str, bytes]) -> Any:
    """Return a KMS client that unwraps some keys without a server."""

    class LocalKms(client):  # type: ignore[misc]
        def wrap_key(self, key: bytes, master_key_identifier: str) -> bytes:
            raise NotImplementedError

        def unwrap_key(self, wrapped_key: Any, master_key_identifier: str) -> bytes:
            name = wrapped_key if isinstance(wrapped_key, str) else bytes(wrapped_key).decode()
            if name not in wrapped:
                raise DecryptionError(
                    f"decryption has no key for data that is encrypted with the master key {master_key_identifier!r}"
                )
            return wrapped[name]

    return LocalKms()


def _encryption() -> Any:
    try:
        import pyarrow.parquet.encryption as encryption
    except ImportError as error:
        raise UnsupportedError(f"this build of pyarrow cannot read encrypted files: {error}") from error
    return encryption
