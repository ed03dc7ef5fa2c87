"""`parse`: the typed form of a predicate in any of the languages that people write it in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.builder import among_others, distinct, members, scalar_value, shown
from parsieve.predicate.column_names import Names
from parsieve.predicate.expr import Always, And, Column, Expr, Not, Or, both, columns, either
from parsieve.predicate.literals import UnlikeError, place, zone_named
from parsieve.predicate.numpy_times import in_steps

# Values of `?` in their order, or of `:name` by name.
Params = Sequence[Any] | Mapping[str, Any]


def parse(where: Any, schema: pa.Schema, timezone: str | None = None, params: Params | None = None) -> Expr:
    """The typed form of `where`: SQL text, a pyarrow Expression, tuples in DNF, a Polars expression, or None.

    A typed form stays what it is.

    `timezone` is the time zone of literals without one, where the column has one. `params` are the values of `?` or
    `:name` in SQL text.

    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> from parsieve.predicate import parse
    >>> schema = pa.schema({"id": pa.int32(), "price": pa.decimal128(10, 2)})
    >>> print(parse("id < 7.5 AND price = 1.5", schema))
    id <= 7 AND price = 1.50
    >>> parse(pc.field("id") == 7, schema) == parse([("id", "=", 7)], schema) == parse("id = 7", schema)
    True
    """
    if timezone is not None:
        try:
            zone_named(timezone)
        except UnlikeError as error:
            raise ValueError(f"{error}; give a name such as Europe/Madrid, or an offset such as +01:00") from None
    if params is not None and not isinstance(where, str):
        raise TypeError("params= needs a SQL condition with ? or :name")
    try:
        form = _parse(where, schema, timezone, params)
    except RecursionError:
        raise _TOO_DEEP from None
    if _is_deep(form):
        raise _TOO_DEEP
    return form


_TOO_DEEP = ValueError("the predicate is nested too deeply to be read")
# Levels of AND, OR and NOT within each other.
DEEPEST = 100


def _is_deep(form: Expr) -> bool:
    waiting = [(form, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > DEEPEST:
            return True
        if isinstance(part, And | Or):
            waiting.extend((inner, depth + 1) for inner in part.parts)
        elif isinstance(part, Not):
            waiting.append((part.part, depth + 1))
    return False


def _parse(where: Any, schema: pa.Schema, timezone: str | None, params: Params | None) -> Expr:
    if where is None:
        return Always(True)
    if isinstance(where, Expr):
        for column in columns(where):
            found = Names(schema).find(column.path, exact=True)
            if found.value_type != column.value_type:
                raise TypeError(
                    f"column {column} is of type {found.type}, and the predicate was made for {column.type}"
                )
        return where
    if isinstance(where, str):
        from parsieve.predicate.read.sql import parse_sql

        return parse_sql(where, schema, timezone, params)
    if isinstance(where, pc.Expression):
        from parsieve.predicate.read.arrow import parse_expression

        return parse_expression(where, schema, timezone)
    if type(where).__module__.partition(".")[0] == "polars" and hasattr(where, "meta"):
        from parsieve.predicate.read.frames import parse_frame_expression

        return parse_frame_expression(where, schema, timezone)
    if isinstance(where, list | tuple):
        from parsieve.predicate.read.tuples import parse_tuples

        # One condition alone is meant as a list of it.
        if isinstance(where, tuple) and len(where) == 3 and isinstance(where[1], str):
            where = [where]
        return parse_tuples(where, schema, timezone)
    raise TypeError(
        "a predicate is SQL text, a pyarrow or Polars expression, or a list of (column, op, value) tuples, "
        f"not {type(where).__qualname__}"
    )


def parse_keys(keys: Mapping[Any, Any], schema: pa.Schema) -> Expr:
    """The typed form of a semi-join: every column has one of the values of its Arrow column; nulls join nothing."""
    if not isinstance(keys, Mapping):
        raise TypeError(
            f'keys is a dict of columns by their names, as in {{"id": wanted["id"]}}, not {type(keys).__qualname__}'
        )
    names = Names(schema)
    parts = []
    for name, values in keys.items():
        column = names.find([name] if isinstance(name, str) else name)
        found, others = _keys(column, _array(column, values))
        parts.append(either(members(column, found), *among_others(column, others)))
    return both(*parts) if parts else Always(True)


def _array(column: Column, values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values).combine_chunks()
    # A text would be taken for a column of its letters.
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        kind = type(values).__qualname__
        raise TypeError(f"the keys of {column} are an Arrow column or a list of values, not {kind}")
    if not hasattr(values, "dtype"):
        values = list(values)
    if in_steps(values) or (isinstance(values, list) and any(map(in_steps, values))):
        raise TypeError(
            f"the keys of {column} are numpy times in steps of several units, "
            "which are not supported; convert them with astype"
        )
    return pa.array(values)


def _keys(column: Column, values: pa.Array) -> tuple[pa.Array, list[str]]:
    """Return keys as values of the column's type, and those that no value of it equals."""
    from parsieve.predicate.expr import value_type

    plain = value_type(values.type)
    if values.type != plain:
        values = values.storage if isinstance(values, pa.ExtensionArray) else values.cast(plain)
    values = values.drop_null()
    type = column.value_type
    if values.type == type:
        return values, []
    if pa.types.is_integer(values.type) and pa.types.is_integer(type) and values.type.bit_width < type.bit_width:
        try:
            return values.cast(type), []
        except pa.ArrowInvalid:
            # Negative keys of an unsigned column.
            pass
    try:
        keys = [value for one in distinct(values) if (value := scalar_value(one)) is not None]
        spots = [place(value, type) for value in keys]
    except UnlikeError as error:
        raise TypeError(f"key type {plain} does not match column {column} of type {column.type}: {error}") from None
    others = [shown(value) for value, spot in zip(keys, spots, strict=True) if not spot.exact]
    return pa.array([spot.floor for spot in spots if spot.exact], type), others
