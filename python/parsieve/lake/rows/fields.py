"""Fields of a schema by their paths, in constant time for each name."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.predicate.elements import FIELD_ID, element_field
from parsieve.predicate.expressions.expression import computed


def fields_at(schema: pa.Schema, path: Sequence[str]) -> list[pa.Field]:
    """Return the fields along a path through structs; fewer if the path ends early.

    The path may end with the elements of lists, or with the keys or values of maps. It may be of an expression.

    >>> schema = pa.schema({"point": pa.struct({"x": pa.int64()})})
    >>> [field.name for field in fields_at(schema, ("point", "x"))]
    ['point', 'x']
    >>> fields_at(schema, ("line", "x"))
    []
    >>> fields_at(pa.schema({"tags": pa.list_(pa.string())}), ("tags", "element"))[1].type
    DataType(string)
    """
    expression = computed(path, schema)
    if expression is not None:
        return expression.fields
    fields: list[pa.Field] = []
    level: pa.Schema | pa.DataType = schema
    for name in path:
        if fields and not pt.is_struct(level):
            text = (fields[-1].metadata or {}).get(FIELD_ID, b"")
            inner = element_field(level, name, int(text) if text.isdigit() else None)
            fields += [] if inner is None else [inner]
            break
        numbers = level.get_all_field_indices(name)
        if not numbers:
            break
        fields.append(level.field(numbers[0]))
        level = fields[-1].type
    return fields


def refuse_nul(schema: pa.Schema) -> None:
    """Raise `UnsupportedError` if a name contains a NUL. Arrow's C interface to engines would end the name there."""
    pending = list(schema)
    while pending:
        field = pending.pop()
        if "\0" in field.name:
            raise UnsupportedError(
                f"the name of column {field.name!r} contains a NUL, which engines do not support; rename the column, "
                "or use plan and to_arrow"
            )
        pending.extend(field.type.field(number) for number in range(field.type.num_fields))
