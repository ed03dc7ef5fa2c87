"""Which leaf of a file holds a column of a table: by the format's number or physical name, else by its name."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parsieve._core import FileReader
from parsieve.lake.leaves import PHYSICAL_NAME
from parsieve.predicate.expr import Column

# All that decides which leaf of a file is meant: a name may be another column's in the next state of a table.
LeafKey = tuple[tuple[str, ...], int | None, tuple[bytes | None, ...]]


def leaf_key(schema: pa.Schema, column: Column) -> LeafKey:
    """What two columns have in common that are the same leaf in every file."""
    physical = tuple((field.metadata or {}).get(PHYSICAL_NAME) for field in _fields(schema, column.path))
    return column.path, column.field_id, physical


def find_leaf(reader: FileReader, schema: pa.Schema, column: Column) -> int | None:
    """The leaf's number; None where it is not there, or nobody can be sure."""
    fields = _fields(schema, column.path)
    ids = reader.leaf_ids
    if any(PHYSICAL_NAME in (field.metadata or {}) for field in fields):
        path = [(field.metadata or {}).get(PHYSICAL_NAME, field.name.encode()).decode() for field in fields]
        return _named(reader, path)
    if column.field_id is not None:
        found = [number for number, (known, _) in enumerate(ids) if known == column.field_id]
        return found[0] if len(found) == 1 and not ids[found[0]][1] else None
    return _named(reader, [field.name for field in fields])


def _fields(schema: pa.Schema, path: Sequence[str]) -> list[pa.Field]:
    found: list[pa.Field] = []
    level = list(schema)
    for part in path:
        (field,) = [one for one in level if one.name == part]
        found.append(field)
        level = list(field.type) if pa.types.is_struct(field.type) else []
    return found


def _named(reader: FileReader, path: list[str]) -> int | None:
    # Engines do not agree which column is meant where names differ in their capitals alone.
    folded = [part.casefold() for part in path]
    same = [number for number, names in enumerate(reader.columns) if [part.casefold() for part in names] == folded]
    if len(same) != 1 or reader.columns[same[0]] != path or reader.leaf_ids[same[0]][1]:
        return None
    return same[0]
