"""Unreadable and missing indexes: plans keep all files in doubt, and maintenance commands explain the problem."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.places import index_of

import parsieve as ps
from parsieve.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create three files with an index of each kind, updated once."""
    folder = tmp_path / "t"
    folder.mkdir()
    for part in range(2):
        pq.write_table(pa.table({"id": range(part, 300, 3), "f": [float(part)] * 100}), folder / f"{part}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(folder)
    table.build_index("id", kind="both")
    table.build_index("f", kind="sieve")
    pq.write_table(pa.table({"id": range(2, 300, 3), "f": [2.0] * 100}), folder / "2.parquet")
    wait_until_old(tmp_path)
    table.update_index()
    return folder


def test_plans_survive_each_unreadable_file_of_the_index(folder: Path) -> None:
    """Replace each file with a folder: as with failing disks or missing permissions, the file cannot be read."""
    victims = [file for file in index_of(folder).rglob("*") if file.is_file()]
    newest = max(file for file in victims if file.parent.name == "log")
    damaged_kinds = set()
    for victim in victims:
        if victim.parent.name in ("commits", "log") and victim != newest:
            continue
        intact = victim.read_bytes()
        victim.unlink()
        victim.mkdir()
        table = ps.open_table(folder)
        for where, row_groups in (("id = 101", None), ("f = 2.0", True), ("id BETWEEN 101 AND 101", False)):
            plan = table.plan(where, row_groups=row_groups)
            assert any(path.endswith("2.parquet") for path in plan.files), (victim, where)
        if victim == newest:
            with pytest.raises(ps.ParsieveError, match=victim.name):
                table.verify_index()
        else:
            problems = table.verify_index()
            assert problems or victim.name not in names_of_newest_version(folder), victim
            assert all(
                victim.name in problem.part + problem.problem and not problem.loses_rows for problem in problems
            ), (victim, problems)
            damaged_kinds.add(victim.parent.name if problems else "")
        stats = locations(table)
        assert stats == {"id": 3, "f": 3} or victim.name in stats, (victim, stats)
        assert victim == newest or not isinstance(stats, str) or "verify_index()" in stats
        victim.rmdir()
        victim.write_bytes(intact)
    assert damaged_kinds >= {"bindings", "roots", "segments", "deltas", "shelves"}
    assert ps.open_table(folder).verify_index() == []


def locations(table: ps.Table) -> dict[str, int] | str:
    """Return the number of locations of each column, or the error message."""
    try:
        return {name: stats.locations for name, stats in table.index_stats().items()}
    except ps.ParsieveError as error:
        return str(error)


def names_of_newest_version(folder: Path) -> str:
    """Return the file names of the newest version."""
    view = ps.open_table(folder).opened.index.newest()
    return "" if view is None else " ".join(part.name for part in view.commit.parts())


def test_temporary_failures_are_not_remembered(folder: Path, tmp_path: Path) -> None:
    """A service may keep a table open for days. When the disk works again, so does the index."""
    for kind in ("sieve", "bloom"):
        table = ps.open_table(folder)
        table.drop_index()
        table.build_index("id", kind=kind)
        for part in ("bindings", *(["shelves"] if kind == "bloom" else ["roots", "segments"])):
            table, path = ps.open_table(folder), index_of(folder) / part
            shutil.move(path, tmp_path / "moved")
            path.write_bytes(b"")
            plan = table.plan("id = 101", row_groups=False)
            assert any(path.endswith("2.parquet") for path in plan.files)
            assert "the index, " in plan.explain()
            path.unlink()
            shutil.move(tmp_path / "moved", path)
            plan = table.plan("id = 101", row_groups=False, stale="error")
            assert [path[-9:] for path in plan.files] == ["2.parquet"], (kind, part)
            assert "the index, " not in plan.explain()


def test_an_unreachable_store_keeps_files_and_fails_maintenance(folder: Path) -> None:
    """Most errors of obstore are not instances of `OSError`."""
    store = obstore.store.S3Store(
        "bucket",
        endpoint="http://127.0.0.1:1",
        region="nowhere",
        access_key_id="a",
        secret_access_key="b",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    table = ps.open_table(folder, index_location=(store, "index"))
    plan = table.plan("id = 101")
    assert any(path.endswith("2.parquet") for path in plan.files)
    assert re.search("the index cannot be used: .*Generic S3 error", plan.explain())
    methods: list[Callable[[], Any]] = [table.verify_index, table.index_stats, table.index_kinds]
    for method in methods:
        with pytest.raises(ps.ParsieveError, match=r"bucket.* cannot be read: .*Generic S3 error"):
            method()
    with pytest.raises(OSError, match="Generic S3 error"):
        table.build_index("id")
    with pytest.raises(OSError, match="Generic S3 error"):
        ps.open_table((store, "table")).plan()


def test_maintenance_needs_an_index_and_plans_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "0.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)

    def assert_no_index() -> None:
        methods: list[Callable[[], Any]] = [table.verify_index, table.update_index, table.compact_index]
        for method in methods:
            with pytest.raises(ps.IndexNotFoundError, match="holds no index; build one first"):
                method()
        with pytest.raises(
            ps.StaleIndexError, match=r"no index, so 1 file must be read, such as .*0\.parquet.*build_index"
        ):
            table.plan("id = 1", stale="error")
        assert (table.index_kinds(), table.index_stats()) == ({}, {})
        assert table.plan("id = 1").to_arrow().num_rows == 1
        for command in ("verify", "stats", "update", "compact"):
            assert main(["index", command, str(tmp_path)]) == 2, command
            assert "no index" in capsys.readouterr().err

    assert_no_index()
    # No file is read without need if its metadata excludes all rows.
    assert table.plan("id = 7", stale="error", row_groups=True).files == []
    table.build_index("id")
    table.plan("id = 1", stale="error")
    table.drop_index()
    assert_no_index()


def test_an_index_location_that_is_a_file_is_reported_as_one(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "a file"
    place.write_bytes(b"")
    table = ps.open_table(folder, index_location=place)
    assert "a file is a file, not a folder" in table.plan("id = 101").explain()
    methods: list[Callable[[], Any]] = [lambda: table.build_index("id"), table.update_index, table.verify_index]
    for method in [*methods, table.drop_index, table.expire_index]:
        with pytest.raises(ps.UnsupportedError, match=r"a file is a file, not a folder; .*index_location="):
            method()
    assert place.read_bytes() == b""
