"""A query of an engine with a limit reads only the files that it needs."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parsieve as ps

FILES, GOOD = 80, 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write files of which the last half has good footers, and damaged rows."""
    for part in range(FILES):
        path = tmp_path / f"{part:02}.parquet"
        rows = {"ts": range(part * 100, part * 100 + 100), "user": [number % 20 for number in range(100)]}
        pq.write_table(pa.table(rows), path)
        if part >= GOOD:
            data = path.read_bytes()
            footer = int.from_bytes(data[-8:-4], "little") + 8
            path.write_bytes(b"PAR1" + bytes(len(data) - footer - 4) + data[-footer:])
    return tmp_path


def test_polars_stops_early(folder: Path) -> None:
    frame = ps.scan_polars(folder)
    assert frame.head(10).collect()["ts"].to_list() == list(range(10))
    assert frame.filter(pl.col("user") == 3).head(10).collect()["user"].to_list() == [3] * 10
    # The limit is before the filter.
    assert frame.head(110).filter(pl.col("user") == 3).collect().height == 6
    with pytest.raises(ps.FormatError):
        frame.filter(pl.col("user") == 3).collect()


def test_datasets_stop_early(folder: Path) -> None:
    dataset = ps.open_table(folder).dataset()
    assert dataset.head(10, filter=pc.field("user") == 3)["user"].to_pylist() == [3] * 10
    with duckdb.connect() as connection:
        ps.duckdb.attach(connection, dataset, "events")
        query = "SELECT ts FROM events WHERE user = 3"
        assert len(connection.sql(f"{query} LIMIT 10").fetchall()) == 10
        with pytest.raises(duckdb.Error):
            connection.sql(query).fetchall()


def test_a_table_in_place_of_the_connection_is_a_clear_error(folder: Path) -> None:
    with duckdb.connect() as connection, pytest.raises(TypeError, match=r"connection must be a connection of DuckDB"):
        # The first two arguments are swapped.
        ps.duckdb.attach(folder, connection, "events")  # type: ignore[arg-type]


def test_a_limit_without_an_order_stops_early(folder: Path) -> None:
    table = ps.open_table(folder)
    assert table.plan("user = 3", limit=10).to_arrow()["user"].to_pylist() == [3] * 10
    assert table.plan(limit=0).to_arrow().schema == table.schema
