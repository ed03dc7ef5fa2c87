"""Store the base of a Sieve index: its root and its segment files."""

from __future__ import annotations

from parsieve import _core
from parsieve.index.log.commit import Base, Part
from parsieve.index.scan.runs import Built
from parsieve.io.store.base import Store, unique


def put_base(store: Store, axis: _core.SieveAxis, built: Built, instant: int) -> Base:
    """Store a root and its segments."""
    files: tuple[Part, ...] = ()
    if built.file_size:
        segments = Part(unique("segments", "segments"), built.file_size)
        store.put(segments.name, built.file)
        files = (segments,)
    return put_root(store, axis, built.root, files, instant)


def put_root(store: Store, axis: _core.SieveAxis, root: bytes, files: tuple[Part, ...], instant: int) -> Base:
    """Store a root whose segment files are already stored."""
    part = Part.put(store, unique("roots", "root"), root)
    report = _core.SieveTimeline(axis, root, []).report([])
    assert report is not None
    return Base(instant, part, files, int(report["pairs"]))
