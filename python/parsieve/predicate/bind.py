"""Bind a predicate to the columns of a table: parse it once, where a caller passes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from parsieve.predicate.expr import And, Expr, Unknown, unknowns
from parsieve.predicate.parse import Params, parse
from parsieve.predicate.read.keys import parse_keys

if TYPE_CHECKING:
    from parsieve._typing import Where


@dataclass(frozen=True, slots=True, eq=False)
class BoundPredicate:
    """A predicate in typed form, with its columns and values resolved against one schema.

    >>> import pyarrow as pa
    >>> from parsieve.predicate.bind import bind
    >>> print(bind("id < 7.5", pa.schema({"id": pa.int32()})).expr)
    id <= 7
    """

    expr: Expr

    @property
    def unknown(self) -> list[Unknown]:
        """The parts that were not understood. They exclude nothing."""
        return list(unknowns(self.expr))


def bind(
    where: Where,
    schema: pa.Schema,
    *,
    keys: Mapping[Any, Any] | None = None,
    timezone: str | None = None,
    params: Params | None = None,
) -> BoundPredicate:
    """Parse a predicate, and resolve it against a schema. See `Table.plan` for the arguments."""
    expr = parse(where, schema, timezone, params)
    if keys is not None:
        joined = parse_keys(keys, schema, timezone)
        expr = joined if where is None else And((expr, joined))
    return BoundPredicate(expr)
