"""Turn the conditions of a Spark scan into a predicate on the table, if both sides compare the same values."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError, UnsupportedError
from parsieve.plan.order.ordering import Ordering
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.expr import (
    ELEMENT,
    KEY,
    VALUE,
    Column,
    Compare,
    Computed,
    Expr,
    In,
    Unknown,
    all_of,
    element_tests,
    unknowns,
    value_columns,
    walk,
)
from parsieve.predicate.messages import NotUnderstoodError
from parsieve.predicate.read.arrow import parse_expression
from parsieve.predicate.render import to_spark
from parsieve.predicate.times.temporal import NANOS
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.pushdown.int96 import READ, STORED, as_read, as_stored

Path = tuple[str, ...]

# Spark may read older dates and timestamps in another calendar, depending on its settings and on the writer of a file.
# Newer values stay newer than these limits in both calendars.
_CALENDAR = dt.date(1582, 10, 16)
_ZONES = dt.datetime(1900, 1, 2, tzinfo=dt.UTC)
_DAYS = (_CALENDAR - dt.date(1970, 1, 1)).days
_MICROS = int(_ZONES.timestamp()) * 10**6


class Types:
    """The columns of a table as Spark reads them: their types, and their field ids if the format has them."""

    def __init__(
        self, schema: Any, ids: Mapping[Path, int] | None = None, differing: Collection[str] = frozenset()
    ) -> None:
        """`schema` is a `StructType` of Spark, and `differing` are columns that can have other values in Spark."""
        self._types = dict(_leaves(schema.jsonValue()["fields"]))
        self._ids = ids
        self._differing = differing

    def match(self, column: Column) -> bool:
        """Return whether Spark reads the same values by this name, and compares them in the same way."""
        return column.path[0] not in self._differing and self._have_same_type(column)

    def _have_same_type(self, column: Column) -> bool:
        spark_type = self._types.get(column.path)
        if spark_type is None or not _same_order(spark_type, column.value_type):
            return False
        return self._ids is None or self._ids.get(column.path) == column.field_id

    def predicate(self, where: Filter, schema: pa.Schema, with_timestamps: bool = True) -> Expr | None:
        """Return a predicate that is true of every row that Spark selects; None if no condition can be translated.

        Conditions on timestamps are ignored unless `with_timestamps`.
        """
        truncated = [
            field.name for field in schema if self._types.get((field.name,)) == "timestamp" and field.type == STORED
        ]
        spark_schema = as_read(schema, truncated) if truncated else schema
        parts = [part for condition in where.parts if (part := self._part(condition, spark_schema)) is not None]
        if not with_timestamps:
            parts = [part for part in parts if not any(map(_is_timestamp, _columns_of(part)))]
        if not parts:
            return None
        return as_stored(all_of(*parts), truncated) if truncated else all_of(*parts)

    def exact_predicate(self, where: Filter, schema: pa.Schema, with_timestamps: bool = True) -> Expr | None:
        """Return a predicate that is true of exactly the rows that Spark selects; None if there is none."""
        parts = [part for condition in where.parts if (part := self._part(condition, schema)) is not None]
        predicate = all_of(*parts)
        if not with_timestamps and any(map(_is_timestamp, _columns_of(predicate))):
            return None
        # Spark and parsieve may disagree about single values of expressions, so their translations are not exact.
        is_exact = len(parts) == len(where.parts) and not unknowns(predicate) and not element_tests(predicate)
        return predicate if is_exact else None

    def until(self, ordering: Ordering, value: pa.Scalar, with_timestamps: bool = True) -> tuple[Expr, str] | None:
        """Return a condition that is true of all rows up to a value in an order, and the same condition for Spark.

        None if Spark may order the values of the column in another way.
        """
        column = ordering.column
        is_truncated = self._types.get(column.path) == "timestamp" and column.type == STORED and len(column.path) == 1
        if not (is_truncated or self.match(column)) or (_is_timestamp(column) and not with_timestamps):
            return None
        if is_truncated and value.is_valid:
            value = pa.scalar(value.value // 1000, pa.int64()).cast(READ)
            ordering = replace(ordering, column=Column(column.path, READ))
        until = ordering.until(value)
        if _is_ancient(until):
            return None
        return as_stored(until, column.path) if is_truncated else until, to_spark(until)

    def _part(self, expression: pc.Expression, schema: pa.Schema) -> Expr | None:
        try:
            part = parse_expression(expression, schema, None, nan_is_greatest=True)
        except (ParsieveError, NotUnderstoodError):
            # Spark has columns that are not in the table's schema, such as Hudi's meta columns.
            return None
        if isinstance(part, Unknown) or not all(map(self.match, _columns_of(part))) or _is_ancient(part):
            return None
        return part

    def text(self, expr: Expr, *, of_files: bool = True) -> str:
        """Return a predicate as SQL text of Spark, or raise `UnsupportedError` if a column is not the same to Spark.

        `of_files` means that parsieve has chosen the files by this predicate, so that Spark must read the same values.
        """
        for column in value_columns(expr):
            if not self._have_same_type(column):
                raise UnsupportedError(
                    f"column {column} of type {column.type} is {self._types.get(column.path, 'missing')} to Spark, "
                    "which would find other rows; use pss.read with Spark's own condition"
                )
            if of_files and not self.match(column):
                raise UnsupportedError(
                    f"column {column} can have other values in Spark, which would find other rows; use pss.read"
                )
        return to_spark(expr)


def _columns_of(expr: Expr) -> list[Column]:
    """Return the columns whose values a condition compares. Of an expression, this is the column that it is made of."""
    made_of = [test.column for test in element_tests(expr) if isinstance(test, Computed)]
    return [*(column for column in value_columns(expr) if not column.is_computed), *made_of]


def _is_timestamp(column: Column) -> bool:
    return bool(pa.types.is_timestamp(column.value_type))


def ids_of(schema: str) -> dict[Path, int]:
    """Return the field id of each column and struct field of a schema, given as Iceberg's JSON."""
    return dict(_ids((), json.loads(schema)["fields"]))


def _ids(above: Path, fields: list[Any]) -> Iterator[tuple[Path, int]]:
    for field in fields:
        path = (*above, str(field["name"]))
        yield path, int(field["id"])
        kind = field["type"] if isinstance(field["type"], dict) else {}
        if kind.get("type") == "struct":
            yield from _ids(path, kind["fields"])
        for part in (ELEMENT, KEY, VALUE):
            if f"{part}-id" in kind:
                yield (*path, part), int(kind[f"{part}-id"])


def _leaves(fields: list[Any], above: Path = ()) -> Iterator[tuple[Path, str]]:
    for field in fields:
        kind, path = field["type"], (*above, str(field["name"]))
        metadata = field.get("metadata", {})
        if other := padded_type(metadata) or _collated_type(metadata):
            # Files may have the values without the spaces that Spark adds, and a collation may ignore case. No type of
            # Arrow is the same as these.
            yield from ((leaf, other) for leaf, _ in _leaves([{**field, "metadata": {}}], above))
        elif isinstance(kind, str):
            yield path, kind
        elif kind.get("type") == "struct":
            yield from _leaves(kind["fields"], path)
        else:
            inner = {ELEMENT: kind.get("elementType"), KEY: kind.get("keyType"), VALUE: kind.get("valueType")}
            yield from (
                ((*path, part), spark_type) for part, spark_type in inner.items() if isinstance(spark_type, str)
            )


def padded_type(metadata: Mapping[str, Any]) -> str | None:
    """Return the type of a column with CHAR values, given the metadata of Spark's field; None for other columns."""
    text = metadata.get("__CHAR_VARCHAR_TYPE_STRING")
    return str(text) if text is not None and re.search(r"(?<!var)char\(", str(text)) else None


def _collated_type(metadata: Mapping[str, Any]) -> str | None:
    """Return the type of a column with a collation, given the metadata of Spark's field; None for other columns."""
    # Spark's JSON has the type "string" for each of these columns, and such names as "spark.UTF8_LCASE" apart from it.
    names = {str(name).partition(".")[2] for name in metadata.get("__COLLATIONS", {}).values()}
    return f"string collate {', '.join(sorted(names))}" if names else None


# Spark's integers, and their bits.
_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


def _same_order(spark_type: str, arrow_type: pa.DataType) -> bool:
    """Return whether a Spark type and an Arrow type have the same values in the same order."""
    types = pa.types
    if types.is_integer(arrow_type):
        # Spark takes the lower bits of a number that does not fit its type.
        return bool(_INTEGERS.get(spark_type, 0) >= arrow_type.bit_width + types.is_unsigned_integer(arrow_type))
    if types.is_decimal(arrow_type):
        return spark_type == f"decimal({arrow_type.precision},{arrow_type.scale})"
    if types.is_timestamp(arrow_type):
        # Spark truncates nanoseconds, if it reads them.
        return arrow_type.unit != "ns" and spark_type == ("timestamp_ntz" if arrow_type.tz is None else "timestamp")
    if is_text(arrow_type):
        return spark_type == "string"
    if is_bytes(arrow_type):
        return spark_type == "binary"
    same = {"boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64(), "date": pa.date32()}
    return spark_type in same and bool(same[spark_type] == arrow_type)


def _is_ancient(expr: Expr) -> bool:
    """Return whether a literal is so old that Spark may read equal values in another calendar."""
    in_lists = [inner for test in element_tests(expr) for inner in walk(test.condition)]
    for part in (*walk(expr), *in_lists):
        if isinstance(part, Compare):
            values = pa.repeat(part.value.scalar, 1)
        elif isinstance(part, In):
            values = part.values
        else:
            continue
        kind = values.type
        if pa.types.is_date32(kind) and pc.min(values.view(pa.int32())).as_py() < _DAYS:
            return True
        if pa.types.is_timestamp(kind):
            least = pc.min(values.view(pa.int64())).as_py()
            if least * NANOS[kind.unit] < _MICROS * 1000:
                return True
    return False
