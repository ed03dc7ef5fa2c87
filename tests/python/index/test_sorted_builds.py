"""Builds that sort rows together in memory store the same bytes as builds that merge sorted runs."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from support.models.model_lake import ModelLake, place

from parsieve import _core
from parsieve.index.scan.runs import BuiltColumn, Gathered, gather, merge
from parsieve.index.scan.spill import Room, Runs, Unsorted
from parsieve.lake.base import Location

FILES = 6
ROWS = 3000


def texts(make: Callable[[random.Random], str]) -> Callable[[random.Random], pa.Array]:
    return lambda r: pa.array([make(r) for _ in range(ROWS)])


def some_odd(r: random.Random) -> str:
    return f"{r.getrandbits(128):032x}" if r.random() < 0.98 else r.choice(["", "unknown", "\u00fc" * 40])


KINDS: dict[str, Callable[[random.Random], pa.Array]] = {
    "hexadecimal": texts(lambda r: f"{r.getrandbits(128):032x}"),
    "uuid": texts(lambda r: str(uuid.UUID(int=r.getrandbits(128)))),
    "some odd": texts(some_odd),
    "mostly odd": texts(lambda r: some_odd(r) if r.random() < 0.3 else f"{r.random()} and more than fits in a word"),
    "varying length": texts(lambda r: "x" * r.randrange(3) + str(r.randrange(500))),
    "few": texts(lambda r: r.choice(["red", "green", "blue"])),
    "sorted": lambda r: pa.array(sorted(str(r.randrange(9)) for _ in range(ROWS))),
    "dictionary": lambda r: pa.array([f"k{r.randrange(99)}" for _ in range(ROWS)]).dictionary_encode(),
    "binary": lambda r: pa.array([r.randbytes(r.randrange(20)) for _ in range(ROWS)]),
    "wide": lambda r: pa.array([r.randbytes(16) for _ in range(ROWS)], pa.binary(16)),
    "integer": lambda r: pa.array([r.randrange(-(2**63), 2**63) for _ in range(ROWS)]),
    "nulls": lambda r: pa.array([r.choice([None, r.randrange(100)]) for _ in range(ROWS)]),
    "float": lambda r: pa.array([r.choice([float("nan"), -0.0, r.gauss(0, 1e9)]) for _ in range(ROWS)]),
}


def lake_of(kind: str) -> ModelLake:
    r = random.Random(kind)
    columns = [KINDS[kind](r) for _ in range(FILES)]
    lake = ModelLake(pa.schema([("k", columns[0].type)]))
    lake.change({place(f"f{number}"): pa.table({"k": column}) for number, column in enumerate(columns)})
    return lake


def built(lake: ModelLake, folder: Path, *, memory: int, threads: int, together: bool) -> tuple[bytes, bytes]:
    """Return the root and the segment file."""
    snapshot = lake.snapshot()
    axes: dict[tuple[str, ...], _core.SieveAxis] = {("k",): _core.SieveAxis(lake.schema.field("k").type)}
    with Room(memory, folder) as room:
        rows = gather(lake, snapshot.slices, axes, room, memory=memory, threads=threads, together=together)[("k",)]
        locations = [file_slice.location for file_slice in snapshot.slices]
        index = merge(rows, locations, 1, room, memory=memory, threads=threads)
        return index.root, content(index)


def content(index: BuiltColumn) -> bytes:
    return index.file if isinstance(index.file, bytes) else b"".join(path.read_bytes() for path in index.file)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sorted_together_give_the_bytes_of_merged_runs(tmp_path: Path, kind: str) -> None:
    lake = lake_of(kind)
    # Rows that may not be sorted together become runs.
    expected = built(lake, tmp_path, memory=1 << 30, threads=1, together=False)
    for threads in (1, 3):
        assert built(lake, tmp_path, memory=1 << 30, threads=threads, together=True) == expected


def blocks_of(kind: str, numbers: range) -> tuple[_core.SieveAxis, list[tuple[pa.Array, int]]]:
    r = random.Random(kind)
    columns = [(KINDS[kind](r), number % 4) for number in numbers]
    return _core.SieveAxis(columns[0][0].type), columns


@pytest.mark.parametrize("kind", ["hexadecimal", "mostly odd", "integer", "few"])
def test_unsorted_rows_become_runs_if_others_are_runs(tmp_path: Path, kind: str) -> None:
    axis, columns = blocks_of(kind, range(8))
    results = []
    for num_runs in (0, 3, 8):
        with Room(1 << 30, tmp_path) as room:
            runs, first = Runs(room), _core.SievePairs(axis)
            for at, (column, location) in enumerate(columns):
                unsorted = Unsorted(first.sibling(), 1 << 20, room)
                unsorted.pairs.push(column, location)
                if at < num_runs:
                    runs.add_batches(unsorted.run())
                else:
                    runs.keep(unsorted)
            assert (runs.unsorted() is None) == (num_runs > 0)
            rows = Gathered(axis, runs, [0] * 4, [0] * 4, [False] * 4)
            index = merge(rows, [Location("", str(number)) for number in range(4)], 1, room, memory=1 << 30, threads=2)
            results.append((index.root, content(index)))
            assert len(runs) == 0
    assert results[0] == results[1] == results[2]


def test_rows_beyond_the_share_use_the_room_and_then_the_disk(tmp_path: Path) -> None:
    axis = _core.SieveAxis(pa.int64())
    pairs = _core.SievePairs(axis)
    with Room(2 << 20, tmp_path) as room:
        unsorted = Unsorted(pairs, 1 << 20, room)
        assert unsorted.fits()
        pairs.push(pa.array(range(200_000)), 0)
        assert pairs.num_bytes > 1 << 20
        assert unsorted.fits(), "the room has two more MiB"
        assert not room.take(2 << 20)
        pairs.push(pa.array(range(200_000)), 1)
        assert not unsorted.fits()
        runs = Runs(room)
        runs.add_batches(unsorted.run())
        assert pairs.num_bytes == 0
        # The memory of the rows is free only after the last block.
        assert 0 < room.spilled_bytes < runs.num_bytes
        counts = [_core.sieve_piece_keys(axis, block, 1) for block in runs.blocks(0)]
        assert sum(count for count, _ in counts) == 400_000
        firsts = [keys[0] for _, keys in counts]
        assert firsts == sorted(firsts)
        runs.close()
        assert room.take(2 << 20)


def test_the_rows_of_other_axes_cannot_be_sorted_together() -> None:
    texts, numbers = (_core.SievePairs(_core.SieveAxis(kind)) for kind in (pa.string(), pa.int64()))
    texts.push(pa.array(["a"]), 0)
    build = _core.SieveBuild(_core.SieveAxis(pa.string()), 1)
    with pytest.raises(TypeError, match="other kinds of keys"):
        build.sort_rows([texts, numbers], 1)
