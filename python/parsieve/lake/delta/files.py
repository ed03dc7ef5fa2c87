"""Collect the data files in Delta's log as columns, both from checkpoints and from the actions of commits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import hash_column

_TEXT = pa.string()
_VALUES = pa.map_(_TEXT, _TEXT)
_VECTOR = pa.struct(
    {"storageType": _TEXT, "pathOrInlineDv": _TEXT, "offset": pa.int64(), "sizeInBytes": pa.int64()}
    | {"cardinality": pa.int64()}
)
_VECTOR_NAMES = [field.name for field in _VECTOR]
# The fewest files in an array of statistics, if there are several arrays.
_ROWS = 1 << 13
# The most bytes of statistics that are moved in one array.
_MAX_BYTES = 1 << 30
# Identifies a file with its deletion vector: the path, and the vector's ID if there is a vector.
Key = str


@dataclass(frozen=True, slots=True, eq=False)
class LogFiles:
    """Data files from `add` actions. Each column has an entry for each file."""

    # The path below the table's folder, or an address.
    path: pa.StringArray
    # The texts of the partition values, by the columns' physical names.
    partition_values: pa.MapArray
    size: pa.Int64Array
    # Milliseconds since 1970.
    modified: pa.Int64Array
    # Statistics as JSON. They may be too large for one Arrow array.
    stats: pa.ChunkedArray
    # Deletion vectors, null for files without one.
    vector: pa.StructArray

    def __len__(self) -> int:
        return len(self.path)

    @classmethod
    def of_adds(cls, adds: pa.StructArray) -> LogFiles | None:
        """Return the files in the column `add` of a checkpoint, or None if it has none."""
        numbers = pc.indices_nonzero(adds.is_valid())
        count = len(numbers)
        if not count:
            return None
        first, last = numbers[0].as_py(), numbers[-1].as_py()
        if last - first + 1 == count:
            adds, numbers = adds.slice(first, count), None
        names = [field.name for field in adds.type]

        def column(name: str) -> pa.Array:
            values = adds.field(names.index(name))
            return values if numbers is None else values.take(numbers)

        path, stats = column("path").cast(_TEXT), pa.nulls(count, _TEXT)
        if "stats" in names:
            stats = column("stats").cast(_TEXT)
            stats.validate(full=True)
        path.validate(full=True)
        vector = _vectors(column("deletionVector")) if "deletionVector" in names else pa.nulls(count, _VECTOR)
        return cls(
            path=_unquoted(path),
            partition_values=_maps(column("partitionValues")),
            size=_numbers(column("size")),
            modified=_numbers(column("modificationTime")),
            stats=pa.chunked_array([stats]),
            vector=vector,
        )

    @classmethod
    def of_lines(cls, columns: Sequence[pa.Array]) -> LogFiles:
        """Return the files in the columns of `delta_adds`."""
        path, partition_values, size, modified, stats, vector = columns
        return cls(_unquoted(path), _maps(partition_values), size, modified, pa.chunked_array([stats]), vector)

    @classmethod
    def of_actions(cls, adds: Sequence[Mapping[str, Any]]) -> LogFiles:
        """Return the files in `add` actions."""
        return cls(
            path=pa.array([unquoted(add["path"]) for add in adds], _TEXT),
            partition_values=pa.array([list((add["partitionValues"] or {}).items()) for add in adds], _VALUES),
            size=pa.array([int(add["size"]) for add in adds], pa.int64()),
            modified=pa.array([int(add["modificationTime"]) for add in adds], pa.int64()),
            stats=_chunked([add.get("stats") for add in adds]),
            vector=pa.array([_vector(add.get("deletionVector")) for add in adds], _VECTOR),
        )

    @staticmethod
    def concatenated(parts: Sequence[LogFiles]) -> LogFiles:
        """Return the files of all parts."""
        parts = [part for part in parts if len(part)] or list(parts[:1])
        if len(parts) == 1:
            return parts[0]
        return LogFiles(
            path=pa.concat_arrays([part.path for part in parts]),
            partition_values=pa.concat_arrays([part.partition_values for part in parts]),
            size=pa.concat_arrays([part.size for part in parts]),
            modified=pa.concat_arrays([part.modified for part in parts]),
            stats=pa.chunked_array(_coalesced([chunk for part in parts for chunk in part.stats.chunks]), _TEXT),
            vector=pa.concat_arrays([part.vector for part in parts]),
        )

    def take(self, numbers: pa.Array) -> LogFiles:
        """Return the files at some positions."""
        return LogFiles(
            path=self.path.take(numbers),
            partition_values=self.partition_values.take(numbers),
            size=self.size.take(numbers),
            modified=self.modified.take(numbers),
            stats=_taken(self.stats, numbers),
            vector=self.vector.take(numbers),
        )

    @property
    def clean(self) -> pa.BooleanArray:
        """Whether each file has no deletion vector."""
        return self.vector.is_null()

    @property
    def vector_ids(self) -> pa.StringArray:
        """A text for each file that identifies its deletion vector, or "" if it has none."""
        if self.vector.null_count == len(self):
            return pa.repeat(pa.scalar("", _TEXT), len(self))
        kind, place, offset = (
            pc.struct_field(self.vector, name) for name in ("storageType", "pathOrInlineDv", "offset")
        )
        at = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(_TEXT), ""), "")
        return pc.fill_null(pc.binary_join_element_wise(kind, place, at, ""), "")

    def without(self, removed: Mapping[Key, int]) -> LogFiles:
        """Return the files without the removed ones. `removed` has the number of files in front of each removal."""
        if not removed:
            return self
        paths = pa.array({key.partition("\0")[0] for key in removed}, _TEXT)
        suspects = pc.indices_nonzero(pc.is_in(self.path, value_set=paths))
        names = zip(suspects.to_pylist(), self.take(suspects)._keys(), strict=True)
        return self._except([number for number, key in names if number < removed.get(key, 0)])

    def without_duplicates(self) -> LogFiles:
        """Return the files without repeated keys. The last file with each key stays."""
        # If all hashes differ, so do all paths.
        hashes = hash_column(self.path)
        hashes = hashes.take(pc.sort_indices(hashes))
        if not pc.any(pc.equal(hashes[1:], hashes[:-1])).as_py():
            return self
        last: dict[Key, int] = {}
        replaced = []
        for number, key in enumerate(self._keys()):
            if key in last:
                replaced.append(last[key])
            last[key] = number
        return self._except(replaced)

    def _keys(self) -> list[Key]:
        pairs = zip(self.path.to_pylist(), self.vector_ids.to_pylist(), self.clean.to_pylist(), strict=True)
        return [path if is_clean else f"{path}\0{vector}" for path, vector, is_clean in pairs]

    def _except(self, excluded: Sequence[int]) -> LogFiles:
        if not excluded:
            return self
        numbers = pc.indices_nonzero(pa.repeat(pa.scalar(True), len(self)))
        return self.take(numbers.filter(pc.invert(pc.is_in(numbers, value_set=pa.array(excluded, numbers.type)))))

    def texts(self, column: str) -> pa.StringArray:
        """Return the text of a column's value in each file, null if there is none."""
        if not len(self.partition_values.items):
            return pa.nulls(len(self), _TEXT)
        return pc.map_lookup(self.partition_values, pa.scalar(column, _TEXT), "last")


def key_of(path: str, vector: Mapping[str, Any] | None) -> Key:
    """Return the text that identifies a file with its deletion vector in the log."""
    if vector is None:
        return path
    offset = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{path}\0{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def _vector(vector: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if vector is None:
        return None
    required = {name: vector[name] for name in ("storageType", "pathOrInlineDv")}
    return required | {name: vector.get(name) for name in ("offset", "sizeInBytes", "cardinality")}


def unquoted(path: str) -> str:
    """Return a path in the log without its percent escapes."""
    return unquote(path) if "%" in path else path


def _coalesced(chunks: Sequence[pa.Array]) -> list[pa.Array]:
    """Return the same entries in fewer arrays. Each refresh of a table adds a small array."""
    groups: list[list[pa.Array]] = []
    for chunk in chunks:
        if groups and sum(map(len, groups[-1])) + len(chunk) <= _ROWS:
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
    return [pa.concat_arrays(group) if len(group) > 1 else group[0] for group in groups]


def _taken(column: pa.ChunkedArray, numbers: pa.Array) -> pa.ChunkedArray:
    """Return the entries at some positions. Arrow's `take` would first copy all chunks into one."""
    if column.num_chunks < 2:
        return column.take(numbers)
    ends = list(accumulate(len(chunk) for chunk in column.chunks))
    blocks = [_block(column, ends, numbers.slice(start, _ROWS)) for start in range(0, len(numbers), _ROWS)]
    return pa.chunked_array(list(chain.from_iterable(blocks)), _TEXT)


def _block(column: pa.ChunkedArray, ends: Sequence[int], numbers: pa.Array) -> list[pa.Array]:
    """Return the entries at some positions in one array, or in several if they are too large for one."""
    positions: dict[int, list[int]] = {}
    places: dict[int, list[int]] = {}
    for place, number in enumerate(numbers.to_pylist()):
        chunk = bisect_right(ends, number)
        positions.setdefault(chunk, []).append(number - ends[chunk] + len(column.chunk(chunk)))
        places.setdefault(chunk, []).append(place)
    parts = [column.chunk(chunk).take(pa.array(at, pa.int64())) for chunk, at in positions.items()]
    if sum(part.nbytes for part in parts) > _MAX_BYTES and len(numbers) > 1:
        half = len(numbers) // 2
        return [*_block(column, ends, numbers.slice(0, half)), *_block(column, ends, numbers.slice(half))]
    order = pa.array(chain.from_iterable(places.values()), pa.int64())
    return [pa.concat_arrays(parts).take(pc.sort_indices(order))]


def _chunked(texts: Sequence[Any]) -> pa.ChunkedArray:
    """Return statistics as a column, with null for texts that are not valid Unicode."""
    try:
        column = pa.array(texts, _TEXT)
    except (pa.ArrowException, UnicodeError):
        column = pa.array([text if _is_unicode(text) else None for text in texts], _TEXT)
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _is_unicode(text: Any) -> bool:
    try:
        return isinstance(text, str) and text.encode() is not None
    except UnicodeError:
        return False


def _unquoted(paths: pa.StringArray) -> pa.StringArray:
    quoted = pc.match_substring(paths, "%")
    if not pc.any(quoted).as_py():
        return paths
    return pc.replace_with_mask(paths, quoted, pa.array(map(unquoted, paths.filter(quoted).to_pylist()), _TEXT))


def _numbers(values: pa.Array) -> pa.Int64Array:
    if values.null_count:
        raise ValueError("a file without a size or a time")
    return values.cast(pa.int64())


def _maps(values: pa.Array) -> pa.MapArray:
    return values if values.type.equals(_VALUES) else values.cast(_VALUES)


def _vectors(values: pa.Array) -> pa.StructArray:
    if values.null_count == len(values):
        return pa.nulls(len(values), _VECTOR)
    names = [field.name for field in values.type]
    children = [
        pc.struct_field(values, name).cast(_VECTOR.field(name).type)
        if name in names
        else pa.nulls(len(values), _VECTOR.field(name).type)
        for name in _VECTOR_NAMES
    ]
    return pa.StructArray.from_arrays(children, fields=list(_VECTOR), mask=values.is_null())
