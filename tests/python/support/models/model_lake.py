"""Keep a table in memory for tests of the index. Each change makes a new snapshot, and all snapshots stay readable."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from parsieve.lake.base import AsOf, ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_of
from parsieve.lake.slices import SliceObjects

Rows = Mapping[Location, pa.Table]


class ModelLake(Lake):
    """A table format in memory: a dictionary from locations to rows."""

    format = "model"
    uri = "memory:"
    storage_options: Mapping[str, str] = {}

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.states: list[dict[Location, tuple[str, pa.Table]]] = [{}]
        self.schemas = [schema]
        self.reads: list[Location] = []
        self._tokens = 0

    def change(self, rows: Mapping[Location, pa.Table | None], schema: pa.Schema | None = None) -> Snapshot:
        """Replace the rows of some locations, or remove locations with None. Return the new snapshot."""
        state = dict(self.states[-1])
        for location, table in rows.items():
            if table is None:
                state.pop(location, None)
            else:
                self._tokens += 1
                state[location] = (f"t{self._tokens}", table)
        self.states.append(state)
        self.schemas.append(schema or self.schemas[-1])
        return self.snapshot()

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        at = len(self.states) - 1 if as_of is None else int(str(as_of))
        slices = SliceObjects(
            Slice(location.partition, location.group, token, f"/{location.group}", 1, table.num_rows, True, {}, table)
            for location, (token, table) in self.states[at].items()
        )
        return Snapshot(id=at, instant=at * 10, schema=self.schemas[at], slices=slices)

    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        self.reads.append(piece.location)
        table: pa.Table = piece.native
        for batch in table.to_batches(max_chunksize=1000):
            arrays = [leaf_of(batch, path) for path in columns]
            yield pa.RecordBatch.from_arrays(arrays, [str(at) for at in range(len(columns))])

    def read(self, *_: Any, **__: Any) -> pa.RecordBatchReader:
        raise NotImplementedError


def place(group: str, partition: str = "") -> Location:
    return Location(partition, group)


class SavedLake(ModelLake):
    """A model table in a folder, with one file for each snapshot, so that processes can share it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(pa.schema([("k", pa.int64())]))
        self.folder = folder

    def save(self, version: int, state: Mapping[Location, tuple[str, list[int]]]) -> None:
        """Write a snapshot atomically."""
        rows = [[*dataclasses.astuple(location), token, keys] for location, (token, keys) in state.items()]
        temporary = self.folder / f"{version}.tmp"
        temporary.write_text(json.dumps(rows))
        temporary.replace(self.folder / f"{version}.json")

    def newest(self) -> int:
        """Return the number of the newest snapshot."""
        return max(int(path.stem) for path in self.folder.glob("*.json"))

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        at = self.newest() if as_of is None else int(str(as_of))
        slices = SliceObjects(
            Slice(partition, group, token, group, 1, len(keys), True, {}, pa.table({"k": pa.array(keys, pa.int64())}))
            for partition, group, token, keys in json.loads((self.folder / f"{at}.json").read_text())
        )
        return Snapshot(id=at, instant=at, schema=self.schema, slices=slices)
