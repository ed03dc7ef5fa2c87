"""Commits that race: those that do not touch go on top of each other, and one that comes too late does not hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from model_lake import ModelLake, place

from parsieve import ConflictError, _core
from parsieve.index import TableIndex, query
from parsieve.lake.base import ColumnPath, Slice

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
OPTIONS = _core.SieveOptions(max_records=200, max_weight=150)


def rows(keys: list[int | None]) -> pa.Table:
    return pa.table({"k": keys, "v": keys}, schema=SCHEMA)


class Racing(ModelLake):
    """A table during whose next scan somebody else does something to the index."""

    meanwhile: Callable[[], object] | None = None

    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        if self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            act()
        yield from super().read_keys(piece, columns)


def test_commits_that_do_not_touch_are_put_on_top_of_each_other(tmp_path: Path) -> None:
    lake = Racing(SCHEMA)
    first = lake.change({place("a"): rows([1]), place("b"): rows([2])})
    mine, theirs = TableIndex(tmp_path), TableIndex(tmp_path)
    # Two columns built at once.
    lake.meanwhile = lambda: theirs.build(lake, first, ["v"], progress=False)
    view = mine.build(lake, first, ["k"], progress=False)
    assert (view.version, set(view.columns)) == (2, {("k",), ("v",)})
    # The same column built at once: one of them has to look again.
    lake.meanwhile = lambda: theirs.build(lake, first, ["k"], progress=False)
    with pytest.raises(ConflictError, match="k was indexed by somebody else"):
        mine.build(lake, first, ["k", "v"], progress=False)
    # An update of which another one was faster, to a later snapshot: the later one stays.
    second = lake.change({place("a"): rows([3])})
    third = lake.change({place("a"): rows([4])})
    lake.meanwhile = lambda: theirs.update(lake, third, progress=False)
    assert mine.update(lake, second, progress=False).table.id == third.id
    # An update beside a compaction: both hold.
    fourth = lake.change({place("b"): rows([5])})
    lake.meanwhile = theirs.compact
    view = mine.update(lake, fourth, progress=False)
    assert [len(state.deltas) for state in view.columns.values()] == [1, 1]
    mask = view.may_match("k", query.equals(pa.scalar(5)), fourth.slices).to_pylist()
    assert [piece.group for piece, keep in zip(fourth.slices, mask, strict=True) if keep] == ["b"]
    assert mine.verify(lake, fourth) == []


def test_a_writer_who_slept_does_not_commit_below_the_newest_version(tmp_path: Path) -> None:
    lake = Racing(SCHEMA)
    mine, theirs = TableIndex(tmp_path), TableIndex(tmp_path)
    mine.build(lake, lake.change({place("a"): rows([1]), place("b"): rows([2])}), ["k"], progress=False)
    second = lake.change({place("a"): rows([3])})

    def others_commit_and_expire() -> None:
        for key in range(10, 13):
            theirs.update(lake, lake.change({place("b"): rows([key])}), progress=False)
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
        assert theirs.expire(soon)[0] == 3

    # The number after the version that this writer saw is free again when he comes to put it.
    lake.meanwhile = others_commit_and_expire
    mine.update(lake, second, progress=False)
    assert [version for version, _ in mine.log.stored()] == [4]
    view = mine.update(lake, lake.snapshot(), progress=False)
    assert view.version == 4
    third = mine.update(lake, lake.change({place("c"): rows([5])}), progress=False)
    assert third.commit.parent == view.commit.writer
    assert mine.verify(lake, lake.snapshot()) == []
