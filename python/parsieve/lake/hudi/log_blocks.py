"""Read the blocks of a Hudi log: their headers, and the keys and ordering values of their records."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from parsieve._core import AvroColumns, FormatError, UnsupportedError
from parsieve.lake.rows.avro_codes import BYTES, COLUMN, FIXED, LIST, LONG, MAP, OPTION, RECORD
from parsieve.lake.storage.storage import Storage
from parsieve.sharing import cached_property

_MAGIC = b"#HUDI#"
_VERSION = 1
# The types of blocks with records, and the one whose records are in Avro's format.
_DATA_BLOCKS = {3, 4, 5}
_AVRO_BLOCK = 3
# The only version of the content of such a block.
_AVRO_CONTENT = 3
# The keys of a header.
_SCHEMA, _IS_PARTIAL = 2, 7
# The number of bytes in a read. They contain most headers.
_CHUNK = 1 << 16
# The meta column with the key of a record.
KEY = "_hoodie_record_key"
_FIXED_SIZES = {"boolean": 1, "float": 4, "double": 8}
_INTEGERS = ("int", "long")
# The layout of a schema may have this many numbers. Named types can multiply it.
_MAX_LAYOUT = 100_000


@dataclass(frozen=True)
class Keys:
    """The records of a block: their keys, and their values of the first ordering field if these are integers."""

    keys: pa.Array
    order: pa.Array | None


@dataclass(frozen=True)
class LogBlock:
    """A block of records."""

    storage: Storage
    path: str
    schema: dict[str, Any]
    # Whether the records have only the columns that an update changed.
    is_partial: bool
    is_avro: bool
    # The place of the content in the log.
    start: int
    size: int

    @cached_property
    def columns(self) -> frozenset[str]:
        """The names of the columns, with Hudi's meta columns."""
        return frozenset(str(field["name"]) for field in self.schema["fields"])

    def keys(self, ordering: str | None) -> Keys | None:
        """Return the keys of the records, or None if the block is not in Avro's format or has no keys."""
        if not self.is_avro or self.type_of(KEY) != "string":
            return None
        with self.storage.open(self.storage.join(self.path)) as file:
            file.seek(self.start)
            content = file.read(self.size)
        if len(content) != self.size or self.size < 8:
            raise FormatError(f"{self.path} has an incomplete block")
        version, count = struct.unpack_from(">iI", content)
        if version != _AVRO_CONTENT:
            raise UnsupportedError(f"{self.path} has a block of version {version}; only {_AVRO_CONTENT} is supported")
        kinds = {KEY: pa.string()}
        if ordering is not None and self.type_of(ordering) in _INTEGERS:
            kinds[ordering] = pa.int64()
        try:
            layout, names = _Layout(kinds).of(self.schema)
            columns = AvroColumns(layout)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise UnsupportedError(f"{self.path} has a schema that is not supported: {error!r}") from error
        columns.push(content[8:], count)
        found = dict(zip(names, columns.finish(), strict=True))
        return Keys(found[KEY], found.get(str(ordering)))

    def type_of(self, name: str) -> Any:
        """Return the name of a column's type in Avro, or None if there is not exactly one such column."""
        kinds = [field.get("type") for field in self.schema["fields"] if field["name"] == name]
        return _without_null(kinds[0]) if len(kinds) == 1 else None


def read_blocks(storage: Storage, path: str) -> Iterator[LogBlock]:
    """Yield the blocks of a log that contain records, in order. Skip incomplete blocks, as readers of Hudi do."""
    with storage.open(storage.join(path)) as file:
        source = _Source(file, path)
        at = 0
        while (at := source.find(_MAGIC, at)) >= 0:
            source.at = at + len(_MAGIC)
            if source.size - source.at < 8:
                return
            (length,) = source.unpack(">q")
            end = source.at + length
            # A complete block ends with its length, without the eight bytes of the length before it.
            if not 8 <= length <= source.size - source.at or source.number_at(end - 8) != end - at - 8:
                # A writer crashed here. Another block may follow.
                at += len(_MAGIC)
                continue
            yield from _read_block(storage, source, end)
            at = end


def _read_block(storage: Storage, source: _Source, end: int) -> Iterator[LogBlock]:
    version, kind, count = source.unpack(">iii")
    if version != _VERSION:
        raise UnsupportedError(f"{source.path} has version {version} of the log format; only {_VERSION} is supported")
    if kind not in _DATA_BLOCKS:
        return
    header = {}
    for _ in range(count):
        key, length = source.unpack(">ii")
        header[key] = source.take(length)
    (size,) = source.unpack(">q")
    if not 0 <= size <= end - source.at:
        raise FormatError(f"{source.path} has a block whose content ends after the block")
    try:
        schema = json.loads(header.get(_SCHEMA, b""))
        is_record = isinstance(schema["fields"], list)
        names = [field["name"] for field in schema["fields"]] if is_record else []
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"{source.path} has a block without a valid schema: {error!r}") from error
    if not is_record or not all(isinstance(name, str) for name in names):
        raise FormatError(f"{source.path} has a block whose schema is not a record")
    is_partial = header.get(_IS_PARTIAL, b"").lower() == b"true"
    yield LogBlock(storage, source.path, schema, is_partial, kind == _AVRO_BLOCK, source.at, size)


class _Source:
    """A log, read in chunks from a position on."""

    def __init__(self, file: Any, path: str) -> None:
        self._file, self.path = file, path
        self.size: int = file.seek(0, 2)
        self.at = 0
        self._chunk, self._start = b"", 0

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= count <= self.size - self.at:
            raise FormatError(f"{self.path} has a block whose header is damaged")
        if not self._start <= self.at <= self.at + count <= self._start + len(self._chunk):
            self._load(count)
        begin = self.at - self._start
        self.at += count
        return self._chunk[begin : begin + count]

    def number_at(self, at: int) -> int:
        """Return the number of eight bytes at a position. Keep the chunk, because its bytes are read next."""
        if self._start <= at <= self._start + len(self._chunk) - 8:
            return int.from_bytes(self._chunk[at - self._start : at - self._start + 8], "big", signed=True)
        self._file.seek(at)
        return int.from_bytes(self._file.read(8), "big", signed=True)

    def _load(self, count: int) -> None:
        self._file.seek(self.at)
        self._start, self._chunk = self.at, bytes(self._file.read(min(max(count, _CHUNK), self.size - self.at)))
        if len(self._chunk) < count:
            raise FormatError(f"{self.path} became shorter while it was read")

    def find(self, text: bytes, start: int) -> int:
        """Return the first position of a text from `start` on, or -1."""
        self.at = start
        while self.size - self.at >= len(text):
            before = self.at
            chunk = self.take(min(_CHUNK, self.size - self.at))
            if (found := chunk.find(text)) >= 0:
                return before + found
            self.at -= len(text) - 1
        return -1


class _Layout:
    """Describes the records of a block to the compiled decoder."""

    def __init__(self, kinds: dict[str, pa.DataType]) -> None:
        self._kinds = kinds
        self._names: list[str] = []
        self._defined: dict[str, list[int]] = {}

    def of(self, schema: dict[str, Any]) -> tuple[list[int], list[str]]:
        """Return the layout of records that follow their length, and the names of the columns in order."""
        fields: list[int] = []
        namespace = str(schema.get("namespace", ""))
        for field in schema["fields"]:
            if field["name"] in self._kinds:
                self._names.append(field["name"])
                fields.append(COLUMN[self._kinds[field["name"]]])
            fields += self._of(field["type"], namespace)
        return [RECORD, 2, FIXED, 4, RECORD, len(schema["fields"]), *fields], self._names

    def _of(self, kind: Any, namespace: str) -> list[int]:
        match kind:
            case ["null", inner]:
                codes = [OPTION, *self._of(inner, namespace)]
            case {"type": "record", "fields": list(fields), **rest}:
                namespace = str(rest.get("namespace", namespace))
                inner = [code for field in fields for code in self._of(field["type"], namespace)]
                codes = self._define(rest, namespace, [RECORD, len(fields), *inner])
            case {"type": "fixed", "size": int(size), **rest}:
                codes = self._define(rest, str(rest.get("namespace", namespace)), [FIXED, size])
            case {"type": "enum", **rest}:
                codes = self._define(rest, str(rest.get("namespace", namespace)), [LONG])
            case {"type": "array", "items": items}:
                codes = [LIST, *self._of(items, namespace)]
            case {"type": "map", "values": values}:
                codes = [MAP, BYTES, *self._of(values, namespace)]
            case {"type": inner}:
                codes = self._of(inner, namespace)
            case "boolean" | "float" | "double":
                codes = [FIXED, _FIXED_SIZES[kind]]
            case "int" | "long":
                codes = [LONG]
            case "bytes" | "string":
                codes = [BYTES]
            case str():
                defined = self._defined.get(f"{namespace}.{kind}", self._defined.get(kind))
                if defined is None:
                    raise UnsupportedError(f"a log of Hudi has a field of the unknown type {kind}")
                codes = defined
            case _:
                raise UnsupportedError(f"a log of Hudi has a field of type {kind}, which is not supported")
        if len(codes) > _MAX_LAYOUT:
            raise UnsupportedError("the schema of a log of Hudi is too large")
        return codes

    def _define(self, named: Mapping[Any, Any], namespace: str, codes: list[int]) -> list[int]:
        name = str(named.get("name", ""))
        self._defined[name if "." in name or not namespace else f"{namespace}.{name}"] = codes
        return codes


def _without_null(kind: Any) -> Any:
    """Return the name of a type, without null and its logical type."""
    match kind:
        case ["null", inner]:
            return _without_null(inner)
        case {"type": inner}:
            return inner
    return kind
