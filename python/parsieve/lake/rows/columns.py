"""Columns of a schema by path, and values of a file's type as those of the table's: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError, no_column
from parsieve.lake.base import ColumnPath
from parsieve.lake.rows.fields import fields_at

FIELD_ID = b"PARQUET:field_id"
# What Delta's files call a column, where that may be another name than the table's.
PHYSICAL_NAME = b"delta.columnMapping.physicalName"


Find = Callable[[pa.Field], int | None]


@dataclass(frozen=True, slots=True)
class Matching:
    """How a file's columns are those of its table."""

    # Takes the fields of one level of a file, and returns a function that finds the one that holds a field of the
    # table; None if the file has none. Each level is indexed once, however many columns are looked up in it.
    index: Callable[[Sequence[pa.Field]], Find]
    # What stands for columns that a file lacks, by field id; null for others.
    defaults: Mapping[bytes, object] = field(default_factory=dict)

    def places(self, wanted: Iterable[pa.Field], among: Sequence[pa.Field]) -> list[int | None]:
        """Return where the file holds each field of the table."""
        return list(map(self.index(among), wanted))

    def absent(self, column: pa.Field, rows: int) -> pa.Array:
        """The values of a column that a file lacks."""
        number: bytes = (column.metadata or {}).get(FIELD_ID, b"")
        return constant(self.defaults.get(number), column.type, rows)


def constant(value: object, kind: pa.DataType, rows: int) -> pa.Array:
    """The same value for all rows."""
    return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)


def leaf_field(schema: pa.Schema, path: ColumnPath) -> pa.Field:
    """The field at a path through structs; it must hold values, and no lists may lie on the way."""
    if not path:
        raise ColumnNotFoundError("the path of a column is empty")
    fields = fields_at(schema, path)
    if len(fields) < len(path):
        raise no_column(".".join(path), schema.names)
    found = fields[-1]
    if pt.is_nested(found.type):
        raise UnsupportedError(
            f"{'.'.join(path)} is a {found.type}; only columns of single values, alone or in structs, can be used"
        )
    return found


def leaf_of(batch: pa.RecordBatch, path: ColumnPath) -> pa.Array:
    """The values at a path of a batch; a struct that is null makes its leaves null."""
    array = batch.column(batch.schema.get_field_index(path[0]))
    for part in path[1:]:
        array = pc.struct_field(array, [array.type.get_field_index(part)])
    return array


def pruned(schema: pa.Schema, paths: Sequence[ColumnPath]) -> pa.Schema:
    """The schema with nothing but the leaves at some paths and the structs around them."""

    def keep(fields: Sequence[pa.Field], wanted: list[ColumnPath]) -> list[pa.Field]:
        kept = []
        for one in fields:
            below = [path[1:] for path in wanted if path[0] == one.name]
            if below and () not in below:
                one = one.with_type(pa.struct(keep(list(one.type), below)))
            if below:
                kept.append(one)
        return kept

    return pa.schema(keep(list(schema), list(paths)))


def by_name(among: Sequence[pa.Field]) -> Find:
    """Find fields by name. Some engines take names that differ only in case for the same column, so those fail."""
    places: dict[str, list[int]] = {}
    for number, one in enumerate(among):
        places.setdefault(one.name, []).append(number)
    folded = {name.casefold() for name in places}

    def find(field: pa.Field) -> int | None:
        same = places.get(field.name, ())
        if len(same) == 1:
            return same[0]
        if same or field.name.casefold() in folded:
            names = ", ".join(repr(one.name) for one in among)
            raise UnsupportedError(f"engines disagree about which column of a file is {field.name!r}: it has {names}")
        return None

    return find


def places_by_id(among: Sequence[pa.Field]) -> dict[bytes | None, int]:
    """Return the first field of each id; None stands for fields without one."""
    places: dict[bytes | None, int] = {}
    for number, one in enumerate(among):
        places.setdefault((one.metadata or {}).get(FIELD_ID), number)
    return places


BY_NAME = Matching(by_name)


def conform(array: pa.Array, target: pa.DataType, matching: Matching) -> pa.Array:
    """The same values as another type; `UnsupportedError` where a value would change."""
    source = array.type
    # Fields that match by id may have changed places under equal names.
    if isinstance(source, pa.BaseExtensionType) or isinstance(target, pa.BaseExtensionType):
        return _extended(array, target, matching)
    if source == target and (matching == BY_NAME or not pt.is_nested(target)):
        return array
    if pt.is_struct(source) and pt.is_struct(target):
        valid = array.is_valid() if array.null_count else None
        fields, children = list(target), []
        find = matching.index(list(source))
        for one in fields:
            number = find(one)
            if number is None:
                children.append(matching.absent(one, len(array)))
            else:
                children.append(conform(pc.struct_field(array, [number]), one.type, matching))
        mask = None if valid is None else pc.invert(valid)
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if _is_list(source) and _is_list(target):
        # `flatten` takes the elements of null lists out, and `fill_null` gives them no length.
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        total = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
        values = conform(array.flatten(), target.value_type, matching)
        kind = pa.LargeListArray if pt.is_large_list(target) else pa.ListArray
        offsets = total if pt.is_large_list(target) else total.cast(pa.int32())
        mask = array.is_null() if array.null_count else None
        return kind.from_arrays(offsets, values, type=target, mask=mask)
    if pt.is_map(source) and pt.is_map(target):
        # A copy begins at its own first entry, as a slice does not.
        whole = array.take(pa.array(range(len(array)), pa.int64()))
        keys = conform(whole.keys, target.key_type, matching)
        items = conform(whole.items, target.item_type, matching)
        mask = whole.is_null() if whole.null_count else None
        return pa.MapArray.from_arrays(whole.offsets, keys, items, mask=mask).cast(target)
    if not _is_exact(source, target):
        raise UnsupportedError(
            f"a file holds {source} where the table has {target}, which is not the same value exactly"
        )
    try:
        return array.cast(target, safe=True)
    except pa.ArrowInvalid as lossy:
        raise UnsupportedError(f"a file holds {source} where the table has {target}: {lossy}") from lossy


def _extended(array: pa.Array, target: pa.DataType, matching: Matching) -> pa.Array:
    """UUID and the like: their storage holds the values."""
    if array.type == target:
        return array
    stored = array.storage if isinstance(array.type, pa.BaseExtensionType) else array
    if not isinstance(target, pa.BaseExtensionType):
        return conform(stored, target, matching)
    return pa.ExtensionArray.from_storage(target, conform(stored, target.storage_type, matching))


def _is_list(kind: pa.DataType) -> Any:
    return pt.is_list(kind) or pt.is_large_list(kind)


def _is_text(kind: pa.DataType) -> Any:
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)


def _is_bytes(kind: pa.DataType) -> Any:
    return pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind)


def _is_exact(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a checked cast gives the same values or an error: those that round in silence are left out."""
    return bool(_exact(source, target))


def _exact(source: pa.DataType, target: pa.DataType) -> Any:
    if pt.is_dictionary(source):
        return source.value_type == target or _exact(source.value_type, target)
    if pt.is_null(source):
        return True
    if pt.is_integer(source):
        # Into floats the cast checks that every integer survives.
        return pt.is_integer(target) or pt.is_floating(target) or pt.is_decimal(target)
    if pt.is_floating(source):
        return pt.is_floating(target) and target.bit_width >= source.bit_width
    if pt.is_decimal(source):
        return pt.is_decimal(target)
    if pt.is_timestamp(source):
        # Instants and local times are no more the same than the zone is known.
        return pt.is_timestamp(target) and (source.tz is None) == (target.tz is None)
    if pt.is_date(source):
        return pt.is_date(target) or (pt.is_timestamp(target) and target.tz is None)
    if pt.is_time(source):
        return pt.is_time(target)
    if _is_text(source):
        return _is_text(target)
    return _is_bytes(source) and (_is_bytes(target) or _is_text(target))
