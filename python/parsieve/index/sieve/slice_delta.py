"""The content of a delta in format 2: the rows of slices that the index did not have before, by unit.

A changed slice gets a new id, so a delta only adds rows. The rows of an id that no location has any more are masked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from parsieve import _core
from parsieve.index.build.executor import ColumnRows
from parsieve.index.log.commit import DeltaPart, Part
from parsieve.index.scan.units import UnitLayout
from parsieve.index.sieve.delta import Difference
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import ColumnPath
from parsieve.lake.rows.columns import leaf_of


@dataclass
class SliceDelta:
    """Some slices of one column with the rows of their units."""

    type: pa.DataType
    instant: int
    # The id of each slice, in ascending order, and its units.
    ids: list[int] = field(default_factory=list)
    layouts: list[UnitLayout] = field(default_factory=list)
    # For each unit: its nulls, its NaN, and whether its rows were not read.
    sides: list[tuple[int, int, bool]] = field(default_factory=list)
    # Blocks of sorted runs, in addition to those that are passed to `put`.
    blocks: list[bytes] = field(default_factory=list)

    @classmethod
    def of_slices(
        cls, data_type: pa.DataType, instant: int, first_id: int, layouts: Sequence[UnitLayout], rows: ColumnRows
    ) -> SliceDelta:
        """Return the delta of slices that were read, whose ids begin with `first_id`."""
        ids = list(range(first_id, first_id + len(layouts)))
        sides = list(zip(rows.nulls, rows.nans, rows.unread, strict=True))
        return cls(data_type, instant, ids, list(layouts), sides)

    @classmethod
    def of_differences(
        cls, data_type: pa.DataType, instant: int, differences: Mapping[int, Difference], path: ColumnPath
    ) -> SliceDelta:
        """Return the delta of inserted rows, by the id of their slices, each of which is a single unit.

        Deleted rows are not stored: they narrow no answer before the next compaction, which reads these slices again.
        """
        delta = cls(data_type, instant)
        pairs = _core.SievePairs(_core.SieveAxis(data_type))
        for unit, (number, difference) in enumerate(sorted(differences.items())):
            counts = [pairs.push(leaf_of(batch, path), unit) for batch in difference.inserted]
            delta.ids.append(number)
            delta.layouts.append(UnitLayout())
            delta.sides.append((sum(nulls for _, nulls, _ in counts), sum(nans for _, _, nans in counts), False))
        delta.blocks = pairs.sort()
        return delta
