"""Store the base of a Sieve index: its root, its segment files, and in format 2 its unit pages."""

from __future__ import annotations

from parsieve import _core
from parsieve.index.log.commit import Base
from parsieve.index.log.parts import Part
from parsieve.index.scan.runs import BuiltColumn
from parsieve.io.store.base import Store, unique


def put_base(
    store: Store, axis: _core.SieveAxis, built: BuiltColumn, instant: int, kept: tuple[Part, ...] = ()
) -> Base:
    """Store a root and its segments. A root in format 2 may also refer to files that are `kept`, which come first."""
    files = kept
    if built.file_size:
        segments = Part(unique("segments", "segments"), built.file_size)
        store.put(segments.name, built.file)
        files = (*kept, segments)
    elif built.pages:
        # The root counts a file of segments before the unit pages, even if it has no bytes.
        files = (*kept, Part("", 0))
    return put_root(store, axis, built.root, files, instant, pages=built.pages)


def put_root(
    store: Store,
    axis: _core.SieveAxis,
    root: bytes,
    files: tuple[Part, ...],
    instant: int,
    *,
    pages: bytes | None = None,
) -> Base:
    """Store a root whose segment files are already stored. A root in format 2 has unit pages."""
    part = Part.put(store, unique("roots", "root"), root)
    if pages:
        stored = Part(unique("roots", "pages"), len(pages))
        store.put(stored.name, pages)
        files = (*files, stored)
    timeline: _core.SieveTimeline | _core.SieveUnitTimeline
    timeline = _core.SieveTimeline(axis, root, []) if pages is None else _core.SieveTimeline.open2(axis, root, [])
    report = timeline.report([])
    assert report is not None
    return Base(instant, part, files, int(report["pairs"]))
