"""Evaluate a predicate on arrays in memory, with the same pyarrow functions as an Expression of `to_pyarrow`.

pyarrow runs an Expression as a query, which takes longer than to compare some thousand values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError, ValueSet
from parsieve.predicate.elements import as_lists, elements_batch, list_ends, running_sums
from parsieve.predicate.expr import (
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
    Not,
    Or,
    StartsWith,
    columns,
    walk,
)
from parsieve.predicate.render.arrow import match_pattern, match_token
from parsieve.predicate.render.form import join_balanced, prepare

_FUNCTIONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

# More values than this are looked up in a set. pyarrow's is_in makes a table of all values for each batch, which takes
# longer than to compare them.
MANY_VALUES = 20


class ValueList:
    """The values of an IN list, prepared for many batches. Threads may share it."""

    def __init__(self, values: pa.Array) -> None:
        self._values = _as_bits(values)
        self._set: ValueSet | None = None
        if len(values) > MANY_VALUES:
            # pyarrow looks up the values of other types.
            with suppress(UnsupportedError):
                self._set = ValueSet(self._values)

    def contains(self, array: pa.Array) -> pa.BooleanArray:
        """Return which values of an array are in the list. Nulls are not."""
        bits = _as_bits(array)
        return pc.is_in(bits, value_set=self._values) if self._set is None else self._set.contains(bits)


def _as_bits(array: pa.Array) -> pa.Array:
    """Return values in a type that pyarrow can look up: times as integers, text as bytes, decimals as their bits.

    Lists of values contain no floating-point zeros and no NaN, so equal values have equal bits.
    """
    kind = array.type
    types = pa.types
    if types.is_temporal(kind) or types.is_decimal32(kind) or types.is_decimal64(kind):
        return array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    if types.is_decimal(kind):
        return array.view(pa.binary(kind.byte_width))
    if types.is_string(kind) or types.is_large_string(kind):
        # Files may contain text that is not UTF-8.
        return array.view(pa.binary() if types.is_string(kind) else pa.large_binary())
    return array.cast(pa.float32()) if types.is_float16(kind) else array


@dataclass(frozen=True, slots=True)
class Condition:
    """A part of a conjunction that refers to certain columns."""

    # The names of the top-level columns that the condition refers to.
    names: tuple[str, ...]
    parts: tuple[Expr, ...]
    # The lists of values in the parts.
    lists: Mapping[In, ValueList] = field(repr=False)

    def evaluate(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return for each row of a batch whether the condition is true, false or null."""
        return join_balanced([_evaluate(part, batch, self.lists) for part in self.parts], pc.and_kleene)

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
    return [Condition(names, tuple(parts), _lists(parts)) for names, parts in by_names.items()]


def _lists(parts: Iterable[Expr]) -> dict[In, ValueList]:
    """Prepare the lists of values of some parts."""
    leaves = [part for whole in parts for part in walk(whole)]
    of_elements = [
        inner for part in leaves if isinstance(part, AnyElement | Computed) for inner in walk(part.condition)
    ]
    return {part: ValueList(part.values) for part in (*leaves, *of_elements) if isinstance(part, In)}


def _evaluate(expr: Expr, batch: pa.RecordBatch, lists: Mapping[In, ValueList]) -> pa.BooleanArray:
    match expr:
        case And(parts):
            return join_balanced([_evaluate(part, batch, lists) for part in parts], pc.and_kleene)
        case Or(parts):
            return join_balanced([_evaluate(part, batch, lists) for part in parts], pc.or_kleene)
        case Always(value):
            return pa.repeat(pa.scalar(bool(value)), batch.num_rows)
        case IsNull(column):
            return pc.is_null(_leaf(batch, column))
        case Not(IsNull(column)):
            return pc.is_valid(_leaf(batch, column))
        case Compare():
            return _compare(expr, batch)
        case In(column):
            return lists[expr].contains(_values(batch, column))
        case Not(In(column) as listed):
            # A null is not in the list, but NOT IN must be null.
            array = _values(batch, column)
            return pc.and_kleene(pc.is_valid(array), pc.invert(lists[listed].contains(array)))
        case StartsWith(column, prefix):
            return _starts_with(batch, column, prefix.scalar.as_py())
        case Not(StartsWith(column, prefix)):
            return pc.invert(_starts_with(batch, column, prefix.scalar.as_py()))
        case Like(column):
            return match_pattern(_values(batch, column), expr)
        case Not(Like(column) as like):
            return pc.invert(match_pattern(_values(batch, column), like))
        case HasToken(column):
            return match_token(_values(batch, column), expr)
        case Not(HasToken(column) as token_test):
            return pc.invert(match_token(_values(batch, column), token_test))
        case Computed():
            return _computed(expr, batch, lists)
        case AnyElement():
            return _any_element(expr, batch, lists)
        case Not(AnyElement() as test):
            return pc.invert(_any_element(test, batch, lists))
    raise AssertionError(expr)


def _any_element(test: AnyElement, batch: pa.RecordBatch, lists: Mapping[In, ValueList]) -> pa.BooleanArray:
    array = as_lists(_leaf(batch, test.column))
    matches = pc.fill_null(_evaluate(test.condition, elements_batch(pc.list_flatten(array)), lists), False)
    # A list has a match if the number of matches grows between its first element and its end.
    num_matches, ends = running_sums(matches), list_ends(array)
    grows = pc.greater(num_matches.take(ends[1:]), num_matches.take(ends[:-1]))
    return grows if not array.null_count else pc.if_else(array.is_valid(), grows, pa.scalar(None, pa.bool_()))


def _computed(test: Computed, batch: pa.RecordBatch, lists: Mapping[In, ValueList]) -> pa.BooleanArray:
    values, present = test.expression.compute([_leaf(batch, column) for column in test.expression.columns])
    if values.null_count > len(present) - present.true_count:
        raise UnsupportedError(
            f"engines disagree about {test.expression} for some values of the kept rows; "
            "filter ps.scan_polars(table) instead, or the rows of plan.files"
        )
    return _evaluate(test.condition, pa.record_batch([values], names=[ELEMENT]), lists)


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
    """Return a column. The leaves of a null struct are null. Batches of elements have columns of fixed names."""
    name, *below = column.path[-1:] if column.is_repeated else column.path
    array = batch.column(batch.schema.get_field_index(name))
    return pc.struct_field(array, below) if below else array
