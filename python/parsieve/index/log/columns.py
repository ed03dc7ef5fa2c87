"""Find indexed columns in a schema, by path and by field id.

A renamed column keeps its index. A new column with the old name does not get it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from parsieve._core import FormatError, UnsupportedError
from parsieve.errors import ColumnNotFoundError
from parsieve.io import document
from parsieve.lake.base import ColumnPath
from parsieve.lake.rows.columns import PHYSICAL_NAME, is_repeated, leaf_field
from parsieve.lake.rows.fields import fields_at
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.elements import FIELD_ID, element_field, is_list
from parsieve.predicate.expr import ELEMENT, KEY, VALUE, Column
from parsieve.predicate.expressions.expression import FORMS, Expression, computed, parse_call, parse_expression

if TYPE_CHECKING:
    from parsieve._typing import ColumnName


def path_of(column: str | Sequence[str]) -> ColumnPath:
    """Return the path of a column, given as a dotted name or as a sequence of names."""
    return tuple(column.split(".")) if isinstance(column, str) else tuple(column)


def paths_of(columns: Sequence[str | Sequence[str]]) -> list[ColumnPath]:
    """Return the distinct paths of the columns to index. Raises `ValueError` if there are none."""
    paths = list(dict.fromkeys(path_of(column) for column in columns))
    if not paths:
        raise ValueError("name at least one column to index")
    return paths


def column_paths(columns: ColumnName | Sequence[ColumnName], schema: pa.Schema) -> list[ColumnPath]:
    """Return the paths of columns that a caller named: one name, or a list of names."""
    by_name = ColumnNames(schema)
    return [_values_path(by_name, [name] if isinstance(name, str) else name) for name in listed_names(columns)]


def listed_names(columns: ColumnName | Sequence[ColumnName]) -> list[ColumnName]:
    """Return the names that a caller passed: one name, or a list of names."""
    if not isinstance(columns, Iterable):
        raise TypeError(f"columns must be a name, or a list of names, not {columns!r}")
    # A name may be the empty text, but `()` means no columns.
    return [columns] if columns != () and isinstance(columns, str | tuple) else list(columns)


def _values_path(names: ColumnNames, parts: Sequence[str]) -> ColumnPath:
    """Return the path of the values to index: of a column, of the elements of a list, or of a map's keys or values."""
    try:
        column = names.find(parts)
    except ColumnNotFoundError as error:
        expression = parse_expression(parts[0], names.schema) if len(parts) == 1 else None
        if expression is not None:
            return expression.value.path
        *above, last = parts if len(parts) > 1 else parts[0].rsplit(".", 1)
        container = _container(names, above, last) if above and last in _GROUPS else None
        if container is None or element_field(container.type, last) is None:
            if not any(sign in parts[0] for sign in ("(", "->", "::")):
                raise
            hint = _step_hint(parts[0])
            raise ColumnNotFoundError(f"{error}. The expressions that can be indexed are {FORMS}{hint}") from None
        return (*container.path, last)
    if pt.is_map(column.type):
        raise UnsupportedError(f"{column} is a map; index its keys as {column}.key, or its values as {column}.value")
    return (*column.path, ELEMENT) if is_list(column.type) else column.path


_STEP = re.compile(r"\s*(date_trunc|trunc|year|month|day|hour|date|date_part|extract)\s*\(", re.IGNORECASE)


def _step_hint(text: str) -> str:
    """Return how to index a part of a timestamp."""
    return ". For a day, hour or year, index the timestamp itself" if _STEP.match(text) else ""


# The group between a column and its values in Parquet.
_GROUPS = {ELEMENT: "list", KEY: "key_value", VALUE: "key_value"}


def _container(names: ColumnNames, parts: Sequence[str], values: str) -> Column:
    """Return a list or map by the name of its column, or by its path in Parquet, such as `tags.list`."""
    try:
        return names.find(parts)
    except ColumnNotFoundError:
        *above, last = parts if len(parts) > 1 else parts[0].rsplit(".", 1)
        if not above or last != _GROUPS[values]:
            raise
        return names.find(above)


def indexed_name(name: ColumnName, indexed: Collection[ColumnPath], schema: pa.Schema | None = None) -> ColumnName:
    """Return the path of an index by the name of its column, or the name if there is no such index.

    A name may contain a dot, and a list has elements. With a schema, the name is looked up as by `column_paths`.
    """
    whole, parts = (name,) if isinstance(name, str) else tuple(name), path_of(name)
    paths = [whole, parts, (*parts, ELEMENT), (*whole, ELEMENT)]
    if len(parts) > 2 and parts[-2] == _GROUPS.get(parts[-1]):
        paths.append((*parts[:-2], parts[-1]))
    if schema is not None:
        with suppress(ColumnNotFoundError, UnsupportedError):
            paths += column_paths([name], schema)
    return next((path for path in paths if path in indexed), name)


def field_id_of(field: pa.Field) -> int | None:
    """Return the id of a field, or None if the table has no field ids."""
    text = (field.metadata or {}).get(FIELD_ID, b"")
    return int(text) if text.isdigit() else None


def current_field(
    schema: pa.Schema, path: ColumnPath, field_id: int | None, column_ids: Sequence[int] = ()
) -> tuple[ColumnPath, pa.Field]:
    """Return the current path and field of an indexed column, or of an expression of columns with some ids.

    Raises `ColumnNotFoundError` if the column was dropped, even if another column now has its name. Raises
    `UnsupportedError` if the column is now nested. A table may get field ids after it was indexed.
    """
    expression = current_expression(schema, path, field_id, column_ids)
    if expression is not None:
        return expression.value.path, expression.fields[-1]
    column = _field_in_files(schema, path) if field_id is None else field_with_id(schema, field_id)
    if column is not None and not pt.is_nested(column[1].type):
        return column
    field = leaf_field(schema, path if column is None else column[0])
    if field_id is not None or field_id_of(field) is not None:
        raise ColumnNotFoundError(f"{'.'.join(path)} is not the column that was indexed; that one was dropped")
    return path, field


def find_field(
    schema: pa.Schema, path: ColumnPath, field_id: int | None, column_ids: Sequence[int] = ()
) -> tuple[ColumnPath, pa.Field] | None:
    """Return what `current_field` returns, or None if the column was dropped or is now nested."""
    try:
        return current_field(schema, path, field_id, column_ids)
    except (ColumnNotFoundError, UnsupportedError):
        return None


def field_with_id(schema: pa.Schema, field_id: int) -> tuple[ColumnPath, pa.Field] | None:
    """Return the path and the field that has a field id. The field is not a struct, but may be a list or a map."""
    return next(((path, field) for path, field in _leaves((), schema) if field_id_of(field) == field_id), None)


def current_expression(
    schema: pa.Schema, path: ColumnPath, field_id: int | None, column_ids: Sequence[int] = ()
) -> Expression | None:
    """Return the expression of an index. Return None if it has none, or if the schema lacks a column of the expression.

    `column_ids` are the field ids that the columns had, if they had any.
    """
    expression = computed(path, schema)
    if expression is not None and expression.value.field_id == field_id:
        return expression
    return _renamed_expression(schema, path, field_id, column_ids)


def _renamed_expression(
    schema: pa.Schema, path: ColumnPath, field_id: int | None, column_ids: Sequence[int]
) -> Expression | None:
    """Return the expression of an index whose columns were renamed, or got field ids."""
    call = parse_call(path[0]) if tuple(path[1:]) == (ELEMENT,) else None
    if call is None:
        return None
    before, now = [], []
    for number, name in enumerate(call.paths):
        column_id = column_ids[number] if number < len(column_ids) else None
        found = find_field(schema, name, column_id)
        if found is None:
            return None
        before.append(Column(name, found[1].type, column_id))
        now.append(Column(found[0], found[1].type, field_id_of(found[1])))
    try:
        expression = call.of(now)
        # The id proves that these are the columns. A list may have the name of the expression, so look that up.
        is_same = call.of(before).value.field_id == field_id and computed(expression.value.path, schema) == expression
    except UnsupportedError:
        return None
    return expression if is_same else None


def column_ids_of(schema: pa.Schema, path: ColumnPath) -> tuple[int, ...]:
    """Return the field ids of the columns of an expression. There are none for a column, or if the table has no ids."""
    expression = computed(path, schema)
    ids = [] if expression is None else [column.field_id for column in expression.columns]
    return tuple(number for number in ids if number is not None)


def differ_in_width(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether two types of the same kind differ in width, so that one may lack values of the other."""
    sized = (pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_fixed_size_binary)
    return left != right and any(is_sized(data_type) for is_sized in sized for data_type in (left, right))


def encode_type(data_type: pa.DataType) -> str:
    """Return a type as an Arrow schema message, for documents."""
    return base64.b64encode(pa.schema([pa.field("", data_type)]).serialize()).decode()


def decode_type(fields: document.Fields, source: str) -> pa.DataType:
    """Return the type in the field "arrow" of a document."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields.get("arrow", str), validate=True)))
        return schema.field(0).type
    except (ValueError, OSError, IndexError, pa.ArrowException) as error:
        raise FormatError(f"{source}: the type of a column cannot be read: {error}") from error


def _field_in_files(schema: pa.Schema, path: ColumnPath) -> tuple[ColumnPath, pa.Field] | None:
    """Return the path and the field of the column that had a path before columns had ids: Delta's files keep it."""
    fields = fields_at(schema, path)
    if len(fields) == len(path) and field_id_of(fields[-1]) is None:
        return path, fields[-1]
    return next(((now, field) for now, field in _leaves((), schema) if _path_in_files(schema, now) == path), None)


def _path_in_files(schema: pa.Schema, path: ColumnPath) -> ColumnPath:
    depth = len(path) - is_repeated(schema, path)
    named = fields_at(schema, path)[:depth]
    names = [(field.metadata or {}).get(PHYSICAL_NAME, field.name.encode()).decode() for field in named]
    return (*names, *path[depth:])


def _leaves(above: ColumnPath, fields: pa.Schema | pa.StructType) -> Iterator[tuple[ColumnPath, pa.Field]]:
    for field in fields:
        if pt.is_struct(field.type):
            yield from _leaves((*above, field.name), field.type)
            continue
        yield (*above, field.name), field
        for part in (ELEMENT, KEY, VALUE):
            inner = element_field(field.type, part, field_id_of(field))
            if inner is not None:
                yield (*above, field.name, part), inner
