"""What Iceberg's manifests say: data files with the deletes that touch them, and bounds as they were meant."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from parsieve._core import FormatError, UnsupportedError
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.lake import bounds
from parsieve.lake.base import ColumnPath, Statistics
from parsieve.lake.rows.columns import FIELD_ID, leaf_field


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A file of a manifest, as pyiceberg read it with the fields of every version."""

    file: Any
    sequence: int
    # The commit that added it: its sequence number, or in tables of version 1, which have none, its snapshot.
    added: int
    # Of version 3: where the deletes of one data file lie in a Puffin file.
    referenced: str | None
    offset: int | None
    length: int | None

    @property
    def kind(self) -> str:
        """DATA, POSITION_DELETES or EQUALITY_DELETES; version 1 knows data alone and leaves a plain 0."""
        content = self.file.content
        return str(content.name) if hasattr(content, "name") else {0: "DATA"}.get(content, str(content))

    @property
    def identity(self) -> str:
        """What tells one set of deletes from another."""
        return f"{self.file.file_path}@{self.offset}" if self.offset is not None else str(self.file.file_path)


@dataclass(frozen=True, slots=True, eq=False)
class DataFile:
    """A data file of a snapshot, and the deletes that touch it."""

    file: Any
    # The commit that added it: a path that is added again may have been written anew.
    added: int
    positions: tuple[Entry, ...]
    equality: tuple[Entry, ...]
    vector: Entry | None

    @property
    def token(self) -> str:
        """Changes with the file or any of its deletes."""
        deletes = sorted(one.identity for one in (*self.positions, *self.equality, *filter(None, [self.vector])))
        return "|".join([f"{self.file.file_size_in_bytes}-{self.file.record_count}-{self.added}", *deletes])


def data_files(table: Any, snapshot: Any) -> list[DataFile]:
    """The live data files of a snapshot, in the order of its manifests."""
    manifests = snapshot.manifests(table.io)
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
        entries = [one for found in pool.map(lambda manifest: _entries(table.io, manifest), manifests) for one in found]
    data = [one for one in entries if one.kind == "DATA"]
    vectors: dict[str, list[Entry]] = {}
    by_path: dict[str, list[Entry]] = {}
    positions: dict[Any, list[Entry]] = {}
    equality: dict[Any, list[Entry]] = {}
    for one in entries:
        kind = one.kind
        if kind == "POSITION_DELETES":
            if one.offset is not None:
                vectors.setdefault(str(one.referenced), []).append(one)
            elif one.referenced is not None:
                by_path.setdefault(one.referenced, []).append(one)
            else:
                positions.setdefault(_partition(one.file), []).append(one)
        elif kind == "EQUALITY_DELETES":
            # Those of a table without partitions hold for all files.
            key = None if not _values(one.file) else _partition(one.file)
            equality.setdefault(key, []).append(one)
        elif kind != "DATA":
            raise UnsupportedError(f"{one.file.file_path} is a file of the kind {kind}, which is not supported")
    found = []
    for one in data:
        path, at = one.file.file_path, one.sequence
        mine = [two for two in vectors.get(path, ()) if two.sequence >= at]
        if len(mine) > 1:
            raise FormatError(f"{path} has {len(mine)} deletion vectors; there can be one")
        deletes = [*by_path.get(path, ()), *positions.get(_partition(one.file), ())]
        # A vector holds what earlier files of positions said.
        touching = () if mine else tuple(two for two in deletes if two.sequence >= at)
        equal = [*equality.get(None, ()), *equality.get(_partition(one.file), ())]
        stricken = tuple(two for two in equal if two.sequence > at)
        found.append(DataFile(one.file, one.added, touching, stricken, mine[0] if mine else None))
    return found


def _values(file: Any) -> tuple[Any, ...]:
    return tuple(file.partition[number] for number in range(len(file.partition)))


def _partition(file: Any) -> tuple[int, tuple[Any, ...]]:
    return (file.spec_id or 0, _values(file))


def _entries(io: Any, manifest: Any) -> list[Entry]:
    """The live entries of a manifest. pyiceberg reads them with the fields of version 2, which knows no vectors."""
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import (
        MANIFEST_ENTRY_SCHEMAS,
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
    )

    schema = MANIFEST_ENTRY_SCHEMAS[3]
    kind: Any = schema.find_field("data_file").field_type
    names = [one.name for one in kind.fields]
    places = [names.index(name) for name in ("referenced_data_file", "content_offset", "content_size_in_bytes")]
    found = []
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        schema,
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        for entry in reader:
            if entry.status == ManifestEntryStatus.DELETED:
                continue
            sequence = entry.sequence_number
            if sequence is None:
                # Inherited by what a commit added; tables of version 1 have none.
                sequence = manifest.sequence_number or 0
            added = sequence or entry.snapshot_id or manifest.added_snapshot_id or 0
            file = entry.data_file
            file.spec_id = manifest.partition_spec_id
            referenced, offset, length = (file[place] for place in places)
            found.append(Entry(file, sequence, added, referenced, offset, length))
    return found


def statistics_of(files: Sequence[DataFile], schema: pa.Schema, path: ColumnPath) -> Statistics:
    """What is certain of a column by the metrics of all files."""
    field = leaf_field(schema, path)
    number, kind = int((field.metadata or {})[FIELD_ID]), field.type
    lower, upper, nulls, counts = [], [], [], []
    for one in files:
        file = one.file
        low, high = (file.lower_bounds or {}).get(number), (file.upper_bounds or {}).get(number)
        lower.append(_decoded(low, kind, is_upper=False))
        upper.append(_decoded(high, kind, is_upper=True))
        count, null = _count(file.value_counts, number), _count(file.null_value_counts, number)
        consistent = count is None or null is None or null <= count
        nulls.append(null if consistent else None)
        counts.append(count if consistent else None)
    return Statistics(
        _array(lower, kind), _array(upper, kind), pa.array(nulls, pa.int64()), pa.array(counts, pa.int64())
    )


def _count(counts: Mapping[int, int] | None, number: int) -> int | None:
    count = (counts or {}).get(number)
    return count if count is not None and count >= 0 else None


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pt.is_timestamp(kind) or pt.is_time(kind) or pt.is_date(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(values, width).view(kind)
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.nulls(len(values), kind.storage_type))
    return pa.array(values, kind)


def _decoded(data: bytes | None, kind: pa.DataType, is_upper: bool) -> Any:
    """A bound, certain; times as the integers that they are. None for what cannot be read or trusted."""
    if data is None:
        return None
    try:
        return _decode(bytes(data), kind, is_upper)
    except (struct.error, ValueError, OverflowError):
        return None


def _decode(data: bytes, kind: pa.DataType, is_upper: bool) -> Any:
    if pt.is_boolean(kind):
        return data != b"\0" if len(data) == 1 else None
    if pt.is_integer(kind):
        # A column that was an int when the file was written has four bytes.
        value = _integer(data)
        return (
            value if value is not None and -(1 << (kind.bit_width - 1)) <= value < 1 << (kind.bit_width - 1) else None
        )
    if pt.is_floating(kind):
        return _real(data, is_upper)
    if pt.is_date(kind):
        value = _integer(data) if len(data) == 4 else None
        return value if value is not None and value >= _FIRST_DAY else None
    if pt.is_timestamp(kind):
        return _moment(data, kind)
    if pt.is_time(kind):
        return _integer(data) if len(data) == 8 else None
    if pt.is_decimal(kind):
        unscaled = int.from_bytes(data, "big", signed=True)
        fits = data and abs(unscaled) < 10**kind.precision
        return Decimal(unscaled).scaleb(-kind.scale, bounds.EXACT) if fits else None
    if pt.is_string(kind):
        text = data.decode()
        return bounds.text_upper(text) if is_upper else bounds.text_lower(text)
    if pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        return _bytes(data, kind, is_upper)
    # UUIDs: Java compared them as signed numbers.
    return None


_FIRST_DAY = (bounds.GREGORIAN - bounds.EPOCH).days
_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}


def _integer(data: bytes) -> int | None:
    return int.from_bytes(data, "little", signed=True) if len(data) in (4, 8) else None


def _real(data: bytes, is_upper: bool) -> float | None:
    value: float = struct.unpack({4: "<f", 8: "<d"}.get(len(data), "<d"), data)[0]
    if math.isnan(value):
        return None
    # Both zeros are one value.
    return math.copysign(0.0, 1 if is_upper else -1) if value == 0 else value


def _moment(data: bytes, kind: pa.DataType) -> int | None:
    value = _integer(data)
    if value is None:
        return None
    day = _DAY[kind.unit]
    # A column that was a date when the file was written has four bytes.
    value = value * day if len(data) == 4 else value
    return value if _FIRST_DAY * day <= value < 1 << 63 else None


def _bytes(data: bytes, kind: pa.DataType, is_upper: bool) -> bytes | None:
    if pt.is_fixed_size_binary(kind):
        # Cut bounds are no values of the type.
        return data if len(data) == kind.byte_width and not is_upper else None
    return bounds.bytes_upper(data) if is_upper else data


def partition_reader(kind: pa.DataType) -> Callable[[Any], Any]:
    """Turns what a manifest holds as the value of a partition into a Python value of a type."""

    def read(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, int) and (pt.is_timestamp(kind) or pt.is_time(kind) or pt.is_date(kind)):
            return _array([value], kind)[0].as_py()
        if isinstance(kind, pa.BaseExtensionType):
            raw = value.bytes if hasattr(value, "bytes") else value
            return pa.ExtensionArray.from_storage(kind, pa.array([raw], kind.storage_type))[0].as_py()
        return pa.scalar(value, kind).as_py()

    return read
