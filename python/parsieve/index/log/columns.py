"""Columns by path and by field id: a renamed column keeps its index, and a new one of its name does not get it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from parsieve.errors import ColumnNotFoundError
from parsieve.lake.base import ColumnPath
from parsieve.lake.rows.columns import FIELD_ID, PHYSICAL_NAME, leaf_field


def path_of(column: str | Sequence[str]) -> ColumnPath:
    """A column as a path: dotted text, or a sequence of names where names hold dots."""
    return tuple(column.split(".")) if isinstance(column, str) else tuple(column)


def field_id_of(field: pa.Field) -> int | None:
    """The field's id, where its format has ids."""
    text = (field.metadata or {}).get(FIELD_ID, b"")
    return int(text) if text.isdigit() else None


def current_field(schema: pa.Schema, path: ColumnPath, field_id: int | None) -> tuple[ColumnPath, pa.Field]:
    """Where a column is now. `ColumnNotFoundError` if it is gone, or if another one has taken its name.

    A table may give its columns ids later than it was indexed.
    """
    if field_id is not None:
        for where, field in _leaves((), schema):
            if field_id_of(field) == field_id:
                return where, field
    field = leaf_field(schema, path)
    if field_id_of(field) is not None and (field_id is not None or not _is_named_as_in_files(schema, path)):
        raise ColumnNotFoundError(f"{'.'.join(path)} is another column than the one that was indexed")
    return path, field


def has_other_values(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether a type of the same kind as another one may lack some of its values: a number of another width."""
    sized = (pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_fixed_size_binary)
    return one != other and any(is_sized(kind) for is_sized in sized for kind in (one, other))


def _is_named_as_in_files(schema: pa.Schema, path: ColumnPath) -> bool:
    """Whether a column is the one that had its name before columns had ids: Delta keeps that name for the files."""
    level = list(schema)
    for part in path:
        field = next(one for one in level if one.name == part)
        if (field.metadata or {}).get(PHYSICAL_NAME, part.encode()) != part.encode():
            return False
        level = list(field.type) if pt.is_struct(field.type) else []
    return True


def _leaves(above: ColumnPath, fields: pa.Schema | pa.StructType) -> Iterator[tuple[ColumnPath, pa.Field]]:
    for field in fields:
        if pt.is_struct(field.type):
            yield from _leaves((*above, field.name), field.type)
        else:
            yield (*above, field.name), field
