"""Find columns by path, and convert values of a file to the types of the table, exactly or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError, no_column
from parsieve.lake.rows.fields import fields_at
from parsieve.predicate.column_names import ColumnPath
from parsieve.predicate.elements import FIELD_ID, is_list, lists_of
from parsieve.predicate.expr import ELEMENT
from parsieve.predicate.expressions.expression import computed

# The metadata key for the name of a column in Delta's files, which may differ from its name in the table.
PHYSICAL_NAME = b"delta.columnMapping.physicalName"
# The metadata key of a column that has a physical name, but that is found in Delta's files by its field ID.
FOUND_BY_ID = b"parsieve.foundById"

Find = Callable[[pa.Field], int | None]


@dataclass(frozen=True, slots=True)
class Matching:
    """How to find the columns of a table in a file."""

    # Takes the fields of one level of a file. Returns a function that returns the number of the field for a field of
    # the table, or None. So each level is indexed only once for all lookups.
    index: Callable[[Sequence[pa.Field]], Find]
    # The values of columns that are missing in a file, by field ID. Other missing columns are null.
    defaults: Mapping[bytes, object] = field(default_factory=dict)

    def places(self, fields: Iterable[pa.Field], among: Sequence[pa.Field]) -> list[int | None]:
        """Return the number of the file's field for each field of the table, or None."""
        return list(map(self.index(among), fields))

    def absent(self, column: pa.Field, rows: int) -> pa.Array:
        """Return the values of a column that is missing in a file."""
        number: bytes = (column.metadata or {}).get(FIELD_ID, b"")
        return constant(self.defaults.get(number), column.type, rows)


def constant(value: object, kind: pa.DataType, rows: int) -> pa.Array:
    """Return an array that has the same value in all rows."""
    return pa.nulls(rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), rows)


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows. Unlike `Schema.empty_table`, this works for lists and structs of extension types."""
    return pa.Table.from_batches([], schema)


def leaf_field(schema: pa.Schema, path: ColumnPath) -> pa.Field:
    """Return the field at a path through structs, which may end with the elements of lists. It must not be nested."""
    if not path:
        raise ColumnNotFoundError("the path of a column is empty")
    fields = fields_at(schema, path)
    if len(fields) < len(path):
        raise no_column(".".join(path), schema.names)
    leaf = fields[-1]
    if pt.is_nested(leaf.type):
        raise UnsupportedError(
            f"{'.'.join(path)} is a {leaf.type}; only columns of single values, alone or in structs, and lists and "
            "maps of single values can be used"
        )
    return leaf


def indexable_path(schema: pa.Schema, path: ColumnPath) -> ColumnPath:
    """Return the path of the values to index for a column: the elements of a list, or else the column itself."""
    fields = fields_at(schema, path)
    return (*path, ELEMENT) if len(fields) == len(path) > 0 and is_list(fields[-1].type) else path


def is_nested(schema: pa.Schema, path: ColumnPath) -> bool:
    """Return whether a path leads to a list, a map or a struct."""
    fields = fields_at(schema, path)
    return len(fields) == len(path) > 0 and bool(pt.is_nested(fields[-1].type))


def is_repeated(schema: pa.Schema, path: ColumnPath) -> bool:
    """Return whether a path ends with the elements of lists, or with the keys or values of maps."""
    fields = fields_at(schema, path)
    return 1 < len(fields) == len(path) and not pt.is_struct(fields[-2].type)


def leaf_of(batch: pa.RecordBatch, path: ColumnPath) -> pa.Array:
    """Return the values at a path of a batch. The leaves of a null struct are null.

    If the path ends with the elements of lists, return the lists.
    """
    expression = computed(path, batch.schema)
    if expression is not None:
        return expression.lists([leaf_of(batch, column.path) for column in expression.columns])
    array = batch.column(batch.schema.get_field_index(path[0]))
    for part in path[1:]:
        if not pt.is_struct(array.type):
            return lists_of(array, part)
        array = pc.struct_field(array, [array.type.get_field_index(part)])
    return array


def pruned(schema: pa.Schema, paths: Sequence[ColumnPath]) -> pa.Schema:
    """Return the schema with only the leaves at some paths and the structs around them. Lists and maps stay whole."""

    def prune(fields: Sequence[pa.Field], paths: list[ColumnPath]) -> list[pa.Field]:
        kept = []
        for child in fields:
            below = [path[1:] for path in paths if path[0] == child.name]
            if below and () not in below and pt.is_struct(child.type):
                kept.append(child.with_type(pa.struct(prune(list(child.type), below))))
            elif below:
                kept.append(child)
        return kept

    return pa.schema(prune(list(schema), stored_paths(schema, paths)))


def stored_paths(schema: pa.Schema, paths: Sequence[ColumnPath]) -> list[ColumnPath]:
    """Return the paths, with each expression replaced by its columns."""
    stored: list[ColumnPath] = []
    for path in paths:
        expression = computed(path, schema)
        stored += [path] if expression is None else [column.path for column in expression.columns]
    return stored


def by_name(among: Sequence[pa.Field]) -> Find:
    """Return a function that finds fields by name.

    It raises an error if several fields have the name, or a name that differs only in case, which some engines confuse.
    """
    places: dict[str, list[int]] = {}
    for number, among_field in enumerate(among):
        places.setdefault(among_field.name, []).append(number)
    folded = {name.casefold() for name in places}

    def find(field: pa.Field) -> int | None:
        numbers = places.get(field.name, ())
        if len(numbers) == 1:
            return numbers[0]
        if numbers or field.name.casefold() in folded:
            names = ", ".join(repr(among_field.name) for among_field in among)
            raise UnsupportedError(
                f"engines disagree about which column of a file is {field.name!r}: the file has {names}; "
                "rename columns whose names are equal or differ only in case"
            )
        return None

    return find


def places_by_id(among: Sequence[pa.Field]) -> dict[bytes | None, int]:
    """Return the number of the first field with each field ID. The key None is for fields without an ID."""
    places: dict[bytes | None, int] = {}
    for number, among_field in enumerate(among):
        places.setdefault((among_field.metadata or {}).get(FIELD_ID), number)
    return places


BY_NAME = Matching(by_name)


def conform(array: pa.Array, target: pa.DataType, matching: Matching) -> pa.Array:
    """Return the same values as another type. Raise `UnsupportedError` if a value would change."""
    source = array.type
    if isinstance(source, pa.BaseExtensionType) or isinstance(target, pa.BaseExtensionType):
        return _conform_extension(array, target, matching)
    # Fields of structs that match by ID may have swapped their names, so equal types alone prove nothing.
    if source == target and (matching == BY_NAME or not pt.is_nested(target)):
        return array
    if pt.is_struct(source) and pt.is_struct(target):
        fields, children = list(target), []
        # A struct without fields has the length of its mask.
        valid = array.is_valid() if array.null_count or not fields else None
        find = matching.index(list(source))
        for child in fields:
            number = find(child)
            if number is None:
                children.append(matching.absent(child, len(array)))
            else:
                children.append(conform(pc.struct_field(array, [number]), child.type, matching))
        mask = None if valid is None else pc.invert(valid)
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if _is_list(source) and _is_list(target):
        # `flatten` drops the elements of null lists, so `fill_null` must set the length of these lists to 0.
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        total = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths.cast(pa.int64()))])
        values = conform(array.flatten(), target.value_type, matching)
        kind = pa.LargeListArray if pt.is_large_list(target) else pa.ListArray
        offsets = total if pt.is_large_list(target) else total.cast(pa.int32())
        mask = array.is_null() if array.null_count else None
        return kind.from_arrays(offsets, values, type=target, mask=mask)
    if pt.is_map(source) and pt.is_map(target):
        # A slice shares the entries of its array.
        first = array.offsets[0]
        count = array.offsets[-1].as_py() - first.as_py()
        keys = conform(array.keys.slice(first.as_py(), count), target.key_type, matching)
        items = conform(array.items.slice(first.as_py(), count), target.item_type, matching)
        mask = array.is_null() if array.null_count else None
        return pa.MapArray.from_arrays(pc.subtract(array.offsets, first), keys, items, type=target, mask=mask)
    if pt.is_dictionary(target):
        encoded = conform(array, target.value_type, matching).dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary, ordered=target.ordered).cast(target)
    if not _is_exact(source, target):
        raise UnsupportedError(
            f"a file holds {source} values, which cannot be converted exactly to the table's type, {target}"
        )
    try:
        converted = array.cast(target, safe=True)
    except pa.ArrowInvalid as lossy:
        raise UnsupportedError(f"a file holds {source} where the table has {target}: {lossy}") from lossy
    if array.offset and _is_text(target):
        # pyarrow's `ascii_lower` and `ascii_upper` read wrong bytes if the offsets of a slice do not begin with 0.
        return pa.concat_arrays([converted, converted[:0]])
    return converted


def _conform_extension(array: pa.Array, target: pa.DataType, matching: Matching) -> pa.Array:
    """Convert values from or to an extension type such as UUID, by the type of its storage."""
    if array.type == target:
        return array
    storage = array.storage if isinstance(array.type, pa.BaseExtensionType) else array
    if not isinstance(target, pa.BaseExtensionType):
        return conform(storage, target, matching)
    return pa.ExtensionArray.from_storage(target, conform(storage, target.storage_type, matching))


def _is_list(kind: pa.DataType) -> Any:
    return pt.is_list(kind) or pt.is_large_list(kind)


def _is_text(kind: pa.DataType) -> Any:
    return pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)


def _is_bytes(kind: pa.DataType) -> Any:
    return pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind)


def _is_exact(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a safe cast either returns the same values or fails. Some safe casts round without an error."""
    return bool(_exact(source, target))


def _exact(source: pa.DataType, target: pa.DataType) -> Any:
    if pt.is_dictionary(source):
        return source.value_type == target or _exact(source.value_type, target)
    if pt.is_null(source):
        return True
    if pt.is_integer(source):
        # A safe cast to floats fails if an integer has no exact float.
        return pt.is_integer(target) or pt.is_floating(target) or pt.is_decimal(target)
    if pt.is_floating(source):
        return pt.is_floating(target) and target.bit_width >= source.bit_width
    if pt.is_decimal(source):
        return pt.is_decimal(target)
    if pt.is_timestamp(source):
        # A timestamp with a time zone and one without are different values.
        return pt.is_timestamp(target) and (source.tz is None) == (target.tz is None)
    if pt.is_date(source):
        return pt.is_date(target) or (pt.is_timestamp(target) and target.tz is None)
    if pt.is_time(source):
        return pt.is_time(target)
    if _is_text(source):
        return _is_text(target)
    return _is_bytes(source) and (_is_bytes(target) or _is_text(target))
