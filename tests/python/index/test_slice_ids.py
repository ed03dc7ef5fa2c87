"""Slices have ids that are never used again, so that answers of old files never apply to new versions of a slice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from support.models.model_lake import ModelLake, place

from parsieve.index import TableIndex, View
from parsieve.index.sieve import query
from parsieve.lake.base import Location, Snapshot

SCHEMA = pa.schema([("k", pa.int64())])


def rows(*keys: int | None) -> pa.Table:
    return pa.table({"k": keys}, schema=SCHEMA)


def ids(view: View | None) -> dict[str, int]:
    assert view is not None
    return {location.group: slice_id for location, slice_id in (view.reader("k").bindings.ids or {}).items()}


def kept(view: View | None, key: int, snapshot: Snapshot) -> set[str]:
    assert view is not None
    mask = view.may_match("k", query.equals(pa.scalar(key, pa.int64())), snapshot.slices).to_pylist()
    return {file_slice.group for file_slice, keep in zip(snapshot.slices, mask, strict=True) if keep}


def test_changed_slices_get_new_ids_and_old_versions_keep_theirs(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    first = lake.change({place("b"): rows(1, 2), place("a"): rows(2, 3), place("c"): rows(4)})
    index = TableIndex(tmp_path)
    assert ids(index.build(lake, first, ["k"], progress=False)) == {"a": 0, "b": 1, "c": 2}
    second = lake.change({place("b"): rows(5), place("d"): rows(2), place("c"): None})
    assert ids(index.update(lake, second, progress=False, compaction=False)) == {"a": 0, "b": 3, "d": 4}
    # The location returns with other rows.
    third = lake.change({place("c"): rows(6), place("d"): None})
    assert ids(index.update(lake, third, progress=False, compaction=False)) == {"a": 0, "b": 3, "c": 5}
    assert kept(index.newest(), 2, third) == {"a"}
    assert kept(index.newest(), 4, third) == set()
    # The rows of masked slices are found in the versions that have them, by new readers too.
    for reader in (index, TableIndex(tmp_path)):
        assert kept(reader.at(first), 2, first) == {"a", "b"}
        assert kept(reader.at(first), 4, first) == {"c"}
        assert kept(reader.at(second), 2, second) == {"a", "d"}
        assert kept(reader.at(second), 6, second) == set()
    # A view never answers for a slice with another token.
    assert kept(index.at(first), 9, third) == {"b", "c"}


def test_a_renewed_token_keeps_its_id_and_is_not_read(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    first = lake.change({place("a"): rows(1), place("b"): rows(2)})
    index = TableIndex(tmp_path)
    index.build(lake, first, ["k"], progress=False)
    renewed = lake.change({place("b"): rows(2)})
    lake.reads.clear()
    view = index.update(
        lake, renewed, renewed={place("b"): {first.tokens[place("b")]}}, progress=False, compaction=False
    )
    assert lake.reads == []
    assert ids(view) == {"a": 0, "b": 1}
    assert view.columns["k",].deltas == ()
    assert kept(view, 2, renewed) == {"b"}
    assert kept(view, 1, renewed) == {"a"}


def test_two_writers_never_give_one_id_to_two_slices(tmp_path: Path) -> None:
    """The slower writer reads its rows before the faster one commits, and gives them other ids afterwards."""

    class Racing(ModelLake):
        meanwhile: TableIndex | None = None
        ahead: Snapshot | None = None

        def read_keys(self, *arguments: object) -> object:  # type: ignore[override]
            if self.meanwhile is not None and self.ahead is not None:
                theirs, self.meanwhile = self.meanwhile, None
                theirs.update(self, self.ahead, progress=False, compaction=False)
            return super().read_keys(*arguments)  # type: ignore[arg-type]

    lake = Racing(SCHEMA)
    first = lake.change({place(f"f{n}"): rows(n, 50) for n in range(4)})
    mine, theirs = TableIndex(tmp_path), TableIndex(tmp_path)
    mine.build(lake, first, ["k"], progress=False)
    # The faster writer brings the index to an earlier snapshot, with slices that the slower one reads too.
    lake.ahead = lake.change({place("f1"): rows(11, 50), place("x"): rows(60)})
    mine_to = lake.change({place("f2"): rows(12, 50), place("y"): rows(61), place("x"): rows(62)})
    lake.meanwhile = theirs
    view = mine.update(lake, mine_to, progress=False, compaction=False)
    assert view.version == 3
    assert ids(view) == {"f0": 0, "f1": 4, "f2": 6, "f3": 3, "x": 7, "y": 8}
    for key, groups in {11: {"f1"}, 12: {"f2"}, 2: set(), 60: set(), 62: {"x"}, 61: {"y"}}.items():
        assert kept(view, key, mine_to) == groups
    assert kept(view, 50, mine_to) == {"f0", "f1", "f2", "f3"}
    assert mine.verify(lake, mine_to) == []
    assert kept(TableIndex(tmp_path).at(lake.ahead), 60, lake.ahead) == {"x"}


def test_a_slice_that_could_not_be_read_is_never_skipped(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows(1), place("b"): rows(2)})
    index = TableIndex(tmp_path)
    view = index.build(lake, snapshot, ["k"], progress=False)
    bound = view.reader("k").bindings
    unread = bound.after({**bound.tokens, Location("", "b"): ""}, [])
    assert unread.live_ids() == [0]
    assert bound.live_ids() == [0, 1]
