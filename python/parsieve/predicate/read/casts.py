"""Casts of columns and literals, and calendar steps: the hour, day or year that contains a timestamp."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from parsieve.predicate.builder import Operand, StepForm, is_text, is_zoned, scalar_value
from parsieve.predicate.expr import value_type
from parsieve.predicate.literals import Value, nearest_values
from parsieve.predicate.messages import NotUnderstoodError, shortened, type_name
from parsieve.predicate.times.steps import STEPS, WHOLE_DAYS
from parsieve.predicate.times.temporal import NANOS


def cast_value(value: Value | None, to: pa.DataType, zone: str | None) -> Value | None:
    """Cast a literal; only casts that do not change the value are supported."""
    if value is None:
        return None
    nearest = nearest_values(value, to, zone)
    if not nearest.exact:
        raise NotUnderstoodError(f"the cast to {to} changes the value; write a value of that type")
    return scalar_value(nearest.floor)


def cast_operand(operand: Operand, to: pa.DataType, zone: str | None) -> Operand:
    """Cast a column; only casts that keep every value, and casts of a timestamp to a date, are supported.

    Args:
        operand: The column.
        to: The type of the result.
        zone: The time zone of dates: that of the session in SQL, and that of the column in pyarrow and Polars.
    """
    source = operand.column.value_type
    if operand.step is not None:
        return _cast_step(operand, to)
    if _keeps_values(source, value_type(to)):
        return operand if source == value_type(to) else replace(operand, cast=True)
    if pa.types.is_timestamp(source) and pa.types.is_date(to):
        return step_operand(Operand(operand.column), "day", zone, "date")
    raise NotUnderstoodError(
        f"casting {operand.column} from {source} to {to} may change values; compare {operand.column} itself"
    )


def _cast_step(operand: Operand, to: pa.DataType) -> Operand:
    """Cast the beginning of a step to a date or a timestamp."""
    without_zone = pa.types.is_timestamp(to) and to.tz is None and not is_zoned(operand.column)
    if operand.form != "year" and operand.step in WHOLE_DAYS and (pa.types.is_date(to) or without_zone):
        return replace(operand, form="date" if pa.types.is_date(to) else "timestamp")
    raise NotUnderstoodError(f"casting the {operand.step} of {operand.column} to {to} is not supported")


def step_operand(operand: Operand, step: str, zone: str | None, form: StepForm = "timestamp") -> Operand:
    """Return the step of the calendar that contains a timestamp or a date, for comparisons with its beginning.

    Args:
        operand: The column.
        step: One of `STEPS`.
        zone: The time zone of the calendar, as in `cast_operand`.
        form: How the beginning of the step is written.
    """
    column, source = operand.column, operand.column.value_type
    if step not in STEPS:
        raise NotUnderstoodError(f"the step {shortened(repr(step))} is not supported; use one of {', '.join(STEPS)}")
    if not (pa.types.is_timestamp(source) or pa.types.is_date(source)):
        raise NotUnderstoodError(
            f"{column} is {type_name(source)}; only timestamps and dates can be truncated to the {step}"
        )
    if operand.step is not None or operand.cast:
        raise NotUnderstoodError(f"only {column} itself can be truncated to the {step}")
    if is_zoned(column) and zone not in ("UTC", "Etc/UTC", "Z", "+00:00"):
        described = "date" if form == "date" else step
        raise NotUnderstoodError(
            f"the {described} of {column} depends on the time zone, and only UTC is supported; compare the timestamp, "
            "or pass timezone='UTC' with SQL"
        )
    return Operand(column, step, form)


def _keeps_values(source: pa.DataType, to: pa.DataType) -> bool:
    types = pa.types
    if source == to or (is_text(source) and is_text(to)):
        return True
    if types.is_integer(source):
        digits = _digits(source)
        if types.is_integer(to):
            signs = types.is_signed_integer(to) or not types.is_signed_integer(source)
            widens = to.bit_width > source.bit_width or (
                to.bit_width == source.bit_width and types.is_signed_integer(source) == types.is_signed_integer(to)
            )
            return bool(signs and widens)
        if types.is_decimal(to):
            return bool(to.precision - to.scale >= digits)
        return bool(types.is_floating(to)) and bool(source.bit_width < {16: 8, 32: 24, 64: 53}[to.bit_width])
    if types.is_floating(source) and types.is_floating(to):
        return bool(to.bit_width >= source.bit_width)
    if types.is_decimal(source) and types.is_decimal(to):
        return bool(to.scale >= source.scale and to.precision - to.scale >= source.precision - source.scale)
    if types.is_timestamp(source) and types.is_timestamp(to):
        # A finer unit overflows for distant dates. Engines fail on these; here the comparison is exact.
        return bool((source.tz is None) == (to.tz is None)) and NANOS[to.unit] <= NANOS[source.unit]
    return bool(types.is_date(source) and types.is_timestamp(to)) and to.tz is None


def _digits(type: pa.DataType) -> int:
    return {8: 3, 16: 5, 32: 10, 64: 20}[type.bit_width]


def own_zone(operand: Operand) -> str | None:
    """Return the time zone of a column, which decides its dates in pyarrow and Polars."""
    zone: str | None = getattr(operand.column.value_type, "tz", None)
    return zone
