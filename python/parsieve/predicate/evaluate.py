"""Evaluate a predicate on arrays in memory, with the same pyarrow functions as an Expression of `to_pyarrow`.

pyarrow runs an Expression as a query, which takes longer than to compare some thousand values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.expr import Always, And, Column, Compare, Expr, In, IsNull, Not, Or, StartsWith, columns
from parsieve.predicate.render.form import join_balanced, prepare

_FUNCTIONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """A part of a conjunction that refers to certain columns."""

    # The names of the top-level columns that the condition refers to.
    names: tuple[str, ...]
    parts: tuple[Expr, ...]

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row of a batch whether the condition is true, false or null."""
        return join_balanced([_evaluate(part, batch) for part in self.parts], pc.and_kleene)

    @property
    def tests_equality(self) -> bool:
        """Whether the condition probably matches few rows."""
        return any(isinstance(part, In) or (isinstance(part, Compare) and part.op == "=") for part in self.parts)


def conditions_of(expr: Expr) -> list[Condition]:
    """Split a predicate into conditions that must all be true. No two of them refer to the same set of columns.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import parse
    >>> from parsieve.predicate.evaluate import conditions_of
    >>> batch = pa.record_batch({"x": [1.0, 2.0, None], "y": [1, 2, 3]})
    >>> for condition in conditions_of(parse("x > 1.5 AND y < 3", batch.schema)):
    ...     print(condition.names, condition.evaluate(batch).to_pylist())
    ('x',) [False, True, None]
    ('y',) [True, True, False]
    """
    prepared = prepare(expr)
    by_names: dict[tuple[str, ...], list[Expr]] = {}
    for part in prepared.parts if isinstance(prepared, And) else (prepared,):
        names = tuple(sorted({column.path[0] for column in columns(part)}))
        by_names.setdefault(names, []).append(part)
    return [Condition(names, tuple(parts)) for names, parts in by_names.items()]


def _evaluate(expr: Expr, batch: pa.RecordBatch) -> pa.BooleanArray:
    match expr:
        case And(parts):
            return join_balanced([_evaluate(part, batch) for part in parts], pc.and_kleene)
        case Or(parts):
            return join_balanced([_evaluate(part, batch) for part in parts], pc.or_kleene)
        case Always(value):
            return pa.repeat(pa.scalar(bool(value)), batch.num_rows)
        case IsNull(column):
            return pc.is_null(_leaf(batch, column))
        case Not(IsNull(column)):
            return pc.is_valid(_leaf(batch, column))
        case Compare():
            return _compare(expr, batch)
        case In(column, values):
            return _is_in(_values(batch, column), values)
        case Not(In(column, values)):
            # pyarrow's is_in is false for null, but NOT IN must be null.
            array = _values(batch, column)
            return pc.and_kleene(pc.is_valid(array), pc.invert(_is_in(array, values)))
        case StartsWith(column, prefix):
            return _starts_with(batch, column, prefix.scalar.as_py())
        case Not(StartsWith(column, prefix)):
            return pc.invert(_starts_with(batch, column, prefix.scalar.as_py()))
    raise AssertionError(expr)


def _is_in(array: pa.Array, values: pa.Array) -> pa.BooleanArray:
    """Return which values are in a list. pyarrow's is_in does not support half floats and narrow decimals."""
    kind = values.type
    if pa.types.is_float16(kind):
        values = values.cast(pa.float32())
    elif pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        wide = pa.decimal128(kind.precision, kind.scale)
        array, values = array.cast(wide), values.cast(wide)
    return pc.is_in(array, value_set=values)


def _compare(leaf: Compare, batch: pa.RecordBatch) -> pa.BooleanArray:
    array, value = _values(batch, leaf.column), leaf.value.scalar
    if pa.types.is_floating(value.type):
        if math.isnan(value.as_py()):
            is_nan = pc.is_nan(array)
            return is_nan if leaf.op == "=" else pc.invert(is_nan)
        # pyarrow cannot compare half floats, but floats can represent all of them.
        if pa.types.is_float16(value.type):
            value = pa.scalar(float(value.as_py()), pa.float32())
    return _FUNCTIONS[leaf.op](array, value)


def _starts_with(batch: pa.RecordBatch, column: Column, prefix: str | bytes) -> pa.BooleanArray:
    array = _values(batch, column)
    if pa.types.is_fixed_size_binary(column.value_type):
        array = array.cast(pa.binary())
    return pc.starts_with(array, prefix)


def _values(batch: pa.RecordBatch, column: Column) -> pa.Array:
    """Return the values of a column in a type that pyarrow can compare."""
    array = _leaf(batch, column)
    if pa.types.is_float16(column.value_type):
        return array.cast(pa.float32())
    return array if column.type == column.value_type else array.cast(column.value_type)


def _leaf(batch: pa.RecordBatch, column: Column) -> pa.Array:
    """Return a column. The leaves of a null struct are null."""
    name, *below = column.path
    array = batch.column(batch.schema.get_field_index(name))
    return pc.struct_field(array, below) if below else array
