"""Parse pyarrow Expressions.

pyarrow has no API to walk an Expression, but it pickles one as a record batch. The literals are columns with exact
types, and the tree is in the metadata of the schema, as a list of pairs with repeated keys. pyarrow's own mapping keeps
only one pair for each key, so this module reads the list through the Arrow C data interface.

pyarrow compares floats by the rules of IEEE 754: NaN equals nothing and has no order. The typed form orders NaN above
all other values, so conditions exclude NaN explicitly if pyarrow would not match it. `nan_is_greatest` turns this off,
for Expressions that come from an engine with the same order, such as Spark.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.builder import (
    MIRRORED,
    Builder,
    Operand,
    false_unless_null,
    is_bytes,
    is_text,
    make_unknown,
    scalar_value,
)
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import (
    ELEMENT,
    KEY,
    VALUE,
    Always,
    And,
    Expr,
    IsNull,
    Not,
    Operator,
    Or,
    all_of,
    any_of,
    columns,
    value_type,
)
from parsieve.predicate.literals import Value
from parsieve.predicate.messages import NotUnderstoodError
from parsieve.predicate.read.casts import cast_operand, own_zone, step_operand
from parsieve.predicate.read.computed import Expressions
from parsieve.predicate.read.lists import Elements, Subscript
from parsieve.predicate.read.nan_rules import compare_ieee
from parsieve.predicate.read.patterns import like, pattern_around, pattern_before, regex
from parsieve.predicate.text.like import Wildcard, read_like
from parsieve.predicate.times.steps import STEPS

_COMPARISONS: dict[str, Operator] = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}

# Functions that change the case of letters. They agree about ASCII.
_CASES = {"utf8_lower": "lower", "ascii_lower": "lower", "utf8_upper": "upper", "ascii_upper": "upper"}

# Functions that pyarrow does not have. The first one is whether lists contain one of the values of a list. Its first
# argument is a column, or one of the functions in `_PARTS` of a map.
HAS_ANY, MEMBER = "list_has_any", "json_extract_string"
_PARTS = {"map_keys": KEY, "map_values": VALUE}


@dataclass(frozen=True, slots=True)
class _Field:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: tuple[_Node, ...]
    options: pa.Scalar | None


# The third kind is a scalar. pyarrow has no type annotations, so for mypy it is Any.
_Node: TypeAlias = _Field | _Call | Any


def parse_expression(
    expression: pc.Expression,
    schema: pa.Schema,
    zone: str | None,
    *,
    nan_is_greatest: bool = False,
    filtered_again: bool = False,
) -> Expr:
    """Parse a pyarrow Expression. NaN has no order, as in pyarrow, unless `nan_is_greatest`.

    Set `filtered_again` if pyarrow filters the rows of the plan with the same expression.
    """
    try:
        tree = _tree(expression)
    except (pa.ArrowNotImplementedError, NotUnderstoodError) as error:
        return make_unknown(_printed(expression), str(error))
    reader = _Reader(ColumnNames(schema), Builder(zone), nan_is_greatest, filtered_again)
    for field in _fields(tree):
        reader.operand(field)
    return reader.truth(tree)


def _tree(expression: pc.Expression) -> _Node:
    _, arguments = expression.__reduce__()
    batch = pa.ipc.open_file(arguments[0]).get_batch(0)
    pairs = iter(_metadata(batch.schema))

    def literal(number: str) -> pa.Scalar:
        return batch.column(int(number))[0]

    def field(key: str, value: str) -> _Field:
        if key == "field_ref":
            return _Field((value,))
        inner = [next(pairs) for _ in range(int(value))]
        if any(part != "field_ref" for part, _ in inner):
            raise NotUnderstoodError("fields must be given by name")
        return _Field(tuple(name for _, name in inner))

    # The unfinished calls: a stack instead of recursion, because trees may be deep.
    stack: list[tuple[str, list[_Node], list[pa.Scalar]]] = [("", [], [])]
    for key, value in pairs:
        match key:
            case "call":
                stack.append((value, [], []))
            case "end":
                name, call_arguments, options = stack.pop()
                stack[-1][1].append(_Call(name, tuple(call_arguments), options[0] if options else None))
            case "options":
                stack[-1][2].append(literal(value))
            case "literal":
                stack[-1][1].append(literal(value))
            case "field_ref" | "nested_field_ref":
                stack[-1][1].append(field(key, value))
            case _:
                raise NotUnderstoodError(f"this version of pyarrow serializes expressions in an unknown way: {key!r}")
    if len(stack) != 1 or len(stack[0][1]) != 1:
        raise NotUnderstoodError("this version of pyarrow serializes expressions in an unknown way")
    return stack[0][1][0]


class _ArrowSchema(ctypes.Structure):
    """The first fields of `struct ArrowSchema`, which are all that this module needs."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """Yield all pairs of a schema's metadata in order, including pairs with repeated keys."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if address is None:
        return

    def read_integer() -> int:
        nonlocal address
        value = ctypes.c_int32.from_address(address).value
        address += 4
        return value

    def read_text() -> str:
        nonlocal address
        length = read_integer()
        text = ctypes.string_at(address, length).decode()
        address += length
        return text

    for _ in range(read_integer()):
        # The capsule owns the memory, so it must stay alive until the last pair is read.
        assert capsule is not None
        yield read_text(), read_text()


def _fields(node: _Node) -> Iterator[_Field]:
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, _Call):
            pending.extend(part.arguments)
        elif isinstance(part, _Field):
            yield part


def _converts_exactly(values: pa.Array, kind: pa.DataType) -> bool:
    """Return whether pyarrow's conversion of a list of values to the type of a column changes no value.

    pyarrow refuses some conversions, for example of integers that are too large, but it rounds doubles to floats. If it
    refuses, it converts the column instead, or fails.
    """
    if values.type == kind or pa.types.is_null(values.type):
        return True
    try:
        converted = values.cast(kind)
        if pa.types.is_decimal(values.type) and pa.types.is_floating(kind):
            # The way back would round to the same decimal. In the typed form, a decimal means the nearest double.
            return bool(
                converted.to_pylist() == [None if value is None else float(value) for value in values.to_pylist()]
            )
        back = converted.cast(values.type, safe=False)
    except pa.ArrowException:
        return True
    try:
        # NaN is not equal to itself.
        is_same = pc.or_(pc.equal(values, back), pc.invert(pc.equal(values, values)))
    except pa.ArrowNotImplementedError:
        return bool(values.equals(back))
    return bool(pc.all(pc.fill_null(is_same, True)).as_py())


def _has_zero_or_nan(values: pa.Array) -> bool:
    try:
        floats = values.cast(pa.float64(), safe=False)
    except pa.ArrowException:
        return True
    return bool(pc.any(pc.or_(pc.equal(floats, 0.0), pc.is_nan(floats))).as_py())


class _Reader:
    def __init__(self, names: ColumnNames, build: Builder, nan_is_greatest: bool, filtered_again: bool) -> None:
        self._names = names
        self._build = build
        self._nan_is_greatest = nan_is_greatest
        self._filtered_again = filtered_again
        self._expressions = Expressions()
        # The last meaning of `map_lookup` for each column of values.
        self._subscripts: dict[tuple[str, ...], Subscript] = {}

    def truth(self, node: _Node) -> Expr:
        if isinstance(node, _Call):
            match node.name, node.arguments:
                case "and_kleene" | "or_kleene", (_, _):
                    return self._chain(node)
                case "invert", (inner,):
                    return Not(self.truth(inner))
                # DuckDB writes IN so. Tests for null are never null themselves, so this is exact.
                case "if_else", (_Call("is_valid" | "is_null") as test, chosen, other):
                    condition = self.truth(test)
                    parts = And((condition, self.truth(chosen))), And((Not(condition), self.truth(other)))
                    return Or(parts)
        try:
            condition = self._leaf(node)
            computed = [column for column in columns(condition) if column.is_computed]
            if computed:
                return self._expressions.condition(computed[0], condition)
            subscripts = [self._subscripts[column.path] for column in columns(condition) if column.is_repeated]
            return subscripts[0].condition(condition, _text(node)) if subscripts else condition
        except NotUnderstoodError as error:
            return make_unknown(_text(node), error)

    def _chain(self, node: _Call) -> Expr:
        parts: list[Expr] = []
        pending: list[_Node] = [node]
        while pending:
            part = pending.pop()
            if isinstance(part, _Call) and part.name == node.name and len(part.arguments) == 2:
                pending.extend(reversed(part.arguments))
            else:
                parts.append(self.truth(part))
        return And(tuple(parts)) if node.name == "and_kleene" else Or(tuple(parts))

    def _leaf(self, node: _Node) -> Expr:
        build = self._build
        if isinstance(node, _Field):
            operand = self.operand(node)
            if not pa.types.is_boolean(operand.column.value_type):
                raise NotUnderstoodError(f"{operand.column} alone is not a condition, because it is not a boolean")
            return build.compare(operand, "=", True)
        if isinstance(node, pa.Scalar):
            if pa.types.is_boolean(node.type) or pa.types.is_null(node.type):
                return Always(node.as_py())
            raise NotUnderstoodError("a literal alone must be a boolean")
        if node.name in _COMPARISONS and len(node.arguments) == 2:
            op = _COMPARISONS[node.name]
            left, right = node.arguments
            if isinstance(left, pa.Scalar):
                left, right, op = right, left, MIRRORED[op]
            operand, value = self.operand(left), scalar_value(self.literal(right))
            return (build.compare if self._nan_is_greatest else partial(compare_ieee, build))(operand, op, value)
        match node.name, node.arguments:
            case "is_in", (inner,):
                return self._is_in(inner, _options(node))
            case "is_null", (inner,):
                operand = self.operand(inner)
                null = IsNull(operand.column)
                nan = bool(_options(node).get("nan_is_null")) and pa.types.is_floating(operand.column.value_type)
                return Or((null, build.compare(operand, "=", math.nan))) if nan else null
            case "is_valid", (inner,):
                return Not(build.is_null(self.operand(inner)))
            case "is_nan", (inner,):
                operand = self.operand(inner)
                if pa.types.is_floating(operand.column.value_type):
                    return build.compare(operand, "=", math.nan)
                return false_unless_null(operand.column, f"{operand.column} = NaN")
            case "starts_with", (inner,) if not _options(node).get("ignore_case"):
                operand = self.operand(inner)
                return build.starts_with(operand, _pattern(operand, _options(node)["pattern_scalar"]))
            case "ends_with" | "match_substring" | "match_substring_regex" | "match_like" as name, (inner,):
                return self._match(name, self.operand(inner), node)
            case name, (inner, values) if name == HAS_ANY:
                wanted = [scalar_value(value) for value in self.literal(values).values]
                return self._elements(inner).has_any(build, wanted)
        raise NotUnderstoodError(f"pyarrow's {node.name} is not supported here")

    def _match(self, name: str, operand: Operand, node: _Call) -> Expr:
        build, options = self._build, _options(node)
        pattern, ignores_case = scalar_value(options["pattern_scalar"]), bool(options.get("ignore_case"))
        if is_bytes(operand.column.value_type):
            # Binary columns have prefixes only.
            is_like = name == "match_like" and not ignores_case
            prefix, *others = (read_like(str(pattern), "\\") or ("",)) if is_like else (None,)
            if isinstance(prefix, str) and not others:
                return build.compare(operand, "=", prefix.encode())
            if isinstance(prefix, str) and others == [Wildcard.ANY]:
                return build.starts_with(operand, prefix.encode())
            raise NotUnderstoodError(f"pyarrow's {name} is not supported for binary columns")
        if not isinstance(pattern, str):
            raise NotUnderstoodError("the pattern must be a string")
        source = _text(node)
        match name:
            case "match_substring_regex":
                return regex(build, operand, pattern, source=source, ignore_case=ignores_case)
            case "match_like":
                parsed = read_like(pattern, "\\")
                if "\\" in pattern and parsed[1:] not in ((), (Wildcard.ANY,)):
                    # pyarrow takes a backslash in some of these patterns literally.
                    raise NotUnderstoodError("pyarrow reads a backslash in this pattern inconsistently")
            case "match_substring":
                parsed = pattern_around(pattern)
            case _:
                parsed = pattern_before(pattern)
        return like(build, operand, parsed, source=source, ignore_case=ignores_case)

    def _is_in(self, node: _Node, options: dict[str, Any]) -> Expr:
        operand, value_set = self.operand(node), options["value_set_scalar"].values
        kind = operand.column.value_type
        if isinstance(node, _Call) and node.name == "cast":
            kind = _options(node)["to_type_scalar"].type
        if operand.step is None and not _converts_exactly(value_set, kind):
            raise NotUnderstoodError(f"pyarrow converts some of the values to {kind}, which changes them")
        values = [scalar_value(value) for value in value_set]
        is_member = self._build.contains(operand, [value for value in values if value is not None])
        has_floats = any(map(pa.types.is_floating, (kind, value_set.type)))
        if self._filtered_again and has_floats and _has_zero_or_nan(value_set):
            # pyarrow's `is_in` distinguishes the two zeros and some NaN, so its negation may be true for one of them.
            # It converts a column of integers to floats if the list has a fraction.
            is_member = all_of(is_member, make_unknown(str(is_member), "pyarrow distinguishes zeros and NaN"))
        null = IsNull(operand.column)
        # The options 0 to 3 are MATCH, SKIP, EMIT_NULL and INCONCLUSIVE. With MATCH and SKIP the result is never null.
        match options.get("null_matching_behavior"):
            case 0 if None in values:
                return any_of(null, is_member)
            case 0 | 1:
                return all_of(Not(null), is_member)
            case 2:
                return is_member
            case 3:
                return any_of(is_member, Always(None)) if None in values else is_member
        raise NotUnderstoodError("this null_matching_behavior is not supported")

    def _elements(self, node: _Node) -> Elements:
        """Return the elements of a list column, or the keys or values of a map column."""
        if isinstance(node, _Call) and node.name in _PARTS and len(node.arguments) == 1:
            return Elements(self.operand(node.arguments[0]).column, _PARTS[node.name])
        return Elements(self.operand(node).column, ELEMENT)

    def operand(self, node: _Node) -> Operand:
        """Return the column on one side of a comparison."""
        if isinstance(node, _Field):
            # `nan_is_greatest` means that Spark made the Expression, with the exact names of the columns.
            return Operand(self._names.find(node.path, exact=self._nan_is_greatest))
        if isinstance(node, _Call) and node.name in ("cast", "year", "floor_temporal") and len(node.arguments) == 1:
            operand, options = self.operand(node.arguments[0]), _options(node)
            match node.name:
                case "cast":
                    kind = options["to_type_scalar"].type
                    if is_text(operand.column.value_type) and kind == pa.int64():
                        return self._expressions.operand("cast", operand.column)
                    return cast_operand(operand, kind, own_zone(operand))
                case "year":
                    return step_operand(operand, "year", own_zone(operand), "year")
                case "floor_temporal":
                    return step_operand(operand, _step(options), own_zone(operand))
        if isinstance(node, _Call) and node.name in _CASES and len(node.arguments) == 1:
            return self._expressions.operand(_CASES[node.name], self.operand(node.arguments[0]).column)
        if isinstance(node, _Call) and node.name == MEMBER and len(node.arguments) == 2:
            text, path = node.arguments
            return self._expressions.operand(MEMBER, self.operand(text).column, [str(scalar_value(self.literal(path)))])
        if isinstance(node, _Call) and node.name == "map_lookup" and len(node.arguments) == 1:
            options = _options(node)
            if options["occurrence"] == _ALL:
                raise NotUnderstoodError("compare the first or the last value of a key, not the list of all values")
            column = self.operand(node.arguments[0]).column
            subscript = Subscript.of(self._build, column, scalar_value(options["query_key_scalar"]))
            self._subscripts[subscript.operand.column.path] = subscript
            return subscript.operand
        raise NotUnderstoodError("computed columns are not supported; compare the column itself")

    def literal(self, node: _Node) -> pa.Scalar:
        """Return a literal; apply casts that do not lose anything."""
        if isinstance(node, pa.Scalar):
            return node
        if isinstance(node, _Call) and node.name == "cast" and len(node.arguments) == 1:
            to = value_type(_options(node)["to_type_scalar"].type)
            try:
                return self.literal(node.arguments[0]).cast(to)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise NotUnderstoodError(f"the literal does not fit {to}") from None
        raise NotUnderstoodError("only comparisons of a column with a literal are supported")


def _options(call: _Call) -> dict[str, Any]:
    """Return the options of a call: as Python values by name, and as Arrow scalars by `name_scalar`."""
    if call.options is None:
        return {}
    named = {}
    for number, field in enumerate(call.options.type):
        scalar = call.options[number]
        named[f"{field.name}_scalar"] = scalar
        # Patterns stay scalars, because they may be invalid text.
        if pa.types.is_boolean(field.type) or pa.types.is_integer(field.type):
            named[field.name] = scalar.as_py()
    return named


# The occurrences of `map_lookup` are the first, the last, and all.
_ALL = 2
# The units of time in the options of pyarrow's functions.
_UNITS = dict(enumerate(("nanosecond", "microsecond", "millisecond", *STEPS)))


def _step(options: dict[str, Any]) -> str:
    """Return the step of `floor_temporal`."""
    step = _UNITS.get(options["unit"], "unknown")
    if options["multiple"] != 1 or options["calendar_based_origin"]:
        raise NotUnderstoodError("only steps of one unit are supported")
    if step == "week" and not options["week_starts_monday"]:
        raise NotUnderstoodError("only weeks that begin on Monday are supported")
    return step


def _pattern(operand: Operand, pattern: pa.Scalar) -> Value | None:
    """Return a prefix. For a binary column pyarrow stores its bytes as text, which may be invalid."""
    if pattern.is_valid and is_bytes(operand.column.value_type):
        return bytes(pattern.as_buffer())
    return scalar_value(pattern)


def _text(node: _Node, depth: int = 0) -> str:
    if isinstance(node, _Field):
        return ".".join(node.path)
    if isinstance(node, pa.Scalar):
        return _printed(node)
    inner = ", ".join(_text(argument, depth + 1) for argument in node.arguments) if depth < 9 else "..."
    return f"{node.name}({inner})"


def _printed(value: pc.Expression | pa.Scalar) -> str:
    try:
        return str(value)
    except UnicodeDecodeError:
        return "a text that is not valid UTF-8"
    except (OverflowError, ValueError):
        # Python cannot hold such a time, but Arrow can print it.
        return str(pc.scalar(value))
