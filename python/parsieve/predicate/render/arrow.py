"""Render a predicate as a pyarrow Expression."""

from __future__ import annotations

import math
import operator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.predicate.expr import (
    COMPARE,
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
    Or,
    StartsWith,
)
from parsieve.predicate.render.form import join_balanced, prepare
from parsieve.predicate.text.like import last_text, write_regex
from parsieve.predicate.text.words import write_word_regex


def to_pyarrow(expr: Expr) -> pc.Expression:
    """Return an Expression that is true for the same rows as `expr`; for other rows it is false or null.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import parse
    >>> from parsieve.predicate.render import to_pyarrow
    >>> to_pyarrow(parse("x > 1.5", pa.schema({"x": pa.float64()})))
    <pyarrow.compute.Expression ((x > 1.5) or is_nan(x))>
    """
    return _render(prepare(expr))


def _render(expr: Expr) -> pc.Expression:
    match expr:
        case And(parts):
            return join_balanced([_render(part) for part in parts], operator.and_)
        case Or(parts):
            return join_balanced([_render(part) for part in parts], operator.or_)
        case Always(value):
            return pc.scalar(bool(value))
        case IsNull(column):
            return pc.field(*column.path).is_null()
        case Not(IsNull(column)):
            return pc.field(*column.path).is_valid()
        case Compare():
            return _compare(expr)
        case In(column, values):
            return _is_in(column, values)
        case Not(In(column, values)):
            # pyarrow's is_in is false for null, but NOT IN must be null.
            return _field(column).is_valid() & ~_is_in(column, values)
        case StartsWith(column, prefix):
            return _starts_with(column, prefix)
        case Not(StartsWith(column, prefix)):
            return ~_starts_with(column, prefix)
        case Like():
            return _like(expr)
        case Not(Like() as like):
            return ~_like(like)
        case HasToken(column):
            return match_token(_field(column), expr)
        case Not(HasToken(column) as test):
            return ~match_token(_field(column), test)
        case Computed() | AnyElement() | Not(AnyElement()):
            raise UnsupportedError(f"pyarrow has no expression for {expr}; use to_arrow or to_batches")
    raise AssertionError(expr)


def _is_in(column: Column, values: pa.Array) -> pc.Expression:
    """Render `column IN values`. pyarrow's is_in does not support half floats and 32-bit or 64-bit decimals."""
    field, kind = _field(column), values.type
    if pa.types.is_float16(kind):
        return field.isin(values.cast(pa.float32()))
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        wide = pa.decimal128(kind.precision, kind.scale)
        return field.cast(wide).isin(values.cast(wide))
    return field.isin(values)


def _compare(leaf: Compare) -> pc.Expression:
    field, value = _field(leaf.column), leaf.value.scalar
    if pa.types.is_floating(value.type):
        if math.isnan(value.as_py()):
            return pc.is_nan(field) if leaf.op == "=" else ~pc.is_nan(field)
        # pyarrow cannot compare half floats, but floats can represent all of them.
        if pa.types.is_float16(value.type):
            value = pa.scalar(float(value.as_py()), pa.float32())
    compared: pc.Expression = COMPARE[leaf.op](field, value)
    return compared


def _starts_with(column: Column, prefix: Literal) -> pc.Expression:
    field = _field(column)
    if pa.types.is_fixed_size_binary(column.value_type):
        field = field.cast(pa.binary())
    return pc.starts_with(field, prefix.scalar.as_py())


def _like(leaf: Like) -> pc.Expression:
    return match_pattern(_field(leaf.column), leaf)


def match_token(values: Any, leaf: HasToken) -> Any:
    """Test a column for a word: an array or an Expression."""
    return pc.match_substring_regex(_searchable(values, leaf.column), write_word_regex(leaf.word))


def _searchable(values: Any, column: Column) -> Any:
    """Return a column in a type that pyarrow can search: it cannot search views."""
    if not pa.types.is_string_view(column.value_type):
        return values
    return pc.cast(values, pa.large_string()) if isinstance(values, pa.Array) else values.cast(pa.large_string())


def match_pattern(values: Any, leaf: Like) -> Any:
    """Match a column with a pattern: an array or an Expression."""
    values = _searchable(values, leaf.column)
    if (text := last_text(leaf.pattern)) is not None and not leaf.ignore_case:
        return pc.ends_with(values, text)
    # pyarrow's match_like takes a backslash in some patterns literally, and match_substring takes twice as long.
    return pc.match_substring_regex(values, write_regex(leaf.pattern), ignore_case=leaf.ignore_case)


def _field(column: Column) -> pc.Expression:
    field = pc.field(*column.path)
    if pa.types.is_float16(column.value_type):
        return field.cast(pa.float32())
    return field if column.type == column.value_type else field.cast(column.value_type)
