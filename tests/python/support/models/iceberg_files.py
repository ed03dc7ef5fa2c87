"""Files of hand-written Iceberg tables: data files with statistics, deletion vectors, and other files of deletes."""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
)

from support.models.odd_values import cut_upper_bound, ordered, write_oddly
from support.models.table_states import Column

TYPES: dict[pa.DataType, PrimitiveType] = {
    pa.int64(): LongType(),
    pa.int32(): IntegerType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.decimal128(9, 2): DecimalType(9, 2),
    pa.decimal128(20, 2): DecimalType(20, 2),
    pa.date32(): DateType(),
    pa.timestamp("us"): TimestampType(),
    pa.bool_(): BooleanType(),
    pa.binary(): BinaryType(),
}
DELETED_PATH, DELETED_POSITION = 2147483546, 2147483545
# The ID of a column that no schema of the table has.
_UNKNOWN_ID = 9000

Partition = tuple[Any, ...]


@dataclass
class IcebergColumn(Column):
    """A column, and the default value that it has in files without it."""

    default: Any = None


@dataclass(kw_only=True, eq=False)
class WrittenFile:
    """A file that is listed in a manifest."""

    path: str
    spec: int
    partition: Partition
    sequence: int
    snapshot: int
    # The arguments of its entry in a manifest.
    entry: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> tuple[int, str]:
        """The specification and the partition. The text tells -0.0 from 0.0, and equals itself for NaN."""
        return self.spec, repr(self.partition)


@dataclass(kw_only=True, eq=False)
class DataFile(WrittenFile):
    """A data file with its values by the IDs of its columns."""

    count: int
    values: dict[int, list[Any]] = field(default_factory=dict)


@dataclass(kw_only=True, eq=False)
class PositionDeletes(WrittenFile):
    """A file of position deletes, or a deletion vector."""

    positions: dict[str, set[int]]
    # The path of its only data file, if its manifest entry identifies it by name or by equal path bounds.
    target: str | None = None
    is_vector: bool = False


@dataclass(kw_only=True, eq=False)
class EqualityDeletes(WrittenFile):
    """A file that deletes the older rows whose values equal a key."""

    columns: list[IcebergColumn]
    keys: list[tuple[Any, ...]]


def local(path: str) -> Path:
    """Return the path of a file in the filesystem."""
    return Path(path.removeprefix("file://"))


def physical(column: Column) -> pa.Field:
    """Return the field of a column in a file with field IDs."""
    return pa.field(column.name, column.type, metadata={"PARQUET:field_id": str(column.id)})


@dataclass
class FileWriter:
    """Write files, and describe them as entries of manifests."""

    chance: random.Random

    def write_rows(self, file: DataFile, columns: Sequence[Column], names: Mapping[int, str] | None) -> None:
        """Write a data file with some of the columns, in any order. With `names`, it has no IDs, only these names."""
        chance = self.chance
        unknown = chance.choice([*(column.name for column in columns), "unknown"])
        columns = [column for column in columns if column.id in file.values]
        chance.shuffle(columns)
        fields = [physical(column) for column in columns]
        if names is not None:
            fields = [pa.field(names[column.id], column.type) for column in columns]
        arrays = [pa.array(file.values[column.id], column.type) for column in columns]
        written = {field.name for field in fields}
        if names is None and chance.random() < 0.3 and unknown not in written:
            # A column that the table does not have. Its name may be the name of another column.
            fields.append(physical(Column(_UNKNOWN_ID, unknown, pa.int64())))
            arrays.append(pa.array([chance.randrange(100) for _ in range(file.count)], pa.int64()))
        write_oddly(pa.table(arrays, schema=pa.schema(fields)), local(file.path), chance)
        file.entry = self._entry(file, DataFileContent.DATA, file.count) | self._statistics(file, columns)

    def _entry(self, file: WrittenFile, content: DataFileContent, count: int, **more: Any) -> dict[str, Any]:
        absent = ("lower_bounds", "upper_bounds", "value_counts", "null_value_counts", "nan_value_counts")
        return {
            "content": content,
            "file_path": file.path,
            "file_format": FileFormat.PARQUET,
            "record_count": count,
            "file_size_in_bytes": local(file.path).stat().st_size,
            "column_sizes": None,
            **dict.fromkeys(absent),
            **more,
        }

    def _statistics(self, file: DataFile, columns: Sequence[Column]) -> dict[str, Any]:
        """Return true statistics of some columns. Some figures are absent, and some bounds are cut."""
        chance = self.chance
        names = ("lower_bounds", "upper_bounds", "value_counts", "null_value_counts", "nan_value_counts")
        found: dict[str, dict[int, Any]] = {name: {} for name in names}
        measured = [] if chance.random() < 0.15 else [column for column in columns if chance.random() < 0.85]
        for column in measured:
            values = file.values[column.id]
            figures = {"value_counts": len(values), "null_value_counts": sum(value is None for value in values)}
            if pa.types.is_floating(column.type):
                figures["nan_value_counts"] = sum(value is not None and math.isnan(value) for value in values)
            for name, figure in (figures | self._bounds(column, values)).items():
                if chance.random() < 0.85:
                    found[name][column.id] = figure
        return {name: figures for name, figures in found.items() if chance.random() < 0.95}

    def _bounds(self, column: Column, values: Sequence[Any]) -> dict[str, Any]:
        known = ordered(values)
        if not known:
            return {}
        lower, upper = known[0], known[-1]
        if isinstance(lower, str | bytes):
            size = self.chance.choice([1, 4, 16, 10**6])
            lower, upper = lower[:size], cut_upper_bound(upper, size)
        bounds = {"lower_bounds": lower, "upper_bounds": upper}
        kind = TYPES[column.type]
        return {name: to_bytes(kind, bound) for name, bound in bounds.items() if bound is not None}

    def write_positions(self, file: PositionDeletes, names_target: bool) -> None:
        """Write a file of position deletes. With `names_target`, its entry names its only data file."""
        chance = self.chance
        rows = sorted((path, row) for path, rows in file.positions.items() for row in rows)
        if chance.random() < 0.3:
            # A row may be deleted twice.
            rows = sorted(rows + rows[:2])
        paths, numbers = [path for path, _ in rows], [row for _, row in rows]
        schema = pa.schema(
            [
                physical(Column(DELETED_PATH, "file_path", pa.string())).with_nullable(False),
                physical(Column(DELETED_POSITION, "pos", pa.int64())).with_nullable(False),
            ]
        )
        write_oddly(pa.table([paths, numbers], schema=schema), local(file.path), chance, (2, 1000))
        file.entry = self._entry(file, DataFileContent.POSITION_DELETES, len(rows))
        if names_target:
            (file.target,) = file.positions
            file.entry["referenced_data_file"] = file.target
        elif rows and chance.random() < 0.5:
            self._bound_paths(file, paths[0], paths[-1])

    def _bound_paths(self, file: PositionDeletes, first: str, last: str) -> None:
        """Add path bounds to the entry of position deletes. Equal bounds identify the only data file."""
        size = self.chance.choice([16, 10**6, 10**6])
        upper = cut_upper_bound(last, size)
        assert isinstance(upper, str)
        file.entry["lower_bounds"] = {DELETED_PATH: first[:size].encode()}
        file.entry["upper_bounds"] = {DELETED_PATH: upper.encode()}
        if first[:size] == upper:
            file.target = upper

    def write_vectors(self, vectors: Sequence[PositionDeletes]) -> None:
        """Write deletion vectors into one Puffin file."""
        data, blobs = b"PFA1", []
        for vector in vectors:
            assert vector.target is not None
            bitmap = pyroaring.BitMap64(sorted(vector.positions[vector.target]))
            if self.chance.random() < 0.5:
                bitmap.run_optimize()
            body = (1681511377).to_bytes(4, "little") + bitmap.serialize()
            frame = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
            blobs.append(_blob(vector.target, len(bitmap), len(data), len(frame)))
            vector.entry = {"content_offset": len(data), "content_size_in_bytes": len(frame)}
            data += frame
        footer = json.dumps({"blobs": blobs}).encode()
        data += b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
        for vector in vectors:
            local(vector.path).write_bytes(data)
            count = len(vector.positions[vector.target or ""])
            about = {"file_format": FileFormat.PUFFIN, "referenced_data_file": vector.target}
            vector.entry |= self._entry(vector, DataFileContent.POSITION_DELETES, count, **about)

    def write_keys(self, file: EqualityDeletes) -> None:
        """Write a file of equality deletes."""
        arrays = [pa.array([key[place] for key in file.keys], column.type) for place, column in enumerate(file.columns)]
        pq.write_table(pa.table(arrays, schema=pa.schema(map(physical, file.columns))), local(file.path))
        ids = [column.id for column in file.columns]
        file.entry = self._entry(file, DataFileContent.EQUALITY_DELETES, len(file.keys), equality_ids=ids)


def _blob(target: str, count: int, offset: int, length: int) -> dict[str, Any]:
    """Describe a deletion vector in the footer of its Puffin file."""
    return {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {"referenced-data-file": target, "cardinality": str(count)},
    }
