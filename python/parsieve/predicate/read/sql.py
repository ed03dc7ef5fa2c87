"""Parse SQL conditions: give a meaning to the syntax trees of sqlglot."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import pyarrow as pa
from sqlglot import exp

from parsieve.errors import ColumnNotFoundError
from parsieve.predicate.builder import MIRRORED, Builder, Operand, is_text, make_unknown, python_value
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import KEY, VALUE, Always, And, Expr, Not, Operator, Or, all_of, columns
from parsieve.predicate.literals import DecimalLiteral, Value, read_number
from parsieve.predicate.messages import NotUnderstoodError, shortened
from parsieve.predicate.read.casts import cast_operand, cast_value, step_operand
from parsieve.predicate.read.computed import Expressions
from parsieve.predicate.read.lists import Elements, Subscript
from parsieve.predicate.read.patterns import like, pattern_around, pattern_before, regex
from parsieve.predicate.read.sql_text import Params, Predicates, bind_params, syntax_tree
from parsieve.predicate.text.like import Pattern, read_like
from parsieve.predicate.times.temporal import to_moment

_COMPARISONS: dict[type[exp.Expression], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


_EVALUATED: dict[Operator, Any] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# Functions of DuckDB that sqlglot does not know. None: the pattern is a regular expression.
_MATCHES: dict[str, Callable[[str], Pattern] | None] = {"suffix": pattern_before, "regexp_matches": None}


# The test for a word, with ClickHouse's name for it.
_TOKEN_FUNCTIONS = ("has_token", "hastoken")

# Functions on lists, with the number of values that they look for: one, some of a list, or all of a list.
_ONE, _ANY, _ALL = "one", "any", "all"
_LIST_FUNCTIONS = {
    "list_contains": _ONE,
    "list_has": _ONE,
    "list_has_any": _ANY,
    "array_has_any": _ANY,
    "arrays_overlap": _ANY,
    "list_has_all": _ALL,
}
# Functions that return a text member of a JSON object.
_JSON_FUNCTIONS = ("json_extract_string", "get_json_object")
_MAP_FUNCTIONS = {"map_contains": KEY, "map_contains_value": VALUE}


def _with_quotes_hint(error: ColumnNotFoundError, column: exp.Expression) -> ColumnNotFoundError:
    """Add a hint to the error if the name is where a value belongs: the user may have meant a string."""
    parent = column.parent
    is_value = (isinstance(parent, exp.Binary) and parent.expression is column) or (
        isinstance(parent, exp.In | exp.Between) and parent.this is not column
    )
    if not is_value or not isinstance(column, exp.Column):
        return error
    text = column.sql()
    if column.this.args.get("quoted"):
        return ColumnNotFoundError(f"{error}. Write a string in single quotes: '{column.name}'")
    return ColumnNotFoundError(f"{error}. If {text} is a string, write it in single quotes: '{text}'")


def parse_sql(text: str, schema: pa.Schema, zone: str | None, params: Params | None = None) -> Expr:
    """Parse the condition of a WHERE clause."""
    tree = syntax_tree(text)
    reader = _Reader(ColumnNames(schema), Builder(zone), bind_params(tree, params))
    for column in tree.find_all(exp.Column, exp.Dot):
        # An unknown name is an error even in a part that is not understood.
        if not isinstance(column.parent, exp.Dot):
            try:
                reader.operand(column)
            except ColumnNotFoundError as error:
                raise _with_quotes_hint(error, column) from None
            except NotUnderstoodError:
                # A field of another expression, such as `labels['host'].name`. Its condition becomes `Unknown`.
                continue
    return reader.truth(tree)


class _Reader:
    def __init__(self, names: ColumnNames, build: Builder, params: Mapping[int, Any]) -> None:
        self._names = names
        self._build = build
        self._params = params
        # The last meaning of `column[index]` for each column of values.
        self._subscripts: dict[tuple[str, ...], Subscript] = {}
        self._expressions = Expressions()

    def truth(self, node: exp.Expression) -> Expr:
        """Return a condition; parts that are not understood become `Unknown`."""
        while isinstance(node, exp.Paren):
            node = node.this
        match node:
            case exp.And() | exp.Or():
                return self._chain(node)
            case exp.Not():
                return Not(self.truth(node.this))
        try:
            condition = self._leaf(node)
            computed = [column for column in columns(condition) if column.is_computed]
            if computed:
                return self._expressions.condition(computed[0], condition)
            subscripts = [self._subscripts[column.path] for column in columns(condition) if column.is_repeated]
            return subscripts[0].condition(condition, _text(node)) if subscripts else condition
        except NotUnderstoodError as error:
            return make_unknown(_text(node), error)

    def _chain(self, node: exp.And | exp.Or) -> Expr:
        # A long chain is a deep tree, so this does not use recursion.
        kind = type(node)
        parts: list[Expr] = []
        pending: list[exp.Expression] = [node]
        while pending:
            part = pending.pop()
            if type(part) is kind:
                pending.extend((part.expression, part.this))
            else:
                parts.append(self.truth(part))
        return And(tuple(parts)) if kind is exp.And else Or(tuple(parts))

    def _leaf(self, node: exp.Expression) -> Expr:
        build = self._build
        match node:
            case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                _only(node, "this", "expression")
                constant = self._compare_literals(_COMPARISONS[type(node)], node.this, node.expression)
                if constant is not None:
                    return constant
                return self._compare(_COMPARISONS[type(node)], node.this, node.expression)
            case exp.Between():
                _only(node, "this", "low", "high")
                low = self._compare(">=", node.this, node.args["low"])
                return And((low, self._compare("<=", node.this, node.args["high"])))
            case exp.In(args={"field": exp.Expression() as container}):
                raise NotUnderstoodError(f"write list_contains({_text(container)}, {_text(node.this)})")
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
            case exp.Like() | exp.ILike():
                return self._like(node, None)
            case exp.Escape() if isinstance(node.this, exp.Like | exp.ILike):
                _only(node, "this", "expression")
                return self._like(node.this, self.value(node.expression))
            case exp.Contains() | exp.EndsWith():
                _only(node, "this", "expression")
                form = pattern_around if isinstance(node, exp.Contains) else pattern_before
                return self._match(node, node.this, node.expression, form)
            case exp.RegexpLike() | exp.RegexpILike() | exp.RegexpFullMatch():
                _only(node, "this", "expression")
                return self._match(node, node.this, node.expression, None)
            case exp.Anonymous(this=str(name), expressions=[tested, pattern]) if name.lower() in _MATCHES:
                return self._match(node, tested, pattern, _MATCHES[name.lower()])
            case exp.Anonymous(this=str(name), expressions=[tested, word]) if name.lower() in _TOKEN_FUNCTIONS:
                return build.has_token(self.operand(tested), self.value(word))
            case exp.ArrayContains() | exp.ArrayContainsAll():
                _only(node, "this", "expression")
                return self._test_list(
                    _ONE if isinstance(node, exp.ArrayContains) else _ALL, node.this, node.expression
                )
            case exp.Anonymous(this=str(name), expressions=[tested, values]) if name.lower() in _LIST_FUNCTIONS:
                return self._test_list(_LIST_FUNCTIONS[name.lower()], tested, values)
            case exp.Anonymous(this=str(name), expressions=[tested, value]) if name.lower() in _MAP_FUNCTIONS:
                elements = Elements(self.operand(tested).column, _MAP_FUNCTIONS[name.lower()])
                return elements.has_any(build, [self.value(value)])
            case exp.MapContainsKey():
                _only(node, "this", "key")
                return Elements(self.operand(node.this).column, KEY).has_any(build, [self.value(node.args["key"])])
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
                    raise NotUnderstoodError(f"{operand.column} alone is not a condition, because it is not a boolean")
                return build.compare(operand, "=", True)
        raise NotUnderstoodError("this kind of condition is not supported")

    def _compare(self, op: Operator, left: exp.Expression, right: exp.Expression) -> Expr:
        if self._is_operand(left):
            return self._build.compare(self.operand(left), op, self.value(right))
        return self._build.compare(self.operand(right), MIRRORED[op], self.value(left))

    def _compare_literals(self, op: Operator, left: exp.Expression, right: exp.Expression) -> Expr | None:
        """Evaluate a comparison of two literals, such as `1 = 1`; return None if a side has a column."""
        if self._is_operand(left) or self._is_operand(right):
            return None
        first, second = self.value(left), self.value(right)
        if first is None or second is None:
            return Always(None)
        if type(first) is not type(second) or not isinstance(first, Fraction | str | bool):
            raise NotUnderstoodError("without a column, only numbers, texts and booleans can be compared")
        if isinstance(first, str) and op not in ("=", "!="):
            raise NotUnderstoodError("the order of two texts depends on the engine")
        return Always(bool(_EVALUATED[op](first, second)))

    def _is_operand(self, node: exp.Expression) -> bool:
        if isinstance(node, exp.Column | exp.Literal):
            return isinstance(node, exp.Column)
        return node.find(exp.Column) is not None

    def _is(self, left: exp.Expression, right: exp.Expression) -> Expr:
        if isinstance(right, exp.Null):
            return self._build.is_null(self.operand(left))
        if isinstance(right, exp.Boolean):
            return self._same(left, right)
        raise NotUnderstoodError("IS is supported with NULL, TRUE and FALSE")

    def _same(self, left: exp.Expression, right: exp.Expression) -> Expr:
        """Build an equality in which null is a value like any other."""
        if not self._is_operand(left):
            left, right = right, left
        operand, value = self.operand(left), self.value(right)
        null = self._build.is_null(operand)
        return null if value is None else all_of(Not(null), self._build.compare(operand, "=", value))

    def _like(self, node: exp.Like | exp.ILike, escape: Value | None) -> Expr:
        _only(node, "this", "expression", "negate")
        condition = self._match_pattern(node, self.value(node.expression), escape)
        # NOT LIKE is an argument of the node, or in older versions of sqlglot a node around it.
        return Not(condition) if node.args.get("negate") else condition

    def _match_pattern(self, node: exp.Like | exp.ILike, pattern: Value | None, escape: Value | None) -> Expr:
        operand = self.operand(node.this)
        if pattern is None:
            return Always(None)
        if not isinstance(pattern, str) or not (escape is None or (isinstance(escape, str) and len(escape) == 1)):
            raise NotUnderstoodError("LIKE needs a string, and ESCAPE a single character")
        # Without ESCAPE, engines differ in the meaning of a backslash.
        if escape is None and "\\" in pattern:
            raise NotUnderstoodError("engines disagree about a backslash in LIKE; add ESCAPE")
        ignores_case = isinstance(node, exp.ILike)
        return like(self._build, operand, read_like(pattern, escape), source=_text(node), ignore_case=ignores_case)

    def _match(
        self, node: exp.Expression, tested: exp.Expression, text: exp.Expression, form: Callable[[str], Pattern] | None
    ) -> Expr:
        """Build a match with the pattern that `form` makes of a text; without `form`, the text is an expression."""
        operand, value = self.operand(tested), self.value(text)
        if value is None:
            return Always(None)
        if not isinstance(value, str):
            raise NotUnderstoodError("the pattern must be a string")
        if form is not None:
            return like(self._build, operand, form(value), source=_text(node))
        ignores_case = isinstance(node, exp.RegexpILike)
        return regex(self._build, operand, value, source=_text(node), ignore_case=ignores_case)

    def _test_list(self, quantity: str, tested: exp.Expression, values: exp.Expression) -> Expr:
        """Build a test for a value, or some or all values of a list, in the lists of a column."""
        match tested:
            case exp.MapKeys():
                elements = Elements(self.operand(tested.this).column, KEY)
            case exp.Anonymous(this=str(name), expressions=[inner]) if name.lower() == "map_values":
                elements = Elements(self.operand(inner).column, VALUE)
            case _:
                elements = Elements(self.operand(tested).column)
        if quantity == _ONE:
            return elements.has_any(self._build, [self.value(values)])
        wanted = self._values(values)
        return elements.has_any(self._build, wanted) if quantity == _ANY else elements.has_all(self._build, wanted)

    def _values(self, node: exp.Expression) -> list[Value | None]:
        """Return the values of a list of literals."""
        match node:
            case exp.Array() | exp.Tuple():
                return [self.value(item) for item in node.expressions]
            case exp.Anonymous(this=str(name), expressions=items) if name.lower() in ("list_value", "array_value"):
                return [self.value(item) for item in items]
            case exp.Placeholder() if isinstance(self._params.get(id(node)), list | tuple):
                return [python_value(value) for value in self._params[id(node)]]
        raise NotUnderstoodError("write the values as a list of literals, such as ['a', 'b']")

    def _subscript(self, node: exp.Expression, index: exp.Expression) -> Operand:
        subscript = Subscript.of(self._build, self.operand(node).column, self.value(index))
        operand = subscript.operand
        self._subscripts[operand.column.path] = subscript
        return operand

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
                _only(node, "this", "expressions")
                return self._subscript(node.this, index)
            case exp.Anonymous(this=str(name), expressions=[container, index]) if name.lower() == "element_at":
                return self._subscript(container, index)
            case exp.TryCast():
                raise NotUnderstoodError("TRY_CAST is not supported; compare the column itself")
            case exp.Cast():
                _only(node, "this", "to")
                operand, kind = self.operand(node.this), arrow_type(node.to)
                if is_text(operand.column.value_type) and kind == pa.int64():
                    return self._expressions.operand("cast", operand.column)
                return cast_operand(operand, kind, self._build.zone)
            case exp.Lower() | exp.Upper():
                _only(node, "this")
                return self._expressions.operand(type(node).__name__.lower(), self.operand(node.this).column)
            case exp.Anonymous(this=str(name), expressions=[tested, exp.Literal(is_string=True) as path]) if (
                name.lower() in _JSON_FUNCTIONS
            ):
                return self._expressions.operand("json_extract_string", self.operand(tested).column, [path.name])
            case exp.Date() | exp.TsOrDsToDate():
                _only(node, "this")
                return cast_operand(self.operand(node.this), pa.date32(), self._build.zone)
            case exp.DateTrunc(unit=exp.Literal(this=str(step))):
                _only(node, "this", "unit")
                return step_operand(self.operand(node.this), step.lower(), self._build.zone)
            case exp.Year():
                _only(node, "this")
                return step_operand(self.operand(node.this), "year", self._build.zone, "year")
            case exp.Extract(this=exp.Var(this=str(part))) if part.upper() == "YEAR":
                return step_operand(self.operand(node.expression), "year", self._build.zone, "year")
        if node.find(exp.Column) is None:
            raise NotUnderstoodError("the comparison has no column")
        raise NotUnderstoodError(f"computed columns are not supported; {_instead(node)}")

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
            case exp.Placeholder() if id(node) in self._params:
                return python_value(self._params[id(node)])
            case exp.Placeholder():
                raise NotUnderstoodError("the placeholder has no value; pass params=")
            case exp.TryCast():
                raise NotUnderstoodError("TRY_CAST is not supported; write the value itself")
            case exp.Cast():
                _only(node, "this", "to")
                return self._cast_value(self.value(node.this), node.to)
            case exp.Date() | exp.TsOrDsToDate():
                _only(node, "this")
                return cast_value(self.value(node.this), pa.date32(), self._build.zone)
        if node.find(exp.Column) is not None:
            raise NotUnderstoodError("only comparisons of a column with a literal are supported")
        raise NotUnderstoodError("expressions are not computed; write the value itself")

    def _cast_value(self, value: Value | None, to: exp.DataType) -> Value | None:
        kind = to.this
        if kind in _MOMENTS and value is not None:
            return to_moment(value, _MOMENTS[kind], self._build.zone)
        if kind == exp.DataType.Type.UUID and isinstance(value, str):
            try:
                return uuid.UUID(value)
            except ValueError:
                raise NotUnderstoodError(f"{shortened(repr(value))} is not a UUID") from None
        return cast_value(value, arrow_type(to), self._build.zone)


def _instead(node: exp.Expression) -> str:
    """Return what to write instead of a computed column."""
    match node:
        case exp.JSONExtractScalar():
            return "write json_extract_string(text, '$.a.b')"
        case exp.Any():
            return f"write list_contains({_text(node.this.unnest())}, ...)"
        case exp.Tuple():
            return "compare each column on its own: a = 1 AND b = 2"
    return "compare the column itself"


def _only(node: exp.Expression, *names: str) -> None:
    """Raise an error if a node has other arguments than these, because they may change its meaning."""
    others = [name for name, value in node.args.items() if value and name not in names]
    if others:
        raise NotUnderstoodError(f"{others[0].upper().replace('_', ' ')} is not supported here")


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


def arrow_type(to: exp.DataType) -> pa.DataType:
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


def _text(node: exp.Expression) -> str:
    return node.sql(dialect=Predicates)
