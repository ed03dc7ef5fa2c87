"""Parse SQL conditions: give a meaning to the syntax trees of sqlglot."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from parsieve.errors import ColumnNotFoundError
from parsieve.predicate.builder import MIRRORED, Builder, make_unknown
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import COMPARE, KEY, VALUE, Always, And, Expr, Not, Operator, Or, all_of, columns
from parsieve.predicate.literals import Value
from parsieve.predicate.messages import NotUnderstoodError
from parsieve.predicate.read.lists import Elements
from parsieve.predicate.read.patterns import like, pattern_around, pattern_before, regex
from parsieve.predicate.read.sql.operands import Operands, check_arguments, text_of
from parsieve.predicate.read.sql.text import Params, bind_params, syntax_tree
from parsieve.predicate.text.like import Pattern, read_like

_COMPARISONS: dict[type[exp.Expression], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
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
    if text == "None":
        return ColumnNotFoundError(f"{error}. To find nulls, write IS NULL")
    return ColumnNotFoundError(f"{error}. If {text} is a string, write it in single quotes: '{text}'")


def parse_sql(text: str, schema: pa.Schema, zone: str | None, params: Params | None = None) -> Expr:
    """Parse the condition of a WHERE clause."""
    tree = syntax_tree(text, schema.names)
    build = Builder(zone)
    operands = Operands(ColumnNames(schema), build, bind_params(tree, params))
    for column in tree.find_all(exp.Column, exp.Dot):
        # An unknown name is an error even in a part that is not understood.
        if not isinstance(column.parent, exp.Dot):
            try:
                operands.operand(column)
            except ColumnNotFoundError as error:
                raise _with_quotes_hint(error, column) from None
            except NotUnderstoodError:
                # A field of another expression, such as `labels['host'].name`. Its condition becomes `Unknown`.
                continue
    return _Reader(build, operands).truth(tree)


class _Reader:
    def __init__(self, build: Builder, operands: Operands) -> None:
        self._build = build
        self._operands = operands

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
                return self._operands.expressions.condition(computed[0], condition)
            subscripts = [self._operands.subscripts[column.path] for column in columns(condition) if column.is_repeated]
            return subscripts[0].condition(condition, text_of(node)) if subscripts else condition
        except NotUnderstoodError as error:
            return make_unknown(text_of(node), error)

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
                check_arguments(node, "this", "expression")
                constant = self._compare_literals(_COMPARISONS[type(node)], node.this, node.expression)
                if constant is not None:
                    return constant
                return self._compare(_COMPARISONS[type(node)], node.this, node.expression)
            case exp.Between():
                check_arguments(node, "this", "low", "high")
                low = self._compare(">=", node.this, node.args["low"])
                return And((low, self._compare("<=", node.this, node.args["high"])))
            case exp.In(args={"field": exp.Placeholder() as values}):
                return build.contains(self._operands.operand(node.this), self._operands.values(values))
            case exp.In(args={"query": exp.Expression()}) | exp.Exists():
                raise NotUnderstoodError("subqueries are not supported; read the keys first, and pass keys=")
            case exp.In(args={"field": exp.Expression() as container}):
                raise NotUnderstoodError(f"write list_contains({text_of(container)}, {text_of(node.this)})")
            case exp.In():
                check_arguments(node, "this", "expressions")
                return build.contains(
                    self._operands.operand(node.this), [self._operands.value(item) for item in node.expressions]
                )
            case exp.Is():
                check_arguments(node, "this", "expression")
                return self._is(node.this, node.expression)
            case exp.NullSafeEQ():
                check_arguments(node, "this", "expression")
                return self._same(node.this, node.expression)
            case exp.NullSafeNEQ():
                check_arguments(node, "this", "expression")
                return Not(self._same(node.this, node.expression))
            case exp.Like() | exp.ILike():
                return self._like(node, None)
            case exp.Escape() if isinstance(node.this, exp.Like | exp.ILike):
                check_arguments(node, "this", "expression")
                escape = self._operands.value(node.expression)
                # With a null as the escape, the result is null, also for NOT LIKE.
                return Always(None) if escape is None else self._like(node.this, escape)
            case exp.Contains() | exp.EndsWith():
                check_arguments(node, "this", "expression")
                form = pattern_around if isinstance(node, exp.Contains) else pattern_before
                return self._match(node, node.this, node.expression, form)
            case exp.RegexpLike() | exp.RegexpILike() | exp.RegexpFullMatch():
                check_arguments(node, "this", "expression")
                return self._match(node, node.this, node.expression, None)
            case exp.Anonymous(this=str(name), expressions=[tested, pattern]) if name.lower() in _MATCHES:
                return self._match(node, tested, pattern, _MATCHES[name.lower()])
            case exp.Anonymous(this=str(name), expressions=[tested, word]) if name.lower() in _TOKEN_FUNCTIONS:
                return build.has_token(self._operands.operand(tested), self._operands.value(word))
            case exp.ArrayContains() | exp.ArrayContainsAll():
                check_arguments(node, "this", "expression")
                return self._test_list(
                    _ONE if isinstance(node, exp.ArrayContains) else _ALL, node.this, node.expression
                )
            case exp.Anonymous(this=str(name), expressions=[tested, values]) if name.lower() in _LIST_FUNCTIONS:
                return self._test_list(_LIST_FUNCTIONS[name.lower()], tested, values)
            case exp.Anonymous(this=str(name), expressions=[tested, value]) if name.lower() in _MAP_FUNCTIONS:
                elements = Elements(self._operands.operand(tested).column, _MAP_FUNCTIONS[name.lower()])
                return elements.has_any(build, [self._operands.value(value)])
            case exp.MapContainsKey():
                check_arguments(node, "this", "key")
                return Elements(self._operands.operand(node.this).column, KEY).has_any(
                    build, [self._operands.value(node.args["key"])]
                )
            case exp.StartsWith():
                check_arguments(node, "this", "expression")
                return build.starts_with(self._operands.operand(node.this), self._operands.value(node.expression))
            case exp.IsNan():
                check_arguments(node, "this")
                return build.compare(self._operands.operand(node.this), "=", float("nan"))
            case exp.Boolean():
                return Always(bool(node.this))
            case exp.Null():
                return Always(None)
            case exp.Column() | exp.Dot():
                operand = self._operands.operand(node)
                if not pa.types.is_boolean(operand.column.value_type):
                    raise NotUnderstoodError(f"{operand.column} alone is not a condition, because it is not a boolean")
                return build.compare(operand, "=", True)
        raise NotUnderstoodError("this kind of condition is not supported")

    def _compare(self, op: Operator, left: exp.Expression, right: exp.Expression) -> Expr:
        if self._operands.is_operand(left):
            return self._build.compare(self._operands.operand(left), op, self._operands.value(right))
        return self._build.compare(self._operands.operand(right), MIRRORED[op], self._operands.value(left))

    def _compare_literals(self, op: Operator, left: exp.Expression, right: exp.Expression) -> Expr | None:
        """Evaluate a comparison of two literals, such as `1 = 1`; return None if a side has a column."""
        if self._operands.is_operand(left) or self._operands.is_operand(right):
            return None
        first, second = self._operands.value(left), self._operands.value(right)
        if first is None or second is None:
            return Always(None)
        if type(first) is not type(second) or not isinstance(first, Fraction | str | bool):
            raise NotUnderstoodError("without a column, only numbers, texts and booleans can be compared")
        if isinstance(first, str) and op not in ("=", "!="):
            raise NotUnderstoodError("the order of two texts depends on the engine")
        return Always(bool(COMPARE[op](first, second)))

    def _is(self, left: exp.Expression, right: exp.Expression) -> Expr:
        if isinstance(right, exp.Null):
            return self._build.is_null(self._operands.operand(left))
        if isinstance(right, exp.Boolean):
            return self._same(left, right)
        raise NotUnderstoodError("IS is supported with NULL, TRUE and FALSE")

    def _same(self, left: exp.Expression, right: exp.Expression) -> Expr:
        """Build an equality in which null is a value like any other."""
        if not self._operands.is_operand(left):
            left, right = right, left
        operand, value = self._operands.operand(left), self._operands.value(right)
        null = self._build.is_null(operand)
        return null if value is None else all_of(Not(null), self._build.compare(operand, "=", value))

    def _like(self, node: exp.Like | exp.ILike, escape: Value | None) -> Expr:
        check_arguments(node, "this", "expression", "negate")
        condition = self._match_pattern(node, self._operands.value(node.expression), escape)
        # NOT LIKE is an argument of the node, or in older versions of sqlglot a node around it.
        return Not(condition) if node.args.get("negate") else condition

    def _match_pattern(self, node: exp.Like | exp.ILike, pattern: Value | None, escape: Value | None) -> Expr:
        operand = self._operands.operand(node.this)
        if pattern is None:
            return Always(None)
        if not isinstance(pattern, str) or not (escape is None or (isinstance(escape, str) and len(escape) == 1)):
            raise NotUnderstoodError("LIKE needs a string, and ESCAPE a single character")
        # Without ESCAPE, engines differ in the meaning of a backslash.
        if escape is None and "\\" in pattern:
            raise NotUnderstoodError("engines disagree about a backslash in LIKE; add ESCAPE")
        ignores_case = isinstance(node, exp.ILike)
        return like(self._build, operand, read_like(pattern, escape), source=text_of(node), ignore_case=ignores_case)

    def _match(
        self, node: exp.Expression, tested: exp.Expression, text: exp.Expression, form: Callable[[str], Pattern] | None
    ) -> Expr:
        """Build a match with the pattern that `form` makes of a text; without `form`, the text is an expression."""
        operand, value = self._operands.operand(tested), self._operands.value(text)
        if value is None:
            return Always(None)
        if not isinstance(value, str):
            raise NotUnderstoodError("the pattern must be a string")
        if form is not None:
            return like(self._build, operand, form(value), source=text_of(node))
        ignores_case = isinstance(node, exp.RegexpILike)
        return regex(self._build, operand, value, source=text_of(node), ignore_case=ignores_case)

    def _test_list(self, quantity: str, tested: exp.Expression, values: exp.Expression) -> Expr:
        """Build a test for a value, or some or all values of a list, in the lists of a column."""
        match tested:
            case exp.MapKeys():
                elements = Elements(self._operands.operand(tested.this).column, KEY)
            case exp.Anonymous(this=str(name), expressions=[inner]) if name.lower() == "map_values":
                elements = Elements(self._operands.operand(inner).column, VALUE)
            case _:
                elements = Elements(self._operands.operand(tested).column)
        if quantity == _ONE:
            return elements.has_any(self._build, [self._operands.value(values)])
        wanted = self._operands.values(values)
        return elements.has_any(self._build, wanted) if quantity == _ANY else elements.has_all(self._build, wanted)
