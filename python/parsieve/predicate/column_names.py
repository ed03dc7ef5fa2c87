"""Columns by their names: by one rule in every call, below structs by dots or parts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parsieve.errors import ColumnNotFoundError, no_column
from parsieve.predicate.expr import Column

_FIELD_ID = b"PARQUET:field_id"


class Names:
    """The columns of a schema by name."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        # Fields by their names in lower case, once a name is looked up that way.
        self._folded: dict[str, list[pa.Field]] | None = None

    def find(self, parts: Sequence[str], exact: Sequence[bool] | bool = False) -> Column:
        """Return the column that `parts` name: one of exactly this name, or else the only one but for its capitals.

        Parts that are `exact`, as names in quotes are, must be written as the column is.
        """
        strict = (exact,) * len(parts) if isinstance(exact, bool) else tuple(exact)
        # A dot is also a part of names: both readings are tried, and must not contradict each other.
        readings = [(tuple(parts), strict)]
        if len(parts) > 1:
            readings.append(((".".join(parts),), (any(strict),)))
        elif "." in parts[0]:
            inner = tuple(parts[0].split("."))
            readings.append((inner, strict * len(inner)))
        for folded in (False,) if all(strict) else (False, True):
            found = {
                column.path: column
                for path, kept in readings
                for column in self._all(path, kept if folded else (True,) * len(path))
            }
            if len(found) > 1:
                raise ColumnNotFoundError(
                    f"the name {'.'.join(parts)!r} fits several columns: "
                    + ", ".join(str(column) for column in found.values())
                )
            if found:
                return next(iter(found.values()))
        names = [str(Column((name,), pa.null())) for name in self._schema.names]
        names += (
            [str(Column(path, pa.null())) for path in _below_structs(self._schema)] if "." in ".".join(parts) else []
        )
        raise no_column(".".join(parts), names)

    def _named(self, name: str, exact: bool) -> Sequence[pa.Field]:
        """Return the top-level fields that may have a name."""
        if exact:
            return [self._schema.field(number) for number in self._schema.get_all_field_indices(name)]
        if self._folded is None:
            self._folded = {}
            for field in self._schema:
                self._folded.setdefault(field.name.casefold(), []).append(field)
        return self._folded.get(name.casefold(), [])

    def _all(self, path: tuple[str, ...], exact: tuple[bool, ...]) -> list[Column]:
        level: list[tuple[tuple[str, ...], pa.Field]] = [((), field) for field in self._named(path[0], exact[0])]
        found: list[tuple[tuple[str, ...], pa.Field]] = []
        for depth, (wanted, same) in enumerate(zip(path, exact, strict=True)):
            found = [
                ((*above, field.name), field)
                for above, field in level
                if field.name == wanted or (not same and field.name.casefold() == wanted.casefold())
            ]
            if depth + 1 < len(path):
                level = [
                    (above, outer.type.field(number))
                    for above, outer in found
                    if pa.types.is_struct(outer.type)
                    for number in range(outer.type.num_fields)
                ]
        return [Column(at, field.type, field_id(field)) for at, field in found]


def column_name(schema: pa.Schema, name: str) -> str:
    """Return the name of a top-level column: exactly this one, or else the only one but for its capitals.

    >>> import pyarrow as pa
    >>> from parsieve.predicate.names import column_name
    >>> column_name(pa.schema({"id": pa.int64()}), "ID")
    'id'
    """
    if name in schema.names:
        return name
    alike = [one for one in schema.names if one.casefold() == name.casefold()]
    if len(alike) == 1:
        return str(alike[0])
    if alike:
        raise ColumnNotFoundError(f"the name {name!r} fits several columns: {', '.join(alike)}")
    raise no_column(name, schema.names)


def field_id(field: pa.Field) -> int | None:
    """The field id that Parquet and Iceberg give a column."""
    text = (field.metadata or {}).get(_FIELD_ID)
    return int(text) if text is not None and text.lstrip(b"-").isdigit() else None


def _below_structs(schema: pa.Schema) -> list[tuple[str, ...]]:
    """Return the paths of the columns in structs."""
    found = []
    level: list[tuple[tuple[str, ...], pa.Field]] = [((field.name,), field) for field in schema]
    while level:
        level = [
            ((*path, inner.name), inner)
            for path, field in level
            if pa.types.is_struct(field.type)
            for inner in field.type
        ]
        found += [path for path, _ in level]
    return found
