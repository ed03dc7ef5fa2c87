"""The request of a `spark.read.format("parsieve")`: its options, its state of the table, and its tasks.

This module does not need PySpark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from parsieve.lake.as_of import state_of
from parsieve.lake.base import Snapshot
from parsieve.lake.open import open_lake
from parsieve.plan.open_table import OpenTable
from parsieve.plan.record import PlanRecord
from parsieve.plan.results.engines import Rows
from parsieve.predicate.bind import bind
from parsieve.predicate.parse import parse
from parsieve.predicate.render.form import prepare
from parsieve.spark.scan.read import SCANS

OPTIONS = ("path", "where", "as_of", "format", "index_location", "storage_options", "timezone")
# The bytes that one task reads, unless one file is larger. A small file counts as `FILE_BYTES`.
TASK_BYTES = 64 << 20
FILE_BYTES = 4 << 20


@dataclass(frozen=True)
class Request:
    """The options of one load. Spark sends them with every task, so they must stay small."""

    path: str
    where: str | None = None
    as_of: str | None = None
    format: str | None = None
    index_location: str | None = None
    storage_options: Mapping[str, str] | None = None
    timezone: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Request:
        """Return the request of a reader's options, whose names are not case-sensitive in Spark.

        >>> from parsieve.spark.source.request import Request
        >>> Request.of({"path": "lake/orders", "where": "order_id = 42"}).where
        'order_id = 42'
        """
        given = {name.lower(): value for name, value in options.items()}
        if unknown := given.keys() - set(OPTIONS):
            raise ValueError(f"unknown options: {', '.join(sorted(unknown))}; options are {', '.join(OPTIONS)}")
        if "path" not in given:
            raise ValueError('no table to load; pass its path, as in spark.read.format("parsieve").load("lake/orders")')
        stored = given.pop("storage_options", None)
        return cls(**given, storage_options=None if stored is None else _object(stored))

    def table(self) -> OpenTable:
        """Open the table."""
        return OpenTable.of(open_lake(self.path, self.format, self.storage_options), self.index_location)

    def snapshot(self, table: OpenTable) -> Snapshot:
        """Return the requested state of the table."""
        return table.snapshot(state_of(self.as_of, table.lake.format))

    def pinned(self) -> tuple[Request, pa.Schema, frozenset[str]]:
        """Pin the request to the table's current state. Return it with the table's columns, and those in INT96.

        Plain folders and Hudi tables cannot be pinned to a version here; they are pinned when the plan is made. Raises
        an error if the condition is wrong.
        """
        table = self.table()
        snapshot = self.snapshot(table)
        prepare(parse(self.where, snapshot.schema, self.timezone))
        scan = SCANS[table.lake.format]
        path, as_of = scan.pinned(table.lake, snapshot)
        pinned = replace(self, format=table.lake.format, path=path or self.path, as_of=as_of or self.as_of)
        return pinned, snapshot.schema, scan.int96_columns(table.lake, snapshot)

    def plan(self) -> PlanRecord:
        """Plan which files can contain a matching row."""
        table = self.table()
        snapshot = self.snapshot(table)
        return table.plan(bind(self.where, snapshot.schema, timezone=self.timezone), snapshot).record


def shares(plan: PlanRecord) -> list[Rows]:
    """Divide the rows of a plan into tasks, each with some neighboring files."""
    tasks: list[list[int]] = []
    task_bytes = 0
    for number in plan.kept:
        file_bytes = max(plan.snapshot.slices[number].size or 0, FILE_BYTES)
        if not tasks or task_bytes + file_bytes > TASK_BYTES:
            tasks.append([])
            task_bytes = 0
        tasks[-1].append(number)
        task_bytes += file_bytes
    return [Rows.of(plan, numbers) for numbers in tasks]


def _object(text: str) -> dict[str, str]:
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(value, str) for value in options.values()):
        # Do not show the text, which may contain secrets.
        raise ValueError('storage_options must be a JSON object of strings, such as {"aws_region": "eu-west-1"}')
    return options
