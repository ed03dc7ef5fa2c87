"""Parse a predicate in any supported language into the typed form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.expr import Always, And, Expr, Not, Or
from parsieve.predicate.rebind import rebound
from parsieve.predicate.times.temporal import check_zone

# The values of `?` in order, or of `:name` by name.
Params = Sequence[Any] | Mapping[str, Any]


def parse(
    where: Any,
    schema: pa.Schema,
    timezone: str | None = None,
    params: Params | None = None,
    *,
    filtered_again: bool = False,
) -> Expr:
    """Parse SQL text, a pyarrow Expression, tuples in DNF, a Polars expression, or None for every row.

    If the predicate is already in typed form, its columns are looked up by name in `schema`.

    Args:
        where: The predicate.
        schema: The columns and types of the table.
        timezone: The time zone of literals without one, for columns that have one.
        params: The values of `?` or `:name` in SQL text.
        filtered_again: Whether the engine filters the rows of the plan with the same predicate.

    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> from parsieve.predicate import parse
    >>> schema = pa.schema({"id": pa.int32(), "price": pa.decimal128(10, 2)})
    >>> print(parse("id < 7.5 AND price = 1.5", schema))
    id <= 7 AND price = 1.50
    >>> parse(pc.field("id") == 7, schema) == parse([("id", "=", 7)], schema) == parse("id = 7", schema)
    True
    """
    check_zone(timezone)
    if params is not None and not isinstance(where, str):
        raise TypeError("params= needs a SQL condition with ? or :name")
    try:
        form = _parse(where, schema, timezone, params, filtered_again)
    except RecursionError:
        raise _TOO_DEEP from None
    if _is_deep(form):
        raise _TOO_DEEP
    return form


_TOO_DEEP = ValueError("the predicate is nested too deeply to be read")
# The most levels of nested AND, OR and NOT.
DEEPEST = 100


def _is_deep(form: Expr) -> bool:
    pending = [(form, 0)]
    while pending:
        part, depth = pending.pop()
        if depth > DEEPEST:
            return True
        if isinstance(part, And | Or):
            pending.extend((inner, depth + 1) for inner in part.parts)
        elif isinstance(part, Not):
            pending.append((part.part, depth + 1))
    return False


def _parse(where: Any, schema: pa.Schema, timezone: str | None, params: Params | None, filtered_again: bool) -> Expr:
    if where is None:
        return Always(True)
    if isinstance(where, Expr):
        return rebound(where, schema)
    if isinstance(where, str):
        from parsieve.predicate.read.sql.conditions import parse_sql

        return parse_sql(where, schema, timezone, params)
    if isinstance(where, pc.Expression):
        from parsieve.predicate.read.arrow import parse_expression

        return parse_expression(where, schema, timezone, filtered_again=filtered_again)
    if type(where).__module__.partition(".")[0] == "polars" and hasattr(where, "meta"):
        from parsieve.predicate.read.frames import parse_frame_expression

        return parse_frame_expression(where, schema, timezone)
    if isinstance(where, list | tuple):
        from parsieve.predicate.read.tuples import parse_tuples

        # Accept a single condition without a list around it.
        if isinstance(where, tuple) and len(where) == 3 and isinstance(where[1], str):
            where = [where]
        return parse_tuples(where, schema, timezone)
    raise TypeError(
        "a predicate must be SQL text, a pyarrow or Polars expression, or a list of (column, op, value) tuples, "
        f"not {type(where).__qualname__}"
    )
