"""Replace files repeatedly while other threads read them.

    python tests/python/support/programs/replacing.py --reads 100000

Each version of each file contains the key once, so each read must find it once in each file, or raise a conflict.
The program prints the outcomes of each way to read.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps

# The time of a read grows with the number of files, but the chance that one of them is replaced meanwhile does not:
# fewer files are replaced more often.
KEY, FILES, READERS = 5, 4, 4
# The versions of each file are made before the first read, so that the writer leaves the time to the readers.
VERSIONS = 40
WAYS: dict[str, Callable[[ps.Plan, Any], list[int]]] = {
    "to_arrow": lambda plan, con: plan.to_arrow(columns=["file"])["file"].to_pylist(),
    "to_batches": lambda plan, con: [number for batch in plan.to_batches() for number in batch["file"].to_pylist()],
    "to_dataset": lambda plan, con: plan.to_dataset().to_table(columns=["file"])["file"].to_pylist(),
    "to_polars": lambda plan, con: plan.to_polars().collect()["file"].to_list(),
    "to_duckdb": lambda plan, con: [number for (number,) in plan.to_duckdb(con).project("file").fetchall()],
}


@dataclass
class Replacing:
    """A folder in which a thread replaces files, by rename and in place."""

    folder: Path
    per_second: float = 30
    answers: dict[str, Counter[str]] = field(default_factory=lambda: {way: Counter() for way in WAYS})
    wrong: list[str] = field(default_factory=list)
    replaced: int = 0
    # How many writes in place were begun, and how many were completed. On a busy machine, the writer may stop for long
    # between the two.
    _begun: int = 0
    _written: int = 0

    def run(self, reads: int, seed: int = 0) -> None:
        """Read the folder a number of times, and alternate between all ways to read."""
        writing = random.Random(seed)
        versions = [[_version(number, writing) for _ in range(VERSIONS)] for number in range(FILES)]
        for number, (first, *_) in enumerate(versions):
            self._path(number).write_bytes(first)
        stopped = threading.Event()
        writer = threading.Thread(target=self._write, args=(versions, writing, stopped))
        turns = iter(range(reads))
        lock = threading.Lock()
        readers = [threading.Thread(target=self._read, args=(turns, lock, stopped)) for _ in range(READERS)]
        for thread in (writer, *readers):
            thread.start()
        for reader in readers:
            reader.join()
        stopped.set()
        writer.join()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.parquet"

    def _write(self, versions: list[list[bytes]], writing: random.Random, stopped: threading.Event) -> None:
        while not stopped.wait(1 / self.per_second):
            number = writing.randrange(FILES)
            data = writing.choice(versions[number])
            self.replaced += 1
            if writing.random() < 0.3:
                self._begun += 1
                self._path(number).write_bytes(data)
                self._written += 1
            else:
                part = self.folder / "_part"
                part.write_bytes(data)
                os.replace(part, self._path(number))  # noqa: PTH105

    def _read(self, turns: Any, lock: threading.Lock, stopped: threading.Event) -> None:
        with duckdb.connect() as con:
            while not stopped.is_set():
                with lock:
                    turn = next(turns, None)
                if turn is None:
                    return
                way = list(WAYS)[turn % len(WAYS)]
                try:
                    self.answers[way][self._answer(way, con, turn)] += 1
                except BaseException as error:
                    self.wrong.append(f"{way}: {error!r}")
                    raise

    def _answer(self, way: str, con: Any, turn: int) -> str:
        written = self._written
        plan = self._plan(turn)
        try:
            counts = Counter(WAYS[way](plan, con))
        except (ps.ConflictError, ps.FormatError, duckdb.Error) as error:
            if "since the plan" in str(error):
                return "conflict"
            if "not a Parquet file" in str(error) and self._begun > written:
                return "half-written file"
            self.wrong.append(f"{way}: {error!r}")
            return "wrong error"
        if counts != Counter(range(FILES)):
            self.wrong.append(f"{way}: {counts}")
            return "wrong"
        return "right"

    def _plan(self, turn: int) -> ps.Plan:
        """Return a plan that keeps all files.

        A file that is half written lacks the key and may not be a Parquet file yet, so plan again.
        """
        while True:
            try:
                plan = ps.open_table(self.folder).plan(f"k = {KEY}", row_groups=(None, True, False)[turn % 3])
            except ps.FormatError:
                continue
            if len(plan.files) == FILES:
                return plan


def _version(number: int, writing: random.Random) -> bytes:
    rows = writing.choice([4, 50, 300, 3000])
    keys = [KEY, *(writing.randrange(10, 10_000) for _ in range(rows - 1))]
    writing.shuffle(keys)
    table = pa.table({"k": keys, "file": [number] * rows, "text": ["x" * writing.randrange(30)] * rows})
    sink = io.BytesIO()
    codec = writing.choice(["none", "snappy"])
    pq.write_table(table, sink, writing.choice([2, 7, 50, 1000]), compression=codec, use_dictionary=False)
    return sink.getvalue()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--reads", type=int, default=100_000)
    parser.add_argument("--per-second", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        replacing = Replacing(Path(folder), options.per_second)
        replacing.run(options.reads, options.seed)
    seconds = time.monotonic() - begun
    for name, counts in replacing.answers.items():
        print(name, dict(counts))
    print(f"{options.reads / seconds:.0f} reads and {replacing.replaced / seconds:.0f} replacements per second")
    print("\n".join(replacing.wrong[:20]))
    raise SystemExit(bool(replacing.wrong))
