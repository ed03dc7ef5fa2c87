"""Translate the conditions that Spark pushes to a scan into pyarrow expressions, if these have the same meaning."""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.predicate.read.arrow import HAS_ANY, MEMBER
from parsieve.spark.runtime.gateway import jvm_of, query_of


class Filter(NamedTuple):
    """The conditions that every row of a query's result meets.

    `sql` is Spark's text of each condition. `expression` is the conjunction of the conditions with an exact
    translation, with typed literals and timestamps in UTC; None if there are none. It has Spark's meaning: NaN is
    greater than every number, so `x > 1` is true of NaN. Tests of lists and JSON have functions that pyarrow lacks.
    """

    sql: tuple[str, ...]
    expression: pc.Expression | None
    # The parts of that conjunction.
    parts: tuple[pc.Expression, ...] = ()


def filter_of(conditions: Iterable[Any]) -> Filter:
    """Translate expressions of Catalyst, given as objects of py4j."""
    sql, parts = [], []
    for condition in conditions:
        sql.append(str(condition.sql()))
        parts += [part for part in map(_condition, _conjuncts(condition)) if part is not None]
    return Filter(tuple(sql), functools.reduce(operator.and_, parts) if parts else None, tuple(parts))


def _conjuncts(condition: Any) -> list[Any]:
    conjuncts, pending = [], [condition]
    while pending:
        part = pending.pop()
        if _name(part) == "And":
            pending += [part.right(), part.left()]
        else:
            conjuncts.append(part)
    return conjuncts


def resolved(spark: Any, schema: Any, where: Any) -> Filter:
    """Translate SQL text or a `Column` for rows of a schema, in the form that Spark's optimizer gives it."""
    if _has_moment(where):
        return Filter((), None)
    analyzed, optimized = _plans(spark, schema, where)
    # The optimizer replaces expressions such as `current_date()` by their current value, but they have another value
    # each time the DataFrame is read. So ignore conditions that contain them.
    lasting = _lasting(spark, analyzed)
    if lasting is not None:
        return filter_of(lasting)
    return filter_of([optimized.condition()] if _name(optimized) == "Filter" else [])


def resolved_exactly(spark: Any, schema: Any, where: Any) -> Filter | None:
    """Translate SQL text or a `Column`. Return None unless the translation has every part of the condition."""
    if _has_moment(where):
        return None
    analyzed, optimized = _plans(spark, schema, where)
    if _lasting(spark, analyzed) is not None or _name(optimized) != "Filter":
        return None
    condition = optimized.condition()
    return filter_of([condition]) if _is_exact(condition) else None


def _plans(spark: Any, schema: Any, where: Any) -> tuple[Any, Any]:
    """Return the plan of a condition as Spark analyzed it, and as Spark optimized it."""
    from pyspark.sql import DataFrame

    rows: DataFrame = spark.createDataFrame(spark.sparkContext.emptyRDD(), schema).where(where)
    query = query_of(rows)
    return query.analyzed(), query.optimizedPlan()


# A literal such as TIMESTAMP 'now', which has another value each time that Spark parses it. If its text has a
# backslash, it may be one of these texts with an escaped letter.
_MOMENT = re.compile(
    r"\b(date|timestamp(_ntz|_ltz)?)`?"
    r"([^'\"]*['\"][^\w'\"]*(now|today|tomorrow|yesterday)\b|\s*r?['\"][^'\"]*\\)",
    re.IGNORECASE,
)


def _has_moment(where: Any) -> bool:
    """Return whether a condition may contain a literal such as `TIMESTAMP 'now'`. Plans show only its value."""
    return _MOMENT.search(str(where)) is not None


def _lasting(spark: Any, analyzed: Any) -> list[Any] | None:
    """Return the parts of a condition whose value does not depend on the time; None if that is true of all parts."""
    catalyst = jvm_of(spark).org.apache.spark.sql.catalyst
    current_like = catalyst.trees.TreePattern.CURRENT_LIKE()
    # These rules of the optimizer show what functions stand for, and replace casts of texts such as 'now'.
    plain = catalyst.optimizer.ReplaceExpressions.apply(analyzed)
    replaced = catalyst.optimizer.SpecialDatetimeValues.apply(plain)
    if not plain.containsPattern(current_like) and plain.equals(replaced):
        return None
    if _name(plain) != "Filter":
        return []
    parts = zip(_conjuncts(plain.condition()), _conjuncts(replaced.condition()), strict=True)
    return [part for part, same in parts if not part.containsPattern(current_like) and part.equals(same)]


def _is_exact(node: Any) -> bool:
    """Return whether `_condition` translates all parts of a condition."""
    if _name(node) in ("And", "Or"):
        return _is_exact(node.left()) and _is_exact(node.right())
    if _name(node) == "Not" and _has_null(node.child()):
        return False
    return _condition(node) is not None


def _condition(node: Any) -> pc.Expression | None:
    """Translate a condition. A conjunction may lose parts, which only makes it true of more rows."""
    name = _name(node)
    if name in ("And", "Or"):
        left, right = _condition(node.left()), _condition(node.right())
        if left is None or right is None:
            # One part of a conjunction is still true of all rows; one part of a disjunction is not.
            return (left if right is None else right) if name == "And" else None
        return left & right if name == "And" else left | right
    if name in ("IsNull", "IsNotNull"):
        column = _column(node.child())
        return None if column is None else column.is_null() if name == "IsNull" else column.is_valid()
    if name in _COMPARISONS:
        return _comparison(name, node.left(), node.right())
    if name in ("In", "InSet"):
        return _membership(node, name)
    if name == "IsNaN":
        column = _column(node.child())
        return None if column is None else pc.is_nan(column)
    if name == "Not":
        return _negation(node.child())
    if name in _TEXT_TESTS:
        return _text_test(node, name)
    if name in ("ArrayContains", "ArraysOverlap"):
        return _list_test(node)
    if name == "Like":
        # Spark's optimizer keeps LIKE only with patterns that are more than one test.
        pattern = _literal(node.right())
        is_plain = pattern is not None and pa.types.is_string(pattern.type) and "\\" not in str(pattern)
        return _text_test(node, name) if is_plain and str(node.escapeChar()) == "\\" else None
    return _flag(node, True)


# pyarrow's functions for Spark's tests of texts.
_TEXT_TESTS: dict[str, Callable[[Any, str], pc.Expression]] = {
    "StartsWith": pc.starts_with,
    "EndsWith": pc.ends_with,
    "Contains": pc.match_substring,
    # Java's expressions may match other texts than pyarrow's. But the planner does not evaluate them: it reads only the
    # text that an expression requires in every engine, and knows that the condition is not exact.
    "RLike": pc.match_substring_regex,
}


def _text_test(node: Any, name: str) -> pc.Expression | None:
    column, text = _column(node.left()), _literal(node.right())
    if column is None or text is None or not pa.types.is_string(text.type) or text.as_py() is None:
        return None
    return _TEXT_TESTS.get(name, pc.match_like)(column, text.as_py())


def _list_test(node: Any) -> pc.Expression | None:
    """Translate a test for lists that contain a value, or one of the values of a list.

    For the negation there is no translation: if a list has nulls, Spark's test may be null instead of false.
    """
    for tested, wanted in ((node.left(), node.right()), (node.right(), node.left())):
        lists, values = _lists(tested), _wanted(wanted)
        if lists is not None and values:
            array = pa.array(values, values[0].type)
            return pc.Expression._call(HAS_ANY, [lists, pc.scalar(pa.ListArray.from_arrays([0, len(array)], array)[0])])
    return None


def _lists(node: Any) -> pc.Expression | None:
    """Return the reference to a list column, or to the keys or values of a map column."""
    function = {"MapKeys": "map_keys", "MapValues": "map_values"}.get(_name(node))
    if function is not None:
        column = _column(node.child())
        return None if column is None else pc.Expression._call(function, [column])
    return _column(node) if _type(node).startswith("array<") else None


def _wanted(node: Any) -> list[pa.Scalar] | None:
    """Return the values to look for in lists; None if one cannot be translated. Lists never have a null in common."""
    if not _type(node).startswith("array<"):
        value = _literal(node)
        return [value] if value is not None and value.is_valid else None
    read = _reader(str(node.dataType().elementType().catalogString())) if _name(node) == "Literal" else None
    if read is None or node.value() is None:
        return None
    values = [read(item) for item in node.value().toObjectArray(node.dataType().elementType()) if item is not None]
    return values if all(map(_is_certain, values)) else None


def _flag(node: Any, value: bool) -> pc.Expression | None:
    """Translate a boolean column as a condition. Spark simplifies comparisons with `true` and `false` to this form."""
    column = _column(node)
    return None if column is None or _type(node) != "boolean" else column == pa.scalar(value)


def _negation(node: Any) -> pc.Expression | None:
    """Translate NOT of a condition. Spark has already rewritten NOT of other comparisons, such as `<`."""
    name = _name(node)
    if name == "EqualTo":
        return _comparison("NotEqual", node.left(), node.right())
    if name in ("In", "InSet"):
        tested = node.value() if name == "In" else node.child()
        column, values = _column(tested), _members(node, name)
        # Spark's sets distinguish 0.0 and -0.0. Long lists skip no file in practice.
        if column is None or values is None or len(values) > 100 or pa.types.is_floating(values[0].type):
            return None
        return functools.reduce(operator.and_, (column != value for value in values))
    if name in _TEXT_TESTS:
        text_test = _text_test(node, name)
        return None if text_test is None else ~text_test
    return _flag(node, False)


_COMPARISONS: dict[str, Callable[[Any, Any], pc.Expression]] = {
    "EqualTo": lambda column, value: column == value,
    "EqualNullSafe": lambda column, value: column == value,
    "NotEqual": lambda column, value: column != value,
    "LessThan": lambda column, value: column < value,
    "LessThanOrEqual": lambda column, value: column <= value,
    "GreaterThan": lambda column, value: column > value,
    "GreaterThanOrEqual": lambda column, value: column >= value,
}
_MIRRORED = {
    "LessThan": "GreaterThan",
    "LessThanOrEqual": "GreaterThanOrEqual",
    "GreaterThan": "LessThan",
    "GreaterThanOrEqual": "LessThanOrEqual",
}


def _comparison(name: str, left: Any, right: Any) -> pc.Expression | None:
    column, value = _column(left), _literal(right)
    if column is None:
        column, value, name = _column(right), _literal(left), _MIRRORED.get(name, name)
    if column is None or value is None or not value.is_valid:
        return None
    return _COMPARISONS[name](column, value)


def _membership(node: Any, name: str) -> pc.Expression | None:
    tested = node.value() if name == "In" else node.child()
    column, values = _column(tested), _members(node, name)
    if column is None or values is None:
        return None
    if _name(tested) in _SUBSCRIPTS:
        # pyarrow's function is false for a missing key, where Spark's condition is null.
        return functools.reduce(operator.or_, (column == value for value in values))
    return column.isin(pa.array(values, values[0].type))


def _has_null(node: Any) -> bool:
    """Return whether a condition tests for a list with a null. Its negation is null for values outside of the list."""
    if _name(node) == "In":
        return any(_name(item) != "Literal" or item.value() is None for item in _items(node.list()))
    return _name(node) == "InSet" and any(item is None for item in _items(node.hset()))


def _members(node: Any, name: str) -> list[pa.Scalar] | None:
    """Return the values of a list without nulls, all of the same type; None if a value cannot be translated."""
    if name == "In":
        values = [_literal(item) for item in _items(node.list())]
    else:
        read = _reader(_type(node.child()))
        values = [None] if read is None else [read(item) for item in _items(node.hset())]
    if not all(value is not None and _is_certain(value) for value in values):
        return None
    # A null in the list turns false into null, and neither selects a row.
    present = [value for value in values if value is not None and value.is_valid]
    return present if present and len({value.type for value in present}) == 1 else None


def _items(collection: Any) -> list[Any]:
    items = []
    iterator = collection.iterator()
    while iterator.hasNext():
        items.append(iterator.next())
    return items


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


# The value of a key of a map.
_SUBSCRIPTS = ("ElementAt", "GetMapValue")


def _column(node: Any) -> Any | None:
    """Return one side of a comparison: a column, a struct field, the value of a key, or an expression.

    Return None for what has no translation.
    """
    match _name(node):
        case name if name in _SUBSCRIPTS:
            container, key = node.children().apply(0), _literal(node.children().apply(1))
            column = _field(container) if _type(container).startswith("map<") else None
            return None if column is None or key is None or not key.is_valid else pc.map_lookup(column, key, "first")
        case "Lower" | "Upper" as name:
            column = _field(node.child())
            return None if column is None else (pc.ascii_lower if name == "Lower" else pc.ascii_upper)(column)
        case "Cast" if (_type(node.child()), _type(node)) == ("string", "bigint"):
            column = _field(node.child())
            return None if column is None else column.cast(pa.int64())
        case "GetJsonObject":
            column, path = _field(node.json()), _literal(node.path())
            return None if column is None or path is None else pc.Expression._call(MEMBER, [column, pc.scalar(path)])
    return _field(node)


def _field(node: Any) -> Any | None:
    """Return the reference to a column or a struct field; None for any other expression."""
    path: list[str] = []
    while _name(node) == "GetStructField":
        path.insert(0, node.childSchema().apply(node.ordinal()).name())
        node = node.child()
    # Metadata of files, such as their path, are no columns of the table.
    if _name(node) != "AttributeReference" or node.metadata().contains("__metadata_col"):
        return None
    path.insert(0, node.name())
    return pc.field(path[0]) if len(path) == 1 else pc.field(*path)


def _literal(node: Any) -> pa.Scalar | None:
    read = _reader(_type(node))
    if _name(node) == "Literal":
        value = None if read is None else read(node.value())
    elif _name(node) == "Cast" and _name(node.child()) == "Literal" and read is not None:
        # A condition that is not optimized yet contains casts of literals.
        from py4j.protocol import Py4JJavaError

        try:
            value = read(node.eval(None))
        except Py4JJavaError:
            # Spark will fail in the same way if it evaluates the cast.
            return None
    else:
        return None
    return value if value is not None and _is_certain(value) else None


def _is_certain(value: pa.Scalar) -> bool:
    """Return False for NaN, whose comparisons differ, and for text that was not UTF-8, which py4j changes."""
    if pa.types.is_floating(value.type):
        return not math.isnan(value.as_py() or 0)
    return not pa.types.is_string(value.type) or "\ufffd" not in str(value.as_py())


def _type(node: Any) -> str:
    return str(node.dataType().catalogString())


def _reader(data_type: str) -> Callable[[Any], pa.Scalar] | None:
    """Return a function that reads Catalyst's internal values of a type; None for other types."""
    if data_type in _PLAIN:
        plain = _PLAIN[data_type]
        return lambda value: pa.scalar(value, plain)
    if data_type == "string":
        return lambda value: pa.scalar(None if value is None else str(value.toString()), pa.string())
    if data_type.startswith("decimal("):
        precision, scale = (int(number) for number in data_type[8:-1].split(","))
        return lambda value: pa.scalar(
            None if value is None else value.toJavaBigDecimal(), pa.decimal128(precision, scale)
        )
    return None


# Types whose internal values py4j converts to Python numbers or bytes.
_PLAIN = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}
