"""Read the statistics of one column from the JSON in Delta's log, without losing precision.

The compiled reader leaves out everything that Python would read in another way. Python reads these files one by one.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve._core import delta_statistics
from parsieve.lake import bounds
from parsieve.lake.base import ColumnPath, Statistics
from parsieve.lake.delta.schema import WIDENED, physical
from parsieve.lake.rows.columns import leaf_field
from parsieve.lake.rows.fields import fields_at

_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
_INT64 = pa.int64()
# A type for decimals of any precision and scale.
_DECIMAL = pa.decimal256(76, 38)


def row_counts(stats: pa.ChunkedArray) -> pa.Int64Array:
    """Return the number of rows of each file, or null if its statistics do not contain it."""
    return _joined([_row_counts(texts) for texts in stats.chunks], _INT64)


def _row_counts(texts: pa.StringArray) -> pa.Int64Array:
    rows, *_, is_read = delta_statistics(texts)
    rest = _counts(_parsed(text).get("numRecords") for text in texts.filter(pc.invert(is_read)).to_pylist())
    return _not_negative(_filled(rows, is_read, rest))


def statistics_of(stats: pa.ChunkedArray, schema: pa.Schema, path: ColumnPath, clean: pa.BooleanArray) -> Statistics:
    """Return the certain bounds and counts of a column in each file."""
    kind = leaf_field(schema, path).type
    fields = fields_at(schema, path)
    names = [physical(field) for field in fields]
    # A widened number was printed with the digits of the narrower type.
    bounded = pt.is_integer(kind) or not any(WIDENED in (field.metadata or {}) for field in fields)
    parts: list[Statistics] = []
    at = 0
    for texts in stats.chunks:
        parts.append(_statistics(texts, names, kind, bounded, clean.slice(at, len(texts))))
        at += len(texts)
    return Statistics(
        lower=_joined([part.lower for part in parts], kind),
        upper=_joined([part.upper for part in parts], kind),
        null_count=_joined([part.null_count for part in parts], _INT64),
        value_count=_joined([part.value_count for part in parts], _INT64),
    )


def _statistics(
    texts: pa.StringArray, names: Sequence[str], kind: pa.DataType, bounded: bool, clean: pa.BooleanArray
) -> Statistics:
    stored = _stored_as(kind)
    if stored is None:
        return _exact_statistics(texts, names, kind, bounded, clean)
    rows, tight, nulls, low, high, is_read = delta_statistics(texts, list(names), stored)
    unknown = pa.nulls(len(texts), kind)
    lower, upper = _certain_arrays(low, high, kind) if bounded else (unknown, unknown)
    read = Statistics(lower, upper, *_certain_counts(nulls, rows, tight, clean))
    if pc.all(is_read).as_py() is not False:
        return read
    is_left = pc.invert(is_read)
    rest = _exact_statistics(texts.filter(is_left), names, kind, bounded, clean.filter(is_left))
    return Statistics(
        lower=_filled(read.lower, is_read, rest.lower),
        upper=_filled(read.upper, is_read, rest.upper),
        null_count=_filled(read.null_count, is_read, rest.null_count),
        value_count=_filled(read.value_count, is_read, rest.value_count),
    )


def _filled(values: pa.Array, is_read: pa.BooleanArray, rest: pa.Array) -> pa.Array:
    """Return the values of all files. `rest` has the values of the files that were not read."""
    return pc.replace_with_mask(values, pc.invert(is_read), rest) if len(rest) else values


def _joined(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    return pa.concat_arrays(list(parts)) if parts else pa.array([], kind)


def _stored_as(kind: pa.DataType) -> str | None:
    """Return how minima and maxima are written, or None if only Python reads them exactly."""
    if pt.is_boolean(kind):
        return "bool"
    if pt.is_integer(kind):
        return "int64"
    if pt.is_floating(kind):
        return "float64"
    if pt.is_decimal(kind):
        return "decimal"
    return "string" if pt.is_string(kind) or pt.is_date(kind) or pt.is_timestamp(kind) else None


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
        return _decimals(low.cast(_DECIMAL), kind, 0), _decimals(high.cast(_DECIMAL), kind, 1)
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
# Spark prints moments in the zone of its session, without the seconds of the zone's offset. Offsets such as -00:44:30
# were last in use in 1972, but a session may have any offset.
_MINUTE = dt.timedelta(minutes=1)
_WHOLE_OFFSETS = dt.datetime(1973, 1, 1, tzinfo=dt.UTC)
_FIRST_WHOLE_OFFSET = int(_WHOLE_OFFSETS.timestamp()) * 1_000_000
_LAST_MOMENT = 253_402_300_799_999_999


def _plain_moments(low: pa.StringArray, high: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, pa.Array] | None:
    """Return the bounds of timestamps that are all in UTC and in one format, or None for other texts."""
    pair = []
    for texts, side in ((low, -1), (high, 1)):
        if pc.all(pc.match_substring_regex(texts, _PLAIN_MOMENT)).as_py() is False:
            return None
        try:
            moments = texts.cast(pa.timestamp("us", "UTC")).view(_INT64)
        except pa.ArrowException:
            return None
        certain = pc.and_(pc.greater_equal(moments, _FIRST_MOMENT), pc.less_equal(moments, _LAST_MOMENT - 1000))
        is_old = pc.less(moments, -(1 << 63) if kind.tz is None else _FIRST_WHOLE_OFFSET)
        margin = pc.if_else(is_old, pa.scalar(side * 60_000_000, _INT64), pa.scalar(side * 1000, _INT64))
        pair.append(pc.if_else(certain, pc.add(moments, margin), pa.scalar(None, _INT64)).view(kind))
    return pair[0], pair[1]


def _parsed(text: str | None) -> Mapping[str, Any]:
    """Return the statistics of a file with exact numbers, or an empty mapping if they are not JSON."""
    if not text:
        return {}
    try:
        # NaN and the infinities are not JSON, but some writers use them.
        parsed = json.loads(text, parse_float=_exact_number, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _exact_number(text: str) -> Decimal | None:
    """Return a number, or None if its exponent is too large for `Decimal`."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


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
    except (ValueError, ArithmeticError):
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
    """Return the bounds of a timestamp.

    Writers truncate it to milliseconds, and some round towards zero. They also truncate the zone's offset to minutes.
    """
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
    is_printed_in_zone = kind.tz is not None and (not text.endswith("Z") or moment < _WHOLE_OFFSETS)
    margin = _MINUTE if is_printed_in_zone else dt.timedelta(milliseconds=1)
    return moment - margin, moment + margin
