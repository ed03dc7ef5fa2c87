"""Reads of a Hudi table wait while a writer rewrites its properties, which are missing, empty or incomplete then."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi_tables import HudiTable
from support.programs.hudi_rewrite import STEPS, Forever, Rewrite, set_backup_time

import parsieve as ps
from parsieve.lake.hudi import properties as hudi_properties
from parsieve.lake.hudi import table as hudi

pytest.importorskip("hudi", reason="pip install 'parsieve[hudi]'")
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    hudi_table = HudiTable(path, ROWS.schema)
    hudi_table.commit({"one": ROWS, "two": ROWS})
    properties = path / ".hoodie" / "hoodie.properties"
    properties.write_text("#Updated at first\n" + properties.read_text())
    return path


@pytest.mark.parametrize("step", STEPS)
def test_a_plan_waits_for_the_end_of_a_rewrite(folder: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ps.open_table(folder) if step == "half" else None
    rewrite = Rewrite(folder, monkeypatch, step)
    table = table or ps.open_table(folder)
    assert len(table.plan().files) == 2
    assert sorted(table.plan("id >= 2").to_arrow()["id"].to_pylist()) == [2, 2, 3, 3]
    assert rewrite.waits == len(STEPS) - 1 - STEPS.index(step)


def test_a_plan_waits_for_a_rewrite_that_begins_during_the_snapshot(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is complete before and after, but incomplete when the reader of rows opens the table."""
    table: Any = ps.open_table(folder)
    look = hudi.Hudi._read_snapshot
    rewrites: list[Rewrite] = []

    def begin(self: hudi.Hudi, as_of: Any) -> Any:
        if not rewrites:
            rewrites.append(Rewrite(folder, monkeypatch, "empty"))
        return look(self, as_of)

    monkeypatch.setattr(hudi.Hudi, "_read_snapshot", begin)
    assert len(table.plan().files) == 2
    assert rewrites[0].waits == 3


def test_incomplete_properties_that_do_not_fail_are_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The incomplete properties lack the names of partition columns. No snapshot from them is returned."""
    texts = []
    look = hudi.Hudi._read_snapshot

    def record_properties(self: hudi.Hudi, as_of: Any) -> Any:
        snapshot = look(self, as_of)
        texts.append(hudi_properties.stable_text(self.storage))
        return snapshot

    monkeypatch.setattr(hudi.Hudi, "_read_snapshot", record_properties)
    Rewrite(folder, monkeypatch, "whole")
    ps.open_table(folder).plan()
    assert texts[0] is None
    assert texts[-1] is not None


def test_unpickled_slices_are_read_during_a_rewrite(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ps.open_table(folder)
    snapshot = table.opened.lake.snapshot()
    native = pickle.loads(pickle.dumps(snapshot.slices[0].native))
    hudi._reader.cache_clear()
    rewrite = Rewrite(folder, monkeypatch)
    assert sum(pa.record_batch(batch).num_rows for batch in native.stream()) == 3
    assert rewrite.waits == len(STEPS) - 1


def test_the_wait_for_properties_ends_with_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite = Forever(folder, monkeypatch)
    with pytest.raises(FileNotFoundError, match=r"hoodie\.properties"):
        ps.open_table(folder).plan()
    assert rewrite.waits == len(hudi_properties.WAITS)
    rewrite.path.write_text(rewrite.text)
    with pytest.raises(TimeoutError, match="keeps rewriting"):
        ps.open_table(folder).plan()


def test_the_backup_of_a_dead_writer_causes_no_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite = Forever(folder, monkeypatch, "whole")
    set_backup_time(rewrite, lambda now: now.st_mtime - 3600)
    assert len(ps.open_table(folder).plan().files) == 2
    assert rewrite.waits == 0


def test_a_table_without_properties_fails_without_a_wait(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite = Forever(folder, monkeypatch)
    rewrite.backup.unlink()
    with pytest.raises(FileNotFoundError, match=r"hoodie\.properties"):
        ps.open_table(folder).plan()
    assert rewrite.waits == 0
