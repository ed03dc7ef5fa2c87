"""Compare plans with the physical rows of a table: which files, row groups and row ranges hold a matching live row.

A table has a column `uid` that is unique for each version of a row. The model is a mapping of `uid` to the other
values of the live rows. Positions come from pyarrow's reading of the base files, and not from parsieve.
"""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps
from parsieve.predicate import Expr, columns, parse
from support.models.lake_truth import comparable
from support.models.plan_truth import random_predicate
from support.models.predicate_reference import rows as matching

UID = "uid"
SCHEMA = pa.schema(
    [
        (UID, pa.int64()),
        ("key", pa.int64()),
        ("name", pa.string()),
        ("real", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
INDEXED = ["key", "name", "real", "at"]
# Updates add this to `uid`, so that the deleted and the new version of a row differ.
VERSION = 10_000_000

Model = Mapping[int, tuple[Any, ...]]


@dataclass(frozen=True)
class BaseFile:
    """The rows of a Parquet file: the position of each `uid`, and the first row of each row group."""

    positions: Mapping[int, int]
    # The first row of each row group, and the number of all rows.
    borders: Sequence[int]

    @classmethod
    def read(cls, path: str) -> BaseFile:
        file = pq.ParquetFile(path)
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        uids = file.read([UID])[UID].to_pylist()
        return cls({uid: position for position, uid in enumerate(uids)}, list(itertools.accumulate(sizes, initial=0)))

    def row_group(self, position: int) -> int:
        return bisect.bisect_right(self.borders, position) - 1


@dataclass(frozen=True)
class SliceRows:
    """The live rows of a slice. A row that only a log contains has no position."""

    name: str
    path: str | None
    clean: bool
    base: BaseFile | None
    rows: pa.Table
    positions: Sequence[int | None]


class Physical:
    """The physical rows of the snapshots of one table. Files with the same token are read once."""

    def __init__(self, table: ps.Table) -> None:
        self._table = table
        self._files: dict[tuple[str, str], BaseFile] = {}

    def rows(self, model: Model, as_of: Any = None) -> list[SliceRows]:
        """Return the live rows of each slice. Check that they are the rows of the model."""
        lake = self._table.opened.lake
        snapshot = lake.snapshot(as_of)
        slices = []
        for piece in snapshot.slices:
            rows = lake.read(snapshot, [piece]).read_all().select(SCHEMA.names).cast(SCHEMA)
            base = None if piece.path is None else self._base(piece.path, piece.token)
            in_base = {} if base is None else base.positions
            positions = [in_base.get(uid) for uid in rows[UID].to_pylist()]
            name = piece.path or f"{piece.partition}/{piece.group}".lstrip("/")
            assert not piece.clean or None not in positions, name
            slices.append(SliceRows(name, piece.path, piece.clean, base, rows, positions))
        check_live_rows((slice_rows.rows for slice_rows in slices), model)
        return slices

    def _base(self, path: str, token: str) -> BaseFile:
        path = path.removeprefix("file://")
        if not token:
            return BaseFile.read(path)
        if (path, token) not in self._files:
            self._files[path, token] = BaseFile.read(path)
        return self._files[path, token]


def check_live_rows(tables: Iterable[pa.Table], model: Model) -> None:
    """Check that tables hold exactly the rows of a model."""
    live = {row[UID]: tuple(map(comparable, list(row.values())[1:])) for table in tables for row in table.to_pylist()}
    expected = {uid: tuple(map(comparable, values)) for uid, values in model.items()}
    assert live.keys() == expected.keys(), (sorted(live.keys() ^ expected.keys())[:10], len(live), len(expected))
    wrong = [(uid, live[uid], expected[uid]) for uid in live if live[uid] != expected[uid]]
    assert not wrong, wrong[:5]


def matches(expr: Expr, slices: Sequence[SliceRows]) -> list[list[int]]:
    """Return for each slice the numbers of its matching rows."""
    names = sorted({column.path[0] for column in columns(expr)}) or [UID]
    found = iter(matching(expr, pa.concat_tables([slice_rows.rows.select(names) for slice_rows in slices])))
    number, first, per_slice = next(found, None), 0, []
    for slice_rows in slices:
        inside: list[int] = []
        while number is not None and number < first + slice_rows.rows.num_rows:
            inside.append(number - first)
            number = next(found, None)
        per_slice.append(inside)
        first += slice_rows.rows.num_rows
    return per_slice


def check_plan(plan: ps.Plan, slices: Sequence[SliceRows], hits: Sequence[Sequence[int]]) -> None:
    """Check that the position of each matching row is inside of the plan's files, row groups and row ranges."""
    kept = {keep.path for keep in plan.kept}
    for slice_rows, rows in zip(slices, hits, strict=True):
        about = (str(plan.record.expr), slice_rows.name, plan.explain())
        assert not rows or slice_rows.name in kept, about
        if slice_rows.path is None or slice_rows.name not in kept:
            continue
        base = slice_rows.base
        assert base is not None
        groups, inside = plan.row_groups[slice_rows.path], plan.row_ranges[slice_rows.path]
        if groups is not None:
            assert groups == sorted(set(groups)), about
            assert set(groups) <= set(range(len(base.borders) - 1)), about
        if inside is not None:
            check_ranges(inside, base, groups)
        for row in rows:
            position = slice_rows.positions[row]
            if position is None:
                # The row is in a log, so the plan must keep the whole slice.
                assert groups is None, about
                assert inside is None, about
                continue
            assert groups is None or base.row_group(position) in groups, (position, *about)
            assert inside is None or is_inside(position, inside), (position, inside, *about)


def check_ranges(ranges: Sequence[tuple[int, int]], base: BaseFile, groups: Sequence[int] | None) -> None:
    """Check that ranges are sorted, disjoint and not empty, and lie in the file and in the kept row groups."""
    end = 0
    for first, count in ranges:
        assert first >= end, ranges
        assert count > 0, ranges
        end = first + count
        assert end <= base.borders[-1], (ranges, base.borders)
        if groups is not None:
            inside = range(base.row_group(first), base.row_group(end - 1) + 1)
            full = [group for group in inside if base.borders[group + 1] > base.borders[group]]
            assert set(full) <= set(groups), (ranges, groups, base.borders)


def is_inside(position: int, ranges: Sequence[tuple[int, int]]) -> bool:
    at = bisect.bisect_right(ranges, position, key=lambda one: one[0]) - 1
    return at >= 0 and position < sum(ranges[at])


def check_random_plans(
    table: ps.Table, slices: Sequence[SliceRows], random_: random.Random, count: int, as_of: Any = None
) -> None:
    """Check plans of random predicates, with and without footers."""
    full = pa.concat_tables([slice_rows.rows for slice_rows in slices])
    if not full.num_rows:
        return
    sample = full.take(sorted(random_.sample(range(full.num_rows), min(full.num_rows, 50))))
    for number in range(count):
        expr = random_predicate(random_, sample, 0 if number % 2 else 2)
        hits = matches(expr, slices)
        for footers in (False, None, True):
            check_plan(table.plan(expr, as_of, row_groups=footers), slices, hits)


def check_present_keys(
    table: ps.Table, slices: Sequence[SliceRows], random_: random.Random, count: int, unit: str
) -> None:
    """Check that plans of present keys keep exactly the units with a matching row, as a fresh or compacted index does.

    `unit` is "file" or "row_group". Slices with deleted rows or logs have one unit.
    """
    full = pa.concat_tables([slice_rows.rows for slice_rows in slices])
    for number in range(count):
        name = ("key", "name")[number % 2]
        present = full[name].drop_null().unique().sort()
        if not len(present):
            continue
        value = random_.choice(present.to_pylist())
        hits = matches(parse([(name, "=", value)], full.schema), slices)
        plan = table.plan([(name, "=", value)], row_groups=False)
        check_plan(plan, slices, hits)
        expected = {slice_rows.name for slice_rows, rows in zip(slices, hits, strict=True) if rows}
        about = (name, value, plan.explain())
        assert {keep.path for keep in plan.kept} == expected, about
        for slice_rows, rows in zip(slices, hits, strict=True):
            if unit == "row_group" and rows and slice_rows.clean and slice_rows.path and slice_rows.base:
                base = slice_rows.base
                groups = {base.row_group(at) for row in rows if (at := slice_rows.positions[row]) is not None}
                kept = plan.row_groups[slice_rows.path]
                every = list(range(len(base.borders) - 1))
                assert (every if kept is None else kept) == sorted(groups), about
