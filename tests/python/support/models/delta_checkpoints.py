"""Write checkpoints of Delta tables in every form, sometimes with extra files that readers must ignore."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.models.delta_tables import Action, DeltaTable, path_in_log

_TEXT, _LONG, _INT = pa.string(), pa.int64(), pa.int32()
_TEXTS, _MAP = pa.list_(_TEXT), pa.map_(_TEXT, _TEXT)
_VECTOR = pa.struct(
    {"storageType": _TEXT, "pathOrInlineDv": _TEXT, "offset": _INT, "sizeInBytes": _INT, "cardinality": _LONG}
)
_ADD = {"path": _TEXT, "partitionValues": _MAP, "size": _LONG, "modificationTime": _LONG, "dataChange": pa.bool_()}
_ADD |= {"deletionVector": _VECTOR}
_SCHEMA = {
    "remove": pa.struct({"path": _TEXT, "deletionTimestamp": _LONG, "dataChange": pa.bool_()}),
    "protocol": pa.struct(
        {"minReaderVersion": _INT, "minWriterVersion": _INT, "readerFeatures": _TEXTS, "writerFeatures": _TEXTS}
    ),
    "metaData": pa.struct(
        {
            "id": _TEXT,
            "format": pa.struct({"provider": _TEXT, "options": _MAP}),
            "schemaString": _TEXT,
            "partitionColumns": _TEXTS,
            "configuration": _MAP,
            "createdTime": _LONG,
        }
    ),
    "sidecar": pa.struct({"path": _TEXT, "sizeInBytes": _LONG, "modificationTime": _LONG}),
}


class Checkpoint:
    """A checkpoint of the newest version of a table."""

    def __init__(self, table: DeltaTable) -> None:
        self._table, self._chance, self._log = table, table.chance, table.log
        self._start = f"{table.version:020}.checkpoint"
        self._add = dict(_ADD)
        adds = [{"add": added.action} for added in table.files.values()]
        removed = [name for name in table.stored if name not in table.files][:3]
        tombstones = [
            {"remove": {"path": path_in_log(name), "deletionTimestamp": 1, "dataChange": True}} for name in removed
        ]
        self._files: list[Action] = adds + tombstones
        self._heads = [table.protocol(), table.metadata()]

    def write(self) -> str:
        """Write the checkpoint in a random form, and return the form."""
        forms: dict[str, Callable[[], None]] = {
            "classic": self._write_classic,
            "without statistics": self._write_without_statistics,
            "in parts": self._write_parts,
            "with sidecars, JSON": self._write_json_with_sidecars,
            "with sidecars, Parquet": lambda: self._write_with_sidecars(f"{self._start}.{self._uuid()}.parquet"),
            "with sidecars, classic name": lambda: self._write_with_sidecars(f"{self._start}.parquet"),
        }
        form = self._chance.choice(list(forms))
        self._add["stats"] = _TEXT
        forms[form]()
        return form

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._chance.getrandbits(128))

    def _mixed(self) -> list[Action]:
        actions = [*self._files, *self._heads]
        return self._chance.sample(actions, len(actions))

    def _write_classic(self) -> None:
        self._write_rows(self._log / f"{self._start}.parquet", self._mixed())

    def _write_without_statistics(self) -> None:
        del self._add["stats"]
        if self._chance.random() < 0.5:
            self._add["stats_parsed"] = pa.struct({"numRecords": _LONG})
        self._write_classic()

    def _write_parts(self) -> None:
        actions = self._mixed()
        for number in range(3):
            name = f"{self._start}.{number + 1:010}.{3:010}.parquet"
            self._write_rows(self._log / name, actions[number::3])

    def _sidecars(self) -> list[Action]:
        """Write the actions of files to two sidecars, and return the actions that name them."""
        names = [f"{self._uuid()}.parquet" for _ in range(2)]
        for number, name in enumerate(names):
            self._write_rows(self._log / "_sidecars" / name, self._files[number::2])
        return [{"sidecar": {"path": name, "sizeInBytes": 1, "modificationTime": 0}} for name in names]

    def _write_json_with_sidecars(self) -> None:
        about = {"checkpointMetadata": {"version": self._table.version}}
        lines = [*self._heads, about, *self._sidecars()]
        (self._log / f"{self._start}.{self._uuid()}.json").write_text("\n".join(map(json.dumps, lines)))

    def _write_with_sidecars(self, name: str) -> None:
        self._write_rows(self._log / name, [*self._heads, *self._sidecars()])

    def _write_rows(self, path: Path, actions: Sequence[Action]) -> None:
        path.parent.mkdir(exist_ok=True)
        schema = {"add": pa.struct(self._add), **_SCHEMA}
        arrays = [
            pa.array([_with_pairs(action.get(name)) for action in actions], kind) for name, kind in schema.items()
        ]
        pq.write_table(pa.table(arrays, names=list(schema)), path, row_group_size=self._chance.choice([2, 1000]))

    def tidy(self) -> None:
        """Write hints and compacted commits that readers must ignore, and remove the commits before the checkpoint."""
        version, chance = self._table.version, self._chance
        if chance.random() < 0.5:
            # The hint may be cut, empty, or wrong.
            wrong = [{"version": version + 7, "size": 1}, {"version": 0, "size": 1, "parts": 9}, {}]
            (self._log / "_last_checkpoint").write_text(chance.choice(["{", *map(json.dumps, wrong)]))
        if chance.random() < 0.4:
            for number in range(version):
                (self._log / f"{number:020}.json").unlink(missing_ok=True)
            self._table.first = version
        if chance.random() < 0.3 and version > 2:
            (self._log / f"{version - 2:020}.{version - 1:020}.compacted.json").write_text("{broken")


def _with_pairs(action: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an action whose maps are lists of pairs."""
    if action is None:
        return None
    changed: dict[str, Any] = {}
    for name in ("partitionValues", "configuration"):
        if name in action:
            changed[name] = list(action[name].items())
    if "format" in action:
        changed["format"] = {"provider": "parquet", "options": []}
    return action | changed
