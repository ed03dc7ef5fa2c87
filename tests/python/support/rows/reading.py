"""Read the rows of Parquet files with pyarrow, as rows of one table, and compare tables bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt


class UnreadableError(Exception):
    """A file has no exact rows of the table, so a read of it may raise an error."""


def table_schema(first: str) -> pa.Schema:
    """Return the schema of a folder: that of its first file, nullable, without dictionaries, views and metadata."""
    return pa.schema([pa.field(column.name, _plain_type(column.type)) for column in pq.read_schema(first)])


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pt.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pt.is_struct(kind):
        return pa.struct([pa.field(child.name, _plain_type(child.type)) for child in kind])
    return _without_views(kind)


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return a type without views. Required fields inside of lists and maps stay required."""
    if pt.is_string_view(kind):
        return pa.string()
    if pt.is_binary_view(kind):
        return pa.binary()
    if not any(f"{name}_view" in str(kind) for name in ("string", "binary")):
        return kind
    # A type that is built again loses the names of its entries.
    if pt.is_struct(kind):
        return pa.struct(list(map(_field_without_views, kind)))
    if pt.is_map(kind):
        return pa.map_(_without_views(kind.key_type), _field_without_views(kind.item_field))
    if pt.is_list(kind):
        return pa.list_(_field_without_views(kind.value_field))
    return pa.large_list(_field_without_views(kind.value_field)) if pt.is_large_list(kind) else kind


def _field_without_views(field: pa.Field) -> pa.Field:
    return field.with_type(_without_views(field.type))


def read_files(paths: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return the rows of some files. Columns are found by name, and missing columns are null."""
    return pa.concat_tables([as_rows(pq.ParquetFile(path).read(), schema) for path in paths])


def as_rows(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file as rows of the table."""
    columns = []
    for field in schema:
        number = table.schema.get_field_index(field.name)
        if number < 0:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
        else:
            column = table.column(number)
            chunks = [convert(chunk, field.type) for chunk in column.chunks]
            columns.append(pa.chunked_array(chunks, field.type))
    return pa.table(columns, schema=schema)


def convert(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the same values as another type. Raise `UnreadableError` if a value would change."""
    if array.type == kind:
        return array
    if pt.is_dictionary(array.type):
        return convert(array.dictionary_decode(), kind)
    if pt.is_struct(array.type) and pt.is_struct(kind):
        children = []
        for child in kind:
            number = array.type.get_field_index(child.name)
            if number < 0:
                children.append(pa.nulls(len(array), child.type))
            else:
                children.append(convert(pc.struct_field(array, [number]), child.type))
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, convert(array, kind.storage_type))
    if isinstance(array.type, pa.BaseExtensionType):
        return convert(array.storage, kind)
    if not has_same_values(array.type, kind) or _is_narrower(array.type, kind):
        raise UnreadableError(f"{array.type} has other values than {kind}")
    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        raise UnreadableError(f"{array.type} is not {kind}: {error}") from error


def has_same_values(source: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether values of one type may be values of another type, so that both can be compared exactly."""
    if source == kind or pt.is_null(source) or _meaning(source) == _meaning(kind):
        return True
    return bool(_plain_type(source) == _plain_type(kind))


def _is_narrower(source: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether parsieve refuses a conversion between numbers or times, even if no value would change."""
    if pt.is_floating(source):
        return not (pt.is_floating(kind) and kind.bit_width > source.bit_width)
    if pt.is_decimal(source):
        return not pt.is_decimal(kind)
    return bool(pt.is_timestamp(source) and pt.is_date(kind))


def _meaning(kind: pa.DataType) -> str:
    """Return what values of a type are: numbers, text, bytes, times of day, or something of their own."""
    if isinstance(kind, pa.BaseExtensionType):
        return _meaning(kind.storage_type)
    if pt.is_dictionary(kind):
        return _meaning(kind.value_type)
    if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
        return "number"
    if pt.is_date(kind) or (pt.is_timestamp(kind) and kind.tz is None):
        return "time"
    if pt.is_timestamp(kind):
        return "instant"
    if pt.is_time(kind):
        return "clock"
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return "text"
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind):
        return "bytes"
    return str(kind)


def take(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    """Return some rows. pyarrow cannot take rows with views, but it can concatenate slices with them."""
    try:
        return table.take(pa.array(rows, pa.int64()))
    except pa.ArrowNotImplementedError:
        return pa.concat_tables([table.slice(0, 0), *(table.slice(row, 1) for row in rows)])


def has_twins(paths: Sequence[str], schema: pa.Schema) -> bool:
    """Return whether a file or the table has two columns whose names differ only in case."""
    for path in paths:
        names = {*pq.read_schema(path).names, *schema.names}
        if len({name.casefold() for name in names}) != len(names):
            return True
    return False


def difference(actual: pa.Table, expected: pa.Table) -> str | None:
    """Return how two tables differ in their schemas with metadata, their rows or their order; None if they do not."""
    if not actual.schema.equals(expected.schema, check_metadata=True):
        return f"schema:\n{actual.schema.to_string()}\nexpected:\n{expected.schema.to_string()}"
    return value_difference(actual, expected)


def value_difference(actual: pa.Table, expected: pa.Table) -> str | None:
    """Return how the rows of two tables with the same types differ; None if they do not."""
    if actual.num_rows != expected.num_rows:
        return f"{actual.num_rows} rows instead of {expected.num_rows}"
    for number, name in enumerate(expected.schema.names):
        left, right = _one_array(actual.column(number)), _one_array(expected.column(number))
        for place, (found, wanted) in enumerate(zip(flat_parts(left), flat_parts(right), strict=True)):
            if not found.equals(wanted):
                return f"column {name!r} ({left.type}), part {place}: {_first_difference(found, wanted)}"
    return None


def _first_difference(found: pa.Array, wanted: pa.Array) -> str:
    if len(found) != len(wanted):
        return f"{len(found)} values instead of {len(wanted)}"
    for place, (left, right) in enumerate(zip(found, wanted, strict=True)):
        if not left.equals(right):
            return f"at {place}, {left!r} instead of {right!r}"
    return "different arrays"


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return pa.nulls(0, column.type)
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def flat_parts(array: pa.Array) -> list[pa.Array]:
    """Return flat arrays that are equal only if the arrays are equal bit for bit, nulls and NaN included."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return flat_parts(array.storage)
    if pt.is_floating(kind):
        return [array.view({16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[kind.bit_width])]
    if pt.is_dictionary(kind):
        return flat_parts(array.dictionary_decode())
    if pt.is_struct(kind):
        return [array.is_valid(), *(part for child in array.flatten() for part in flat_parts(child))]
    if pt.is_map(kind):
        return [_lengths(array), *flat_parts(_elements(array, array.keys)), *flat_parts(_elements(array, array.items))]
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return [_lengths(array), *flat_parts(_elements(array, array.values))]
    return [array]


def _borders(array: pa.Array) -> list[int]:
    """Return where each list begins among the elements, and where the last one ends."""
    kind = array.type
    if pt.is_fixed_size_list(kind):
        return [(array.offset + number) * kind.list_size for number in range(len(array) + 1)]
    return list(array.offsets.to_pylist())


def _lengths(array: pa.Array) -> pa.Array:
    """Return the length of each list, or null."""
    valid = array.is_valid().to_pylist()
    lengths = [end - first for first, end in pairwise(_borders(array))]
    return pa.array([length if is_valid else None for length, is_valid in zip(lengths, valid, strict=True)], pa.int64())


def _elements(array: pa.Array, values: pa.Array) -> pa.Array:
    """Return the elements of all lists that are not null. pyarrow's `flatten` cannot copy every type."""
    ranges: list[list[int]] = []
    for (first, end), is_valid in zip(pairwise(_borders(array)), array.is_valid().to_pylist(), strict=True):
        if is_valid and ranges and ranges[-1][1] == first:
            ranges[-1][1] = end
        elif is_valid:
            ranges.append([first, end])
    slices = [values.slice(first, end - first) for first, end in ranges]
    return pa.concat_arrays(slices) if slices else values.slice(0, 0)


def comparable_rows(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file with the table's columns, but without a change of types outside structs."""
    columns = []
    for field in schema:
        number = table.schema.get_field_index(field.name)
        if number >= 0 and not pt.is_struct(field.type):
            column = table.column(number)
            if not pt.is_nested(field.type) and not has_same_values(column.type, field.type):
                raise UnreadableError(f"{column.type} cannot be compared with {field.type}")
            columns.append(column)
        else:
            columns.append(as_rows(table, pa.schema([field])).column(0))
    return pa.table(columns, names=schema.names)
