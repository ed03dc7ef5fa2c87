"""A plan with an order returns the same rows as a full scan that Python sorts, on random tables of every format."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import formats, frame_queries
from support.aging import wait_until_old
from support.orders import Order
from support.programs import order_differences

import parsieve as ps
from parsieve._core import UnsupportedError
from parsieve.plan.order.any_rows import MOST_FILES, files_for
from parsieve.plan.order.ordered_plan import OrderedPlan

_WHERE = [None, "number = 2", "number > 3 OR text = 'ab'", "id % 1 = 0 AND number = 1", "id BETWEEN 40 AND 90", "flag"]


def check(
    table: ps.Table,
    where: str | None,
    column: str,
    descending: bool,
    nulls: Any,
    limit: int | None,
    everything: pa.Table | None = None,
) -> OrderedPlan:
    """Compare a plan with a full scan, whose rows may be known."""
    if everything is None:
        everything = full_scan(table, where)
    plan = table.plan(where, order_by=column, descending=descending, nulls=nulls, limit=limit)
    rows = plan.to_arrow()
    ranks = Order([column], descending, nulls).ranks(pa.concat_tables([everything, rows]))
    keys, actual = ranks[: len(everything)], ranks[len(everything) :]
    assert actual == sorted(keys)[:limit], (where, column, descending, nulls, limit)
    assert rows.schema.equals(everything.schema)
    # Each row is a row of the table.
    assert Counter(map(repr, rows.to_pylist())) <= Counter(map(repr, everything.to_pylist()))
    assert isinstance(plan, OrderedPlan)
    return plan


def full_scan(table: ps.Table, where: str | None) -> pa.Table:
    return table.plan(where, on_unknown="ignore").to_arrow()


@pytest.mark.parametrize("format_", formats.FORMATS)
@pytest.mark.parametrize("indexed", [(), ("id", "number", "text", "time", "real"), ("time",)])
def test_rows_are_those_of_a_full_scan(tmp_path: Path, format_: str, indexed: tuple[str, ...]) -> None:
    random_ = random.Random(f"{format_} {indexed}")
    table = ps.Table(formats.FORMATS[format_](tmp_path / "t", frame_queries.random_files(random_, 8), 10))
    if indexed:
        table.build_index(list(indexed), unit=random_.choice(("file", "row_group")), progress=False)
    scans = {where: full_scan(table, where) for where in _WHERE if where is None or "%" not in where}
    for _ in range(60):
        column = random_.choice(["id", "number", "real", "text", "flag", "time", "day"])
        descending, nulls = random_.random() < 0.5, random_.choice(["first", "last"])
        where = random_.choice(list(scans))
        check(table, where, column, descending, nulls, random_.choice([1, 2, 3, 10, 50, 1000]), scans[where])


@pytest.mark.parametrize("kind", order_differences.KINDS)
def test_every_method_returns_the_first_rows_of_random_plans(tmp_path: Path, kind: str) -> None:
    wrong, unread = order_differences.check_table(f"first rows of {kind}", tmp_path, kind, per_state=2)
    assert not wrong
    assert unread or " " in kind


VALUES: dict[pa.DataType, list[Any]] = {
    pa.uint64(): [2**64 - 1, 0, 2**63, 5],
    pa.int8(): [-128, 127, 0, -1],
    pa.float32(): [math.nan, -0.0, 0.0, math.inf, -math.inf, 1.5],
    pa.float16(): [math.nan, -0.0, 1.5, -2.0],
    pa.decimal128(20, 2): [
        Decimal("-1.50"),
        Decimal("7.25"),
        Decimal("0.00"),
        Decimal("1e9").quantize(Decimal("0.01")),
    ],
    pa.timestamp("ns"): [0, 1, -1, 10**18],
    pa.timestamp("ms", "Europe/Berlin"): [0, 1, -1, 10**12],
    pa.time64("us"): [dt.time(1), dt.time(23, 59, 59, 999_999), dt.time(0)],
    pa.date64(): [dt.date(1969, 12, 31), dt.date(2026, 1, 1)],
    pa.binary(): [b"", b"\xff", b"\xff\xff", b"a"],
    pa.large_string(): ["", "ä", "a\u0301", "z", "𝄞", "\uffff"],
    pa.binary(2): [b"\x00\xff", b"\xff\x00", b"ab"],
    pa.dictionary(pa.int32(), pa.string()): ["b", "a", "", "zz"],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
def test_values_of_every_type(tmp_path: Path, kind: pa.DataType, indexed: bool) -> None:
    random_ = random.Random(str(kind))
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    folder = tmp_path / "t"
    folder.mkdir()
    for part in range(6):
        drawn = [random_.choice([*VALUES[kind], None]) for _ in range(20)]
        column = pa.array(drawn, plain)
        rows = pa.table({"x": column.dictionary_encode() if plain != kind else column, "n": range(20)})
        pq.write_table(rows, folder / f"{part}.parquet", row_group_size=7, write_statistics=part != 3)
    table = ps.open_table(str(folder))
    if indexed:
        table.build_index("x", kind="sieve" if plain != pa.float16() else "auto", progress=False)
    everything = table.plan().to_arrow()
    for descending in (False, True):
        for nulls in ("first", "last"):
            for limit in (1, 7, 40, 200):
                plan = table.plan(order_by="x", descending=descending, nulls=nulls, limit=limit)
                rows = plan.to_arrow()
                assert isinstance(plan, OrderedPlan)
                assert plan.ordering is not None
                order = plan.ordering
                expected = everything.take(order.sort(order.values(everything))[:limit])
                actual, wanted = ([comparable(value) for value in some["x"].to_pylist()] for some in (rows, expected))
                assert actual == wanted


def comparable(value: Any) -> Any:
    """Return a value that is equal to itself, also for NaN."""
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def test_only_the_files_that_can_hold_the_first_rows_are_read(tmp_path: Path) -> None:
    for part in range(50):
        rows = {"at": range(part * 100, part * 100 + 100), "user": [number % 7 for number in range(100)]}
        pq.write_table(pa.table(rows), tmp_path / f"{part:02}.parquet")
    table = ps.open_table(str(tmp_path))
    plan = table.plan("user = 3", order_by="at", descending=True, limit=10)
    assert isinstance(plan, OrderedPlan)
    assert [Path(path).stem for path in plan.files[:3]] == ["49", "48", "47"]
    reader = plan.first_rows()
    assert reader.read(["user"], None).num_rows == 10
    assert reader.files_read == 2
    assert "order: at descending, nulls last; the first 10 rows" in plan.explain()
    described = json.loads(plan.to_json())
    assert described["files"] == plan.files
    assert (described["order_by"], described["descending"], described["limit"]) == ("at", True, 10)
    assert "<svg" in (plan._repr_html_() or "")
    # A limit without an order stops after any rows.
    some = table.plan("user = 3", limit=5)
    assert isinstance(some, OrderedPlan)
    any_rows = some.first_rows()
    assert any_rows.read(None, None)["user"].to_pylist() == [3] * 5
    assert any_rows.files_read == 2


def test_more_files_are_read_together_while_rows_are_missing() -> None:
    # As long as no row is found, the next step reads twice as many files as all steps before it.
    assert [files_for(5, 0, read) for read in (2, 6, 18)] == [4, 12, 36]
    # 40 files hold the missing rows if all files have as many as the first four.
    assert files_for(100, 10, 4) == 20
    assert files_for(100, 0, 1000) == MOST_FILES


def test_files_are_ranked_by_footers_if_nothing_else_has_bounds(tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(pa.table({"at": [9 - part], "other": [part]}), tmp_path / f"{part}.parquet")
    wait_until_old(tmp_path)
    without_footers = ps.open_table(tmp_path).plan(order_by="at", limit=1, row_groups=False)
    assert without_footers.requests == 0
    assert "3 files without bounds of at must be read first" in without_footers.explain()
    assert "in the order of" not in without_footers.explain()
    assert without_footers.to_arrow()["at"].to_pylist() == [7]
    for indexed in (False, True):
        table = ps.open_table(tmp_path)
        if indexed:
            # An index of another column has no bounds either.
            table.build_index("other", "sieve", progress=False)
        plan = table.plan(order_by="at", limit=1)
        assert [Path(path).stem for path in plan.files] == ["2", "1", "0"]
        assert "files are read in the order of footers' min/max" in plan.explain()
        assert "without bounds" not in plan.explain()


def test_files_are_ranked_by_their_units_that_may_match(tmp_path: Path) -> None:
    files = {"a": ([1, 1, 2, 2], [0, 1, 100, 101]), "b": ([2, 2, 1, 1], [50, 51, 2, 3])}
    for name, (keys, times) in files.items():
        pq.write_table(pa.table({"k": keys, "at": times}), tmp_path / f"{name}.parquet", row_group_size=2)
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    table.build_index(["k", "at"], "sieve", unit="row_group", progress=False)
    for key, names in ((1, ["a", "b"]), (2, ["b", "a"])):
        plan = table.plan(f"k = {key}", order_by="at", limit=1)
        assert [Path(path).stem for path in plan.files] == names
        assert "files are read in the order of the index" in plan.explain()


def test_every_method_returns_the_same_rows(tmp_path: Path) -> None:
    for part in range(4):
        pq.write_table(
            pa.table({"at": [part, part + 10, None], "s": [{"n": part}, None, {"n": -part}]}),
            tmp_path / f"{part}.parquet",
        )
    plan = ps.open_table(str(tmp_path)).plan(order_by="at", descending=True, limit=3)
    expected = [13, 12, 11]
    assert plan.to_arrow()["at"].to_pylist() == expected
    assert [value for batch in plan.to_batches() for value in batch["at"].to_pylist()] == expected
    assert pa.table(plan)["at"].to_pylist() == expected
    assert plan.to_dataset().to_table()["at"].to_pylist() == expected
    assert plan.to_polars().collect()["at"].to_list() == expected
    assert [row[0] for row in plan.to_duckdb().fetchall()] == expected
    assert pickle.loads(pickle.dumps(plan)).to_arrow()["at"].to_pylist() == expected
    assert plan.to_arrow(columns=["s"]).schema.names == ["s"]
    nested = ps.open_table(str(tmp_path)).plan(order_by="s.n", limit=2).to_arrow()
    assert [value["n"] for value in nested["s"].to_pylist()] == [-3, -2]
    assert plan.count_rows() == plan.to_arrow(columns=[]).num_rows == 3


@pytest.mark.parametrize("columns", [[], ["id"], None])
def test_a_limit_without_an_order_counts_its_rows(tmp_path: Path, columns: list[str] | None) -> None:
    for number in range(4):
        pq.write_table(pa.table({"id": range(number * 5, number * 5 + 5)}), tmp_path / f"{number}.parquet")
    table = ps.open_table(tmp_path)
    for where, limit, expected in ((None, 7, 7), (None, 100, 20), ("id >= 12", 3, 3), ("id < 0", 3, 0), (None, 0, 0)):
        plan = table.plan(where, limit=limit)
        rows = plan.to_arrow(columns)
        assert (rows.num_rows, plan.count_rows()) == (expected, expected), (where, limit)
        assert rows.column_names == (["id"] if columns is None else columns)


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        (pa.decimal256(40, 2), "polars"),
        (pa.timestamp("us", "+05:30"), "polars"),
        (pa.decimal256(40, 2), "duckdb"),
        (pa.float16(), "duckdb"),
    ],
    ids=str,
)
def test_types_that_an_engine_lacks_are_rejected(tmp_path: Path, kind: pa.DataType, engine: str) -> None:
    """A plan without an order rejects the same types."""
    pq.write_table(pa.table({"id": [2, 1], "value": pa.array([1, 2]).cast(kind)}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    messages = []
    for plan in (table.plan(), table.plan(order_by="id", limit=1), table.plan(limit=1)):
        with pytest.raises(UnsupportedError) as caught:
            plan.to_polars() if engine == "polars" else plan.to_duckdb()
        messages.append(str(caught.value))
    assert len(set(messages)) == 1
    assert table.plan(order_by="id", limit=1).to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize("kind", [pa.struct({"x": pa.int64()}), pa.list_(pa.int64()), pa.map_(pa.int64(), pa.int64())])
def test_nested_columns_have_no_order(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"s": pa.nulls(2, kind), "id": [1, 2]}), tmp_path / "0.parquet")
    with pytest.raises(UnsupportedError, match=r"cannot sort by s: its type .* has no order"):
        ps.open_table(tmp_path).plan(order_by="s")


def test_wrong_arguments(tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [1], "tags": [["a"]]}), tmp_path / "0.parquet")
    table = ps.open_table(str(tmp_path))
    with pytest.raises(ValueError, match="limit must be a number of rows, not -1"):
        table.plan(limit=-1)
    with pytest.raises(TypeError, match="limit must be a number of rows, not '5'"):
        table.plan(limit=cast(Any, "5"))
    with pytest.raises(ValueError, match="pass order_by"):
        table.plan(descending=True)
    with pytest.raises(ps.ColumnNotFoundError, match=r"order_by takes one column; .* pass descending=True"):
        table.plan(order_by="at DESC", limit=1)
    with pytest.raises(UnsupportedError, match="cannot sort by tags"):
        table.plan(order_by="tags")
    with pytest.raises(UnsupportedError, match="must know which rows match"):
        table.plan("at % 2 = 1", limit=1)
    assert table.plan(limit=0).to_arrow().num_rows == 0
