"""Sorted runs in files of the index's store: (key, location, rows), read by ranges of keys.

They are written by whoever reads slices, and read by whoever builds segments.

```text
pieces, end to end | directory, an Arrow stream: the first key of each piece, and where it lies
```

Keys stand in the directory as *ordinals*: bytes whose order is that of the keys, whatever their type.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from parsieve import _core
from parsieve.index.scan.runs import Gathered
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store, unique

# In the folder of segments, where what a killed build leaves is found and removed.
FOLDER = "segments"
# Keys of a run that tell how its keys lie on the axis.
SAMPLE = 64
# What a build holds of all its runs at once, beside the builder.
AHEAD = 32 << 20
LEAST_AHEAD = 128 << 10

_DIRECTORY = pa.schema([("first", pa.binary()), ("offset", pa.int64())])


@dataclass(frozen=True, slots=True)
class Run:
    """A run in the store."""

    name: str
    # Bytes of its pieces; the directory lies behind them.
    size: int
    end: int
    pairs: int
    # Keys at even distances, as ordinals.
    sample: tuple[bytes, ...]


def write(store: Store, gathered: Gathered) -> list[Run]:
    """Store the runs of a column, which forgets them."""
    runs = [_write(store, gathered.axis, list(gathered.runs.pieces(run))) for run in range(len(gathered.runs))]
    gathered.runs.close()
    return runs


def _write(store: Store, axis: _core.SieveAxis, pieces: Sequence[bytes]) -> Run:
    count = max(1, SAMPLE // len(pieces))
    firsts: list[bytes] = []
    sample: list[bytes] = []
    offsets: list[int] = []
    pairs = size = 0
    for piece in pieces:
        held, keys = _core.sieve_piece_keys(axis, piece, count)
        firsts.append(keys[0])
        sample += keys
        offsets.append(size)
        pairs += held
        size += len(piece)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _DIRECTORY) as stream:
        stream.write_batch(pa.record_batch([pa.array(firsts, pa.binary()), pa.array(offsets)], schema=_DIRECTORY))
    directory = sink.getvalue().to_pybytes()
    name = unique(FOLDER, "run")
    store.put(name, b"".join([*pieces, directory]))
    # As many as a run of few pieces has, so that long runs do not outweigh the message.
    step = max(1, len(sample) // SAMPLE)
    return Run(name, size, size + len(directory), pairs, tuple(sample[::step]))


def delete(store: Store, runs: Iterable[Run]) -> None:
    """Remove runs that nobody will read again."""
    names = [run.name for run in runs]
    if names:
        with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(names)), "parsieve-delete") as pool:
            list(pool.map(store.delete, names))


def pieces(store: Store, runs: Sequence[Run], low: bytes | None, high: bytes | None) -> list[Iterator[bytes]]:
    """For each run its pieces with keys from `low` to before `high`; the pieces at the ends hold others too."""
    if not runs:
        return []
    ahead = max(LEAST_AHEAD, AHEAD // len(runs))

    def opened(run: Run) -> Iterator[bytes]:
        return _Pieces(store, run, low, high, ahead)

    with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(runs)), "parsieve-read") as pool:
        return list(pool.map(opened, runs))


class _Pieces:
    """The pieces of a run, some of them read ahead."""

    def __init__(self, store: Store, run: Run, low: bytes | None, high: bytes | None, ahead: int) -> None:
        self._store = store
        self._name = run.name
        self._ahead = ahead
        [directory] = store.get_ranges(run.name, [(run.size, run.end)])
        table = pa.ipc.open_stream(directory).read_all()
        firsts = table.column("first").to_pylist()
        # A key may begin in the piece before the one that it is the first of.
        start = 0 if low is None else max(0, bisect_left(firsts, low) - 1)
        stop = len(firsts) if high is None else bisect_left(firsts, high)
        self._borders = [*table.column("offset").to_pylist(), run.size][start : max(start, stop) + 1]
        self._held: list[bytes] = []
        self._fetch()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._held:
            self._fetch()
        if not self._held:
            raise StopIteration
        return self._held.pop()

    def _fetch(self) -> None:
        borders = self._borders
        if len(borders) < 2:
            return
        count = 1
        while count + 1 < len(borders) and borders[count + 1] - borders[0] <= self._ahead:
            count += 1
        [data] = self._store.get_ranges(self._name, [(borders[0], borders[count])])
        start = borders[0]
        self._held = [data[borders[at] - start : borders[at + 1] - start] for at in reversed(range(count))]
        self._borders = borders[count:]


def cuts(runs: Sequence[Run], parts: int) -> list[bytes]:
    """At most so many parts of about the same number of pairs: the keys between them."""
    weighed = sorted((key, run.pairs / len(run.sample)) for run in runs for key in run.sample)
    share = sum(weight for _, weight in weighed) / parts
    found: list[bytes] = []
    passed = 0.0
    for key, weight in weighed:
        if passed >= share * (len(found) + 1) and len(found) < parts - 1 and key not in found[-1:]:
            found.append(key)
        passed += weight
    return found
