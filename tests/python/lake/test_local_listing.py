"""A folder of this machine listed again and again: whatever is done to it, what is seen is what is there."""

from __future__ import annotations

import os
import random
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from parsieve.lake.storage.listing import ListedFile, LocalListing


def same(again: tuple[ListedFile, ...], anew: tuple[ListedFile, ...]) -> None:
    """The same files; a token that is there in both is the same, and only a file that is young has none."""
    assert [one[:3] for one in again] == [one[:3] for one in anew]
    for one, other in zip(again, anew, strict=True):
        assert one.token == other.token or "" in (one.token, other.token)


OPERATIONS = ["write", "write", "in place", "remove", "move", "touch", "chmod", "link", "folder", "nothing"]


def do(random_: random.Random, what: str, path: Path, to: Path, around: Path) -> None:
    here = os.path.lexists(path)
    if what in ("write", "link", "folder") and not here:
        path.parent.mkdir(parents=True, exist_ok=True)
        if what == "write":
            path.write_bytes(random_.randbytes(random_.randrange(4)))
        elif what == "folder":
            path.mkdir()
        else:
            path.symlink_to(random_.choice([around / "elsewhere", around / "nowhere", around / "t"]))
    elif what == "in place" and path.is_file() and not path.is_symlink():
        path.write_bytes(random_.randbytes(path.stat().st_size))
    elif what == "remove" and here:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    elif what == "move" and here and not os.path.lexists(to):
        path.rename(to)
    elif what == "touch" and path.is_file():
        os.utime(path)
    elif what == "chmod" and path.is_file():
        path.chmod(random_.choice([0o600, 0o644]))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_done_to_a_folder_is_seen(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    root = tmp_path / "t"
    root.mkdir()
    (tmp_path / "elsewhere").write_bytes(b"elsewhere")
    listing = LocalListing(str(root))
    names = ["a", "b", "c", "_hidden", ".dot", "_p=1"]

    def some() -> Path:
        depth = random_.randrange(3)
        return root.joinpath(*(random_.choice(["a", "x", "_p=1", "_no"]) for _ in range(depth)), random_.choice(names))

    for _ in range(150):
        path = some()
        what = random_.choice(OPERATIONS)
        # What the system refuses, such as a file below a link to nothing, is not done.
        with suppress(OSError):
            do(random_, what, path, some(), tmp_path)
        same(listing.files(), LocalListing(str(root)).files())
        if random_.random() < 0.05:
            time.sleep(0.06)
    time.sleep(0.1)
    assert listing.files() == LocalListing(str(root)).files()
    settled = listing.files()
    assert all(one.token for one in settled)
    assert listing.files() is settled


def test_a_file_that_takes_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "t" / "a").mkdir(parents=True)
    (tmp_path / "t" / "a" / "x").write_bytes(b"1")
    time.sleep(0.1)
    listing = LocalListing(str(tmp_path / "t"))
    assert [one.relative for one in listing.files()] == ["a/x"]
    shutil.rmtree(tmp_path / "t" / "a")
    (tmp_path / "t" / "a").write_bytes(b"22")
    assert [one.relative for one in listing.files()] == ["a"]
    (tmp_path / "t" / "a").unlink()
    assert listing.files() == ()


def test_folders_that_link_to_each_other_end(tmp_path: Path) -> None:
    for name, link, target in (("a", "x", "b"), ("b", "y", "a")):
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "file").write_bytes(b"1")
        (tmp_path / "t" / name / link).symlink_to(tmp_path / "t" / target)
    listing = LocalListing(str(tmp_path / "t"))
    # Links are followed, each once on a way: engines read a file by both of its names, too.
    assert [one.relative for one in listing.files()] == ["a/file", "a/x/file", "b/file", "b/y/file"]
    (tmp_path / "t" / "a" / "up").symlink_to(tmp_path)
    assert [one.relative for one in listing.files()] == ["a/file", "a/x/file", "b/file", "b/y/file"]


def test_links_to_nothing_are_no_files(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    for name, target in (("gone", "nowhere"), ("itself", "itself"), ("below", "file/x")):
        (tmp_path / name).symlink_to(target)
        assert [one.relative for one in LocalListing(str(tmp_path)).files()] == ["file"], name
