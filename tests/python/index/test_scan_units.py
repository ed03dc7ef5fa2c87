"""A scan gives each row the number of its unit: the row group, or the part of it, that stores the row."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import footer_edit
from support.aging import wait_until_old
from support.formats import FORMATS, folder

import parsieve as ps
from parsieve import _core
from parsieve.errors import ConflictError
from parsieve.index.build.units import plan_units, read_row_groups
from parsieve.index.scan.runs import Gathered, gather, merge
from parsieve.index.scan.spill import Room
from parsieve.index.scan.units import UnitCutter, UnitLayout, UnitNumbers
from parsieve.index.sieve import query
from parsieve.io.sources import local_path
from parsieve.lake.base import Lake, Location, Slice

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")


def rows_of(r: random.Random, count: int) -> pa.Table:
    keys = [None if r.random() < 0.1 else r.randrange(40) for _ in range(count)]
    reals = [r.choice([None, math.nan, 0.5, -0.0, 7.0]) for _ in range(count)]
    return pa.table({"id": pa.array(range(count), pa.int64()), "k": pa.array(keys, pa.int64()), "f": reals})


def scan(lake: Lake, slices: Sequence[Slice], units: dict[tuple[str, ...], UnitNumbers]) -> dict[Any, Gathered]:
    fields = {path: lake.snapshot().schema.field(path[0]) for path in units}
    axes = {path: _core.SieveAxis(field.type) for path, field in fields.items()}
    with Room(1 << 20) as room:
        return gather(lake, slices, axes, room, memory=1 << 20, threads=2, units=units)


def timeline_of(gathered: Gathered, count: int) -> _core.SieveTimeline:
    """Build an index whose locations are units, and load all of it."""
    names = [Location("", f"{number:06}") for number in range(count)]
    with Room(1 << 20) as room:
        built = merge(gathered, names, 1, room, memory=1 << 20)
    assert isinstance(built.file, bytes)
    timeline = _core.SieveTimeline(gathered.axis, built.root, [])
    for number, (_, offset, length, *_) in enumerate(timeline.segments()):
        timeline.load(number, built.file[offset : offset + length])
    return timeline


def units_in_file(path: str, name: str, ends: Sequence[int]) -> list[list[Any]]:
    """Return the values of each unit of a file, as pyarrow reads it."""
    values = pq.ParquetFile(path).read(columns=[name]).column(name).to_pylist()
    assert len(values) == ends[-1]
    return [values[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("unit", ["row_group", "rows", "file"])
def test_rows_of_all_formats_get_the_unit_that_stores_them(form: str, unit: Any, tmp_path: Path) -> None:
    r = random.Random(3)
    lake = FORMATS[form](tmp_path / "t", [rows_of(r, count) for count in (25, 7, 1, 33)], 6)
    slices = sorted(lake.snapshot().slices, key=lambda file_slice: file_slice.location)
    paths = [local_path(str(file_slice.path)) for file_slice in slices]
    row_groups = read_row_groups(lake, slices)
    assert row_groups == [
        tuple(group.num_rows for group in map(file.metadata.row_group, range(file.num_row_groups)))
        for file in map(pq.ParquetFile, paths)
    ]
    assert max(map(len, row_groups)) >= 4
    layouts = plan_units(lake, slices, unit)
    numbers = UnitNumbers(layouts)
    columns: dict[tuple[str, ...], UnitNumbers] = {
        ("k",): numbers,
        ("f",): UnitNumbers(plan_units(lake, slices, "row_group")),
    }
    gathered = scan(lake, slices, columns)
    for (name,), column in columns.items():
        units = [
            values
            for path, layout, groups in zip(paths, column.layouts, row_groups, strict=True)
            for values in units_in_file(path, name, layout.ends() or [sum(groups)])
        ]
        assert len(units) == len(column)
        rows = gathered[(name,)]
        assert rows.nulls == [values.count(None) for values in units]
        assert rows.nans == [sum(value is not None and value != value for value in values) for values in units]
        assert not any(rows.unread)
        timeline = timeline_of(rows, len(units))
        for key in {value for values in units for value in values if value is not None and value == value}:
            answer = timeline.answer(query.equals(pa.scalar(key)).on(rows.axis))
            assert answer is not None
            assert answer.to_pylist() == [number for number, values in enumerate(units) if key in values]


def test_large_row_groups_are_cut() -> None:
    assert UnitLayout((50_000, 50_001), 20_000).ends() == [50_000, 70_000, 90_000, 100_001]
    assert UnitLayout((50_000, 50_001)).ends() == [50_000, 100_001]
    assert UnitLayout((50_000, 50_001), 0).ends() == [100_001]
    assert UnitLayout((), 20_000).ends() == []


@pytest.mark.parametrize("seed", range(8))
def test_layouts_are_those_of_the_core(seed: int) -> None:
    r = random.Random(seed)
    units = _core.SieveUnits()
    layouts = []
    for number in range(12):
        sizes = [r.choice([0, 1, 7, 20_000, 50_000, 50_001, 123_456]) for _ in range(r.choice([0, 1, 5, 9_000]))]
        rows_per_unit = r.choice([None, 0, 20_000, 1, 50_000] if len(sizes) < 9 else [None, 20_000])
        units.add(number, sizes, rows_per_unit)
        layouts.append(UnitLayout(sizes, rows_per_unit).coarsened())
    numbers = UnitNumbers(layouts)
    assert units.num_units == len(numbers)
    for position, layout in enumerate(layouts):
        assert units.first(position) == numbers.of(position).start
        ranges = units.ranges(position)
        assert [start + rows for _, start, rows in ranges] == layout.ends()
        assert [start for _, start, _ in ranges] == [0, *layout.ends()[:-1]][: len(ranges)]


@pytest.mark.parametrize("seed", range(50))
def test_batches_are_cut_at_unit_borders(seed: int) -> None:
    r = random.Random(seed)
    layouts = [UnitLayout([r.randrange(4) for _ in range(r.randrange(1, 5))]) for _ in range(3)]
    numbers = UnitNumbers(layouts, 5)
    expected = 5
    for position, layout in enumerate(layouts):
        assert numbers.of(position) == range(expected, expected + layout.num_units)
        part = numbers.part(position, position + 1)
        assert part.of(0) == numbers.of(position)
        cutter = part.cutter(0)
        units = []
        left = sum(layout.row_groups)
        while left:
            batch = r.randrange(1, left + 1)
            cuts = list(cutter.cut(batch))
            assert [start for _, start, _ in cuts] == [0, *(stop for _, _, stop in cuts[:-1])]
            assert cuts[-1][2] == batch
            units += [unit for unit, start, stop in cuts for _ in range(start, stop)]
            left -= batch
        cutter.finish()
        assert units == [expected + group for group, rows in enumerate(layout.row_groups) for _ in range(rows)]
        expected += layout.num_units
    assert len(numbers) == expected - 5


def test_a_file_with_other_rows_than_its_footer_had_is_an_error() -> None:
    cutter = UnitCutter(range(2), [3, 6])
    list(cutter.cut(5))
    with pytest.raises(ConflictError, match="6 rows"):
        cutter.finish()
    with pytest.raises(ConflictError, match="6 rows"):
        list(cutter.cut(2))


def test_a_slice_with_deleted_rows_is_one_unit(tmp_path: Path) -> None:
    r = random.Random(1)
    lake = FORMATS["delta"](tmp_path / "t", [rows_of(r, 20)], 5)
    [file_slice] = lake.snapshot().slices
    assert lake.row_groups(file_slice) == (5, 5, 5, 5)
    assert lake.row_groups(replace(file_slice, clean=False)) is None
    assert plan_units(lake, [replace(file_slice, clean=False)], "row_group") == [UnitLayout()]


def test_a_file_that_was_replaced_is_left_out(tmp_path: Path) -> None:
    r = random.Random(1)
    lake = folder(tmp_path / "t", [rows_of(r, 20), rows_of(r, 9)], 5)
    slices = list(lake.snapshot().slices)
    # The rows are of another version than the row groups.
    layouts = [UnitLayout((5, 5, 5, 5)), UnitLayout((5, 5))]
    gathered = scan(lake, slices, {("k",): UnitNumbers(layouts)})[("k",)]
    assert list(gathered.failed) == [1]
    assert gathered.unread == [False] * 4 + [True] * 2
    # The row groups are of another version than the listing.
    pq.write_table(rows_of(r, 9), tmp_path / "t" / "1.parquet", row_group_size=3)
    wait_until_old(tmp_path)
    with pytest.raises(ConflictError, match="changed since it was listed"):
        lake.row_groups(slices[1])
    assert read_row_groups(lake, slices) == [(5, 5, 5, 5), ()]


def test_values_of_another_type_leave_out_all_units_of_the_slice(tmp_path: Path) -> None:
    r = random.Random(1)
    lake = folder(tmp_path / "t", [rows_of(r, 12)], 4)

    class Changing:
        """A lake whose values change their type in the last row group."""

        def read_keys(self, file_slice: Slice, columns: Sequence[Any]) -> Iterator[pa.RecordBatch]:
            for start in (0, 6):
                kind = pa.int64() if start == 0 else pa.string()
                yield pa.record_batch({"k": pa.array([None] * 6, kind), "f": pa.array([0.5] * 6)})

    slices = list(lake.snapshot().slices)
    units: dict[tuple[str, ...], UnitNumbers] = {
        ("k",): UnitNumbers([UnitLayout((4, 4, 4))]),
        ("f",): UnitNumbers([UnitLayout((4, 4, 4))]),
    }
    axes: dict[tuple[str, ...], _core.SieveAxis] = {
        ("k",): _core.SieveAxis(pa.int64()),
        ("f",): _core.SieveAxis(pa.float64()),
    }
    with Room(1 << 20) as room:
        lake_of_test: Any = Changing()
        gathered = gather(lake_of_test, slices, axes, room, memory=1 << 20, threads=1, units=units)
    assert gathered[("k",)].unread == [True] * 3
    assert gathered[("f",)].unread == [False] * 3
    assert not gathered[("k",)].failed


def test_unknown_units_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='"file", "row_group" or "rows"'):
        plan_units(FORMATS["folder"](tmp_path / "t", [rows_of(random.Random(1), 3)], 3), [], "page")  # type: ignore[arg-type]


def test_a_footer_that_claims_too_many_rows_leaves_out_its_file(tmp_path: Path) -> None:
    """The claimed rows would have more units than fit in memory."""
    layout = UnitLayout((1 << 62, 7), 20_000)
    assert layout.num_units == (1 << 62) // 20_000 + 2
    assert layout.coarsened() == UnitLayout((1 << 62, 7))
    for part in range(3):
        pq.write_table(pa.table({"k": range(part * 100, part * 100 + 100)}), tmp_path / f"{part}.parquet")

    def claim(metadata: footer_edit.Struct) -> None:
        [group] = metadata[footer_edit.ROW_GROUPS][1][1]
        num_rows = (footer_edit.I64, 1 << 45)
        metadata[3] = group[3] = group[footer_edit.COLUMNS][1][1][0][footer_edit.META_DATA][1][5] = num_rows

    footer_edit.edit(tmp_path / "1.parquet", claim)
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    report = table.build_index("k", "sieve", unit="rows", progress=False)
    [left_out] = report.left_out
    assert left_out.path == str(tmp_path / "1.parquet")
    assert "pyarrow reads only 100 of 35,184,372,088,832 rows" in str(left_out)
    assert (report.files, report.rows) == (2, 200)
    assert [local_path(file) for file in table.plan("k = 150").files] == [str(tmp_path / "1.parquet")]
