"""Delta and Iceberg tables whose columns are renamed. Their rows are read with pyarrow, by physical name or by id."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table as IcebergTable
from pyiceberg.types import StringType

from support.formats import catalog_at
from support.models.lake_truth import commit

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "a": pa.string(),
        "c": pa.string(),
        "s": pa.struct({"x": pa.string(), "y": pa.string()}),
        "tags": pa.list_(pa.string()),
        "labels": pa.map_(pa.string(), pa.string()),
    }
)
FILES, ROWS = 4, 5


def key(number: int) -> str:
    """Return the text of a number. Texts of the same length compare like their numbers."""
    return f"Key{number:03} end"


def rows_of(part: int) -> list[dict[str, Any]]:
    """Return the rows of a file, with values between those of other files, so that min/max statistics skip nothing."""
    numbers = [part + FILES * row for row in range(ROWS)]
    return [
        {
            "id": number,
            "a": key(number),
            "c": key(100 + number),
            "s": {"x": key(200 + number), "y": key(300 + number)},
            "tags": [key(400 + number), "same"],
            "labels": [("k", key(500 + number))],
        }
        for number in numbers
    ]


class Renamed(Protocol):
    """A table whose columns can be renamed."""

    @property
    def location(self) -> str:
        """Return the folder of the table."""

    def append(self, rows: list[dict[str, Any]]) -> None:
        """Append a file with rows, whose columns have their current names."""

    def rename(self, path: str, name: str) -> None:
        """Give a column, or a field of a struct, another name."""

    def swap(self, one: str, other: str) -> None:
        """Swap the names of two columns."""

    def add(self, name: str) -> None:
        """Add a column of strings."""

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows, with the current names of the columns."""


class Delta:
    """A Delta table, in which columns are found by physical name."""

    def __init__(self, folder: Path) -> None:
        """Write an empty table."""
        self._folder = folder
        self._ids = 0
        self._files = 0
        self._fields = [self._field(field) for field in SCHEMA]
        (folder / "_delta_log").mkdir(parents=True)
        commit(folder, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, self._metadata())

    @property
    def location(self) -> str:
        return str(self._folder)

    def append(self, rows: list[dict[str, Any]]) -> None:
        path = self._folder / f"{self._files}.parquet"
        self._files += 1
        stored = [{_physical(field): _stored(row.get(field["name"]), field) for field in self._fields} for row in rows]
        pq.write_table(pa.Table.from_pylist(stored, pa.schema(map(_in_file, self._fields))), path)
        about = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
        commit(self._folder, {"add": {**about, "dataChange": True}})

    def rename(self, path: str, name: str) -> None:
        self._find(path)["name"] = name
        commit(self._folder, self._metadata())

    def swap(self, one: str, other: str) -> None:
        first, second = self._find(one), self._find(other)
        first["name"], second["name"] = second["name"], first["name"]
        commit(self._folder, self._metadata())

    def add(self, name: str) -> None:
        self._fields.append(self._field(pa.field(name, pa.string())))
        commit(self._folder, self._metadata())

    def rows(self) -> list[dict[str, Any]]:
        stored = [row for number in range(self._files) for row in self._read(number)]
        return [{field["name"]: _current(row.get(_physical(field)), field) for field in self._fields} for row in stored]

    def _read(self, number: int) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self._folder / f"{number}.parquet").to_pylist()
        return rows

    def _find(self, path: str) -> dict[str, Any]:
        fields, found = self._fields, {}
        for name in path.split("."):
            found = next(field for field in fields if field["name"] == name)
            fields = found["type"].get("fields", []) if isinstance(found["type"], dict) else []
        return found

    def _field(self, field: pa.Field) -> dict[str, Any]:
        self._ids += 1
        number = self._ids
        kind: Any = "long" if pa.types.is_int64(field.type) else "string"
        if pa.types.is_struct(field.type):
            kind = {"type": "struct", "fields": [self._field(inner) for inner in field.type]}
        elif pa.types.is_list(field.type):
            kind = {"type": "array", "elementType": "string", "containsNull": True}
        elif pa.types.is_map(field.type):
            kind = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"{field.name}-{number}"}
        return {"name": field.name, "type": kind, "nullable": True, "metadata": mapping}

    def _metadata(self) -> dict[str, Any]:
        return {
            "metaData": {
                "id": "x",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": self._fields}),
                "partitionColumns": [],
                "configuration": {
                    "delta.columnMapping.mode": "name",
                    "delta.columnMapping.maxColumnId": f"{self._ids}",
                },
                "createdTime": 0,
            }
        }


def _physical(field: dict[str, Any]) -> str:
    return str(field["metadata"]["delta.columnMapping.physicalName"])


def _in_file(field: dict[str, Any]) -> pa.Field:
    kinds = {"long": pa.int64(), "array": pa.list_(pa.string()), "map": pa.map_(pa.string(), pa.string())}
    name = field["type"]["type"] if isinstance(field["type"], dict) else field["type"]
    kind = pa.struct(map(_in_file, field["type"]["fields"])) if name == "struct" else kinds.get(name, pa.string())
    return pa.field(_physical(field), kind)


def _converted(value: Any, field: dict[str, Any], names: Callable[[dict[str, Any]], tuple[str, str]]) -> Any:
    if not isinstance(value, dict):
        return value
    pairs = [(inner, *names(inner)) for inner in field["type"]["fields"]]
    return {new: _converted(value.get(old), inner, names) for inner, old, new in pairs}


def _stored(value: Any, field: dict[str, Any]) -> Any:
    return _converted(value, field, lambda inner: (inner["name"], _physical(inner)))


def _current(value: Any, field: dict[str, Any]) -> Any:
    return _converted(value, field, lambda inner: (_physical(inner), inner["name"]))


class Iceberg:
    """An Iceberg table, in which columns are found by field id."""

    def __init__(self, table: IcebergTable) -> None:
        """Change an empty table."""
        self._table = table

    @property
    def location(self) -> str:
        return self._table.location()

    def append(self, rows: list[dict[str, Any]]) -> None:
        self._table.append(pa.Table.from_pylist(rows, self._table.schema().as_arrow()))

    def rename(self, path: str, name: str) -> None:
        with self._table.update_schema() as update:
            update.rename_column(path, name)

    def swap(self, one: str, other: str) -> None:
        *above, first = one.split(".")
        second = other.split(".")[-1]
        for before, after in ((first, "between"), (second, first), ("between", second)):
            self.rename(".".join([*above, before]), after)

    def add(self, name: str) -> None:
        with self._table.update_schema() as update:
            update.add_column(name, StringType())

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._table.scan().to_arrow().to_pylist()
        return rows


@contextmanager
def renamed_table(format_name: str, folder: Path) -> Iterator[Renamed]:
    """Return a Delta or an Iceberg table of a few files."""
    if format_name == "delta":
        yield _filled(Delta(folder / "t"))
        return
    with catalog_at(folder) as catalog:
        yield _filled(Iceberg(catalog.create_table("n.t", SCHEMA)))


def _filled(table: Renamed) -> Renamed:
    for part in range(FILES):
        table.append(rows_of(part))
    return table
