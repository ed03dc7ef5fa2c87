"""Decimals of each physical type: min/max statistics, Bloom filters and indexes lose no row."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.footer_edit import BINARY, I32, KEY_VALUES, MAX_VALUE, MIN_VALUE, SCHEMA, STRUCT, Struct, edit, statistics

import parsieve as ps

PARTS, SCALE = 6, 2
CONVERTED_TYPE, SCALE_FIELD, PRECISION, LOGICAL_TYPE = 6, 7, 8, 10
# The physical types, with the precision of the column.
FORMS = {"INT32": 7, "INT64": 15, "FIXED_LEN_BYTE_ARRAY": 25, "BYTE_ARRAY": 25, "BYTE_ARRAY, padded": 25}
EVIDENCE = ["min/max", "filters", "bloom", "sieve", "both"]


def unscaled(part: int) -> list[int]:
    """Return scattered values, with negative numbers, zero, and values around changes of the number of bytes."""
    random_ = random.Random(part)
    edges = [-32769, -32768, -129, -128, -127, -1, 0, 1, 127, 128, 255, 256, 32767, 32768]
    scattered = [random_.randrange(-900_000, 900_000) * PARTS + part for _ in range(200)]
    return [value for value in edges if value % PARTS == part] + [value for value in scattered if value % PARTS == part]


def as_bytes(value: int, width: int | None) -> bytes:
    """Encode a value in two's complement, with the fewest bytes or at least `width` bytes."""
    fewest = (value + (value < 0)).bit_length() // 8 + 1
    return value.to_bytes(max(fewest, width or 0), "big", signed=True)


def as_byte_array(path: Path, values: list[int], precision: int, width: int | None) -> None:
    """Write a file with decimals of different lengths, which pyarrow can read but not write."""
    stored = [as_bytes(value, None if width is None else width + number % 3) for number, value in enumerate(values)]
    pq.write_table(pa.table({"x": pa.array(stored, pa.binary())}), path, row_group_size=50, use_dictionary=False)

    def change(metadata: Struct) -> None:
        del metadata[KEY_VALUES]
        column = metadata[SCHEMA][1][1][1]
        decimal: Struct = {1: (I32, SCALE), 2: (I32, precision)}
        column |= {CONVERTED_TYPE: (I32, 5), SCALE_FIELD: (I32, SCALE), PRECISION: (I32, precision)}
        column[LOGICAL_TYPE] = (STRUCT, {5: (STRUCT, decimal)})
        for number, group in enumerate(statistics(metadata)):
            group_values = values[number * 50 : number * 50 + 50]
            group |= {
                MIN_VALUE: (BINARY, as_bytes(min(group_values), width)),
                MAX_VALUE: (BINARY, as_bytes(max(group_values), width)),
            }

    edit(path, change)


@pytest.fixture(params=list(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path, form: str) -> Path:
    precision = FORMS[form]
    for part in range(PARTS):
        path, values = tmp_path / f"part-{part}.parquet", unscaled(part)
        if form.startswith("BYTE_ARRAY"):
            as_byte_array(path, values, precision, 13 if "padded" in form else None)
        else:
            column = pa.array([Decimal(value).scaleb(-SCALE) for value in values], pa.decimal128(precision, SCALE))
            table = pa.table({"x": column})
            pq.write_table(table, path, row_group_size=50, store_decimal_as_integer=form.startswith("INT"))
        parquet_file = pq.ParquetFile(path)
        assert parquet_file.schema.column(0).physical_type == form.partition(",")[0]
        assert parquet_file.schema_arrow.field("x").type == pa.decimal128(precision, SCALE)
        assert [int(value.scaleb(SCALE)) for value in parquet_file.read()["x"].to_pylist()] == values
    wait_until_old(tmp_path)
    return tmp_path


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_decimals_of_each_form_lose_no_row(folder: Path, form: str, evidence: str) -> None:
    if evidence == "filters":
        # A byte array can hold a decimal in many lengths, and each of them may be a false positive.
        reports = [ps.add_filters(path, columns="x", fpp=0.001) for path in sorted(folder.glob("*.parquet"))]
        assert all(file_report.added for file_report in reports), "each file must get a filter"
        wait_until_old(folder)
    table = ps.open_table(str(folder))
    if evidence in ("bloom", "sieve", "both"):
        table.build_index("x", kind=evidence)
        assert table.verify_index() == []
    all_values = sorted(value for part in range(PARTS) for value in unscaled(part))
    num_kept = 0
    literals = [*all_values[::150], -32769, -128, -1, 0, 1, 128, 255, 256, 32768]
    for value in literals:
        text = Decimal(value).scaleb(-SCALE)
        # A literal with another scale, and a cast from a string.
        for where in (f"x = {text}", f"x = CAST('{text}000' AS DECIMAL(30, 5))"):
            plan = table.plan(where, row_groups=True)
            assert plan.to_arrow().num_rows == all_values.count(value), (where, plan.explain())
            num_kept += len(plan.files)
        high = Decimal(value + 40).scaleb(-SCALE)
        plan = table.plan(f"x > {text} AND x <= {high}", row_groups=True)
        expected = [number for number in all_values if value < number <= value + 40]
        actual = sorted(int(number.scaleb(SCALE)) for number in plan.to_arrow()["x"].to_pylist())
        assert actual == expected, plan.explain()
        assert sorted(int(row[0].scaleb(SCALE)) for row in plan.to_duckdb().fetchall()) == expected
        assert plan.to_polars().collect().height == len(expected)
    if evidence != "min/max":
        # Check that the evidence skips files at all. Each value is in one file.
        assert num_kept < 2 * len(literals) * 2, "nothing was excluded"
    for edge, beyond, upto in ((min(all_values), "<", "<="), (max(all_values), ">", ">=")):
        text = Decimal(edge).scaleb(-SCALE)
        assert table.plan(f"x {upto} {text}", row_groups=True).to_arrow().num_rows == all_values.count(edge)
        # Writers disagree on the order of BYTE_ARRAY decimals, so their bounds are not used.
        if not form.startswith("BYTE_ARRAY") or evidence in ("sieve", "both"):
            assert table.plan(f"x {beyond} {text}", row_groups=True).files == []


def test_bounds_of_byte_array_decimals_are_not_used(tmp_path: Path) -> None:
    """A writer that orders them as unsigned bytes writes wrong bounds, or a minimum above the maximum."""
    path, values = tmp_path / "part-0.parquet", [-5, 3, 100, 300]
    as_byte_array(path, values, 25, None)

    def change(metadata: Struct) -> None:
        for group in statistics(metadata):
            group |= {MIN_VALUE: (BINARY, b"\x03"), MAX_VALUE: (BINARY, b"\xfb")}

    edit(path, change)
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    for value in values:
        plan = table.plan(f"x = {Decimal(value).scaleb(-SCALE)}", row_groups=True)
        assert len(plan.files) == 1, plan.explain()


def test_bounds_of_too_many_digits_are_not_used(tmp_path: Path) -> None:
    """16 bytes hold numbers of 39 digits, but decimals have 38."""
    values = [Decimal(1), Decimal(5)]
    pq.write_table(pa.table({"x": pa.array(values, pa.decimal128(38, 0))}), tmp_path / "part-0.parquet")

    def change(metadata: Struct) -> None:
        for group in statistics(metadata):
            group |= {MAX_VALUE: (BINARY, b"\x7f" + b"\xff" * 15)}

    edit(tmp_path / "part-0.parquet", change)
    wait_until_old(tmp_path)
    plan = ps.open_table(str(tmp_path)).plan("x = 5", row_groups=True)
    assert len(plan.files) == 1
    assert plan.to_arrow()["x"].to_pylist() == [Decimal(5)]
