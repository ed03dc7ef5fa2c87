"""Find the leaf column of a file for a column of a table: by field id, physical name, or name."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parsieve._core import FileReader
from parsieve.lake.rows.columns import FOUND_BY_ID, PHYSICAL_NAME
from parsieve.lake.rows.fields import fields_at
from parsieve.predicate.expr import ELEMENT, KEY, VALUE, Column
from parsieve.sharing import cached_property

# Identifies a column across snapshots, in which a name may belong to different columns.
LeafKey = tuple[tuple[str, ...], int | None, tuple[bytes | None, ...]]


class WantedLeaf:
    """A column of a table, resolved once so that it can be looked up in many files."""

    def __init__(self, schema: pa.Schema, column: Column) -> None:
        self.column = column
        fields = fields_at(schema, column.path)
        physical = [(field.metadata or {}).get(PHYSICAL_NAME) for field in fields]
        self.key: LeafKey = (column.path, column.field_id, tuple(physical))
        is_found_by_id = any(FOUND_BY_ID in (field.metadata or {}) for field in fields)
        self.is_mapped = not is_found_by_id and any(name is not None for name in physical)
        # The column's path in the files. The last part of a repeated column is not its name there.
        self.path = tuple(
            field.name if name is None else name.decode() for field, name in zip(fields, physical, strict=True)
        )


class FileLeaves:
    """The leaves of one file by field id and by name."""

    def __init__(self, reader: FileReader) -> None:
        self.paths = [tuple(path) for path in reader.columns]
        self._ids = reader.leaf_ids

    def find(self, wanted: WantedLeaf) -> int | None:
        """Return the leaf's number, or None if it is missing or ambiguous."""
        if wanted.column.is_computed:
            return None
        if wanted.column.is_repeated and (wanted.is_mapped or wanted.column.field_id is None):
            return self._find_repeated(wanted.path)
        if wanted.is_mapped or wanted.column.field_id is None:
            # Engines disagree about which column is meant if names differ only in case.
            matches = self._by_folded_path.get(_folded(wanted.path), [])
            if len(matches) != 1 or self.paths[matches[0]] != wanted.path:
                return None
        else:
            matches = self._by_id.get(wanted.column.field_id, [])
            if len(matches) != 1:
                return None
        _, is_repeated = self._ids[matches[0]]
        return matches[0] if is_repeated == wanted.column.is_repeated else None

    def lacks(self, wanted: WantedLeaf) -> bool:
        """Return whether the file certainly has no such column. Only columns outside of structs are judged."""
        column = wanted.column
        if column.is_computed or column.is_repeated or len(wanted.path) != 1:
            return False
        if wanted.is_mapped or column.field_id is None:
            return _folded(wanted.path) not in {_folded(path[:1]) for path in self.paths}
        if pa.types.is_nested(column.value_type):
            # Only the ids of leaves are known.
            return False
        # Files without field ids find their columns by other means.
        return column.field_id not in self._by_id and all(number is not None for number, _ in self._ids)

    def _find_repeated(self, path: tuple[str, ...]) -> int | None:
        """Return the leaf of a list's elements, or of a map's keys or values, by the path of the list or map."""
        *above, part = path
        depth = len(above)
        inside = [number for number, leaf in enumerate(self.paths) if _folded(leaf[:depth]) == _folded(above)]
        # A list has one leaf, and a map two: its keys come first. Writers give them different names.
        order = (ELEMENT,) if part == ELEMENT else (KEY, VALUE)
        if len(inside) != len(order):
            return None
        number = inside[order.index(part)]
        leaf, (_, is_repeated) = self.paths[number], self._ids[number]
        return number if is_repeated and leaf[:depth] == tuple(above) and len(leaf) <= depth + 2 else None

    @cached_property
    def _by_id(self) -> dict[int, list[int]]:
        numbers: dict[int, list[int]] = {}
        for number, (field_id, _) in enumerate(self._ids):
            if field_id is not None:
                numbers.setdefault(field_id, []).append(number)
        return numbers

    @cached_property
    def _by_folded_path(self) -> dict[tuple[str, ...], list[int]]:
        numbers: dict[tuple[str, ...], list[int]] = {}
        for number, path in enumerate(self.paths):
            numbers.setdefault(_folded(path), []).append(number)
        return numbers


def _folded(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in path)
