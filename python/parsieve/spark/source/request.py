"""What a load by `spark.read.format("parsieve")` asks for: its options, its state of the table, and its shares of rows.

Nothing here needs PySpark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from parsieve.lake.as_of import state_of
from parsieve.lake.base import Snapshot
from parsieve.lake.open import open_lake
from parsieve.plan.engines import Rows
from parsieve.plan.plan import Plan
from parsieve.predicate.parse import parse
from parsieve.predicate.render import to_pyarrow
from parsieve.spark.scan.read import SCANS
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

        >>> from parsieve.spark.source.request import Request
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
        return table._snapshot(state_of(self.as_of, table.format))

    def pinned(self) -> tuple[Request, pa.Schema, frozenset[str]]:
        """Pin the request to the table's current state. Return it with the table's columns, and those in INT96.

        Plain folders and Hudi tables cannot be pinned to a version here; they are pinned when the plan is made. Raises
        an error if the condition is wrong.
        """
        table = self.table()
        snapshot = self.snapshot(table)
        to_pyarrow(parse(self.where, snapshot.schema, self.timezone))
        scan = SCANS[table.format]
        path, as_of = scan.pinned(table._lake, snapshot)
        pinned = replace(self, format=table.format, path=path or self.path, as_of=as_of or self.as_of)
        return pinned, snapshot.schema, scan.int96_columns(table._lake, snapshot)

    def plan(self) -> Plan:
        """The files that can hold a row of the answer."""
        table = self.table()
        return table._plan(self.snapshot(table), self.where, timezone=self.timezone)


def shares(plan: Plan) -> list[Rows]:
    """The rows of a plan, some neighbouring files for each task."""
    found: list[list[int]] = []
    held = 0
    for number in plan._kept:
        weight = max(plan._slice(number).size or 0, FILE_BYTES)
        if not found or held + weight > TASK_BYTES:
            found.append([])
            held = 0
        found[-1].append(number)
        held += weight
    return [plan._rows(numbers) for numbers in found]


def _object(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        # The text itself may hold secrets.
        raise ValueError('storage_options is a JSON object of texts, such as {"aws_region": "eu-west-1"}')
    return found
