"""Check the plans of any table: compare random predicates of every form with a full read, in every engine."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

import parsieve as ps
from parsieve.predicate import And, Expr, IsNull, Not, Or
from parsieve.predicate.builder import Builder, Operand, is_bytes, is_text, scalar_value
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import Operator
from parsieve.predicate.messages import NotUnderstoodError
from parsieve.predicate.text.like import Pattern, Wildcard, normal_form
from support.models.lake_truth import leaf_paths
from support.models.lake_truth import rows as row_texts
from support.models.predicate_reference import rows as matching

INDEXED = ["id", "name", "real", "at"]
OPERATORS: tuple[Operator, ...] = ("=", "!=", "<", "<=", ">", ">=")


def values_of(table: pa.Table, path: tuple[str, ...]) -> list[pa.Scalar]:
    """Return all values at a path through structs, sorted, because the order of files depends on their random names."""
    values = list(table[path[0]])
    for part in path[1:]:
        values = [value[part] if value.is_valid else None for value in values]
    return sorted((value for value in values if value is not None and value.is_valid), key=repr)


def random_predicate(random_: random.Random, full: pa.Table, depth: int = 2) -> Expr:
    """Return a random predicate with values of the table, or about nulls."""
    if depth and random_.random() < 0.5:
        parts = tuple(random_predicate(random_, full, depth - 1) for _ in range(random_.randrange(1, 4)))
        forms: list[Expr] = [And(parts), Or(parts), Not(parts[0])]
        return random_.choice(forms)
    path = random_.choice(leaf_paths(full.schema))
    column = ColumnNames(full.schema).find(path)
    values = values_of(full, path)
    kind = random_.choice(["compare", "compare", "in", "null", "prefix", "like", "between"])
    build, operand = Builder(), Operand(column)
    if kind == "null" or not values:
        absent = IsNull(column)
        return absent if random_.random() < 0.5 else Not(absent)
    try:
        first, second = (scalar_value(random_.choice(values)) for _ in range(2))
        if kind == "in":
            return build.contains(operand, [scalar_value(random_.choice(values)) for _ in range(4)])
        if kind == "between":
            return And((build.compare(operand, ">=", first), build.compare(operand, "<=", second)))
        if kind == "prefix" and (is_text(column.value_type) or is_bytes(column.value_type)):
            return build.starts_with(
                operand, first[: random_.randrange(3)] if isinstance(first, str | bytes) else first
            )
        if kind == "like" and isinstance(first, str):
            return build.like(operand, _random_pattern(random_, first), ignore_case=random_.random() < 0.3)
        return build.compare(operand, random_.choice(OPERATORS), first)
    except NotUnderstoodError:
        return IsNull(column)


def _random_pattern(random_: random.Random, text: str) -> Pattern:
    """Return a pattern of parts of a text and wildcards."""
    start = random_.randrange(len(text) + 1)
    part = text[start : start + random_.randrange(8)]
    wildcards: list[list[str | Wildcard]] = [[], [Wildcard.ANY], [Wildcard.ONE], [Wildcard.ONE, Wildcard.ANY]]
    before = random_.choice(wildcards) if random_.random() < 0.8 else [text[:start], Wildcard.ANY]
    after = random_.choice(wildcards)
    return normal_form([*before, part, *after])


def check_plans(table: ps.Table, full: pa.Table, random_: random.Random, count: int, as_of: Any = None) -> None:
    """Compare the rows of random plans with the matching rows of a full read."""
    for _ in range(count):
        expr = random_predicate(random_, full)
        expected = row_texts(full.take(pa.array(matching(expr, full), pa.int64())))
        for row_groups in (None, True):
            plan = table.plan(expr, as_of, row_groups=row_groups)
            result = plan.to_arrow()
            assert row_texts(result.select(full.column_names)) == expected, (str(expr), plan.explain())
        assert plan.to_polars().collect().height == len(expected), str(expr)
        with duckdb.connect() as con:
            # Count in SQL: DuckDB would need another library to return timestamps as Python values.
            assert plan.to_duckdb(con).aggregate("count(*)").fetchall() == [(len(expected),)], str(expr)


def check_no_more_is_kept(table: ps.Table, full: pa.Table, random_: random.Random, as_of: Any = None) -> None:
    """Check that plans with an index, fresh or stale, keep no file that statistics or footers exclude."""
    plain = ps.open_table(getattr(table.opened.lake, "_given", None) or table.uri, index_location=f"{table.uri}/_none")
    for _ in range(6):
        expr = random_predicate(random_, full)
        by_metadata = plain.plan(expr, as_of, row_groups=False)
        assert set(table.plan(expr, as_of).files) <= set(by_metadata.files), str(expr)
        by_footers = plain.plan(expr, as_of, row_groups=True)
        assert set(table.plan(expr, as_of, row_groups=True).files) <= set(by_footers.files), str(expr)


def some_rows(random_: random.Random, count: int, first: int = 0) -> pa.Table:
    def pick(*values: Any) -> list[Any]:
        return [random_.choice(values) for _ in range(count)]

    micros = [-1_999, -1, 0, 1, 999, 1_234_567, 1_767_225_600_123_456, 1_767_225_600_123_999]
    return pa.table(
        {
            "id": pa.array([first + random_.randrange(100) for _ in range(count)], pa.int64()),
            "name": pa.array(pick("a", "ab", "ü" * 40, "x" * 31 + "😀" * 4, "x" * 40 + "y", None), pa.string()),
            "real": pa.array(pick(0.0, -0.0, math.nan, 0.1, -1e300, math.inf, None), pa.float64()),
            "paid": pa.array(pick(Decimal("1.20"), Decimal("-99999.99"), None), pa.decimal128(12, 2)),
            "at": pa.array(pick(*micros, None), pa.timestamp("us", "UTC")),
            "day": pa.array(pick(dt.date(1970, 1, 1), dt.date(2026, 1, 1), dt.date(2026, 1, 2), None), pa.date32()),
            "flag": pa.array(pick(True, False, None), pa.bool_()),
            "point": pa.array(pick({"x": 1}, {"x": 7}, {"x": None}, None), pa.struct([("x", pa.int64())])),
            "year": pa.array(pick(2025, 2026), pa.int32()),
        }
    )


def build(table: ps.Table, kind: str) -> None:
    """Build an index of some columns, of one kind or both kinds."""
    for index_kind in ("sieve", "bloom") if kind == "both" else (kind,):
        table.build_index(INDEXED, kind=index_kind, progress=False)
    if kind == "both":
        table.build_index("name", kind="text")
