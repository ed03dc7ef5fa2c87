"""The typed form of a predicate: a closed set of frozen classes.

Every column is resolved, and every value has exactly the type of its column. Only `Unknown` contains text from the
user. Conditions are true, false or null, as in SQL. Floats have the same order for every engine: both zeros are equal,
and NaN is equal to itself and greater than all other values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from typing import Literal as OneOf

import pyarrow as pa

from parsieve.predicate.text.like import Pattern, write_like

if TYPE_CHECKING:
    from parsieve.predicate.expressions.expression import Expression

Operator = OneOf["=", "!=", "<", "<=", ">", ">="]
# The Python function of each operator.
COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

# The last part of the path of a column that holds the elements of lists, or the keys or the values of maps.
ELEMENT, KEY, VALUE = "element", "key", "value"


@dataclass(frozen=True, slots=True)
class Column:
    """A column that holds values, at the top level or in structs."""

    path: tuple[str, ...]
    type: pa.DataType
    field_id: int | None = None
    # Whether the values are the elements of lists, or the keys or the values of maps. A row may have many of them.
    is_repeated: bool = False
    # Whether the values are those of an expression. They are stored as lists, but a row has at most one.
    is_computed: bool = False

    @property
    def value_type(self) -> pa.DataType:
        """The type of the values, without a dictionary, run-end encoding or extension around it."""
        return value_type(self.type)

    def __str__(self) -> str:
        if self.is_computed:
            return self.path[0]
        return ".".join(part if part.isidentifier() else '"' + part.replace('"', '""') + '"' for part in self.path)


def value_type(type: pa.DataType) -> pa.DataType:
    """Return a type without the dictionary, run-end encoding or extension around it."""
    while True:
        if isinstance(type, pa.BaseExtensionType):
            type = type.storage_type
        elif pa.types.is_dictionary(type) or pa.types.is_run_end_encoded(type):
            type = type.value_type
        else:
            return type


@dataclass(frozen=True, slots=True)
class Literal:
    """A value of its column's `value_type`, not null."""

    scalar: pa.Scalar

    def __reduce__(self) -> tuple[Any, ...]:
        # pyarrow pickles a scalar as a Python value, which cannot hold nanoseconds without pandas. An array can.
        return _unpickle_literal, (pa.array([self.scalar], self.scalar.type),)

    def __str__(self) -> str:
        value = self.scalar
        if pa.types.is_timestamp(value.type) and value.type.tz == "UTC":
            # With a zone, Arrow needs a time zone database, which small container images lack.
            return f"{value.cast(pa.timestamp(value.type.unit)).cast(pa.string())}Z"
        if pa.types.is_temporal(value.type):
            # Unlike Python, Arrow can format dates after the year 9999.
            return str(value.cast(pa.string()).as_py())
        python = value.as_py()
        return repr(python) if isinstance(python, (str, bytes)) else str(python)


def _unpickle_literal(values: pa.Array) -> Literal:
    """Return the literal that was pickled as an array of one value."""
    return Literal(values[0])


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of a column with a value.

    NaN occurs only with `=` and `!=`. Other comparisons with NaN are expressed without it.
    """

    column: Column
    op: Operator
    value: Literal

    def __str__(self) -> str:
        return f"{self.column} {self.op} {self.value}"


@dataclass(frozen=True, slots=True)
class In:
    """A test of a column against a list of values of its `value_type`, without nulls, NaN and floating-point zeros."""

    column: Column
    values: pa.Array

    def __hash__(self) -> int:
        # Arrow arrays are not hashable.
        return hash((self.column, len(self.values), self.values[0]))

    def __str__(self) -> str:
        listed = ", ".join(str(Literal(value)) for value in self.values[:3])
        more = f", and {len(self.values) - 3} more" if len(self.values) > 3 else ""
        return f"{self.column} IN ({listed}{more})"


@dataclass(frozen=True, slots=True)
class IsNull:
    """A test for null. A column in a struct is null if the struct is."""

    column: Column

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A test for text or bytes that begin with `prefix`, which is not empty."""

    column: Column
    prefix: Literal

    def __str__(self) -> str:
        return f"{self.column} STARTS WITH {self.prefix}"


@dataclass(frozen=True, slots=True)
class Like:
    """A test for text that matches a pattern of LIKE.

    If `ignore_case`, the pattern has only fixed texts whose case is certain, and no wildcard for one character.
    """

    column: Column
    pattern: Pattern
    ignore_case: bool = False

    @property
    def texts(self) -> list[str]:
        """The fixed texts of the pattern."""
        return [token for token in self.pattern if isinstance(token, str)]

    def __str__(self) -> str:
        keyword = "ILIKE" if self.ignore_case else "LIKE"
        needs_escape = any(character in "%_!" for text in self.texts for character in text)
        written = write_like(self.pattern, "!" if needs_escape else "")
        return f"{self.column} {keyword} {written!r}" + (" ESCAPE '!'" if needs_escape else "")


@dataclass(frozen=True, slots=True)
class HasToken:
    """A test for text that has a word: an unbroken run of ASCII letters, digits and non-ASCII characters."""

    column: Column
    word: str

    def __str__(self) -> str:
        return f"has_token({self.column}, {self.word!r})"


@dataclass(frozen=True, slots=True)
class AnyElement:
    """A test for lists with an element, or maps with an entry, for which a condition is true. Null for a null list.

    The columns of the condition are repeated: the elements of the list, or the keys and values of the map. The
    condition has no `Unknown`.
    """

    column: Column
    condition: Expr
    # The condition on the key of the only entry to test. The test is null if the map has no such entry, or if the
    # condition is null for its value.
    key: Expr | None = None

    def __str__(self) -> str:
        return f"ANY ({self.condition if self.key is None else And((self.key, self.condition))})"


@dataclass(frozen=True, slots=True)
class Computed:
    """A condition on the value of an expression. The condition has no `Unknown`."""

    condition: Expr
    expression: Expression
    # As in a test of a list without a key.
    key: None = None

    @property
    def column(self) -> Column:
        """Return the first column of the expression."""
        return self.expression.columns[0]

    def __str__(self) -> str:
        return str(self.condition)


@dataclass(frozen=True, slots=True)
class OutOfType:
    """Equality with a value that the column's type cannot represent: false for a value, null for null.

    In a file that stores another type than the table's, it may be true. So it stays a leaf, also below NOT, until it is
    certain that every file stores the table's type.
    """

    column: Column
    # The condition for messages.
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction: true if all parts are."""

    parts: tuple[Expr, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction: true if at least one part is."""

    parts: tuple[Expr, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({part})" if isinstance(part, And) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not:
    """A negation; null stays null."""

    part: Expr

    def __str__(self) -> str:
        return f"NOT ({self.part})"


@dataclass(frozen=True, slots=True)
class Always:
    """A constant: true, false or null for every row."""

    value: bool | None

    def __str__(self) -> str:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[self.value]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part that was not understood. It excludes nothing and is never passed to an engine."""

    text: str
    reason: str

    def __str__(self) -> str:
        return self.text


# The conditions on one column.
Leaf = Compare | In | IsNull | StartsWith | Like | HasToken | AnyElement | Computed | OutOfType
Expr = Leaf | And | Or | Not | Always | Unknown


def all_of(*parts: Expr) -> Expr:
    """Return the conjunction of the parts; a single part stays as it is."""
    return parts[0] if len(parts) == 1 else And(parts)


def any_of(*parts: Expr) -> Expr:
    """Return the disjunction of the parts; a single part stays as it is."""
    return parts[0] if len(parts) == 1 else Or(parts)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield the expression and all its parts."""
    open_parts: list[Expr] = [expr]
    while open_parts:
        part = open_parts.pop()
        yield part
        if isinstance(part, And | Or):
            open_parts.extend(reversed(part.parts))
        elif isinstance(part, Not):
            open_parts.append(part.part)


def columns(expr: Expr) -> list[Column]:
    """Return the columns of an expression without duplicates, in order of appearance."""
    leaves = (part for part in walk(expr) if isinstance(part, Leaf))
    return list(_unique(column for leaf in leaves for column in _columns_of(leaf)))


def value_columns(expr: Expr) -> list[Column]:
    """Return the columns whose values an expression compares: of a list, its elements."""
    tests = element_tests(expr)
    inner = [part for test in tests for part in (test.key, test.condition) if part is not None]
    lists = {test.column for test in tests if isinstance(test, AnyElement)}
    others = [part for part in walk(expr) if isinstance(part, Leaf) and not isinstance(part, AnyElement | Computed)]
    direct = [leaf.column for leaf in others if leaf.column not in lists]
    return list(_unique([*direct, *(column for part in inner for column in columns(part))]))


def _columns_of(leaf: Leaf) -> Sequence[Column]:
    return leaf.expression.columns if isinstance(leaf, Computed) else (leaf.column,)


def element_tests(expr: Expr) -> list[AnyElement | Computed]:
    """Return the parts that test the elements of lists or maps, or values of expressions."""
    return [part for part in walk(expr) if isinstance(part, AnyElement | Computed)]


def unknowns(expr: Expr) -> list[Unknown]:
    """Return the parts that were not understood."""
    return [part for part in walk(expr) if isinstance(part, Unknown)]


def _unique(candidates: Iterable[Column]) -> Iterator[Column]:
    seen: set[tuple[str, ...]] = set()
    for column in candidates:
        if column.path not in seen:
            seen.add(column.path)
            yield column
