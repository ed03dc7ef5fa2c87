"""Row ranges of plans of Delta tables with large row groups. DuckDB finds the position of each matching row."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from support.models.position_truth import BaseFile, check_ranges, is_inside

import parsieve as ps

# An index cuts row groups of more than 50,000 rows every 20,000 rows.
CUT, LARGE = 20_000, 50_000
INDEXED = ["key", "name", "late"]


class RowRangeTable:
    """A Delta table with large row groups, whose rows can be found by DuckDB."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self._generator = np.random.default_rng(seed)
        self.path = str(folder / "t")
        self._next = 0
        self.append(130_000)

    def append(self, count: int) -> None:
        """Append rows: scattered keys, names that are rare or frequent, and times that are nearly sorted."""
        generator, first = self._generator, self._next
        self._next += count
        numbers = np.arange(first, first + count)
        rare = generator.integers(0, 40_000, count)
        late = numbers + np.where(generator.random(count) < 0.01, -generator.integers(0, 100_000, count), 0)
        names = pa.array([f"n{number}" if number % 40 else "often" for number in rare], mask=rare % 97 == 0)
        rows = pa.table({"uid": numbers, "key": generator.integers(0, 90_000, count), "name": names, "late": late})
        properties = WriterProperties(max_row_group_size=self.random.choice([1_000_000, 70_000, 30_000]))
        write_deltalake(self.path, rows, mode="append", writer_properties=properties)

    def change(self) -> None:
        """Commit a random change."""
        delta_table = DeltaTable(self.path)
        some = ", ".join(str(self.random.randrange(90_000)) for _ in range(20))
        match self.random.choice(["append", "append", "append", "large", "update", "delete", "compact"]):
            case "append":
                self.append(self.random.randrange(1, 500))
            case "large":
                self.append(self.random.randrange(51_000, 90_000))
            case "update":
                delta_table.update(updates={"key": "key + 1"}, predicate=f"key IN ({some})")
            case "delete":
                delta_table.delete(f"key IN ({some})")
            case "compact":
                delta_table.optimize.compact()

    def files(self) -> dict[str, BaseFile]:
        """Return the row groups of each live file."""
        files = {}
        for uri in DeltaTable(self.path).file_uris():
            metadata = pq.read_metadata(uri)
            sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            files[uri] = BaseFile({}, [sum(sizes[:group]) for group in range(len(sizes) + 1)])
        return files

    def question(self) -> str:
        """Return a random condition."""
        key, late = self.random.randrange(90_000), self.random.randrange(self._next)
        simple = [
            f"key = {key}",
            f"key IN ({key}, {key + 7}, {key - 9})",
            f"late BETWEEN {late} AND {late + 300}",
            f"name = 'n{self.random.randrange(1, 40_000)}'",
            f"name LIKE 'n{self.random.randrange(100, 1_000)}%' AND late < {late}",
            f"name IS NULL AND key > {key}",
            "name = 'often'",
            f"key = {-1 - key}",
        ]
        first, second = self.random.sample(simple, 2)
        return self.random.choice([first, first, f"({first}) OR ({second})", f"({first}) AND ({second})"])


def hits(files: Mapping[str, BaseFile], where: str) -> dict[str, list[int]]:
    """Return the positions of the matching rows of each file that has one."""
    with duckdb.connect() as con:
        source = f"read_parquet({list(files)!r}, file_row_number=true, filename=true, union_by_name=true)"
        rows = con.execute(f"SELECT filename, file_row_number FROM {source} WHERE {where} ORDER BY ALL").fetchall()
    found: dict[str, list[int]] = {}
    for path, position in rows:
        found.setdefault(path, []).append(position)
    return found


def check(table: ps.Table, made: RowRangeTable, count: int) -> None:
    """Check that plans of random conditions keep the position of each matching row."""
    files = made.files()
    for _ in range(count):
        where = made.question()
        positions = hits(files, where)
        for footers in (False, None):
            plan = table.plan(where, row_groups=footers)
            assert positions.keys() <= set(plan.files), where
            for path in plan.files:
                groups, ranges = plan.row_groups[path], plan.row_ranges[path]
                if ranges is not None:
                    check_ranges(ranges, files[path], groups)
                for position in positions.get(path, []):
                    group = files[path].row_group(position)
                    assert groups is None or group in groups, (where, path, position)
                    assert ranges is None or is_inside(position, ranges), (where, path, position)


def check_present_keys(table: ps.Table, made: RowRangeTable, count: int) -> None:
    """Check that plans of present keys keep exactly the ranges with a matching row."""
    files = made.files()
    with duckdb.connect() as con:
        source = f"read_parquet({list(files)!r}, union_by_name=true)"
        keys = con.execute(f"SELECT DISTINCT key FROM {source} ORDER BY ALL").fetchall()
    for (key,) in made.random.sample(keys, count):
        positions = hits(files, f"key = {key}")
        plan = table.plan(f"key = {key}", row_groups=False)
        assert set(plan.files) == positions.keys()
        for path, inside in positions.items():
            expected = set().union(*(unit_of(files[path], position) for position in inside))
            kept = plan.row_ranges[path]
            whole = [(0, files[path].borders[-1])]
            assert {row for first, rows in kept or whole for row in range(first, first + rows)} == expected, (key, path)


def unit_of(file: BaseFile, position: int) -> range:
    """Return the rows of the unit with a row."""
    group = file.row_group(position)
    first, end = file.borders[group], file.borders[group + 1]
    if end - first <= LARGE:
        return range(first, end)
    start = first + (position - first) // CUT * CUT
    return range(start, min(start + CUT, end))


def live(folder: Path, seed: int, commits: int, check_every: int, count: int) -> None:
    made = RowRangeTable(folder, seed)
    table = ps.open_table(made.path)
    table.build_index(INDEXED, kind="sieve", progress=False, unit="rows")
    check_present_keys(table, made, count)
    for step in range(1, commits + 1):
        made.change()
        if step % check_every:
            continue
        check(table, made, count)
        table.update_index(progress=False, compact=False)
        check(table, made, count)
        if made.random.random() < 0.5:
            table.compact_index()
            check(table, made, count)
            check_present_keys(table, made, count)
    assert table.verify_index() == []


def test_row_ranges_of_a_short_history_keep_the_position_of_each_match(tmp_path: Path) -> None:
    live(tmp_path, seed=1, commits=6, check_every=3, count=5)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", [2, 3])
def test_row_ranges_of_a_long_history_keep_the_position_of_each_match(tmp_path: Path, seed: int) -> None:
    live(tmp_path, seed, commits=200, check_every=8, count=8)
