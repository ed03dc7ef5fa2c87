"""When pyarrow's own scan of a file gives exactly the table's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from parsieve._core import UnsupportedError
from parsieve.lake.rows.columns import BY_NAME, Matching
from parsieve.lake.storage.pinned import Version
from parsieve.lake.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A file whose rows are all live."""

    storage: Storage
    path: str
    # What messages call the file.
    name: str
    size: int
    # The token that the plan saw, "" if it proves nothing; None for formats that never write a file twice.
    token: str | None = None
    constants: Mapping[str, object] = field(default_factory=dict)
    # The schema that the file had, if the table's schema was made of it.
    physical: pa.Schema | None = None
    matching: Matching = BY_NAME

    def is_planned(self, version: Version) -> bool:
        """Tell whether this is the version that was planned, so that its row groups are those of the plan."""
        if self.token is None:
            return version.size == self.size
        return bool(self.token) and version.token == self.token

    def lacks(self, physical: pa.Schema, schema: pa.Schema) -> bool:
        """Tell whether the file has lost a column that the table has because of this file."""
        if self.physical is None:
            return False
        had, has = set(self.physical.names), set(physical.names)
        return any(name in had and name not in has for name in schema.names)


def names_floats(schema: pa.Schema, filter: str) -> bool:
    """Whether a filter, as it prints, may name a column of floats; a path by numbers may name any."""

    def holds(kind: pa.DataType) -> bool:
        if pt.is_nested(kind):
            return any(holds(kind.field(number).type) for number in range(kind.num_fields))
        return bool(pt.is_floating(kind))

    return any(holds(one.type) and (one.name in filter or "FieldPath" in filter) for one in schema)


def guarantee(constants: Mapping[str, object]) -> pc.Expression:
    """Return the condition that is true of all rows of a file with such constants."""
    found = pc.scalar(True)
    for name, value in constants.items():
        one = pc.field(name).is_null() if value is None else pc.field(name) == pc.scalar(value)
        found = found & one
    return found


def without_dictionaries(kind: pa.DataType) -> pa.DataType:
    """The type that an engine sees: values where a file says dictionary, and everything may be null."""
    if pt.is_dictionary(kind):
        return kind.value_type
    if pt.is_struct(kind):
        return pa.struct([pa.field(one.name, without_dictionaries(one.type)) for one in kind])
    return kind


def is_exact(physical: pa.Schema, schema: pa.Schema, file: ScanFile) -> bool:
    """Tell whether pyarrow's scan of a file, which goes by names, gives the table's values."""
    held, names = list(physical), set(physical.names)
    if not names.isdisjoint(file.constants) or len({name.casefold() for name in names}) != len(held):
        return False
    if any(value != value for value in file.constants.values()):
        # pyarrow draws wrong conclusions from "equals NaN".
        return False
    wanted = [one for one in schema if one.name not in file.constants]
    try:
        places = file.matching.places(wanted, held)
    except UnsupportedError:
        return False
    for one, number in zip(wanted, places, strict=True):
        if number is None:
            # No other column may have the name, and pyarrow knows no other default than null.
            if one.name in names or file.matching.absent(one, 1).null_count == 0:
                return False
        elif held[number].name != one.name or not _same(held[number].type, one.type, file.matching):
            return False
    return True


def _same(held: pa.DataType, wanted: pa.DataType, matching: Matching) -> bool:
    """Whether pyarrow reads one as the other without a change of any value, nested fields by their order."""
    if pt.is_struct(held) and pt.is_struct(wanted):
        children, names = list(held), [one.name for one in wanted]
        try:
            places = matching.places(wanted, children)
        except UnsupportedError:
            return False
        return (
            [one.name for one in children] == names
            and places == list(range(len(names)))
            and all(_same(mine.type, other.type, matching) for mine, other in zip(children, wanted, strict=True))
        )
    if pt.is_list(held) and pt.is_list(wanted):
        return _same(held.value_type, wanted.value_type, matching)
    if pt.is_map(held) and pt.is_map(wanted):
        return _same(held.key_type, wanted.key_type, matching) and _same(held.item_type, wanted.item_type, matching)
    if pt.is_nested(held) and matching is not BY_NAME:
        return False
    # Nanoseconds without a zone may be INT96, whose overflow pyarrow does not notice.
    return wanted != pa.timestamp("ns") and _alike(without_dictionaries(held), without_dictionaries(wanted))


def _alike(held: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether pyarrow compares and casts one as the other; it cannot compare views with anything else."""
    return held == wanted or {str(held), str(wanted)} in ({"string", "large_string"}, {"binary", "large_binary"})
