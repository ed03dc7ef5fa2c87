"""Null tests return the same rows in all engines, although DuckDB's reader trusts row group statistics too much."""

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


def write(folder: Path, encoding: str, data_type: pa.DataType) -> list[tuple[int, str | None]]:
    """Write a file for each list of values, and return all rows."""
    rows = list(enumerate(itertools.chain.from_iterable(VALUES)))
    numbers = itertools.count()
    for part, values in enumerate(VALUES):
        columns = {"row": [next(numbers) for _ in values], "s": pa.array(values, pa.string()).cast(data_type)}
        options: dict[str, Any] = {} if encoding == "dictionary" else {"column_encoding": {"s": encoding}}
        pq.write_table(
            pa.table(columns), folder / f"{part}.parquet", use_dictionary=encoding == "dictionary", **options
        )
    return rows


@pytest.mark.parametrize("data_type", [pa.string(), pa.binary(), pa.large_string()], ids=str)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_all_engines_return_the_same_rows_for_null_tests(
    tmp_path: Path, format: str, encoding: str, data_type: pa.DataType
) -> None:
    rows = write(tmp_path, encoding, data_type)
    if format == "delta":
        deltalake.convert_to_deltalake(str(tmp_path))
    table = ps.open_table(tmp_path)
    assert table.format == format
    with duckdb.connect() as con:
        for text, holds in TESTS.items():
            if pa.types.is_binary(data_type):
                text = text.replace("'x'", "X'78'").replace("'y'", "X'79'")
            plan = table.plan(text)
            expected = [(row, value_of_type(data_type, value)) for row, value in rows if holds(value)]
            results = {
                "arrow": [tuple(record.values()) for record in plan.to_arrow().to_pylist()],
                "polars": plan.to_polars().collect().rows(),
                "duckdb": plan.to_duckdb(con).fetchall(),
            }
            for engine, actual in results.items():
                assert sorted(actual) == sorted(expected), (engine, text)


def value_of_type(data_type: pa.DataType, value: str | None) -> str | bytes | None:
    return value.encode() if value is not None and pa.types.is_binary(data_type) else value


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_not_in_as_a_tuple_ignores_nulls_in_all_engines(tmp_path: Path, encoding: str) -> None:
    rows = write(tmp_path, encoding, pa.string())
    plan = ps.open_table(tmp_path).plan([("s", "not in", ["x", "z"])])
    with duckdb.connect() as con:
        expected = sorted(plan.to_arrow()["row"].to_pylist())
        assert sorted(row for row, _ in plan.to_duckdb(con).fetchall()) == expected
    assert set(expected) >= {row for row, value in rows if value == "y"}
