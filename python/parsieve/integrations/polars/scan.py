"""`scan_polars` opens a table for Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsieve.integrations.live_table import LiveTable
from parsieve.integrations.opening import opened_table
from parsieve.lake.base import AsOf

if TYPE_CHECKING:
    import polars as pl


def scan_polars(table: Any, *, as_of: AsOf = None, pin: bool = False) -> pl.LazyFrame:
    """Return a table as a Polars LazyFrame that skips the files and row groups that a query does not need.

    Polars passes the filters, columns and limits of each query on to parsieve, also through joins, aggregations and
    other steps in between. parsieve makes a plan and reads the rows that may match, and Polars filters them again. So
    every filter is exact. A filter that parsieve does not understand skips nothing.

    Each query sees the current state of the table. If you join a table with itself, its two parts may see two states.
    Pass `pin=True` or `as_of` to avoid this.

    Args:
        table: A `Table`, or what `open_table` accepts.
        as_of: The state of the table, as for `Table.plan`. None is the current state.
        pin: Whether all queries see the state that the table has now.

    >>> import tempfile, polars as pl, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part], "name": ["abc"[part]]}), f"{folder}/part-{part}.parquet")
    >>> ps.scan_polars(folder).filter(pl.col("id") == 1).select("name").collect().item()
    'b'
    """
    from parsieve.integrations.polars.source import frame_of_table

    return frame_of_table(LiveTable.of(opened_table(table), as_of, pin=pin))
