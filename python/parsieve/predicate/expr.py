"""The typed form of a predicate: a closed set of frozen classes. `Unknown` alone holds text of the user's.

Every column of a form is known, and every value is exactly of its column's type. Truth has three values, as in SQL.
Floating numbers have one order whatever the engine: both zeros are equal, NaN is equal to itself and above all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa

Operator = OneOf["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Column:
    """A column that holds values, below any number of structs."""

    path: tuple[str, ...]
    type: pa.DataType
    field_id: int | None = None

    @property
    def value_type(self) -> pa.DataType:
        """The type of its values, where the column may hold them behind a dictionary or an extension."""
        return value_type(self.type)

    def __str__(self) -> str:
        return ".".join(part if part.isidentifier() else '"' + part.replace('"', '""') + '"' for part in self.path)


def value_type(type: pa.DataType) -> pa.DataType:
    """A type without the dictionary, runs or extension around it."""
    while True:
        if isinstance(type, pa.BaseExtensionType):
            type = type.storage_type
        elif pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
            type = type.value_type
        else:
            return type


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is not null, of its column's `value_type`."""

    scalar: pa.Scalar

    def __reduce__(self) -> tuple[Any, ...]:
        # pyarrow pickles a scalar as a Python value, and has none for nanoseconds without pandas.
        return _literal_in, (pa.array([self.scalar], self.scalar.type),)

    def __str__(self) -> str:
        value = self.scalar
        if pa.types.is_temporal(value.type):
            # Arrow knows days after the year 9999, which Python does not.
            return str(value.cast(pa.string()).as_py())
        python = value.as_py()
        return repr(python) if isinstance(python, (str, bytes)) else str(python)


def _literal_in(values: pa.Array) -> Literal:
    """The literal out of a pickle, where an array holds it."""
    return Literal(values[0])


@dataclass(frozen=True, slots=True)
class Compare:
    """A column beside a value. NaN is compared by `=` and `!=` alone: other comparisons with it are said without it."""

    column: Column
    op: Operator
    value: Literal

    def __str__(self) -> str:
        return f"{self.column} {self.op} {self.value}"


@dataclass(frozen=True, slots=True)
class In:
    """A column among values: an array of its `value_type` without nulls, NaN and zeros of a floating type."""

    column: Column
    values: pa.Array

    def __hash__(self) -> int:
        # Arrow arrays have no hash.
        return hash((self.column, len(self.values), self.values[0]))

    def __str__(self) -> str:
        shown = ", ".join(str(Literal(value)) for value in self.values[:3])
        more = f", and {len(self.values) - 3} more" if len(self.values) > 3 else ""
        return f"{self.column} IN ({shown}{more})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column without a value; that its parents are null counts too."""

    column: Column

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A column whose text or bytes begin with those of `prefix`, which is not empty."""

    column: Column
    prefix: Literal

    def __str__(self) -> str:
        return f"{self.column} STARTS WITH {self.prefix}"


@dataclass(frozen=True, slots=True)
class OutOfType:
    """Equality with something that no value of the column's type equals: false for a value, null for null.

    A file may hold another type than the table, and there it may be true. So this stays a leaf, below NOT too, until
    it is certain that every file holds the table's type.
    """

    column: Column
    # The condition as people read it.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class And:
    """All of several."""

    parts: tuple[Expr, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """One of several."""

    parts: tuple[Expr, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({part})" if isinstance(part, And) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; of what is unknown by null, unknown."""

    part: Expr

    def __str__(self) -> str:
        return f"NOT ({self.part})"


@dataclass(frozen=True, slots=True)
class Always:
    """True, false, or null whatever the row."""

    value: bool | None

    def __str__(self) -> str:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[self.value]


@dataclass(frozen=True, slots=True)
class Unknown:
    """What was not understood, for people to read. It excludes nothing, and no engine is handed it."""

    text: str
    reason: str

    def __str__(self) -> str:
        return self.text


Expr = Compare | In | IsNull | StartsWith | OutOfType | And | Or | Not | Always | Unknown


def both(*parts: Expr) -> Expr:
    """AND, without a conjunction of one."""
    return parts[0] if len(parts) == 1 else And(parts)


def either(*parts: Expr) -> Expr:
    """OR, without a disjunction of one."""
    return parts[0] if len(parts) == 1 else Or(parts)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all its parts."""
    open_parts: list[Expr] = [expr]
    while open_parts:
        part = open_parts.pop()
        yield part
        if isinstance(part, And | Or):
            open_parts.extend(reversed(part.parts))
        elif isinstance(part, Not):
            open_parts.append(part.part)


def columns(expr: Expr) -> list[Column]:
    """The columns of an expression, each once, in the order in which they are met."""
    leaves = (part for part in walk(expr) if isinstance(part, Compare | In | IsNull | StartsWith | OutOfType))
    return list(_unique(leaf.column for leaf in leaves))


def unknowns(expr: Expr) -> list[Unknown]:
    """What was not understood."""
    return [part for part in walk(expr) if isinstance(part, Unknown)]


def _unique(found: Iterable[Column]) -> Iterator[Column]:
    seen: set[tuple[str, ...]] = set()
    for column in found:
        if column.path not in seen:
            seen.add(column.path)
            yield column
