"""Changes in place that wipe ranges, or during which another program writes to the file."""

import contextlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import disk
from support.disk import SECTOR
from support.newer_files import WRITERS, parquet, rename

import parsieve as ps
from parsieve.io import fd as descriptors
from parsieve.io import in_place
from parsieve.io.in_place import InPlaceChange

# Bytes without zeros, so that each wiped byte is visible.
OLD = bytes(range(1, 250)) * 50
APPENDED = bytes(range(255, 2, -1)) * 20
NEW = OLD + APPENDED
# One range begins and ends within sectors, one is within a sector, one is the last bytes of the old file.
WIPE = [(700, 5000), (6000, 6020), (len(OLD) - 100, len(OLD))]
WIPED = descriptors.fill_with_zeros(NEW, 0, WIPE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    return path


def accept(_: Path) -> None:
    pass


def tail() -> Iterator[bytes]:
    yield APPENDED[:1000]
    yield APPENDED[1000:1001]
    yield APPENDED[1001:]


def run(
    path: Path, tail: Callable[[], Iterator[bytes]] = tail, verify: Callable[[Path], None] = accept
) -> tuple[int, bytes]:
    """Change the file in place, and return its new size and content."""
    with InPlaceChange(path) as change:
        size = change.finish(descriptors.identity(path.stat()), WIPE, tail, verify)
    return size, path.read_bytes()


def recovered(path: Path) -> bytes:
    in_place.recover(path)
    assert not in_place.has_journal(path)
    return path.read_bytes()


def test_ranges_are_wiped(path: Path) -> None:
    assert run(path) == (len(WIPED), WIPED)
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("number", range(1, 60))
def test_a_change_that_crashes_at_any_write_is_undone_or_finished(path: Path, number: int) -> None:
    # Each write has half a sector, so the process often stops within a sector.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(descriptors, "write", write_in_halves)
        disk.crash(lambda: run(path), "write", number)
    half = path.read_bytes()
    if half[len(OLD) :] == APPENDED:
        # Only a disk that writes half sectors could leave a range half wiped like this. Nothing is lost, at least.
        assert number > len(APPENDED) // SECTOR
        with contextlib.suppress(ps.UnsupportedError):
            in_place.recover(path)
        assert path.read_bytes() in (half, WIPED)
    else:
        assert recovered(path) == OLD


def write_in_halves(fd: int, start: int, data: bytes) -> None:
    crashing = vars(descriptors)["os"]
    for position in range(0, len(data), SECTOR // 2):
        crashing.lseek(fd, start + position, os.SEEK_SET)
        crashing.write(fd, data[position : position + SECTOR // 2])


@pytest.mark.parametrize("seed", range(20))
def test_power_cuts_while_ranges_are_wiped(tmp_path: Path, seed: int) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    live.mkdir()
    crashed.mkdir()
    (live / "file").write_bytes(OLD)
    recording = disk.RecordingOs(live)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(descriptors, "CHUNK", 4 * SECTOR)
        disk.patch_os(patched, recording)
        run(live / "file")
    found = []
    for length, files in disk.survivors(recording, seed):
        for entry in crashed.iterdir():
            entry.unlink()
        for name, data in files.items():
            (crashed / name).write_bytes(data)
        found.append(recovered(crashed / "file"))
        assert found[-1] in (OLD, WIPED), f"after {length} changes"
    assert found[0] == OLD
    assert found[-1] == WIPED


def interrupt_wiping(path: Path) -> bytes:
    """Crash after the first range is wiped, and return the content."""
    # Writes: the journal, the appended bytes, their last sector, the first range.
    with pytest.MonkeyPatch.context() as patched:
        disk.patch_os(patched, disk.CrashingOs("write", 5))
        with pytest.raises(disk.Crash):
            run(path)
    content = path.read_bytes()
    assert content == descriptors.fill_with_zeros(NEW, 0, WIPE[:1])
    return content


def test_wiping_is_finished(path: Path) -> None:
    interrupt_wiping(path)
    assert recovered(path) == WIPED


@pytest.mark.parametrize("place", [700, 701, 3000, 4999, 6000, 6019, len(OLD) - 1])
def test_newer_bytes_in_a_range_to_wipe_are_not_wiped(path: Path, place: int) -> None:
    """Another program such as `rsync --inplace` begins to overwrite the file from its start."""
    content = bytearray(interrupt_wiping(path))
    content[place] = 255
    path.write_bytes(content)
    with pytest.raises(ps.UnsupportedError, match="delete the journal"):
        in_place.recover(path)
    assert path.read_bytes() == content
    assert in_place.has_journal(path)


@pytest.mark.parametrize("seed", range(10))
def test_torn_sectors_of_a_complete_file_are_restored(path: Path, seed: int) -> None:
    """All appended bytes are on disk, but not all sectors of the block to which they were appended."""
    disk.crash(lambda: run(path), "fsync", 5)
    chance = random.Random(seed)
    content, block = bytearray(path.read_bytes()), len(OLD) // 4096 * 4096
    assert content == NEW
    for start in range(block, len(OLD) // SECTOR * SECTOR, SECTOR):
        if chance.random() < 0.5:
            content[start : start + SECTOR] = bytes(SECTOR)
    path.write_bytes(content)
    assert recovered(path) == WIPED


@WRITERS
@pytest.mark.parametrize("moment", ["planned", "written"])
def test_a_file_that_is_replaced_while_it_is_changed_stays(
    path: Path, write: Callable[[Path, bytes], None], moment: str
) -> None:
    newer, calls = parquet(9000), []

    def replacing_tail() -> Iterator[bytes]:
        calls.append("tail")
        if len(calls) == 1 and moment == "planned":
            write(path, newer)
        yield APPENDED
        if len(calls) == 2 and moment == "written":
            write(path, newer)

    with pytest.raises(ps.ConflictError, match=r"was changed|was replaced"):
        run(path, replacing_tail)
    assert path.read_bytes() == newer
    assert not in_place.has_journal(path)


@WRITERS
def test_a_file_that_is_replaced_before_it_is_wiped_stays(path: Path, write: Callable[[Path, bytes], None]) -> None:
    newer = parquet(9000)
    with pytest.raises((ps.ConflictError, OSError), match=r"was replaced|does not have the bytes"):
        run(path, verify=lambda path: write(path, newer))
    assert path.read_bytes() == newer
    assert not in_place.has_journal(path)


def test_a_file_without_wiping_that_fails_its_check_is_restored(path: Path) -> None:
    def refuse(_: Path) -> None:
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        run(path, verify=refuse)
    assert path.read_bytes() == OLD
    assert not in_place.has_journal(path)


def test_the_error_names_a_remedy_if_the_file_cannot_be_restored(path: Path) -> None:
    def damage(path: Path) -> None:
        path.write_bytes(b"in the middle of another file")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        run(path, verify=damage)
    assert "delete the journal .file.parsieve-journal" in "".join(stopped.value.__notes__)
    assert path.read_bytes() == b"in the middle of another file"
    assert in_place.has_journal(path)


@pytest.mark.skipif(not hasattr(descriptors, "fcntl"), reason="needs locks")
def test_a_change_of_a_replaced_file_keeps_its_journal_until_it_is_over(path: Path) -> None:
    """Its lock is that of the old file, so only the lock of the journal keeps other processes out."""
    newer = parquet(9000)

    def replace_and_open(path: Path) -> None:
        rename(path, newer)
        for call in (in_place.recover, InPlaceChange):
            with pytest.raises(ps.ConflictError, match="is being changed"):
                call(path)
        assert in_place.has_journal(path)

    with pytest.raises(ps.ConflictError, match="was replaced"):
        run(path, verify=replace_and_open)
    assert path.read_bytes() == newer
    assert not in_place.has_journal(path)


def test_the_journal_of_another_change_is_not_replaced(path: Path) -> None:
    journal = in_place.journal_path(path)
    with InPlaceChange(path) as change:
        journal.write_bytes(b"of another process")
        with pytest.raises(ps.ConflictError, match="by another process"):
            change.finish(descriptors.identity(path.stat()), WIPE, tail, accept)
    assert journal.read_bytes() == b"of another process"
    assert path.read_bytes() == OLD
