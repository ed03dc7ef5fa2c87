"""`open_table`: a table of Parquet files, whatever its format, and the door to its plans and its index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from parsieve.lake.base import AsOf, Lake
from parsieve.lake.detect import open_lake
from parsieve.plan import Plan
from parsieve.planning import make_plan
from parsieve.prune.footer_stats import Footers


class Table:
    """A table, from `open_table`. Threads may share it; what it learns of files is kept for the next plan."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._footers = Footers()

    def __repr__(self) -> str:
        return f"<parsieve.Table {self.format} {self.uri}>"

    @property
    def format(self) -> str:
        """`parquet`, `delta`, `iceberg` or `hudi`."""
        return self._lake.format

    @property
    def uri(self) -> str:
        """The table's folder."""
        return self._lake.uri

    @property
    def schema(self) -> pa.Schema:
        """The columns that the table has now."""
        return self._lake.snapshot().schema

    def plan(
        self,
        where: Any = None,
        as_of: AsOf = None,
        *,
        keys: Mapping[Any, Any] | None = None,
        row_groups: bool | None = None,
        timezone: str | None = None,
    ) -> Plan:
        """Find the files, and row groups in them, that can hold a row for which `where` is true.

        Args:
            where: SQL text, a pyarrow or Polars expression, or `[(column, op, value)]` tuples; None is every row.
            as_of: The format's own name of a state (Delta version, Iceberg snapshot id, Hudi instant), or a `datetime`.
            keys: Arrow columns by the names of columns that must have one of their values (a semi-join).
            row_groups: Read footers to judge row groups too. None reads them where nothing else is known of a file.
            timezone: Where the clocks stand of literals that name no zone, beside columns that have one.

        >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
        >>> folder = tempfile.mkdtemp()
        >>> for part in range(3):
        ...     ids = range(part * 100, part * 100 + 100)
        ...     pq.write_table(pa.table({"id": ids}), f"{folder}/part-{part}.parquet")
        >>> plan = ps.open_table(folder).plan("id = 142")
        >>> [path.rpartition("/")[2] for path in plan.files]
        ['part-1.parquet']
        >>> plan.to_arrow()["id"].to_pylist()
        [142]
        """
        return make_plan(self._lake, self._footers, where, as_of, keys, row_groups, timezone)


def open_table(source: Any, format: str | None = None, storage_options: Mapping[str, str] | None = None) -> Table:
    """The table at a path or URI, in a `(filesystem, path)` pair, or that of a `DeltaTable` or a pyiceberg `Table`.

    Plain folders of Parquet files (hive-partitioned or not), Delta Lake, Iceberg and Hudi are told apart by what lies
    in the folder, or by `format`.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> pq.write_table(pa.table({"id": [1, 2]}), folder + "/part-0.parquet")
    >>> ps.open_table(folder).format
    'parquet'
    """
    return Table(open_lake(source, format, storage_options))
