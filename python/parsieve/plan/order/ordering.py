"""The order of rows: sort them, and find the conditions of rows that come before others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.predicate.expr import Always, Column, Compare, Expr, IsNull, Literal, Not, any_of

Nulls = OneOf["first", "last"]


@dataclass(frozen=True, slots=True)
class Ordering:
    """The order of a column's values. NaN is greater than all numbers, and equal to itself."""

    column: Column
    descending: bool
    nulls: Nulls

    def __post_init__(self) -> None:
        kind = self.column.value_type
        try:
            # pyarrow sorts structs, but cannot compare them.
            has_order = not pa.types.is_nested(kind)
            self.sort(pa.nulls(1, kind))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            has_order = False
        if not has_order:
            raise UnsupportedError(f"cannot sort by {self.column}: its type {self.column.type} has no order")

    def __str__(self) -> str:
        return f"{self.column} {'descending' if self.descending else 'ascending'}, nulls {self.nulls}"

    def sort(self, values: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return the positions of the values in this order."""
        values = sortable(values)
        # Nulls, then NaN, then numbers, or the other way round.
        place = pc.if_else(values.is_null(), 0 if self.nulls == "first" else 3, 1 if self.descending else 2)
        if pa.types.is_floating(values.type):
            is_number = pc.invert(pc.is_null(values, nan_is_null=True))
            place = pc.if_else(is_number, 2 if self.descending else 1, place)
        direction = "descending" if self.descending else "ascending"
        table = pa.table({"place": place, "value": values})
        return pc.sort_indices(table, sort_keys=[("place", "ascending"), ("value", direction)])

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return the values of the column in some rows."""
        array = rows.column(rows.schema.get_field_index(self.column.path[0]))
        for part in self.column.path[1:]:
            array = pc.struct_field(array, [array.type.get_field_index(part)])
        return array if self.column.type == self.column.value_type else array.cast(self.column.value_type)

    def before(self, value: pa.Scalar) -> Expr | None:
        """Return a condition that is true for all values before `value`, or None if there are none."""
        if not value.is_valid:
            return None if self.nulls == "first" else Not(IsNull(self.column))
        if not _is_nan(value):
            return self._with_nulls([Compare(self.column, ">" if self.descending else "<", Literal(value))])
        return self._with_nulls([] if self.descending else [Not(IsNull(self.column))])

    def until(self, value: pa.Scalar) -> Expr:
        """Return a condition that is true for all values before `value`, and for equal ones."""
        if not value.is_valid:
            return IsNull(self.column) if self.nulls == "first" else Always(True)
        if not _is_nan(value):
            condition = self._with_nulls([Compare(self.column, ">=" if self.descending else "<=", Literal(value))])
        elif self.descending:
            condition = self._with_nulls([Compare(self.column, "=", Literal(value))])
        else:
            condition = self._with_nulls([Not(IsNull(self.column))])
        assert condition is not None
        return condition

    def _with_nulls(self, parts: list[Expr]) -> Expr | None:
        if self.nulls == "first":
            parts = [*parts, IsNull(self.column)]
        return any_of(*parts) if parts else None


def sortable(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return values as a type that pyarrow can sort, in the same order."""
    kind = values.type
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_boolean(kind):
        return values.cast(pa.uint8())
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return values.cast(pa.large_binary())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values


def _is_nan(value: pa.Scalar) -> bool:
    return pa.types.is_floating(value.type) and math.isnan(value.as_py())
