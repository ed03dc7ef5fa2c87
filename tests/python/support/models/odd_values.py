"""Values that writers and readers of statistics get wrong, and the order and the bounds of such values."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

EPOCH = dt.datetime(1970, 1, 1)
_HIGHEST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)

# Writers cut texts after 16 or 32 characters. Some characters take two units in UTF-16, or four bytes in UTF-8.
_TEXTS = ["", "a", "b", "ab", "\uffff", "ü" * 20, "ü" * 33, "😀" * 17, "😀" * 33, "z\U0010ffff" * 20]
_TEXTS += [start for size in (16, 32) for start in ("x" * size, "x" * size + "y", "x" * (size - 1) + "😀z")]
_BYTES = [b"", b"\0", b"\xff", b"\xff" * 20, b"a" * 16, b"a" * 16 + b"b"]
_FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1.5, -2.5]
_UNSCALED = [0, 1, -1, 123, -128, 127, 255, 256, 10**9 - 1, 1 - 10**9]
_DAYS = [0, -1, 1, 15, 20_000, -200_000]
_MICROSECONDS = [0, -1, 1, 999, 1_234_567, 10**15, -(10**15), 86_400 * 10**6]
# Texts that need escapes in paths, or that look like a null.
PATH_TEXTS = ["a", "a b", "a/b", "x%20y", "é", "=", "null", "'", '"q"', "C:\\x", "😀", "1", "#?", " "]
PATH_TEXTS += ["__HIVE_DEFAULT_PARTITION__x"]


def odd_value(chance: random.Random, kind: pa.DataType) -> Any:
    """Return a random value of a type, or null. Many values are at the edge of the range."""
    if chance.random() < 0.15:
        return None
    if pa.types.is_integer(kind):
        end = 1 << (kind.bit_width - 1)
        return chance.choice([-end, end - 1, 0, 1, 2, 3, min(1 << 31, end - 1), chance.randrange(-20, 20)])
    if pa.types.is_floating(kind):
        large = 3e38 if kind == pa.float32() else 1e300
        return pa.scalar(chance.choice([*_FLOATS, large]), kind).as_py()
    if pa.types.is_decimal(kind):
        wide = [10**19, -(10**19)] if kind.precision > 19 else []
        return Decimal(chance.choice([*_UNSCALED, *wide])).scaleb(-2)
    if pa.types.is_date(kind):
        return (EPOCH + dt.timedelta(days=chance.choice(_DAYS))).date()
    if pa.types.is_timestamp(kind):
        return EPOCH + dt.timedelta(microseconds=chance.choice(_MICROSECONDS))
    if pa.types.is_boolean(kind):
        return chance.random() < 0.5
    return chance.choice(_TEXTS if pa.types.is_string(kind) else _BYTES)


def ordered(values: Sequence[Any]) -> list[Any]:
    """Return the values that can be bounds, in the order of statistics: texts by bytes, and -0.0 before 0.0."""
    known = [value for value in values if value is not None and not (isinstance(value, float) and math.isnan(value))]
    return sorted(known, key=_rank)


def _rank(value: Any) -> Any:
    if isinstance(value, float):
        return value, math.copysign(1, value)
    return value.encode() if isinstance(value, str) else value


def cut_upper_bound(value: str | bytes, size: int) -> str | bytes | None:
    """Return an upper bound of at most `size` characters or bytes for all values with this prefix, or None."""
    if len(value) <= size:
        return value
    if isinstance(value, bytes):
        prefix = value[:size].rstrip(b"\xff")
        return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
    for place in range(size - 1, -1, -1):
        following = ord(value[place]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _HIGHEST:
            return value[:place] + chr(following)
    return None


def write_oddly(
    table: pa.Table, path: Path, chance: random.Random, row_group_sizes: Sequence[int] = (2, 5, 1000)
) -> None:
    """Write a Parquet file with few rows in each row group and page, with or without dictionaries and page indexes."""
    path.parent.mkdir(exist_ok=True)
    pq.write_table(
        table,
        path,
        row_group_size=chance.choice(row_group_sizes),
        use_dictionary=chance.random() < 0.5,
        write_page_index=chance.random() < 0.5,
        data_page_size=chance.choice([10, 1000]),
        store_schema=chance.random() < 0.5,
    )


def chosen_rows(chance: random.Random, count: int) -> set[int]:
    """Choose none, some or all of the row numbers."""
    share = chance.choice([0.0, 0.1, 0.5, 1.0])
    return {row for row in range(count) if chance.random() < share}
