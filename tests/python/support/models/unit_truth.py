"""Check the row groups and row ranges of plans against the rows of every file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps
from parsieve.io.sources import local_path
from parsieve.lake.base import Slice
from parsieve.predicate import Expr
from support.models.predicate_reference import rows as matching


@dataclass
class UnitTruth:
    """The rows of each file of one snapshot of a table, in the order of the file."""

    table: ps.Table
    as_of: Any = None
    rows: list[tuple[Slice, pa.Table]] = field(init=False)

    def __post_init__(self) -> None:
        lake = self.table.opened.lake
        snapshot = lake.snapshot(self.as_of)
        self.rows = [(piece, lake.read(snapshot, [piece]).read_all()) for piece in snapshot.slices]

    def check(self, expr: Expr, **options: Any) -> tuple[int, int]:
        """Check that a plan keeps every matching row. Return the kept and all rows of the files with known units."""
        plan = self.table.plan(expr, self.as_of, **options)
        kept_rows = all_rows = 0
        for piece, rows in self.rows:
            hits = matching(expr, rows)
            if piece.path not in plan.row_groups:
                assert not hits, (str(expr), piece.path, plan.explain())
                all_rows += rows.num_rows
                continue
            groups, ranges = plan.row_groups[piece.path], plan.row_ranges[piece.path]
            if not piece.clean:
                # The ranges of a file with deleted rows or logs are unknown.
                assert groups is None
                assert ranges is None
                continue
            sizes = row_group_sizes(piece)
            assert sum(sizes) == rows.num_rows
            kept = set(range(rows.num_rows))
            if ranges is not None:
                assert ranges == sorted(ranges)
                assert all(count > 0 for _, count in ranges)
                kept = {row for start, count in ranges for row in range(start, start + count)}
                assert len(kept) == sum(count for _, count in ranges) < rows.num_rows
            assert kept.issuperset(hits), (str(expr), piece.path, plan.explain())
            if groups is not None:
                assert groups == sorted(set(groups))
                starts = [sum(sizes[:group]) for group in range(len(sizes))]
                in_groups = {row for group in groups for row in range(starts[group], starts[group] + sizes[group])}
                assert kept <= in_groups
                assert all(kept & set(range(starts[group], starts[group] + sizes[group])) for group in groups)
            kept_rows += len(kept)
            all_rows += rows.num_rows
        return kept_rows, all_rows


def row_group_sizes(piece: Slice) -> list[int]:
    """Return the rows of each row group of a file."""
    metadata = pq.read_metadata(local_path(str(piece.path)))
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
