"""What a predicate asks of a set of rows: a monotone tree of questions, answered with "maybe" or a proven "no".

A question is about the rows of a file or a row group: is there one with a value in this range? Ranges hold numbers and
no NaN, which is a question of its own: so evidence that knows nothing of NaN still excludes the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate import expr as typed
from parsieve.predicate.expr import Column, Expr, Literal
from parsieve.predicate.normalize import normalize


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A leaf of the tree; each is itself, however many look alike."""

    column: Column


@dataclass(frozen=True, slots=True, eq=False)
class Within(Question):
    """A value, no NaN, between two bounds; None is no bound."""

    low: Literal | None = None
    low_open: bool = False
    high: Literal | None = None
    high_open: bool = False

    def __str__(self) -> str:
        if self.low is None and self.high is None:
            return f"{self.column} IS NOT NULL"
        low = f"{self.column} {'>' if self.low_open else '>='} {self.low}" if self.low else ""
        high = f"{self.column} {'<' if self.high_open else '<='} {self.high}" if self.high else ""
        return f"{low} AND {high}" if low and high else low or high


@dataclass(frozen=True, slots=True, eq=False)
class Among(Question):
    """One of some values, which are of the column's type, distinct, and no NaN."""

    values: pa.Array

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{self.column} = {Literal(self.values[0])}"
        return str(typed.In(self.column, self.values))


@dataclass(frozen=True, slots=True, eq=False)
class Outside(Question):
    """A value, no NaN, that is none of some values."""

    values: pa.Array

    def __str__(self) -> str:
        return f"NOT ({Among(self.column, self.values)})"


@dataclass(frozen=True, slots=True, eq=False)
class Begins(Question):
    """Text or bytes that begin with a prefix, or that do not."""

    prefix: Literal
    opposite: bool = False

    def __str__(self) -> str:
        return f"{self.column} {'DOES NOT START' if self.opposite else 'STARTS'} WITH {self.prefix}"


@dataclass(frozen=True, slots=True, eq=False)
class HasNull(Question):
    """A null."""

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True, eq=False)
class HasValue(Question):
    """A value, be it NaN."""

    def __str__(self) -> str:
        return f"{self.column} IS NOT NULL"


@dataclass(frozen=True, slots=True, eq=False)
class HasNan(Question):
    """A NaN."""

    def __str__(self) -> str:
        return f"{self.column} = NaN"


@dataclass(frozen=True, slots=True, eq=False)
class Beyond(Question):
    """A value that the table's type does not have, in a file that holds another type."""

    def __str__(self) -> str:
        return f"{self.column} IS NO {self.column.value_type}"


@dataclass(frozen=True, slots=True, eq=False)
class Every:
    """All questions must be answered with "maybe" by one and the same set of rows."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """One question is enough."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """What no evidence can change: True is what was not understood, or asks nothing; False asks for what is never."""

    value: bool


Tree = Question | Every | Some | Constant


def ask(expr: Expr, types_are_certain: bool = True) -> Tree:
    """The questions of a predicate.

    Where files may hold other types than the table was found to have, what no value of its types makes true may still
    be true of them: then that is a question, and else no row is asked for.
    """
    return _tree(normalize(expr, types_are_certain))


def leaves(tree: Tree) -> Iterator[Question]:
    """The questions in the order of the predicate."""
    if isinstance(tree, Question):
        yield tree
    elif isinstance(tree, Every | Some):
        for part in tree.parts:
            yield from leaves(part)


def _tree(expr: Expr) -> Tree:
    match expr:
        case typed.And(parts):
            return _every([_tree(part) for part in parts])
        case typed.Or(parts):
            return Some(tuple(_tree(part) for part in parts))
        case typed.Always(value):
            return Constant(bool(value))
        case typed.Unknown():
            return Constant(True)
        case typed.Compare(column, op, value):
            return _compare(column, op, value)
        case typed.In(column, values):
            return Among(column, values)
        case typed.Not(typed.In(column, values)):
            return _or_nan(Outside(column, values))
        case typed.OutOfType(column):
            return Beyond(column)
        case typed.Not(typed.OutOfType(column)):
            # True of every value of the table's type, and maybe of those of another one.
            return HasValue(column)
        case typed.IsNull(column):
            return HasNull(column)
        case typed.Not(typed.IsNull(column)):
            return HasValue(column)
        case typed.StartsWith(column, prefix):
            return Begins(column, prefix)
        case typed.Not(typed.StartsWith(column, prefix)):
            return Begins(column, prefix, opposite=True)
    raise AssertionError(expr)


def _compare(column: Column, op: typed.Operator, value: Literal) -> Tree:
    if pa.types.is_floating(value.scalar.type) and pc.is_nan(value.scalar.cast(pa.float64())).as_py():
        return HasNan(column) if op == "=" else Within(column)
    match op:
        case "=":
            return Among(column, _one(value))
        case "!=":
            return _or_nan(Outside(column, _one(value)))
        case "<" | "<=":
            return Within(column, high=value, high_open=op == "<")
        case ">" | ">=":
            return _or_nan(Within(column, low=value, low_open=op == ">"))


def _one(value: Literal) -> pa.Array:
    return pa.repeat(value.scalar, 1)


def _or_nan(question: Question) -> Tree:
    """A question that NaN answers too: it is above all numbers, and unlike them."""
    if pa.types.is_floating(question.column.value_type):
        return Some((question, HasNan(question.column)))
    return question


def _every(parts: list[Tree]) -> Tree:
    """All of several; ranges of one column become one, and NaN is not asked for where a number is wanted."""
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Every) else (part,))]
    numbers = {part.column.path for part in flat if isinstance(part, Within | Among | Outside)}
    settled = [_without_nan(part, numbers) for part in flat]
    ranges: dict[tuple[str, ...], Within] = {}
    others: list[Tree] = []
    for part in settled:
        if isinstance(part, Within):
            known = ranges.get(part.column.path)
            ranges[part.column.path] = part if known is None else _narrower(known, part)
        elif isinstance(part, Constant):
            if not part.value:
                return part
        else:
            others.append(part)
    found = [*ranges.values(), *others]
    return Every(tuple(found)) if len(found) > 1 else found[0] if found else Constant(True)


def _without_nan(tree: Tree, numbers: set[tuple[str, ...]]) -> Tree:
    if not isinstance(tree, Some):
        return tree
    left = tuple(part for part in tree.parts if not (isinstance(part, HasNan) and part.column.path in numbers))
    return left[0] if len(left) == 1 else Some(left) if left else Constant(False)


def _narrower(one: Within, other: Within) -> Within:
    found = one
    if other.low is not None and (one.low is None or _is_less(one.low, other.low, one.low_open < other.low_open)):
        found = replace(found, low=other.low, low_open=other.low_open)
    if other.high is not None and (one.high is None or _is_less(other.high, one.high, one.high_open < other.high_open)):
        found = replace(found, high=other.high, high_open=other.high_open)
    return found


def _is_less(one: Literal, other: Literal, or_equal: bool) -> bool:
    left, right = (comparable(pa.repeat(value.scalar, 1)) for value in (one, other))
    return bool((pc.less_equal if or_equal else pc.less)(left, right)[0].as_py())


def comparable(values: pa.Array) -> pa.Array:
    """Values of a type that pyarrow compares, in the same order."""
    if pa.types.is_float16(values.type):
        return values.cast(pa.float32())
    if pa.types.is_string(values.type) or pa.types.is_string_view(values.type) or pa.types.is_binary_view(values.type):
        return values.cast(pa.large_binary())
    if pa.types.is_large_string(values.type) or pa.types.is_binary(values.type):
        return values.cast(pa.large_binary())
    if pa.types.is_fixed_size_binary(values.type):
        return values.cast(pa.large_binary())
    if pa.types.is_boolean(values.type):
        return values.cast(pa.uint8())
    return values
