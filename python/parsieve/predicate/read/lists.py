"""Build conditions on the elements of lists, and on the keys and values of maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.types as pt

from parsieve.predicate.builder import Builder, Operand
from parsieve.predicate.column_names import field_id
from parsieve.predicate.elements import element_field
from parsieve.predicate.expr import (
    ELEMENT,
    KEY,
    VALUE,
    Always,
    And,
    AnyElement,
    Column,
    Expr,
    IsNull,
    Unknown,
    all_of,
    walk,
)
from parsieve.predicate.literals import Value
from parsieve.predicate.messages import NotUnderstoodError, type_name


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a list column, or the keys or the values of a map column."""

    column: Column
    part: str = ELEMENT

    @property
    def operand(self) -> Operand:
        """The values as one side of a comparison."""
        field = element_field(self.column.type, self.part, self.column.field_id)
        if field is None or pt.is_nested(field.type):
            kind = "a list" if self.part == ELEMENT else "a map"
            raise NotUnderstoodError(f"{self.column} is {type_name(self.column.type)}, not {kind} of single values")
        return Operand(Column((*self.column.path, self.part), field.type, field_id(field), is_repeated=True))

    def has_any(self, build: Builder, values: Sequence[Value | None]) -> Expr:
        """Build a test for lists that contain one of some values."""
        return AnyElement(self.column, build.contains(self.operand, _checked(values)))

    def has_all(self, build: Builder, values: Sequence[Value | None]) -> Expr:
        """Build a test for lists that contain each of some values."""
        return all_of(*(self.has_any(build, [value]) for value in _checked(values)))


def _checked(values: Sequence[Value | None]) -> Sequence[Value]:
    """Return the values to look for in a list. Engines disagree about some of them."""
    if not values:
        raise NotUnderstoodError("engines disagree about an empty list of values")
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        raise NotUnderstoodError("engines disagree about null as an element of a list")
    if any(isinstance(value, float) and math.isnan(value) for value in present):
        raise NotUnderstoodError("engines disagree about NaN as an element of a list")
    return present


@dataclass(frozen=True, slots=True)
class Subscript:
    """The value of a map's key, or the element of a list at a position."""

    column: Column
    # The condition on the key; None for a position.
    key: Expr | None

    @classmethod
    def of(cls, build: Builder, column: Column, index: Value | None) -> Subscript:
        """Return what `column[index]` means."""
        if not pt.is_map(column.type):
            return cls(column, None)
        return cls(column, build.compare(Elements(column, KEY).operand, "=", _checked([index])[0]))

    @property
    def operand(self) -> Operand:
        """The values as one side of a comparison."""
        return Elements(self.column, ELEMENT if self.key is None else VALUE).operand

    def condition(self, comparison: Expr, text: str) -> Expr:
        """Return the condition for a comparison of the values."""
        if any(isinstance(part, IsNull) for part in walk(comparison)):
            raise NotUnderstoodError("engines disagree about null elements and missing keys")
        if isinstance(comparison, Always):
            return comparison
        if self.key is None:
            # Engines count positions from 0 or from 1. But the value is one of the elements.
            reason = "engines disagree about positions in lists; filter the rows by position yourself"
            return And((AnyElement(self.column, comparison), Unknown(text, reason)))
        return AnyElement(self.column, comparison, self.key)
