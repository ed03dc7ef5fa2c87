"""pyarrow, Polars and DuckDB read a plan as an Arrow stream."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

WHEN = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def plan(tmp_path: Path) -> ps.Plan:
    """Return a plan of eleven of fifty rows, in three of five files."""
    for part in range(5):
        ids = list(range(part * 10, part * 10 + 10))
        columns = {
            "id": ids,
            "kind": pa.array(["view", "buy"] * 5).dictionary_encode(),
            "at": pa.array([WHEN + dt.timedelta(hours=id) for id in ids], pa.timestamp("us", "Europe/Berlin")),
            "tags": [[str(id)] for id in ids],
        }
        pq.write_table(pa.table(columns), tmp_path / f"part-{part}.parquet", row_group_size=5)
    return ps.open_table(tmp_path).plan("id BETWEEN 18 AND 27 OR id = 49")


def run_query(plan: ps.Plan, query: str) -> duckdb.DuckDBPyRelation:
    """Run a query that refers to the variable `plan`."""
    assert isinstance(plan, ps.Plan)
    relation = duckdb.sql(query)
    assert relation is not None
    return relation


def test_pyarrow_reads_a_plan(plan: ps.Plan) -> None:
    assert pa.table(plan).equals(plan.to_arrow())
    reader = pa.RecordBatchReader.from_stream(plan)
    assert reader.schema == plan.schema
    assert reader.read_all()["id"].to_pylist() == [*range(18, 28), 49]


def test_polars_reads_a_plan(plan: ps.Plan) -> None:
    frame = pl.DataFrame(plan)
    assert frame["id"].to_list() == [*range(18, 28), 49]
    assert frame["at"].dtype == pl.Datetime("us", "Europe/Berlin")
    assert frame["at"][0] == WHEN + dt.timedelta(hours=18)


def test_duckdb_reads_a_plan_by_its_name(plan: ps.Plan) -> None:
    assert run_query(plan, "SELECT id, kind, tags FROM plan WHERE id > 26 ORDER BY id").fetchall() == [
        (27, "buy", ["27"]),
        (49, "buy", ["49"]),
    ]
    relation = run_query(plan, "FROM plan")
    # A relation may be read more than once.
    assert [relation.to_arrow_table().num_rows for _ in range(2)] == [11, 11]
    # Through Arrow, timestamps with zones do not need pytz.
    moments = relation.to_arrow_table()["at"].cast(pa.timestamp("us", "UTC")).to_pylist()
    assert sorted(moments)[0] == WHEN + dt.timedelta(hours=18)


def test_a_plan_can_be_read_again(plan: ps.Plan) -> None:
    assert pa.table(plan).equals(pa.table(plan))


def test_a_plan_without_rows_has_all_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2], "name": ["a", "b"]}), tmp_path / "part-0.parquet")
    for where in ("id = 99", "id > 1 AND name = 'a'"):
        plan = ps.open_table(tmp_path).plan(where)
        assert pa.table(plan) == plan.schema.empty_table()
        assert pl.DataFrame(plan).schema == {"id": pl.Int64, "name": pl.String}
        assert run_query(plan, "FROM plan").columns == ["id", "name"]
        assert run_query(plan, "FROM plan").fetchall() == []


def test_a_requested_schema_is_applied(plan: ps.Plan) -> None:
    requested = pa.schema([("id", pa.int32()), ("kind", pa.large_string()), *list(plan.schema)[2:]])
    reader = pa.RecordBatchReader.from_stream(plan, schema=requested)
    assert reader.schema == requested
    assert reader.read_all()["id"].to_pylist() == [*range(18, 28), 49]


def test_an_impossible_schema_fails(plan: ps.Plan) -> None:
    requested = pa.schema([("id", pa.list_(pa.int32())), *list(plan.schema)[1:]])
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)):
        pa.RecordBatchReader.from_stream(plan, schema=requested).read_all()


def test_an_error_while_reading_reaches_every_engine(tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(pa.table({"id": [part]}), tmp_path / f"part-{part}.parquet")
    plan = ps.open_table(tmp_path).plan("id >= 1")
    (tmp_path / "part-2.parquet").write_bytes(b"no longer a Parquet file")
    with pytest.raises((ps.ParsieveError, OSError, pa.ArrowInvalid)):
        pa.table(plan)
    with pytest.raises((ps.ParsieveError, OSError, pl.exceptions.PolarsError)):
        pl.DataFrame(plan)
    with pytest.raises((ps.ParsieveError, OSError, duckdb.Error)):
        run_query(plan, "FROM plan").fetchall()
