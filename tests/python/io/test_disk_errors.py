"""Disk errors and interrupts while filters are added: the file stays intact, and errors name its path."""

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import patch_os

import parsieve as ps
from parsieve.io import replace

WAYS = [pytest.param(False, id="replace"), pytest.param(True, id="in place")]
# Each of these changes files, or may fail because the disk is full.
CALLS = ["open", "write", "fsync", "ftruncate", "replace", "unlink", "chmod", "utime"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": range(3000)}), path, row_group_size=1000)
    hour_ago = path.stat().st_mtime - 3600
    os.utime(path, (hour_ago, hour_ago))
    return path


class FailingOs:
    """The module `os`, in which one call fails: the call with this number among the functions in `calls`."""

    def __init__(self, calls: list[str], number: int, error: BaseException) -> None:
        self._calls, self._left, self._error = calls, number, error
        self.failed = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name not in self._calls:
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.failed = True
                raise self._error
            return found(*arguments, **options)

        return call


def add(path: Path, in_place: bool, failing: FailingOs) -> BaseException | None:
    """Add filters with a failing `os`, and return the error."""
    with pytest.MonkeyPatch.context() as patched:
        patch_os(patched, failing)
        # The copy runs in separate threads, where the failure would hit them instead of the caller.
        patched.setattr(replace, "_share_blocks", share_blocks)
        try:
            ps.add_filters(path, columns="id", in_place=in_place)
        except (OSError, KeyboardInterrupt) as error:
            return error
    return None


def share_blocks(old: int, new: int, length: int) -> bool:
    """Replace `_share_blocks` by a copy, as if the filesystem could share blocks."""
    os.pwrite(new, os.pread(old, length, 0), 0)
    return True


@pytest.mark.skipif(not hasattr(os, "pwrite"), reason="needs pwrite")
@pytest.mark.parametrize("in_place", WAYS)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_disk_error_names_the_path_and_leaves_the_old_file(path: Path, in_place: bool, code: int, call: str) -> None:
    old = path.read_bytes()
    for number in range(1, 4 if call == "write" else 2):
        failing = FailingOs([call], number, OSError(code, os.strerror(code)))
        error = add(path, in_place, failing)
        assert isinstance(error, OSError)
        assert error.errno == code
        assert str(path.parent) in str(error)
        assert "t.parquet" in str(error)
        assert path.read_bytes() == old
        assert [entry.name for entry in path.parent.iterdir()] == [path.name], f"call {number}"


@pytest.mark.skipif(not hasattr(os, "pwrite"), reason="needs pwrite")
@pytest.mark.parametrize("in_place", WAYS)
def test_an_interrupt_at_any_call_leaves_the_old_or_the_new_file(path: Path, in_place: bool) -> None:
    old = path.read_bytes()
    ps.add_filters(path, columns="id", in_place=in_place)
    new = path.read_bytes()
    states = []
    for number in range(1, 100):
        path.write_bytes(old)
        failing = FailingOs(CALLS, number, KeyboardInterrupt())
        error = add(path, in_place, failing)
        if not failing.failed:
            break
        assert isinstance(error, KeyboardInterrupt)
        assert [entry.name for entry in path.parent.iterdir()] == [path.name], f"call {number}"
        states.append(path.read_bytes())
        assert states[-1] in (old, new)
        assert pq.read_table(path).num_rows == 3000
    assert len(states) > 6
    assert old in states


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(path: Path) -> None:
    path.parent.chmod(0o500)
    try:
        with pytest.raises(PermissionError, match=str(path.parent)):
            ps.add_filters(path, columns="id")
    finally:
        path.parent.chmod(0o700)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_error_for_full_scratch_space_names_its_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parsieve.filters.build.IN_MEMORY", 1)
    old = path.read_bytes()
    with Path("/dev/full").open("w+b", buffering=0) as no_space:
        monkeypatch.setattr("tempfile.TemporaryFile", lambda *_, **__: no_space)
        with pytest.raises(OSError, match=str(path.parent)) as full:
            ps.add_filters(path, columns="id")
    assert full.value.errno == errno.ENOSPC
    assert path.read_bytes() == old
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
