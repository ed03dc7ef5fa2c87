"""Random histories of Delta tables: deletion vectors, mapped and widened columns, clustering, merges and restores."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from support.models.odd_values import PATH_TEXTS
from support.models.table_states import UID, Column
from support.spark_histories.history import SPARK_TYPES
from support.spark_histories.sql_history import SqlHistory


class DeltaHistory(SqlHistory):
    """A table that Spark SQL changes."""

    # Delta 3 widens other types only if it merges schemas.
    wider_types: ClassVar = {pa.int8(): pa.int16(), pa.int16(): pa.int32()}

    def __init__(self, spark: Any, folder: Path, chance: random.Random) -> None:
        super().__init__(spark, folder, chance)
        self.add_column(UID, pa.int64())
        self.add_columns(chance.randrange(2, 6))
        parts = [column for column in self.columns[1:] if column.type not in (pa.binary(), pa.float32(), pa.float64())]
        self.partitions = chance.sample(parts, min(len(parts), chance.choice([0, 0, 1, 2])))
        self.is_clustered = not self.partitions and chance.random() < 0.3
        self.is_mapped = chance.random() < 0.5
        self.properties = {
            "delta.columnMapping.mode": "name" if self.is_mapped else "none",
            "delta.enableDeletionVectors": str(chance.random() < 0.7).lower(),
            "delta.enableTypeWidening": str(chance.random() < 0.5).lower(),
            "delta.feature.timestampNtz": "supported",
            "delta.checkpointInterval": chance.choice(["2", "10"]),
            "delta.checkpointPolicy": chance.choice(["classic", "v2"]),
            "delta.dataSkippingNumIndexedCols": "32" if self.is_clustered else chance.choice(["0", "2", "32"]),
        }

    def __str__(self) -> str:
        kinds = ", ".join(SPARK_TYPES[column.type] for column in self.partitions)
        return f"Delta {self.properties}, partitioned by ({kinds}), after {', '.join(self.changes)}"

    @property
    def sql_name(self) -> str:
        return f"delta.`{self.folder}`"

    def choices(self) -> dict[Callable[[], None], int]:
        choices = super().choices()
        if not self.changes:
            return choices
        choices |= {
            self._optimize: 2,
            self._restore: 2,
            self._vacuum: 1,
        }
        if self.is_mapped:
            choices |= {self._rename: 1, self._drop: 1}
        if self.properties["delta.enableTypeWidening"] == "true":
            choices[self._widen] = 2
        if self.partitions:
            choices[self._overwrite] = 1
        return choices

    def read(self, as_of: Any = None) -> Any:
        options = {} if as_of is None else {"versionAsOf": as_of}
        return self.spark.read.format("delta").options(**options).load(str(self.folder))

    def version(self) -> int:
        return int(self.sql(f"DESCRIBE HISTORY {self.sql_name} LIMIT 1")[0].version)

    # Rows

    def draw(self, column: Column) -> Any:
        if column in self.partitions and pa.types.is_string(column.type):
            return self.chance.choice([*PATH_TEXTS, None])
        return super().draw(column)

    def create(self) -> None:
        columns = ", ".join(f"`{column.name}` {SPARK_TYPES[column.type]}" for column in self.columns)
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in self.properties.items())
        layout = ""
        if self.partitions:
            layout = f"PARTITIONED BY ({', '.join(column.name for column in self.partitions)})"
        elif self.is_clustered:
            layout = f"CLUSTER BY ({UID})"
        self.sql(f"CREATE TABLE {self.sql_name} ({columns}) USING delta {layout} TBLPROPERTIES ({properties})")
        self.append()

    def append(self) -> None:
        rows = self.rows(self.new_uids(self.chance.choice([1, 5, 20, 40])))
        rows.write.format("delta").mode("append").save(str(self.folder))

    def _overwrite(self) -> None:
        """Replace the partitions of some new rows."""
        writer = self.rows(self.new_uids(3)).write.format("delta").mode("overwrite")
        writer.option("partitionOverwriteMode", "dynamic").save(str(self.folder))

    # Files and versions

    def _optimize(self) -> None:
        order = ""
        if not self.is_clustered and self.chance.random() < 0.5 and len(self.partitions) < len(self.columns) - 1:
            order = f"ZORDER BY ({UID})"
        self.sql(f"OPTIMIZE {self.sql_name} {order}")

    def _restore(self) -> None:
        version = self.chance.choice(self.versions())
        state = self.state(version)
        # A restore also brings back the columns.
        self.sql(f"RESTORE TABLE {self.sql_name} TO VERSION AS OF {version}")
        self.columns = [Column(column.id, column.name, column.type) for column in state.columns]
        ids = {column.id for column in self.partitions}
        self.partitions = [column for column in self.columns if column.id in ids]

    def _vacuum(self) -> None:
        self.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.sql(f"VACUUM {self.sql_name} RETAIN 0 HOURS")
        self.forget_versions()

    # Columns

    def free_columns(self) -> list[Column]:
        return [column for column in self.columns[1:] if column not in self.partitions]
