"""Power cuts after every write: although unsynced writes are lost or torn, the old or the new file remains."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import disk

import parsieve as ps
from parsieve.io import fd

NAME, CHECKSUM = "t.parquet", ".t.parquet.crc"
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {"row_group_size": 500},
    "filters": {"bloom_filter_options": {"id": {"ndv": 900}}},
    "index": {"write_page_index": True, "row_group_size": 100},
}


def record(
    folder: Path, shape: str, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> tuple[disk.RecordingOs, bytes, bytes]:
    path = folder / NAME
    pq.write_table(pa.table({"id": range(900), "s": [str(n) for n in range(900)]}), path, **SHAPES[shape])
    (folder / CHECKSUM).write_bytes(b"crc\0")
    old = path.read_bytes()
    recording = disk.RecordingOs(folder)
    with monkeypatch.context() as patched:
        patched.setattr(fd, "CHUNK", 1024)
        disk.patch_os(patched, recording)
        ps.add_filters(path, columns=["id", "s"], in_place=in_place)
    new = path.read_bytes()
    assert new != old
    assert len(recording.changes) > 10
    return recording, old, new


@pytest.mark.parametrize("shape", SHAPES)
def test_a_replaced_file_is_the_old_one_or_the_new_one(
    tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, old, new = record(tmp_path, shape, monkeypatch, in_place=False)
    found = []
    for length, files in disk.survivors(recording, seed=1):
        assert files[NAME] in (old, new), f"after {length} changes"
        assert files[NAME] == old or CHECKSUM not in files, "Hadoop would refuse the new file for its old checksum"
        assert {name for name in files if not name.startswith(".")} == {NAME}
        found.append(files[NAME] == new)
    assert found[:4] == [False] * 4
    assert found[-4:] == [True] * 4, "a change survives once it was reported as done"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_changed_in_place_is_the_old_one_or_the_new_one_after_it_is_opened(
    tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "live").mkdir()
    recording, old, new = record(tmp_path / "live", shape, monkeypatch, in_place=True)
    found, recovered = [], 0
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for length, files in disk.survivors(recording, seed=2):
        for entry in crashed.iterdir():
            entry.unlink()
        for name, data in files.items():
            (crashed / name).write_bytes(data)
        ps.open_filters(crashed / NAME)
        content = (crashed / NAME).read_bytes()
        assert content in (old, new), f"after {length} changes"
        assert content == old or CHECKSUM not in files
        recovered += content != files[NAME]
        found.append(content == new)
    assert recovered > 0, "some crashes leave a change to undo or finish"
    assert found[:4] == [False] * 4
    assert found[-4:] == [True] * 4


@pytest.mark.parametrize("lost", ["fsync of the data", "fsync of the journal"])
def test_the_simulated_disk_detects_a_missing_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    in_place = lost == "fsync of the journal"
    recording, old, new = record(tmp_path, "plain", monkeypatch, in_place)
    file = next(change.file for change in recording.changes if change.kind == "create")
    recording.changes = [change for change in recording.changes if (change.kind, change.file) != ("sync", file)]
    broken = 0
    for _, files in disk.survivors(recording, seed=3):
        if in_place:
            # The file is half changed, and there is no complete journal.
            whole = any(name.endswith("-journal") and len(data) > 100 for name, data in files.items())
            broken += files[NAME] not in (old, new) and not whole
        else:
            broken += files[NAME] not in (old, new)
    assert broken > 0
