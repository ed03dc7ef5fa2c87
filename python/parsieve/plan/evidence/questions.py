"""Turn a predicate into a monotone tree of questions about a set of rows, answered with "maybe" or a proven "no".

A question has the form: does a row of this file or row group have a value in this range? Ranges contain
numbers but no NaN, which has a separate question. So evidence that does not know about NaN can exclude the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate import expr as typed
from parsieve.predicate.expr import Column, Expr, Literal
from parsieve.predicate.expressions.expression import Expression
from parsieve.predicate.normalize import normalize
from parsieve.predicate.text.like import Wildcard
from parsieve.predicate.text.trigrams import trigrams_of
from parsieve.predicate.text.words import whole_words


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A leaf of the tree. Questions are compared by identity."""

    column: Column


@dataclass(frozen=True, slots=True, eq=False)
class HasInRange(Question):
    """Is there a value between two bounds, other than NaN? None means no bound."""

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
class HasAnyOf(Question):
    """Is there one of these values? They have the column's type, are distinct, and none is NaN."""

    values: pa.Array

    def __str__(self) -> str:
        if len(self.values) == 1:
            return f"{self.column} = {Literal(self.values[0])}"
        return str(typed.In(self.column, self.values))


@dataclass(frozen=True, slots=True, eq=False)
class HasOtherThan(Question):
    """Is there a value other than these, and other than NaN?"""

    values: pa.Array

    def __str__(self) -> str:
        return f"NOT ({HasAnyOf(self.column, self.values)})"


@dataclass(frozen=True, slots=True, eq=False)
class HasPrefix(Question):
    """Is there a text or bytes value that begins with a prefix, or with `opposite`, one that does not?"""

    prefix: Literal
    opposite: bool = False

    def __str__(self) -> str:
        return f"{self.column} {'DOES NOT START' if self.opposite else 'STARTS'} WITH {self.prefix}"


@dataclass(frozen=True, slots=True, eq=False)
class HasMatch(Question):
    """Is there a text that matches a pattern of LIKE?"""

    like: typed.Like

    def __str__(self) -> str:
        return str(self.like)


@dataclass(frozen=True, slots=True, eq=False)
class HasWord(Question):
    """Is there a text with a word?"""

    test: typed.HasToken

    def __str__(self) -> str:
        return str(self.test)


@dataclass(frozen=True, slots=True, eq=False)
class HasNull(Question):
    """Is there a null? The index of an expression has one for each value about which engines disagree."""

    def __str__(self) -> str:
        return f"{self.column} IS {'AMBIGUOUS' if self.column.is_computed else 'NULL'}"


@dataclass(frozen=True, slots=True, eq=False)
class HasValue(Question):
    """Is there a value that is not null? NaN counts."""

    def __str__(self) -> str:
        return f"{self.column} IS NOT NULL"


@dataclass(frozen=True, slots=True, eq=False)
class HasNan(Question):
    """Is there a NaN?"""

    def __str__(self) -> str:
        return f"{self.column} = NaN"


@dataclass(frozen=True, slots=True, eq=False)
class HasOtherType(Question):
    """Is there a value that is not of the column's type, in a file that stores another type?"""

    def __str__(self) -> str:
        return f"{self.column} IS NO {self.column.value_type}"


@dataclass(frozen=True, slots=True, eq=False)
class Every:
    """True if all parts may be true."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """True if one part may be true."""

    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Constant:
    """A fixed answer. True: the condition was not understood, or is true of all rows. False: it is true of no row."""

    value: bool


Tree = Question | Every | Some | Constant


def question_tree(expr: Expr, types_are_certain: bool = True) -> Tree:
    """Return the questions of a predicate.

    If types are not certain, files may store other types than the table's. A condition that is false for every value of
    the table's type may then be true for a value of such a file, so it becomes a question. Otherwise it is false.
    """
    return _tree(normalize(expr, types_are_certain))


def leaves(tree: Tree) -> Iterator[Question]:
    """Yield the questions in the order of the predicate."""
    if isinstance(tree, Question):
        yield tree
    elif isinstance(tree, Every | Some):
        for part in tree.parts:
            yield from leaves(part)


def _tree(expr: Expr) -> Tree:
    match expr:
        case typed.And(parts):
            return _every([_tree(part) for part in _joined(parts)])
        case typed.Or(parts):
            return Some(tuple(_tree(part) for part in parts))
        case typed.Always(value):
            return Constant(bool(value))
        case typed.Unknown():
            return Constant(True)
        case typed.Compare(column, op, value):
            return _compare(column, op, value)
        case typed.In(column, values):
            return HasAnyOf(column, values)
        case typed.Not(typed.In(column, values)):
            return _or_nan(HasOtherThan(column, values))
        case typed.OutOfType(column):
            return HasOtherType(column)
        case typed.Not(typed.OutOfType(column)):
            # True for every value of the table's type, and maybe for values of other types.
            return HasValue(column)
        case typed.IsNull(column):
            return HasNull(column)
        case typed.Not(typed.IsNull(column)):
            return HasValue(column)
        case typed.StartsWith(column, prefix):
            return HasPrefix(column, prefix)
        case typed.Not(typed.StartsWith(column, prefix)):
            return HasPrefix(column, prefix, opposite=True)
        case typed.Like(column):
            return HasMatch(column, expr)
        case typed.HasToken(column):
            return HasWord(column, expr)
        case typed.Computed(condition, expression):
            return Some((_tree(_without_nulls(condition, expr.column)), HasNull(expression.value)))
        case typed.AnyElement(_, condition):
            # Some element in the file must answer each question of the condition.
            return _tree(condition)
        case typed.Not(typed.Like() | typed.HasToken() | typed.AnyElement()):
            # Nothing shows that all texts of a file match, or that all lists of a file have such an element.
            return Constant(True)
    raise AssertionError(expr)


def _joined(parts: tuple[Expr, ...]) -> list[Expr]:
    """Return the parts of a conjunction, with the conditions on one expression joined."""
    by_expression: dict[Expression, list[Expr]] = {}
    for part in parts:
        if isinstance(part, typed.Computed):
            by_expression.setdefault(part.expression, []).append(part.condition)
    joined = [typed.Computed(typed.all_of(*conditions), expression) for expression, conditions in by_expression.items()]
    return [*joined, *(part for part in parts if not isinstance(part, typed.Computed))]


def _without_nulls(condition: Expr, column: Column) -> Expr:
    """Replace `IS NULL` of an expression by `IS NULL` of its column.

    The index of the expression has no value for a null of the column. A function is null for it, and for no other value
    about which engines agree.
    """
    match condition:
        case typed.And(parts):
            return typed.And(tuple(_without_nulls(part, column) for part in parts))
        case typed.Or(parts):
            return typed.Or(tuple(_without_nulls(part, column) for part in parts))
        case typed.IsNull():
            return typed.IsNull(column)
    return condition


def trigrams_of_question(question: Question) -> list[tuple[str, ...]] | None:
    """Return the trigrams that a matching text contains, each with its spellings; None for questions of other kinds."""
    match question:
        case HasMatch(_, like):
            return trigrams_of(like.texts, ignore_case=like.ignore_case)
        case HasWord(_, test):
            return trigrams_of([test.word])
        case HasPrefix(_, prefix, False) if isinstance(text := prefix.scalar.as_py(), str):
            return trigrams_of([text])
    return None


def words_of_question(question: Question) -> list[tuple[str, ...]] | None:
    """Return the words that a matching text has, in the form of `trigrams_of_question`; None for other questions."""
    match question:
        case HasMatch(_, like):
            # If the case is ignored, a word has too many spellings.
            return [] if like.ignore_case else [(word,) for word in whole_words(like.pattern)]
        case HasWord(_, test):
            return [(word,) for word in whole_words((test.word,))]
        case HasPrefix(_, prefix, False) if isinstance(text := prefix.scalar.as_py(), str):
            return [(word,) for word in whole_words((text, Wildcard.ANY))]
    return None


def _compare(column: Column, op: typed.Operator, value: Literal) -> Tree:
    if pa.types.is_floating(value.scalar.type) and pc.is_nan(value.scalar.cast(pa.float64())).as_py():
        return HasNan(column) if op == "=" else HasInRange(column)
    match op:
        case "=":
            return HasAnyOf(column, _array(value))
        case "!=":
            return _or_nan(HasOtherThan(column, _array(value)))
        case "<" | "<=":
            return HasInRange(column, high=value, high_open=op == "<")
        case ">" | ">=":
            return _or_nan(HasInRange(column, low=value, low_open=op == ">"))


def _array(value: Literal) -> pa.Array:
    return pa.repeat(value.scalar, 1)


def _or_nan(question: Question) -> Tree:
    """Extend a question to NaN, which is greater than all numbers and different from them."""
    if pa.types.is_floating(question.column.value_type):
        return Some((question, HasNan(question.column)))
    return question


def _every(parts: list[Tree]) -> Tree:
    """Join parts that must all be true.

    Ranges of one column become one range. If a part requires a number in a column, NaN in that column is no match.
    Neither holds for the elements of lists: different elements may answer two questions about one row.
    """
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Every) else (part,))]
    single = [
        part for part in flat if isinstance(part, HasInRange | HasAnyOf | HasOtherThan) and _is_single(part.column)
    ]
    numbers = {part.column.path for part in single}
    simplified = [_without_nan(part, numbers) for part in flat]
    ranges: dict[tuple[str, ...], HasInRange] = {}
    others: list[Tree] = []
    for part in simplified:
        if isinstance(part, HasInRange) and _is_single(part.column):
            before = ranges.get(part.column.path)
            ranges[part.column.path] = part if before is None else _intersection(before, part)
        elif isinstance(part, Constant):
            if not part.value:
                return part
        else:
            others.append(part)
    joined = [*ranges.values(), *others]
    return Every(tuple(joined)) if len(joined) > 1 else joined[0] if joined else Constant(True)


def _is_single(column: Column) -> bool:
    """Return whether a row has at most one value of a column."""
    return column.is_computed or not column.is_repeated


def _without_nan(tree: Tree, numbers: set[tuple[str, ...]]) -> Tree:
    if not isinstance(tree, Some):
        return tree
    parts = tuple(part for part in tree.parts if not (isinstance(part, HasNan) and part.column.path in numbers))
    return parts[0] if len(parts) == 1 else Some(parts) if parts else Constant(False)


def _intersection(left: HasInRange, right: HasInRange) -> HasInRange:
    """Return the range that two ranges have in common."""
    both = left
    if right.low is not None and (left.low is None or _is_less(left.low, right.low, left.low_open < right.low_open)):
        both = replace(both, low=right.low, low_open=right.low_open)
    if right.high is not None and (
        left.high is None or _is_less(right.high, left.high, left.high_open < right.high_open)
    ):
        both = replace(both, high=right.high, high_open=right.high_open)
    return both


def _is_less(left: Literal, right: Literal, or_equal: bool) -> bool:
    compare = pc.less_equal if or_equal else pc.less
    return bool(compare(comparable(_array(left)), comparable(_array(right)))[0].as_py())


def comparable(values: pa.Array) -> pa.Array:
    """Return values as a type that pyarrow can compare, in the same order."""
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


def sample_of(values: pa.Array, size: int) -> pa.Array:
    """Return some of many values, evenly spaced.

    A unit that may hold one of them may hold one of the values. So if the sample keeps all units, the values do too.
    """
    return values.take(pa.array([number * len(values) // size for number in range(size)], pa.int64()))


def neighbors_of(values: pa.Array, size: int, places: int) -> pa.Array:
    """Return about `size` of many distinct values: neighbors in the order of the values, at several places.

    An index stores neighbors together, so it decodes few of its segments for them. Values that pyarrow cannot sort are
    a sample as in `sample_of`.
    """
    ordered = comparable(values)
    borders = sample_of(ordered, places * len(values) // size)
    chosen = pa.repeat(pa.scalar(False), len(values))
    try:
        borders = borders.take(pc.array_sort_indices(borders))
        for place in range(places):
            at = place * (len(borders) - 1) // places
            inside = pc.and_(pc.greater_equal(ordered, borders[at]), pc.less(ordered, borders[at + 1]))
            chosen = pc.or_(chosen, inside)
    except pa.ArrowNotImplementedError:
        # pyarrow cannot sort decimals of 32 and 64 bits. Any sample is correct, but this one decodes more of the index.
        return sample_of(values, size)
    return values.filter(chosen)
