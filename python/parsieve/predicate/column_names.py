"""Find columns by name: every function uses the same rule, and fields of structs are named by dots or tuples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.errors import ColumnNotFoundError, no_column
from parsieve.predicate.elements import FIELD_ID
from parsieve.predicate.expr import Column
from parsieve.predicate.messages import shortened

# The names of a column and of the structs that contain it, from the outermost one.
ColumnPath = tuple[str, ...]


def _check_names(parts: Any) -> None:
    """Raise `TypeError` if something is not the parts of a name."""
    if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, str) for part in parts):
        given = parts[0] if isinstance(parts, Sequence) and len(parts) == 1 else parts
        raise TypeError(f"a column must be a name, or a tuple of names, not {given!r}")


class ColumnNames:
    """Finds the columns of a schema by name."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        # Top-level fields by their case-folded names, filled when it is first needed.
        self._by_folded_name: dict[str, list[pa.Field]] | None = None

    def find(self, parts: Sequence[str], exact: Sequence[bool] | bool = False) -> Column:
        """Return the column of this name, or else the only column whose name differs only in case.

        Args:
            parts: The parts of the name; a field of a struct has several.
            exact: Whether the case must match, for all parts or for each: a quoted name, for example, is exact.
        """
        _check_names(parts)
        is_exact = (exact,) * len(parts) if isinstance(exact, bool) else tuple(exact)
        # A dot may separate a struct from its field, or be part of a name. Engines know only the parts as they were
        # given: in SQL, a.b is a field, and "a.b" is a column. Without such a column, the other reading counts.
        given = tuple(parts)
        readings = [(given, is_exact)]
        if len(parts) > 1:
            readings.append(((".".join(parts),), (any(is_exact),)))
        elif "." in parts[0]:
            inner = tuple(parts[0].split("."))
            readings.append((inner, is_exact * len(inner)))
        for ignore_case in (False,) if all(is_exact) else (False, True):
            for path, exact_parts in readings:
                found = self._columns_at(path, exact_parts if ignore_case else (True,) * len(path))
                if found and path != given:
                    # An engine that ignores case may find the parts as they were given.
                    found += self._columns_at(given, (False,) * len(given))
                columns = {column.path: column for column in found}
                if len(columns) > 1:
                    raise ColumnNotFoundError(
                        f"the name {'.'.join(parts)!r} matches several columns: "
                        + ", ".join(str(column) for column in columns.values())
                    )
                if columns:
                    return found[0]
        container, _, key = ".".join(parts).partition(".")
        if key and any(pt.is_map(field.type) for field in self._top_level_fields(container, False)):
            raise ColumnNotFoundError(
                f"there is no column '{container}.{key}': {container} is a map; "
                f"in a condition, write {container}['{key}'], and index {container}.key or {container}.value"
            )
        names = [str(Column((name,), pa.null())) for name in self.schema.names]
        names += (
            [str(Column(path, pa.null())) for path in _paths_in_structs(self.schema)] if "." in ".".join(parts) else []
        )
        raise no_column(".".join(parts), names)

    def _top_level_fields(self, name: str, exact: bool) -> Sequence[pa.Field]:
        """Return the top-level fields of this name."""
        if exact:
            return [self.schema.field(number) for number in self.schema.get_all_field_indices(name)]
        if self._by_folded_name is None:
            self._by_folded_name = {}
            for field in self.schema:
                self._by_folded_name.setdefault(field.name.casefold(), []).append(field)
        return self._by_folded_name.get(name.casefold(), [])

    def _columns_at(self, path: ColumnPath, exact: tuple[bool, ...]) -> list[Column]:
        level: list[tuple[ColumnPath, pa.Field]]
        level = [((), field) for field in self._top_level_fields(path[0], exact[0])]
        matches: list[tuple[ColumnPath, pa.Field]] = []
        for depth, (name, is_exact) in enumerate(zip(path, exact, strict=True)):
            matches = [
                ((*parents, field.name), field)
                for parents, field in level
                if field.name == name or (not is_exact and field.name.casefold() == name.casefold())
            ]
            if depth + 1 < len(path):
                level = [
                    (parents, outer.type.field(number))
                    for parents, outer in matches
                    if pt.is_struct(outer.type)
                    for number in range(outer.type.num_fields)
                ]
        return [Column(names, field.type, field_id(field)) for names, field in matches]


def column_name(schema: pa.Schema, name: str) -> str:
    """Return the name of a top-level column: this one, or else the only one that differs only in case.

    Raises `UnsupportedError` if several columns have this name.

    >>> import pyarrow as pa
    >>> from parsieve.predicate.column_names import column_name
    >>> column_name(pa.schema({"id": pa.int64()}), "ID")
    'id'
    """
    numbers = schema.get_all_field_indices(name)
    if len(numbers) == 1:
        return name
    if numbers:
        raise UnsupportedError(
            f"the table has {len(numbers)} columns named {name!r}; only columns with unique names can be read"
        )
    candidates = [candidate for candidate in schema.names if candidate.casefold() == name.casefold()]
    if len(candidates) == 1:
        return str(candidates[0])
    if candidates:
        raise ColumnNotFoundError(f"the name {name!r} matches several columns: {', '.join(candidates)}")
    raise no_column(name, schema.names)


def column_names(schema: pa.Schema, columns: Any) -> list[str]:
    """Return the names of the top-level columns in the argument `columns`, or of all columns.

    >>> import pyarrow as pa
    >>> from parsieve.predicate.column_names import column_names
    >>> column_names(pa.schema({"id": pa.int64(), "name": pa.string()}), ["ID"])
    ['id']
    """
    if columns is not None and (isinstance(columns, bytes) or not isinstance(columns, Iterable)):
        raise TypeError(f"columns must be a list of names, not {shortened(repr(columns))}")
    names = [columns] if isinstance(columns, str) else list(schema.names if columns is None else columns)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"columns must be a list of names, and {shortened(repr(name))} is not a string")
    found = Counter(schema.names)
    return [name if found[name] == 1 else column_name(schema, name) for name in names]


def field_id(field: pa.Field) -> int | None:
    """Return the field id that Parquet and Iceberg give a column, or None."""
    text = (field.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None and text.lstrip(b"-").isdigit() else None


def _paths_in_structs(schema: pa.Schema) -> list[ColumnPath]:
    """Return the paths of the columns in structs."""
    paths = []
    level: list[tuple[ColumnPath, pa.Field]] = [((field.name,), field) for field in schema]
    while level:
        level = [
            ((*path, inner.name), inner) for path, field in level if pt.is_struct(field.type) for inner in field.type
        ]
        paths += [path for path, _ in level]
    return paths
