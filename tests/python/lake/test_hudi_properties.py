"""A Hudi table is read while a writer rewrites its properties: missing, empty or incomplete ones are waited for."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.hudi_tables import HudiTable
from support.programs.hudi_rewrite import STEPS, Forever, Rewrite, abandoned

import parsieve as ps
from parsieve.lake.hudi import properties as hudi_properties
from parsieve.lake.hudi import table as hudi

pytest.importorskip("hudi", reason="pip install 'parsieve[hudi]'")
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    made = HudiTable(path, ROWS.schema)
    made.commit({"one": ROWS, "two": ROWS})
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


def test_a_rewrite_in_the_midst_of_a_look(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is whole before and after, and incomplete when the rows' reader opens the table."""
    table: Any = ps.open_table(folder)
    look = hudi.Hudi._look
    rewrites: list[Rewrite] = []

    def begin(self: hudi.Hudi, as_of: Any) -> Any:
        if not rewrites:
            rewrites.append(Rewrite(folder, monkeypatch, "empty"))
        return look(self, as_of)

    monkeypatch.setattr(hudi.Hudi, "_look", begin)
    assert len(table.plan().files) == 2
    assert rewrites[0].waits == 3


def test_incomplete_properties_that_do_not_fail_are_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lack what partitions are called; a snapshot that was made of them is not returned."""
    seen = []
    look = hudi.Hudi._look

    def spied(self: hudi.Hudi, as_of: Any) -> Any:
        found = look(self, as_of)
        seen.append(hudi_properties.settled_text(self.storage))
        return found

    monkeypatch.setattr(hudi.Hudi, "_look", spied)
    Rewrite(folder, monkeypatch, "whole")
    ps.open_table(folder).plan()
    assert seen[0] is None
    assert seen[-1] is not None


def test_merged_rows_are_opened_elsewhere_during_a_rewrite(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ps.open_table(folder)
    snapshot = table.opened.lake.snapshot()
    native = pickle.loads(pickle.dumps(snapshot.slices[0].native))
    hudi._reader.cache_clear()
    rewrite = Rewrite(folder, monkeypatch)
    assert sum(pa.record_batch(batch).num_rows for batch in native.stream()) == 3
    assert rewrite.waits == len(STEPS) - 1


def test_the_wait_ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite = Forever(folder, monkeypatch)
    with pytest.raises(FileNotFoundError, match=r"hoodie\.properties"):
        ps.open_table(folder).plan()
    assert rewrite.waits == len(hudi_properties.WAITS)
    rewrite.path.write_text(rewrite.text)
    with pytest.raises(TimeoutError, match="keeps rewriting"):
        ps.open_table(folder).plan()


def test_a_backup_that_a_dead_writer_left_is_not_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite = Forever(folder, monkeypatch, "whole")
    abandoned(rewrite, lambda now: now.st_mtime - 3600)
    assert len(ps.open_table(folder).plan().files) == 2
    assert rewrite.waits == 0


def test_a_table_without_properties_fails_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewrite = Forever(folder, monkeypatch)
    rewrite.backup.unlink()
    with pytest.raises(FileNotFoundError, match=r"hoodie\.properties"):
        ps.open_table(folder).plan()
    assert rewrite.waits == 0
