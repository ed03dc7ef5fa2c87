"""Read the footers of many files in parallel, cache them by the files' tokens, and cast them to the table's types."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from parsieve._core import FileReader, ParsieveError, Rewriter
from parsieve.errors import ConflictError
from parsieve.io.ranges import RangeReader, open_footer
from parsieve.lake.base import Lake, Slice
from parsieve.plan.cost.experience import Experience
from parsieve.plan.cost.medium import medium_of, read_all
from parsieve.plan.evidence.file_columns import FileLeaves, LeafKey, WantedLeaf
from parsieve.plan.evidence.minmax import ColumnBounds
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.expr import Column
from parsieve.predicate.times.temporal import NANOS
from parsieve.sharing import Lock

# The size of the cache, in row groups times columns. Each takes about 200 bytes.
REMEMBERED = 500_000

# The doubt about a file whose footer belongs to another version.
REPLACED = "the file was replaced while the plan was made; plan again to judge it"

# Lower, upper, nulls, NaNs, values.
_Raw = tuple[Any, Any, int | None, int | None, int | None]


@dataclass(slots=True)
class ChunkStatistics:
    """The statistics of one column of a file in each row group, as stored."""

    # The physical type and the meaning of the values, such as "INT64 timestamp[us]"; None if unknown.
    stored: str | None
    groups: list[_Raw]
    # The column's path in the file; None if the column is missing or ambiguous.
    path: tuple[str, ...] | None
    has_filter: bool
    # Whether the file certainly lacks the column.
    is_absent: bool = False
    # Whether the statistics are encrypted, and no key decrypts or verifies them.
    is_hidden: bool = False


@dataclass(slots=True)
class FileFooter:
    """The part of a file's footer that a plan needs, with columns by their current paths in the table."""

    num_rows: list[int]
    columns: dict[tuple[str, ...], ChunkStatistics]
    # The version of the file, if another file may replace it under its name.
    version: str = ""


@dataclass(slots=True)
class _Cached:
    """A cached footer. Its columns are found even after the table renames them."""

    num_rows: list[int]
    columns: dict[LeafKey, ChunkStatistics]
    version: str

    def of(self, keys: dict[tuple[str, ...], LeafKey]) -> FileFooter | None:
        """Return the footer with a plan's columns, or None if one of them was not read."""
        if any(key not in self.columns for key in keys.values()):
            return None
        columns = {path: self.columns[key] for path, key in keys.items()}
        return FileFooter(self.num_rows, columns, self.version)


@dataclass(slots=True)
class Cost:
    """What planning read."""

    bytes_fetched: int = 0
    requests: int = 0
    files: int = 0
    # Kept files whose footers and filters were not worth reading.
    not_opened: int = 0


class Footers:
    """A cache of the footers of one table's files. Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cached: OrderedDict[tuple[Any, str], _Cached] = OrderedDict()
        self._weight = 0
        self.experience = Experience()

    def num_missing(self, pieces: Sequence[Slice], columns: Sequence[Column], schema: pa.Schema) -> int:
        """Count the slices whose footers would have to be read for some columns."""
        if not self._cached:
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
        """Return the footer of each slice's base file, or why it is unavailable."""
        footers: dict[int, FileFooter | str] = {}
        missing: list[int] = []
        leaves = [WantedLeaf(schema, column) for column in columns]
        keys = {leaf.column.path: leaf.key for leaf in leaves}
        for number, piece in enumerate(pieces):
            cached = self._find(piece, keys)
            if cached is None:
                missing.append(number)
            else:
                footers[number] = cached

        def fetch(number: int) -> tuple[FileFooter | str, int, int]:
            return self._fetch(pieces[number], leaves, lake)

        if missing:
            fetched = read_all(fetch, missing, medium_of(lake, pieces[missing[0]]))
            for number, (footer, size, requests) in zip(missing, fetched, strict=True):
                footers[number] = footer
                cost.bytes_fetched += size
                cost.requests += requests
                cost.files += 1
        return [footers[number] for number in range(len(pieces))]

    def _find(self, piece: Slice, keys: dict[tuple[str, ...], LeafKey]) -> FileFooter | None:
        if not piece.token:
            return None
        with self._lock:
            cached = self._cached.get((piece.location, piece.token))
            footer = None if cached is None else cached.of(keys)
            if footer is not None:
                self._cached.move_to_end((piece.location, piece.token))
            return footer

    def _fetch(self, piece: Slice, leaves: Sequence[WantedLeaf], lake: Lake) -> tuple[FileFooter | str, int, int]:
        try:
            keys = lake.file_keys(piece)
            reader = RangeReader(lake.open_listed(piece))
        except ConflictError:
            return REPLACED, 0, 0
        except (ParsieveError, OSError, ValueError) as error:
            return f"its footer cannot be read: {error}", 0, 0
        try:
            footer = _footer(open_footer(reader, keys), leaves)
            reader.check_unchanged()
        except ConflictError:
            return REPLACED, reader.bytes_fetched, reader.requests
        except (ParsieveError, OSError) as error:
            # Reading the file will raise the same error; in a plan it only excludes nothing.
            return f"its footer cannot be read: {error}", reader.bytes_fetched, reader.requests
        finally:
            reader.close()
        if lake.files_may_be_replaced:
            footer.version = reader.version
            # Combined evidence of two versions could exclude the file although each version has a match.
            if piece.token and not f"{piece.token}-".startswith(footer.version):
                return REPLACED, reader.bytes_fetched, reader.requests
        columns = {leaf.key: footer.columns[leaf.column.path] for leaf in leaves}
        # A KMS that was not available may return the key next time.
        may_open_later = lake.keys is not None and bool(lake.keys.refusals)
        if not (may_open_later and any(chunk.is_hidden for chunk in columns.values())):
            self._remember(piece, _Cached(footer.num_rows, columns, footer.version))
        return footer, reader.bytes_fetched, reader.requests

    def _remember(self, piece: Slice, footer: _Cached) -> None:
        if not piece.token:
            return
        key = (piece.location, piece.token)
        with self._lock:
            before = self._cached.pop(key, None)
            if before is not None:
                self._weight -= _weight(before)
                footer.columns = {**before.columns, **footer.columns}
            self._cached[key] = footer
            self._weight += _weight(footer)
            while self._weight > REMEMBERED and len(self._cached) > 1:
                _, dropped = self._cached.popitem(last=False)
                self._weight -= _weight(dropped)


def _weight(footer: _Cached) -> int:
    return 1 + len(footer.num_rows) * len(footer.columns)


def _footer(file: FileReader, wanted: Sequence[WantedLeaf]) -> FileFooter:
    footer = FileFooter(file.num_rows, {})
    with_filter = {column for _, column, _, _ in file.ranges()}
    leaves, stored = FileLeaves(file), file.bound_types
    for leaf in wanted:
        number = leaves.find(leaf)
        if number is None:
            footer.columns[leaf.column.path] = ChunkStatistics(None, [], None, False, leaves.lacks(leaf))
        else:
            groups = file.statistics(number)
            is_hidden = file.encrypted and _is_hidden(file, number, groups)
            footer.columns[leaf.column.path] = ChunkStatistics(
                stored[number], groups, leaves.paths[number], number in with_filter, is_hidden=is_hidden
            )
    return footer


def _is_hidden(file: FileReader, column: int, groups: Sequence[_Raw]) -> bool:
    """Return whether the statistics of a column in an encrypted file cannot be decrypted or verified."""
    rewriter = Rewriter(file)
    # The number of values is missing if the footer was not verified. If it was, the column may have a key of its own.
    return any(
        values is None or (lower is None and nulls is None and not rewriter.is_open(group, column))
        for group, (lower, _, nulls, _, values) in enumerate(groups)
    )


def all_null(num_rows: Sequence[int]) -> ChunkStatistics:
    """Return the statistics of a column that has only nulls."""
    return ChunkStatistics(None, [(None, None, rows, 0, rows) for rows in num_rows], None, False)


def bounds_of(column: Column, footers: Sequence[tuple[FileFooter | None, int]]) -> ColumnBounds:
    """Return the bounds of a column in row groups, given as pairs of a footer and a row group's number.

    A row group without a footer has no bounds.
    """
    unknown: _Raw = (None, None, None, None, None)
    by_type: dict[str, list[int]] = {}
    fits = [False] * len(footers)
    raw: list[_Raw] = []
    for unit, (footer, group) in enumerate(footers):
        chunks = footer.columns.get(column.path) if footer is not None else None
        if chunks is None or not chunks.groups:
            raw.append(unknown)
            continue
        raw.append(chunks.groups[group])
        if chunks.stored is not None:
            by_type.setdefault(chunks.stored, []).append(unit)
    kind = pa.large_binary() if is_text(column.value_type) or is_bytes(column.value_type) else column.value_type
    lower: list[Any] = [None] * len(raw)
    upper: list[Any] = [None] * len(raw)
    for stored, units in by_type.items():
        same_type = stores_only(stored, column.value_type)
        for side, bounds in ((0, lower), (1, upper)):
            values = _typed([raw[unit][side] for unit in units], stored, kind)
            if not same_type:
                values = [value if _is_value(value, column.value_type) else None for value in values]
            for unit, value in zip(units, values, strict=True):
                bounds[unit] = value
        for unit in units:
            # If both bounds could be cast to the column's type, so can every value between them.
            is_bounded = lower[unit] is not None and upper[unit] is not None
            fits[unit] = is_bounded if same_type is None else same_type
    sides = []
    for low, high in zip(lower, upper, strict=True):
        # If one bound does not fit the table's type, do not trust the other.
        sides.append((low, high) if low is not None and high is not None else (None, None))
    if column.is_repeated:
        # Writers count the nulls of lists differently, and a missing element is no null of the column.
        raw = [(low, high, None, nans, None) for low, high, _, nans, _ in raw]
    counts = [pa.array([chunk[position] for chunk in raw], pa.int64()) for position in (2, 3, 4)]
    return ColumnBounds(
        pa.array([low for low, _ in sides], kind),
        pa.array([high for _, high in sides], kind),
        counts[0],
        counts[2],
        counts[1],
        pa.array(fits, pa.bool_()),
    )


def _is_value(value: Any, kind: pa.DataType) -> bool:
    """Return whether a stored bound is a value of the table's type, if that type is compared by bytes."""
    if pa.types.is_fixed_size_binary(kind):
        return value is not None and len(value) == kind.byte_width
    return not is_text(kind)


def stores_only(stored: str, kind: pa.DataType) -> bool | None:
    """Return whether a stored column has only values of the table's type; None if that depends on their range."""
    file, meaning = file_type(stored), _MEANING.fullmatch(stored)
    is_bytewise = is_text(kind) or is_bytes(kind)
    if file is None or meaning is None or not _same_meaning(stored, file, pa.large_binary() if is_bytewise else kind):
        return False
    types, physical = pa.types, meaning["physical"]
    if types.is_floating(file):
        return bool(kind.bit_width >= {"FLOAT": 32, "DOUBLE": 64}.get(physical, 16))
    if types.is_integer(file):
        same_sign = types.is_signed_integer(file) == types.is_signed_integer(kind)
        return True if same_sign and kind.bit_width >= int(physical.removeprefix("INT")) else None
    if types.is_decimal(file):
        return None if file.scale <= kind.scale else False
    if types.is_timestamp(file) or types.is_time(file):
        return True if file.unit == kind.unit else None if NANOS[file.unit] > NANOS[kind.unit] else False
    if types.is_fixed_size_binary(kind):
        return physical == f"FIXED_LEN_BYTE_ARRAY({kind.byte_width})"
    if is_text(kind):
        # A UUID of 16 bytes is not text.
        return physical == "BYTE_ARRAY"
    return True


def _storage(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind


def _typed(values: list[Any], stored: str, kind: pa.DataType) -> list[Any]:
    """Cast stored values to storage values of the table's type. Values that do not fit exactly become None."""
    file = file_type(stored)
    if file is None or not _same_meaning(stored, file, kind):
        return [None] * len(values)
    if pa.types.is_decimal(file):
        # 16 bytes can also hold numbers of 39 digits, which are no values of the column.
        limit = 10**file.precision
        values = [None if value is None or abs(value) >= limit else _decimal(value, file.scale) for value in values]
    elif pa.types.is_boolean(file):
        values = [None if value is None else bool(value) for value in values]
    array = pa.array(values, file)
    if array.type != kind:
        array = _cast(array, kind)
    storage = _storage(kind)
    as_stored: list[Any] = (array.view(storage) if storage != kind else array).to_pylist()
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
    """Return the widest Arrow type for the meaning of a stored column, or None if the meaning is unknown."""
    meaning = _MEANING.fullmatch(stored)
    if meaning is None:
        return None
    argument = meaning["argument"]
    match meaning["name"]:
        case "boolean":
            return pa.bool_()
        case "integer":
            return pa.int64()
        case "unsigned":
            return pa.uint64()
        case "real":
            return pa.float64() if meaning["physical"] == "DOUBLE" else pa.float32()
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


def _same_meaning(stored: str, file: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether the table's type has the meaning of the stored column, with the same or wider values."""
    types = pa.types
    if types.is_integer(file):
        return bool(types.is_integer(kind))
    if types.is_floating(file):
        return bool(types.is_floating(kind)) and (kind.bit_width >= file.bit_width or "FIXED" in stored)
    if types.is_decimal(file):
        return bool(types.is_decimal(kind))
    if types.is_timestamp(file):
        return bool(types.is_timestamp(kind)) and (file.tz is None) == (kind.tz is None)
    return any(
        test(file) and test(kind) for test in (types.is_boolean, types.is_date, types.is_time, types.is_large_binary)
    )
