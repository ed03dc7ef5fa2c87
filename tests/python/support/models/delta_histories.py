"""Random histories of Delta tables: mapped and widened columns, deletion vectors, restores and checkpoints."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.delta_vectors import write_vector
from support.models.delta_checkpoints import Checkpoint
from support.models.delta_tables import TYPES, Action, AddedFile, DeltaColumn, DeltaTable
from support.models.odd_values import PATH_TEXTS, chosen_rows, odd_value
from support.models.table_states import UID

_WIDER: dict[pa.DataType, list[pa.DataType]] = {
    pa.int8(): [pa.int16(), pa.int32(), pa.int64(), pa.float64()],
    pa.int16(): [pa.int32(), pa.int64()],
    pa.int32(): [pa.int64(), pa.float64()],
    pa.float32(): [pa.float64()],
    pa.decimal128(9, 2): [pa.decimal128(14, 4)],
    pa.date32(): [pa.timestamp("us")],
}
Values = dict[int, Any]


class DeltaHistory(DeltaTable):
    """A table that changes at random."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._changes: list[str] = []
        self._uids = 0
        self.add_column(UID, pa.int64())
        for number in range(chance.randrange(2, 6)):
            self.add_column(f"c{number}", chance.choice(list(TYPES)))
        self.partitioned = chance.sample(self.columns[1:], chance.choice([0, 0, 1, 2]))
        self.commit([self.protocol(), self.metadata()])

    def __str__(self) -> str:
        return f"Delta with column mapping {self.mode} after {', '.join(self._changes)}"

    def change(self) -> None:
        """Change the rows or the columns, or write a checkpoint."""
        changes = [self._append, self._delete, self._remove, self._restore, self._change_columns, self._compact]
        change = self.chance.choices([*changes, self._write_checkpoint], [2, 2, 1, 1, 2, 1, 2])[0]
        if not self.files:
            change = self._append
        self._changes.append(change.__name__.strip("_"))
        change()

    def check_model(self) -> None:
        """Check nothing: deltalake refuses tables with column mapping or type widening."""

    # Rows

    def _append(self) -> None:
        chance, actions = self.chance, []
        for _ in range(chance.choice([1, 1, 2, 4])):
            same = {column.id: self._draw(column) for column in self.columns}
            rows = []
            for _ in range(chance.choice([1, 3, 12])):
                row = {
                    column.id: same[column.id]
                    if column in self.partitioned or chance.random() < 0.3
                    else self._draw(column)
                    for column in self.columns
                }
                rows.append(row | {1: self._uids})
                self._uids += 1
            actions.append(self.add_rows(rows))
        self.commit(actions)

    def _draw(self, column: DeltaColumn) -> Any:
        value = odd_value(self.chance, column.type)
        if column in self.partitioned and isinstance(value, str):
            return self.chance.choice(PATH_TEXTS)
        return value

    def _compact(self) -> None:
        """Replace all files by one for each partition."""
        groups: dict[str, list[Values]] = {}
        for row in self.live(self.files, self.columns):
            partition = repr([row.values[column.id] for column in self.partitioned])
            groups.setdefault(partition, []).append(row.values)
        actions = [self.removal(name) for name in list(self.files)]
        self.commit([*actions, *map(self.add_rows, groups.values())])

    def _remove(self) -> None:
        """Remove some files, but not all."""
        names = [name for name in self.files if self.chance.random() < 0.3]
        self.commit([self.removal(name) for name in names[: len(self.files) - 1]])

    def _delete(self) -> None:
        """Delete rows by deletion vectors."""
        actions = []
        for name, added in list(self.files.items()):
            deleted = added.deleted | chosen_rows(self.chance, self.stored[name].count)
            if self.chance.random() < 0.5 and deleted != added.deleted:
                actions.append(self.removal(name))
                actions.append(self._add_vector(name, added.action, frozenset(deleted)))
        self.commit(actions)

    def _add_vector(self, name: str, action: Action, deleted: frozenset[int]) -> Action:
        inline, optimize = self.chance.random() < 0.7, self.chance.random() < 0.5
        action = action | {"deletionVector": write_vector(self.folder, sorted(deleted), inline, optimize)}
        if "stats" in action and self.chance.random() < 0.5:
            action["stats"] = json.dumps(json.loads(action["stats"]) | {"tightBounds": False})
        self.files[name] = AddedFile(action, deleted)
        return {"add": action}

    def _restore(self) -> None:
        """Return to the files of an older version, but keep the columns."""
        old = self.chance.choice(self.history).files
        actions = [self.removal(name) for name, added in list(self.files.items()) if old.get(name) != added]
        actions += [{"add": added.action} for name, added in old.items() if name not in self.files]
        self.files = dict(old)
        self.commit(actions)

    # Columns

    def _change_columns(self) -> None:
        """Rename, drop, replace, widen or add a column, or swap the names of two columns."""
        mapped = ["rename", "drop", "replace", "swap"] if self.mode != "none" else []
        change = self.chance.choice([*mapped, "widen", "widen", "add"])
        self._changes.append(change)
        others = self.columns[1:]
        stored = [column for column in others if column not in self.partitioned]
        if change == "rename":
            self.chance.choice(others).name = f"r{self._columns_made}_{self.chance.randrange(999)}"
        elif change in ("drop", "replace") and len(stored) > 1:
            dropped = self.chance.choice(stored)
            self.columns.remove(dropped)
            if change == "replace":
                self.add_column(dropped.name, self.chance.choice([dropped.type, *TYPES]))
        elif change == "widen":
            self._widen()
        elif change == "swap" and len(others) > 1:
            one, other = self.chance.sample(others, 2)
            one.name, other.name = other.name, one.name
        else:
            self.add_column(f"n{self._columns_made + 1}", self.chance.choice(list(TYPES)))
        self.commit([self.metadata()])

    def _widen(self) -> None:
        ready = [column for column in self.columns[1:] if column.type in _WIDER]
        if ready:
            column = self.chance.choice(ready)
            column.type, column.is_widened = self.chance.choice(_WIDER[column.type]), True

    def _write_checkpoint(self) -> None:
        checkpoint = Checkpoint(self)
        self._changes.append(checkpoint.write())
        checkpoint.tidy()
