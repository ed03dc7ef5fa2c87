"""What a load by `spark.read.format("parsieve")` asks for: its options, its state of the table, and its shares of rows.

Nothing here needs PySpark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from parsieve.lake.as_of import state_of
from parsieve.lake.base import Snapshot
from parsieve.lake.folder.table import ParquetDir
from parsieve.lake.open import open_lake
from parsieve.plan.engines import Rows, rows_of
from parsieve.plan.plan import Plan
from parsieve.predicate.bind import bind
from parsieve.predicate.parse import parse
from parsieve.predicate.render import to_pyarrow
from parsieve.table import Table

OPTIONS = ("path", "where", "as_of", "format", "index_location", "storage_options", "timezone")
# What one task reads, unless one file is larger; a file counts for something even if it is small.
TASK_BYTES = 64 << 20
FILE_BYTES = 4 << 20


@dataclass(frozen=True)
class Request:
    """One load. It is small, because Spark sends it along with every task."""

    path: str
    where: str | None = None
    as_of: str | None = None
    format: str | None = None
    index_location: str | None = None
    storage_options: Mapping[str, str] | None = None
    timezone: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Request:
        """The request of a reader's options, whose names Spark does not tell by their case.

        >>> from parsieve.spark.loading import Request
        >>> Request.of({"path": "lake/orders", "where": "order_id = 42"}).where
        'order_id = 42'
        """
        given = {name.lower(): value for name, value in options.items()}
        if unknown := given.keys() - set(OPTIONS):
            raise ValueError(f"options are {', '.join(OPTIONS)}, not {', '.join(sorted(unknown))}")
        if "path" not in given:
            raise ValueError('say which table to load: spark.read.format("parsieve").load("lake/orders")')
        stored = given.pop("storage_options", None)
        return cls(**given, storage_options=None if stored is None else _object(stored))

    def table(self) -> Table:
        """The table, opened."""
        return Table(open_lake(self.path, self.format, self.storage_options), self.index_location)

    def snapshot(self, table: Table) -> Snapshot:
        """The state that is asked for."""
        return table.opened.snapshot(state_of(self.as_of, table.format))

    def settled(self) -> tuple[Request, pa.Schema, frozenset[str]]:
        """The same of the table's state at this moment, its columns, and those of INT96; a wrong condition raises.

        A plain folder or a Hudi table has no name for a state of which nobody else's commits can become a part, so that
        theirs is the one of the plan.
        """
        table = self.table()
        snapshot = self.snapshot(table)
        to_pyarrow(parse(self.where, snapshot.schema, self.timezone))
        fixed = replace(self, format=table.format)
        lake = table.opened.lake
        if table.format == "delta":
            fixed = replace(fixed, as_of=str(snapshot.id))
        elif table.format == "iceberg":
            from parsieve.lake.iceberg.table import Iceberg

            assert isinstance(lake, Iceberg)
            # Not by the snapshot alone: the schema may change without a new one.
            fixed = replace(fixed, path=lake.metadata_file)
        instants = _instants(lake, snapshot) if isinstance(lake, ParquetDir) else frozenset()
        return fixed, snapshot.schema, instants

    def plan(self) -> Plan:
        """The files that can hold a row of the answer."""
        table = self.table()
        snapshot = self.snapshot(table)
        return table.opened.plan(bind(self.where, snapshot.schema, timezone=self.timezone), snapshot)


def shares(plan: Plan) -> list[Rows]:
    """The rows of a plan, some neighbouring files for each task."""
    found: list[list[int]] = []
    held = 0
    for number in plan.record.kept:
        weight = max(plan.record.snapshot.slices[number].size or 0, FILE_BYTES)
        if not found or held + weight > TASK_BYTES:
            found.append([])
            held = 0
        found[-1].append(number)
        held += weight
    return [rows_of(plan.record, numbers) for numbers in found]


def _object(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        # The text itself may hold secrets.
        raise ValueError('storage_options is a JSON object of texts, such as {"aws_region": "eu-west-1"}')
    return found


def _instants(lake: ParquetDir, snapshot: Snapshot) -> frozenset[str]:
    """Columns of nanoseconds that the first file, whose columns are the table's, stores as INT96: instants to Spark."""
    waiting = {field.name for field in snapshot.schema if field.type == pa.timestamp("ns")}
    if not waiting:
        return frozenset()
    with pq.ParquetFile(lake.storage.open(snapshot.slices[0].native.path)) as file:
        leaves = [file.schema.column(number) for number in range(len(file.schema))]
    return frozenset(leaf.path for leaf in leaves if leaf.physical_type == "INT96" and leaf.path in waiting)
