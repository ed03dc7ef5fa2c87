"""Parse Polars expressions.

The tree comes from the JSON that Polars serializes. Polars itself evaluates subexpressions without columns.
"""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from parsieve.predicate.builder import MIRRORED, Builder, Operand, StepForm, is_text, make_unknown, scalar_value
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import Always, And, Expr, IsNull, Not, Operator, Or, all_of, any_of, columns
from parsieve.predicate.messages import NotUnderstoodError, shortened
from parsieve.predicate.read.casts import own_zone, step_operand
from parsieve.predicate.read.computed import Expressions
from parsieve.predicate.read.json_trees import read_json
from parsieve.predicate.read.lists import Elements
from parsieve.predicate.read.patterns import like, pattern_around, pattern_before, regex
from parsieve.predicate.text.like import Pattern

# Polars writes steps as a number and a unit.
_STEPS = {
    "1s": "second",
    "1m": "minute",
    "1h": "hour",
    "1d": "day",
    "1w": "week",
    "1mo": "month",
    "1q": "quarter",
    "1y": "year",
}
_COMPARISONS: dict[str, Operator] = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}


def parse_frame_expression(expression: Any, schema: pa.Schema, zone: str | None) -> Expr:
    """Parse a `polars.Expr`."""
    from polars.exceptions import PanicException

    try:
        with warnings.catch_warnings():
            # Polars warns that its JSON may change. Parts that are new in it are not understood, so they skip nothing.
            warnings.simplefilter("ignore")
            tree = read_json(expression.meta.serialize(format="json"))
        names = expression.meta.root_names()
    except (Exception, PanicException) as error:
        # Polars raises many classes of errors, including panics of its Rust code.
        return make_unknown("the Polars expression", f"Polars cannot serialize it: {shortened(str(error))}")
    reader = _Reader(ColumnNames(schema), Builder(zone))
    for name in names:
        reader.find((name,))
    return reader.truth(tree)


class _Reader:
    def __init__(self, names: ColumnNames, build: Builder) -> None:
        self._names = names
        self._build = build
        self._expressions = Expressions()

    def find(self, path: tuple[str, ...]) -> Operand:
        return Operand(self._names.find(path))

    def truth(self, node: Any) -> Expr:
        match node:
            case {"BinaryExpr": {"op": "And" | "LogicalAnd"}}:
                return And(tuple(self.truth(part) for part in _chain(node, ("And", "LogicalAnd"))))
            case {"BinaryExpr": {"op": "Or" | "LogicalOr"}}:
                return Or(tuple(self.truth(part) for part in _chain(node, ("Or", "LogicalOr"))))
            case {"Function": {"input": [inner], "function": {"Boolean": "Not"}}}:
                return Not(self.truth(inner))
        try:
            if _has_null_float(node):
                # JSON has no NaN and no infinity, so Polars writes them as null.
                raise NotUnderstoodError("Polars cannot serialize NaN and infinity; write the condition as SQL")
            condition = self._leaf(node)
            computed = [column for column in columns(condition) if column.is_computed]
            return self._expressions.condition(computed[0], condition) if computed else condition
        except NotUnderstoodError as error:
            return make_unknown(_text(node), error)

    def _leaf(self, node: Any) -> Expr:
        build = self._build
        match node:
            case {"BinaryExpr": {"left": left, "op": op, "right": right}} if op in _COMPARISONS:
                compared = _COMPARISONS[op]
                if _has_column(left):
                    return build.compare(self.operand(left), compared, self.value(right, compared))
                return build.compare(self.operand(right), MIRRORED[compared], self.value(left, compared))
            case {"BinaryExpr": {"left": left, "op": "EqValidity" | "NotEqValidity" as op, "right": right}}:
                same = self._same(self.operand(left), self.value(right))
                return same if op == "EqValidity" else Not(same)
            case {"Function": {"input": [inner], "function": {"Boolean": "IsNull" | "IsNotNull" as test}}}:
                null = build.is_null(self.operand(inner))
                return null if test == "IsNull" else Not(null)
            case {"Function": {"input": [inner], "function": {"Boolean": "IsNan" | "IsNotNan" as test}}}:
                nan = build.compare(self.operand(inner), "=", math.nan)
                return nan if test == "IsNan" else Not(nan)
            case {"Function": {"input": [inner, values], "function": {"Boolean": {"IsIn": {"nulls_equal": same}}}}}:
                return self._is_in(
                    self.operand(inner), [scalar_value(scalar) for scalar in _evaluate(values)], bool(same)
                )
            case {
                "Function": {"input": [inner, low, high], "function": {"Boolean": {"IsBetween": {"closed": closed}}}}
            }:
                above: Operator = ">=" if closed in ("Both", "Left") else ">"
                below: Operator = "<=" if closed in ("Both", "Right") else "<"
                operand = self.operand(inner)
                return And(
                    (
                        build.compare(operand, above, self.value(low, above)),
                        build.compare(operand, below, self.value(high, below)),
                    )
                )
            case {"Function": {"input": [inner, prefix], "function": {"StringExpr": "StartsWith"}}}:
                return build.starts_with(self.operand(inner), self.value(prefix))
            case {"Function": {"input": [inner, prefix], "function": {"BinaryExpr": "StartsWith"}}}:
                return build.starts_with(self.operand(inner), self.value(prefix))
            case {"Function": {"input": [inner, text], "function": {"StringExpr": "EndsWith"}}}:
                return self._match(node, inner, text, pattern_before)
            case {"Function": {"input": [inner, text], "function": {"StringExpr": {"Contains": {"literal": literal}}}}}:
                return self._match(node, inner, text, pattern_around if literal else None)
            case {
                "Function": {
                    "input": [inner, value],
                    "function": {"ListExpr": {"Contains": _}} | {"ArrayExpr": {"Contains": _}},
                }
            }:
                return Elements(self.operand(inner).column).has_any(build, [self.value(value)])
            case {"Column": str()}:
                operand = self.operand(node)
                if not pa.types.is_boolean(operand.column.value_type):
                    raise NotUnderstoodError(f"{operand.column} alone is not a condition, because it is not a boolean")
                return build.compare(operand, "=", True)
        if not _has_column(node):
            value = self.value(node)
            if value is None or isinstance(value, bool):
                return Always(value)
        raise NotUnderstoodError("this Polars expression is not supported")

    def _match(self, node: Any, inner: Any, text: Any, form: Callable[[str], Pattern] | None) -> Expr:
        """Build a match with the pattern that `form` makes of a text; without `form`, the text is an expression."""
        operand, value = self.operand(inner), self.value(text)
        if value is None:
            return Always(None)
        if not isinstance(value, str):
            raise NotUnderstoodError("the pattern must be a string")
        if form is None:
            return regex(self._build, operand, value, source=_text(node))
        return like(self._build, operand, form(value), source=_text(node))

    def _same(self, operand: Operand, value: Any) -> Expr:
        null = self._build.is_null(operand)
        return null if value is None else all_of(Not(null), self._build.compare(operand, "=", value))

    def _is_in(self, operand: Operand, values: list[Any], nulls_equal: bool) -> Expr:
        # Unlike in SQL, a null in the list does not make the result null for other values.
        is_member = self._build.contains(operand, [value for value in values if value is not None])
        if not nulls_equal:
            return is_member
        null = IsNull(operand.column)
        return any_of(null, is_member) if None in values else all_of(Not(null), is_member)

    def operand(self, node: Any) -> Operand:
        match node:
            case {"Function": {"input": [inner], "function": {"TemporalExpr": "Date"}}}:
                return self._step(inner, "day", "date")
            case {"Function": {"input": [inner], "function": {"TemporalExpr": "Year"}}}:
                return self._step(inner, "year", "year")
            case {"Function": {"input": [inner, every], "function": {"TemporalExpr": "Truncate"}}}:
                written = self.value(every)
                return self._step(inner, _STEPS.get(written, str(written)))
        path: list[str] = []
        while True:
            match node:
                case {"Column": str(name)}:
                    return self.find((name, *reversed(path)))
                case {"Function": {"input": [inner], "function": {"StructExpr": {"FieldByName": str(name)}}}}:
                    path.append(name)
                    node = inner
                case _:
                    if not path and (operand := self._computed(node)) is not None:
                        return operand
                    raise NotUnderstoodError("computed columns are not supported; compare the column itself")

    def _step(self, node: Any, step: str, form: StepForm = "timestamp") -> Operand:
        operand = self.operand(node)
        return step_operand(operand, step, own_zone(operand), form)

    def _computed(self, node: Any) -> Operand | None:
        """Return a function of a column as one side of a comparison; None if there is no such function."""
        expressions = self._expressions
        match node:
            case {"Function": {"input": [inner], "function": {"StringExpr": "Lowercase"}}}:
                return expressions.operand("lower", self.operand(inner).column)
            case {"Function": {"input": [inner], "function": {"StringExpr": "Uppercase"}}}:
                return expressions.operand("upper", self.operand(inner).column)
            case {"Function": {"input": [inner, {"Literal": {"Scalar": {"String": text}}}], "function": function}}:
                if function == {"StringExpr": "JsonPathMatch"}:
                    return expressions.operand("json_extract_string", self.operand(inner).column, [text])
            case {"Cast": {"expr": inner, "dtype": {"Literal": "Int64"}, "options": "Strict" | "NonStrict"}}:
                operand = self.operand(inner)
                return expressions.operand("cast", operand.column) if is_text(operand.column.value_type) else None
        return None

    def value(self, node: Any, op: Operator = "=") -> Any:
        values = _evaluate(node)
        if len(values) != 1:
            raise NotUnderstoodError("only comparisons with a single value are supported")
        if op not in ("=", "!=") and pa.types.is_dictionary(values.type):
            raise NotUnderstoodError("Polars compares an Enum by the order of its categories; compare with a string")
        return scalar_value(values[0])


def _has_column(node: Any) -> bool:
    if isinstance(node, dict):
        return "Column" in node or any(_has_column(inner) for inner in node.values())
    return isinstance(node, list) and any(_has_column(inner) for inner in node)


def _evaluate(node: Any) -> pa.Array:
    """Evaluate an expression without columns, and return its value, or the values of a list."""
    if _has_column(node):
        raise NotUnderstoodError("only comparisons of a column with a literal are supported")
    import polars as pl

    match node:
        # Polars itself reads one in sixteen floats of its JSON as the float next to it.
        case {"Literal": {"Dyn": {"Float": float(value)}}} | {"Literal": {"Scalar": {"Float64": float(value)}}}:
            return pa.array([value], pa.float64())
        case {"Literal": {"Scalar": {"Float32": float(value)}}}:
            return pa.array([value], pa.float32())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expression = _expression(node)
            if not _is_series(node) and read_json(expression.meta.serialize(format="json")) != node:
                raise NotUnderstoodError(
                    "Polars changes a float when it serializes the expression; compute the value first"
                )
            series = pl.select(expression).to_series()
            if series.dtype == pl.List or series.dtype == pl.Array:
                series = series.explode()
            if str(series.dtype) in ("Int128", "UInt128"):
                raise NotUnderstoodError("integers of 128 bits are not supported; cast the value to Int64")
            return pa.chunked_array(series.to_arrow()).combine_chunks() if len(series) else pa.nulls(0)
    except NotUnderstoodError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        raise NotUnderstoodError(f"Polars cannot compute the value: {shortened(str(error))}") from None


def _is_series(node: Any) -> bool:
    """Return whether a literal is a Series. Its bytes are in Arrow's format, so its floats are exact."""
    match node:
        case {"Literal": {"Series": [*_]}}:
            return True
    return False


def _expression(node: Any) -> Any:
    import polars as pl

    return pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")


def _chain(node: Any, ops: tuple[str, str]) -> Iterator[Any]:
    """Yield the operands of a chain of one operator. The tree may be deep, so this does not use recursion."""
    pending = [node]
    while pending:
        part = pending.pop()
        match part:
            case {"BinaryExpr": {"left": left, "op": op, "right": right}} if op in ops:
                pending += [right, left]
            case _:
                yield part


def _has_null_float(node: Any) -> bool:
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if any(value is None and name.startswith("Float") for name, value in part.items()):
                return True
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return False


def _text(node: Any) -> str:
    """Return a part as Polars prints it, or else as JSON."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return str(_expression(node))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        return shortened(json.dumps(node)) if not isinstance(error, RecursionError) else "the Polars expression"
