"""Choose the units of an index: weigh the bytes of data that finer units save against the larger index.

Where keys are scattered, a finer unit costs about log2(units per file) bits for each key and file. Where they are in
runs, it costs next to nothing. So the choice measures a sample: it builds small indexes of the same rows by file, by
row group and by range of rows. Only the size of an index and the bytes of a query depend on the choice, never its
result.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from parsieve import _core
from parsieve.index.build.units import plan_units, read_row_groups
from parsieve.index.scan.runs import Gathered, gather_by_units, merge
from parsieve.index.scan.spill import Room
from parsieve.index.scan.units import UNITS, Unit, UnitNumbers
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field

# How many slices to read if only the units are to be chosen. Units are parts of a file, so few files show their effect.
SAMPLED_FOR_UNITS = 2
SAMPLE_MEMORY = 256 << 20
# An index should save the bytes of its build and its storage within this many queries.
PAID_BACK_IN = 100
# The cost of a request to a file or an index, as the bytes that could be read in the same time.
REQUEST_BYTES = 512 << 10
# The assumed size of slices of unknown size.
DEFAULT_BYTES = 16 << 20


class MeasuredUnit(NamedTuple):
    """An index of sampled slices with one kind of unit."""

    unit: Unit
    # The units of all sampled slices.
    num_units: int
    # The figures of `SieveTimeline.report`.
    report: dict[str, Any]


class UnitChoice(NamedTuple):
    """The units that cost the least."""

    unit: Unit
    # The bytes of data that a query for a key reads: with files as units, and with the chosen units.
    file_read_bytes: int
    read_bytes: int
    # How many bytes larger the index is than with files as units.
    more_bytes: int


def spread(slices: Sequence[Slice], most: int) -> list[Slice]:
    """Return slices from all over a table, because neighboring slices are often alike; always the same ones.

    Each is a random one of its stretch of the table. At even distances, a table in which buckets or regions take turns
    would show one of these only.
    """
    count = min(most, len(slices))
    chance = random.Random(len(slices))
    starts = [at * len(slices) // count for at in range(count)] + [len(slices)]
    return [slices[chance.randrange(start, end)] for start, end in pairwise(starts)]


def check_unit(unit: str) -> None:
    """Raise `ValueError` for units that no index has."""
    if unit not in ("auto", *UNITS):
        raise ValueError(f'unit must be "file", "row_group", "rows" or "auto", not {unit!r}')


def choose_unit(lake: Lake, snapshot: Snapshot, path: ColumnPath, unit: str = "auto") -> Unit:
    """Return the units for an index of a column. "auto" chooses them by reading a few slices."""
    check_unit(unit)
    for kind in UNITS:
        if kind == unit:
            return kind
    if mean_bytes(snapshot) <= REQUEST_BYTES:
        # Files so small are read whole: an extra request costs more than the bytes it saves.
        return "file"
    slices = spread(snapshot.slices, SAMPLED_FOR_UNITS)
    axis = _core.SieveAxis(leaf_field(snapshot.schema, path).type)
    measured = measure_units(lake, slices, path, axis)
    return choose(measured, len(slices), len(snapshot.slices), mean_bytes(snapshot)).unit


def measure_units(lake: Lake, slices: Sequence[Slice], path: ColumnPath, axis: _core.SieveAxis) -> list[MeasuredUnit]:
    """Read some slices, and measure an index of them with each kind of unit, files first.

    A kind of unit that divides the slices like an earlier kind is not measured.
    """
    row_groups = read_row_groups(lake, slices)
    numbers: dict[Unit, UnitNumbers] = {}
    for unit in UNITS:
        layouts = UnitNumbers(plan_units(lake, slices, unit, row_groups=row_groups))
        if not any(len(layouts) == len(other) for other in numbers.values()):
            numbers[unit] = layouts
    with Room(SAMPLE_MEMORY) as room:
        gathered = gather_by_units(lake, slices, path, axis, list(numbers.values()), room=room, memory=SAMPLE_MEMORY)
        return [
            MeasuredUnit(unit, len(layouts), _report(rows, len(layouts), room))
            for (unit, layouts), rows in zip(numbers.items(), gathered, strict=True)
        ]


def _report(rows: Gathered, num_units: int, room: Room) -> dict[str, Any]:
    """Build an index with one location for each unit, and return its figures."""
    locations = [Location("", f"{number:09}") for number in range(num_units)]
    built = merge(rows, locations, 1, room, memory=SAMPLE_MEMORY)
    data = built.file if isinstance(built.file, bytes) else b"".join(part.read_bytes() for part in built.file)
    timeline = _core.SieveTimeline(rows.axis, built.root, [])
    segments = [
        (number, data[offset : offset + length]) for number, (_, offset, length, *_) in enumerate(timeline.segments())
    ]
    report = timeline.report(segments)
    assert report is not None
    return report


def mean_bytes(snapshot: Snapshot) -> float:
    """Return the mean size of a slice."""
    sizes = snapshot.slices.size.drop_null().to_pylist()
    return sum(sizes) / len(sizes) if sizes else DEFAULT_BYTES


def choose(measured: Sequence[MeasuredUnit], num_sampled: int, num_slices: int, slice_bytes: float) -> UnitChoice:
    """Return the units with the lowest cost over `PAID_BACK_IN` queries for a key, including the size of the index."""
    by_file = measured[0].report
    # Each key is certainly in one sampled slice, so extrapolate from the other slices only.
    others = (num_slices - 1) / max(1, num_sampled - 1)
    keys = max(1, by_file["keys"])
    files_with_key = min(1 + max(0.0, by_file["pairs"] / keys - 1) * others, num_slices)
    choices = []
    for unit, num_units, report in measured:
        units_with_key = files_with_key * report["pairs"] / max(1, by_file["pairs"])
        unit_bytes = slice_bytes * num_sampled / max(1, num_units)
        more = (report["lookup_bytes"] - by_file["lookup_bytes"]) * num_slices / max(1, num_sampled)
        cost = units_with_key * (unit_bytes + REQUEST_BYTES) * PAID_BACK_IN + more
        # The build reads a footer of each file.
        cost += 0 if unit == "file" else num_slices * REQUEST_BYTES
        choices.append((cost, unit, int(units_with_key * unit_bytes), max(0, int(more))))
    _, unit, read_bytes, more_bytes = min(choices, key=lambda choice: choice[0])
    return UnitChoice(unit, choices[0][2], read_bytes, more_bytes)
