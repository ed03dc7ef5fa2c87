"""Replace a file safely: kills at any moment, concurrent changes, links, tables, permissions and checksums."""

import os
import random
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.disk import patch_os

import parsieve as ps
from parsieve.io import fd
from parsieve.io.replace import Replacement

KILLS = Path(__file__).parents[1] / "support" / "programs" / "kills.py"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"id": range(3000), "other": range(3000)}), path, row_group_size=1000)
    # An hour old, because a change within the same clock tick as the last one would leave the timestamps unchanged.
    hour_ago = path.stat().st_mtime - 3600
    os.utime(path, (hour_ago, hour_ago))
    return path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


WAYS = ["replace", "in_place"]
SHAPES: dict[str, tuple[pa.Table, dict[str, Any]]] = {
    "groups": (pa.table({"id": range(3000)}), {"row_group_size": 1000}),
    "one row": (pa.table({"id": [1]}), {}),
    "filters": (
        pa.table({"id": range(500), "s": ["x"] * 500}),
        {"bloom_filter_options": {"id": {"ndv": 9}, "s": True}},
    ),
    "large": (pa.table({"id": range(200_000), "s": [str(n) * 9 for n in range(200_000)]}), {"write_page_index": True}),
}


def kill(folder: Path, mode: str, count: int, way: str, shape: str = "groups") -> None:
    table, options = SHAPES[shape]
    pq.write_table(table, folder / "t.parquet", **options)
    program = [
        sys.executable,
        str(Path(__file__).parents[1] / "support" / "programs" / "kills.py"),
        str(folder),
        mode,
        str(count),
        way,
    ]
    answer = subprocess.run(program, capture_output=True, text=True, timeout=2000)
    assert answer.returncode == 0, answer.stderr
    kills, old, new = map(int, answer.stdout.split())
    assert kills == count
    assert old > 0
    assert new > 0, "some kills happen after the rename, and some runs complete"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["calls", "times"])
def test_a_killed_process_leaves_the_old_file_or_the_new_one(tmp_path: Path, mode: str, way: str) -> None:
    kill(tmp_path, mode, 100, way)


@pytest.mark.slow
@pytest.mark.timeout(2100)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", ["calls", "times"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_thousand_kills(tmp_path: Path, shape: str, mode: str, way: str) -> None:
    kill(tmp_path, mode, 1000, way, shape)


class Meddling:
    """The module `os`, with an action right before the first call of one function."""

    def __init__(self, before: str, act: Any) -> None:
        self.before, self.act = before, act

    def __getattr__(self, name: str) -> Any:
        if name == self.before and self.act is not None:
            act, self.act = self.act, None
            act()
        return getattr(os, name)


@pytest.mark.parametrize("moment", ["write", "fsync"])
@pytest.mark.parametrize("change", ["append", "overwrite", "touch", "replace", "remove"])
def test_a_source_that_changes_meanwhile_is_not_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch, moment: str, change: str
) -> None:
    content = path.read_bytes()

    def act() -> None:
        if change == "append":
            with path.open("ab") as file:
                file.write(b"more")
        elif change == "overwrite":
            with path.open("r+b") as file:
                file.write(b"XXXX")
        elif change == "touch":
            os.utime(path)
        elif change == "replace":
            other = path.with_name("other")
            other.write_bytes(content)
            other.rename(path)
        else:
            path.unlink()

    patch_os(monkeypatch, Meddling(moment, act))
    with pytest.raises(ps.ConflictError, match="nothing was replaced"):
        ps.add_filters(path, columns="id")
    assert names(path.parent) == ([] if change == "remove" else ["t.parquet"])
    if change != "remove":
        kept = {"append": content + b"more", "overwrite": b"XXXX" + content[4:]}
        assert path.read_bytes() == kept.get(change, content)


def test_a_file_that_is_created_at_the_last_moment_stays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dest = path.with_name("new.parquet")
    patch_os(monkeypatch, Meddling("link", lambda: dest.write_bytes(b"of another process")))
    with pytest.raises(FileExistsError, match="created in the meantime"):
        ps.add_filters(path, dest, columns="id")
    assert dest.read_bytes() == b"of another process"
    assert names(path.parent) == ["new.parquet", "t.parquet"]


def test_a_new_file_is_written_without_hard_links(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def act() -> None:
        raise PermissionError(1, "Operation not permitted")

    patch_os(monkeypatch, Meddling("link", act))
    ps.add_filters(path, path.with_name("new.parquet"), columns="id")
    assert names(path.parent) == ["new.parquet", "t.parquet"]


def test_another_name_of_the_source_gets_a_file_of_its_own(path: Path) -> None:
    content, other = path.read_bytes(), path.with_name("other.parquet")
    os.link(path, other)
    ps.add_filters(path, other, columns="id", hard_links="break")
    assert path.read_bytes() == content
    with ps.open_filters(other) as filters:
        assert filters.ranges()


@pytest.mark.parametrize("call", ["write", "fsync", "replace", "fstat", "chmod", "open"])
def test_a_system_error_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    content = path.read_bytes()

    def act() -> None:
        raise OSError(28, "No space left on device")

    patch_os(monkeypatch, Meddling(call, act))
    with pytest.raises(OSError, match="No space left"):
        ps.add_filters(path, columns="id")
    assert path.read_bytes() == content
    assert names(path.parent) == ["t.parquet"]


def test_a_wrongly_copied_byte_is_detected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = path.read_bytes()

    class Wrong(Meddling):
        """The module `os`, with a `write` that changes one byte."""

        def __getattr__(self, name: str) -> Any:
            if name != "write":
                return getattr(os, name)
            return lambda fd, data: os.write(fd, bytes([data[0] ^ 1]) + bytes(data[1:]))

    patch_os(monkeypatch, Wrong("", None))
    with pytest.raises(OSError, match="differs from the source"):
        ps.add_filters(path, columns="id")
    assert path.read_bytes() == content
    assert names(path.parent) == ["t.parquet"]


def test_the_new_file_has_the_old_mode_and_new_timestamps(path: Path) -> None:
    path.chmod(0o640)
    os.utime(path, (1, 1))
    owner = path.stat().st_uid, path.stat().st_gid
    ps.add_filters(path, columns="id")
    state = path.stat()
    assert stat.S_IMODE(state.st_mode) == 0o640
    assert state.st_mtime > 1e9
    assert (state.st_uid, state.st_gid) == owner


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these attributes")
@pytest.mark.parametrize("has_list", [False, True])
def test_the_new_file_has_the_access_control_list_of_the_old_one(path: Path, has_list: bool) -> None:
    """A default list of the folder applies to new files only."""

    def acl(user: int) -> bytes:
        """Encode a list that lets one more user read."""
        anyone = 0xFFFFFFFF
        entries = [(1, 6, anyone), (2, 4, user), (4, 4, anyone), (16, 4, anyone), (32, 0, anyone)]
        return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)

    path.chmod(0o640)
    try:
        os.setxattr(path.parent, "system.posix_acl_default", acl(12_345))
        if has_list:
            os.setxattr(path, "system.posix_acl_access", acl(54_321))
    except OSError:
        pytest.skip("the filesystem has no access control lists")
    ps.add_filters(path, columns="id")
    if has_list:
        assert os.getxattr(path, "system.posix_acl_access") == acl(54_321)
    else:
        assert "system.posix_acl_access" not in os.listxattr(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_symbolic_links_are_followed_and_hard_links_are_refused(path: Path) -> None:
    link = path.with_name("link.parquet")
    link.symlink_to(path.name)
    ps.add_filters(link, columns="id")
    assert link.is_symlink()
    assert len(ps.open_filters(path).ranges()) == 3

    hard = path.with_name("hard.parquet")
    hard.hardlink_to(path)
    content = path.read_bytes()
    with pytest.raises(ps.UnsupportedError, match="hard links"):
        ps.drop_filters(path)
    with pytest.raises(ValueError, match="hard_links"):
        ps.drop_filters(path, hard_links="perhaps")
    ps.drop_filters(path, hard_links="break")
    assert hard.read_bytes() == content
    assert ps.open_filters(path).ranges() == []


def test_the_checksum_file_of_hadoop_is_removed(path: Path) -> None:
    checksum = path.with_name(".t.parquet.crc")
    checksum.write_bytes(b"crc\0")
    ps.add_filters(path, columns="id", dry_run=True)
    assert checksum.exists()
    ps.add_filters(path, columns="id")
    assert not checksum.exists()


@pytest.mark.parametrize("kind", ["Delta", "Hudi", "Iceberg"])
def test_files_of_tables_are_refused(path: Path, kind: str) -> None:
    folder = path.parent / "table" / "data" / "day=1"
    folder.mkdir(parents=True)
    inside = folder / "part.parquet"
    inside.write_bytes(path.read_bytes())
    mark = {"Delta": "_delta_log", "Hudi": ".hoodie", "Iceberg": "metadata"}[kind]
    (path.parent / "table" / mark).mkdir()
    if kind == "Iceberg":
        ps.add_filters(inside, inside.with_name("free.parquet"), "id")
        (path.parent / "table" / mark / "v1.metadata.json").touch()
    content = inside.read_bytes()
    outside = path.with_name("link.parquet")
    outside.symlink_to(inside)
    for place in (inside, outside):
        with pytest.raises(ps.UnsupportedError, match=f"{kind} table"):
            ps.add_filters(place, columns="id")
    assert inside.read_bytes() == content
    ps.add_filters(inside, path.with_name("copy.parquet"), "id")
    assert len(ps.open_filters(path.with_name("copy.parquet")).ranges()) == 3


@pytest.mark.parametrize("place", ["s3://bucket/key.parquet", b"bytes", (None, "path")])
def test_sources_other_than_local_files_are_refused(place: Any) -> None:
    with pytest.raises(ps.UnsupportedError, match="not the path of a local file"):
        ps.add_filters(place)


def test_a_file_that_is_not_parquet_is_an_error(path: Path) -> None:
    path.write_bytes(b"not a Parquet file at all")
    with pytest.raises(ps.FormatError):
        ps.add_filters(path)
    assert names(path.parent) == ["t.parquet"]
    with pytest.raises(FileNotFoundError):
        ps.add_filters(path.with_name("nobody.parquet"))


class Recording:
    """The module `os`, which records its calls: crash consistency depends on their order."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, arguments))
            return found(*arguments, **options)

        return call


def test_the_data_is_synced_before_the_rename_and_the_folder_after_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.with_name(".t.parquet.crc").touch()
    recording = Recording()
    patch_os(monkeypatch, recording)
    ps.add_filters(path, columns="id")
    made = [name for name, _ in recording.calls]
    rename, data = made.index("replace"), made.index("fsync")
    changing = {"write", "ftruncate", "fchown", "chmod", "utime"}
    assert not changing & set(made[data:]), "nothing is written to the new file after the sync"
    assert changing & set(made[:data])
    checksum = next(at for at, (name, of) in enumerate(recording.calls) if name == "unlink")
    assert data < checksum < rename
    assert "fsync" in made[checksum:rename], "the removal of the stale checksum is synced before the rename"
    assert "fsync" in made[rename:], "the folder is synced"
    assert made.count("replace") == 1


@pytest.mark.parametrize("chunk", [7, 100, 1 << 20])
def test_exactly_the_wiped_bytes_become_zeros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(fd, "CHUNK", chunk)
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(bytes(range(1, 256)) * 4)
    wipe = [(0, 3), (95, 120), (500, 901)]
    tail = [b"more", b"", b"end"]
    with Replacement(old, fd.identity(old.stat()), new, detects_writes=True) as replacement:
        size = replacement.finish(1000, wipe, tail, lambda _: None)
    expected = bytearray(old.read_bytes()[:1000])
    for start, end in wipe:
        expected[start:end] = bytes(end - start)
    assert new.read_bytes() == bytes(expected) + b"moreend"
    assert size == 1007


def test_a_new_file_that_fails_verification_is_discarded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = path.read_bytes()

    def write(fd: int, start: int, data: bytes) -> None:
        os.pwrite(fd, data if start < 1000 else bytes(len(data)), start)

    monkeypatch.setattr(fd, "write", write)
    with pytest.raises(ps.FormatError):
        ps.add_filters(path, columns="id")
    assert path.read_bytes() == content
    assert names(path.parent) == ["t.parquet"]


@pytest.mark.parametrize("seed", range(6))
def test_damaged_files_are_refused_or_keep_their_bytes(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "t.parquet"
    options: dict[str, Any] = {"bloom_filter_options": {"id": {"ndv": 50}}, "write_page_index": True}
    pq.write_table(pa.table({"id": range(100), "s": [str(n % 40) for n in range(100)]}), path, **options)
    good, chance = path.read_bytes(), random.Random(seed)
    refused = 0
    for _ in range(100):
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        path.write_bytes(data)
        start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        try:
            ps.add_filters(path, columns=chance.choice([["id"], ["s"], ["id", "s"]]))
        except (ps.ParsieveError, ValueError):
            refused += 1
            assert path.read_bytes() == data
        else:
            assert path.read_bytes()[:start] == data[:start]
        assert names(tmp_path) == ["t.parquet"]
    assert 0 < refused < 100


AS_OTHER_USER = """
import os, sys
import parsieve as ps
warm, path, groups, in_place = sys.argv[1:]
# Import everything before: the other user may not be able to read the package.
ps.add_filters(warm, columns="id", in_place=in_place == "in place")
os.setgroups(list(map(int, groups.split())))
os.setgid(int(groups.split()[0]))
os.setuid(4)
try:
    ps.add_filters(path, columns="id", in_place=in_place == "in place")
except Exception as error:
    print(type(error).__name__, error)
"""
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def add_as_other_user(path: Path, groups: str, in_place: str = "") -> str:
    """Add filters as another user, who is in some groups, and return the text of the error."""
    with tempfile.TemporaryDirectory() as folder:
        warm = shutil.copy(path, folder)
        command = [sys.executable, "-c", AS_OTHER_USER, str(warm), str(path), groups, in_place]
        return subprocess.run(command, capture_output=True, check=True, text=True, timeout=300).stdout


@pytest.mark.skipif(not IS_ROOT, reason="only root can become other users")
@pytest.mark.parametrize(
    ("groups", "mode", "kept"),
    [("3 2", 0o6644, (4, 2, 0o2644)), ("3", 0o6674, (4, 3, 0o644)), ("3", 0o664, (4, 3, 0o644))],
)
def test_a_group_that_is_not_kept_gets_no_permissions_of_another_group(
    groups: str, mode: int, kept: tuple[int, int, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        pq.write_table(pa.table({"id": range(3000)}), path)
        Path(folder).chmod(0o777)
        os.chown(path, 1, 2)
        path.chmod(mode)
        assert add_as_other_user(path, groups) == ""
        state = path.stat()
        assert (state.st_uid, state.st_gid, stat.S_IMODE(state.st_mode)) == kept


@pytest.mark.skipif(not IS_ROOT, reason="only root can become other users")
def test_an_error_of_a_forbidden_folder_says_what_helps() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        pq.write_table(pa.table({"id": range(3000)}), path)
        path.chmod(0o666)
        for mode in (0o555, 0o1777):
            Path(folder).chmod(mode)
            error = add_as_other_user(path, "3")
            assert error.startswith("PermissionError ")
            assert f"a new file next to it must replace it; in_place=True changes the file itself: '{path}'" in error
        # The user may not write to the file either.
        path.chmod(0o644)
        error = add_as_other_user(path, "3")
        assert error.startswith("PermissionError ")
        assert str(path) in error
        assert "in_place" not in error
