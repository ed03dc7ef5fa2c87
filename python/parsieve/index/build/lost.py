"""Find the column of an index in a schema, or describe why the table no longer has it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from parsieve import _core
from parsieve._core import UnsupportedError
from parsieve.index.log.columns import field_id_of, field_with_id
from parsieve.index.log.commit import BloomState, ColumnState, TextState, find_indexed
from parsieve.lake.base import ColumnPath
from parsieve.lake.rows.fields import fields_at
from parsieve.predicate.builder import is_text
from parsieve.predicate.expr import ELEMENT, KEY, VALUE, value_type
from parsieve.predicate.expressions.expression import index_name, is_expression


def find_column(schema: pa.Schema, state: ColumnState | BloomState) -> tuple[ColumnPath, pa.Field] | None:
    """Return the current path and field of an indexed column.

    Return None if the column was dropped, or if this kind of index does not support its current type.
    """
    column = find_indexed(schema, state)
    return column if column is not None and _can_have(state, column[1].type) else None


def why_lost(schema: pa.Schema, state: ColumnState | BloomState) -> str | None:
    """Return why an index has lost its column, as the start of a message; None if the column still exists."""
    if find_column(schema, state) is not None:
        return None
    if is_expression(state.path):
        return f"a column of {index_name(state.path)} was dropped, or has another type now"
    return new_type(schema, state) or f"{index_name(state.path)} was dropped from the table"


def why_dropped(schema: pa.Schema, state: ColumnState | BloomState) -> str | None:
    """Return the message that an update drops an index; None if the column of the index still exists."""
    reason = why_lost(schema, state)
    kind = state.kind if isinstance(state, TextState) else "Bloom" if isinstance(state, BloomState) else "Sieve"
    return None if reason is None else f"{reason}, so its {kind} index was dropped"


def new_type(schema: pa.Schema, state: ColumnState | BloomState) -> str | None:
    """Describe the new type of a lost column, as the start of a message; None if the column was dropped."""
    column = find_indexed(schema, state)
    if column is None and state.field_id is not None:
        column = field_with_id(schema, state.field_id)
    elif column is None:
        column = _deepest(schema, state.path)
    return None if column is None else f"{index_name(column[0])} is of type {column[1].type} now"


def _deepest(schema: pa.Schema, path: ColumnPath) -> tuple[ColumnPath, pa.Field] | None:
    """Return the field with a new type: the field at a path, or the parent that no longer has the rest of the path."""
    fields = fields_at(schema, path)
    if not fields or field_id_of(fields[-1]) is not None:
        # Another column has the name now.
        return None
    rest = path[len(fields) :]
    is_still_struct = rest and rest[0] not in (ELEMENT, KEY, VALUE) and pt.is_struct(fields[-1].type)
    return None if is_still_struct else (path[: len(fields)], fields[-1])


def _can_have(state: ColumnState | BloomState, current: pa.DataType) -> bool:
    """Return whether a kind of index supports a type of single values."""
    if isinstance(state, TextState):
        return is_text(value_type(current))
    try:
        if isinstance(state, BloomState):
            _core.BloomFilter(num_bytes=32, type=current)
        else:
            _core.SieveAxis(current)
    except UnsupportedError:
        return False
    return True
