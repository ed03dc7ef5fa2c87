"""Journals of parsieve 0.1: changes are undone or finished if that is safe, and newer files are not touched."""

import json
import zlib
from pathlib import Path

import pytest
from support.newer_files import parquet

import parsieve as ps
from parsieve.io import in_place

OLD = parquet(3000, first=0)
FOOTER = OLD[-8 - int.from_bytes(OLD[-8:-4], "little") :]


class Interrupted:
    """A file and the journal of a change that parsieve 0.1 began."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(OLD)
        ps.add_filters(path, columns="id", in_place=True)
        self.path, self.new = path, path.read_bytes()
        self.wipe: list[tuple[int, int]] = []
        self.journal = in_place.journal_path(path)

    def begin(self, content: bytes, inode: int | None = None) -> None:
        """Write the content and the journal."""
        self.path.write_bytes(content)
        values = {
            "inode": self.path.stat().st_ino if inode is None else inode,
            "old_length": len(OLD),
            "footer": FOOTER.hex(),
            "new_length": len(self.new),
            "checksum": zlib.crc32(self.new[len(OLD) :]),
            "wipe": self.wipe,
        }
        text = json.dumps(values, sort_keys=True).encode()
        self.journal.write_bytes(b"parsieve journal 1\n" + b"%08x\n" % zlib.crc32(text) + text)

    def opens_as(self, content: bytes) -> bool:
        in_place.recover(self.path)
        return self.path.read_bytes() == content and not self.journal.exists()

    def is_refused(self, content: bytes) -> bool:
        with pytest.raises(ps.UnsupportedError, match="delete the journal"):
            ps.open_filters(self.path)
        return self.path.read_bytes() == content and self.journal.exists()


@pytest.fixture
def file(tmp_path: Path) -> Interrupted:
    return Interrupted(tmp_path / "t.parquet")


@pytest.mark.parametrize("length", [1, 100, 1000, -1])
def test_a_half_changed_file_is_undone(file: Interrupted, length: int) -> None:
    file.begin(file.new[: len(OLD) + length] if length > 0 else file.new[:length])
    assert file.opens_as(OLD)


def test_a_complete_change_is_finished(file: Interrupted) -> None:
    file.wipe = [(10, 20)]
    file.begin(file.new)
    assert file.opens_as(file.new[:10] + bytes(10) + file.new[20:])


def test_a_copy_is_finished_but_not_wiped(file: Interrupted) -> None:
    file.begin(file.new, inode=1)
    assert file.opens_as(file.new)
    file.wipe = [(10, 20)]
    file.begin(file.new, inode=1)
    assert file.is_refused(file.new)


def test_an_unchanged_file_stays(file: Interrupted) -> None:
    file.begin(OLD)
    assert file.opens_as(OLD)
    file.begin(OLD, inode=1)
    assert file.opens_as(OLD)


@pytest.mark.parametrize("inode", [None, 1])
@pytest.mark.parametrize("rows", [1, 3000, 90_000])
def test_a_newer_file_stays(file: Interrupted, inode: int | None, rows: int) -> None:
    newer = parquet(rows)
    assert newer != OLD
    file.begin(newer, inode)
    assert file.opens_as(newer)


@pytest.mark.parametrize("length", [0, 100, -100, 10_000])
def test_a_file_to_which_another_program_appended_stays(file: Interrupted, length: int) -> None:
    start = OLD if length == 0 else file.new[: len(OLD) + length] if length == 100 else file.new
    newer = (start + bytes(max(length, 0)))[: None if length >= 0 else length - len(FOOTER)] + FOOTER
    assert len(newer) != len(file.new)
    file.begin(newer)
    assert file.opens_as(newer)


def test_a_file_that_cannot_be_recognized_is_refused(file: Interrupted) -> None:
    middle = len(OLD) + 200
    lost = file.new[:middle] + bytes(100) + file.new[middle + 100 :]
    torn = OLD[:-50] + bytes(100) + file.new[len(OLD) + 50 : -1]
    copy = file.new[:-1]
    for content, inode in [(lost, None), (torn, None), (copy, 1), (b"", None), (bytes(len(OLD) + 10), None)]:
        file.begin(content, inode)
        assert file.is_refused(content)
