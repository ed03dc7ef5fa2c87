"""Delta tables whose log and files are written by hand, and a model of their rows."""

from __future__ import annotations

import copy
import datetime as dt
import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from support.models.odd_values import ordered, write_oddly
from support.models.table_states import Column, LiveRow, State

TYPES: dict[pa.DataType, str] = {
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.decimal128(9, 2): "decimal(9,2)",
    pa.decimal128(14, 4): "decimal(14,4)",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp_ntz",
    pa.bool_(): "boolean",
}
_FEATURES = ["columnMapping", "deletionVectors", "typeWidening", "timestampNtz", "v2Checkpoint"]
# Writers cut texts in statistics after this many characters, and append a high character to an upper bound.
_CUT = 32

Action = dict[str, Any]


@dataclass
class DeltaColumn(Column):
    """A column, its name in files and in the log, and whether its type was widened."""

    physical: str = ""
    is_widened: bool = False


@dataclass(frozen=True)
class StoredFile:
    """What a data file contains: values and partition values by the IDs of columns."""

    values: Mapping[int, list[Any]]
    partition: Mapping[int, Any]
    count: int

    def value(self, column: Column, row: int) -> Any:
        """Return a value in the present type of its column."""
        value = self.partition.get(column.id)
        if column.id in self.values:
            value = self.values[column.id][row]
        if value is None:
            return None
        if pa.types.is_floating(column.type):
            return float(value)
        if pa.types.is_timestamp(column.type) and not isinstance(value, dt.datetime):
            return dt.datetime(value.year, value.month, value.day)
        return value


@dataclass(frozen=True)
class AddedFile:
    """The add action of a file, and the rows that its deletion vector deletes."""

    action: Action
    deleted: frozenset[int] = frozenset()


Files = dict[str, AddedFile]


@dataclass(frozen=True)
class Version:
    """The files and columns of a version."""

    files: Files
    columns: list[DeltaColumn]


class DeltaTable:
    """A table that commits the actions that it is given."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance = folder, chance
        self.log = folder / "_delta_log"
        self.log.mkdir(parents=True)
        self.mode = chance.choice(["none", "name", "name", "id"])
        self.columns: list[DeltaColumn] = []
        self.partitioned: list[DeltaColumn] = []
        self.files: Files = {}
        self.stored: dict[str, StoredFile] = {}
        # Versions before this one cannot be read, because their commits were removed.
        self.first = 0
        self.history: list[Version] = []
        self._files_made = self._columns_made = 0

    @property
    def version(self) -> int:
        return len(self.history) - 1

    # The model

    def live(self, files: Files, columns: Sequence[Column]) -> list[LiveRow]:
        """Return the rows of some files that are not deleted."""
        return [
            LiveRow({column.id: self.stored[name].value(column, row) for column in columns}, self.folder / name)
            for name, added in files.items()
            for row in range(self.stored[name].count)
            if row not in added.deleted
        ]

    def state(self, as_of: int | None = None) -> State:
        version = self.history[-1 if as_of is None else as_of]
        return State(version.columns, self.live(version.files, version.columns))

    def versions(self) -> list[int]:
        return list(range(self.first, self.version + 1))

    # The log

    def add_column(self, name: str, kind: pa.DataType) -> None:
        """Add a column. With column mapping, its physical name differs, except for some columns of a new table."""
        self._columns_made += 1
        number, physical = self._columns_made, f"col-{self._columns_made}"
        if self.mode == "none" or (not self.history and self.chance.random() < 0.4):
            physical = name
        self.columns.append(DeltaColumn(number, name, kind, physical))

    def commit(self, actions: Sequence[Action]) -> None:
        """Append a version with some actions, in any order."""
        lines = self.chance.sample(actions, len(actions))
        ascii_ = self.chance.random() < 0.5
        text = "\n".join(json.dumps(line, ensure_ascii=ascii_) for line in lines)
        (self.log / f"{self.version + 1:020}.json").write_text(text, encoding="utf-8")
        self.history.append(Version(dict(self.files), copy.deepcopy(self.columns)))

    def protocol(self) -> Action:
        about = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": _FEATURES, "writerFeatures": _FEATURES}
        return {"protocol": about}

    def metadata(self) -> Action:
        mapping = {} if self.mode == "none" else {"delta.columnMapping.mode": self.mode}
        about = {
            "id": "x",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": [self._field(column) for column in self.columns]}),
            "partitionColumns": [column.name for column in self.partitioned],
            "configuration": {"delta.enableDeletionVectors": "true", **mapping},
            "createdTime": 0,
        }
        return {"metaData": about}

    def _field(self, column: DeltaColumn) -> dict[str, Any]:
        about: dict[str, Any] = {}
        if self.mode != "none":
            about |= {"delta.columnMapping.id": column.id, "delta.columnMapping.physicalName": column.physical}
        if column.is_widened:
            about["delta.typeChanges"] = [{"fromType": "x", "toType": TYPES[column.type]}]
        return {"name": column.name, "type": TYPES[column.type], "nullable": True, "metadata": about}

    def removal(self, name: str) -> Action:
        """Remove a file, and return the action."""
        action = self.files.pop(name).action
        kept = {key: action[key] for key in ("path", "deletionVector") if key in action}
        return {"remove": {**kept, "dataChange": True, "deletionTimestamp": 1}}

    # Files

    def add_rows(self, rows: Sequence[dict[int, Any]]) -> Action:
        """Write rows of one partition to a new file, and return its action."""
        partition = {column.id: rows[0][column.id] for column in self.partitioned}
        columns = [column for column in self.columns if column.id not in partition]
        columns = [column for column in columns if column.id == 1 or self.chance.random() > 0.12]
        self.chance.shuffle(columns)
        values = {column.id: [row[column.id] for row in rows] for column in columns}
        name = self._new_name()
        self._write(self.folder / name, columns, values)
        # The logs of shallow clones have absolute URIs.
        is_address = self.chance.random() < 0.1
        action = {
            "path": (self.folder / name).as_uri() if is_address else path_in_log(name),
            "partitionValues": {column.physical: _text(partition[column.id]) for column in self.partitioned},
            "size": (self.folder / name).stat().st_size,
            "modificationTime": 1_700_000_000_000 + self._files_made,
            "dataChange": True,
        }
        if self.chance.random() < 0.8:
            statistics = Statistics(self.chance, len(rows)).of(columns, values)
            action["stats"] = json.dumps(statistics, ensure_ascii=self.chance.random() < 0.5)
        self.stored[name] = StoredFile(values, partition, len(rows))
        self.files[name] = AddedFile(action)
        return {"add": action}

    def _new_name(self) -> str:
        """Return the name of a new file. The names of some folders need escapes."""
        self._files_made += 1
        folder = self.chance.choice(["", "a b/", "p=x%2Fy/", "ü/", "50%/"])
        return f"{folder}f{self._files_made:03}.parquet"

    def _write(self, path: Path, columns: Sequence[DeltaColumn], values: Mapping[int, list[Any]]) -> None:
        names = [column.physical for column in columns]
        if self.mode == "id" and self.chance.random() < 0.5:
            # Only IDs count, so files may have other names.
            self.chance.shuffle(names)
        fields = [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)]
        if self.mode != "none":
            fields = [
                field.with_metadata({"PARQUET:field_id": str(column.id)})
                for field, column in zip(fields, columns, strict=True)
            ]
        arrays = [pa.array(values[column.id], column.type) for column in columns]
        write_oddly(pa.table(arrays, schema=pa.schema(fields)), path, self.chance)


def path_in_log(name: str) -> str:
    """Return the name of a file as it appears in the log."""
    return quote(name, safe="/=")


def _text(value: Any) -> str | None:
    """Return a partition value as it appears in the log."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        names = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
        return names.get(repr(value), repr(value))
    return value.isoformat(" ") if isinstance(value, dt.datetime) else str(value)


@dataclass
class Statistics:
    """The true statistics of a file. Some figures are absent, and long bounds are cut."""

    chance: random.Random
    count: int
    lower: dict[str, Any] = field(default_factory=dict)
    upper: dict[str, Any] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    def of(self, columns: Sequence[DeltaColumn], values: Mapping[int, list[Any]]) -> dict[str, Any]:
        """Return the statistics of some columns in the form of the log."""
        for column in columns:
            if self.chance.random() < 0.85:
                self._add(column, values[column.id])
        about = {"numRecords": self.count, "maxValues": self.upper}
        about |= {"nullCount": self.nulls} if self.chance.random() < 0.9 else {}
        return about | ({"minValues": self.lower} if self.chance.random() < 0.9 else {})

    def _add(self, column: DeltaColumn, values: Sequence[Any]) -> None:
        self.nulls[column.physical] = sum(value is None for value in values)
        known = ordered(values)
        special = any(isinstance(value, float) and not math.isfinite(value) for value in values)
        if not known or special or pa.types.is_boolean(column.type):
            # JSON has no NaN or infinity, and Delta has no bounds for booleans.
            return
        lower, upper = known[0], known[-1]
        if isinstance(lower, str):
            lower, upper = lower[:_CUT], self._cut(upper)
        self.lower[column.physical], self.upper[column.physical] = _json_bound(lower), _json_bound(upper)

    def _cut(self, text: str) -> str:
        if len(text) <= _CUT:
            return text
        is_low = max(text) < "\uffff"
        return text[:_CUT] + self.chance.choice(["\uffff", "\U0010ffff"] if is_low else ["\U0010ffff"])


def _json_bound(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        # Delta truncates times to milliseconds, even in upper bounds.
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, dt.date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value
