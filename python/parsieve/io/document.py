"""Read and write the JSON documents of an index.

A document starts with the line `parsieve-index KIND VERSION SHA-256-OF-THE-REST`. The rest is UTF-8 JSON, compressed
with zlib. `Fields` checks the type of each value, so a malformed document raises an error that names the field. No
length inside a document decides how much memory is allocated.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any, TypeVar

from parsieve._core import FormatError, UnsupportedError

# The newest version of the index format. A document has the lowest version whose readers understand it.
VERSION = 2
# The limit for decompressed JSON. The bindings of ten million locations are much smaller.
MAX_BYTES = 4 << 30

T = TypeVar("T")


def write(kind: str, content: dict[str, Any], version: int = 1) -> bytes:
    """Encode a document. The same content always yields the same bytes."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    body = zlib.compress(text.encode(), 6)
    return f"parsieve-index {kind} {version} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def read(kind: str, data: bytes, name: str, newest: int = 1) -> Fields:
    """Decode a document of this kind, up to the version `newest` of its format. Errors mention `name`."""
    text, version = unpack(kind, data, name, newest)
    return parse(text, name, version)


def parse(text: bytes, name: str, version: int) -> Fields:
    """Return the fields in the JSON of a document."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name} cannot be read: {error}") from error
    return Fields(content, name, version)


def unpack(kind: str, data: bytes, name: str, newest: int = 1) -> tuple[bytes, int]:
    """Return the JSON of a document and its format version, after checking its kind and its checksum."""
    head, newline, body = data.partition(b"\n")
    words = head.split(b" ") if len(head) < 200 else []
    if not newline or len(words) != 4 or words[0] != b"parsieve-index" or words[1] != kind.encode():
        raise FormatError(f"{name} is not a {kind} of a parsieve index")
    versions = {str(version).encode(): version for version in range(1, newest + 1)}
    if words[2] not in versions:
        version = words[2].decode("ascii", "replace")
        readable = "version 1" if newest == 1 else f"versions 1 to {newest}"
        raise UnsupportedError(
            f"{name} is a {kind} in format version {version}, but this parsieve reads {readable}; use a newer parsieve"
        )
    if words[3] != hashlib.sha256(body).hexdigest().encode():
        raise FormatError(f"the checksum of {name} does not match its bytes")
    try:
        decompressor = zlib.decompressobj()
        text = decompressor.decompress(body, MAX_BYTES)
    except zlib.error as error:
        raise FormatError(f"{name} cannot be read: {error}") from error
    if not decompressor.eof or decompressor.unused_data:
        raise FormatError(f"{name} has data after the end of its content, or ends too early")
    return text, versions[words[2]]


class Fields:
    """The fields of a JSON object. Each method checks the type of the field."""

    def __init__(self, content: Any, name: str, version: int = 1) -> None:
        # The format version of the document, for its outermost object.
        self.version = version
        if not isinstance(content, dict):
            raise FormatError(f"{name} is a {type(content).__name__}, not an object")
        self._content = content
        self._name = name

    def get(self, field: str, kind: type[T]) -> T:
        """Return a field of this type. A boolean does not count as a number."""
        value = self._content.get(field)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise FormatError(f"{self._name}: {field!r} is a {type(value).__name__}, not a {kind.__name__}")
        return value

    def has(self, field: str) -> bool:
        """Return whether a field exists and is not null."""
        return self._content.get(field) is not None

    def maybe(self, field: str, kind: type[T]) -> T | None:
        """Return a field of this type, or None if it is null."""
        return None if self._content.get(field) is None else self.get(field, kind)

    def name_of(self, field: str) -> int | str | None:
        """Return the id of a snapshot: a number, a string or null."""
        value = self._content.get(field)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, str))):
            raise FormatError(f"{self._name}: {field!r} is a {type(value).__name__}, not a number, string or null")
        return value

    def objects(self, field: str) -> list[Fields]:
        """Return a list of objects."""
        return [Fields(item, f"{self._name}: {field}") for item in self.get(field, list)]

    def inner(self, field: str) -> Fields:
        """Return a nested object."""
        return Fields(self._content.get(field), f"{self._name}: {field}")

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a list of strings."""
        texts = self.get(field, list)
        if not all(isinstance(text, str) for text in texts):
            raise FormatError(f"{self._name}: {field!r} is not a list of strings")
        return tuple(texts)

    def integers(self, field: str) -> tuple[int, ...]:
        """Return a list of integers. Booleans do not count as integers."""
        numbers = self.get(field, list)
        if not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
            raise FormatError(f"{self._name}: {field!r} is not a list of integers")
        return tuple(numbers)

    def rows(self, field: str, *kinds: type) -> list[list[Any]]:
        """Return a list of rows, each with values of these types."""
        rows = self.get(field, list)
        for row in rows:
            if not isinstance(row, list) or len(row) != len(kinds):
                raise FormatError(f"{self._name}: {field!r} contains a row that does not have {len(kinds)} values")
            for value, kind in zip(row, kinds, strict=True):
                if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                    raise FormatError(
                        f"{self._name}: {field!r} contains a {type(value).__name__}, not a {kind.__name__}"
                    )
        return rows
