"""What Spark asks of a scan, as text and as an expression of pyarrow: exact, or left out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.spark.runtime.gateway import jvm_of, query_of


class Filter(NamedTuple):
    """The conditions that every row of an answer meets, all of them together.

    `sql` is Spark's text of each. `expression` is the conjunction of those that could be said exactly, with literals of
    their own type and instants in UTC; `None` where there is none. It is meant as Spark means it: to Spark, NaN is
    greater than every number, so `x > 1` holds for NaN.
    """

    sql: tuple[str, ...]
    expression: pc.Expression | None
    # The parts of that conjunction, each of which excludes rows by itself.
    parts: tuple[pc.Expression, ...] = ()


def filter_of(conditions: Iterable[Any]) -> Filter:
    """The filter of Catalyst's expressions, given as objects of py4j."""
    sql, parts = [], []
    for condition in conditions:
        sql.append(str(condition.sql()))
        parts += [part for part in map(_condition, _conjuncts(condition)) if part is not None]
    return Filter(tuple(sql), functools.reduce(lambda one, other: one & other, parts) if parts else None, tuple(parts))


def _conjuncts(condition: Any) -> list[Any]:
    found, waiting = [], [condition]
    while waiting:
        one = waiting.pop()
        if _name(one) == "And":
            waiting += [one.right(), one.left()]
        else:
            found.append(one)
    return found


def resolved(spark: Any, schema: Any, where: Any) -> Filter:
    """The filter that SQL text or a `Column` means for rows of a schema, as Spark's optimizer puts it."""
    from pyspark.sql import DataFrame

    rows: DataFrame = spark.createDataFrame(spark.sparkContext.emptyRDD(), schema).where(where)
    # What depends on the moment, such as `current_date()`, means another thing when the DataFrame is read, again and
    # again; the optimizer has put one moment in its place.
    passing = jvm_of(spark).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    analyzed = query_of(rows).analyzed()
    if analyzed.containsPattern(passing):
        parts = _conjuncts(analyzed.condition()) if _name(analyzed) == "Filter" else []
        return filter_of(part for part in parts if not part.containsPattern(passing))
    plan = query_of(rows).optimizedPlan()
    return filter_of([plan.condition()] if _name(plan) == "Filter" else [])


def _condition(one: Any) -> pc.Expression | None:
    """A condition whose rows are exactly those of Spark's; a conjunction may lose parts, which only widens it."""
    name = _name(one)
    if name in ("And", "Or"):
        left, right = _condition(one.left()), _condition(one.right())
        if left is None or right is None:
            # Part of a conjunction still holds; part of a disjunction says nothing.
            return (left if right is None else right) if name == "And" else None
        return left & right if name == "And" else left | right
    if name in ("IsNull", "IsNotNull"):
        column = _column(one.child())
        return None if column is None else column.is_null() if name == "IsNull" else column.is_valid()
    if name in _COMPARISONS:
        return _comparison(name, one.left(), one.right())
    if name in ("In", "InSet"):
        return _one_of(one, name)
    if name == "IsNaN":
        column = _column(one.child())
        return None if column is None else pc.is_nan(column)
    if name == "Not":
        return _opposite(one.child())
    if name == "StartsWith":
        return _beginning(one)
    return _flag(one, True)


def _beginning(one: Any) -> pc.Expression | None:
    column, prefix = _column(one.left()), _literal(one.right())
    if column is None or prefix is None or not pa.types.is_string(prefix.type) or prefix.as_py() is None:
        return None
    return pc.starts_with(column, prefix.as_py())


def _flag(one: Any, value: bool) -> pc.Expression | None:
    """A column of truths as a condition, which is how Spark puts a comparison with `true`."""
    column = _column(one)
    return None if column is None or str(one.dataType().catalogString()) != "boolean" else column == pa.scalar(value)


def _opposite(one: Any) -> pc.Expression | None:
    """What is left of NOT where Spark has written opposites as themselves: values that differ."""
    name = _name(one)
    if name == "EqualTo":
        return _comparison("NotEqual", one.left(), one.right())
    if name in ("In", "InSet"):
        tested = one.value() if name == "In" else one.child()
        column, values = _column(tested), _members(one, name)
        # To Spark's sets the two zeros are not the same; and long lists leave out no file in practice.
        if column is None or values is None or len(values) > 100 or pa.types.is_floating(values[0].type):
            return None
        return functools.reduce(lambda left, right: left & right, (column != value for value in values))
    if name == "StartsWith":
        beginning = _beginning(one)
        return None if beginning is None else ~beginning
    return _flag(one, False)


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
    if column is None or value is None or value.as_py() is None:
        return None
    return _COMPARISONS[name](column, value)


def _one_of(one: Any, name: str) -> pc.Expression | None:
    column, values = _column(one.value() if name == "In" else one.child()), _members(one, name)
    if column is None or values is None:
        return None
    return column.isin(pa.array([value.as_py() for value in values], values[0].type))


def _members(one: Any, name: str) -> list[pa.Scalar] | None:
    """The values of a list that are not null, all of one type; None where they are not understood."""
    if name == "In":
        values = [_literal(item) for item in _items(one.list())]
    else:
        read = _reader(one.child())
        values = [None] if read is None else [read(item) for item in _items(one.hset())]
    if any(value is None for value in values):
        return None
    # A null in the list makes the answer unknown where it is not true, which no row passes either.
    present = [value for value in values if value is not None and value.is_valid]
    return present if present and len({value.type for value in present}) == 1 else None


def _items(collection: Any) -> list[Any]:
    found = []
    iterator = collection.iterator()
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def _name(one: Any) -> str:
    return str(one.getClass().getSimpleName())


def _column(one: Any) -> Any | None:
    """A column or a field of structures, by the names of the table; whatever is computed is none."""
    path: list[str] = []
    while _name(one) == "GetStructField":
        path.insert(0, one.childSchema().apply(one.ordinal()).name())
        one = one.child()
    # What Spark knows of each file, such as its path, is no column of the table.
    if _name(one) != "AttributeReference" or one.metadata().contains("__metadata_col"):
        return None
    path.insert(0, one.name())
    return pc.field(path[0]) if len(path) == 1 else pc.field(*path)


def _literal(one: Any) -> pa.Scalar | None:
    read = _reader(one)
    if _name(one) == "Literal":
        value = None if read is None else read(one.value())
    elif _name(one) == "Cast" and _name(one.child()) == "Literal" and read is not None:
        # As conditions are before they are optimized.
        from py4j.protocol import Py4JJavaError

        try:
            value = read(one.eval(None))
        except Py4JJavaError:
            # What fails here fails for Spark, too, if it comes to it.
            return None
    else:
        return None
    # No NaN, whose meaning differs, and no text that was not UTF-8, which came here changed.
    return None if value is None or value.as_py() != value.as_py() or "\ufffd" in str(value.as_py()) else value


def _reader(typed: Any) -> Callable[[Any], pa.Scalar] | None:
    """How Catalyst's own values of a type are read; `None` for types that are not."""
    data_type = str(typed.dataType().catalogString())
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


# What py4j hands over as a Python number or bytes, and what it stands for in Catalyst.
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
