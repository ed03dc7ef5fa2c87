"""Plan the units of an index: read the row groups of the slices, and decide how to divide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parsieve._core import ParsieveError
from parsieve.index.build.executor import Executor
from parsieve.index.scan.units import UNITS, Unit, UnitLayout
from parsieve.io.parallel import map_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.lake.base import ColumnPath, Lake, Slice
from parsieve.lake.slices import BATCH

# The rows of a unit where row groups are cut.
ROWS_PER_UNIT = 20_000


def plan_units(
    lake: Lake,
    slices: Sequence[Slice],
    unit: Unit,
    *,
    row_groups: Sequence[tuple[int, ...]] | None = None,
    threads: int = REQUESTS_AT_ONCE,
) -> list[UnitLayout]:
    """Return how each slice is divided into units.

    This reads the footers of the slices, unless `row_groups` has the result of `read_row_groups` for them, or the unit
    is the file. A file that changes before its rows are read is not indexed, because its token changes too.
    """
    if unit not in UNITS:
        raise ValueError(f'unit must be "file", "row_group" or "rows", not {unit!r}')
    if unit == "file":
        return [UnitLayout()] * len(slices)
    if row_groups is None:
        row_groups = read_row_groups(lake, slices, threads=threads)
    rows_per_unit = ROWS_PER_UNIT if unit == "rows" else None
    return [_layout(UnitLayout(groups, rows_per_unit)) for groups in row_groups]


def units_of(
    lake: Lake, slices: Sequence[Slice], kinds: Mapping[ColumnPath, Unit], executor: Executor[Any]
) -> dict[ColumnPath, list[UnitLayout]]:
    """Return how each slice is divided into units of the kind that each column has. Reads each footer at most once."""
    has_finer = any(kind != "file" for kind in kinds.values())
    row_groups = executor.read_row_groups(lake, slices) if has_finer else None
    planned = {kind: plan_units(lake, slices, kind, row_groups=row_groups) for kind in set(kinds.values())}
    return {path: planned[kind] for path, kind in kinds.items()}


def read_row_groups(lake: Lake, slices: Sequence[Slice], *, threads: int = REQUESTS_AT_ONCE) -> list[tuple[int, ...]]:
    """Return the rows of each row group of the slices, read in parallel.

    The entry is empty if a slice is not exactly the rows of one Parquet file, or if its footer cannot be read. Reading
    the rows then raises the error, if there is one.
    """

    def read(file_slice: Slice) -> tuple[int, ...]:
        try:
            return lake.row_groups(file_slice) or ()
        except (ParsieveError, OSError, ValueError):
            return ()

    row_groups: list[tuple[int, ...]] = []
    for start in range(0, len(slices), BATCH):
        row_groups += map_in_threads(read, slices[start : start + BATCH], threads, "parsieve-index")
    return row_groups


def _layout(layout: UnitLayout) -> UnitLayout:
    # Ranges of a file without rows would be of no use.
    return layout.coarsened() if sum(layout.row_groups) else UnitLayout()
