"""The elements of lists, and the keys and values of maps, as arrays."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve.predicate.expr import ELEMENT, KEY, VALUE

FIELD_ID = b"PARQUET:field_id"
# Larger than the field ids of all formats, which have 32 bits.
_DERIVED_IDS = 1 << 40


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type holds lists. Maps are not lists."""
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind) or _is_view(kind))


def _is_view(kind: pa.DataType) -> bool:
    return bool(pt.is_list_view(kind) or pt.is_large_list_view(kind))


def element_field(kind: pa.DataType, name: str, container_id: int | None = None) -> pa.Field | None:
    """Return the field of a list's elements, or of a map's keys or values; None if the type has no such field.

    If only the list or map has a field id, its field gets one that depends on it, so that an index of the elements
    follows the list when it is renamed. If the list or map has none, columns are matched by name, so an id that a file
    gives to the elements does not count.

    >>> import pyarrow as pa
    >>> from parsieve.predicate.elements import element_field
    >>> element_field(pa.map_(pa.string(), pa.int64()), "value").type
    DataType(int64)
    """
    field: pa.Field | None = None
    if is_list(kind) and name == ELEMENT:
        field = kind.value_field
    elif pt.is_map(kind):
        field = {KEY: kind.key_field, VALUE: kind.item_field}.get(name)
    if field is None:
        return None
    metadata = dict(field.metadata or {})
    if container_id is None or container_id < 0:
        metadata.pop(FIELD_ID, None)
    else:
        derived = _DERIVED_IDS + (container_id + 1 << 2) + (ELEMENT, KEY, VALUE).index(name)
        metadata.setdefault(FIELD_ID, str(derived).encode())
    return field.with_metadata(metadata or None)


def as_lists(array: pa.Array) -> pa.Array:
    """Return lists or maps as lists. The elements of the lists for maps are structs."""
    if not pt.is_map(array.type):
        return array
    entry = pa.struct([array.type.key_field.with_name(KEY), array.type.item_field.with_name(VALUE)])
    return array.cast(pa.list_(pa.field("entries", entry, nullable=False)))


def lists_of(array: pa.Array, name: str) -> pa.Array:
    """Return the elements of lists, or the keys or values of maps, as lists. Lists for a null may be empty."""
    if name == ELEMENT:
        return array
    lists = as_lists(array)
    entries = pc.list_flatten(lists)
    return pa.LargeListArray.from_arrays(list_ends(lists), pc.struct_field(entries, [(KEY, VALUE).index(name)]))


def list_ends(array: pa.Array) -> pa.Array:
    """Return 0 and the position after each list in the flat elements of the lists."""
    return running_sums(pc.fill_null(pc.list_value_length(array), 0))


def running_sums(values: pa.Array) -> pa.Array:
    """Return 0 and the sum of each value and the values before it."""
    return pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(values.cast(pa.int64()))])


def flat(array: pa.Array) -> pa.Array:
    """Return the elements of an array of lists one after the other, and other arrays unchanged."""
    return pc.list_flatten(array) if is_list(array.type) else array


def elements_batch(elements: pa.Array) -> pa.RecordBatch:
    """Return the elements of lists as a batch with the names that the conditions of `AnyElement` use."""
    if pt.is_struct(elements.type):
        return pa.RecordBatch.from_struct_array(elements)
    return pa.RecordBatch.from_arrays([elements], names=[ELEMENT])
