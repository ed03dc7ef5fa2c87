"""Random histories of Iceberg tables: columns, partitions, deletes and defaults that writers seldom combine."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import StaticTable

from support.models.iceberg_files import (
    TYPES,
    DataFile,
    EqualityDeletes,
    FileWriter,
    IcebergColumn,
    Partition,
    PositionDeletes,
)
from support.models.iceberg_tables import IcebergTable, PartitionRule, Spec
from support.models.lake_truth import rows as row_texts
from support.models.odd_values import chosen_rows, odd_value
from support.models.table_states import difference

_PROMOTED = {
    pa.int32(): pa.int64(),
    pa.float32(): pa.float64(),
    pa.decimal128(9, 2): pa.decimal128(20, 2),
}
Values = dict[int, Any]


class IcebergHistory(IcebergTable):
    """A table that changes at random."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self._writer = FileWriter(chance)
        self._changes: list[str] = []
        self._uids = 0
        for _ in range(chance.randrange(2, 6)):
            self._add_column(f"c{len(self.types) + 1}", chance.choice(list(TYPES)))

    def __str__(self) -> str:
        names = " with a name mapping" if self.has_name_mapping else ""
        return f"Iceberg {self.format_version}{names} after {', '.join(self._changes)}"

    def change(self) -> None:
        """Change the rows, the columns or the partitions, or go back to an older snapshot."""
        commits = [self._append, self._delete_positions, self._rewrite, self._drop_file, self._delete_keys]
        others = [self._change_columns, self._change_partitions, self._roll_back]
        change = self.chance.choices([*commits, *others], [4, 4, 2, 2, 1, 4, 2, 2])[0] if self.current else self._append
        self._changes.append(change.__name__.strip("_"))
        if change in others:
            change()
            self.write_metadata()
            return
        self.begin()
        change()
        self.commit()

    def check_model(self) -> None:
        """Compare the rows with those of pyiceberg, which reads neither equality deletes nor empty vectors.

        It also reads the doubles of partitions with the precision of a float.
        """
        state = self.state()
        partitions = [file.partition for file in self.content.files]
        if any(isinstance(value, float) and _is_no_float(value) for values in partitions for value in values):
            return
        for deletes in self.content.deletes:
            if isinstance(deletes, EqualityDeletes) or (deletes.is_vector and not any(deletes.positions.values())):
                return
        table = StaticTable.from_metadata(self.metadata_file)
        found = row_texts(table.scan().to_arrow().cast(state.table.schema))
        expected = row_texts(state.table)
        assert found == expected, f"pyiceberg reads {difference(found, expected)}"

    # Columns

    def _change_columns(self) -> None:
        """Rename, drop, replace, promote or add a column, or swap the names of two columns."""
        others = self.columns[1:]
        change = self.chance.choice(["rename", "drop", "replace", "promote", "swap", "add"])
        self._changes.append(change)
        if change == "rename" and others:
            self.chance.choice(others).name = f"r{len(self.types)}_{self.chance.randrange(99)}"
        elif change in ("drop", "replace") and len(others) > 1:
            dropped = self.chance.choice(others)
            self.columns.remove(dropped)
            if change == "replace":
                self._add_column(dropped.name, self.chance.choice([dropped.type, *TYPES]))
        elif change == "promote":
            self._promote(others)
        elif change == "swap" and len(others) > 1:
            one, other = self.chance.sample(others, 2)
            one.name, other.name = other.name, one.name
        else:
            self._add_column(f"n{len(self.types) + 1}", self.chance.choice(list(TYPES)))

    def _promote(self, columns: Sequence[IcebergColumn]) -> None:
        for column in columns:
            if column.type in _PROMOTED and self.chance.random() < 0.7:
                column.type = self.types[column.id] = _PROMOTED[column.type]

    def _add_column(self, name: str, kind: pa.DataType) -> None:
        number, default = len(self.types) + 1, None
        if self.format_version == 3 and self.current and self.chance.random() < 0.4:
            default = odd_value(self.chance, kind)
        if isinstance(default, float) and not math.isfinite(default):
            # JSON has no NaN or infinity.
            default = None
        self.columns.append(IcebergColumn(number, name, kind, default))
        self.types[number] = kind
        while name in self.mapped_names.values():
            name += "_"
        self.mapped_names[number] = name

    # Partitions

    def _change_partitions(self) -> None:
        """Replace the partitioning of new files: choose no, one or two columns."""
        sources = self.chance.sample(self.columns, min(len(self.columns), self.chance.choice([0, 1, 1, 2])))
        first = 1000 + sum(map(len, self.specs))
        self.specs.append(
            tuple(
                PartitionRule(column.id, first + number, self.chance.choice(_transforms(column)))
                for number, column in enumerate(sources)
            )
        )

    def _usable(self, spec: int) -> bool:
        return {rule.source for rule in self.specs[spec]} <= {column.id for column in self.columns}

    def _partition(self, spec: Spec, row: Values) -> Partition:
        kinds = {column.id: column.type for column in self.columns}
        return tuple(None if rule.is_void else rule.apply(kinds[rule.source], row[rule.source]) for rule in spec)

    # Rows

    def _append(self) -> None:
        """Write up to three batches of rows, with a file for each partition of a batch."""
        for _ in range(self.chance.choice([1, 1, 2, 3])):
            spec = len(self.specs) - 1
            spec = spec if self._usable(spec) else 0
            groups: dict[str, tuple[Partition, list[Values]]] = {}
            for row in self._draw(self.specs[spec]):
                partition = self._partition(self.specs[spec], row)
                groups.setdefault(repr(partition), (partition, []))[1].append(row)
            for partition, rows in groups.values():
                self._write_rows(rows, spec, partition)

    def _draw(self, spec: Spec) -> list[Values]:
        """Return new rows. Partition columns have one value in all rows, and other columns repeat a value in some."""
        chance, rows = self.chance, []
        sources = {rule.source for rule in spec}
        same = {column.id: odd_value(chance, column.type) for column in self.columns}
        for _ in range(chance.choice([1, 3, 12])):
            row = {
                column.id: same[column.id]
                if column.id in sources or chance.random() < 0.3
                else odd_value(chance, column.type)
                for column in self.columns
            }
            rows.append(row | {1: self._uids})
            self._uids += 1
        return rows

    def _write_rows(self, rows: Sequence[Values], spec: int, partition: Partition) -> None:
        file = DataFile(
            path=self.new_path("parquet"),
            spec=spec,
            partition=partition,
            sequence=self.sequence,
            snapshot=self.snapshot,
            count=len(rows),
        )
        for column in self.columns:
            if column.id == 1 or self.chance.random() > 0.12:
                file.values[column.id] = [row[column.id] for row in rows]
        has_ids = not (self.has_name_mapping and self.chance.random() < 0.4)
        self._writer.write_rows(file, self.columns, None if has_ids else self.mapped_names)
        self.content.files.append(file)

    def _rewrite(self) -> None:
        """Merge the files of a partition. Their deletes may stay."""
        content = self.content
        ready = [file for file in content.files if self._usable(file.spec) and not self.equality_deletes(content, file)]
        if not ready:
            return
        first = self.chance.choice(ready)
        merged = [file for file in ready if file.place == first.place]
        rows = [row.values for row in self.live(content, merged, self.columns)]
        content.files = [file for file in content.files if file not in merged]
        if rows:
            self._write_rows(rows, first.spec, first.partition)
        if self.chance.random() < 0.5:
            paths = {file.path for file in merged}
            content.deletes = [
                deletes
                for deletes in content.deletes
                if isinstance(deletes, EqualityDeletes) or deletes.target not in paths
            ]

    def _drop_file(self) -> None:
        if len(self.content.files) > 1:
            self.content.files.remove(self.chance.choice(self.content.files))

    def _roll_back(self) -> None:
        self.current = self.chance.choice(list(self.snapshots))
        self.content = self.snapshots[self.current].content.copied()

    # Deletes

    def _delete_positions(self) -> None:
        """Delete rows of many files, by deletion vectors, or by files of position deletes."""
        uses_vectors = self.format_version == 3 and self.chance.random() < 0.6
        vectors: list[PositionDeletes] = []
        shared: dict[tuple[int, str], PositionDeletes] = {}
        for file in self.content.files:
            rows = chosen_rows(self.chance, file.count)
            if self.chance.random() < 0.4 or (not rows and self.chance.random() < 0.8):
                continue
            if uses_vectors:
                vectors.append(self._vector(file, rows))
            elif any(deletes.is_vector and deletes.target == file.path for deletes in self.content.positions()):
                # A file with a vector must not get position deletes.
                continue
            elif self.chance.random() < 0.4:
                deletes = self._new_deletes(file, rows)
                if self.chance.random() < 0.2:
                    # Deletes in another partition apply only if their entry names the file.
                    other = self.chance.choice(self.content.files)
                    deletes.spec, deletes.partition = other.spec, other.partition
                self._writer.write_positions(deletes, self.format_version == 3 and self.chance.random() < 0.5)
                self.content.deletes.append(deletes)
            else:
                shared.setdefault(file.place, self._new_deletes(file, set())).positions[file.path] = rows
        for deletes in shared.values():
            self._writer.write_positions(deletes, names_target=False)
        self._add_vectors(vectors)
        self.content.deletes += shared.values()

    def _new_deletes(self, file: DataFile, rows: set[int]) -> PositionDeletes:
        return PositionDeletes(
            path=self.new_path("parquet"),
            spec=file.spec,
            partition=file.partition,
            sequence=self.sequence,
            snapshot=self.snapshot,
            positions={file.path: rows},
        )

    def _vector(self, file: DataFile, rows: set[int]) -> PositionDeletes:
        """Return the new vector of a file. It replaces the old one, and maybe the position deletes of the file."""
        vector = self._new_deletes(file, rows | self.content.deleted_positions(file))
        vector.target, vector.is_vector = file.path, True
        keeps_files = self.chance.random() < 0.5
        self.content.deletes = [
            deletes
            for deletes in self.content.deletes
            if isinstance(deletes, EqualityDeletes)
            or set(deletes.positions) != {file.path}
            or (keeps_files and not deletes.is_vector)
        ]
        return vector

    def _add_vectors(self, vectors: Sequence[PositionDeletes]) -> None:
        if vectors:
            path = self.new_path("puffin")
            for vector in vectors:
                vector.path = path
            self._writer.write_vectors(vectors)
            self.content.deletes += vectors

    def _delete_keys(self) -> None:
        """Delete the rows that equal one or two keys, in a partition or in the whole table."""
        if not self.content.files:
            return
        file = self.chance.choice(self.content.files)
        spec, partition = file.spec, file.partition
        whole = [number for number in range(len(self.specs)) if self.is_unpartitioned(number)]
        if self.chance.random() < 0.3:
            spec = self.chance.choice(whole)
            partition = (None,) * len(self.specs[spec])
        column = self.chance.choice([column for column in self.columns if not pa.types.is_floating(column.type)])
        rows = self.chance.sample(range(file.count), min(file.count, 2))
        deletes = EqualityDeletes(
            path=self.new_path("parquet"),
            spec=spec,
            partition=partition,
            sequence=self.sequence,
            snapshot=self.snapshot,
            columns=[column],
            keys=[(self.value(file, column, row),) for row in rows],
        )
        self._writer.write_keys(deletes)
        self.content.deletes.append(deletes)


def _is_no_float(value: float) -> bool:
    return math.isfinite(value) and pa.scalar(value).cast(pa.float32()).as_py() != value


def _transforms(column: IcebergColumn) -> list[str]:
    """Return the transforms that may partition by a column."""
    if column.id == 1:
        return ["bucket[2]", "truncate[100]"]
    kind, found = column.type, ["identity", "void"]
    if not (pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        found.append("bucket[3]")
    if pa.types.is_integer(kind) or pa.types.is_string(kind):
        found.append("truncate[4]")
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        found += ["day", "month", "year"]
    return found
