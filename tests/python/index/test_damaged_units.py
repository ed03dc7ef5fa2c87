"""A damaged part of an index never costs a plan the position of a match: file, row group or row range.

`test_damaged_index.py` tests the answers of an index without a plan.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.models.position_truth import Physical, SliceRows, check_plan, matches
from support.models.unit_histories import FolderTable

import parsieve as ps
from parsieve.index.log.folders import LOG, name_of
from parsieve.predicate import Expr, parse

QUESTIONS = 6
LAYOUTS: dict[str, dict[str, Any]] = {
    "row groups": {"unit": "row_group"},
    "keys": {"unit": "row_group", "keep_keys": True},
    "files": {"unit": "file"},
}


class Damaged:
    """An index of a folder, and copies of it that are damaged one after the other."""

    def __init__(self, folder: Path, seed: int, layout: str, rows: int) -> None:
        self.random = random.Random(seed)
        self._made = FolderTable(self.random, folder)
        for _ in range(6):
            self._made.insert(rows)
        self._made.settle()
        self.intact, self.broken = folder / "intact", folder / "broken"
        table = self.open(self.intact)
        table.build_index(["key", "name"], kind="sieve", progress=False, **LAYOUTS[layout])
        # Only one file changes: if more than a quarter of the keys were gone, the update would compact the index.
        self._made.update(1)
        self._made.insert(rows // 2)
        self._made.settle()
        table.update_index(progress=False, compact=False)
        newest = table.opened.index.newest()
        assert newest is not None
        # The files of the newest version. Plans use no others.
        self.files = sorted({Path(part.name) for part in newest.commit.parts() if part.name})
        self.files.append(Path(name_of(newest.version, LOG)))
        self._slices = Physical(table).rows(self._made.rows)
        self._questions = list(self._draw_questions())
        self._kept = self._check(self.intact)
        assert self._kept < QUESTIONS * len(self._made.rows) / 2

    def open(self, index: Path) -> ps.Table:
        return ps.open_table(str(self._made.folder), index_location=str(index))

    def _draw_questions(self) -> Iterator[tuple[Expr, list[list[int]]]]:
        """Yield predicates about present keys, intervals and nulls, and their matching rows."""
        values = list(self._made.rows.values())
        schema = self._slices[0].rows.schema
        for number in range(QUESTIONS):
            (key, name, _, at), (other, *_) = self.random.sample(values, 2)
            forms = [
                f"key = {key}",
                f"key BETWEEN {key} AND {key + 5}",
                "name IS NULL" if name is None else f"name = '{name}'",
                f"key IN ({key}, {other})",
                "real IS NULL AND key < 100",
                f"at = TIMESTAMP '{at.isoformat()}' AND key = {key}",
            ]
            expr = parse(forms[number % len(forms)], schema, "UTC")
            yield expr, matches(expr, self._slices)

    def _check(self, index: Path) -> int:
        """Check plans with an index, and return how many rows they keep."""
        table, kept = self.open(index), 0
        for expr, hits in self._questions:
            plan = table.plan(expr, row_groups=False)
            check_plan(plan, self._slices, hits)
            kept += sum(kept_rows(plan, slice_rows) for slice_rows in self._slices if slice_rows.path in plan.files)
        return kept

    def check(self, about: object) -> bool:
        """Check plans with the damaged index. Return whether they keep more than those with the intact index."""
        try:
            return self._check(self.broken) > self._kept
        except BaseException as error:
            error.add_note(f"damaged: {about}")
            raise

    def reset(self) -> None:
        """Undo all damage."""
        shutil.rmtree(self.broken, ignore_errors=True)
        shutil.copytree(self.intact, self.broken)


def kept_rows(plan: ps.Plan, slice_rows: SliceRows) -> int:
    """Return how many rows of a file a plan keeps."""
    assert slice_rows.path is not None
    assert slice_rows.base is not None
    groups, borders = plan.row_groups[slice_rows.path], slice_rows.base.borders
    ranges = plan.row_ranges[slice_rows.path]
    if ranges is not None:
        return sum(count for _, count in ranges)
    return borders[-1] if groups is None else sum(borders[group + 1] - borders[group] for group in groups)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_flipped_bit_or_lost_byte_costs_a_position(tmp_path: Path, layout: str) -> None:
    damaged = Damaged(tmp_path, 1, layout, 60)
    weaker = dict.fromkeys({path.parts[0] for path in damaged.files}, 0)
    assert weaker.keys() == {"log", "bindings", "roots", "segments", "deltas"}
    damaged.reset()
    for path in damaged.files:
        intact = (damaged.intact / path).read_bytes()
        positions = sorted(damaged.random.sample(range(len(intact)), min(len(intact), 8)))
        flipped = [
            intact[:at] + bytes([intact[at] ^ 1 << damaged.random.randrange(8)]) + intact[at + 1 :] for at in positions
        ]
        cut = [intact[:-1], intact[: len(intact) // 2], intact[: damaged.random.randrange(len(intact))], b""]
        for number, data in enumerate([*flipped, *cut, intact + b"\0", bytes(len(intact))]):
            (damaged.broken / path).write_bytes(data)
            weaker[path.parts[0]] += damaged.check((path, number))
        (damaged.broken / path).write_bytes(intact)
    # The damage was in parts that the plans use.
    assert all(weaker.values()), weaker


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_missing_or_swapped_file_costs_a_position(tmp_path: Path, layout: str) -> None:
    damaged = Damaged(tmp_path, 2, layout, 60)
    files = damaged.files
    for path in files:
        damaged.reset()
        (damaged.broken / path).unlink()
        damaged.check(path)
        others = [other for other in files if other != path]
        for other in damaged.random.sample(others, min(len(others), 5)):
            shutil.copy(damaged.intact / other, damaged.broken / path)
            damaged.check((path, other))
