"""What Spark asks of a scan, as a question about the table's own columns: only where both mean the same values."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import ParsieveError, UnsupportedError
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.expr import Column, Compare, Expr, In, Unknown, both, columns, walk
from parsieve.predicate.literals import NANOS, UnlikeError
from parsieve.predicate.read.arrow import parse_expression
from parsieve.predicate.render import to_spark
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.pushdown.int96 import HELD, as_held, as_seen

Path = tuple[str, ...]

# Spark reads what old writers stored before these in another calendar, by settings and by who wrote a file. What lies
# above them stays above them.
_CALENDAR = dt.date(1582, 10, 16)
_ZONES = dt.datetime(1900, 1, 2, tzinfo=dt.UTC)
_DAYS = (_CALENDAR - dt.date(1970, 1, 1)).days
_MICROS = int(_ZONES.timestamp()) * 10**6


class Types:
    """The columns of a DataFrame that Spark reads from a table: their types, and their field ids where it has those."""

    def __init__(self, schema: Any, ids: Mapping[Path, int] | None = None) -> None:
        """`schema` is a `StructType` of Spark."""
        self._types = dict(_leaves(schema.jsonValue()["fields"]))
        self._ids = ids

    def hold(self, column: Column) -> bool:
        """Whether what Spark calls by a column's name holds the column's values, compared in the same way."""
        spark = self._types.get(column.path)
        if spark is None or not _alike(spark, column.value_type):
            return False
        return self._ids is None or self._ids.get(column.path) == column.field_id

    def question(self, where: Filter, schema: pa.Schema, moments: bool = True) -> Expr | None:
        """What is certain of every row that Spark asks for, in the terms of the table; None where nothing is.

        Nothing is said of moments unless `moments`.
        """
        cut = [field.name for field in schema if self._types.get((field.name,)) == "timestamp" and field.type == HELD]
        seen = as_seen(schema, cut) if cut else schema
        parts = [part for one in where.parts if (part := self._part(one, seen)) is not None]
        if not moments:
            parts = [part for part in parts if not any(map(_is_moment, columns(part)))]
        if not parts:
            return None
        return as_held(both(*parts), cut) if cut else both(*parts)

    def _part(self, expression: pc.Expression, schema: pa.Schema) -> Expr | None:
        try:
            part = parse_expression(expression, schema, None, nan_is_greatest=True)
        except (ParsieveError, UnlikeError):
            # A column that only Spark knows, such as those of Hudi's own.
            return None
        if isinstance(part, Unknown) or not all(map(self.hold, columns(part))) or _is_of_old(part):
            return None
        return part

    def text(self, expr: Expr) -> str:
        """A typed predicate as Spark's text; `UnsupportedError` where Spark would not read the same columns in it."""
        for column in columns(expr):
            if not self.hold(column):
                raise UnsupportedError(
                    f"column {column} of type {column.type} is {self._types.get(column.path, 'not there')} to Spark, "
                    "which would find other rows; use pss.read with Spark's own condition"
                )
        return to_spark(expr)


def _is_moment(column: Column) -> bool:
    return bool(pa.types.is_timestamp(column.value_type))


def ids_of(schema: str) -> dict[Path, int]:
    """The field id of each leaf through structs, of a schema as Iceberg writes it down."""
    return dict(_ids((), json.loads(schema)["fields"]))


def _ids(above: Path, fields: list[Any]) -> Iterator[tuple[Path, int]]:
    for field in fields:
        path = (*above, str(field["name"]))
        yield path, int(field["id"])
        if isinstance(field["type"], dict) and field["type"].get("type") == "struct":
            yield from _ids(path, field["type"]["fields"])


def _leaves(fields: list[Any], above: Path = ()) -> Iterator[tuple[Path, str]]:
    for field in fields:
        kind, path = field["type"], (*above, str(field["name"]))
        if isinstance(kind, str):
            yield path, kind
        elif kind.get("type") == "struct":
            yield from _leaves(kind["fields"], path)


_INTEGERS = ("byte", "short", "integer", "long")


def _alike(spark: str, kind: pa.DataType) -> bool:
    """Whether a type of Spark's and one of ours have the same values in the same order."""
    types = pa.types
    if types.is_integer(kind):
        return spark in _INTEGERS
    if types.is_decimal(kind):
        return spark == f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        # Spark cuts nanoseconds off, if it reads them.
        return kind.unit != "ns" and spark == ("timestamp_ntz" if kind.tz is None else "timestamp")
    if is_text(kind):
        return spark == "string"
    if is_bytes(kind):
        return spark == "binary"
    named = {"boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64(), "date": pa.date32()}
    return spark in named and bool(named[spark] == kind)


def _is_of_old(expr: Expr) -> bool:
    """Whether a moment or day is named that Spark may read otherwise than it is stored."""
    for part in walk(expr):
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
