"""Queries a lake of late events with pyarrow, Polars, DuckDB and Spark: warm, cold, and on a remote store.

    make develop .venv-spark/stamp-bench-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/engines.py --save

Cold means that no part of the lake and its index is in memory, and that the table is opened again. The remote store is
`benches/python/slow_store.py` with a latency of 20 ms, which counts requests and bytes. Spark would need a connector,
and is not measured there. Contenders run alternately, and must return the same rows. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset as pads
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow import fs

import parsieve as ps
import parsieve.spark as pss
from parsieve.demo import lake
from parsieve.predicate import parse, render

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches" / "python"))
import record  # noqa: E402

ALONE, WITH = "alone", "with parsieve"
DELAY = 0.02
# A store's listing cannot prove that a file of the last minute is unchanged, so files are dated back.
A_DAY = 86_400
Ask = Callable[[str], int]


class _Far(ArrowFSWrapper):  # type: ignore[misc] # it has no types
    """The remote store as a filesystem for DuckDB."""

    protocol = "far"

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(path).removeprefix("far://").lstrip("/")

    def open(self, path: str, mode: str = "rb", **_: Any) -> _FarFile:
        """Open a file for reading."""
        return _FarFile(self.fs.open_input_file(self._strip_protocol(path)))


class _FarFile:
    """A file that DuckDB's threads share. Each thread has its own position, because threads seek before they read."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._positions: dict[int, int] = {}

    def seek(self, position: int) -> None:
        self._positions[threading.get_ident()] = position

    def tell(self) -> int:
        return self._positions.get(threading.get_ident(), 0)

    def read(self, size: int) -> bytes:
        data: bytes = self._file.read_at(size, self.tell())
        self.seek(self.tell() + len(data))
        return data

    def close(self) -> None:
        self._file.close()


class Store:
    """The remote store, in its own process."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(ROOT / "benches/python/slow_store.py"), str(folder), "--delay", str(DELAY)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = f"127.0.0.1:{int(self._process.stdout.readline())}"
        self.filesystem = fs.S3FileSystem(
            endpoint_override=self.address, scheme="http", access_key="key", secret_key="secret", region="here"
        )

    @property
    def options(self) -> dict[str, str]:
        """Return the storage options for Polars."""
        return {
            "aws_endpoint_url": f"http://{self.address}",
            "aws_access_key_id": "key",
            "aws_secret_access_key": "secret",
            "aws_region": "here",
            "aws_allow_http": "true",
        }

    def counts(self) -> dict[str, int]:
        """Return the requests and bytes since the last call."""
        with urllib.request.urlopen(f"http://{self.address}/!counts") as answer:
            counts: dict[str, int] = json.load(answer)
            return counts

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()


def forget(folder: Path) -> None:
    """Drop the files of a folder from the page cache."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def local(folder: Path, spark: Any) -> dict[str, tuple[Ask, Callable[[ps.Table, str], int]]]:
    """Return two functions for each engine, which count the rows of a query: the engine alone, and with a plan."""
    schema = pads.dataset(folder).schema
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    everything = f"SELECT * FROM read_parquet('{folder}/*.parquet')"

    def by_duckdb(where: str) -> int:
        rows = connection.sql(f"{everything} WHERE {render.to_duckdb(parse(where, schema))}")
        return int(rows.to_arrow_table().num_rows)

    def by_polars(where: str) -> int:
        frame = pl.scan_parquet(f"{folder}/*.parquet").filter(render.to_polars(parse(where, schema)))
        return frame.collect().height

    return {
        "pyarrow": (
            lambda where: int(
                pads.dataset(folder, exclude_invalid_files=False, format="parquet")
                .to_table(filter=render.to_pyarrow(parse(where, schema)))
                .num_rows
            ),
            lambda table, where: int(table.plan(where).to_arrow().num_rows),
        ),
        "Polars": (by_polars, lambda table, where: table.plan(where).to_polars().collect().height),
        "DuckDB": (
            by_duckdb,
            lambda table, where: int(table.plan(where).to_duckdb(connection).to_arrow_table().num_rows),
        ),
        "Spark": (
            lambda where: len(spark.read.parquet(folder.as_uri()).where(where).collect()),
            lambda table, where: len(pss.read(spark, table, where).collect()),
        ),
    }


def far(store: Store, name: str, schema: Any) -> dict[str, tuple[Ask, Callable[[ps.Table, str], int]]]:
    """Return the same functions for the remote store."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register_filesystem(_Far(store.filesystem))

    def by_pyarrow(where: str) -> int:
        dataset = pads.dataset(f"b/{name}", filesystem=store.filesystem, format="parquet")
        return int(dataset.to_table(filter=render.to_pyarrow(parse(where, schema))).num_rows)

    def by_polars(where: str) -> int:
        frame = pl.scan_parquet(f"s3://b/{name}/*.parquet", storage_options=store.options)
        return frame.filter(render.to_polars(parse(where, schema))).collect().height

    def by_duckdb(where: str) -> int:
        everything = f"SELECT * FROM read_parquet('far://b/{name}/*.parquet')"
        rows = connection.sql(f"{everything} WHERE {render.to_duckdb(parse(where, schema))}")
        return int(rows.to_arrow_table().num_rows)

    return {
        "pyarrow": (by_pyarrow, lambda table, where: int(table.plan(where).to_arrow().num_rows)),
        "Polars": (by_polars, lambda table, where: table.plan(where).to_polars().collect().height),
        "DuckDB": (
            by_duckdb,
            lambda table, where: int(table.plan(where).to_duckdb(connection).to_arrow_table().num_rows),
        ),
    }


def race(
    engines: dict[str, tuple[Ask, Callable[[ps.Table, str], int]]],
    questions: dict[str, str],
    rounds: int,
    opened: Callable[[], ps.Table],
    before: Callable[[], Any],
    after: Callable[[], dict[str, int]] = dict,
) -> Iterator[dict[str, Any]]:
    """Yield the medians of both ways for each query and engine; `before` and `after` are called around each run."""
    for question, where in questions.items():
        for engine, (alone, planned) in engines.items():
            seconds: dict[str, list[float]] = {ALONE: [], WITH: []}
            counted: dict[str, dict[str, int]] = {}
            rows = {}
            for _ in range(rounds):
                for way in seconds:
                    before()
                    start = time.perf_counter()
                    rows[way] = alone(where) if way == ALONE else planned(opened(), where)
                    seconds[way].append(time.perf_counter() - start)
                    counted[way] = after()
            assert rows[ALONE] == rows[WITH], f"{engine}: {rows} for {where}"
            medians = {way: round(statistics.median(times), 4) for way, times in seconds.items()}
            print(f"  {question} {engine:<8} {medians} {counted if any(counted.values()) else ''}", flush=True)
            yield {"question": question, "engine": engine, "rows": rows[WITH], "seconds": medians, "counted": counted}


def measure(folder: Path, files: int, rows: int, rounds: int, spark: Any) -> Iterator[dict[str, Any]]:
    """Write a lake with an index, and query it in three places."""
    events = lake.write(folder / "lake", files, rows)
    for path in events.folder.iterdir():
        os.utime(path, (time.time() - A_DAY,) * 2)
    time.sleep(0.2)
    warm = ps.open_table(events.folder)
    warm.build_index(["user_id", "event_time"], "sieve", progress=False)
    questions = {"one user": events.point, "one hour": events.range}
    engines = local(events.folder, spark)
    print(f"{files} files, {events.num_bytes:,} bytes: warm")
    for case in race(engines, questions, rounds, lambda: warm, lambda: None):
        yield case | {"place": "warm"}
    print("cold")
    cold = race(engines, questions, rounds, lambda: ps.open_table(events.folder), lambda: forget(events.folder))
    for case in cold:
        yield case | {"place": "cold"}
    store = Store(folder)
    try:
        # The store has other tokens for the files than the local folder, so it needs its own index.
        remote = ps.open_table((store.filesystem, "b/lake"), index_location=folder / "far")
        remote.build_index(["user_id", "event_time"], "sieve", progress=False)
        print(f"a store {DELAY * 1e3:g} ms away")

        def reopened() -> ps.Table:
            return ps.open_table((store.filesystem, "b/lake"), index_location=(store.filesystem, "b/far"))

        for case in race(far(store, "lake", warm.schema), questions, rounds, reopened, store.counts, store.counts):
            yield case | {"place": "far"}
    finally:
        store.close()


def figures(cases: list[dict[str, Any]], files: int) -> list[dict[str, Any]]:
    """Return the measurements as figures for `parsieve report`."""
    descriptions = {
        "warm": "All files are in memory, and the table is already open.",
        "cold": "No file is in memory, and the table is opened for each query.",
        "far": f"On a store with a latency of {DELAY * 1e3:g} ms; the table and its index are opened for each query.",
    }
    result = []

    def chart(
        title: str, says: str, group: list[dict[str, Any]], unit: str, value: Callable[[Any, str], float]
    ) -> None:
        series = [record.series(way, [value(case, way) for case in group], ours=way == WITH) for way in (ALONE, WITH)]
        names = [f"{case['question']}, {case['engine']}" for case in group]
        axes = {"kind": "bars", "unit": unit, "categories": names, "category": "query and engine"}
        result.append({"title": title, "says": says} | axes | {"series": series})

    for place, description in descriptions.items():
        group = [case for case in cases if case["place"] == place]
        chart(f"{files} files, {place}", description, group, "seconds", lambda case, way: float(case["seconds"][way]))
    group = [case for case in cases if case["place"] == "far"]
    for key, unit in (("bytes", "bytes"), ("requests", "")):
        title, says = f"{files} files, far: {key}", f"The {key} that the remote store counted, including the listing."
        chart(title, says, group, unit, lambda case, way, key=key: float(case["counted"][way][key]))  # type: ignore[misc]
    return result


def main() -> None:
    """Measure, and optionally save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--smoke", action="store_true", help="run once with little data, to check that all results agree"
    )
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    files, rows, rounds = (12, 4_000, 1) if arguments.smoke else (200, 255_000, arguments.rounds)
    # The system's temporary folder may be in memory, which is never cold.
    (ROOT / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as name:
        spark = pss.session(
            lakes=[], master="local[2]", warehouse=f"{name}/warehouse", config={"spark.ui.showConsoleProgress": "false"}
        )
        try:
            cases = list(measure(Path(name), files, rows, rounds, spark))
        finally:
            spark.stop()
    if arguments.save:
        record.save("engines", cases, ("pyarrow", "polars", "duckdb", "pyspark"), figures(cases, files), "spark")


if __name__ == "__main__":
    main()
