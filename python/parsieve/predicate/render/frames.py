"""Render a predicate as a Polars expression. Polars orders NaN like the typed form."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.predicate.expr import (
    COMPARE,
    ELEMENT,
    Always,
    And,
    AnyElement,
    Column,
    Compare,
    Computed,
    Expr,
    HasToken,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Or,
    StartsWith,
)
from parsieve.predicate.render.form import join_balanced, prepare
from parsieve.predicate.text.like import contained_text, last_text, write_regex
from parsieve.predicate.text.words import write_word_regex

if TYPE_CHECKING:
    import polars as pl


def to_polars(expr: Expr) -> pl.Expr:
    """Return an expression that is true for the same rows as `expr`; for other rows it is false or null."""
    return _render(prepare(expr))


def _render(expr: Expr) -> pl.Expr:
    import polars as pl

    match expr:
        case And(parts):
            return join_balanced([_render(part) for part in parts], operator.and_)
        case Or(parts):
            return join_balanced([_render(part) for part in parts], operator.or_)
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
        case Like():
            return _like(expr)
        case Not(Like() as like):
            return ~_like(like)
        case HasToken(column, word):
            return _column(column).str.contains(write_word_regex(word))
        case Not(HasToken(column, word)):
            return ~_column(column).str.contains(write_word_regex(word))
        case Computed():
            raise UnsupportedError(f"engines disagree about {expr} for some values; use to_arrow or to_batches")
        case AnyElement():
            return _any_element(expr)
        case Not(AnyElement() as test):
            return ~_any_element(test)
    raise AssertionError(expr)


def _compare(column: Column, op: Operator, value: Literal) -> pl.Expr:
    field = _column(column)
    if pa.types.is_floating(value.scalar.type) and math.isnan(value.scalar.as_py()):
        return field.is_nan() if op == "=" else field.is_not_nan()
    compared: pl.Expr = COMPARE[op](field, _literal(column, value.scalar))
    return compared


def _literal(column: Column, scalar: pa.Scalar) -> pl.Expr:
    import polars as pl

    series = _series(column, pa.repeat(scalar, 1))
    if series.dtype.is_temporal():
        # Pass the physical integer, because Python's datetime has no nanoseconds.
        return pl.lit(series.to_physical()[0], dtype=series.to_physical().dtype).cast(series.dtype)
    return pl.lit(series[0], dtype=series.dtype)


def _series(column: Column, values: pa.Array) -> pl.Series:
    import polars as pl

    try:
        if pa.types.is_date64(values.type):
            values = values.cast(pa.date32())
        if pa.types.is_timestamp(values.type) and values.type.unit == "s":
            # Polars has no timestamps in seconds, and reads such columns as milliseconds.
            values = values.cast(pa.timestamp("ms", values.type.tz))
        series = pl.from_arrow(values)
    except (pa.ArrowInvalid, pl.exceptions.PolarsError) as error:
        raise UnsupportedError(
            f"Polars cannot represent a value that column {column} is compared with: {error}"
        ) from None
    assert isinstance(series, pl.Series)
    return series


def _column(column: Column) -> pl.Expr:
    import polars as pl

    if column.is_repeated:
        field = pl.element() if column.path[-1] == ELEMENT else pl.element().struct.field(column.path[-1])
    else:
        field = pl.col(column.path[0])
        for name in column.path[1:]:
            field = field.struct.field(name)
    if pa.types.is_date64(column.type):
        # Polars reads date64 as timestamps or as dates, depending on the source.
        return field.cast(pl.Date)
    if pa.types.is_dictionary(column.type):
        return field.cast(pl.String) if pa.types.is_string(column.value_type) else field
    return field


def _any_element(test: AnyElement) -> pl.Expr:
    field = _column(test.column)
    if pa.types.is_fixed_size_list(test.column.type):
        field = field.arr.to_list()
    # In Polars, a map is a list of structs.
    return field.list.eval(_render(test.condition).fill_null(False)).list.any()


def _starts_with(column: Column, prefix: Literal) -> pl.Expr:
    field = _column(column)
    value = prefix.scalar.as_py()
    return field.bin.starts_with(value) if isinstance(value, bytes) else field.str.starts_with(value)


def _like(leaf: Like) -> pl.Expr:
    field = _column(leaf.column)
    if not leaf.ignore_case:
        if (text := contained_text(leaf.pattern)) is not None:
            return field.str.contains(text, literal=True)
        if (text := last_text(leaf.pattern)) is not None:
            return field.str.ends_with(text)
    flag = "(?i)" if leaf.ignore_case else ""
    return field.str.contains(flag + write_regex(leaf.pattern))
