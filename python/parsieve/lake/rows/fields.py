"""Fields of a schema by their paths, in constant time for each name."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt


def fields_at(schema: pa.Schema, path: Sequence[str]) -> list[pa.Field]:
    """Return the fields along a path through structs; fewer if the path ends early.

    >>> schema = pa.schema({"point": pa.struct({"x": pa.int64()})})
    >>> [field.name for field in fields_at(schema, ("point", "x"))]
    ['point', 'x']
    >>> fields_at(schema, ("line", "x"))
    []
    """
    fields: list[pa.Field] = []
    level: pa.Schema | pa.StructType = schema
    for name in path:
        numbers = level.get_all_field_indices(name)
        if not numbers:
            break
        fields.append(level.field(numbers[0]))
        level = fields[-1].type
        if not pt.is_struct(level):
            break
    return fields
