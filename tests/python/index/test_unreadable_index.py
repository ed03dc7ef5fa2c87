"""An index of which something cannot be read, or that is not there: plans keep, and who looks at it is told what."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore.store
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.places import index_of

import parsieve as ps
from parsieve.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files with an index of each kind, and changes above it."""
    folder = tmp_path / "t"
    folder.mkdir()
    for part in range(2):
        pq.write_table(pa.table({"id": range(part, 300, 3), "f": [float(part)] * 100}), folder / f"{part}.parquet")
    time.sleep(0.1)
    table = ps.open_table(folder)
    table.build_index("id", kind="both")
    table.build_index("f", kind="sieve")
    pq.write_table(pa.table({"id": range(2, 300, 3), "f": [2.0] * 100}), folder / "2.parquet")
    time.sleep(0.1)
    table.update_index()
    return folder


def test_a_folder_where_a_part_should_be(folder: Path) -> None:
    """As the disk, a right that is missing and a network do: an error that says nothing of the file's bytes."""
    victims = [file for file in index_of(folder).rglob("*") if file.is_file()]
    newest = max(file for file in victims if file.parent.name == "commits")
    seen = set()
    for victim in victims:
        if victim.parent.name == "commits" and victim != newest:
            continue
        whole = victim.read_bytes()
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
            lies = table.verify_index()
            assert lies or victim.name not in named(folder), victim
            assert all(victim.name in lie.part + lie.problem and not lie.loses_rows for lie in lies), (victim, lies)
            seen.add(victim.parent.name if lies else "")
        told = locations(table)
        assert told == {"id": 3, "f": 3} or victim.name in told, (victim, told)
        assert victim == newest or not isinstance(told, str) or "verify_index()" in told
        victim.rmdir()
        victim.write_bytes(whole)
    assert seen >= {"bindings", "roots", "segments", "deltas", "shelves"}
    assert ps.open_table(folder).verify_index() == []


def locations(table: ps.Table) -> dict[str, int] | str:
    """How many each column has, or why nobody can tell."""
    try:
        return {name: one.locations for name, one in table.index_stats().items()}
    except ps.ParsieveError as error:
        return str(error)


def named(folder: Path) -> str:
    """The files of the newest version."""
    view = ps.open_table(folder).opened.index.newest()
    return "" if view is None else " ".join(part.name for part in view.commit.parts())


def test_nothing_that_fails_in_passing_is_remembered(folder: Path, tmp_path: Path) -> None:
    """A service holds its table for days: when the disk is back, so is the index."""
    for kind in ("sieve", "bloom"):
        table = ps.open_table(folder)
        table.drop_index()
        table.build_index("id", kind=kind)
        for part in ("bindings", *(["shelves"] if kind == "bloom" else ["roots", "segments"])):
            table, place = ps.open_table(folder), index_of(folder) / part
            shutil.move(place, tmp_path / "aside")
            place.write_bytes(b"")
            plan = table.plan("id = 101", row_groups=False)
            assert any(path.endswith("2.parquet") for path in plan.files)
            assert "the index, " in plan.explain()
            place.unlink()
            shutil.move(tmp_path / "aside", place)
            again = table.plan("id = 101", row_groups=False, stale="error")
            assert [path[-9:] for path in again.files] == ["2.parquet"], (kind, part)
            assert "the index, " not in again.explain()


def test_a_store_that_is_not_reached(folder: Path) -> None:
    """Most errors of obstore are no `OSError`."""
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
    asked: list[Callable[[], Any]] = [table.verify_index, table.index_stats, table.index_kinds]
    for ask in asked:
        with pytest.raises(ps.ParsieveError, match=r"bucket.* cannot be read: .*Generic S3 error"):
            ask()
    with pytest.raises(OSError, match="Generic S3 error"):
        table.build_index("id")
    with pytest.raises(OSError, match="Generic S3 error"):
        ps.open_table((store, "table")).plan()


def test_a_table_without_an_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "0.parquet")
    time.sleep(0.1)
    table = ps.open_table(tmp_path)

    def refused() -> None:
        asked: list[Callable[[], Any]] = [table.verify_index, table.update_index, table.compact_index]
        for ask in asked:
            with pytest.raises(ps.IndexNotFoundError, match="holds no index; build one first"):
                ask()
        with pytest.raises(
            ps.StaleIndexError, match=r"no index, so 1 file must be read, such as .*0\.parquet.*build_index"
        ):
            table.plan("id = 1", stale="error")
        assert (table.index_kinds(), table.index_stats()) == ({}, {})
        assert table.plan("id = 1").to_arrow().num_rows == 1
        for command in ("verify", "stats", "update", "compact"):
            assert main(["index", command, str(tmp_path)]) == 2, command
            assert "no index" in capsys.readouterr().err

    refused()
    # Nothing is read in vain where the metadata exclude all.
    assert table.plan("id = 7", stale="error", row_groups=True).files == []
    table.build_index("id")
    table.plan("id = 1", stale="error")
    table.drop_index()
    refused()
