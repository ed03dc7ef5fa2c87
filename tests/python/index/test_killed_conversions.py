"""A conversion that is killed at any of its writes leaves the index in format 1 or in format 2, and both are whole."""

from __future__ import annotations

import datetime as dt
import shutil
import zipfile
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from support.killed_store import kills

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.index.log.folders import GUARD
from parsieve.lake import open_lake

STORED = Path(__file__).parents[2] / "vectors" / "index_v1.zip"
CONDITIONS = ["id = 14", "id BETWEEN 30 AND 33", "name = 'user-007'", "id IS NULL", "score = 2.5", "id = 7000"]


def formats(index: TableIndex) -> set[int]:
    view = index.refresh()
    assert view is not None
    return {state.format for state in view.columns.values()}


def matches(folder: Path) -> dict[tuple[str, int], int]:
    """Return the number of matching rows of each condition in three versions of the table."""
    counts = {}
    for version in (3, 4, DeltaTable(folder).version()):
        with duckdb.connect() as con:
            con.register("delta_rows", DeltaTable(folder, version=version).to_pyarrow_table())
            for condition in CONDITIONS:
                counts[condition, version] = con.sql(f"FROM delta_rows WHERE {condition}").shape[0]
    return counts


def check(table: ps.Table, expected: dict[tuple[str, int], int]) -> int:
    """Compare plans with the number of matching rows. Return the number of skipped files."""
    skipped = 0
    for (condition, version), count in expected.items():
        plan = table.plan(condition, version, row_groups=False)
        assert plan.to_arrow().num_rows == count, (condition, version)
        skipped += len(plan.skipped)
    return skipped


def test_a_killed_conversion_leaves_one_of_both_formats(tmp_path: Path) -> None:
    folder, count = tmp_path / "table", 0
    with zipfile.ZipFile(STORED) as archive:
        archive.extractall(folder)
    write_deltalake(folder, pa.table({"id": [7000], "name": ["new"], "score": [0.5]}), mode="append")
    lake = open_lake(str(folder))
    expected = matches(folder)

    def copy() -> Path:
        nonlocal count
        count += 1
        return Path(shutil.copytree(folder / "_parsieve", tmp_path / f"index-{count}"))

    survived = []
    for moment, killed in kills(copy, lambda index: ps.Table(lake, index).convert_index(progress=False)):
        index = TableIndex(killed)
        survived.append(formats(index))
        table = ps.Table(lake, index)
        assert check(table, expected) > 0, moment
        assert table.verify_index() == [], moment
        # The next conversion succeeds. Nothing stays of the killed one.
        table.convert_index(progress=False)
        assert formats(index) == {2}
        index.expire(0, garbage_age=dt.timedelta(seconds=-5))
        newest = index.log.newest()
        assert newest is not None
        stored = {str(path.relative_to(killed)) for path in killed.rglob("*") if path.is_file()}
        used = {part.name for part in newest.parts() if part.name}
        assert {name for name in stored if not name.startswith(("commits/", "log/")) and ".tmp-" not in name} == used, (
            moment
        )
        assert {name for name in stored if name.startswith("commits/v")} == {GUARD}, moment
        assert check(table, expected) > 0, moment
        assert table.verify_index() == [], moment
        shutil.rmtree(killed)
    # Only a kill after the last write leaves the new format.
    assert survived.count({2}) == 1
    assert survived.count({1}) == len(survived) - 1
