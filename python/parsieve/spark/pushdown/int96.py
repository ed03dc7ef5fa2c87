"""Translate predicates on Spark's timestamps in microseconds to columns that store nanoseconds, as INT96 does.

Spark truncates nanoseconds when it reads them, so each of its timestamps represents an interval of stored ones.
Writers may count the nanoseconds of a day from its end. Then Spark truncates in the other direction, so the interval is
one microsecond longer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.expr import (
    Always,
    And,
    Column,
    Compare,
    Computed,
    Expr,
    In,
    IsNull,
    Leaf,
    Literal,
    Not,
    Operator,
    Or,
    OutOfType,
    all_of,
    any_of,
)
from parsieve.predicate.normalize import normalize

# The type of such a column to Spark, and in the file.
READ = pa.timestamp("us", "UTC")
STORED = pa.timestamp("ns")
# Up to this number, each timestamp of a list is an interval. A longer list becomes one interval.
FEW = 20
_MOST = 2**63 - 1


def reads_timestamps(spark: Any) -> bool:
    """Return whether Spark reads the stored values of timestamps.

    With this setting, Spark shifts timestamps that other writers stored as INT96 by the session's time zone.
    """
    return bool(spark.conf.get("spark.sql.parquet.int96TimestampConversion", "false") == "false")


def as_read(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """Return a schema with these columns in the type that Spark reads."""
    return pa.schema([field.with_type(READ) if field.name in names else field for field in schema], schema.metadata)


def as_stored(expr: Expr, names: Collection[str]) -> Expr:
    """Translate `expr` from Spark's microseconds to stored nanoseconds. It implies the result, which may be weaker."""
    return _stored(normalize(expr, types_are_certain=False), frozenset((name,) for name in names))


def _stored(expr: Expr, paths: frozenset[tuple[str, ...]]) -> Expr:
    match expr:
        case And(parts):
            return all_of(*(_stored(part, paths) for part in parts))
        case Or(parts):
            return any_of(*(_stored(part, paths) for part in parts))
        case Not(leaf) if isinstance(leaf, Leaf) and leaf.column.path in paths:
            # Exclude only nulls, which never match. Excluding some timestamps would skip no files in practice.
            return _present(leaf.column)
        case Computed(_, expression) if any(column.path in paths for column in expression.columns):
            # Spark computes the expression from microseconds, the index from nanoseconds.
            return Always(True)
        case IsNull(column) if column.path in paths:
            return IsNull(_stored_column(column))
        case OutOfType(column, text) if column.path in paths:
            return OutOfType(_stored_column(column), text)
        case Compare(column, op, value) if column.path in paths:
            micros = value.scalar.cast(pa.int64()).as_py()
            return _compared(column, op, micros)
        case In(column, values) if column.path in paths:
            micros = values.cast(pa.int64())
            if len(micros) <= FEW:
                return any_of(*(_compared(column, "=", value) for value in micros.to_pylist()))
            ends = pc.min_max(micros).as_py()
            return all_of(_compared(column, ">=", ends["min"]), _compared(column, "<=", ends["max"]))
        case _:
            return expr


def _compared(column: Column, op: Operator, micros: int) -> Expr:
    least = {"=": micros - 1, ">=": micros - 1, ">": micros}.get(op)
    greatest = {"=": micros, "<=": micros, "<": micros - 1}.get(op)
    bounds: list[Expr] = []
    if least is not None:
        bounds += _bound(column, ">=", least * 1000)
    if greatest is not None:
        bounds += _bound(column, "<=", greatest * 1000 + 999)
    return all_of(*bounds) if bounds else _present(column)


def _bound(column: Column, op: Operator, nanos: int) -> list[Expr]:
    """Return a comparison, or none if nanoseconds cannot represent the bound."""
    if not -_MOST <= nanos <= _MOST:
        return []
    return [Compare(_stored_column(column), op, Literal(pa.scalar(nanos, pa.int64()).cast(STORED)))]


def _present(column: Column) -> Expr:
    return Not(IsNull(_stored_column(column)))


def _stored_column(column: Column) -> Column:
    return Column(column.path, STORED, column.field_id)
