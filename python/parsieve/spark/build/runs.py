"""Sorted runs of (key, location, rows) in files of the index store, read by ranges of keys.

Executors write a run while they read slices, and read runs while they build segments. A file has the blocks of the run,
followed by a directory:

```text
blocks | directory, an Arrow stream: the first key of each block, and the offset of the block
```

The directory stores keys as *ordinals*: bytes that sort in the order of the keys, for every type.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parsieve import _core
from parsieve.index.scan.runs import Gathered
from parsieve.io.parallel import map_in_threads, run_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store, unique

# The folder of segments. Garbage collection removes the runs that a killed build leaves there.
FOLDER = "segments"
# How many keys of a run to sample, to divide the keys into parts.
SAMPLE = 64
# How many bytes of all its runs a build reads ahead, and at least of each run.
AHEAD = 32 << 20
MIN_AHEAD = 128 << 10

_DIRECTORY = pa.schema([("first", pa.binary()), ("offset", pa.int64())])


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted run in the store."""

    name: str
    # The size of the blocks, and of the whole file.
    size: int
    end: int
    pairs: int
    # Ordinals of keys at even distances.
    sample: tuple[bytes, ...]


def write(store: Store, gathered: Gathered) -> list[Run]:
    """Store the runs of a column, and free them."""
    runs = [_write(store, gathered.axis, list(gathered.runs.blocks(run))) for run in range(len(gathered.runs))]
    gathered.runs.close()
    return runs


def _write(store: Store, axis: _core.SieveAxis, blocks: Sequence[bytes]) -> Run:
    keys_per_block = max(1, SAMPLE // len(blocks))
    firsts: list[bytes] = []
    sample: list[bytes] = []
    offsets: list[int] = []
    pairs = size = 0
    for block in blocks:
        num_pairs, keys = _core.sieve_piece_keys(axis, block, keys_per_block)
        firsts.append(keys[0])
        sample += keys
        offsets.append(size)
        pairs += num_pairs
        size += len(block)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _DIRECTORY) as stream:
        stream.write_batch(pa.record_batch([pa.array(firsts, pa.binary()), pa.array(offsets)], schema=_DIRECTORY))
    directory = sink.getvalue().to_pybytes()
    name = unique(FOLDER, "run")
    store.put(name, b"".join([*blocks, directory]))
    # Limit the sample of a run with many blocks, because it is sent to the driver.
    step = max(1, len(sample) // SAMPLE)
    return Run(name, size, size + len(directory), pairs, tuple(sample[::step]))


def delete(store: Store, runs: Iterable[Run]) -> None:
    """Remove runs that are no longer needed."""
    run_in_threads(store.delete, [run.name for run in runs], REQUESTS_AT_ONCE, "parsieve-delete")


def read(store: Store, runs: Sequence[Run], low: bytes | None, high: bytes | None) -> list[Iterator[bytes]]:
    """Return for each run its blocks with keys from `low` to before `high`.

    The first and the last block may have other keys too.
    """
    if not runs:
        return []
    ahead = max(MIN_AHEAD, AHEAD // len(runs))

    def open_run(run: Run) -> Iterator[bytes]:
        return _Blocks(store, run, (low, high), ahead)

    return list(map_in_threads(open_run, runs, REQUESTS_AT_ONCE, "parsieve-read"))


class _Blocks:
    """Iterates over the blocks of a run, and reads ahead."""

    def __init__(self, store: Store, run: Run, keys: tuple[bytes | None, bytes | None], ahead: int) -> None:
        self._store = store
        self._name = run.name
        self._ahead = ahead
        low, high = keys
        [directory] = store.get_ranges(run.name, [(run.size, run.end)])
        table = pa.ipc.open_stream(directory).read_all()
        firsts = table.column("first").to_pylist()
        # The rows of a key may begin in the block before the first block that starts with the key.
        start = 0 if low is None else max(0, bisect_left(firsts, low) - 1)
        stop = len(firsts) if high is None else bisect_left(firsts, high)
        # The offsets of the remaining blocks, and the end of the last one.
        self._offsets = [*table.column("offset").to_pylist(), run.size][start : max(start, stop) + 1]
        # Blocks that were read ahead, in reverse order.
        self._loaded: list[bytes] = []
        self._fetch()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if not self._loaded:
            self._fetch()
        if not self._loaded:
            raise StopIteration
        return self._loaded.pop()

    def _fetch(self) -> None:
        offsets = self._offsets
        if len(offsets) < 2:
            return
        count = 1
        while count + 1 < len(offsets) and offsets[count + 1] - offsets[0] <= self._ahead:
            count += 1
        [data] = self._store.get_ranges(self._name, [(offsets[0], offsets[count])])
        start = offsets[0]
        self._loaded = [data[offsets[at] - start : offsets[at + 1] - start] for at in reversed(range(count))]
        self._offsets = offsets[count:]


def cuts(runs: Sequence[Run], parts: int) -> list[bytes]:
    """Return keys that divide the runs into at most `parts` parts with about the same number of pairs."""
    weighted = sorted((key, run.pairs / len(run.sample)) for run in runs for key in run.sample)
    share = sum(weight for _, weight in weighted) / parts
    keys: list[bytes] = []
    passed = 0.0
    for key, weight in weighted:
        if passed >= share * (len(keys) + 1) and len(keys) < parts - 1 and key not in keys[-1:]:
            keys.append(key)
        passed += weight
    return keys
