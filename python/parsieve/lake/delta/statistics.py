"""Read the statistics of one column from the JSON in Delta's log, without losing precision.

Arrow's JSON reader reads the statistics of many files together. It rejects everything that Python would read in another
way. Python reads the files of a rejected batch one by one.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pt

from parsieve.lake import bounds
from parsieve.lake.base import ColumnPath, Statistics
from parsieve.lake.delta.schema import WIDENED, physical
from parsieve.lake.rows.columns import leaf_field
from parsieve.lake.rows.fields import fields_at

_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
# Bytes of statistics in one batch.
_BATCH_BYTES = 8 << 20
# After Arrow rejects a batch, it gets halves of it, down to this many files.
_FEWEST = 1 << 9
# Arrow's reader calls itself for each level of JSON, so deeper texts could exhaust the stack.
_DEEPEST = 1000
# A key that no statistics have. Its value numbers the files.
_NUMBER = "parsieve.number"
_INT64 = pa.int64()
_FLOAT64 = pa.float64()
# A type for decimals of any precision and scale.
_DECIMAL = pa.decimal256(76, 38)


def row_counts(stats: pa.ChunkedArray) -> pa.Int64Array:
    """Return the number of rows of each file, or null if its statistics do not contain it."""
    return _joined([part for texts in _batches(stats) for part in _row_counts(texts)], _INT64)


def _row_counts(texts: pa.StringArray) -> Iterator[pa.Int64Array]:
    read = _read_fast(texts, [], None) if len(texts) > 1 else None
    if read is not None:
        yield _not_negative(read["rows"])
    elif len(texts) > _FEWEST:
        half = len(texts) // 2
        yield from _row_counts(texts.slice(0, half))
        yield from _row_counts(texts.slice(half))
    else:
        yield _counts(_parsed(text).get("numRecords") for text in texts.to_pylist())


def statistics_of(stats: pa.ChunkedArray, schema: pa.Schema, path: ColumnPath, clean: pa.BooleanArray) -> Statistics:
    """Return the certain bounds and counts of a column in each file."""
    kind = leaf_field(schema, path).type
    fields = fields_at(schema, path)
    names = [physical(field) for field in fields]
    # A widened number was printed with the digits of the narrower type.
    bounded = pt.is_integer(kind) or not any(WIDENED in (field.metadata or {}) for field in fields)
    parts: list[Statistics] = []
    at = 0
    for texts in _batches(stats):
        parts += _statistics(texts, names, kind, bounded, clean.slice(at, len(texts)))
        at += len(texts)
    return Statistics(
        lower=_joined([part.lower for part in parts], kind),
        upper=_joined([part.upper for part in parts], kind),
        null_count=_joined([part.null_count for part in parts], _INT64),
        value_count=_joined([part.value_count for part in parts], _INT64),
    )


def _statistics(
    texts: pa.StringArray, names: Sequence[str], kind: pa.DataType, bounded: bool, clean: pa.BooleanArray
) -> Iterator[Statistics]:
    """Yield the statistics of some files, in parts. Arrow or Python reads each part."""
    stored = _stored_as(kind)
    read = None if stored is None else _read_fast(texts, names, stored)
    if read is not None:
        unknown = pa.nulls(len(texts), kind)
        lower, upper = _certain_arrays(read["low"], read["high"], kind) if bounded else (unknown, unknown)
        yield Statistics(lower, upper, *_certain_counts(read["nulls"], read["rows"], read["tight"], clean))
    elif len(texts) > _FEWEST and stored is not None:
        half = len(texts) // 2
        yield from _statistics(texts.slice(0, half), names, kind, bounded, clean.slice(0, half))
        yield from _statistics(texts.slice(half), names, kind, bounded, clean.slice(half))
    else:
        yield _exact_statistics(texts, names, kind, bounded, clean)


def _batches(stats: pa.ChunkedArray) -> Iterator[pa.StringArray]:
    for chunk in stats.chunks:
        size = max(_FEWEST, len(chunk) * _BATCH_BYTES // max(1, chunk.nbytes))
        for start in range(0, len(chunk), size):
            yield chunk.slice(start, size)


def _joined(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(list(parts)) if parts else pa.array([], kind)


def _stored_as(kind: pa.DataType) -> pa.DataType | None:
    """Return the type with which Arrow reads minima and maxima, or None if only Python reads them exactly."""
    if pt.is_boolean(kind):
        return kind
    if pt.is_integer(kind):
        return _INT64
    if pt.is_floating(kind):
        return _FLOAT64
    if pt.is_decimal(kind):
        return _DECIMAL
    return pa.string() if pt.is_string(kind) or pt.is_date(kind) or pt.is_timestamp(kind) else None


def _read_fast(texts: pa.StringArray, names: Sequence[str], kind: pa.DataType | None) -> dict[str, pa.Array] | None:
    """Read the statistics of some files with Arrow. Return None if Arrow rejects any of them."""
    if texts.null_count or pc.min(pc.binary_length(texts)).as_py() == 0:
        texts = pc.if_else(pc.fill_null(pc.not_equal(texts, ""), False), texts, "{}")
    if not pc.all(pc.starts_with(texts, "{")).as_py() or _may_be_deep(texts):
        return None
    if kind == _DECIMAL and _read_fast(texts, names, _FLOAT64) is None:
        # Arrow also reads decimals from strings, which writers do not use for numbers.
        return None
    fields: dict[str, Any] = {_NUMBER: _INT64, "numRecords": _INT64, "tightBounds": pa.bool_()}
    if kind is not None:
        fields |= {"minValues": _nested(names, kind), "maxValues": _nested(names, kind)}
        fields["nullCount"] = _nested(names, _INT64)
    options = pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")
    numbers, digits = _row_numbers(len(texts))
    try:
        data = _numbered(texts, digits)
        reading = pj.ReadOptions(use_threads=False, block_size=max(1, data.size))
        table = pj.read_json(pa.BufferReader(data), reading, options)
    except (pa.ArrowException, ValueError):
        return None
    # A text with two objects, or an object that spans two texts, would shift the numbers.
    if table.num_rows != len(texts) or not _column(table, _NUMBER).equals(numbers):
        return None
    columns = {"rows": _column(table, "numRecords"), "tight": _column(table, "tightBounds")}
    if kind is not None:
        for name, column in (("low", "minValues"), ("high", "maxValues"), ("nulls", "nullCount")):
            columns[name] = _leaf(_column(table, column), names)
        if pt.is_floating(kind) and not (_is_finite(columns["low"]) and _is_finite(columns["high"])):
            # Arrow reads a number that is too large for a double as infinite.
            return None
    return columns


def _nested(names: Sequence[str], kind: pa.DataType) -> pa.DataType:
    for name in reversed(names):
        kind = pa.struct([pa.field(name, kind)])
    return kind


@lru_cache(2)
def _row_numbers(count: int) -> tuple[pa.Int64Array, pa.StringArray]:
    """Return the numbers of some rows, and their digits. Most batches have as many rows as the one before."""
    numbers = pa.array(range(count), _INT64)
    return numbers, numbers.cast(pa.string())


def _may_be_deep(texts: pa.StringArray) -> bool:
    if pc.max(pc.binary_length(texts)).as_py() <= _DEEPEST:
        return False
    levels = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    return bool(pc.max(levels).as_py() > _DEEPEST)


def _numbered(texts: pa.StringArray, digits: pa.StringArray) -> pa.Buffer:
    """Return JSON objects with a number in front of each, one per line."""
    # Without an end, pyarrow 26 fails on arrays of some thousand texts.
    rest = pc.binary_slice(texts.view(pa.binary()), 1, (1 << 31) - 1).view(pa.string())
    # Arrow rejects the comma in front of an empty object of another form, such as `{ }`.
    comma: Any = ","
    if pc.any(pc.equal(texts, "{}")).as_py():
        comma = pc.if_else(pc.equal(texts, "{}"), "", ",")
    lines = pc.binary_join_element_wise(f'{{"{_NUMBER}":', digits, comma, rest, "\n", "")
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")
    return data.slice(ends[lines.offset], ends[lines.offset + len(lines)] - ends[lines.offset])


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _leaf(values: pa.Array, names: Sequence[str]) -> pa.Array:
    for name in names:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values


def _is_finite(values: pa.Array) -> bool:
    return pc.all(pc.is_finite(values)).as_py() is not False


def _not_negative(counts: pa.Int64Array) -> pa.Int64Array:
    return pc.if_else(pc.greater_equal(counts, 0), counts, pa.scalar(None, _INT64))


def _certain_counts(
    nulls: pa.Int64Array, rows: pa.Int64Array, tight: pa.BooleanArray, clean: pa.BooleanArray
) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Return the number of nulls and of rows in each file. A count is null if it is not certain."""
    nulls, rows = _not_negative(nulls), _not_negative(rows)
    # Some writers count only the live rows of a file with a deletion vector.
    wide = pc.and_(pc.fill_null(pc.equal(tight, False), False), pc.invert(clean))
    all_or_none = pc.or_(pc.equal(nulls, 0), pc.fill_null(pc.equal(nulls, rows), False))
    doubtful = pc.and_(wide, pc.invert(pc.fill_null(all_or_none, False)))
    doubtful = pc.or_(doubtful, pc.fill_null(pc.greater(nulls, rows), False))
    return pc.if_else(doubtful, pa.scalar(None, _INT64), nulls), rows


def _certain_arrays(low: pa.Array, high: pa.Array, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """Return certain bounds from the minima and maxima that writers stored, or null."""
    if pt.is_boolean(kind):
        return low, high
    if pt.is_integer(kind):
        return _fitting(low, kind), _fitting(high, kind)
    if pt.is_float64(kind):
        return _next_to(low, pa.int64(), -1), _next_to(high, pa.int64(), 1)
    if pt.is_float32(kind):
        return _next_to(_single(low), pa.int32(), -1), _next_to(_single(high), pa.int32(), 1)
    if pt.is_decimal(kind):
        return _decimals(low, kind, 0), _decimals(high, kind, 1)
    if pt.is_string(kind):
        return _by_value(low, kind, bounds.text_lower, _is_plain), _by_value(high, kind, bounds.text_upper, _is_short)
    if pt.is_timestamp(kind) and (moments := _plain_moments(low, high, kind)) is not None:
        return moments
    return (
        _by_value(low, kind, lambda value: _certain(value, kind)[0]),
        _by_value(high, kind, lambda value: _certain(value, kind)[1]),
    )


def _fitting(values: pa.Int64Array, kind: pa.DataType) -> pa.Array:
    limit = 1 << (kind.bit_width - 1)
    fits = pc.and_(pc.greater_equal(values, -limit), pc.less_equal(values, limit - 1))
    return pc.if_else(fits, values, pa.scalar(None, _INT64)).cast(kind)


def _single(values: pa.DoubleArray) -> pa.FloatArray:
    """Return numbers in single precision, null if a number is too large for it."""
    singles = values.cast(pa.float32(), safe=False)
    return pc.if_else(pc.is_finite(singles), singles, pa.scalar(None, pa.float32()))


def _next_to(values: pa.Array, bits: pa.DataType, direction: int) -> pa.Array:
    """Return the floating-point neighbors of finite numbers: below them if `direction` is -1, above them if it is 1."""
    # Numbers of one sign have the order of their bits, and negative ones the reverse.
    step = pc.if_else(pc.greater(values, 0), pa.scalar(direction, bits), pa.scalar(-direction, bits))
    stepped = pc.add(values.view(bits), step)
    least = pa.scalar(1 if direction > 0 else 1 - (1 << (bits.bit_width - 1)), bits)
    return pc.if_else(pc.equal(values, 0), least, stepped).view(values.type)


def _decimals(values: pa.Decimal256Array, kind: pa.DataType, side: int) -> pa.Array:
    """Return the bounds below (side 0) or above (side 1) of decimals that a writer may have passed through a double."""
    exact = pa.decimal256(76, kind.scale)
    try:
        # Numbers of 49 bits with the column's digits survive a double.
        scaled = values.cast(exact)
        largest = pa.scalar(Decimal(min(1 << 49, 10**kind.precision) - 1).scaleb(-kind.scale), exact)
        if pc.all(pc.less_equal(pc.abs(scaled), largest)).as_py() is not False:
            return scaled.cast(kind)
    except pa.ArrowException:
        pass
    return _by_value(values, kind, lambda value: bounds.decimal_around(value, kind.precision, kind.scale)[side])


def _by_value(
    texts: pa.Array,
    kind: pa.DataType,
    bound: Callable[[Any], Any],
    unchanged: Callable[[pa.StringArray], pa.BooleanArray] | None = None,
) -> pa.Array:
    """Return a bound for each value, computed once for each distinct value that is not its own bound."""
    if unchanged is not None:
        same = pc.fill_null(unchanged(texts), True)
        if pc.all(same).as_py() is not False:
            return texts
        others = _by_value(texts.filter(pc.invert(same)), kind, bound)
        return pc.replace_with_mask(texts, pc.invert(same), others)
    coded = texts.dictionary_encode()
    return pa.array([bound(text) for text in coded.dictionary.to_pylist()], kind).take(coded.indices)


def _is_plain(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.string_is_ascii(texts)


def _is_short(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.and_(pc.string_is_ascii(texts), pc.less(pc.binary_length(texts), bounds.CUT_FROM))


_PLAIN_MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3}|\.[0-9]{6})?Z$"
_FIRST_MOMENT = (bounds.GREGORIAN - bounds.EPOCH).days * 86_400_000_000
_LAST_MOMENT = 253_402_300_799_999_999


def _plain_moments(low: pa.StringArray, high: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, pa.Array] | None:
    """Return the bounds of timestamps that are all in UTC and in one format, or None for other texts."""
    pair = []
    for texts, margin in ((low, -1000), (high, 1000)):
        if pc.all(pc.match_substring_regex(texts, _PLAIN_MOMENT)).as_py() is False:
            return None
        try:
            moments = texts.cast(pa.timestamp("us", "UTC")).view(_INT64)
        except pa.ArrowException:
            return None
        certain = pc.and_(pc.greater_equal(moments, _FIRST_MOMENT), pc.less_equal(moments, _LAST_MOMENT - 1000))
        pair.append(pc.if_else(certain, pc.add(moments, margin), pa.scalar(None, _INT64)).view(kind))
    return pair[0], pair[1]


def _parsed(text: str | None) -> Mapping[str, Any]:
    """Return the statistics of a file with exact numbers, or an empty mapping if they are not JSON."""
    if not text:
        return {}
    try:
        # NaN and the infinities are not JSON, but some writers use them.
        parsed = json.loads(text, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _exact_statistics(
    texts: pa.StringArray, names: Sequence[str], kind: pa.DataType, bounded: bool, clean: pa.BooleanArray
) -> Statistics:
    """Return the statistics of some files. Python reads each of them separately."""
    stats = [_parsed(text) for text in texts.to_pylist()]
    low, high = ([_at(entry.get(name), names) for entry in stats] for name in ("minValues", "maxValues"))
    lower = [_certain(value, kind)[0] if bounded else None for value in low]
    upper = [_certain(value, kind)[1] if bounded else None for value in high]
    rows = _counts(entry.get("numRecords") for entry in stats)
    nulls = _counts(_at(entry.get("nullCount"), names) for entry in stats)
    tight = pa.array([entry.get("tightBounds") is not False for entry in stats], pa.bool_())
    return Statistics(pa.array(lower, kind), pa.array(upper, kind), *_certain_counts(nulls, rows, tight, clean))


def _counts(values: Iterable[Any]) -> pa.Int64Array:
    return pa.array([_count(value) for value in values], _INT64)


def _at(values: Any, names: Sequence[str]) -> Any:
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _certain(value: Any, kind: pa.DataType) -> tuple[Any, Any]:
    """Return certain bounds below and above a minimum or maximum that a writer stored, or None."""
    if value is None or isinstance(value, (dict, list)):
        return None, None
    try:
        around = _around(value, kind)
    except (ValueError, OverflowError, InvalidOperation):
        return None, None
    return around if around is not None else (None, None)


def _around(value: Any, kind: pa.DataType) -> tuple[Any, Any] | None:
    if pt.is_boolean(kind):
        return (value, value) if type(value) is bool else None
    if pt.is_integer(kind):
        limit = 1 << (kind.bit_width - 1)
        return (value, value) if type(value) is int and -limit <= value < limit else None
    if pt.is_floating(kind):
        if isinstance(value, bool):
            return None
        number = float(value)
        return bounds.double_around(number) if pt.is_float64(kind) else bounds.float_around(number)
    if pt.is_decimal(kind):
        if type(value) is not int and not isinstance(value, Decimal):
            return None
        return bounds.decimal_around(Decimal(value), kind.precision, kind.scale)
    if not isinstance(value, str):
        return None
    if pt.is_string(kind):
        return bounds.text_lower(value), bounds.text_upper(value)
    if pt.is_date(kind):
        day = dt.date.fromisoformat(value)
        return (day, day) if day >= bounds.GREGORIAN else None
    if pt.is_timestamp(kind):
        return _moments(value, kind)
    return None


def _moments(text: str, kind: pa.DataType) -> tuple[Any, Any] | None:
    """Return the bounds of a timestamp. Writers truncate it to milliseconds, and some round towards zero."""
    moment = dt.datetime.fromisoformat(text)
    if kind.tz is None:
        moment = moment.replace(tzinfo=None)
        if _ZONE.search(text) and not text.endswith("Z"):
            return None
    elif moment.tzinfo is None:
        return None
    else:
        moment = moment.astimezone(dt.UTC)
    if moment.date() < bounds.GREGORIAN:
        return None
    margin = dt.timedelta(milliseconds=1)
    return moment - margin, moment + margin
