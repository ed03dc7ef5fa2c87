"""Small documents that say what they are: `parsieve-index KIND VERSION SHA-256-OF-THE-REST`, a line feed, then JSON.

The JSON is UTF-8, compressed with zlib. Every value is read with its type, so that a document which another program
wrote is refused with the name of the field, and nothing is allocated by a length that it claims.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from typing import Any, TypeVar

from parsieve._core import FormatError, UnsupportedError

VERSION = 1
# Bindings of ten million locations are far below.
MOST_BYTES = 4 << 30

T = TypeVar("T")


def write(kind: str, content: dict[str, Any]) -> bytes:
    """The bytes of a document; the same content makes the same bytes."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    body = zlib.compress(text.encode(), 6)
    return f"parsieve-index {kind} {VERSION} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def read(kind: str, data: bytes, name: str) -> Fields:
    """The content of a document of this kind. `name` is said in errors."""
    head, found, body = data.partition(b"\n")
    words = head.split(b" ") if len(head) < 200 else []
    if not found or len(words) != 4 or words[0] != b"parsieve-index" or words[1] != kind.encode():
        raise FormatError(f"{name} is no {kind} of an index of parsieve")
    if words[2] != str(VERSION).encode():
        raise UnsupportedError(
            f"{name} is a {kind} of version {words[2].decode('ascii', 'replace')}, and this parsieve reads version "
            f"{VERSION}; use a newer parsieve"
        )
    if words[3] != hashlib.sha256(body).hexdigest().encode():
        raise FormatError(f"the checksum of {name} does not match its bytes")
    try:
        unpack = zlib.decompressobj()
        text = unpack.decompress(body, MOST_BYTES)
        if not unpack.eof or unpack.unused_data:
            raise FormatError(f"{name} does not end where its content ends")
        content = json.loads(text)
    except (zlib.error, ValueError, RecursionError) as error:
        raise FormatError(f"{name} cannot be read: {error}") from error
    return Fields(content, name)


class Fields:
    """The fields of an object of a document, each read as the type that it must have."""

    def __init__(self, content: Any, name: str) -> None:
        if not isinstance(content, dict):
            raise FormatError(f"{name} holds a {type(content).__name__} where an object belongs")
        self._content = content
        self._name = name

    def get(self, field: str, kind: type[T]) -> T:
        """A field of a type; a number is never a truth value."""
        value = self._content.get(field)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise FormatError(f"{self._name}: {field!r} is a {type(value).__name__}, not a {kind.__name__}")
        return value

    def maybe(self, field: str, kind: type[T]) -> T | None:
        """A field of a type, or null."""
        return None if self._content.get(field) is None else self.get(field, kind)

    def name_of(self, field: str) -> int | str | None:
        """A snapshot's name: a number, a text or null."""
        value = self._content.get(field)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, str))):
            raise FormatError(f"{self._name}: {field!r} is a {type(value).__name__}, not a name")
        return value

    def objects(self, field: str) -> list[Fields]:
        """A list of objects."""
        return [Fields(one, f"{self._name}: {field}") for one in self.get(field, list)]

    def inner(self, field: str) -> Fields:
        """An object in this one."""
        return Fields(self._content.get(field), f"{self._name}: {field}")

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of texts."""
        found = self.get(field, list)
        if not all(isinstance(one, str) for one in found):
            raise FormatError(f"{self._name}: {field!r} is no list of texts")
        return tuple(found)

    def rows(self, field: str, *kinds: type) -> list[list[Any]]:
        """A list of lists with values of these types."""
        found = self.get(field, list)
        for row in found:
            if not isinstance(row, list) or len(row) != len(kinds):
                raise FormatError(f"{self._name}: {field!r} holds a row of another form")
            for value, kind in zip(row, kinds, strict=True):
                if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                    raise FormatError(f"{self._name}: {field!r} holds a {type(value).__name__}, not a {kind.__name__}")
        return found
