"""Compare plans of folders whose files have different types with brute force over the exact values.

`python tests/python/support/programs/type_differences.py --conditions 10000 --seed 1` prints each difference with the
number of its table, and a summary. The first file decides the type of the column. If a matching value has no exact
counterpart in this type, every reader must raise an error. Otherwise it must return exactly the matching rows, or raise
an error because some file has a value without a counterpart. Half of the conditions of each table run without an index.
"""

from __future__ import annotations

import datetime as dt
import functools
import logging
import operator
import random
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[2]))

import parsieve as ps
from support import differences
from support.rows.conditions import COMPARISONS

PER_TABLE = 40
_EPOCH = dt.datetime(1970, 1, 1)


class Family(NamedTuple):
    """Types whose values can be compared with each other."""

    types: Sequence[pa.DataType]
    # Draws a value, exactly: a Fraction, a datetime or bytes. Files leave out the values that their type cannot hold.
    draw: Callable[[random.Random], Any]
    # Return the SQL literal of a value, and the value as a literal of pyarrow and Polars.
    sql: Callable[[Any], str]
    plain: Callable[[Any], Any]


def _number(source: random.Random) -> Fraction:
    whole = source.choice(
        [source.randrange(-3, 8), *(2**bits - source.randrange(2) for bits in (7, 8, 15, 31, 32, 40))]
    )
    return whole + Fraction(source.choice([0, 0, 0, 1, 2]), 4)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


NUMBERS = Family(
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.decimal128(12, 1), pa.decimal128(20, 2), pa.decimal128(9, 0)),
    ],
    _number,
    lambda value: str(_decimal(value)),
    lambda value: int(value) if value.denominator == 1 else float(value),
)
TIMES = Family(
    [pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns")],
    lambda source: _EPOCH + dt.timedelta(microseconds=source.choice([1, 1000, 10**6]) * source.randrange(1, 50)),
    lambda value: f"TIMESTAMP '{value.isoformat(sep=' ')}'",
    lambda value: value,
)
BYTES = Family(
    [pa.binary(), pa.large_binary(), pa.binary(2), pa.binary(3)],
    lambda source: bytes(source.choice(b"\x00\x61\xff") for _ in range(source.choice([1, 2, 2, 3, 3]))),
    lambda value: f"X'{value.hex()}'",
    lambda value: value,
)
FAMILIES = [NUMBERS, NUMBERS, TIMES, BYTES]


def stored(value: Any, kind: pa.DataType) -> Any:
    """Return a value as an object from which pyarrow makes exactly this value. Raise `ValueError` if there is none."""
    if isinstance(value, Fraction):
        plain: Any = value
        if pa.types.is_decimal(kind):
            plain = _decimal(value)
        elif pa.types.is_floating(kind):
            plain = float(value)
        elif value.denominator == 1:
            plain = int(value)
        else:
            raise ValueError(f"{value} is not whole")
    else:
        plain = value
    scalar = pa.scalar(plain, kind)
    if exact(scalar.as_py()) != value:
        raise ValueError(f"{kind} rounds {value}")
    return plain


def exact(value: Any) -> Any:
    """Return a value of Arrow in the form of `Family.draw`."""
    if isinstance(value, int | float | Decimal):
        return Fraction(value)
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def fits(value: Any, kind: pa.DataType) -> bool:
    """Return whether a type has exactly this value."""
    try:
        stored(value, kind)
    except (ValueError, pa.ArrowException, OverflowError):
        return False
    return True


class Condition(NamedTuple):
    """A condition in each language, and its value for each row."""

    sql: str
    arrow: pc.Expression
    polars: pl.Expr
    matches: Callable[[Any], bool]
    values: Sequence[Any]


def random_condition(source: random.Random, family: Family) -> Condition:
    """Return a comparison, or a test for some values, or its negation."""
    x, column = pc.field("x"), pl.col("x")
    values = [family.draw(source) for _ in range(source.choice([1, 1, 2, 3]))]
    literals = [family.plain(value) for value in values]
    name = source.choice(list(COMPARISONS))
    compare = COMPARISONS[name]
    arrow: Any
    polars: Any
    if len(values) == 1:
        sql, arrow, polars = f"x {name} {family.sql(values[0])}", compare(x, literals[0]), compare(column, literals[0])
    else:
        sql = f"x IN ({', '.join(map(family.sql, values))})"
        arrow = functools.reduce(operator.or_, [x == literal for literal in literals])
        polars = pl.any_horizontal([column == literal for literal in literals])
    is_negated = source.random() < 0.3
    if is_negated:
        sql, arrow, polars = f"NOT ({sql})", ~arrow, ~polars

    def matches(value: Any) -> bool:
        return (compare(value, values[0]) if len(values) == 1 else value in values) != is_negated

    return Condition(sql, arrow, polars, matches, values)


def check_table(seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    source = random.Random(seed)
    family = source.choice(FAMILIES)
    kinds = [source.choice(family.types)] * source.randrange(1, 3)
    kinds += source.choices(family.types, k=source.randrange(1, 4))
    rows: list[tuple[int, Any]] = []
    for part, kind in enumerate(kinds):
        drawn = [family.draw(source) for _ in range(source.choice([1, 3, 20]))]
        values = [value for value in drawn if fits(value, kind)]
        column = pa.array([stored(value, kind) for value in values] + [None] * source.randrange(2), kind)
        ids = pa.array(range(part * 100, part * 100 + len(column)), pa.int64())
        table = pa.table({"id": ids, "x": column})
        rows += [(part * 100 + number, value) for number, value in enumerate(values)]
        pq.write_table(
            table,
            folder / f"{part}.parquet",
            row_group_size=source.choice([2, 100]),
            write_statistics=source.random() < 0.8,
            use_dictionary=source.random() < 0.5,
            bloom_filter_options={"x": {"ndv": 100}} if source.random() < 0.5 else None,
        )
    opened = ps.open_table(folder)
    wrong = skipped = 0
    for number in range(PER_TABLE):
        if number == PER_TABLE // 2:
            _build(opened, source)
        condition = random_condition(source, family)
        try:
            skipped += check(opened, rows, condition, kinds)
        except AssertionError as error:
            wrong += 1
            print(f"{seed}, {[str(kind) for kind in kinds]}: {error}", flush=True)
    return wrong, skipped


def _build(table: ps.Table, source: random.Random) -> None:
    kind = source.choice(("sieve", "bloom", "both"))
    table.build_index("x", kind, unit=source.choice(("file", "row_group")), progress=False)


def _is_other(kind: pa.DataType, of_table: pa.DataType) -> bool:
    return any(is_kind(kind) != is_kind(of_table) for is_kind in (pa.types.is_decimal, pa.types.is_floating))


def check(table: ps.Table, rows: list[tuple[int, Any]], condition: Condition, kinds: Sequence[pa.DataType]) -> int:
    """Compare the rows of each reader with the rows that Python finds, and return how many files the plan skipped."""
    expected = [row for row, value in rows if condition.matches(value)]
    plan = table.plan(condition.sql)
    # Numbers of another kind, such as whole numbers in a column of decimals, are not converted.
    may_fail = any(_is_other(kind, kinds[0]) for kind in kinds) or any(not fits(value, kinds[0]) for _, value in rows)
    must_fail = any(not fits(value, kinds[0]) for row, value in rows if row in expected)
    readers: dict[str, Callable[[], pa.Table]] = {
        "plan": lambda: plan.to_arrow(["id"]),
        "plan for Polars": lambda: plan.to_polars().select("id").collect().to_arrow(),
        "plan for DuckDB": lambda: plan.to_duckdb(duckdb.connect()).to_arrow_table(),
        "dataset": lambda: table.dataset().to_table(["id"], filter=condition.arrow),
    }
    # Polars rounds other literals to the table's type.
    if all(fits(value, kinds[0]) for value in condition.values):
        frame = ps.scan_polars(table).filter(condition.polars)
        readers["LazyFrame"] = lambda: frame.select("id").collect().to_arrow()
    for name, read in readers.items():
        try:
            ids = sorted(read()["id"].to_pylist())
        except (ps.ParsieveError, pa.ArrowException, pl.exceptions.PolarsError) as error:
            # pyarrow and Polars cannot compare all types.
            is_theirs = name in ("dataset", "LazyFrame") and not isinstance(error, ps.ParsieveError)
            if may_fail or is_theirs:
                continue
            raise AssertionError(f"{name} of {condition.sql}: {type(error).__name__}: {error}") from None
        assert not must_fail, f"{name} of {condition.sql}: {ids} although a matching value does not fit {kinds[0]}"
        assert ids == sorted(expected), f"{name} of {condition.sql}: {ids} instead of {sorted(expected)}"
    return len(plan.skipped)


if __name__ == "__main__":
    # Indexes leave out the files whose values do not fit.
    logging.getLogger("parsieve").setLevel(logging.ERROR)
    differences.run(__doc__, check_table, PER_TABLE, "files")
