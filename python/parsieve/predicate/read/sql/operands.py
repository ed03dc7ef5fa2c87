"""Read the columns and the literal values in syntax trees of sqlglot."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pyarrow as pa
from sqlglot import exp

from parsieve.predicate.builder import Builder, Operand, is_text, python_value
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.literals import DecimalLiteral, Value, read_number
from parsieve.predicate.messages import NotUnderstoodError, shortened
from parsieve.predicate.read.casts import cast_operand, cast_value, step_operand
from parsieve.predicate.read.computed import Expressions
from parsieve.predicate.read.lists import Subscript
from parsieve.predicate.read.sql.text import Predicates
from parsieve.predicate.times.temporal import to_moment

# Functions that return a text member of a JSON object.
_JSON_FUNCTIONS = ("json_extract_string", "get_json_object")


class Operands:
    """Reads the two sides of comparisons: the column, and the value."""

    def __init__(self, names: ColumnNames, build: Builder, params: Mapping[int, Any]) -> None:
        self._names = names
        self._build = build
        self._params = params
        # The last meaning of `column[index]` for each column of values.
        self.subscripts: dict[tuple[str, ...], Subscript] = {}
        self.expressions = Expressions()

    def operand(self, node: exp.Expression) -> Operand:
        """Return the column on one side of a comparison."""
        match node:
            case exp.Paren():
                return self.operand(node.this)
            case exp.Column() | exp.Dot():
                parts = _parts(node)
                quoted = [bool(part.args.get("quoted")) for part in parts]
                return Operand(self._names.find([part.name for part in parts], quoted))
            case exp.Bracket(expressions=[index]):
                check_arguments(node, "this", "expressions")
                return self._subscript(node.this, index)
            case exp.Anonymous(this=str(name), expressions=[container, index]) if name.lower() == "element_at":
                return self._subscript(container, index)
            case exp.TryCast():
                raise NotUnderstoodError("TRY_CAST is not supported; compare the column itself")
            case exp.Cast():
                check_arguments(node, "this", "to")
                operand, kind = self.operand(node.this), _arrow_type(node.to)
                if is_text(operand.column.value_type) and kind == pa.int64():
                    return self.expressions.operand("cast", operand.column)
                return cast_operand(operand, kind, self._build.zone)
            case exp.Lower() | exp.Upper():
                check_arguments(node, "this")
                return self.expressions.operand(type(node).__name__.lower(), self.operand(node.this).column)
            case exp.Anonymous(this=str(name), expressions=[tested, exp.Literal(is_string=True) as path]) if (
                name.lower() in _JSON_FUNCTIONS
            ):
                return self.expressions.operand("json_extract_string", self.operand(tested).column, [path.name])
            case exp.Date() | exp.TsOrDsToDate():
                check_arguments(node, "this")
                return cast_operand(self.operand(node.this), pa.date32(), self._build.zone)
            case exp.DateTrunc(unit=exp.Literal(this=str(step))):
                check_arguments(node, "this", "unit")
                return step_operand(self.operand(node.this), step.lower(), self._build.zone)
            case exp.Year():
                check_arguments(node, "this")
                return step_operand(self.operand(node.this), "year", self._build.zone, "year")
            case exp.Extract(this=exp.Var(this=str(part))) if part.upper() == "YEAR":
                return step_operand(self.operand(node.expression), "year", self._build.zone, "year")
        if node.find(exp.Column) is None:
            raise NotUnderstoodError("the comparison has no column")
        raise NotUnderstoodError(f"computed columns are not supported; {_instead(node)}")

    def is_operand(self, node: exp.Expression) -> bool:
        """Return whether a side of a comparison has a column."""
        if isinstance(node, exp.Column | exp.Literal):
            return isinstance(node, exp.Column)
        return node.find(exp.Column) is not None

    def _subscript(self, node: exp.Expression, index: exp.Expression) -> Operand:
        subscript = Subscript.of(self._build, self.operand(node).column, self.value(index))
        operand = subscript.operand
        self.subscripts[operand.column.path] = subscript
        return operand

    def value(self, node: exp.Expression) -> Value | None:
        """Return the value of a literal; None is null."""
        match node:
            case exp.Paren():
                return self.value(node.this)
            case exp.Null():
                return None
            case exp.Boolean():
                return bool(node.this)
            case exp.Literal():
                if node.is_string:
                    return str(node.this)
                text = str(node.this)
                is_integer = text.isascii() and text.isdigit() and len(text) <= 1000
                return Fraction(text) if is_integer else read_number(text)
            case exp.Neg():
                return _negative(self.value(node.this))
            case exp.HexString():
                return _bytes(str(node.this))
            case exp.Placeholder():
                value = self._params[id(node)]
                if isinstance(value, list | tuple):
                    raise NotUnderstoodError(f"the value of {text_of(node)} is a list; write IN {text_of(node)}")
                return python_value(value)
            case exp.Subquery() | exp.Select():
                raise NotUnderstoodError("subqueries are not supported; read the keys first, and pass keys=")
            case exp.TryCast():
                raise NotUnderstoodError("TRY_CAST is not supported; write the value itself")
            case exp.Cast():
                check_arguments(node, "this", "to")
                return self._cast_value(self.value(node.this), node.to)
            case exp.Date() | exp.TsOrDsToDate():
                check_arguments(node, "this")
                return cast_value(self.value(node.this), pa.date32(), self._build.zone)
        if node.find(exp.Column) is not None:
            raise NotUnderstoodError("only comparisons of a column with a literal are supported")
        raise NotUnderstoodError("expressions are not computed; write the value itself")

    def values(self, node: exp.Expression) -> list[Value | None]:
        """Return the values of a list of literals."""
        match node:
            case exp.Array() | exp.Tuple():
                return [self.value(item) for item in node.expressions]
            case exp.Anonymous(this=str(name), expressions=items) if name.lower() in ("list_value", "array_value"):
                return [self.value(item) for item in items]
            case exp.Placeholder() if isinstance(self._params[id(node)], list | tuple):
                return [python_value(value) for value in self._params[id(node)]]
            case exp.Placeholder():
                raise NotUnderstoodError(f"the value of {text_of(node)} is not a list; for an Arrow column, pass keys=")
        raise NotUnderstoodError("write the values as a list of literals, such as ['a', 'b']")

    def _cast_value(self, value: Value | None, to: exp.DataType) -> Value | None:
        kind = to.this
        if kind in _MOMENTS and value is not None:
            return to_moment(value, _MOMENTS[kind], self._build.zone)
        if kind == exp.DataType.Type.UUID and isinstance(value, str):
            try:
                return uuid.UUID(value)
            except ValueError:
                raise NotUnderstoodError(f"{shortened(repr(value))} is not a UUID") from None
        return cast_value(value, _arrow_type(to), self._build.zone)


def _instead(node: exp.Expression) -> str:
    """Return what to write instead of a computed column."""
    match node:
        case exp.JSONExtractScalar():
            return "write json_extract_string(text, '$.a.b')"
        case exp.Any():
            return f"write list_contains({text_of(node.this.unnest())}, ...)"
        case exp.Tuple():
            return "compare each column on its own: a = 1 AND b = 2"
    return "compare the column itself"


def check_arguments(node: exp.Expression, *names: str) -> None:
    """Raise an error if a node has other arguments than these, because they may change its meaning."""
    others = [name for name, value in node.args.items() if value and name not in names]
    if others:
        raise NotUnderstoodError(f"{others[0].upper().replace('_', ' ')} is not supported here")


def _bytes(digits: str) -> bytes:
    if len(digits) % 2 or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise ValueError(
            f"not a valid binary literal: {shortened(digits)!r} (write two hexadecimal digits per byte, as in X'01', "
            "and write numbers in decimal digits)"
        )
    return bytes.fromhex(digits)


def _negative(value: Value | None) -> Value | None:
    if value is None:
        return None
    if isinstance(value, Fraction | float) and not isinstance(value, bool):
        return -value
    if isinstance(value, DecimalLiteral):
        return DecimalLiteral(-value.number)
    raise NotUnderstoodError("only numbers can be negative")


def _parts(node: exp.Expression) -> list[exp.Identifier]:
    if isinstance(node, exp.Dot):
        inner = node.expression
        if not isinstance(inner, exp.Identifier):
            raise NotUnderstoodError("only names are allowed between dots")
        return [*_parts(node.this), inner]
    if isinstance(node, exp.Column):
        parts = [node.args.get(level) for level in ("catalog", "db", "table", "this")]
        names = [part for part in parts if part is not None]
        if all(isinstance(part, exp.Identifier) for part in names):
            return names
    raise NotUnderstoodError("only names are allowed between dots")


_TYPES: dict[Any, Any] = {
    exp.DataType.Type.BOOLEAN: pa.bool_,
    exp.DataType.Type.TINYINT: pa.int8,
    exp.DataType.Type.SMALLINT: pa.int16,
    exp.DataType.Type.INT: pa.int32,
    exp.DataType.Type.BIGINT: pa.int64,
    exp.DataType.Type.UTINYINT: pa.uint8,
    exp.DataType.Type.USMALLINT: pa.uint16,
    exp.DataType.Type.UINT: pa.uint32,
    exp.DataType.Type.UBIGINT: pa.uint64,
    exp.DataType.Type.FLOAT: pa.float32,
    exp.DataType.Type.DOUBLE: pa.float64,
    exp.DataType.Type.DATE: pa.date32,
    exp.DataType.Type.TEXT: pa.string,
    exp.DataType.Type.VARCHAR: pa.string,
    exp.DataType.Type.VARBINARY: pa.binary,
    exp.DataType.Type.BINARY: pa.binary,
}

# Whether timestamps of a type have a zone; None means that the literal decides.
_MOMENTS: dict[Any, bool | None] = {
    exp.DataType.Type.TIMESTAMP: None,
    exp.DataType.Type.DATETIME: None,
    exp.DataType.Type.TIMESTAMPNTZ: False,
    exp.DataType.Type.TIMESTAMPTZ: True,
    exp.DataType.Type.TIMESTAMPLTZ: True,
}


def _arrow_type(to: exp.DataType) -> pa.DataType:
    """Return the Arrow type of a SQL type."""
    kind = to.this
    if kind in _TYPES and not to.expressions:
        return _TYPES[kind]()
    if kind == exp.DataType.Type.DECIMAL:
        sizes = [int(size.this.this) for size in to.expressions if isinstance(size.this, exp.Literal)]
        precision, scale = [*sizes, *(18, 3)[len(sizes) :]] if len(sizes) != 1 else (sizes[0], 0)
        if 1 <= precision <= 38 and 0 <= scale <= precision:
            return pa.decimal128(precision, scale)
    if kind == exp.DataType.Type.TIME and not to.expressions:
        return pa.time64("ns")
    if kind in _MOMENTS and not to.expressions:
        # Timestamps of SQL engines have microseconds.
        return pa.timestamp("us", "UTC" if _MOMENTS[kind] else None)
    raise NotUnderstoodError(f"casts to {to.sql()} are not supported")


def text_of(node: exp.Expression) -> str:
    """Return the SQL text of a node."""
    return node.sql(dialect=Predicates)
