"""Partitions of sorted keys make the index that one build makes, wherever the keys are split; and races are decided."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from model_lake import ModelLake, place

from parsieve import ConflictError, _core
from parsieve.index import TableIndex, query
from parsieve.index.partition import Aside, build_partition, commit_partitions, numbering
from parsieve.lake.base import ColumnPath, Slice

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
OPTIONS = _core.SieveOptions(max_records=200, max_weight=150)


def rows(keys: list[int | None]) -> pa.Table:
    return pa.table({"k": keys, "v": keys}, schema=SCHEMA)


@pytest.mark.parametrize("borders", [[], [500], [3, 4, 400, 401, 900], [-1, 2000]])
def test_i5_partitions_make_the_segments_of_one_build(tmp_path: Path, borders: list[int]) -> None:
    r = random.Random(4)
    tables = {place(f"f{at}"): [r.randrange(1000) for _ in range(150)] for at in range(8)}
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({location: rows([*keys, None]) for location, keys in tables.items()})
    whole = TableIndex(tmp_path / "whole")
    whole.build(lake, snapshot, ["k"], progress=False, options=OPTIONS)

    index = TableIndex(tmp_path / "parts")
    locations = numbering(snapshot)
    pairs = sorted((key, locations.index(location)) for location, keys in tables.items() for key in keys)
    shares = []
    for number, (low, high) in enumerate(zip([-(2**63), *borders], [*borders, 2**63], strict=True)):
        inside = [pair for pair in pairs if low <= pair[0] < high]

        def batches(inside: list[tuple[int, int]] = inside) -> Iterator[tuple[pa.Array, pa.Array, pa.Array]]:
            for start in range(0, len(inside), 70):
                some = inside[start : start + 70]
                keys, numbers = [key for key, _ in some], [at for _, at in some]
                yield pa.array(keys), pa.array(numbers, pa.uint32()), pa.array([1] * len(some), pa.uint64())

        share = build_partition(index.store, pa.int64(), batches(), len(locations), number, OPTIONS)
        shares.append(pickle.loads(pickle.dumps(share)))
    aside = {location: Aside(nulls=1) for location in locations}
    r.shuffle(shares)
    commit_partitions(index.log, snapshot, "k", shares, aside, None, OPTIONS)

    def segments(of: TableIndex) -> list[tuple[bytes, bytes]]:
        view = of.refresh()
        assert view is not None
        reader = view.reader("k")
        assert reader.timeline is not None
        files = [of.store.get(part.name) if part.name else b"" for part in reader.state.base.files]
        return [
            (files[file][offset : offset + length], files[keys][start : start + size])
            for file, offset, length, keys, start, size in reader.timeline.segments()
        ]

    assert segments(index) == segments(whole)
    assert len(segments(whole)) > 5
    assert index.verify(lake, snapshot) == []
    found, expected = index.stats("k"), whole.stats("k")
    assert (found.keys, found.rows, found.lookup_bytes) == (expected.keys, expected.rows, expected.lookup_bytes)
    # Compaction makes one file of them, the one of the build.
    after = lake.change({place("f9"): rows([5])})
    for one in (index, whole):
        one.update(lake, after, progress=False)
        one.compact()
    names = [one.newest().columns[("k",)].base.files[0].name for one in (index, whole)]  # type: ignore[union-attr]
    assert index.store.get(names[0]) == whole.store.get(names[1])


def test_a_location_that_was_not_read_is_kept(tmp_path: Path) -> None:
    lake = ModelLake(SCHEMA)
    snapshot = lake.change({place("a"): rows([1]), place("b"): rows([2])})
    index = TableIndex(tmp_path)
    batch = (pa.array([1]), pa.array([0], pa.uint32()), pa.array([1], pa.uint64()))
    share = build_partition(index.store, pa.int64(), [batch], 2, 0)
    with pytest.raises(ValueError, match="numbered from 0"):
        commit_partitions(index.log, snapshot, "k", [share, share], {}, None)
    commit_partitions(index.log, snapshot, "k", [share], {place("b"): Aside(unread=True)}, None)
    view = index.refresh()
    assert view is not None
    assert view.may_match("k", query.equals(pa.scalar(9)), snapshot.slices).to_pylist() == [False, True]
    assert index.update(lake, snapshot).may_match("k", query.equals(pa.scalar(9)), snapshot.slices).to_pylist() == [
        False,
        False,
    ]


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
