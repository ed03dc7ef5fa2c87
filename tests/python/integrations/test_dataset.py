"""`Table.dataset` is a live pyarrow dataset: each scan plans on the current state, and returns exactly what matches."""

from __future__ import annotations

import itertools
import logging
import math
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support.rows import lakes

import parsieve as ps

FILES = 12


def _rows(number: int) -> pa.Table:
    rows = range(number * 10, number * 10 + 10)
    return pa.table({"id": rows, "name": [f"n{row}" for row in rows], "group": [row % 3 for row in rows]})


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    folder = tmp_path / "t"
    folder.mkdir()
    for number in range(FILES):
        pq.write_table(_rows(number), folder / f"{number:02}.parquet")
    return ps.open_table(folder)


def _kept(caplog: pytest.LogCaptureFixture) -> list[int]:
    """Return the number of files that each plan kept."""
    plans = [record for record in caplog.records if record.name == "parsieve.plan" and "kept" in record.msg]
    return [record.args[0] for record in plans if isinstance(record.args, tuple)]  # type: ignore[misc]


def _duckdb(orders: pads.Dataset, where: str) -> Any:
    return duckdb.connect().register("orders", orders).sql(f"SELECT * FROM orders WHERE {where}").to_arrow_table()


def _datafusion(orders: pads.Dataset, where: str) -> Any:
    context = datafusion.SessionContext()
    context.register_dataset("orders", orders)
    return pa.Table.from_batches(context.sql(f"SELECT * FROM orders WHERE {where}").collect())


def _polars(orders: pads.Dataset, where: str) -> Any:
    return pl.scan_pyarrow_dataset(orders).filter(pl.sql_expr(where)).collect().to_arrow()


# What engines hand over


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("small", pa.array([1.5, 2.0])),
        ("small", pa.array([300, 1], pa.int64())),
        ("small", pa.array([1, 256 + 2], pa.int64())),
        ("small", pa.array([-0.0, 0.5])),
        ("narrow", pa.array([0.5, 2.0**127 * 2])),
        ("at", pa.array([0], pa.date32())),
        ("small", pa.array([1, None], pa.int64())),
        ("real", pa.array([0.0])),
        ("real", pa.array([-0.0, 1.5])),
        ("real", pa.array([math.nan, 1.5])),
        ("real", pa.array([0, 2], pa.int64())),
        ("narrow", pa.array([0.1])),
        ("narrow", pa.array([Decimal("0.1")])),
        ("real", pa.array([Decimal("1.5")])),
        ("at", pa.array([1_000_000, 1_500_000], pa.timestamp("ns"))),
        ("text", pa.array(["a", None], pa.large_string())),
    ],
)
def test_lists_of_values_select_the_rows_that_pyarrow_selects(
    tmp_path: Path, column: str, values: pa.Array, negated: bool
) -> None:
    """pyarrow converts the values to the type of the column, and distinguishes the two zeros."""
    files = [
        {"small": [1, 2], "real": [0.0, 1.5], "narrow": [0.1, 0.5], "at": [0, 1]},
        {"small": [44, None], "real": [-0.0, math.nan], "narrow": [0.0, None], "at": [2, None]},
        {"small": [0, 0], "real": [None, 1.0], "narrow": [None, 1.0], "at": [None, 3]},
    ]
    types = {"small": pa.int8(), "real": pa.float64(), "narrow": pa.float32(), "at": pa.timestamp("ms")}
    types["text"] = pa.string()
    tables = [pa.table({name: pa.array(rows.get(name, ["a", None]), types[name]) for name in types}) for rows in files]
    for number, rows in enumerate(tables):
        pq.write_table(rows, tmp_path / f"{number}.parquet")
    expression = pc.field(column).isin(values)
    expression = ~expression if negated else expression
    # pyarrow's datasets lose rows here, because they skip files by min/max statistics.
    expected = pa.concat_tables(tables).filter(expression)
    rows = ps.open_table(tmp_path).dataset().to_table(filter=expression)
    assert [str(row) for row in rows.to_pylist()] == [str(row) for row in expected.to_pylist()]


@pytest.mark.parametrize("ask", [_duckdb, _datafusion, _polars])
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("id = 42", 1),
        ("id IN (5, 17, 119)", 3),
        ("id > 95 AND name = 'n101'", 1),
        ("id < 10 OR id >= 110", 2),
        ("NOT (id < 110)", 1),
        ("id BETWEEN 18 AND 22", 2),
        ("id IS NULL", 0),
        ("name IS NOT NULL", FILES),
    ],
)
def test_filters_of_engines_skip_files(
    table: ps.Table, ask: Callable[..., Any], where: str, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    expected = table.plan(where).to_arrow().num_rows
    caplog.set_level(logging.DEBUG, "parsieve.plan")
    rows = ask(table.dataset(), where) if kept else None
    if rows is None:
        assert duckdb.from_arrow(table.dataset()).filter(where).fetchall() == []
    else:
        assert rows.num_rows == expected
        assert rows.schema.names == table.schema.names
    assert kept in _kept(caplog)


def test_duckdb_joins_aggregates_and_views(table: ps.Table) -> None:
    orders = table.dataset()
    connection = duckdb.connect()
    connection.register("orders", orders)
    connection.execute("CREATE VIEW late AS SELECT * FROM orders WHERE id >= 100")
    connection.execute("CREATE TABLE keys AS SELECT * FROM (VALUES (5), (101)) AS t(id)")
    ask = connection.sql
    assert ask("SELECT name FROM orders JOIN keys USING (id) ORDER BY id").fetchall() == [("n5",), ("n101",)]
    assert ask("SELECT name FROM late WHERE id IN (SELECT id FROM keys)").fetchall() == [("n101",)]
    assert ask("SELECT count(*), max(id) FROM orders").fetchall() == [(120, 119)]
    assert ask("SELECT count(*) FROM orders a JOIN orders b USING (id)").fetchall() == [(120,)]
    assert ask('SELECT "group", count(*) FROM late GROUP BY ALL ORDER BY ALL').fetchall() == [(0, 6), (1, 7), (2, 7)]
    assert ask("SELECT id FROM orders ORDER BY id DESC LIMIT 2").fetchall() == [(119,), (118,)]


TYPES: dict[str, tuple[pa.DataType, list[Any], list[str]]] = {
    "integers": (
        pa.int16(),
        [1, -5, None],
        ["c = 1", "c <> 1", "c < 1", "c > -5 AND c < 9", "c IS NULL", "c IN (1, 2)"],
    ),
    "unsigned": (pa.uint64(), [2**64 - 1, 1, None], ["c = 18446744073709551615", "c > 1", "c <= 1"]),
    "floats": (
        pa.float64(),
        [float("nan"), -0.0, 1.5, float("-inf"), None],
        ["c = 0.0", "c > 1.0", "c >= 'nan'::DOUBLE", "c = 'nan'::DOUBLE", "c < 2", "c <> 1.5", "c IN (1.5, 'nan')"],
    ),
    "halves": (pa.float32(), [float("nan"), 0.1, None], ["c > 0.05::FLOAT", "c = 0.1::FLOAT", "c <> 0.1::FLOAT"]),
    "text": (pa.string(), ["", "a", "ä", "a\x00b", None], ["c = ''", "c >= 'a'", "c <> 'a'", "c IN ('a', NULL)"]),
    "large text": (pa.large_string(), ["x", "y", None], ["c = 'x'", "c > 'x'", "c IS NOT NULL"]),
    "bytes": (pa.binary(), [b"\x01", b"", None], ["c = '\\x01'::BLOB", "c > ''::BLOB"]),
    "booleans": (pa.bool_(), [True, False, None], ["c", "NOT c", "c = FALSE", "c IS NULL", "c IN (TRUE)"]),
    "dates": (pa.date32(), [0, 20_000, None], ["c = DATE '1970-01-01'", "c > DATE '2000-01-01'"]),
    "seconds": (pa.timestamp("s"), [0, 10**9, None], ["c = TIMESTAMP '1970-01-01'", "c > TIMESTAMP '1970-01-01'"]),
    "zones": (pa.timestamp("us", "Europe/Madrid"), [0, 10**15, None], ["c = TIMESTAMPTZ '1970-01-01 00:00:00+00'"]),
    "nanoseconds": (pa.timestamp("ns"), [1, 10**18, None], ["c > TIMESTAMP '1970-01-01'", "c IS NOT NULL"]),
    "times": (pa.time64("us"), [0, 3_600_000_000, None], ["c = TIME '01:00:00'", "c < TIME '01:00:00'"]),
    "decimals": (pa.decimal128(12, 2), [150, -1, None], ["c = 150", "c < 0.5", "c >= -1.00", "c IN (150, 7)"]),
    "structs": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, None],
        ["c.x = 1", "c.x IS NULL", "c.y > 'a'", "c.x = 1 OR c.y = 'b'", "c IS NULL", "c.x IN (1, 2)"],
    ),
    "lists": (pa.list_(pa.int64()), [[1, 2], [], None], ["list_contains(c, 2)", "len(c) = 0", "c IS NULL"]),
}


@pytest.mark.parametrize("kind", TYPES)
def test_duckdb_filters_of_each_type(tmp_path: Path, kind: str) -> None:
    """DuckDB does not filter the rows again, so each condition must be exact."""
    type_, values, conditions = TYPES[kind]
    for number, value in enumerate(values):
        column = pa.array([value, value, values[0]], type_)
        pq.write_table(pa.table({"n": range(number * 3, number * 3 + 3), "c": column}), tmp_path / f"{number}.parquet")
    table = ps.open_table(tmp_path)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("ours", table.dataset())
    connection.register("memory", table.plan().to_arrow())
    connection.execute("CREATE TABLE own AS FROM memory")
    for condition in itertools.chain(conditions, [f"NOT ({part})" for part in conditions]):
        for where in (condition, f"({condition}) AND n > 1", f"({condition}) OR n = 4"):
            query = "SELECT n FROM {} WHERE " + where + " ORDER BY n"
            assert connection.sql(query.format("ours")).fetchall() == connection.sql(query.format("own")).fetchall()


# Live tables


def test_each_scan_sees_new_files_and_a_pinned_dataset_does_not(table: ps.Table) -> None:
    live = table.dataset()
    pinned = live.pin()
    scanner = live.scanner(filter=pc.field("id") >= 115)
    pq.write_table(_rows(FILES), f"{table.uri}/{FILES}.parquet")
    assert live.count_rows() == 130
    assert live.to_table(filter=pc.field("id") >= 115).num_rows == 15
    # A scan keeps the state that it was made on.
    assert scanner.to_table().num_rows == scanner.count_rows() == 5
    assert pinned.count_rows() == 120
    assert pinned.pin().to_table(filter=pc.field("id") >= 115).num_rows == 5
    assert sum(fragment.count_rows() for fragment in pinned.get_fragments()) == 120


def test_as_of_reads_an_earlier_version(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(str(tmp_path), pa.table({"id": [number]}), mode="append")
    earlier = ps.open_table(tmp_path).dataset(as_of=1)
    assert sorted(earlier.to_table()["id"].to_pylist()) == [0, 1]


def test_a_scan_is_of_one_commit_while_a_writer_commits(tmp_path: Path) -> None:
    """Each commit adds a file with the number of the commit in all rows, so a state has a known sum."""

    def commit(number: int) -> None:
        write_deltalake(str(tmp_path), pa.table({"id": [number] * 3, "one": [1] * 3}), mode="append")

    commit(0)
    orders = ps.open_table(tmp_path).dataset()
    stop = threading.Event()

    def write() -> None:
        for number in itertools.count(1):
            commit(number)
            if stop.wait(0.05):
                return

    def whole_states(rows: list[tuple[int, int]]) -> bool:
        return rows == [(number, 3) for number in range(len(rows))]

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen: set[int] = set()
        # Wait for the writer, never for a time.
        while len(seen) < 8:
            query = "SELECT id, count(*) FROM orders GROUP BY id ORDER BY id"
            rows = duckdb.connect().register("orders", orders).sql(query).fetchall()
            assert whole_states(rows)
            seen.add(len(rows))
            pinned = orders.pin()
            joined = duckdb.connect().register("orders", pinned)
            states = joined.sql(
                "SELECT (SELECT max(id) FROM orders), (SELECT count(*) FROM orders), (SELECT sum(one) FROM orders)"
            ).fetchall()
            assert states == [(states[0][0], 3 * states[0][0] + 3, 3 * states[0][0] + 3)]
            fragments = list(orders.get_fragments())
            assert sum(fragment.count_rows() for fragment in fragments) == 3 * len(fragments)
    finally:
        stop.set()
        writer.join()


def test_a_changed_column_is_an_error(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": [1], "name": ["a"]}))
    orders = ps.open_table(tmp_path).dataset()
    changed = pa.table({"id": [1, 2], "name": [5, 6]})
    write_deltalake(str(tmp_path), changed, mode="overwrite", schema_mode="overwrite")
    assert orders.to_table(columns=["id"]).num_rows == 2
    with pytest.raises(ps.ConflictError, match=r"column name of .* is now of type int64: .* open it again"):
        orders.to_table()
    with pytest.raises(duckdb.Error, match=r"column name of .* is now of type int64"):
        duckdb.connect().register("orders", orders).sql("SELECT name FROM orders").fetchall()


# Rows that are not exactly the rows of files


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_every_way_to_rows_applies_deletes(tmp_path: Path, format_: str, seed: int) -> None:
    source, live = lakes.LAKES[format_](tmp_path / "table", random.Random(f"dataset {seed}"))
    orders = ps.open_table(source).dataset()
    expected = sorted(live["uid"].to_pylist())
    middle = expected[len(expected) // 2] if expected else 0
    context = datafusion.SessionContext()
    context.register_dataset("orders", orders)
    connection = duckdb.connect().register("orders", orders)
    ways: dict[str, Callable[[], list[int]]] = {
        "to_table": lambda: orders.to_table()["uid"].to_pylist(),
        "to_batches": lambda: [uid for batch in orders.to_batches() for uid in batch["uid"].to_pylist()],
        "columns": lambda: orders.to_table(columns=["uid"])["uid"].to_pylist(),
        "expressions": lambda: orders.to_table(columns={"u": pc.field("uid") + 0})["u"].to_pylist(),
        "head": lambda: orders.head(10**6)["uid"].to_pylist(),
        "take": lambda: orders.take(pa.array(range(len(expected)), pa.int64()))["uid"].to_pylist(),
        "filter": lambda: orders.filter(pc.field("uid") >= 0).to_table()["uid"].to_pylist(),
        "sort_by": lambda: orders.sort_by("uid").to_table()["uid"].to_pylist(),
        "fragments": lambda: [u for part in orders.get_fragments() for u in part.to_table()["uid"].to_pylist()],
        "reader": lambda: orders.scanner().to_reader().read_all()["uid"].to_pylist(),
        "pickle": lambda: pickle.loads(pickle.dumps(orders)).to_table()["uid"].to_pylist(),
        "duckdb": lambda: [uid for (uid,) in connection.sql("SELECT uid FROM orders").fetchall()],
        "datafusion": lambda: pa.table(context.sql("SELECT uid FROM orders"))["uid"].to_pylist(),
        "polars": lambda: pl.scan_pyarrow_dataset(orders).select("uid").collect()["uid"].to_list(),
        "written": lambda: _written(orders, tmp_path / "copy")["uid"].to_pylist(),
    }
    for name, way in ways.items():
        assert sorted(way()) == expected, name
    above = sum(uid > middle for uid in expected)
    assert orders.count_rows() == len(expected)
    assert orders.count_rows(filter=pc.field("uid") > middle) == above
    assert connection.sql(f"SELECT count(*) FROM orders WHERE uid > {middle}").fetchall() == [(above,)]
    assert context.sql(f"SELECT * FROM orders WHERE uid > {middle}").count() == above


def _written(orders: pads.Dataset, folder: Path) -> pa.Table:
    folder.mkdir()
    pads.write_dataset(orders.scanner().to_reader(), folder, format="parquet")
    return pads.dataset(folder, orders.schema).to_table()


# The interface of pyarrow


CALLS = """
import inspect, os, sys
import pyarrow as pa, pyarrow.dataset as pads
import parsieve as ps
orders = ps.open_table(sys.argv[1]).dataset()
fragment = next(iter(orders.get_fragments()))
objects = {pads.Dataset: orders, pads.UnionDataset: orders, pads.Scanner: orders.scanner(), pads.Fragment: fragment}
arguments = [(), (2,), ([0],), (orders,), (orders, "id"), (orders.schema,), ("id",), (pads.field("id") > 3,)]
skipped = {"__class__", "__init_subclass__", "__subclasshook__", "__new__", "__init__", "__setattr__", "__delattr__"}
for kind, object in objects.items():
    for name in sorted(set(dir(kind)) - skipped):
        if name.startswith("from_") or "state" in name or "_pyx_" in name or "cython" in name:
            continue
        try:
            attribute = getattr(object, name)
        except AttributeError:
            print("missing", kind.__name__, name)
            continue
        for values in arguments if callable(attribute) else ():
            try:
                result = attribute(*values)
                if inspect.isgenerator(result):
                    list(result)
            except Exception as error:
                pass
for make in (pads.Scanner.from_dataset, pads.Scanner.from_fragment, lambda d: pads.dataset([d]).to_table(),
             lambda d: pads.dataset([d, d]).to_table(), lambda d: pads.UnionDataset(d.schema, [d]).to_table()):
    for source in (orders, fragment):
        try:
            rows = make(source)
            print("rows", make, rows)
        except (TypeError, ValueError, AttributeError, ps.UnsupportedError):
            pass
print("done", flush=True)
# After hundreds of odd calls, threads of pyarrow sometimes abort the process when the interpreter ends.
os._exit(0)
"""


def test_no_method_of_pyarrow_crashes_or_reads_past_parsieve(table: ps.Table) -> None:
    done = subprocess.run([sys.executable, "-c", CALLS, table.uri], capture_output=True, text=True, timeout=500)
    missing = [line for line in done.stdout.splitlines() if line != "done"]
    assert (done.returncode, missing) == (0, []), done.stderr


def test_a_dataset_has_pyarrows_interface(table: ps.Table) -> None:
    orders = table.dataset()
    assert isinstance(orders, pads.Dataset)
    assert orders.schema == table.schema
    assert repr(orders) == f"<parsieve.TableDataset parquet {table.uri}>"
    assert orders.head(3, columns=["name"]).to_pylist() == [{"name": "n0"}, {"name": "n1"}, {"name": "n2"}]
    assert orders.take([5, 110])["id"].to_pylist() == [5, 110]
    assert orders.to_table(columns={"twice": pc.field("id") * 2}, filter=pc.field("id") == 7).to_pylist() == [
        {"twice": 14}
    ]
    sizes = [batch.num_rows for batch in orders.to_batches(batch_size=50)]
    assert (max(sizes), sum(sizes)) == (50, 120)
    assert orders.to_table(columns=[]).num_rows == 120
    narrow = orders.filter(pc.field("id") < 20).filter(pc.field("group") == 1)
    assert (narrow.count_rows(), narrow.to_table()["id"].to_pylist()) == (7, [1, 4, 7, 10, 13, 16, 19])
    assert sorted(narrow.join(pads.dataset(_rows(1)), "id", right_suffix="2").to_table()["id"].to_pylist())[0] == 1
    assert orders.replace_schema(orders.schema) is orders
    with pytest.raises(ps.UnsupportedError, match="select and cast"):
        orders.replace_schema(pa.schema({"id": pa.int32()}))
    with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
        orders.scanner(columns=["nothing"])
    with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
        orders.scanner(filter=pc.field("nothing") == 1)
    with pytest.raises(ps.UnsupportedError, match="without parsieve"):
        pads.Scanner.from_dataset(orders)


def test_pickled_datasets(table: ps.Table) -> None:
    orders = table.dataset().filter(pc.field("id") == 42)
    assert pickle.loads(pickle.dumps(orders)).to_table()["name"].to_pylist() == ["n42"]
    with pytest.raises(TypeError, match="pinned"):
        pickle.dumps(orders.pin())


def test_many_threads_scan_one_dataset(table: ps.Table) -> None:
    orders = table.dataset()
    failures: list[BaseException] = []

    def scan(number: int) -> None:
        try:
            for row in range(number, 120, 8):
                assert orders.to_table(filter=pc.field("id") == row)["name"].to_pylist() == [f"n{row}"]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=scan, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_reader_that_is_closed_early_ends_its_threads(table: ps.Table) -> None:
    orders = table.dataset()
    before = threading.active_count()
    for _ in range(20):
        reader: Iterator[pa.RecordBatch] = iter(orders.scanner(batch_size=5, filter=pc.field("id") >= 0).to_reader())
        next(reader)
        del reader
    # The threads end soon after. The limit is far above any real delay.
    deadline = time.monotonic() + 300
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
