"""Random conditions on columns, and their truth for each row, computed in Python without parsieve.

Values are compared as exact numbers or bytes: text as its bytes, which some writers store in another encoding than
UTF-8, and times as nanoseconds.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from support.rows.values import is_integer_like, pool

Truth = bool | None
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Test:
    """A test of one column. The values are Arrow scalars or Python values."""

    path: tuple[str, ...]
    op: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Every:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Negation:
    part: Condition


Condition = Test | Every | Some | Negation


def tests_of(condition: Condition) -> Iterator[Test]:
    """Yield the tests of single columns in a condition."""
    match condition:
        case Test():
            yield condition
        case Negation(part):
            yield from tests_of(part)
        case Every(parts) | Some(parts):
            for part in parts:
                yield from tests_of(part)


@dataclass(frozen=True)
class Rules:
    """The rules in which predicate languages differ."""

    # Whether NaN is equal to itself and greater than all other values. Otherwise, it matches only `!=`.
    nan_is_greatest: bool
    # Whether IN is null for a null, and for a list with a null. Otherwise, null is a value like others.
    null_in_is_null: bool


SQL = Rules(nan_is_greatest=True, null_in_is_null=True)
ARROW = Rules(nan_is_greatest=False, null_in_is_null=False)


# Values


def plain_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return Python values that compare exactly; times are nanoseconds."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in plain_values(chunk)]
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_values(array.storage)
    if pt.is_dictionary(kind):
        values = plain_values(array.dictionary)
        return [None if place is None else values[place] for place in array.indices.to_pylist()]
    if pt.is_temporal(kind):
        ticks = array.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        step = _nanos_per_tick(kind)
        return [None if tick is None else tick * step for tick in ticks]
    if pt.is_float16(kind):
        return list(array.cast(pa.float32()).to_pylist())
    if is_text(kind):
        return list(array.cast(pa.large_binary()).to_pylist())
    return list(array.to_pylist())


def _nanos_per_tick(kind: pa.DataType) -> int:
    if pt.is_date32(kind):
        return DAY
    return NANOS["ms"] if pt.is_date64(kind) else NANOS[kind.unit]


def plain(value: Any) -> Any:
    """Return a literal as a Python value that compares exactly."""
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days * DAY
    if isinstance(value, str):
        return value.encode()
    return plain_values(pa.array([value], value.type))[0] if isinstance(value, pa.Scalar) else value


def at_path(table: pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    """Return the values at a path through structs; they are null if a struct is."""
    column = table.column(table.schema.get_field_index(path[0]))
    for name in path[1:]:
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


# Truth


def truths(condition: Condition, table: pa.Table, rules: Rules) -> list[Truth]:
    """Return whether a condition is true, false or null for each row."""
    match condition:
        case Test(path):
            return _test(condition, plain_values(at_path(table, path)), rules)
        case Negation(part):
            return [None if truth is None else not truth for truth in truths(part, table, rules)]
        case Every(parts):
            columns = [truths(part, table, rules) for part in parts]
            return [False if False in row else None if None in row else True for row in zip(*columns, strict=True)]
        case Some(parts):
            columns = [truths(part, table, rules) for part in parts]
            return [True if True in row else None if None in row else False for row in zip(*columns, strict=True)]


def _test(test: Test, actual: list[Any], rules: Rules) -> list[Truth]:
    values = [plain(value) for value in test.values]
    match test.op:
        case "null":
            return [value is None for value in actual]
        case "not null":
            return [value is not None for value in actual]
        case "is":
            return actual
        case "prefix":
            return [None if value is None else value.startswith(values[0]) for value in actual]
        case "day":
            # The value is a number of days.
            return [None if value is None else value // DAY == values[0] for value in actual]
        case "distinct":
            return [not _same(value, values[0]) for value in actual]
        case "between":
            low = _compare_all(">=", actual, values[0], rules)
            high = _compare_all("<=", actual, values[1], rules)
            return [_both(left, right) for left, right in zip(low, high, strict=True)]
        case "in" | "not in":
            members = [_is_in(value, values, rules) for value in actual]
            return members if test.op == "in" else [None if truth is None else not truth for truth in members]
    return _compare_all(test.op, actual, values[0], rules)


def _both(left: Truth, right: Truth) -> Truth:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _same(left: Any, right: Any) -> bool:
    return bool(left == right or (_is_nan(left) and _is_nan(right)))


def _is_in(value: Any, members: list[Any], rules: Rules) -> Truth:
    if value is None:
        return None if rules.null_in_is_null else None in members
    if any(_same(value, member) for member in members if member is not None):
        return True
    return None if rules.null_in_is_null and None in members else False


def _compare_all(op: str, actual: list[Any], value: Any, rules: Rules) -> list[Truth]:
    if value is None:
        return [None] * len(actual)
    compare = COMPARISONS[op]
    exact, given = _exact(value), [_exact(one) for one in actual]
    has_floats = isinstance(value, float) or any(isinstance(one, float) for one in actual)
    if has_floats and rules.nan_is_greatest:
        key = _ordered(exact)
        return [None if one is None else compare(_ordered(one), key) for one in given]
    # Python compares floats by the rules of IEEE 754, too.
    return [None if one is None else compare(one, exact) for one in given]


def _exact(value: Any) -> Any:
    """Return a decimal as a fraction, because Python cannot compare all decimals with other numbers."""
    return Fraction(value) if isinstance(value, Decimal) else value


def _ordered(value: Any) -> tuple[int, Any]:
    return (1, 0) if _is_nan(value) else (0, value)


# Random conditions


def paths_of(schema: pa.Schema) -> list[tuple[tuple[str, ...], pa.DataType]]:
    """Return the paths and types of the columns that conditions can name, at the top level and in structs."""

    def below(path: tuple[str, ...], kind: pa.DataType) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
        if pt.is_struct(kind):
            for child in kind:
                yield from below((*path, child.name), child.type)
        elif not pt.is_nested(kind):
            yield path, kind

    return [leaf for field in schema for leaf in below((field.name,), field.type)]


def random_condition(
    random_: random.Random,
    table: pa.Table,
    leaves: Sequence[tuple[tuple[str, ...], pa.DataType]],
    ops: Sequence[str],
    shape: str = "tree",
    depth: int = 2,
) -> Condition | None:
    """Return a condition on some of the leaves with values in the table, near them or absent; None without leaves.

    The shape is "tree", "or of ands" or "keys".
    """
    if not leaves:
        return None

    def test() -> Test:
        return _random_test(random_, table, random_.choice(leaves), ops)

    def tests() -> Condition:
        return Every(tuple(test() for _ in range(random_.randrange(1, 4))))

    def tree(depth: int) -> Condition:
        if depth == 0 or random_.random() < 0.5:
            return test()
        form = random_.choice(("and", "or", "not"))
        if form == "not":
            return Negation(tree(depth - 1))
        parts = tuple(tree(depth - 1) for _ in range(random_.randrange(2, 4)))
        return Every(parts) if form == "and" else Some(parts)

    if shape == "keys":
        return _random_keys(random_, table, leaves)
    if shape == "or of ands":
        return Some(tuple(tests() for _ in range(random_.randrange(1, 3))))
    return tree(depth)


def _random_keys(
    random_: random.Random, table: pa.Table, leaves: Sequence[tuple[tuple[str, ...], pa.DataType]]
) -> Condition:
    """Return a condition that columns have one of some values, which are scalars of one type for each column."""
    tests = []
    for path, kind in random_.sample(list(leaves), min(len(leaves), random_.choice((1, 1, 2)))):
        values = [random_value(random_, table, path, value_type_of(kind)) for _ in range(random_.randrange(1, 9))]
        scalars = [value for value in values if isinstance(value, pa.Scalar)]
        scalars = scalars or list(pool(_without_view(value_type_of(kind)), random_, 1))
        tests.append(Test(path, "in", tuple(value for value in scalars if value.type == scalars[0].type)))
    return Every(tuple(tests))


def _random_test(
    random_: random.Random, table: pa.Table, leaf: tuple[tuple[str, ...], pa.DataType], ops: Sequence[str]
) -> Test:
    path, kind = leaf
    value_type = value_type_of(kind)
    op = random_.choice(ops)
    if op == "is" and not pt.is_boolean(value_type):
        op = random_.choice([other for other in ops if other in COMPARISONS])
    if op == "prefix" and not _has_prefixes(value_type):
        op = random_.choice([other for other in ops if other in COMPARISONS])
    if op == "day" and not (pt.is_timestamp(value_type) and value_type.tz is None):
        op = random_.choice([other for other in ops if other in COMPARISONS])
    if pt.is_duration(value_type) or pt.is_null(value_type):
        # Durations and columns of nulls can only be tested for null.
        op = random_.choice([other for other in ops if other in ("null", "not null")] or ["null"])
    if op in ("null", "not null", "is"):
        return Test(path, op)

    def value() -> Any:
        return random_value(random_, table, path, value_type)

    if op == "prefix":
        start = plain(value()) or b"a"
        start = start[: random_.randrange(1, len(start) + 1)]
        return Test(path, op, (_pattern(start) if is_text(value_type) else start,))
    if op == "day":
        nanos = plain(value()) or 0
        return Test(path, op, (nanos // DAY,))
    if op in ("in", "not in"):
        values = [value() for _ in range(random_.choice((1, 2, 3, 10)))]
        if random_.random() < 0.15:
            values.append(None)
        return Test(path, op, tuple(values))
    return Test(path, op, (value(), value()) if op == "between" else (value(),))


def _pattern(start: bytes) -> str:
    """Return the beginning of a text without a part of a character, and without wildcards of LIKE."""
    text = start.decode(errors="ignore")
    return text if text and not any(letter in text for letter in "%_\\") else "a"


def value_type_of(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values in a dictionary or an extension type."""
    if isinstance(kind, pa.BaseExtensionType):
        return value_type_of(kind.storage_type)
    return kind.value_type if pt.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Return whether a type holds text."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _has_prefixes(kind: pa.DataType) -> bool:
    tests = (is_text, pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def random_value(random_: random.Random, table: pa.Table, path: Sequence[str], kind: pa.DataType) -> Any:
    """Return a value of the column, one near it, or one that is probably absent, as a scalar or a Python number."""
    form = random_.choice(("present", "present", "present", "near", "absent", "special"))
    present = _present(random_, table, path)
    if form == "special":
        special = _special(random_, kind)
        if special is not None:
            return special
    if present is None or form == "absent":
        values = pool(_without_view(kind), random_, 2)
        return values[random_.randrange(len(values))]
    return _near(random_, present) if form == "near" else present


def _without_view(kind: pa.DataType) -> pa.DataType:
    if pt.is_string_view(kind):
        return pa.string()
    return pa.binary() if pt.is_binary_view(kind) else kind


def _present(random_: random.Random, table: pa.Table, path: Sequence[str]) -> Any:
    if not table.num_rows:
        return None
    column = at_path(table, path)
    for _ in range(4):
        scalar = column[random_.randrange(len(column))]
        # A valid scalar of a dictionary or an extension type may still hold a null.
        while scalar is not None and scalar.is_valid and _is_wrapped(scalar.type):
            scalar = scalar.value
        if scalar is not None and scalar.is_valid and _is_literal(scalar):
            return scalar
    return None


def _is_literal(scalar: Any) -> bool:
    """Return whether a scalar can be written as a literal, unlike text of other encodings and the hour 25."""
    if pt.is_time(scalar.type):
        return bool(0 <= plain(scalar) < DAY)
    if not is_text(scalar.type):
        return True
    try:
        scalar.as_py()
    except UnicodeDecodeError:
        return False
    return True


def _is_wrapped(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) or pt.is_dictionary(kind)


def _near(random_: random.Random, scalar: Any) -> Any:
    """Return a value next to another one of the same type, or the value itself if there is none."""
    kind, step = scalar.type, random_.choice((-1, 1))
    if is_integer_like(kind):
        storage = kind if pt.is_integer(kind) else pa.int32() if kind.bit_width == 32 else pa.int64()
        number = scalar.cast(storage).as_py() + step * (86_400_000 if pt.is_date64(kind) else 1)
        try:
            near = pa.scalar(number, storage).cast(kind)
        except (pa.ArrowInvalid, OverflowError):
            return scalar
        return near if _is_literal(near) else scalar
    if pt.is_floating(kind):
        return math.nextafter(scalar.as_py(), step * math.inf)
    if pt.is_decimal(kind):
        digits = scalar.as_py().as_tuple().digits
        number = int("".join(map(str, digits))) + step
        if not 0 <= number < 10**kind.precision:
            return scalar
        return pa.scalar(Decimal((0, tuple(map(int, str(number))), -kind.scale)), kind)
    if pt.is_boolean(kind):
        return pa.scalar(not scalar.as_py())
    if _has_prefixes(kind) and not pt.is_fixed_size_binary(kind):
        value = plain(scalar)
        value = value + b"\0" if step > 0 else value[:-1]
        return pa.scalar(value.decode(errors="ignore") if is_text(kind) else value, _without_view(kind))
    return scalar


def _special(random_: random.Random, kind: pa.DataType) -> Any:
    """Return a value that tests how literals are converted."""
    if pt.is_floating(kind):
        return random_.choice((math.nan, math.inf, -math.inf, 0.0, -0.0, 1, 2**53 + 1, 0.1))
    if pt.is_integer(kind):
        return random_.choice((0.5, -1, 2**31, 2**63, 2**64, Decimal("1.5"), 7, math.inf, 1e300))
    if pt.is_decimal(kind):
        return random_.choice((0, 1, -1, Decimal("0.005"), 10**40))
    if pt.is_date(kind):
        return random_.choice((dt.date(1970, 1, 1), dt.date(2026, 1, 31)))
    return None
