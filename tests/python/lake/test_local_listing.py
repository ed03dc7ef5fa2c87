"""Repeated listings of a local folder return its present files after any change."""

from __future__ import annotations

import os
import random
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.aging import wait_until_old

from parsieve.lake.storage.listing import Listing, LocalListing
from parsieve.lake.storage.storage import Storage


def assert_same(repeated: Listing, new: Listing) -> None:
    """Assert that both listings have the same files, and equal tokens. Only new files have no token."""
    assert [file[:3] for file in repeated] == [file[:3] for file in new]
    for repeated_file, new_file in zip(repeated, new, strict=True):
        assert repeated_file.token == new_file.token or "" in (repeated_file.token, new_file.token)
    assert list(repeated) == sorted(repeated)
    assert repeated.folders == list(dict.fromkeys(file.relative.rpartition("/")[0] for file in repeated))
    assert repeated.columns["folder"].to_pylist() == [
        repeated.folders.index(file.relative.rpartition("/")[0]) for file in repeated
    ]


OPERATIONS = ["write", "write", "in place", "remove", "move", "touch", "chmod", "link", "folder", "nothing"]


def change(random_: random.Random, operation: str, path: Path, to: Path, parent: Path) -> None:
    exists = os.path.lexists(path)
    if operation in ("write", "link", "folder") and not exists:
        path.parent.mkdir(parents=True, exist_ok=True)
        if operation == "write":
            path.write_bytes(random_.randbytes(random_.randrange(4)))
        elif operation == "folder":
            path.mkdir()
        else:
            path.symlink_to(random_.choice([parent / "elsewhere", parent / "nowhere", parent / "t"]))
    elif operation == "in place" and path.is_file() and not path.is_symlink():
        path.write_bytes(random_.randbytes(path.stat().st_size))
    elif operation == "remove" and exists:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    elif operation == "move" and exists and not os.path.lexists(to):
        path.rename(to)
    elif operation == "touch" and path.is_file():
        os.utime(path)
    elif operation == "chmod" and path.is_file():
        path.chmod(random_.choice([0o600, 0o644]))


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_of_a_folder_are_noticed(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    root = tmp_path / "t"
    root.mkdir()
    (tmp_path / "elsewhere").write_bytes(b"elsewhere")
    listing = LocalListing(str(root))
    names = ["a", "b", "c", "_hidden", ".dot", "_p=1"]

    def random_path() -> Path:
        depth = random_.randrange(3)
        return root.joinpath(*(random_.choice(["a", "x", "_p=1", "_no"]) for _ in range(depth)), random_.choice(names))

    for _ in range(150):
        path = random_path()
        operation = random_.choice(OPERATIONS)
        # Skip operations that the system rejects, such as a file below a broken link.
        with suppress(OSError):
            change(random_, operation, path, random_path(), tmp_path)
        assert_same(listing.files(), LocalListing(str(root)).files())
        if random_.random() < 0.05:
            time.sleep(0.06)
    wait_until_old(tmp_path)
    files = listing.files()
    assert list(files) == list(LocalListing(str(root)).files())
    # The token of a single file is computed without Arrow.
    assert [file.token for file in files] == [Storage(file.path).stat(file.path) for file in files]
    assert all(file.token for file in files)
    assert listing.files() is files


def test_a_file_may_replace_a_folder(tmp_path: Path) -> None:
    (tmp_path / "t" / "a").mkdir(parents=True)
    (tmp_path / "t" / "a" / "x").write_bytes(b"1")
    wait_until_old(tmp_path)
    listing = LocalListing(str(tmp_path / "t"))
    assert [file.relative for file in listing.files()] == ["a/x"]
    shutil.rmtree(tmp_path / "t" / "a")
    (tmp_path / "t" / "a").write_bytes(b"22")
    assert [file.relative for file in listing.files()] == ["a"]
    (tmp_path / "t" / "a").unlink()
    assert not listing.files()


def test_a_folder_may_be_removed_while_its_parent_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "x").write_bytes(b"1")
    wait_until_old(tmp_path)
    list_names = os.listdir

    def list_and_remove(folder: int) -> list[str]:
        names = list_names(folder)
        if "x" in names:
            # The folder that is listed last.
            shutil.rmtree(tmp_path / "t" / "a", ignore_errors=True)
        return names

    for listing in (new := LocalListing(str(tmp_path / "t")), new):
        monkeypatch.setattr(os, "listdir", list_and_remove)
        assert [file.relative for file in listing.files()] == ["b/x"]
    monkeypatch.undo()
    assert [file.relative for file in new.files()] == ["b/x"]
    (tmp_path / "t" / "a").mkdir()
    (tmp_path / "t" / "a" / "y").write_bytes(b"1")
    assert [file.relative for file in new.files()] == ["a/y", "b/x"]


def test_folders_that_link_to_each_other_are_listed_once_per_path(tmp_path: Path) -> None:
    for name, link, target in (("a", "x", "b"), ("b", "y", "a")):
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "file").write_bytes(b"1")
        (tmp_path / "t" / name / link).symlink_to(tmp_path / "t" / target)
    listing = LocalListing(str(tmp_path / "t"))
    # Links are followed, each once per path: engines also read a file under both of its names.
    assert [file.relative for file in listing.files()] == ["a/file", "a/x/file", "b/file", "b/y/file"]
    (tmp_path / "t" / "a" / "up").symlink_to(tmp_path)
    assert [file.relative for file in listing.files()] == ["a/file", "a/x/file", "b/file", "b/y/file"]


def test_broken_links_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    for name, target in (("gone", "nowhere"), ("itself", "itself"), ("below", "file/x")):
        (tmp_path / name).symlink_to(target)
        assert [file.relative for file in LocalListing(str(tmp_path)).files()] == ["file"], name


def test_a_folder_is_listed_without_its_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows, Python cannot open folders."""
    for name in ("a/b/x", "a/y", "z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    wait_until_old(tmp_path)
    with_descriptors = LocalListing(str(tmp_path)).files()
    monkeypatch.setattr("parsieve.lake.storage.listing._CAN_STAT_IN_FOLDER", False)
    assert list(LocalListing(str(tmp_path)).files()) == list(with_descriptors)
    assert [file.relative for file in with_descriptors] == ["a/b/x", "a/y", "z"]


@pytest.mark.parametrize("year", [1950, 2262, 2300, 2600])
def test_a_file_with_an_extreme_time_is_listed_and_has_no_token_in_the_future(tmp_path: Path, year: int) -> None:
    (tmp_path / "a").write_bytes(b"x")
    seconds = int((year - 1970) * 365.2425 * 86_400)
    os.utime(tmp_path / "a", (seconds, seconds))
    (tmp_path / "below").mkdir()
    (tmp_path / "below/b").write_bytes(b"x")
    # The file with a time in the future stays young.
    wait_until_old(tmp_path / "below")
    listing = LocalListing(str(tmp_path))
    first, other = listing.files()
    # Filesystems may store an earlier time.
    is_future = (tmp_path / "a").stat().st_mtime > time.time()
    assert (first.relative, first.token == "") == ("a", is_future)
    assert other.token
    assert LocalListing(str(tmp_path / "a")).files()[0][2:4] == first[2:4]
