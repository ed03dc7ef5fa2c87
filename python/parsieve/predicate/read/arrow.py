"""pyarrow Expressions to the typed form.

pyarrow lets nobody walk an Expression, but pickles one as a record batch: its literals are columns, exactly typed, and
the tree is written into the metadata of its schema as a list of pairs in which keys repeat. pyarrow's own mapping would
keep one pair of each key, so the list is read through the Arrow C data interface.

pyarrow compares floating numbers as IEEE does: NaN equals nothing and has no order. The form has one order for all, so
NaN is excluded by name where pyarrow would not find it; unless somebody else's conditions, who orders NaN as the form
does, came as an Expression.
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

from parsieve.predicate.builder import MIRRORED, Builder, Operand, cast_operand, is_bytes, never, scalar_value, unknown
from parsieve.predicate.column_names import Names
from parsieve.predicate.expr import Always, And, Expr, IsNull, Not, Operator, Or, both, either, value_type
from parsieve.predicate.literals import UnlikeError, Value
from parsieve.predicate.read.nan_rules import compare_ieee
from parsieve.predicate.read.sql import like_prefix

_COMPARISONS: dict[str, Operator] = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


@dataclass(frozen=True, slots=True)
class _Field:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: tuple[_Node, ...]
    options: pa.Scalar | None


# pyarrow has no types of its own: a scalar is any object to mypy.
_Node: TypeAlias = _Field | _Call | Any


def parse_expression(
    expression: pc.Expression, schema: pa.Schema, zone: str | None, *, nan_is_greatest: bool = False
) -> Expr:
    """The typed form of a pyarrow Expression, which orders NaN as pyarrow does, or above all numbers."""
    try:
        tree = _tree(expression)
    except (pa.ArrowNotImplementedError, UnlikeError) as error:
        return unknown(_printed(expression), str(error))
    reader = _Reader(Names(schema), Builder(zone), nan_is_greatest)
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
            raise UnlikeError("fields must be given by name")
        return _Field(tuple(name for _, name in inner))

    # Calls that are open, so that deep trees need no recursion here.
    stack: list[tuple[str, list[_Node], list[pa.Scalar]]] = [("", [], [])]
    for key, value in pairs:
        match key:
            case "call":
                stack.append((value, [], []))
            case "end":
                name, found, options = stack.pop()
                stack[-1][1].append(_Call(name, tuple(found), options[0] if options else None))
            case "options":
                stack[-1][2].append(literal(value))
            case "literal":
                stack[-1][1].append(literal(value))
            case "field_ref" | "nested_field_ref":
                stack[-1][1].append(field(key, value))
            case _:
                raise UnlikeError(f"this version of pyarrow serializes expressions in an unknown way: {key!r}")
    if len(stack) != 1 or len(stack[0][1]) != 1:
        raise UnlikeError("this version of pyarrow serializes expressions in an unknown way")
    return stack[0][1][0]


class _ArrowSchema(ctypes.Structure):
    """The beginning of `struct ArrowSchema`; the rest is not looked at."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """All pairs of a schema's metadata, in order, with those whose keys repeat."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _ArrowSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    if address is None:
        return

    def number() -> int:
        nonlocal address
        found = ctypes.c_int32.from_address(address).value
        address += 4
        return found

    def text() -> str:
        nonlocal address
        length = number()
        found = ctypes.string_at(address, length).decode()
        address += length
        return found

    for _ in range(number()):
        # The capsule owns the memory: it must live until the last pair.
        assert capsule is not None
        yield text(), text()


def _fields(node: _Node) -> Iterator[_Field]:
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, _Call):
            waiting.extend(one.arguments)
        elif isinstance(one, _Field):
            yield one


class _Reader:
    def __init__(self, names: Names, build: Builder, nan_is_greatest: bool) -> None:
        self._names = names
        self._build = build
        self._nan_is_greatest = nan_is_greatest

    def truth(self, node: _Node) -> Expr:
        if isinstance(node, _Call):
            match node.name, node.arguments:
                case "and_kleene" | "or_kleene", (_, _):
                    return self._chain(node)
                case "invert", (inner,):
                    return Not(self.truth(inner))
        try:
            return self._leaf(node)
        except UnlikeError as error:
            return unknown(_text(node), error)

    def _chain(self, node: _Call) -> Expr:
        parts: list[Expr] = []
        waiting: list[_Node] = [node]
        while waiting:
            one = waiting.pop()
            if isinstance(one, _Call) and one.name == node.name and len(one.arguments) == 2:
                waiting.extend(reversed(one.arguments))
            else:
                parts.append(self.truth(one))
        return And(tuple(parts)) if node.name == "and_kleene" else Or(tuple(parts))

    def _leaf(self, node: _Node) -> Expr:
        build = self._build
        if isinstance(node, _Field):
            operand = self.operand(node)
            if not pa.types.is_boolean(operand.column.value_type):
                raise UnlikeError(f"{operand.column} alone is not a condition, because it is not a boolean")
            return build.compare(operand, "=", True)
        if isinstance(node, pa.Scalar):
            if pa.types.is_boolean(node.type) or pa.types.is_null(node.type):
                return Always(node.as_py())
            raise UnlikeError("a literal alone must be a boolean")
        if node.name in _COMPARISONS and len(node.arguments) == 2:
            op = _COMPARISONS[node.name]
            left, right = node.arguments
            if isinstance(left, pa.Scalar):
                left, right, op = right, left, MIRRORED[op]
            operand, value = self.operand(left), scalar_value(self.literal(right))
            return (build.compare if self._nan_is_greatest else partial(compare_ieee, build))(operand, op, value)
        match node.name, node.arguments:
            case "is_in", (inner,):
                return self._is_in(self.operand(inner), _options(node))
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
                return never(operand.column, f"{operand.column} = NaN")
            case "starts_with", (inner,) if not _options(node).get("ignore_case"):
                operand = self.operand(inner)
                return build.starts_with(operand, _pattern(operand, _options(node)["pattern_scalar"]))
            case "match_like", (inner,) if not _options(node).get("ignore_case"):
                operand = self.operand(inner)
                text = str(scalar_value(_options(node)["pattern_scalar"]))
                prefix, rest = like_prefix(text, "\\")
                value = prefix.encode() if is_bytes(operand.column.value_type) else prefix
                if rest and set(rest) == {"%"}:
                    return build.starts_with(operand, value)
                if not rest:
                    return build.compare(operand, "=", value)
        raise UnlikeError(f"pyarrow's {node.name} is not supported here")

    def _is_in(self, operand: Operand, options: dict[str, Any]) -> Expr:
        values = [scalar_value(value) for value in options["value_set_scalar"].values]
        found = self._build.contains(operand, [value for value in values if value is not None])
        null = IsNull(operand.column)
        # 0 and 1 find null by null or not at all, and are never null themselves.
        match options.get("null_matching_behavior"):
            case 0 if None in values:
                return either(null, found)
            case 0 | 1:
                return both(Not(null), found)
            case 2:
                return found
            case 3:
                return either(found, Always(None)) if None in values else found
        raise UnlikeError("this null_matching_behavior is not supported")

    def operand(self, node: _Node) -> Operand:
        """The column on one side."""
        if isinstance(node, _Field):
            # Spark names its own columns as they are written.
            return Operand(self._names.find(node.path, exact=self._nan_is_greatest))
        if isinstance(node, _Call) and node.name == "cast" and len(node.arguments) == 1:
            return cast_operand(
                self.operand(node.arguments[0]), _options(node)["to_type_scalar"].type, self._build.zone
            )
        raise UnlikeError("computed columns are not supported; compare the column itself")

    def literal(self, node: _Node) -> pa.Scalar:
        """A literal, cast where pyarrow can without loss."""
        if isinstance(node, pa.Scalar):
            return node
        if isinstance(node, _Call) and node.name == "cast" and len(node.arguments) == 1:
            to = value_type(_options(node)["to_type_scalar"].type)
            try:
                return self.literal(node.arguments[0]).cast(to)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise UnlikeError(f"the literal does not fit {to}") from None
        raise UnlikeError("only comparisons of a column with a literal are supported")


def _options(call: _Call) -> dict[str, Any]:
    """The options of a call by name, and by `name_scalar` as Arrow holds them."""
    if call.options is None:
        return {}
    named = {}
    for number, field in enumerate(call.options.type):
        scalar = call.options[number]
        named[f"{field.name}_scalar"] = scalar
        # A pattern may be no text.
        if pa.types.is_boolean(field.type) or pa.types.is_integer(field.type):
            named[field.name] = scalar.as_py()
    return named


def _pattern(operand: Operand, pattern: pa.Scalar) -> Value | None:
    """A prefix, which pyarrow holds as text whatever its bytes are."""
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
