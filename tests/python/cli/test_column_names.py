"""A column that does not exist: the closest name is suggested, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main
from parsieve.errors import did_you_mean, no_column


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    address = [{"street": "Main", "zip": 1}] * 3
    table = pa.table({"order_id": [1, 2, 3], "customer_id": ["a", "b", "c"], "address": address})
    pq.write_table(table, tmp_path / "part-0.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("written", "meant"),
    [("custmer_id", "customer_id"), ("CustomerId", "customer_id"), ("address.stret", "address.street")],
)
def test_every_call_suggests_the_closest_column(folder: Path, written: str, meant: str) -> None:
    table = ps.open_table(folder)
    hint = rf"there is no column '{written}'; did you mean '{meant}'\?"
    for call in (
        lambda: table.plan(f"{written} = 'x'"),
        lambda: table.plan([(written, "=", "x")]),
        lambda: table.build_index(written),
        lambda: table.advise(written),
        lambda: ps.add_filters(folder / "part-0.parquet", columns=[written]),
        lambda: ps.open_filters(folder / "part-0.parquet").might_contain({written: "x"}),
    ):
        with pytest.raises(ps.ColumnNotFoundError, match=hint):
            call()


def test_rows_of_a_plan_suggest_columns_too(folder: Path) -> None:
    with pytest.raises(ps.ColumnNotFoundError, match="did you mean 'order_id'"):
        ps.open_table(folder).plan("order_id = 1").to_arrow(columns=["oder_id"])


def test_a_column_that_is_not_indexed(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index(["order_id", "customer_id"], kind="sieve")
    for call in (table.drop_index, table.compact_index):
        with pytest.raises(ps.ColumnNotFoundError, match=r"custmer_id is not indexed; did you mean 'customer_id'\?"):
            call("custmer_id")
        with pytest.raises(ps.ColumnNotFoundError, match="x is not indexed; indexed columns: customer_id, order_id"):
            call("x")


def test_the_command_line_says_it_in_one_line(folder: Path, capsys: Any) -> None:
    assert main(["plan", str(folder), "custmer_id = 'x'"]) == 2
    said = capsys.readouterr()
    assert said.err == (
        "parsieve: there is no column 'custmer_id'; did you mean 'customer_id'? "
        "The columns are: order_id, customer_id, address\n"
    )


def test_nothing_is_suggested_that_is_not_close() -> None:
    assert did_you_mean("zzz", ["order_id", "customer_id"]) == ""
    assert did_you_mean("", ["a"]) == ""
    names = [f"column_{number}" for number in range(30)]
    assert str(no_column("zzz", names)).endswith("column_19 and 10 more")
