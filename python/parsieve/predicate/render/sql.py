"""The typed form as SQL text for DuckDB and Spark: every name quoted, every literal with its type and zone.

Both order NaN as the form does.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from datetime import date, timedelta

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.predicate.builder import is_bytes, is_text
from parsieve.predicate.expr import Always, And, Column, Compare, Expr, In, IsNull, Literal, Not, Or, StartsWith
from parsieve.predicate.literals import NANOS
from parsieve.predicate.render.form import renderable

_EPOCH = date(1970, 1, 1)
_MICROS_A_DAY = 86_400 * 10**6


def to_duckdb(expr: Expr) -> str:
    r"""DuckDB's text of a condition that is true for the rows for which `expr` is.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import parse
    >>> from parsieve.predicate.render import to_duckdb
    >>> to_duckdb(parse("day >= '2026-01-31'", pa.schema({"day": pa.date32()})))
    '("day" >= DATE \'2026-01-31\')'
    """
    return _DuckDb().condition(renderable(expr))


def to_spark(expr: Expr) -> str:
    """Spark's text of a condition that is true for the rows for which `expr` is, whatever the session's zone.

    >>> import pyarrow as pa
    >>> from parsieve.predicate import parse
    >>> from parsieve.predicate.render import to_spark
    >>> to_spark(parse("id = 42", pa.schema({"id": pa.int64()})))
    '(`id` = 42L)'
    """
    return _Spark().condition(renderable(expr))


class _Sql(ABC):
    """What is alike in both dialects."""

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
            case Not(In() as among):
                return f"(NOT {self.condition(among)})"
            case Not(StartsWith() as begins):
                return f"(NOT {self.condition(begins)})"
            case IsNull(column):
                return f"({self.column(column)} IS NULL)"
            case Compare(column, "!=", value) if self.is_nan(value):
                # To Spark, null is no NaN.
                return f"({self.column(column)} IS NOT NULL AND NOT isnan({self.column(column)}))"
            case Compare(column, _, value) if self.is_nan(value):
                return f"isnan({self.column(column)})"
            case Compare(column, op, value):
                return f"({self.column(column)} {op} {self.literal(value.scalar)})"
            case In(column, values):
                return f"({self.column(column)} IN ({', '.join(self.literal(value) for value in values)}))"
            case StartsWith(column, prefix):
                return self.starts_with(column, prefix)
        raise AssertionError(expr)

    @staticmethod
    def is_nan(value: Literal) -> bool:
        return bool(pa.types.is_floating(value.scalar.type)) and math.isnan(value.scalar.as_py())

    def literal(self, scalar: pa.Scalar) -> str:
        kind, types = scalar.type, pa.types
        if types.is_boolean(kind):
            return "TRUE" if scalar.as_py() else "FALSE"
        if types.is_integer(kind):
            return self.whole(scalar.as_py(), kind)
        if types.is_floating(kind):
            return self.real(float(scalar.as_py()), kind)
        if types.is_decimal(kind):
            if kind.precision > 38:
                raise UnsupportedError(f"{self.name} has no decimals of {kind.precision} digits")
            return f"CAST('{scalar.as_py():f}' AS DECIMAL({kind.precision}, {kind.scale}))"
        if types.is_date32(kind):
            return self.day(scalar.cast(pa.int32()).as_py())
        if types.is_date64(kind):
            return self.day(scalar.cast(pa.int64()).as_py() // 86_400_000)
        if types.is_timestamp(kind):
            nanos = scalar.cast(pa.int64()).as_py() * NANOS[kind.unit]
            return self.moment(nanos, kind)
        if types.is_time(kind):
            return self.clock(scalar)
        if is_text(kind):
            return self.text(scalar.as_py())
        if is_bytes(kind):
            return self.bytes(scalar.as_py())
        raise UnsupportedError(f"{self.name} is not asked about columns of type {kind}")

    name: str

    @abstractmethod
    def column(self, column: Column) -> str: ...
    @abstractmethod
    def whole(self, number: int, kind: pa.DataType) -> str: ...
    @abstractmethod
    def real(self, number: float, kind: pa.DataType) -> str: ...
    @abstractmethod
    def day(self, days: int) -> str: ...
    @abstractmethod
    def moment(self, nanos: int, kind: pa.DataType) -> str: ...
    @abstractmethod
    def clock(self, scalar: pa.Scalar) -> str: ...
    @abstractmethod
    def text(self, text: str) -> str: ...
    @abstractmethod
    def bytes(self, data: bytes) -> str: ...
    @abstractmethod
    def starts_with(self, column: Column, prefix: Literal) -> str: ...


def _calendar(days: int) -> str | None:
    """A date as all engines read it, or None beyond the years 1 to 9999."""
    try:
        return (_EPOCH + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _wall(nanos: int, digits: int) -> str | None:
    days, rest = divmod(nanos, _MICROS_A_DAY * 1000)
    seconds, fraction = divmod(rest, 10**9)
    day = _calendar(days)
    if day is None:
        return None
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{day} {clock}.{fraction // 10 ** (9 - digits):0{digits}}"


class _DuckDb(_Sql):
    name = "DuckDB"

    def column(self, column: Column) -> str:
        first, *inner = (part.replace('"', '""') for part in column.path)
        found = f'"{first}"'
        for part, raw in zip(inner, column.path[1:], strict=True):
            found = f"struct_extract({found}, {self.text(raw)})" if part else found
        return found

    def whole(self, number: int, kind: pa.DataType) -> str:
        sizes = {8: "TINYINT", 16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}
        return f"CAST({number} AS {'' if pa.types.is_signed_integer(kind) else 'U'}{sizes[kind.bit_width]})"

    def real(self, number: float, kind: pa.DataType) -> str:
        return f"CAST('{number!r}' AS {'DOUBLE' if kind.bit_width == 64 else 'FLOAT'})"

    def day(self, days: int) -> str:
        written = _calendar(days)
        return f"DATE '{written}'" if written else f"(DATE '1970-01-01' + {days})"

    def moment(self, nanos: int, kind: pa.DataType) -> str:
        if kind.tz is not None:
            written = _wall(nanos, 6)
            if nanos % 1000 or written is None:
                raise UnsupportedError(
                    f"DuckDB cannot hold the moment {nanos} ns since 1970 of a column of type {kind}"
                )
            return f"TIMESTAMPTZ '{written}+00'"
        if abs(nanos // (1 if kind.unit == "ns" else 1000)) >= 2**63 - 1:
            # DuckDB keeps the last numbers for its infinities.
            raise UnsupportedError(f"DuckDB cannot hold the time {nanos} ns since 1970 of a column of type {kind}")
        if kind.unit == "ns":
            return f"make_timestamp_ns({nanos})"
        return f"make_timestamp({nanos // 1000})"

    def clock(self, scalar: pa.Scalar) -> str:
        nanos = scalar.cast(pa.time64("ns")).cast(pa.int64()).as_py()
        text = (_wall(nanos, 9) or "").split(" ")[1]
        if scalar.type.unit == "ns":
            return f"CAST('{text}' AS TIME_NS)"
        return f"TIME '{text[:-3]}'"

    def text(self, text: str) -> str:
        # The character zero ends text that is handed to some parsers.
        parts = ("'" + part.replace("'", "''") + "'" for part in text.split("\0"))
        return " || chr(0) || ".join(parts) if "\0" not in text else "(" + " || chr(0) || ".join(parts) + ")"

    def bytes(self, data: bytes) -> str:
        return "'" + "".join(f"\\x{byte:02X}" for byte in data) + "'::BLOB"

    def starts_with(self, column: Column, prefix: Literal) -> str:
        value = prefix.scalar.as_py()
        if isinstance(value, str):
            return f"starts_with({self.column(column)}, {self.text(value)})"
        # Bytes have no such function; they lie between the prefix and the next of its length.
        above = _next(value)
        upper = f" AND {self.column(column)} < {self.bytes(above)}" if above else ""
        return f"({self.column(column)} >= {self.bytes(value)}{upper})"


def _next(prefix: bytes) -> bytes | None:
    """The least bytes above all that begin with `prefix`."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


class _Spark(_Sql):
    name = "Spark"

    def column(self, column: Column) -> str:
        return ".".join("`" + part.replace("`", "``") + "`" for part in column.path)

    def whole(self, number: int, kind: pa.DataType) -> str:
        # Spark has no unsigned types: it reads them as the next wider one.
        if kind.bit_width == 64 and pa.types.is_unsigned_integer(kind):
            return f"CAST('{number}' AS DECIMAL(20, 0))"
        if kind.bit_width == 64 or pa.types.is_uint32(kind):
            # The least long has no literal: its digits are read before the minus.
            return f"{number}L" if number != -(1 << 63) else f"CAST('{number}' AS BIGINT)"
        names = {pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.uint8(): "SMALLINT"}
        return f"CAST({number} AS {names.get(kind, 'INT')})"

    def real(self, number: float, kind: pa.DataType) -> str:
        # Spark reads what Java writes.
        written = repr(number).replace("nan", "NaN").replace("inf", "Infinity")
        return f"CAST('{written}' AS {'DOUBLE' if kind.bit_width == 64 else 'FLOAT'})"

    def day(self, days: int) -> str:
        written = _calendar(days)
        return f"DATE '{written}'" if written else f"date_from_unix_date({days})"

    def moment(self, nanos: int, kind: pa.DataType) -> str:
        if nanos % 1000:
            raise UnsupportedError("Spark has no nanoseconds")
        if kind.tz is not None:
            return f"timestamp_micros({nanos // 1000}L)"
        written = _wall(nanos, 6)
        if written is None:
            raise UnsupportedError(f"Spark has no literal for the moment {nanos} ns since 1970")
        return f"TIMESTAMP_NTZ '{written}'"

    def clock(self, scalar: pa.Scalar) -> str:
        raise UnsupportedError("Spark has no times of day")

    def text(self, text: str) -> str:
        # As bytes, so that no session decides what a backslash means.
        if text.isascii() and text.isprintable() and "'" not in text and "\\" not in text:
            return f"'{text}'"
        return f"decode({self.bytes(text.encode())}, 'UTF-8')"

    def bytes(self, data: bytes) -> str:
        return f"X'{data.hex()}'"

    def starts_with(self, column: Column, prefix: Literal) -> str:
        value = prefix.scalar.as_py()
        literal = self.text(value) if isinstance(value, str) else self.bytes(value)
        return f"startswith({self.column(column)}, {literal})"
