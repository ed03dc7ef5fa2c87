"""Every column type: all engines return the matching rows, with footers and with an index."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.models.predicate_reference import rows

import parsieve as ps
from parsieve.predicate import Expr, IsNull, Not
from parsieve.predicate.builder import Builder, Operand, python_value
from parsieve.predicate.column_names import ColumnNames

UTC = dt.UTC
DAY = dt.datetime(2026, 1, 31, 12, 30)
IDS = [uuid.UUID(int=n) for n in (1, 2**127, 2**128 - 1)]

CASES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, 0, 127]),
    "int16": (pa.int16(), [-(2**15), 0, 2**15 - 1]),
    "int32": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "uint8": (pa.uint8(), [0, 128, 255]),
    "uint16": (pa.uint16(), [0, 1, 65535]),
    "uint32": (pa.uint32(), [0, 2**31, 2**32 - 1]),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1]),
    "int64": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "half": (pa.float16(), [-1.5, 0.0, 65504.0]),
    "float": (pa.float32(), [-1.5, -0.0, math.inf]),
    "double": (pa.float64(), [-math.inf, 5e-324, 1e300]),
    # Stored as bytes of fixed length and as integers.
    "decimal32": (pa.decimal128(5, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("999.99")]),
    "decimal64": (pa.decimal128(15, 4), [Decimal("-99999999999.9999"), Decimal("0"), Decimal("256.0000")]),
    "decimal32_as_int32": (pa.decimal128(5, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("999.99")]),
    "decimal64_as_int64": (pa.decimal128(15, 4), [Decimal("-99999999999.9999"), Decimal("0"), Decimal("256.0000")]),
    "decimal128": (pa.decimal128(38, 10), [Decimal(f"{sign}1234567890.0123456789") for sign in ("-", "")]),
    "decimal256": (pa.decimal256(50, 3), [Decimal("-1.500"), Decimal("1e40")]),
    "date32": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "date64": (pa.date64(), [dt.date(1969, 12, 31), dt.date(2026, 1, 31)]),
    "time32": (pa.time32("ms"), [dt.time(0), dt.time(12, 30), dt.time(23, 59, 59, 999000)]),
    "time64": (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    "timestamp_s": (pa.timestamp("s"), [DAY.replace(year=1900), DAY]),
    "timestamp_ms": (pa.timestamp("ms"), [DAY.replace(year=1960), DAY]),
    "timestamp_us": (pa.timestamp("us"), [DAY.replace(year=1), DAY, DAY.replace(year=9999)]),
    "timestamp_ns": (pa.timestamp("ns"), [DAY.replace(year=1700), DAY]),
    "zoned_ms": (pa.timestamp("ms", "UTC"), [DAY.replace(tzinfo=UTC), DAY.replace(year=1960, tzinfo=UTC)]),
    "zoned_us": (pa.timestamp("us", "Europe/Madrid"), [DAY.replace(tzinfo=UTC), DAY.replace(year=1960, tzinfo=UTC)]),
    "zoned_ns": (pa.timestamp("ns", "UTC"), [DAY.replace(tzinfo=UTC), DAY.replace(year=1960, tzinfo=UTC)]),
    "string": (pa.string(), ["", "a" * 200, "é", "\U0001f600"]),
    "large_string": (pa.large_string(), ["", "a", "é"]),
    "string_view": (pa.string_view(), ["", "a", "é" * 20]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["", "a", "é"]),
    "binary": (pa.binary(), [b"", b"\xff", b"\xff\xff", b"a\0"]),
    "large_binary": (pa.large_binary(), [b"", b"\xff", b"a"]),
    "fixed": (pa.binary(3), [b"\0\0\0", b"abc", b"\xff\xff\xff"]),
    "uuid": (pa.uuid(), [id.bytes for id in IDS]),
    "bool": (pa.bool_(), [False, True]),
}


def predicates(column: str, schema: pa.Schema, values: list[Any]) -> list[Expr]:
    build, operand = Builder(), Operand(ColumnNames(schema).find([column]))
    exprs: list[Expr] = [IsNull(operand.column), Not(IsNull(operand.column))]
    typed = [python_value(value) for value in values]
    for value in typed:
        exprs += [build.compare(operand, op, value) for op in ("=", "!=", "<", "<=", ">", ">=")]
    exprs += [build.contains(operand, typed[:2]), Not(build.contains(operand, typed[1:]))]
    return exprs


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize("name", CASES)
def test_all_engines_return_the_matching_rows_of_every_type(
    tmp_path: Path, name: str, con: duckdb.DuckDBPyConnection
) -> None:
    data_type, values = CASES[name]
    parts = []
    for number, part_values in enumerate([values, values[:1], [None, values[-1]], [None]]):
        table = pa.table(
            {
                "x": pa.array(part_values, data_type),
                "row": [number * 10 + position for position in range(len(part_values))],
            }
        )
        path = tmp_path / f"part-{number}.parquet"
        pq.write_table(table, path, store_decimal_as_integer="_as_int" in name)
        if "_as_int" in name:
            assert pq.ParquetFile(path).schema.column(0).physical_type == name.rpartition("_")[2].upper()
        parts.append(table)
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    full = table.plan().to_arrow()
    exprs = predicates("x", table.schema, values)
    for indexed in (False, True):
        if indexed:
            try:
                table.build_index("x", progress=False)
            except ps.UnsupportedError:
                break
        for expr in exprs:
            plan = table.plan(expr)
            expected = sorted(full["row"][row].as_py() for row in rows(expr, full))
            assert sorted(plan.to_arrow(["row"])["row"].to_pylist()) == expected, (str(expr), plan.explain())
            # An index only changes which files the other engines read, so test them once.
            if indexed:
                continue
            if name == "decimal256":
                with pytest.raises(ps.UnsupportedError):
                    plan.to_polars()
            elif name != "half":
                assert sorted(plan.to_polars().collect()["row"]) == expected, str(expr)
            if name in ("half", "decimal256"):
                with pytest.raises(ps.UnsupportedError):
                    plan.to_duckdb(con)
                continue
            duckdb_rows = plan.to_duckdb(con).project("row").fetchall()
            assert sorted(row for (row,) in duckdb_rows) == expected, str(expr)
        non_null = table.plan(Not(IsNull(ColumnNames(table.schema).find(["x"]))))
        assert len(non_null.files) == 3


def test_columns_in_nested_structs_match_by_value_and_null(tmp_path: Path) -> None:
    """A leaf column in nested structs is null if the leaf or one of its parents is null."""
    struct_type = pa.struct([("inner", pa.struct([("x", pa.uint32()), ("day", pa.date32())]))])
    days = [dt.date(2026, 1, 1), dt.date(2026, 1, 9)]
    files = [
        [{"inner": {"x": 2**31, "day": days[0]}}, {"inner": {"x": 7, "day": None}}],
        [{"inner": {"x": None, "day": days[1]}}, {"inner": None}, None],
        [None, None],
        [{"inner": {"x": 7, "day": days[1]}}, {"inner": {"x": 2**32 - 1, "day": days[0]}}],
    ]
    for number, values in enumerate(files):
        pq.write_table(pa.table({"st": pa.array(values, struct_type)}), tmp_path / f"part-{number}.parquet")
    wait_until_old(tmp_path)
    expected = {
        "st.inner.x = 7": ("03", 2),
        "st.inner.x > 2147483648": ("3", 1),
        "st.inner.x IS NULL": ("12", 5),
        "st.inner.day = DATE '2026-01-09'": ("13", 2),
        "st.inner.day IS NULL AND st.inner.x = 7": ("0", 1),
        "st.inner.x IN (1, 4294967295)": ("3", 1),
    }
    for kind in (None, "sieve", "bloom"):
        table = ps.open_table(str(tmp_path))
        if kind is not None:
            table.build_index(["st.inner.x", ("st", "inner", "day")], kind=kind)
        for where, (files_kept, count) in expected.items():
            plan = table.plan(where, row_groups=True)
            assert plan.to_arrow().num_rows == count, where
            assert plan.to_polars().collect().height == count, where
            kept_parts = {path[-9] for path in plan.files}
            assert set(files_kept) <= kept_parts, where
            # With predicates on two columns, a file may be kept although no single row matches both.
            assert len(kept_parts) <= len(files_kept) + 1, where
