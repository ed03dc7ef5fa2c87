"""Random histories of Hudi tables: both types, several index types and key generators, and services between writes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.models.odd_values import PATH_TEXTS
from support.models.table_states import UID, Column
from support.spark_histories.history import LOCAL_TIMES, SMALL_INTEGERS, SPARK_TYPES, SparkHistory

_KEY_GENERATORS = "org.apache.hudi.keygen."
_INDEXES = ("SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM", "BUCKET", "RECORD_INDEX")
_PARTITION_TYPES = (pa.int32(), pa.string(), pa.date32(), pa.int64(), pa.bool_())
# parsieve takes their values from the file, so a record must not stay in the partition of another value.
# Spark reads timestamps from paths, but not all digits.
_OTHER_PARTITION_TYPES = (pa.decimal128(9, 2), pa.float64())
# Hudi does not have to escape these texts in paths.
_PLAIN_TEXTS = ["a", "b", "a b", "é", "1", "A"]
# The options that differ between tables.
_SHOWN = (
    "hoodie.datasource.write.table.type",
    "hoodie.write.table.version",
    "hoodie.index.type",
    "hoodie.simple.index.update.partition.path",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.metadata.enable",
    "hoodie.parquet.small.file.limit",
    "hoodie.upsert.shuffle.parallelism",
    "hoodie.write.record.merge.mode",
)


class HudiHistory(SparkHistory):
    """A table that Spark's data source writes, and whose services Spark's procedures run."""

    missing_types = (*SMALL_INTEGERS, *LOCAL_TIMES)

    def __init__(self, spark: Any, folder: Path, chance: random.Random) -> None:
        super().__init__(spark, folder, chance)
        self.name = f"h{uuid.uuid4().hex[:12]}"
        self.is_registered = False
        self.is_scheduled = False
        self.kind = chance.choice(["COPY_ON_WRITE", "MERGE_ON_READ", "MERGE_ON_READ"])
        self.table_version = chance.choice(["6", "8", "9"])
        self.index = chance.choice(_INDEXES)
        self.is_escaped = chance.random() < 0.5
        self.add_column(UID, pa.int64())
        self.order = self.add_column("v", pa.int64())
        self.keeps_partition = chance.random() < 0.5
        kinds = _PARTITION_TYPES if self.keeps_partition else (*_PARTITION_TYPES, *_OTHER_PARTITION_TYPES)
        self.partitions = [
            self.add_column(f"p{number}", chance.choice(kinds)) for number in range(chance.choice([0, 0, 1, 1, 2]))
        ]
        self.add_columns(chance.randrange(2, 5))
        self.options = self._options()

    def __str__(self) -> str:
        kinds = ", ".join(SPARK_TYPES[column.type] for column in self.partitions)
        chosen = {name.removeprefix("hoodie."): self.options[name] for name in _SHOWN if name in self.options}
        return f"Hudi {chosen}, partitioned by ({kinds}), after {', '.join(self.changes)}"

    def _options(self) -> dict[str, str]:
        chance = self.chance
        generator = ("NonpartitionedKeyGenerator", "SimpleKeyGenerator", "ComplexKeyGenerator")[len(self.partitions)]
        moves = str(not self.keeps_partition).lower()
        has_metadata = self.index == "RECORD_INDEX" or chance.random() < 0.5
        options = {
            "hoodie.table.name": "t",
            "hoodie.write.table.version": self.table_version,
            "hoodie.write.auto.upgrade": "false",
            "hoodie.datasource.write.table.type": self.kind,
            "hoodie.datasource.write.recordkey.field": self.columns[0].name,
            "hoodie.datasource.write.precombine.field": self.order.name,
            "hoodie.datasource.write.keygenerator.class": _KEY_GENERATORS + generator,
            "hoodie.datasource.write.hive_style_partitioning": str(chance.random() < 0.6).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(self.is_escaped).lower(),
            "hoodie.index.type": self.index,
            "hoodie.simple.index.update.partition.path": moves,
            "hoodie.bloom.index.update.partition.path": moves,
            "hoodie.record.index.update.partition.path": moves,
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.metadata.enable": str(has_metadata).lower(),
            "hoodie.metadata.record.index.enable": str(self.index == "RECORD_INDEX").lower(),
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.write.complex.keygen.validation.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.parquet.small.file.limit": chance.choice(["0", "104857600"]),
        }
        parallelism = chance.choice(["1", "2"])
        for operation in ("bulkinsert", "upsert", "insert", "delete"):
            options[f"hoodie.{operation}.shuffle.parallelism"] = parallelism
        if self.partitions:
            names = ",".join(column.name for column in self.partitions)
            options["hoodie.datasource.write.partitionpath.field"] = names
        if self.table_version != "6" and chance.random() < 0.3:
            options["hoodie.write.record.merge.mode"] = "COMMIT_TIME_ORDERING"
        return options

    def choices(self) -> dict[Callable[[], None], int]:
        if not self.changes:
            # A bulk insert and a bucket index do not agree on the names of the file groups.
            return {self._insert: 1} if self.index == "BUCKET" else {self._insert: 1, self._bulk_insert: 3}
        choices: dict[Callable[[], None], int] = {
            self._upsert: 6,
            self._insert: 2,
            self._delete: 3,
            self._clean: 1,
            self._add_column: 1,
        }
        if len(self.versions()) > 1:
            choices[self._roll_back] = 1
        if self.partitions:
            choices |= {self._overwrite: 1, self._delete_partition: 1}
        if self.index != "BUCKET":
            choices |= {self._bulk_insert: 1, self._cluster: 1}
        if self.index in ("SIMPLE", "BLOOM") and self.table_version != "6":
            choices |= {self._update_by_sql: 2, self._merge_by_sql: 2}
        if self.kind == "MERGE_ON_READ":
            choices |= (
                {self._run_compaction: 3} if self.is_scheduled else {self._compact: 2, self._schedule_compaction: 2}
            )
        return choices

    def read(self, as_of: Any = None) -> Any:
        options = {} if as_of is None else {"as.of.instant": as_of}
        return self.spark.read.format("hudi").options(**options).load(str(self.folder))

    def version(self) -> str:
        folder = self.folder / ".hoodie" / ("" if self.table_version == "6" else "timeline")
        suffixes = (".commit", ".deltacommit", ".replacecommit")
        # Since table version 8, the name of a completed instant also contains the time when it completed.
        return max(
            path.name.partition(".")[0].partition("_")[0] for path in folder.iterdir() if path.suffix in suffixes
        )

    def may_refuse(self) -> bool:
        # The package `hudi` reads no file groups without a base file.
        return self.kind == "MERGE_ON_READ"

    # Writes

    def _write(self, operation: str, rows: list[list[Any]], **options: str) -> None:
        options = {**self.options, "hoodie.datasource.write.operation": operation, **options}
        frame = self.frame(rows).coalesce(self.chance.choice([1, 2]))
        frame.write.format("hudi").options(**options).mode("append").save(str(self.folder))

    def _row(self, uid: int) -> list[Any]:
        return [uid, self.chance.randrange(100), *(self.draw(column) for column in self.columns[2:])]

    def draw(self, column: Column) -> Any:
        if column in self.partitions and pa.types.is_string(column.type):
            return self.chance.choice(PATH_TEXTS if self.is_escaped else _PLAIN_TEXTS)
        value = super().draw(column)
        while value is None and column in self.partitions:
            value = super().draw(column)
        return value

    def _insert(self) -> None:
        self._write("insert", [self._row(uid) for uid in self.new_uids(self.chance.choice([1, 5, 20]))])

    def _bulk_insert(self) -> None:
        self._write("bulk_insert", [self._row(uid) for uid in self.new_uids(self.chance.choice([5, 20, 40]))])

    def _upsert(self) -> None:
        uids = self.some_uids(self.chance.choice([1, 4, 10])) + self.new_uids(self.chance.choice([0, 0, 2]))
        self._write("upsert", [self._row(uid) for uid in uids])

    def _delete(self) -> None:
        self._write("delete", [self._row(uid) for uid in self.some_uids(self.chance.choice([1, 3, 8]))])

    def _update_by_sql(self) -> None:
        free = [column for column in self.columns[2:] if column not in self.partitions]
        column, other = self.chance.choice(free), self.chance.choice(free)
        value = f"`{other.name}`" if other.type == column.type else "NULL"
        uids = ", ".join(map(str, self.some_uids(3)))
        self._register()
        self.spark.sql(f"UPDATE {self.name} SET `{column.name}` = {value} WHERE {UID} IN ({uids})")

    def _merge_by_sql(self) -> None:
        """Update two columns of some rows. On merge-on-read tables, Hudi may write only these columns."""
        self.frame([self._row(uid) for uid in self.some_uids(3)]).createOrReplaceTempView("merged")
        column = self.chance.choice([column for column in self.columns[2:] if column not in self.partitions])
        self._register()
        self.spark.sql(
            f"MERGE INTO {self.name} t USING merged m ON t.{UID} = m.{UID} "
            f"WHEN MATCHED THEN UPDATE SET `{column.name}` = m.`{column.name}`, v = m.v"
        )

    def _overwrite(self) -> None:
        """Replace the partitions of some new rows."""
        self._write("insert_overwrite", [self._row(uid) for uid in self.new_uids(3)])

    def _delete_partition(self) -> None:
        partitions = sorted(
            {str(path.parent.relative_to(self.folder)) for path in self.folder.rglob(".hoodie_partition_metadata*")}
        )
        chosen = self.chance.choice(partitions)
        if "," in chosen:
            return
        self._write("delete_partition", [self._row(0)], **{"hoodie.datasource.write.partitions.to.delete": chosen})

    def _add_column(self) -> None:
        self.add_columns(1)
        if self.is_registered:
            # The catalog has the earlier columns.
            self.spark.sql(f"DROP TABLE {self.name}")
            self.is_registered = False
        self._upsert()

    # Services

    def _register(self) -> None:
        if not self.is_registered:
            self.spark.sql(f"CREATE TABLE {self.name} USING hudi LOCATION '{self.folder}'")
            self.is_registered = True

    def _call(self, procedure: str, **arguments: Any) -> list[Any]:
        self._register()
        options = ",".join(
            f"{name}={value}" for name, value in self.options.items() if name.startswith("hoodie.metadata")
        )
        arguments = {"table": self.name, **arguments}
        if "options" in arguments:
            arguments["options"] += "," + options
        given = ", ".join(f"{name} => {value!r}" for name, value in arguments.items())
        return list(self.spark.sql(f"CALL {procedure}({given})").collect())

    def _schedule_compaction(self) -> None:
        self._call("run_compaction", op="schedule", options="hoodie.compact.inline.max.delta.commits=1")
        self.is_scheduled = True

    def _run_compaction(self) -> None:
        self._call("run_compaction", op="run", options="hoodie.compact.inline.max.delta.commits=1")
        self.is_scheduled = False

    def _compact(self) -> None:
        self._schedule_compaction()
        self._run_compaction()

    def _cluster(self) -> None:
        column = self.chance.choice(self.columns)
        self._call(
            "run_clustering",
            op="scheduleAndExecute",
            order=column.name,
            options="hoodie.clustering.plan.strategy.small.file.limit=1000000000",
        )

    def _clean(self) -> None:
        self._call("run_clean", clean_policy="KEEP_LATEST_COMMITS", retain_commits=self.chance.choice([1, 2]))
        self.forget_versions()

    def _roll_back(self) -> None:
        """Undo the last write."""
        last = self.version()
        self._call("rollback_to_instant", instant_time=last)
        self.forget_versions(lambda version: version < last)
