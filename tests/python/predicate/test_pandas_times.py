"""Compare with pandas times, which have nanoseconds. pyarrow drops them unless it is told the type."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

# 1 ns after the first row, and 3 ns after it.
SECOND, FOURTH = pd.Timestamp(1), pd.Timestamp(3)


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    for nanos in range(4):
        columns = {
            "n": pa.array([nanos], pa.timestamp("ns")),
            "z": pa.array([nanos], pa.timestamp("ns", "Europe/Madrid")),
            "us": pa.array([nanos], pa.timestamp("us")),
            "day": pa.array([nanos], pa.date32()),
            "text": ["a"],
        }
        pq.write_table(pa.table({"row": [nanos], **columns}), tmp_path / f"{nanos}.parquet")
    return ps.open_table(tmp_path)


PLANS: dict[str, Callable[[ps.Table, str, Any], ps.Plan]] = {
    "tuple": lambda table, column, value: table.plan([(column, "=", value)]),
    "in": lambda table, column, value: table.plan([(column, "in", [value])]),
    "params": lambda table, column, value: table.plan(f"{column} = ?", params=[value]),
    "keys": lambda table, column, value: table.plan(keys={column: [value, None]}),
    "series": lambda table, column, value: table.plan(keys={column: pd.Series([value])}),
    "objects": lambda table, column, value: table.plan(keys={column: pd.Series([value], dtype=object)}),
}


def rows(plan: ps.Plan) -> list[int]:
    return list(plan.to_arrow(["row"])["row"].to_pylist())


@pytest.mark.parametrize("form", PLANS)
def test_nanoseconds_are_compared(table: ps.Table, form: str) -> None:
    make = PLANS[form]
    assert rows(make(table, "n", SECOND)) == [1]
    assert rows(make(table, "z", SECOND.tz_localize("UTC"))) == [1]
    assert rows(make(table, "z", FOURTH.tz_localize("UTC").tz_convert("Asia/Kolkata"))) == [3]
    for column in ("us", "day"):
        assert rows(make(table, column, SECOND)) == []
        assert rows(make(table, column, pd.Timestamp(0))) == [0]


def test_bounds_have_nanoseconds(table: ps.Table) -> None:
    assert rows(table.plan([("n", ">", SECOND), ("n", "<", FOURTH)])) == [2]
    assert rows(table.plan("us > ?", params=[SECOND])) == [1, 2, 3]
    assert rows(table.plan([("n", "not in", [SECOND, FOURTH, pd.NaT])])) == [0, 2]


def test_lookup_finds_nanoseconds(table: ps.Table) -> None:
    result = table.lookup("n", [FOURTH, dt.datetime(1970, 1, 1), pd.NaT, SECOND, pd.Timestamp(9)])
    assert result.table["row"].to_pylist() == [3, 0, 1]
    assert result.missing.cast(pa.int64()).to_pylist() == [9]
    composite = table.lookup(ps.key("text", "n"), [("a", FOURTH), ("a", pd.Timestamp(9))])
    assert composite.table["row"].to_pylist() == [3]


@pytest.mark.parametrize("dtype", [object, None])
def test_composite_keys_in_a_frame_have_nanoseconds(table: ps.Table, dtype: Any) -> None:
    columns = {"ignored": [0, 0], "text": ["a", "b"], "n": pd.Series([FOURTH, SECOND], dtype=dtype)}
    for index in (None, ["x", "y"]):
        keys = pd.DataFrame({name: list(values) if dtype is None else values for name, values in columns.items()})
        keys.index = keys.index if index is None else pd.Index(index)
        assert rows(table.plan(keys={ps.key("text", "n"): keys})) == [3]
        assert table.lookup(ps.key("text", "n"), keys).table["row"].to_pylist() == [3]


def test_keys_with_and_without_a_time_zone_are_refused(table: ps.Table) -> None:
    """pyarrow would read a local time as UTC."""
    zoned, local = dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(1970, 1, 1)
    for keys in ([zoned, local], [local, zoned], [SECOND, zoned], [SECOND.tz_localize("UTC"), local]):
        with pytest.raises(TypeError, match="some of the keys of z have a time zone"):
            table.plan(keys={"z": keys})
