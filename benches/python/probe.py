"""Checks filters in files: many keys in many files of a slow store, and one key in one file compared with DuckDB.

The store is simulated: every request sleeps first. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import record

import parsieve as ps

ROOT = Path(__file__).resolve().parents[2]
LATENCY = 0.020
ROWS = 10_000
# Files that are read at the same time. A store serves hundreds of requests, and waiting threads cost next to nothing.
AT_ONCE = 128
# The project's goal, compared with DuckDB's own probe.
TARGET = 100.0

Answer = TypeVar("Answer")


class SlowStore:
    """A folder with the two fsspec methods that a reader needs; each call waits as long as an object store would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def info(self, path: str) -> dict[str, int]:
        time.sleep(LATENCY)
        return {"size": (self.folder / path).stat().st_size}

    def cat_file(self, path: str, start: int, end: int) -> bytes:
        time.sleep(LATENCY)
        with (self.folder / path).open("rb") as file:
            file.seek(start)
            return file.read(end - start)


def make(folder: Path, files: int) -> None:
    """Write files of random keys. Of the keys that are looked up, file number n contains only n."""
    for number in range(files):
        keys = np.random.default_rng(number).integers(1 << 40, 1 << 62, ROWS)
        keys[number % ROWS] = number
        table = pa.table({"id": keys, "other": np.arange(ROWS)})
        pq.write_table(table, folder / f"{number}.parquet", bloom_filter_options={"id": {"ndv": ROWS, "fpp": 1e-6}})


def many_files(folder: Path, files: int) -> dict[str, Any]:
    """Find the files that may contain each of as many keys, with one query per file and many files at a time."""
    store, keys = SlowStore(folder), pa.array(np.arange(files))

    def ask(number: int) -> tuple[bool, int, int]:
        with ps.open_filters((store, f"{number}.parquet")) as filters:
            answer = any(filters.might_contain({"id": keys}))
            return answer, filters.requests, filters.bytes_fetched

    def which(number: int) -> int:
        with ps.open_filters((store, f"{number}.parquet")) as filters:
            bloom = filters.filter(0, "id")
            assert bloom is not None
            maybe = bloom.check(keys)
            assert maybe[number].as_py(), "a row would be lost"
            return int(maybe.true_count)

    def timed(work: Callable[[int], Answer]) -> tuple[list[Answer], float]:
        start = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(work, range(files))), round(time.perf_counter() - start, 4)

    answers, any_seconds = timed(ask)
    assert all(answer for answer, *_ in answers), "a row would be lost"
    requests = sum(count for _, count, _ in answers) / files
    size = sum(num_bytes for *_, num_bytes in answers) / files
    counts, each_seconds = timed(which)
    assert sum(counts) < files * 1.1, "too many false positives"
    few = range(min(files, 20))
    start = time.perf_counter()
    for number in few:
        ask(number)
    one_by_one = (time.perf_counter() - start) / len(few) * files
    # Getting the size of a file is a request too.
    waits = (requests + 1) * LATENCY * -(-files // AT_ONCE)
    print(f"{files} keys in {files} files, {LATENCY * 1e3:.0f} ms a request, {AT_ONCE} files at once")
    print(f"  any of the keys  {any_seconds:7.2f} s  ({waits:.2f} s are the latency alone)")
    print(f"  each of the keys {each_seconds:7.2f} s")
    print(f"  one by one       {one_by_one:7.2f} s  (from {len(few)} files)")
    print(f"  {requests:.1f} reads and {size / 1024:.1f} KiB a file\n")
    return {
        "case": "many keys in many files of a slow store",
        "files": files,
        "keys": files,
        "latency": LATENCY,
        "files_at_once": AT_ONCE,
        "seconds": {"any of the keys": any_seconds, "each of the keys": each_seconds},
        "seconds_of_latency_alone": round(waits, 4),
        "seconds_one_by_one": round(one_by_one, 4),
        "requests_per_file": requests,
        "bytes_per_file": round(size),
    }


def one_key(folder: Path, rounds: int) -> dict[str, Any]:
    """Check one key in one local file.

    The order of the contenders rotates (A B C, B C A, ...), because each one leaves the caches cold for the next.
    """
    path = str(folder / "0.parquet")
    connection = duckdb.connect()
    query = f"SELECT bool_or(NOT bloom_filter_excludes) FROM parquet_bloom_probe('{path}', 'id', ?)"

    def ask_duckdb(key: int) -> bool:
        row = connection.execute(query, [key]).fetchone()
        assert row is not None
        return bool(row[0])

    opened = ps.open_filters(path)
    bloom = opened.filter(0, "id")
    assert bloom is not None

    def ask_and_open(key: int) -> bool:
        with ps.open_filters(path) as filters:
            return any(filters.might_contain({"id": key}))

    contenders: dict[str, Callable[[int], bool]] = {
        "duckdb": ask_duckdb,
        "parsieve, opened each time": ask_and_open,
        "parsieve, file held open": lambda key: any(opened.might_contain({"id": key})),
        "parsieve, filter held": bloom.might_contain,
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        key = 0 if number % 2 else number + 5
        answers = set()
        names = list(contenders)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            ask = contenders[name]
            start = time.perf_counter_ns()
            answers.add(ask(key))
            times[name].append((time.perf_counter_ns() - start) / 1e3)
        assert answers == {key == 0}, f"different answers for {key}: {answers}"
    medians = {name: statistics.median(values) for name, values in times.items()}
    # The ratio is computed for each round, because the load on the machine changes between rounds.
    ratios = {
        name: statistics.median(theirs / ours for theirs, ours in zip(times["duckdb"], values, strict=True))
        for name, values in times.items()
    }
    print("one key in one file")
    for name, median in medians.items():
        print(f"  {name:<28} {median:9.2f} us  {ratios[name]:8.1f}x")
    return {
        "case": "one key in one local file",
        "rounds": rounds,
        "microseconds": {name: round(median, 3) for name, median in medians.items()},
        "times_faster_than_duckdb": {name: round(ratio, 2) for name, ratio in ratios.items()},
        "target": TARGET,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--smoke", action="store_true", help="use few files and rounds, to check that all results agree"
    )
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = 20 if arguments.smoke else 1000
        make(Path(folder), files)
        cases = [many_files(Path(folder), files), one_key(Path(folder), 10 if arguments.smoke else 500)]
    if arguments.save:
        record.save("probe", cases, ("pyarrow", "duckdb"))


if __name__ == "__main__":
    main()
