"""The typed form as a Polars expression. Polars orders NaN as the form does."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.predicate.expr import Always, And, Column, Compare, Expr, In, IsNull, Literal, Not, Or, StartsWith
from parsieve.predicate.render.form import joined, renderable

if TYPE_CHECKING:
    import polars as pl

_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def to_polars(expr: Expr) -> pl.Expr:
    """The expression that is true for the rows for which `expr` is; for other rows it is false or null."""
    return _render(renderable(expr))


def _render(expr: Expr) -> pl.Expr:
    import polars as pl

    match expr:
        case And(parts):
            return joined([_render(part) for part in parts], operator.and_)
        case Or(parts):
            return joined([_render(part) for part in parts], operator.or_)
        case Always(value):
            return pl.lit(bool(value))
        case IsNull(column):
            return _column(column).is_null()
        case Not(IsNull(column)):
            return _column(column).is_not_null()
        case Compare(column, op, value):
            return _compare(column, op, value)
        case In(column, values):
            return _column(column).is_in(_series(column, values).implode())
        case Not(In(column, values)):
            return ~_column(column).is_in(_series(column, values).implode())
        case StartsWith(column, prefix):
            return _starts_with(column, prefix)
        case Not(StartsWith(column, prefix)):
            return ~_starts_with(column, prefix)
    raise AssertionError(expr)


def _compare(column: Column, op: str, value: Literal) -> pl.Expr:

    found = _column(column)
    if pa.types.is_floating(value.scalar.type) and math.isnan(value.scalar.as_py()):
        return found.is_nan() if op == "=" else found.is_not_nan()
    compared: pl.Expr = _OPERATORS[op](found, _literal(column, value.scalar))
    return compared


def _literal(column: Column, scalar: pa.Scalar) -> pl.Expr:
    import polars as pl

    series = _series(column, pa.repeat(scalar, 1))
    if series.dtype.is_temporal():
        # As ticks, since what Python has of a moment ends at microseconds.
        return pl.lit(series.to_physical()[0], dtype=series.to_physical().dtype).cast(series.dtype)
    return pl.lit(series[0], dtype=series.dtype)


def _series(column: Column, values: pa.Array) -> pl.Series:
    import polars as pl

    try:
        if pa.types.is_date64(values.type):
            values = values.cast(pa.date32())
        if pa.types.is_timestamp(values.type) and values.type.unit == "s":
            # Polars has no seconds and reads such columns as milliseconds.
            values = values.cast(pa.timestamp("ms", values.type.tz))
        found = pl.from_arrow(values)
    except (pa.ArrowInvalid, pl.exceptions.PolarsError) as error:
        raise UnsupportedError(f"Polars has no such values as column {column} is compared with: {error}") from None
    assert isinstance(found, pl.Series)
    return found


def _column(column: Column) -> pl.Expr:
    import polars as pl

    found = pl.col(column.path[0])
    for name in column.path[1:]:
        found = found.struct.field(name)
    if pa.types.is_date64(column.type):
        # Polars reads them as timestamps or dates, depending on where from.
        return found.cast(pl.Date)
    if pa.types.is_dictionary(column.type):
        return found.cast(pl.String) if pa.types.is_string(column.value_type) else found
    return found


def _starts_with(column: Column, prefix: Literal) -> pl.Expr:
    found = _column(column)
    value = prefix.scalar.as_py()
    return found.bin.starts_with(value) if isinstance(value, bytes) else found.str.starts_with(value)
