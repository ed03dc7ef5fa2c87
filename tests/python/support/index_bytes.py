"""Read the stored bytes of a column's index."""

from parsieve import _core
from parsieve.index import Store
from parsieve.index.log.commit import ColumnState


def sections(store: Store, state: ColumnState) -> list[tuple[bytes, bytes]]:
    """Return the lookup section and the maintenance section of each segment, in order of their keys."""
    # A file that no segment uses has no name.
    files = [store.get(part.name) if part.name else b"" for part in state.base.files]
    assert [len(data) for data in files] == [part.size for part in state.base.files]
    root, axis = state.base.root.get(store), _core.SieveAxis(state.type)
    timeline = (
        _core.SieveTimeline(axis, root, []) if state.layout is None else _core.SieveTimeline.open2(axis, root, [])
    )
    segments = timeline.segments()
    return [
        (files[lookup][at : at + length], files[keys][start : start + size])
        for lookup, at, length, keys, start, size in segments
    ]


def without_instant(root: bytes) -> bytes:
    """Return a root in format 2 without its instant and the checksum that contains it."""
    assert root.startswith(b"SvR2")
    end = 8 + int.from_bytes(root[4:8], "little")
    return root[:10] + root[18:end] + root[end + 4 :]
