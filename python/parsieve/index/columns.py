"""Columns by path and by field id: a renamed column keeps its index, and a new one of its name does not get it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from parsieve.errors import ColumnNotFoundError
from parsieve.lake.base import ColumnPath
from parsieve.lake.leaves import leaf_field

FIELD_ID = b"PARQUET:field_id"


def path_of(column: str | Sequence[str]) -> ColumnPath:
    """A column as a path: dotted text, or a sequence of names where names hold dots."""
    return tuple(column.split(".")) if isinstance(column, str) else tuple(column)


def field_id_of(field: pa.Field) -> int | None:
    """The field's id, where its format has ids."""
    text = (field.metadata or {}).get(FIELD_ID, b"")
    return int(text) if text.isdigit() else None


def current_field(schema: pa.Schema, path: ColumnPath, field_id: int | None) -> tuple[ColumnPath, pa.Field]:
    """Where a column is now. `ColumnNotFoundError` if it is gone, or if another one has taken its name."""
    if field_id is not None:
        for where, field in _leaves((), schema):
            if field_id_of(field) == field_id:
                return where, field
    field = leaf_field(schema, path)
    if field_id is not None and field_id_of(field) is not None:
        raise ColumnNotFoundError(f"{'.'.join(path)} is another column than the one that was indexed")
    return path, field


def _leaves(above: ColumnPath, fields: pa.Schema | pa.StructType) -> Iterator[tuple[ColumnPath, pa.Field]]:
    for field in fields:
        if pt.is_struct(field.type):
            yield from _leaves((*above, field.name), field.type)
        else:
            yield (*above, field.name), field
