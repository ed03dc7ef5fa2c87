"""Tests for null in all engines, where DuckDB's own reader trusts the statistics of a row group too much."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

ENCODINGS = ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "dictionary"]
VALUES: list[list[str | None]] = [["x", None, "x"], [None, None], ["x", "x"], ["x", "y", None], [None, "y"]]
TESTS: dict[str, Callable[[str | None], bool]] = {
    "s IS NULL": lambda s: s is None,
    "s IS NOT NULL": lambda s: s is not None,
    "s IS DISTINCT FROM 'x'": lambda s: s != "x",
    "s IS NOT DISTINCT FROM 'x'": lambda s: s == "x",
    "s IS NULL OR s = 'y'": lambda s: s is None or s == "y",
    "s NOT IN ('x')": lambda s: s is not None and s != "x",
    "NOT (s = 'x')": lambda s: s is not None and s != "x",
    "s IS NULL AND row >= 0": lambda s: s is None,
}


def write(folder: Path, encoding: str, kind: pa.DataType) -> list[tuple[int, str | None]]:
    """Write a file for each list of values; return all rows."""
    rows = list(enumerate(itertools.chain.from_iterable(VALUES)))
    numbers = itertools.count()
    for part, values in enumerate(VALUES):
        own = {"row": [next(numbers) for _ in values], "s": pa.array(values, pa.string()).cast(kind)}
        options: dict[str, Any] = {} if encoding == "dictionary" else {"column_encoding": {"s": encoding}}
        pq.write_table(pa.table(own), folder / f"{part}.parquet", use_dictionary=encoding == "dictionary", **options)
    return rows


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string()], ids=str)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_all_engines_find_the_same_nulls(tmp_path: Path, format: str, encoding: str, kind: pa.DataType) -> None:
    rows = write(tmp_path, encoding, kind)
    if format == "delta":
        deltalake.convert_to_deltalake(str(tmp_path))
    table = ps.open_table(tmp_path)
    assert table.format == format
    with duckdb.connect() as con:
        for text, holds in TESTS.items():
            if pa.types.is_binary(kind):
                text = text.replace("'x'", "X'78'").replace("'y'", "X'79'")
            plan = table.plan(text)
            wanted = [(row, _of(kind, value)) for row, value in rows if holds(value)]
            found = {
                "arrow": [tuple(one.values()) for one in plan.to_arrow().to_pylist()],
                "polars": plan.to_polars().collect().rows(),
                "duckdb": plan.to_duckdb(con).fetchall(),
            }
            for engine, got in found.items():
                assert sorted(got) == sorted(wanted), (engine, text)


def _of(kind: pa.DataType, value: str | None) -> str | bytes | None:
    return value.encode() if value is not None and pa.types.is_binary(kind) else value


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_values_beside_null_in_tuples(tmp_path: Path, encoding: str) -> None:
    rows = write(tmp_path, encoding, pa.string())
    plan = ps.open_table(tmp_path).plan([("s", "not in", ["x", "z"])])
    with duckdb.connect() as con:
        wanted = sorted(plan.to_arrow()["row"].to_pylist())
        assert sorted(row for row, _ in plan.to_duckdb(con).fetchall()) == wanted
    assert set(wanted) >= {row for row, value in rows if value == "y"}
