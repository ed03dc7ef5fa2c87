"""Tables in SQL of DuckDB: `parsieve.duckdb.attach`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parsieve.integrations.opening import opened_table
from parsieve.lake.base import AsOf

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def attach(connection: DuckDBPyConnection, table: Any, name: str, *, as_of: AsOf = None) -> None:
    """Give a table a name in a DuckDB connection, so that SQL on it skips files and row groups.

    Each query sees the table as it is then, or its state at `as_of`. The name is valid for this connection, until
    `detach`, but not for its cursors. It replaces a table that was attached with the same name.

    Args:
        connection: A connection of the package `duckdb`.
        table: A `Table`, a dataset of `Table.dataset`, or what `open_table` accepts.
        name: The name of the table in SQL.
        as_of: The state of the table, as for `Table.plan`. None is the current state.

    >>> import tempfile, duckdb, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part], "name": ["abc"[part]]}), f"{folder}/part-{part}.parquet")
    >>> con = duckdb.connect()
    >>> ps.duckdb.attach(con, folder, name="orders")
    >>> con.sql("SELECT name FROM orders WHERE id = 1").fetchall()
    [('b',)]
    >>> ps.duckdb.detach(con, "orders")
    """
    from parsieve.integrations.dataset.dataset import TableDataset
    from parsieve.integrations.live_table import LiveTable

    if not hasattr(connection, "register"):
        raise TypeError(f"connection must be a connection of DuckDB, such as duckdb.connect(), not {connection!r}")
    if isinstance(table, TableDataset) and as_of is not None:
        raise TypeError("as_of does not apply to a dataset; pass it to Table.dataset")
    is_dataset = isinstance(table, TableDataset)
    connection.register(name, table if is_dataset else TableDataset(LiveTable.of(opened_table(table), as_of)))


def detach(connection: DuckDBPyConnection, name: str) -> None:
    """Remove the name of a table from a DuckDB connection. The table does not change."""
    connection.unregister(name)
