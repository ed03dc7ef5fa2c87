"""A change in place was interrupted, and another program replaced the file: parsieve never touches the newer file."""

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import SECTOR, crash
from support.newer_files import WRITERS, overwrite, parquet, rename

import parsieve as ps
from parsieve.io import fd as descriptors
from parsieve.io import in_place


class Interrupted:
    """A file whose change in place a crash interrupted, with the old and the new content and the journal."""

    def __init__(self, path: Path, old: bytes, new: bytes) -> None:
        self.path, self.old, self.new = path, old, new
        self.journal = in_place.journal_path(path)

    @property
    def appended(self) -> int:
        return len(self.new) - len(self.old)

    def opens_as(self, content: bytes) -> bool:
        """Open the file, and return whether it has this content afterwards, and no journal."""
        ps.open_filters(self.path).close()
        return self.path.read_bytes() == content and not self.journal.exists()

    def is_refused(self, content: bytes) -> bool:
        """Write a content and open the file; return whether that fails and changes nothing."""
        journal = self.journal.read_bytes()
        overwrite(self.path, content)
        for call in (ps.open_filters, ps.add_filters, ps.drop_filters, ps.check_filters):
            with pytest.raises(ps.UnsupportedError, match=r"delete the journal .t.parquet.parsieve-journal"):
                call(self.path)
        with pytest.raises(ps.UnsupportedError, match=f"its first {len(self.old)} bytes are the old file"):
            ps.add_filters(self.path, columns="id", in_place=True)
        return self.path.read_bytes() == content and self.journal.read_bytes() == journal


def add(path: Path) -> None:
    ps.add_filters(path, columns="id", in_place=True)


@pytest.fixture
def interrupted(tmp_path: Path) -> Interrupted:
    """Crash in the middle of the appended bytes."""
    return crashed(tmp_path / "t.parquet", "write", 4)


def parquet_of(rows: int) -> bytes:
    return parquet(rows, first=0, row_group_size=1000)


def crashed(path: Path, call: str, number: int, rows: int = 3000) -> Interrupted:
    old = parquet_of(rows)
    path.write_bytes(old)
    add(path)
    new = path.read_bytes()
    path.write_bytes(old)
    crash(lambda: add(path), call, number)
    assert in_place.has_journal(path)
    return Interrupted(path, old, new)


def test_a_file_grows_to_its_new_size_before_it_gets_any_bytes(tmp_path: Path) -> None:
    file = crashed(tmp_path / "t.parquet", "write", 2)
    assert file.path.read_bytes() == file.old + bytes(file.appended)
    assert file.opens_as(file.old)


def test_no_program_can_read_a_file_whose_filters_are_not_on_disk(tmp_path: Path) -> None:
    """The last sector is written after all others are synced."""
    # Syncs: journal, folder, length, all but the last sector.
    file = crashed(tmp_path / "t.parquet", "fsync", 4)
    half = file.path.read_bytes()
    assert half.count(0) < len(file.old)
    assert half[:-SECTOR] == file.new[:-SECTOR]
    assert half[-1] == 0
    with pytest.raises(pa.ArrowInvalid):
        pq.read_metadata(file.path)
    assert file.opens_as(file.old)


@WRITERS
@pytest.mark.parametrize("moment", ["no bytes", "some bytes", "all bytes"])
@pytest.mark.parametrize("size", ["smaller", "larger", "old", "between", "new", "beyond"])
def test_a_newer_file_of_any_size_stays(
    tmp_path: Path, write: Callable[[Path, bytes], None], moment: str, size: str
) -> None:
    call, number = {"no bytes": ("write", 2), "some bytes": ("write", 4), "all bytes": ("unlink", 2)}[moment]
    file = crashed(tmp_path / "t.parquet", call, number)
    newer = {
        "smaller": parquet(10),
        "larger": parquet(90_000),
        "old": parquet(10, len(file.old)),
        "between": parquet(10, len(file.old) + 100),
        "new": parquet(10, len(file.new)),
        "beyond": parquet(10, len(file.new) + 1),
    }[size]
    write(file.path, newer)
    assert file.opens_as(newer)
    assert pq.read_table(file.path)["id"][0].as_py() == 7


@WRITERS
def test_a_newer_file_with_the_same_rows_but_one_stays(
    interrupted: Interrupted, write: Callable[[Path, bytes], None]
) -> None:
    newer = parquet(3000, first=1, row_group_size=1000)
    assert len(newer) == len(interrupted.old)
    write(interrupted.path, newer)
    assert interrupted.opens_as(newer)


def test_a_newer_file_is_changed_in_place(interrupted: Interrupted) -> None:
    newer = parquet(2000)
    overwrite(interrupted.path, newer)
    add(interrupted.path)
    assert interrupted.path.read_bytes().startswith(newer)
    assert not interrupted.journal.exists()
    assert ps.open_filters(interrupted.path).might_contain({"id": 2000}) == [True]


@WRITERS
@pytest.mark.parametrize("shared", [0, 100, 1500])
@pytest.mark.parametrize("difference", [-1, 1, 5000])
def test_a_file_to_which_another_program_appended_stays(
    interrupted: Interrupted, write: Callable[[Path, bytes], None], shared: int, difference: int
) -> None:
    """The other program may even have appended the same filters."""
    newer = appended(interrupted, shared, len(interrupted.new) + difference)
    write(interrupted.path, newer)
    assert interrupted.opens_as(newer)
    assert pq.read_metadata(interrupted.path).num_rows == 3000


def appended(file: Interrupted, shared: int, size: int) -> bytes:
    """Return the old file with some bytes of the change, others, and a footer."""
    footer = file.old[-8 - int.from_bytes(file.old[-8:-4], "little") :]
    start = file.new[: len(file.old) + shared]
    return start + b"\x5a" * (size - len(start) - len(footer)) + footer


def restore_backup(file: Interrupted) -> bytes:
    file.path.unlink()
    file.path.write_bytes(file.old)
    return file.old


def copy_half(file: Interrupted) -> bytes:
    content = file.path.read_bytes()
    file.path.unlink()
    file.path.write_bytes(content)
    return file.old


def copy_new(file: Interrupted) -> bytes:
    rename(file.path, file.new)
    return file.new


@pytest.mark.parametrize("restore", [restore_backup, copy_half, copy_new])
def test_a_backup_or_a_copy_is_recognized(interrupted: Interrupted, restore: Callable[[Interrupted], bytes]) -> None:
    expected = restore(interrupted)
    assert interrupted.opens_as(expected)


@pytest.mark.parametrize("seed", range(30))
def test_sectors_that_are_not_on_disk_yet_are_recognized(interrupted: Interrupted, seed: int) -> None:
    """A crash of the machine leaves zeros in any sectors that were not synced."""
    chance = random.Random(seed)
    content = bytearray(interrupted.new)
    start, lost = len(interrupted.old), []
    while start < len(content):
        end = min((start // SECTOR + 1) * SECTOR, len(content))
        if chance.random() < 0.5:
            content[start:end] = bytes(end - start)
            lost.append(start)
        start = end
    overwrite(interrupted.path, bytes(content))
    assert interrupted.opens_as(interrupted.old if lost else interrupted.new)


def footer_place(content: bytes) -> int:
    """Return where the footer begins in the last block of the file."""
    return len(content) % 4096 - 8 - int.from_bytes(content[-8:-4], "little")


@pytest.mark.parametrize("first", [False, True])
def test_the_bytes_before_the_footer_in_the_last_block_are_restored(tmp_path: Path, first: bool) -> None:
    rows = next(rows for rows in range(3000, 4000, 50) if footer_place(parquet_of(rows)) > 2 * SECTOR)
    file = crashed(tmp_path / "t.parquet", "write", 4, rows)
    block = len(file.old) - len(file.old) % 4096
    footer = block + footer_place(file.old)
    content = bytearray(file.path.read_bytes())
    sector = block if first else footer // SECTOR * SECTOR - SECTOR
    assert any(content[sector : sector + SECTOR])
    content[sector : sector + SECTOR] = bytes(SECTOR)
    overwrite(file.path, bytes(content))
    assert file.opens_as(file.old)


@pytest.mark.parametrize(
    "content", ["nothing", "zeros", "zeros of the new size", "foreign", "text", "cut", "torn twice"]
)
def test_a_file_that_cannot_be_recognized_is_refused(interrupted: Interrupted, content: str) -> None:
    old, new = interrupted.old, interrupted.new
    foreign = bytearray(new)
    foreign[len(old) + 700] ^= 1
    torn = bytearray(new)
    for place in (len(old) + 600, len(old) + 2000):
        end = (place // SECTOR + 1) * SECTOR
        torn[end - 10 : end] = bytes(10)
    contents = {
        "nothing": b"",
        "zeros": bytes(len(old)),
        "zeros of the new size": bytes(len(new)),
        "foreign": bytes(foreign),
        "text": b"This is not Parquet." * 100,
        "cut": new[:-1],
        "torn twice": bytes(torn),
    }
    assert interrupted.is_refused(contents[content])
    # Then another program completes the file.
    newer = parquet(20)
    overwrite(interrupted.path, newer)
    assert interrupted.opens_as(newer)


def test_a_newer_file_of_the_new_size_with_the_same_filters_is_refused(interrupted: Interrupted) -> None:
    """It may also be the new file with damaged sectors."""
    assert interrupted.is_refused(appended(interrupted, 1500, len(interrupted.new)))
    interrupted.journal.unlink()
    assert pq.read_metadata(interrupted.path).num_rows == 3000
    assert ps.open_filters(interrupted.path).ranges() == []


@pytest.mark.parametrize("call", ["write", "ftruncate", "fsync", "unlink"])
def test_a_recovery_that_crashes_is_repeated(interrupted: Interrupted, call: str) -> None:
    half = bytearray(interrupted.path.read_bytes())
    torn = len(interrupted.old) - len(interrupted.old) % SECTOR
    half[torn : torn + SECTOR] = bytes(SECTOR)
    overwrite(interrupted.path, bytes(half))
    crash(lambda: ps.open_filters(interrupted.path), call)
    if call != "write":
        crash(lambda: ps.open_filters(interrupted.path), "fsync" if call == "fsync" else "unlink")
    assert interrupted.journal.exists()
    assert interrupted.opens_as(interrupted.old)


def test_a_file_that_is_replaced_during_a_recovery_is_looked_at_again(
    interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = parquet(30)
    lock = descriptors.lock

    def replace_and_lock(path: Path, fd: int) -> None:
        if interrupted.path.read_bytes() != newer:
            rename(interrupted.path, newer)
        lock(path, fd)

    monkeypatch.setattr(descriptors, "lock", replace_and_lock)
    assert interrupted.opens_as(newer)


def test_a_file_that_is_replaced_before_a_change_is_refused(
    interrupted: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = parquet(30)
    with monkeypatch.context() as patched:
        patched.setattr(descriptors, "lock", lambda path, _: rename(path, newer))
        with pytest.raises(ps.ConflictError, match="was replaced in the meantime"):
            add(interrupted.path)
    assert interrupted.opens_as(newer)
