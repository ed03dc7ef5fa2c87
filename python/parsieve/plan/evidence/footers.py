"""Footers of many files: read at once, kept between plans by the files' tokens, and brought to the table's types."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from parsieve._core import Fetched, FileKeys, FileReader, ParsieveError
from parsieve.io.ranges import RangeReader
from parsieve.lake.base import Lake, Slice
from parsieve.plan.cost.experience import Experience
from parsieve.plan.cost.medium import medium_of, read_all
from parsieve.plan.evidence.file_columns import FileLeaves, LeafKey, WantedLeaf
from parsieve.plan.evidence.minmax import ColumnBounds
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.expr import Column
from parsieve.predicate.literals import NANOS

# Row groups times columns that are remembered, each some 200 bytes.
REMEMBERED = 500_000

# Why the footer of a file is not evidence.
REPLACED = "the file was replaced while the plan was made; plan again to judge it"

# Lower, upper, nulls, NaNs, values.
_Raw = tuple[Any, Any, int | None, int | None, int | None]


@dataclass(slots=True)
class ChunkStatistics:
    """One column of a file: how its values are stored, and what is certain of them in each row group."""

    stored: str | None
    groups: list[_Raw]
    # The leaf's path in the file; None where the file does not have the column for certain.
    path: tuple[str, ...] | None
    has_filter: bool


@dataclass(slots=True)
class FileFooter:
    """What a plan needs of a file's footer: its columns by the names that they have for this plan."""

    num_rows: list[int]
    columns: dict[tuple[str, ...], ChunkStatistics]
    # The version of the file, if other files may take its name.
    version: str = ""


@dataclass(slots=True)
class _Known:
    """What is remembered of a file's footer, whatever a column is called by then."""

    num_rows: list[int]
    columns: dict[LeafKey, ChunkStatistics]
    version: str

    def of(self, keys: dict[tuple[str, ...], LeafKey]) -> FileFooter | None:
        """The columns of a plan; `None` where one of them was not looked at."""
        if any(key not in self.columns for key in keys.values()):
            return None
        columns = {path: self.columns[key] for path, key in keys.items()}
        return FileFooter(self.num_rows, columns, self.version)


@dataclass(slots=True)
class Cost:
    """What was read for a plan."""

    bytes_fetched: int = 0
    requests: int = 0
    files: int = 0
    # Kept files whose footers and filters were not worth reading.
    not_opened: int = 0


class Footers:
    """The footers of one table's files. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[Any, str], _Known] = OrderedDict()
        self._held = 0
        self.experience = Experience()

    def num_missing(self, pieces: Sequence[Slice], columns: Sequence[Column], schema: pa.Schema) -> int:
        """Count the slices whose footers would have to be read for some columns."""
        if not self._known:
            return len(pieces)
        leaves = [WantedLeaf(schema, column) for column in columns]
        keys = {leaf.column.path: leaf.key for leaf in leaves}
        return sum(self._find(piece, keys) is None for piece in pieces)

    def read(
        self,
        pieces: Sequence[Slice],
        columns: Sequence[Column],
        schema: pa.Schema,
        lake: Lake,
        cost: Cost,
    ) -> list[FileFooter | str]:
        """The footer of each slice's base file, or why there is none."""
        found: dict[int, FileFooter | str] = {}
        missing: list[int] = []
        leaves = [WantedLeaf(schema, column) for column in columns]
        keys = {leaf.column.path: leaf.key for leaf in leaves}
        for number, piece in enumerate(pieces):
            known = self._find(piece, keys)
            if known is None:
                missing.append(number)
            else:
                found[number] = known

        def fetch(number: int) -> tuple[FileFooter | str, int, int]:
            return self._fetch(pieces[number], leaves, lake)

        if missing:
            fetched = read_all(fetch, missing, medium_of(lake, pieces[missing[0]]))
            for number, (footer, size, requests) in zip(missing, fetched, strict=True):
                found[number] = footer
                cost.bytes_fetched += size
                cost.requests += requests
                cost.files += 1
        return [found[number] for number in range(len(pieces))]

    def _find(self, piece: Slice, keys: dict[tuple[str, ...], LeafKey]) -> FileFooter | None:
        if not piece.token:
            return None
        with self._lock:
            known = self._known.get((piece.location, piece.token))
            footer = None if known is None else known.of(keys)
            if footer is not None:
                self._known.move_to_end((piece.location, piece.token))
            return footer

    def _fetch(self, piece: Slice, leaves: Sequence[WantedLeaf], lake: Lake) -> tuple[FileFooter | str, int, int]:
        try:
            keys = lake.file_keys(piece)
            reader = RangeReader(lake.open_base(piece))
        except (ParsieveError, OSError, ValueError) as error:
            return f"its footer cannot be read: {error}", 0, 0
        try:
            footer = _footer(open_footer(reader, keys), leaves)
            reader.check_unchanged()
        except (ParsieveError, OSError) as error:
            # Whoever reads the file will meet the same error; here it excludes nothing.
            return f"its footer cannot be read: {error}", reader.bytes_fetched, reader.requests
        finally:
            reader.close()
        if lake.format == "parquet":
            footer.version = reader.version
            # Evidence of two versions together could exclude both, although either of them has a match.
            if piece.token and not f"{piece.token}-".startswith(footer.version):
                return REPLACED, reader.bytes_fetched, reader.requests
        columns = {leaf.key: footer.columns[leaf.column.path] for leaf in leaves}
        self._remember(piece, _Known(footer.num_rows, columns, footer.version))
        return footer, reader.bytes_fetched, reader.requests

    def _remember(self, piece: Slice, learned: _Known) -> None:
        if not piece.token:
            return
        key = (piece.location, piece.token)
        with self._lock:
            known = self._known.pop(key, None)
            if known is not None:
                self._held -= _weight(known)
                learned.columns = {**known.columns, **learned.columns}
            self._known[key] = learned
            self._held += _weight(learned)
            while self._held > REMEMBERED and len(self._known) > 1:
                _, dropped = self._known.popitem(last=False)
                self._held -= _weight(dropped)


def _weight(footer: _Known) -> int:
    return 1 + len(footer.num_rows) * len(footer.columns)


def open_footer(reader: RangeReader, keys: FileKeys | None = None) -> FileReader:
    """Drives the core's reading of a footer."""
    fetched = Fetched()
    while True:
        needed, opened = FileReader.open(reader.size, fetched, keys)
        if opened is not None:
            return opened
        reader.fetch(needed, fetched)


def _footer(file: FileReader, wanted: Sequence[WantedLeaf]) -> FileFooter:
    footer = FileFooter(file.num_rows, {})
    with_filter = {column for _, column, _, _ in file.ranges()}
    leaves, stored = FileLeaves(file), file.bound_types
    for leaf in wanted:
        number = leaves.find(leaf)
        if number is None:
            footer.columns[leaf.column.path] = ChunkStatistics(None, [], None, False)
        else:
            footer.columns[leaf.column.path] = ChunkStatistics(
                stored[number], file.statistics(number), leaves.paths[number], number in with_filter
            )
    return footer


def bounds_of(column: Column, footers: Sequence[tuple[FileFooter | None, int]]) -> ColumnBounds:
    """What footers say of a column, for pairs of a footer and a row group's number; without a footer, nothing."""
    nothing: _Raw = (None, None, None, None, None)
    by_type: dict[str, list[int]] = {}
    fits = [False] * len(footers)
    raw: list[_Raw] = []
    for unit, (footer, group) in enumerate(footers):
        known = footer.columns.get(column.path) if footer is not None else None
        if known is None or not known.groups:
            raw.append(nothing)
            continue
        raw.append(known.groups[group])
        if known.stored is not None:
            by_type.setdefault(known.stored, []).append(unit)
    kind = pa.large_binary() if is_text(column.value_type) or is_bytes(column.value_type) else column.value_type
    lower: list[Any] = [None] * len(raw)
    upper: list[Any] = [None] * len(raw)
    for stored, units in by_type.items():
        fully = holds_no_other(stored, column.value_type)
        for side, into in ((0, lower), (1, upper)):
            values = _typed([raw[unit][side] for unit in units], stored, kind)
            if not fully:
                values = [value if _is_value(value, column.value_type) else None for value in values]
            for unit, value in zip(units, values, strict=True):
                into[unit] = value
        for unit in units:
            # A bound that was brought to the type is in its range, and so is what lies between.
            bounded = lower[unit] is not None and upper[unit] is not None
            fits[unit] = bounded if fully is None else fully
    sides = []
    for low, high in zip(lower, upper, strict=True):
        # One bound that does not fit the table's type makes the other one doubtful too.
        sides.append((low, high) if low is not None and high is not None else (None, None))
    counts = [pa.array([one[place] for one in raw], pa.int64()) for place in (2, 3, 4)]
    return ColumnBounds(
        _assemble([low for low, _ in sides], kind),
        _assemble([high for _, high in sides], kind),
        counts[0],
        counts[2],
        counts[1],
        pa.array(fits, pa.bool_()),
    )


def _is_value(value: Any, kind: pa.DataType) -> bool:
    """Whether a bound of a file that may hold another type is a value of the table's type, where that is bytewise."""
    if pa.types.is_fixed_size_binary(kind):
        return value is not None and len(value) == kind.byte_width
    return not is_text(kind)


def holds_no_other(stored: str, kind: pa.DataType) -> bool | None:
    """Whether a column of a file has values of the table's type alone; None if that is a matter of their range."""
    held, found = file_type(stored), _MEANING.fullmatch(stored)
    is_bytewise = is_text(kind) or is_bytes(kind)
    if held is None or found is None or not _same_meaning(stored, held, pa.large_binary() if is_bytewise else kind):
        return False
    types, physical = pa.types, found["physical"]
    if types.is_floating(held):
        return bool(kind.bit_width >= {"FLOAT": 32, "DOUBLE": 64}.get(physical, 16))
    if types.is_integer(held):
        same = types.is_signed_integer(held) == types.is_signed_integer(kind)
        return True if same and kind.bit_width >= int(physical.removeprefix("INT")) else None
    if types.is_decimal(held):
        return None if held.scale <= kind.scale else False
    if types.is_timestamp(held) or types.is_time(held):
        return True if held.unit == kind.unit else None if NANOS[held.unit] > NANOS[kind.unit] else False
    if types.is_fixed_size_binary(kind):
        return physical == f"FIXED_LEN_BYTE_ARRAY({kind.byte_width})"
    if is_text(kind):
        # The 16 bytes of a UUID are not its text.
        return physical == "BYTE_ARRAY"
    return True


def _assemble(scalars: list[Any], kind: pa.DataType) -> pa.Array:
    """Storage values, or None, as an array of a type."""
    storage = _storage(kind)
    return pa.array(scalars, storage).view(kind) if storage != kind else pa.array(scalars, kind)


def _storage(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def _typed(values: list[Any], stored: str, kind: pa.DataType) -> list[Any]:
    """Values as the file holds them, as storage values of the table's type; None for what does not fit exactly."""
    held = file_type(stored)
    if held is None or not _same_meaning(stored, held, kind):
        return [None] * len(values)
    if pa.types.is_decimal(held):
        values = [None if value is None else _decimal(value, held.scale) for value in values]
    elif pa.types.is_boolean(held):
        values = [None if value is None else bool(value) for value in values]
    found = _assemble(values, held)
    if found.type != kind:
        found = _cast(found, kind)
    storage = _storage(kind)
    as_stored: list[Any] = (found.view(storage) if storage != kind else found).to_pylist()
    return as_stored


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return values.cast(kind, safe=True)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_one(values.slice(at, 1), kind) for at in range(len(values))])


def _cast_one(value: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return value.cast(kind, safe=True)
    except pa.ArrowInvalid:
        return pa.nulls(1, kind)


def _decimal(unscaled: int, scale: int) -> Decimal:
    sign, digits = int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((sign, digits, -scale))


_MEANING = re.compile(r"(?P<physical>\S+) (?P<name>[a-z]+)(\[(?P<argument>.+)\])?")


def file_type(stored: str) -> pa.DataType | None:
    """The Arrow type for a column's physical type and meaning, as wide as any of that meaning."""
    found = _MEANING.fullmatch(stored)
    if found is None:
        return None
    argument = found["argument"]
    match found["name"]:
        case "boolean":
            return pa.bool_()
        case "integer":
            return pa.int64()
        case "unsigned":
            return pa.uint64()
        case "real":
            return pa.float64() if found["physical"] == "DOUBLE" else pa.float32()
        case "decimal":
            return pa.decimal128(38, int(argument))
        case "date":
            return pa.date32()
        case "time":
            return pa.time32(argument) if argument in ("s", "ms") else pa.time64(argument)
        case "timestamp":
            return pa.timestamp(argument)
        case "instant":
            return pa.timestamp(argument, "UTC")
        case "bytes":
            return pa.large_binary()
    return None


def _same_meaning(stored: str, held: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a table's column of a type is the file's with wider values at most."""
    types = pa.types
    if types.is_integer(held):
        return bool(types.is_integer(kind))
    if types.is_floating(held):
        return bool(types.is_floating(kind)) and (kind.bit_width >= held.bit_width or "FIXED" in stored)
    if types.is_decimal(held):
        return bool(types.is_decimal(kind))
    if types.is_timestamp(held):
        return bool(types.is_timestamp(kind)) and (held.tz is None) == (kind.tz is None)
    return any(
        test(held) and test(kind) for test in (types.is_boolean, types.is_date, types.is_time, types.is_large_binary)
    )
