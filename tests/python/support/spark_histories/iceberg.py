"""Random histories of Iceberg tables: partitions that change, merge on read, compaction, and changed columns."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from support.models.table_states import UID, Column
from support.spark_histories.history import SMALL_INTEGERS, SPARK_TYPES
from support.spark_histories.sql_history import SqlHistory

_DAYS = ("year({})", "month({})", "day({})")
# The rules of partitions for each type.
_RULES: dict[pa.DataType, tuple[str, ...]] = {
    pa.int32(): ("{}", "bucket(3, {})", "truncate(10, {})"),
    pa.int64(): ("{}", "bucket(3, {})", "truncate(10, {})"),
    pa.string(): ("{}", "bucket(3, {})", "truncate(2, {})"),
    pa.binary(): ("bucket(3, {})", "truncate(2, {})"),
    pa.bool_(): ("{}",),
    pa.date32(): ("{}", *_DAYS),
    pa.timestamp("us", "UTC"): (*_DAYS, "hour({})"),
    pa.timestamp("us"): (*_DAYS, "hour({})"),
    pa.decimal128(9, 2): ("{}", "bucket(3, {})"),
}


class IcebergHistory(SqlHistory):
    """A table in Spark's catalog `iceberg`, which Spark SQL changes."""

    missing_types = SMALL_INTEGERS
    wider_types: ClassVar = {
        pa.int32(): pa.int64(),
        pa.float32(): pa.float64(),
        pa.decimal128(9, 2): pa.decimal128(20, 2),
    }

    def __init__(self, spark: Any, folder: Path, chance: random.Random) -> None:
        super().__init__(spark, folder, chance)
        self.name = f"n.t{uuid.uuid4().hex[:12]}"
        self.add_column(UID, pa.int64())
        self.add_columns(chance.randrange(2, 6))
        self.rules: list[str] = []
        modes = {
            f"write.{operation}.mode": chance.choice(["merge-on-read", "copy-on-write"])
            for operation in ("delete", "update", "merge")
        }
        self.properties = modes | {
            "format-version": chance.choice(["2", "2", "3"]),
            "write.metadata.metrics.default": chance.choice(["none", "counts", "truncate(16)", "full"]),
            "write.delete.granularity": chance.choice(["file", "partition"]),
            "write.parquet.row-group-size-bytes": chance.choice(["1", "134217728"]),
            "commit.manifest.min-count-to-merge": chance.choice(["2", "100"]),
            "write.distribution-mode": chance.choice(["none", "hash"]),
        }

    def __str__(self) -> str:
        return f"Iceberg {self.properties}, after {', '.join(self.changes)}"

    @property
    def sql_name(self) -> str:
        return f"iceberg.{self.name}"

    def choices(self) -> dict[Callable[[], None], int]:
        choices = super().choices()
        if not self.changes:
            return choices
        choices |= {
            self._rewrite_files: 2,
            self._rewrite_manifests: 1,
            self._rename: 1,
            self._drop: 1,
            self._widen: 2,
            self._change_partitions: 3,
            self._overwrite: 1,
            self._expire: 1,
        }
        if self.properties["format-version"] == "2":
            choices[self._rewrite_deletes] = 1
        if len(self.versions()) > 1:
            choices[self._roll_back] = 1
        return choices

    def read(self, as_of: Any = None) -> Any:
        options = {} if as_of is None else {"snapshot-id": as_of}
        return self.spark.read.options(**options).format("iceberg").load(self.sql_name)

    def version(self) -> int:
        rows = self.sql(f"SELECT snapshot_id FROM {self.sql_name}.refs WHERE name = 'main'")
        return int(rows[0].snapshot_id)

    # Rows

    def draw(self, column: Column) -> Any:
        while True:
            value = super().draw(column)
            # The value is part of the names of folders, which cannot be longer than 255 bytes.
            is_in_path = isinstance(value, str) and any(column.name in rule for rule in self.rules)
            if not is_in_path or len(value.encode()) <= 20:
                return value

    def create(self) -> None:
        columns = ", ".join(f"`{column.name}` {SPARK_TYPES[column.type]}" for column in self.columns)
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in self.properties.items())
        self.sql(f"CREATE TABLE {self.sql_name} ({columns}) USING iceberg TBLPROPERTIES ({properties})")
        described = self.spark.sql(f"DESCRIBE EXTENDED {self.sql_name}").where("col_name = 'Location'").collect()
        self.folder = Path(described[0].data_type.removeprefix("file:"))
        for _ in range(self.chance.choice([0, 1, 2])):
            self._add_rule()
        self.append()

    def append(self) -> None:
        self.rows(self.new_uids(self.chance.choice([1, 5, 20, 40]))).writeTo(self.sql_name).append()

    def _overwrite(self) -> None:
        """Replace the partitions of some new rows."""
        self.rows(self.new_uids(3)).writeTo(self.sql_name).overwritePartitions()

    # Files and versions

    def _call(self, procedure: str, arguments: str = "") -> None:
        self.sql(f"CALL iceberg.system.{procedure}(table => '{self.name}'{arguments})")

    def _rewrite_files(self) -> None:
        options = ", options => map('rewrite-all', 'true')"
        if self.chance.random() < 0.5:
            options += f", strategy => 'sort', sort_order => '{UID} DESC'"
        self._call("rewrite_data_files", options)

    def _rewrite_deletes(self) -> None:
        self._call("rewrite_position_delete_files", ", options => map('rewrite-all', 'true')")

    def _rewrite_manifests(self) -> None:
        self._call("rewrite_manifests")

    def _expire(self) -> None:
        self._call("expire_snapshots", ", older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1")
        self.forget_versions()

    def _roll_back(self) -> None:
        """Return to the rows of an older snapshot, with the newest columns."""
        version = self.chance.choice(self.versions())
        self.sql(f"CALL iceberg.system.set_current_snapshot(table => '{self.name}', snapshot_id => {version})")

    # Columns and partitions

    def _add_rule(self) -> None:
        columns = [column for column in self.columns[1:] if column.type in _RULES]
        if columns:
            column = self.chance.choice(columns)
            rule = self.chance.choice(_RULES[column.type]).format(column.name)
            if all(column.name not in other for other in self.rules):
                self.alter(f"ADD PARTITION FIELD {rule}")
                self.rules.append(rule)

    def _change_partitions(self) -> None:
        if self.rules and self.chance.random() < 0.4:
            rule = self.rules.pop(self.chance.randrange(len(self.rules)))
            self.alter(f"DROP PARTITION FIELD {rule}")
        else:
            self._add_rule()
        self.append()

    def free_columns(self) -> list[Column]:
        return [column for column in self.columns[1:] if all(column.name not in rule for rule in self.rules)]
