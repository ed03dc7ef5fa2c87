"""SQL text to the typed form. sqlglot reads the text; what it means is decided here."""

from __future__ import annotations

import operator
import re
import uuid
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import pyarrow as pa
import sqlglot
from sqlglot import exp, tokens
from sqlglot.dialects.dialect import Dialect

from parsieve.errors import ColumnNotFoundError
from parsieve.predicate.builder import MIRRORED, Builder, Operand, cast_operand, cast_value, python_value, unknown
from parsieve.predicate.column_names import Names
from parsieve.predicate.expr import Always, And, Expr, Not, Operator, Or, both
from parsieve.predicate.literals import Nearest, UnlikeError, Value, moment, read_number
from parsieve.predicate.messages import shortened


class Predicates(Dialect):
    """The SQL that predicates are written in: ANSI, with names in backticks as Spark writes them too."""

    class Tokenizer(tokens.Tokenizer):  # noqa: D106 - sqlglot looks for it by this name
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]


_PREFIXES_ONLY = "only patterns with a fixed beginning, such as 'abc%', can skip files"
_PREFIX_ONLY = "only the beginning of the pattern is used"

_COMPARISONS: dict[type[exp.Expression], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


_FOLDED: dict[Operator, Any] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _with_quotes(error: ColumnNotFoundError, column: exp.Expression) -> ColumnNotFoundError:
    """The error, with a word where a text was meant: a bare name beside a comparison, or among the values of IN."""
    beside = column.parent
    is_value = (isinstance(beside, exp.Binary) and beside.expression is column) or (
        isinstance(beside, exp.In) and beside.this is not column
    )
    is_value = is_value or (isinstance(beside, exp.Between) and beside.this is not column)
    if not is_value or not isinstance(column, exp.Column):
        return error
    text = column.sql()
    if column.this.args.get("quoted"):
        return ColumnNotFoundError(f"{error}. A text stands in single quotes: '{column.name}'")
    return ColumnNotFoundError(f"{error}. If {text} is a text, it stands in quotes: '{text}'")


def parse_sql(text: str, schema: pa.Schema, zone: str | None, params: Params | None = None) -> Expr:
    """The typed form of a WHERE clause."""
    try:
        tree = sqlglot.parse_one(without_doubled_parentheses(text), dialect=Predicates)
    except sqlglot.errors.SqlglotError as error:
        raise _invalid(text, f": {_plain(error)}") from None
    if not isinstance(tree, exp.Condition) or isinstance(tree, exp.Query | exp.Alias):
        raise _invalid(text)
    assert isinstance(tree, exp.Expression)
    reader = _Reader(Names(schema), Builder(zone), bound(tree, params))
    for column in tree.find_all(exp.Column, exp.Dot):
        # A name that is nowhere is an error even where the rest is not understood.
        if not isinstance(column.parent, exp.Dot):
            try:
                reader.operand(column)
            except ColumnNotFoundError as error:
                raise _with_quotes(error, column) from None
    return reader.truth(tree)


def without_doubled_parentheses(text: str) -> str:
    """Return `(x = 1)` for `((x = 1))`: programs nest conditions deeper than the parser can."""
    if text.count("(") < 20:
        return text
    listed = list(Predicates().tokenize(text))
    opened: list[int] = []
    closing: dict[int, int] = {}
    for at, token in enumerate(listed):
        if token.token_type == sqlglot.TokenType.L_PAREN:
            opened.append(at)
        elif token.token_type == sqlglot.TokenType.R_PAREN and opened:
            closing[opened.pop()] = at
    # After other tokens, as in `f((a, b))` and `x IN ((1, 2))`, two pairs mean something else than one.
    before = (None, sqlglot.TokenType.L_PAREN, sqlglot.TokenType.AND, sqlglot.TokenType.OR, sqlglot.TokenType.NOT)
    doubled = [
        at
        for at, end in closing.items()
        if closing.get(at + 1) == end - 1 and (listed[at - 1].token_type if at else None) in before
    ]
    # Spaces, so that errors name the right place.
    characters = list(text)
    for at in doubled:
        for one in (listed[at], listed[closing[at]]):
            characters[one.start] = " "
    return "".join(characters)


Params = Sequence[Any] | Mapping[str, Any]


def bound(tree: exp.Expression, params: Params | None) -> dict[int, Any]:
    """Return the value of each placeholder, by the identity of its node."""
    placeholders = list(tree.find_all(exp.Placeholder, bfs=False))
    if params is None:
        return {}
    if isinstance(params, str | bytes) or not isinstance(params, Sequence | Mapping):
        raise TypeError(f"params is a list of values for ?, or a dict for :name, not {type(params).__qualname__}")
    by_name = isinstance(params, Mapping)
    if any(bool(one.this) != by_name for one in placeholders):
        raise ValueError("pass params= as a list for ?, and as a dict for :name")
    if isinstance(params, Mapping):
        names = {str(one.this) for one in placeholders}
        if names != set(params):
            raise ValueError(f"the condition names {sorted(names)}, and params has {sorted(params)}")
        return {id(one): params[str(one.this)] for one in placeholders}
    if len(params) != len(placeholders):
        raise ValueError(f"the condition has {len(placeholders)} of ?, and params has {len(params)} values")
    return {id(one): value for one, value in zip(placeholders, params, strict=True)}


def _invalid(text: str, why: str = "") -> ValueError:
    return ValueError(f"not a valid SQL condition: {shortened(repr(text))}{why} (write what follows WHERE)")


def _plain(error: Exception) -> str:
    details = getattr(error, "errors", None)
    if details:
        one = details[0]
        found = re.sub(r"<class '.*?(\w+)'>", r"\1", one["description"]).rstrip(".")
        return f"{found} at line {one['line']}, column {one['col']}"
    return str(error).splitlines()[0]


class _Reader:
    def __init__(self, names: Names, build: Builder, params: Mapping[int, Any]) -> None:
        self._names = names
        self._build = build
        self._params = params

    def truth(self, node: exp.Expression) -> Expr:
        """A condition; what is not understood stands there as text with its reason."""
        while isinstance(node, exp.Paren):
            node = node.this
        match node:
            case exp.And() | exp.Or():
                return self._chain(node)
            case exp.Not():
                return Not(self.truth(node.this))
        try:
            return self._leaf(node)
        except UnlikeError as error:
            return unknown(_text(node), error)

    def _chain(self, node: exp.And | exp.Or) -> Expr:
        # Long chains are deep trees: they are walked without recursion.
        kind = type(node)
        parts: list[Expr] = []
        waiting: list[exp.Expression] = [node]
        while waiting:
            one = waiting.pop()
            if type(one) is kind:
                waiting.extend((one.expression, one.this))
            else:
                parts.append(self.truth(one))
        return And(tuple(parts)) if kind is exp.And else Or(tuple(parts))

    def _leaf(self, node: exp.Expression) -> Expr:
        build = self._build
        match node:
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                _only(node, "this", "expression")
                folded = self._folded(_COMPARISONS[type(node)], node.this, node.expression)
                if folded is not None:
                    return folded
                return self._compared(_COMPARISONS[type(node)], node.this, node.expression)
            case exp.Between():
                _only(node, "this", "low", "high")
                low = self._compared(">=", node.this, node.args["low"])
                return And((low, self._compared("<=", node.this, node.args["high"])))
            case exp.In():
                _only(node, "this", "expressions")
                return build.contains(self.operand(node.this), [self.value(item) for item in node.expressions])
            case exp.Is():
                _only(node, "this", "expression")
                return self._is(node.this, node.expression)
            case exp.NullSafeEQ():
                _only(node, "this", "expression")
                return self._same(node.this, node.expression)
            case exp.NullSafeNEQ():
                _only(node, "this", "expression")
                return Not(self._same(node.this, node.expression))
            case exp.Like():
                return self._like(node, None)
            case exp.Escape() if isinstance(node.this, exp.Like):
                _only(node, "this", "expression")
                return self._like(node.this, self.value(node.expression))
            case exp.StartsWith():
                _only(node, "this", "expression")
                return build.starts_with(self.operand(node.this), self.value(node.expression))
            case exp.IsNan():
                _only(node, "this")
                return build.compare(self.operand(node.this), "=", float("nan"))
            case exp.Boolean():
                return Always(bool(node.this))
            case exp.Null():
                return Always(None)
            case exp.Column() | exp.Dot():
                operand = self.operand(node)
                if not pa.types.is_boolean(operand.column.value_type):
                    raise UnlikeError(f"{operand.column} alone is not a condition, because it is not a boolean")
                return build.compare(operand, "=", True)
        raise UnlikeError("this kind of condition is not supported")

    def _compared(self, op: Operator, left: exp.Expression, right: exp.Expression) -> Expr:
        if self._is_operand(left):
            return self._build.compare(self.operand(left), op, self.value(right))
        return self._build.compare(self.operand(right), MIRRORED[op], self.value(left))

    def _folded(self, op: Operator, left: exp.Expression, right: exp.Expression) -> Expr | None:
        """`1 = 1`, as programs write it: two whole numbers, two texts, or a null. None for any other comparison."""
        if self._is_operand(left) or self._is_operand(right):
            return None
        one, other = self.value(left), self.value(right)
        if one is None or other is None:
            return Always(None)
        if type(one) is not type(other) or not isinstance(one, Fraction | str | bool):
            raise UnlikeError("without a column, only numbers, texts and booleans can be compared")
        if isinstance(one, str) and op not in ("=", "!="):
            raise UnlikeError("the order of two texts depends on the engine")
        return Always(bool(_FOLDED[op](one, other)))

    def _is_operand(self, node: exp.Expression) -> bool:
        return node.find(exp.Column) is not None

    def _is(self, left: exp.Expression, right: exp.Expression) -> Expr:
        if isinstance(right, exp.Null):
            return self._build.is_null(self.operand(left))
        if isinstance(right, exp.Boolean):
            return self._same(left, right)
        raise UnlikeError("IS is supported with NULL, TRUE and FALSE")

    def _same(self, left: exp.Expression, right: exp.Expression) -> Expr:
        """Equality for which null is a value like others."""
        if not self._is_operand(left):
            left, right = right, left
        operand, value = self.operand(left), self.value(right)
        null = self._build.is_null(operand)
        return null if value is None else both(Not(null), self._build.compare(operand, "=", value))

    def _like(self, node: exp.Like, escape: Value | None) -> Expr:
        _only(node, "this", "expression", "negate")
        liked = self._liked(node, self.value(node.expression), escape)
        # sqlglot writes NOT LIKE into the node, or around it in older versions.
        return Not(liked) if node.args.get("negate") else liked

    def _liked(self, node: exp.Like, pattern: Value | None, escape: Value | None) -> Expr:
        operand = self.operand(node.this)
        if pattern is None:
            return Always(None)
        if not isinstance(pattern, str) or not (escape is None or (isinstance(escape, str) and len(escape) == 1)):
            raise UnlikeError("LIKE needs a string, and ESCAPE a single character")
        # Engines differ in what a backslash means where no ESCAPE is written.
        if escape is None and "\\" in pattern:
            raise UnlikeError("engines disagree about a backslash in LIKE; add ESCAPE")
        prefix, rest = like_prefix(pattern, escape)
        if rest == "":
            return self._build.compare(operand, "=", prefix)
        begins = self._build.starts_with(operand, prefix)
        if set(rest) == {"%"}:
            return begins
        return And((begins, unknown(_text(node), _PREFIXES_ONLY if prefix == "" else _PREFIX_ONLY)))

    def operand(self, node: exp.Expression) -> Operand:
        """The column on one side."""
        match node:
            case exp.Paren():
                return self.operand(node.this)
            case exp.Column() | exp.Dot():
                parts = _parts(node)
                quoted = [bool(part.args.get("quoted")) for part in parts]
                return Operand(self._names.find([part.name for part in parts], quoted))
            case exp.TryCast():
                raise UnlikeError("TRY_CAST is not supported; compare the column itself")
            case exp.Cast():
                _only(node, "this", "to")
                return cast_operand(self.operand(node.this), arrow_type(node.to), self._build.zone)
            case exp.Date() | exp.TsOrDsToDate():
                _only(node, "this")
                return cast_operand(self.operand(node.this), pa.date32(), self._build.zone)
        if node.find(exp.Column) is None:
            raise UnlikeError("the comparison has no column")
        raise UnlikeError("computed columns are not supported; compare the column itself")

    def value(self, node: exp.Expression) -> Value | None:
        """A literal."""
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
                whole = text.isascii() and text.isdigit() and len(text) <= 1000
                return Fraction(text) if whole else read_number(text)
            case exp.Neg():
                return _negative(self.value(node.this))
            case exp.HexString():
                return _bytes(str(node.this))
            case exp.Placeholder() if id(node) in self._params:
                return python_value(self._params[id(node)])
            case exp.Placeholder():
                raise UnlikeError("the placeholder has no value; pass params=")
            case exp.TryCast():
                raise UnlikeError("TRY_CAST is not supported; write the value itself")
            case exp.Cast():
                _only(node, "this", "to")
                return self._cast_value(self.value(node.this), node.to)
            case exp.Date() | exp.TsOrDsToDate():
                _only(node, "this")
                return cast_value(self.value(node.this), pa.date32(), self._build.zone)
        if node.find(exp.Column) is not None:
            raise UnlikeError("only comparisons of a column with a literal are supported")
        raise UnlikeError("expressions are not computed; write the value itself")

    def _cast_value(self, value: Value | None, to: exp.DataType) -> Value | None:
        kind = to.this
        if kind in _MOMENTS and value is not None:
            return moment(value, _MOMENTS[kind], self._build.zone)
        if kind == exp.DataType.Type.UUID and isinstance(value, str):
            try:
                return uuid.UUID(value)
            except ValueError:
                raise UnlikeError(f"{shortened(repr(value))} is not a UUID") from None
        return cast_value(value, arrow_type(to), self._build.zone)


def _only(node: exp.Expression, *names: str) -> None:
    """Refuse a node that says more than is read here: what is not read may turn its meaning round."""
    more = [name for name, value in node.args.items() if value and name not in names]
    if more:
        raise UnlikeError(f"{more[0].upper().replace('_', ' ')} is not supported here")


def like_prefix(pattern: str, escape: str | None) -> tuple[str, str]:
    """The text before the first wildcard of a pattern, and the rest from it on."""
    prefix: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            if pattern[at + 1 : at + 2] not in ("%", "_", escape):
                raise UnlikeError("the escape character must precede %, _ or itself")
            at += 1
        elif pattern[at] in "%_":
            return "".join(prefix), pattern[at:]
        prefix.append(pattern[at])
        at += 1
    return "".join(prefix), ""


def _bytes(digits: str) -> bytes:
    if len(digits) % 2 or not set(digits) <= set("0123456789abcdefABCDEF"):
        raise ValueError(
            f"not a valid binary literal: X'{shortened(digits)}' (write two hexadecimal digits per byte, as in X'01')"
        )
    return bytes.fromhex(digits)


def _negative(value: Value | None) -> Value | None:
    if value is None:
        return None
    if isinstance(value, Fraction | float) and not isinstance(value, bool):
        return -value
    if isinstance(value, Nearest):
        return Nearest(-value.number)
    raise UnlikeError("only numbers can be negative")


def _parts(node: exp.Expression) -> list[exp.Identifier]:
    if isinstance(node, exp.Dot):
        inner = node.expression
        if not isinstance(inner, exp.Identifier):
            raise UnlikeError("only names stand between dots")
        return [*_parts(node.this), inner]
    if isinstance(node, exp.Column):
        parts = [node.args.get(level) for level in ("catalog", "db", "table", "this")]
        found = [part for part in parts if part is not None]
        if all(isinstance(part, exp.Identifier) for part in found):
            return found
    raise UnlikeError("only names stand between dots")


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

# Whether a type's moments have a zone; None: as they are written.
_MOMENTS: dict[Any, bool | None] = {
    exp.DataType.Type.TIMESTAMP: None,
    exp.DataType.Type.DATETIME: None,
    exp.DataType.Type.TIMESTAMPNTZ: False,
    exp.DataType.Type.TIMESTAMPTZ: True,
    exp.DataType.Type.TIMESTAMPLTZ: True,
}


def arrow_type(to: exp.DataType) -> pa.DataType:
    """The Arrow type of a SQL type."""
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
        # What engines keep of a timestamp is microseconds.
        return pa.timestamp("us", "UTC" if _MOMENTS[kind] else None)
    raise UnlikeError(f"casts to {to.sql()} are not supported")


def _text(node: exp.Expression) -> str:
    return node.sql(dialect=Predicates)
