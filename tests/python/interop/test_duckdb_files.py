"""Compare our filters with the filters that DuckDB writes for dictionary-encoded columns."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parsieve as ps

INSTANT = "(TIMESTAMP '1969-12-31 23:59:50' + to_seconds(i))"

# For each type of DuckDB: SQL for values from `i` in 0..36, and the physical type if pyarrow would choose another one.
COLUMNS: dict[str, tuple[str, str | None]] = {
    "TINYINT": ("i - 20", None),
    "SMALLINT": ("i - 20", None),
    "INTEGER": ("(i - 20) * 100000000", None),
    "BIGINT": ("(i - 20) * 100000000000000000", None),
    "UTINYINT": ("i * 7", None),
    "USMALLINT": ("i * 1771", None),
    "UINTEGER": ("i * 119304647", None),
    "UBIGINT": ("18446744073709551615 - i", None),
    "FLOAT": ("i / 8 - 2", None),
    "DOUBLE": ("i / 3 - 5", None),
    "VARCHAR": ("repeat('ü', i) || i", None),
    "BLOB": ("repeat('x', i)", None),
    "DATE": ("DATE '1969-12-20' + i::INTEGER", None),
    "TIME": ("TIME '00:00:00' + to_seconds(i)", None),
    "TIMESTAMP": (INSTANT, None),
    "TIMESTAMP_MS": (INSTANT, None),
    "TIMESTAMP_NS": (INSTANT, None),
    "TIMESTAMPTZ": (INSTANT, None),
    "DECIMAL(4, 1)": ("i - 20", "INT32"),
    "DECIMAL(9, 2)": ("i - 20", "INT32"),
    "DECIMAL(18, 3)": ("i - 20", "INT64"),
}


def filters_of(path: Path, query: str) -> tuple[pa.Table, dict[str, bytes]]:
    """Write the result of a query with DuckDB. Return the result, and the filters at the offsets in the metadata."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.sql(query).write_parquet(str(path))
        table = connection.sql(query).to_arrow_table()
        rows = connection.execute(
            "SELECT path_in_schema, bloom_filter_offset, bloom_filter_length FROM parquet_metadata(?)", [str(path)]
        ).fetchall()
    file = path.read_bytes()
    return table, {
        name.replace(", ", "."): file[offset : offset + length] for name, offset, length in rows if offset is not None
    }


def check(path: Path, select: str, *, column: Any = None, leaf: str | None = None, **column_type: Any) -> None:
    """Check that DuckDB's filter for `select` over many repetitions of `i` in 0..36 equals ours."""
    table, filters = filters_of(path, f"SELECT {select} AS c FROM (SELECT k % 37 AS i FROM range(5000) t(k))")
    column = table["c"] if column is None else column
    steps = ["c", "list", "element"] if pa.types.is_list(column.type) else ["c", *([leaf] if leaf else [])]
    theirs = filters[".".join(steps)]
    parsed = ps.BloomFilter.from_bytes(theirs, **column_type)
    ours = ps.BloomFilter(num_bytes=parsed.num_bytes, **column_type)
    ours.insert(column, leaf=leaf)
    assert 30 < ours.estimated_ndv < 50 or pa.types.is_list(column.type)
    assert ours.to_bytes() == theirs
    assert all(ours.check(column, leaf=leaf).drop_null().to_pylist())


@pytest.mark.parametrize("name", COLUMNS)
def test_filters_of_flat_types_equal_ours(tmp_path: Path, name: str) -> None:
    values, physical = COLUMNS[name]
    precision, scale = eval(name.removeprefix("DECIMAL")) if physical else (0, 0)
    column_type = {"type": pa.decimal128(precision, scale), "physical_type": physical} if physical else {}
    check(tmp_path / "c.parquet", f"({values})::{name}", **column_type)


def test_nulls_are_not_in_the_filter(tmp_path: Path) -> None:
    check(tmp_path / "c.parquet", "CASE WHEN i = 0 THEN NULL ELSE i END")


def test_timestamps_in_seconds_are_stored_in_microseconds(tmp_path: Path) -> None:
    check(tmp_path / "c.parquet", f"{INSTANT}::TIMESTAMP_S", type=pa.timestamp("us"))


def test_uuids_are_sixteen_bytes(tmp_path: Path) -> None:
    texts = [f"f0000000-0000-0000-0000-0000000000{i:02}" for i in range(37)]
    column = pa.array([bytes.fromhex(text.replace("-", "")) for text in texts], pa.binary(16))
    select = "('f0000000-0000-0000-0000-0000000000' || lpad(i::VARCHAR, 2, '0'))::UUID"
    check(tmp_path / "c.parquet", select, column=column)


def test_filters_of_nested_leaves_equal_ours(tmp_path: Path) -> None:
    check(tmp_path / "list.parquet", "[i, i + 100]")
    check(tmp_path / "a.parquet", "{'a': i, 'b': 'x' || i}", leaf="a")
    check(tmp_path / "b.parquet", "{'a': i, 'b': 'x' || i}", leaf="b")


def test_duckdb_excludes_the_same_values(tmp_path: Path) -> None:
    """DuckDB's probe excludes the same values as ours."""
    path = tmp_path / "c.parquet"
    _, filters = filters_of(path, "SELECT (k % 37) * 10 AS c FROM range(5000) t(k)")
    ours = ps.BloomFilter.from_bytes(filters["c"], type=pa.int64())
    probes = list(range(400))
    with duckdb.connect() as connection:
        query = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'c', ?)"
        answers = [connection.execute(query, [str(path), probe]).fetchall() for probe in probes]
    assert [not excluded for ((excluded,),) in answers] == ours.check(pa.array(probes, pa.int64())).to_pylist()


@pytest.mark.filterwarnings("ignore::parsieve.ParsieveWarning")
@pytest.mark.parametrize("indexed", [False, True])
def test_the_end_of_the_day_is_found(tmp_path: Path, indexed: bool) -> None:
    """For DuckDB, 24:00:00 is a time. For Polars, it is null."""
    folder = tmp_path / "table"
    folder.mkdir()
    table = ps.open_table(folder)
    with duckdb.connect() as connection:
        for number, time in enumerate(["12:00:00", "24:00:00"]):
            query = f"SELECT {number} AS id, TIME '{time}' AS closes"
            connection.sql(query).write_parquet(str(folder / f"{number}.parquet"))
        if indexed:
            table.build_index("closes", "sieve", progress=False)
        dataset = table.dataset()  # noqa: F841 - DuckDB finds it by its name
        for condition in ("closes = TIME '24:00:00'", "closes > TIME '23:59:59.999999'", "closes IN (TIME '24:00:00')"):
            assert connection.execute(f"SELECT id FROM dataset WHERE {condition}").fetchall() == [(1,)], condition
    end = pq.read_table(folder / "1.parquet")["closes"]
    assert str(folder / "1.parquet") in table.plan(pc.field("closes") == end[0]).files
    for keys in (end, end.cast(pa.time64("ns"))):
        assert table.plan(keys={"closes": keys}).to_arrow()["id"].to_pylist() == [1]
    # A column of microseconds has no time between this one and 24:00:00.
    last = pa.scalar(86_400 * 10**9 - 1, pa.time64("ns"))
    for where, ids in ((pc.field("closes") > last, [1]), (pc.field("closes") <= last, [0])):
        assert table.plan(where).to_arrow()["id"].to_pylist() == ids
    assert len(table.plan(keys={"closes": pa.array([last])}).to_arrow()) == 0
