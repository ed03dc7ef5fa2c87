"""Render a predicate as SQL for DuckDB and Spark, with quoted names and with types and zones for all literals.

Both engines order NaN like the typed form.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from datetime import date, timedelta

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.expr import (
    ELEMENT,
    Always,
    And,
    AnyElement,
    Column,
    Compare,
    Computed,
    Expr,
    HasToken,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    StartsWith,
)
from parsieve.predicate.render.form import prepare
from parsieve.predicate.text.like import contained_text, last_text, write_like
from parsieve.predicate.text.words import write_word_regex
from parsieve.predicate.times.temporal import NANOS

_EPOCH = date(1970, 1, 1)
_NANOS_PER_DAY = 86_400 * 10**9


def to_duckdb(expr: Expr) -> str:
    r"""Return a condition for DuckDB that is true for the same rows as `expr`.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import parse
    >>> from parsieve.predicate.render import to_duckdb
    >>> to_duckdb(parse("day >= '2026-01-31'", pa.schema({"day": pa.date32()})))
    '("day" >= DATE \'2026-01-31\')'
    """
    return _DuckDb().condition(prepare(expr))


def to_spark(expr: Expr) -> str:
    """Return a condition for Spark that is true for the same rows as `expr`, in every session time zone.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import parse
    >>> from parsieve.predicate.render import to_spark
    >>> to_spark(parse("id = 42", pa.schema({"id": pa.int64()})))
    '(`id` = 42L)'
    """
    return _Spark().condition(prepare(expr))


class _Sql(ABC):
    """The parts that both dialects share."""

    def condition(self, expr: Expr) -> str:
        match expr:
            case And(parts):
                return "(" + " AND ".join(map(self.condition, parts)) + ")"
            case Or(parts):
                return "(" + " OR ".join(map(self.condition, parts)) + ")"
            case Always(value):
                return "TRUE" if value else "FALSE"
            case Not(IsNull(column)):
                return f"({self.column(column)} IS NOT NULL)"
            case Not(In() | StartsWith() | Like() | HasToken() | AnyElement() as leaf):
                return f"(NOT {self.condition(leaf)})"
            case IsNull(column):
                return f"({self.column(column)} IS NULL)"
            case Compare(column, "!=", value) if self.is_nan(value):
                # In Spark, isnan(NULL) is false.
                return f"({self.column(column)} IS NOT NULL AND NOT isnan({self.column(column)}))"
            case Compare(column, _, value) if self.is_nan(value):
                return f"isnan({self.column(column)})"
            case Compare():
                return self.compare(expr)
            case In(column, values):
                return f"({self.column(column)} IN ({', '.join(self.literal(value) for value in values)}))"
            case StartsWith(column, prefix):
                return self.starts_with(column, prefix)
            case Like():
                return self.like(expr)
            case HasToken(column, word):
                return f"{self.find_regex}({self.column(column)}, {self.text(write_word_regex(word))})"
            case Computed():
                raise UnsupportedError(f"engines disagree about {expr} for some values; use to_arrow or to_batches")
            case AnyElement(column, condition):
                return self.any_element(column, self.condition(condition))
        raise AssertionError(expr)

    def compare(self, leaf: Compare) -> str:
        return f"({self.column(leaf.column)} {leaf.op} {self.literal(leaf.value.scalar)})"

    @staticmethod
    def is_nan(value: Literal) -> bool:
        return bool(pa.types.is_floating(value.scalar.type)) and math.isnan(value.scalar.as_py())

    def literal(self, scalar: pa.Scalar) -> str:
        kind, types = scalar.type, pa.types
        if types.is_boolean(kind):
            return "TRUE" if scalar.as_py() else "FALSE"
        if types.is_integer(kind):
            return self.integer(scalar.as_py(), kind)
        if types.is_floating(kind):
            return self.float_(float(scalar.as_py()), kind)
        if types.is_decimal(kind):
            if kind.precision > 38:
                raise UnsupportedError(f"{self.name} has no decimals of {kind.precision} digits")
            return f"CAST('{scalar.as_py():f}' AS DECIMAL({kind.precision}, {kind.scale}))"
        if types.is_date32(kind):
            return self.date(scalar.cast(pa.int32()).as_py())
        if types.is_date64(kind):
            return self.date(scalar.cast(pa.int64()).as_py() // 86_400_000)
        if types.is_timestamp(kind):
            nanos = scalar.cast(pa.int64()).as_py() * NANOS[kind.unit]
            return self.timestamp(nanos, kind)
        if types.is_time(kind):
            return self.time(scalar)
        if is_text(kind):
            return self.text(scalar.as_py())
        if is_bytes(kind):
            return self.bytes(scalar.as_py())
        raise UnsupportedError(f"conditions for {self.name} do not support columns of type {kind}")

    name: str
    # The function that looks for a regular expression in a text.
    find_regex: str

    @abstractmethod
    def column(self, column: Column) -> str: ...
    @abstractmethod
    def integer(self, number: int, kind: pa.DataType) -> str: ...
    @abstractmethod
    def float_(self, number: float, kind: pa.DataType) -> str: ...
    @abstractmethod
    def date(self, days: int) -> str: ...
    @abstractmethod
    def timestamp(self, nanos: int, kind: pa.DataType) -> str: ...
    @abstractmethod
    def time(self, scalar: pa.Scalar) -> str: ...
    @abstractmethod
    def text(self, text: str) -> str: ...
    @abstractmethod
    def bytes(self, data: bytes) -> str: ...
    @abstractmethod
    def starts_with(self, column: Column, prefix: Literal) -> str: ...
    @abstractmethod
    def like(self, leaf: Like) -> str: ...
    @abstractmethod
    def any_element(self, column: Column, condition: str) -> str: ...


def _calendar(days: int) -> str | None:
    """Format a date; return None outside the years 1 to 9999, which not all engines can read."""
    try:
        return (_EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _timestamp_text(nanos: int, digits: int) -> str | None:
    days, rest = divmod(nanos, _NANOS_PER_DAY)
    seconds, fraction = divmod(rest, 10**9)
    day = _calendar(days)
    if day is None:
        return None
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{day} {clock}.{fraction // 10 ** (9 - digits):0{digits}}"


class _DuckDb(_Sql):
    name = "DuckDB"
    find_regex = "regexp_matches"

    def column(self, column: Column) -> str:
        if column.is_repeated:
            return "x" if column.path[-1] == ELEMENT else f"x.{column.path[-1]}"
        first, *inner = (part.replace('"', '""') for part in column.path)
        field = f'"{first}"'
        for part, raw in zip(inner, column.path[1:], strict=True):
            field = f"struct_extract({field}, {self.text(raw)})" if part else field
        return field

    def integer(self, number: int, kind: pa.DataType) -> str:
        sizes = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
        return f"CAST({number} AS {'' if pa.types.is_signed_integer(kind) else 'U'}{sizes[kind.bit_width]})"

    def float_(self, number: float, kind: pa.DataType) -> str:
        return f"CAST('{number!r}' AS {'DOUBLE' if kind.bit_width == 64 else 'FLOAT'})"

    def date(self, days: int) -> str:
        written = _calendar(days)
        return f"DATE '{written}'" if written else f"(DATE '1970-01-01' + {days})"

    def timestamp(self, nanos: int, kind: pa.DataType) -> str:
        if kind.tz is not None:
            written = _timestamp_text(nanos, 6)
            if nanos % 1000 or written is None:
                raise UnsupportedError(
                    f"DuckDB cannot hold {nanos} ns since 1970 in a column of type {kind}; use to_arrow"
                )
            return f"TIMESTAMPTZ '{written}+00'"
        if abs(nanos // (1 if kind.unit == "ns" else 1000)) >= 2**63 - 1:
            # DuckDB reserves the extreme values for infinity.
            raise UnsupportedError(f"DuckDB cannot hold {nanos} ns since 1970 in a column of type {kind}; use to_arrow")
        if kind.unit == "ns":
            return f"make_timestamp_ns({nanos})"
        return f"make_timestamp({nanos // 1000})"

    def time(self, scalar: pa.Scalar) -> str:
        nanos = scalar.cast(pa.time64("ns")).cast(pa.int64()).as_py()
        text = (_timestamp_text(nanos, 9) or "").split(" ")[1]
        if scalar.type.unit == "ns":
            return f"CAST('{text}' AS TIME_NS)"
        return f"TIME '{text[:-3]}'"

    def text(self, text: str) -> str:
        # Some parsers stop at a NUL character, so add it with chr(0).
        parts = ("'" + part.replace("'", "''") + "'" for part in text.split("\0"))
        return " || chr(0) || ".join(parts) if "\0" not in text else "(" + " || chr(0) || ".join(parts) + ")"

    def bytes(self, data: bytes) -> str:
        return "'" + "".join(f"\\x{byte:02X}" for byte in data) + "'::BLOB"

    def starts_with(self, column: Column, prefix: Literal) -> str:
        value = prefix.scalar.as_py()
        if isinstance(value, str):
            return f"starts_with({self.column(column)}, {self.text(value)})"
        # starts_with does not support bytes, so compare with the prefix and with the next prefix.
        above = _next_prefix(value)
        upper = f" AND {self.column(column)} < {self.bytes(above)}" if above else ""
        return f"({self.column(column)} >= {self.bytes(value)}{upper})"

    def like(self, leaf: Like) -> str:
        column = self.column(leaf.column)
        if (text := contained_text(leaf.pattern)) is not None and not leaf.ignore_case:
            return f"contains({column}, {self.text(text)})"
        if (text := last_text(leaf.pattern)) is not None and not leaf.ignore_case:
            return f"ends_with({column}, {self.text(text)})"
        operator = "ILIKE" if leaf.ignore_case else "LIKE"
        return f"({column} {operator} {self.text(write_like(leaf.pattern, '!'))} ESCAPE '!')"

    def any_element(self, column: Column, condition: str) -> str:
        name = self.column(column)
        return f"(len(list_filter({f'map_entries({name})' if _is_map(column) else name}, lambda x: {condition})) > 0)"


def _is_map(column: Column) -> bool:
    return bool(pa.types.is_map(column.type))


def _next_prefix(prefix: bytes) -> bytes | None:
    """Return the smallest bytes that are greater than all bytes with this prefix, or None if there are none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


class _Spark(_Sql):
    name = "Spark"
    find_regex = "regexp_like"

    def compare(self, leaf: Compare) -> str:
        # To Spark, both zeros are equal. But its Parquet reader skips row groups by their dictionaries, as if -0.0 were
        # less than 0.0. So a lower bound is -0.0, and an upper bound is 0.0.
        kind = leaf.value.scalar.type
        if not pa.types.is_floating(kind) or leaf.value.scalar.as_py() != 0:
            return super().compare(leaf)
        low, high = (f"{self.column(leaf.column)} {{}} {self.float_(zero, kind)}" for zero in (-0.0, 0.0))
        if leaf.op == "=":
            return f"({low.format('>=')} AND {high.format('<=')})"
        return f"({(low if leaf.op == '>=' else high).format(leaf.op)})"

    def column(self, column: Column) -> str:
        if column.is_repeated:
            return "x" if column.path[-1] == ELEMENT else f"x.{column.path[-1]}"
        return ".".join("`" + part.replace("`", "``") + "`" for part in column.path)

    def integer(self, number: int, kind: pa.DataType) -> str:
        # Spark has no unsigned types, and reads them as the next wider signed type.
        if kind.bit_width == 64 and pa.types.is_unsigned_integer(kind):
            return f"CAST('{number}' AS DECIMAL(20, 0))"
        if kind.bit_width == 64 or pa.types.is_uint32(kind):
            # The smallest long has no literal, because Spark reads the digits before the minus sign.
            return f"{number}L" if number != -(1 << 63) else f"CAST('{number}' AS BIGINT)"
        names = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.uint8(): "SMALLINT"}
        return f"CAST({number} AS {names.get(kind, 'INT')})"

    def float_(self, number: float, kind: pa.DataType) -> str:
        # Spark accepts the spelling of Java.
        written = repr(number).replace("nan", "NaN").replace("inf", "Infinity")
        return f"CAST('{written}' AS {'DOUBLE' if kind.bit_width == 64 else 'FLOAT'})"

    def date(self, days: int) -> str:
        written = _calendar(days)
        return f"DATE '{written}'" if written else f"date_from_unix_date({days})"

    def timestamp(self, nanos: int, kind: pa.DataType) -> str:
        if nanos % 1000:
            raise UnsupportedError("Spark does not support timestamps with nanoseconds; use to_arrow")
        if kind.tz is not None:
            return f"timestamp_micros({nanos // 1000}L)"
        written = _timestamp_text(nanos, 6)
        if written is None:
            raise UnsupportedError(f"Spark has no literal for the time {nanos} ns since 1970; use to_arrow")
        return f"TIMESTAMP_NTZ '{written}'"

    def time(self, scalar: pa.Scalar) -> str:
        raise UnsupportedError("Spark has no times of day; use to_arrow")

    def text(self, text: str) -> str:
        # Other texts are passed as bytes. Session settings decide the meaning of a backslash, and Spark replaces
        # `${name}` by the value of a setting, also inside a literal.
        if text.isascii() and text.isprintable() and not set("'\\$") & set(text):
            return f"'{text}'"
        return f"decode({self.bytes(text.encode())}, 'UTF-8')"

    def bytes(self, data: bytes) -> str:
        return f"X'{data.hex()}'"

    def starts_with(self, column: Column, prefix: Literal) -> str:
        value = prefix.scalar.as_py()
        literal = self.text(value) if isinstance(value, str) else self.bytes(value)
        return f"startswith({self.column(column)}, {literal})"

    def like(self, leaf: Like) -> str:
        column = self.column(leaf.column)
        if (text := contained_text(leaf.pattern)) is not None and not leaf.ignore_case:
            return f"contains({column}, {self.text(text)})"
        if (text := last_text(leaf.pattern)) is not None and not leaf.ignore_case:
            return f"endswith({column}, {self.text(text)})"
        operator = "ILIKE" if leaf.ignore_case else "LIKE"
        return f"({column} {operator} {self.text(write_like(leaf.pattern, '!'))} ESCAPE '!')"

    def any_element(self, column: Column, condition: str) -> str:
        name = self.column(column)
        lists = f"map_entries({name})" if _is_map(column) else name
        # For a list with nulls, `exists` may be null.
        return f"(CASE WHEN {name} IS NOT NULL THEN coalesce(exists({lists}, x -> {condition}), FALSE) END)"
