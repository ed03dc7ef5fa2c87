"""Decide whether pyarrow's own scan of a file returns exactly the table's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.lake.rows.columns import BY_NAME, Matching
from parsieve.lake.storage.storage import Storage
from parsieve.lake.storage.version import Version

# The columns that pyarrow's scans add to each table. A table with a column of such a name cannot be scanned.
RESERVED = frozenset(("__filename", "__fragment_index", "__batch_index", "__last_in_fragment"))


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A file whose rows are all live."""

    storage: Storage
    path: str
    # The name of the file in messages.
    name: str
    size: int
    # The token at the time of the plan, which is "" if it proves nothing. None for formats that never replace a file.
    token: str | None = None
    constants: Mapping[str, object] = field(default_factory=dict)
    # The schema of the file at the time of the plan, if the table's schema was derived from it.
    physical: pa.Schema | None = None
    matching: Matching = BY_NAME

    def is_planned(self, version: Version) -> bool:
        """Return whether this is the planned version, so that the plan's row groups are valid for it."""
        if self.token is None:
            return version.size == self.size
        return bool(self.token) and version.token == self.token

    def lacks(self, physical: pa.Schema, schema: pa.Schema) -> bool:
        """Return whether a column of the table that the file had at the time of the plan is missing now."""
        if self.physical is None:
            return False
        before, now = set(self.physical.names), set(physical.names)
        return any(name in before and name not in now for name in schema.names)


def has_misleading_statistics(kind: pa.DataType) -> bool:
    """Return whether an engine that trusts the min/max statistics of a type, or of a part of it, may lose rows.

    Statistics do not cover NaN, and writers such as parquet-go 0.27 lose other values next to a NaN. Old versions of
    parquet-java ordered decimals by their bytes. pyarrow, DuckDB and DataFusion trust these minima and maxima.
    """
    if pt.is_nested(kind):
        return any(has_misleading_statistics(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pt.is_floating(kind) or pt.is_decimal(kind))


def may_lose_rows(schema: pa.Schema, filter: str) -> bool:
    """Return whether pyarrow may lose rows if it applies a filter, given as text, to statistics.

    A path by numbers may refer to any column.
    """
    return any(
        has_misleading_statistics(column.type) and (column.name in filter or "FieldPath" in filter) for column in schema
    )


def has_reserved_names(schema: pa.Schema) -> bool:
    """Return whether a table has a column whose name pyarrow's scans reserve."""
    return not RESERVED.isdisjoint(schema.names)


def refuse_reserved_names(schema: pa.Schema) -> None:
    """Raise `UnsupportedError` if a table has a column whose name pyarrow's scans reserve."""
    for name in schema.names:
        if name in RESERVED:
            raise UnsupportedError(
                f"datasets of pyarrow cannot have a column {name}, since their scans add one; rename the column, or "
                "use plan with to_arrow, to_polars or to_duckdb"
            )


def refuse_added_columns(columns: Sequence[str] | Mapping[str, object] | None) -> None:
    """Raise `UnsupportedError` for columns that pyarrow's scans add. Their values would be wrong or missing here."""
    for name in RESERVED.intersection(() if columns is None or isinstance(columns, Mapping) else columns):
        raise UnsupportedError(f"the table has no column {name}")


def guarantee(constants: Mapping[str, object]) -> pc.Expression:
    """Return a condition that is true for all rows of a file with these constants."""
    condition = pc.scalar(True)
    for name, value in constants.items():
        condition &= pc.field(name).is_null() if value is None else pc.field(name) == pc.scalar(value)
    return condition


def without_dictionaries(kind: pa.DataType) -> pa.DataType:
    """Return the type for engines: with values in place of dictionaries, and with nullable fields."""
    if pt.is_dictionary(kind):
        return kind.value_type
    if pt.is_struct(kind):
        return pa.struct([pa.field(child.name, without_dictionaries(child.type)) for child in kind])
    return kind


def mismatch(physical: pa.Schema, schema: pa.Schema, file: ScanFile) -> str | None:
    """Return why pyarrow's scan of a file, which finds columns by name, may not return the table's values, or None."""
    if has_reserved_names(schema):
        return "has a column with a name that pyarrow reserves"
    file_columns, names = list(physical), set(physical.names)
    if not names.isdisjoint(file.constants):
        return "has a column that is also in the file's path or metadata"
    if len({name.casefold() for name in names}) != len(file_columns):
        return "has several columns of one name"
    if any(value != value for value in file.constants.values()):
        # pyarrow draws wrong conclusions from "equals NaN".
        return "has a partition value that is NaN"
    columns = [column for column in schema if column.name not in file.constants]
    try:
        places = file.matching.places(columns, file_columns)
    except UnsupportedError as error:
        return f"has other columns than the table: {error}"
    for column, number in zip(columns, places, strict=True):
        if number is None:
            # pyarrow would read another column of this name, or fill a missing column with nulls only.
            if column.name in names or file.matching.absent(column, 1).null_count == 0:
                return f"has no column {column.name}"
        elif file_columns[number].name != column.name:
            return f"stores the column {column.name} as {file_columns[number].name}"
        elif not _is_same_type(file_columns[number].type, column.type, file.matching):
            if file_columns[number].type == column.type:
                return f"stores the column {column.name} as {column.type}, which pyarrow may not read exactly"
            return f"stores the column {column.name} as {file_columns[number].type}, not {column.type}"
    return None


def _is_same_type(source: pa.DataType, target: pa.DataType, matching: Matching) -> bool:
    """Return whether pyarrow reads one type as the other without changing values. It matches nested fields by order."""
    if pt.is_struct(source) and pt.is_struct(target):
        children, names = list(source), [child.name for child in target]
        try:
            places = matching.places(target, children)
        except UnsupportedError:
            return False
        return (
            [child.name for child in children] == names
            and places == list(range(len(names)))
            and all(
                _is_same_type(left.type, right.type, matching) for left, right in zip(children, target, strict=True)
            )
        )
    if pt.is_list(source) and pt.is_list(target):
        return _is_same_type(source.value_type, target.value_type, matching)
    if pt.is_map(source) and pt.is_map(target):
        return _is_same_type(source.key_type, target.key_type, matching) and _is_same_type(
            source.item_type, target.item_type, matching
        )
    if pt.is_nested(source) and matching is not BY_NAME:
        return False
    # Nanoseconds without a time zone may be INT96, and pyarrow does not detect its overflows.
    return target != pa.timestamp("ns") and _is_compatible(without_dictionaries(source), without_dictionaries(target))


def _is_compatible(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether pyarrow can compare and cast one type as the other. It cannot compare string or binary views."""
    pairs = {"string", "large_string"}, {"binary", "large_binary"}
    return source == target or {str(source), str(target)} in pairs
