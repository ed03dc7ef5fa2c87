"""Read the stored bytes of a column's index."""

from parsieve import _core
from parsieve.index import Store
from parsieve.index.log.commit import ColumnState


def sections(store: Store, state: ColumnState) -> list[tuple[bytes, bytes]]:
    """Return the lookup section and the maintenance section of each segment, in order of their keys."""
    files = [store.get(part.name) for part in state.base.files]
    assert [len(data) for data in files] == [part.size for part in state.base.files]
    root = state.base.root.get(store)
    segments = _core.SieveTimeline(_core.SieveAxis(state.type), root, []).segments()
    return [
        (files[lookup][at : at + length], files[keys][start : start + size])
        for lookup, at, length, keys, start, size in segments
    ]
