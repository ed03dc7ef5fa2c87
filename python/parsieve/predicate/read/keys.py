"""Convert lists of keys to values of a column or an expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import time
from decimal import Decimal
from numbers import Integral
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.errors import ColumnNotFoundError
from parsieve.predicate.builder import column_in, distinct, format_value, is_text, out_of_type_leaf, scalar_value
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.expr import Always, Column, Computed, Expr, all_of, any_of, value_type
from parsieve.predicate.expressions.expression import Expression, parse_expression
from parsieve.predicate.literals import NearestValues, Value, nearest_values
from parsieve.predicate.messages import NotUnderstoodError
from parsieve.predicate.times.numpy_times import has_multiple_steps
from parsieve.predicate.times.pandas_times import has_nanoseconds, is_nat, mixes_zones, nanosecond_type


def parse_keys(keys: Mapping[Any, Any], schema: pa.Schema, timezone: str | None = None) -> Expr:
    """Return the predicate of a semi-join: every column equals one of its keys. Nulls among the keys match nothing.

    A name may be an expression. The keys of a composite key are a table with its columns, or a list of tuples.
    `timezone` is the zone of timestamps without one, for columns that have one.
    """
    if not isinstance(keys, Mapping):
        raise TypeError(
            f'keys must be a dict from names to columns, as in {{"id": wanted["id"]}}, not {type(keys).__qualname__}'
        )
    names = ColumnNames(schema)
    parts = [_one_of(find_compared(names, name), values, timezone) for name, values in keys.items()]
    return all_of(*parts) if parts else Always(True)


def find_compared(names: ColumnNames, name: str | Sequence[str]) -> Column | Expression:
    """Return the column or the expression with which keys are compared."""
    try:
        return names.find([name] if isinstance(name, str) else name)
    except ColumnNotFoundError:
        expression = parse_expression(name, names.schema) if isinstance(name, str) else None
        if expression is None:
            raise
        return expression


def _one_of(compared: Column | Expression, values: Any, zone: str | None) -> Expr:
    """Return the condition that a column or an expression equals one of its keys."""
    if isinstance(compared, Column):
        members, others = _convert_keys(compared, _array(compared, values), zone)
        return any_of(column_in(compared, members), *out_of_type_leaf(compared, others))
    if compared.name == "key":
        given, parts = typed_parts(compared, values, zone)
        beyond: list[Expr] = []
        for column, listed, typed in zip(compared.columns, given.flatten(), parts, strict=True):
            beyond += of_other_types(column, listed, typed)
        return any_of(one_of_parts(compared, parts), *beyond)
    return Computed(_one_of(compared.value, values, zone), compared)


def of_other_types(column: Column, given: pa.Array, typed: pa.Array) -> tuple[Expr, ...]:
    """Return a leaf for the keys that the column's type cannot represent; empty if there are none.

    `typed` has the keys as values of this type, and nulls in place of the others.
    """
    others = distinct(given.filter(pc.and_(given.is_valid(), typed.is_null())))
    return out_of_type_leaf(column, list(map(str, others)))


def one_of_parts(key: Expression, parts: Sequence[pa.Array]) -> Expr:
    """Return the condition that the columns of a composite key equal one of its keys.

    The parts of the keys have the types of the columns. A key with a null matches nothing.
    """
    members, is_whole = key.compute(parts)
    # These conditions follow from the last one. Other indexes and statistics may answer them.
    tests = [column_in(column, part.filter(is_whole)) for column, part in zip(key.columns, parts, strict=True)]
    return all_of(*tests, Computed(column_in(key.value, members.drop_null()), key))


def typed_parts(key: Expression, values: Any, zone: str | None = None) -> tuple[pa.StructArray, list[pa.Array]]:
    """Return the keys of a composite key as structs, and their parts as values of the types of its columns.

    The types cannot represent some parts, which no row has. They are null in the second value.
    """
    names = [str(column) for column in key.columns]
    if isinstance(values, list):
        if not all(isinstance(row, tuple) and len(row) == len(names) for row in values):
            raise TypeError(f"the keys of {key} must be tuples of {len(names)} values")
        columns: list[Any] = [[row[number] for row in values] for number in range(len(names))]
    else:
        structs = _array(key.value, values)
        fields = structs.type.names if pa.types.is_struct(structs.type) else []
        if missing := [name for name in names if name not in fields]:
            raise TypeError(
                f"the keys of {key} must be a table with the columns {' and '.join(names)}, or a list of tuples; "
                f"{missing[0]} is missing"
            )
        columns = [_field_of(values, structs, fields.index(name)) for name in names]
    pairs = [typed_keys(column, part, zone) for column, part in zip(key.columns, columns, strict=True)]
    return pa.StructArray.from_arrays([given for given, _ in pairs], names), [typed for _, typed in pairs]


def _field_of(table: Any, structs: pa.StructArray, number: int) -> Any:
    """Return a column of a table that was converted to structs."""
    # Only a pandas table has `iloc`. Its index, if it has names or texts, follows the columns.
    types = table.dtypes.to_list() if hasattr(table, "iloc") else []
    if number < len(types) and types[number].kind == "O":
        # In a column of Python objects, pyarrow drops the nanoseconds of times.
        return table.iloc[:, number]
    return pc.struct_field(structs, [number])


# What pyarrow raises for values of several types, and for values without an Arrow type.
_NO_COMMON_TYPE = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError)
# The decimal places of the smallest power of ten in a table of pyarrow.
_MOST_PLACES = 76


def _is_zoned_time(value: Any) -> bool:
    return isinstance(value, time) and value.tzinfo is not None


def _is_not_for_arrow(value: Any) -> bool:
    """Return whether Arrow would drop a part of a value, or convert a UUID to bytes."""
    return has_nanoseconds(value) or _is_zoned_time(value) or isinstance(value, UUID)


def _array(column: Column, values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    if getattr(getattr(values, "dtype", None), "kind", None) == "O" and any(map(_is_not_for_arrow, values)):
        # A column of Python objects, such as a pandas column of mixed times.
        values = list(values)
    if hasattr(values, "__arrow_c_stream__"):
        return _import(column, values).combine_chunks()
    # A string is iterable, but its characters are not meant as keys.
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        kind = type(values).__qualname__
        raise TypeError(f"the keys of {column} must be an Arrow column or a list of values, not {kind}")
    if not hasattr(values, "dtype"):
        values = [None if is_nat(value) else value for value in values]
    if isinstance(values, list) and is_text(column.value_type):
        # As in a tuple, a UUID stands for its canonical text.
        values = [str(value) if isinstance(value, UUID) else value for value in values]
    if has_multiple_steps(values) or (isinstance(values, list) and any(map(has_multiple_steps, values))):
        raise TypeError(
            f"the keys of {column} are numpy times in steps of several units, "
            "which are not supported; convert them with astype"
        )
    if isinstance(values, list) and mixes_zones(values):
        raise TypeError(f"some of the keys of {column} have a time zone, and others have none")
    if isinstance(values, list) and any(map(_is_zoned_time, values)):
        # Arrow would drop the zone.
        raise TypeError(f"some of the keys of {column} are times of day with a time zone; pass them without one")
    try:
        moment = next(filter(has_nanoseconds, values), None) if isinstance(values, list) else None
        return pa.array(values) if moment is None else pa.array(values, nanosecond_type(moment))
    except _NO_COMMON_TYPE as error:
        # Arrow accepts integers above 2^63 - 1 only with an explicit type. It would truncate other numbers.
        is_exact = pa.types.is_unsigned_integer(column.value_type) and all(
            value is None or isinstance(value, Integral) for value in values
        )
        is_decimal = pa.types.is_decimal(column.value_type) and not any(map(_exceeds_decimals, values))
        if is_exact or is_decimal:
            try:
                return pa.array(values, column.value_type)
            except _NO_COMMON_TYPE:
                pass
        raise TypeError(f"the keys of {column} have no common Arrow type ({error}); pass an Arrow array") from None


def _exceeds_decimals(value: Any) -> bool:
    """Return whether a decimal has so many places that pyarrow would read beyond a table in memory."""
    if not isinstance(value, Decimal) or not value.is_finite():
        return False
    exponent = value.as_tuple().exponent
    return isinstance(exponent, int) and exponent < -_MOST_PLACES


def _import(column: Column, values: Any) -> pa.ChunkedArray:
    """Return a column of another library, such as a Polars series."""
    try:
        return pa.chunked_array(values)
    except pa.ArrowInvalid as error:
        if "format string" not in str(error):
            raise
        # Polars has integers of 128 bits, which Arrow does not have.
        kind = getattr(values, "dtype", getattr(values, "schema", "a type"))
        raise TypeError(
            f"the keys of {column} are of type {kind}, which pyarrow does not support; cast them to another type"
        ) from None


def _convert_keys(column: Column, values: pa.Array, zone: str | None) -> tuple[pa.Array, list[str]]:
    """Return the keys as values of the column's type, and the text of keys that the type cannot represent."""
    values = _plain(values).drop_null()
    converted = _cast_keys(column, values)
    if converted is not None:
        return converted, []
    keys, nearest = _nearest_keys(column, values, zone)
    others = [format_value(key) for key, near in zip(keys, nearest, strict=True) if not near.exact]
    return pa.array([near.floor for near in nearest if near.exact], column.value_type), others


def typed_keys(column: Column, keys: Any, zone: str | None = None) -> tuple[pa.Array, pa.Array]:
    """Return keys as an array, and the same keys as values of the column's type.

    The type cannot represent some keys, which no row has. They are null in the second array.
    """
    given = _plain(_array(column, keys))
    converted = _cast_keys(column, given)
    if converted is None:
        members = distinct(given.drop_null())
        _, nearest = _nearest_keys(column, members, zone)
        values = pa.array([near.floor if near.exact else None for near in nearest], column.value_type)
        converted = values.take(pc.index_in(findable(given), value_set=findable(members)))
    return given, converted


def findable(values: Any) -> Any:
    """Return an array of values as a type that pyarrow can look up."""
    kind = values.type
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values


def _plain(values: pa.Array) -> pa.Array:
    """Return the values without a dictionary, run-end encoding, extension or views."""
    if isinstance(values, pa.DictionaryArray):
        # Arrow cannot cast a dictionary of views.
        return _plain(values.dictionary).take(values.indices)
    plain = value_type(values.type)
    if values.type != plain:
        values = values.storage if isinstance(values, pa.ExtensionArray) else values.cast(plain)
    # Polars has text as views, which many functions of pyarrow do not support.
    if pa.types.is_string_view(plain):
        return values.cast(pa.large_string())
    return values.cast(pa.large_binary()) if pa.types.is_binary_view(plain) else values


def _cast_keys(column: Column, values: pa.Array) -> pa.Array | None:
    """Return the keys in the column's type if Arrow can cast all of them without changing one, or None."""
    type = column.value_type
    if pa.types.is_nested(type):
        raise TypeError(f"{column} is of type {column.type}; only columns of single values can be compared with keys")
    if values.type == type:
        return values
    if pa.types.is_null(values.type) or (is_text(values.type) and is_text(type)):
        return values.cast(type)
    are_integers = pa.types.is_integer(values.type) and pa.types.is_integer(type)
    are_times = pa.types.is_time(values.type) and pa.types.is_time(type)
    if are_times or (are_integers and values.type.bit_width < type.bit_width):
        try:
            return values.cast(type)
        except pa.ArrowInvalid:
            # The column is unsigned and some keys are negative, or it has seconds and some keys have fractions of them.
            return None
    return None


def _nearest_keys(column: Column, values: pa.Array, zone: str | None) -> tuple[list[Value], list[NearestValues]]:
    """Return the distinct keys, and for each of them the nearest values of the column's type."""
    try:
        keys = [value for scalar in distinct(values) if (value := scalar_value(scalar)) is not None]
        return keys, [nearest_values(value, column.value_type, zone) for value in keys]
    except NotUnderstoodError as error:
        raise TypeError(
            f"key type {values.type} does not match column {column} of type {column.type}: {error}"
        ) from None
