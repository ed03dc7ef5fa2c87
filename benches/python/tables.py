"""Measures three engines on a lake of late events with and without an index, and plans of 10,000 files.

See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import record

import parsieve as ps
from parsieve.demo import lake
from parsieve.predicate import parse, render

ALONE, WITH = "alone", "parsieve"
# Linux counts the bytes that a process reads, from memory or from disk.
COUNTS = Path("/proc/self/io")

# The maximum memory of an open table per file after a plan: for its slice, its token, and its place in the index.
HELD_BYTES = 8 << 10


def engines(events: lake.Events) -> dict[str, tuple[Callable[[str], int], Callable[[ps.Plan], int]]]:
    """Return two functions for each engine, which count the rows of a query: the engine alone, and with a plan."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    glob = f"{events.folder}/*.parquet"

    def parsed(where: str) -> Any:
        return parse(where, pads.dataset(events.folder).schema)

    def by_duckdb(where: str) -> int:
        rows = connection.sql(f"SELECT * FROM read_parquet('{glob}') WHERE {render.to_duckdb(parsed(where))}")
        return int(rows.to_arrow_table().num_rows)

    return {
        "pyarrow": (
            lambda where: int(pads.dataset(events.folder).to_table(filter=render.to_pyarrow(parsed(where))).num_rows),
            lambda plan: int(plan.to_arrow().num_rows),
        ),
        "polars": (
            lambda where: pl.scan_parquet(glob).filter(render.to_polars(parsed(where))).collect().height,
            lambda plan: plan.to_polars().collect().height,
        ),
        "duckdb": (by_duckdb, lambda plan: int(plan.to_duckdb(connection).to_arrow_table().num_rows)),
    }


def bytes_read(events: lake.Events, engine: str, where: str, way: str) -> int | None:
    """Return the bytes that this process reads for a query; None if the system does not count them.

    Tables and connections are opened again, so the count includes the index and the footers, and no cache helps.
    """
    if not COUNTS.exists():
        return None
    alone, planned = engines(events)[engine]
    before = int(COUNTS.read_text().split()[1])
    if way == ALONE:
        alone(where)
    else:
        planned(ps.open_table(events.folder).plan(where))
    return int(COUNTS.read_text().split()[1]) - before


def late_events(folder: Path, files: int, rows_of_a_file: int, rounds: int) -> list[dict[str, Any]]:
    """Run a point and a range query alternately without and with an index of both columns."""
    events = lake.write(folder / "lake", files, rows_of_a_file)
    time.sleep(0.2)
    table = ps.open_table(events.folder)
    start = time.perf_counter()
    table.build_index(["user_id", "event_time"], progress=False)
    build = time.perf_counter() - start
    stats = table.index_stats()
    print(f"{files} files, {events.num_rows:,} rows, {events.num_bytes / 1e6:.0f} MB; index built in {build:.1f} s")
    for name, column in stats.items():
        num_bytes = column.lookup_bytes + column.root_bytes
        print(f"  {name}: {column.bits_per_row:.2f} bits per row for lookups, {num_bytes:,} bytes")
    cases = []
    for question, where in (("point", events.point), ("range", events.range)):
        for engine, (alone, planned) in engines(events).items():
            times: dict[str, list[float]] = {ALONE: [], WITH: []}
            for _ in range(rounds):
                start = time.perf_counter()
                expected = alone(where)
                times[ALONE].append(time.perf_counter() - start)
                start = time.perf_counter()
                plan = table.plan(where)
                rows = planned(plan)
                times[WITH].append(time.perf_counter() - start)
                assert rows == expected, f"{engine}: {rows} rows with the plan, {expected} without"
            ratio = statistics.median(a / b for a, b in zip(times[ALONE], times[WITH], strict=True))
            read = {way: bytes_read(events, engine, where, way) for way in (ALONE, WITH)}
            kept = sum(Path(path).stat().st_size for path in plan.files)
            medians = {way: statistics.median(values) for way, values in times.items()}
            print(
                f"  {question} {engine:<8} {medians[ALONE] * 1e3:8.1f} ms alone, {medians[WITH] * 1e3:7.1f} ms with "
                f"({ratio:.1f}x); files {files} -> {len(plan.files)}, of {events.num_bytes:,} -> {kept:,} bytes; "
                f"bytes read {read[ALONE]} -> {read[WITH]}"
            )
            cases.append(
                {
                    "question": question,
                    "engine": engine,
                    "rows": rows,
                    "milliseconds": {way: round(median * 1e3, 3) for way, median in medians.items()},
                    "times_faster": round(ratio, 2),
                    "files": {ALONE: files, WITH: len(plan.files)},
                    "bytes_read": read,
                    "bytes_of_files": {ALONE: events.num_bytes, WITH: kept},
                }
            )
    about = {
        "case": "late events",
        "rows": events.num_rows,
        "bytes": events.num_bytes,
        "build_seconds": round(build, 2),
        "index": {
            name: {
                "bits_per_row": round(column.bits_per_row, 3),
                "stored_bytes": column.stored_bytes,
                "lookup_bytes": column.lookup_bytes,
                "root_bytes": column.root_bytes,
            }
            for name, column in stats.items()
        },
    }
    return [about, *cases]


def plain(folder: Path, files: int) -> str:
    """Write a folder without partitions."""
    for number in range(files):
        pq.write_table(_two_ids(number, files), _new(folder / f"{number:06}.parquet"))
    return str(folder)


def hive(folder: Path, files: int) -> str:
    """Write a folder with a hundred partitions."""
    for number in range(files):
        pq.write_table(_two_ids(number, files), _new(folder / f"day={number * 100 // files}" / f"{number:06}.parquet"))
    return str(folder)


def delta(folder: Path, files: int) -> str:
    """Write a Delta table with a hundred commits that add files to many partitions."""
    from deltalake import write_deltalake

    commits = min(100, files)
    for commit in range(commits):
        numbers = range(commit * files // commits, (commit + 1) * files // commits)
        rows = pa.concat_tables([_two_ids(number, files) for number in numbers])
        part = pa.array([row // 2 for row in range(rows.num_rows)], pa.int32())
        write_deltalake(str(folder), rows.append_column("part", part), partition_by=["part"], mode="append")
    return str(folder)


def iceberg(folder: Path, files: int) -> str:
    """Write an Iceberg table with ten snapshots that add existing files."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir()
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=(folder / "house").as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    uris = []
    for number in range(files):
        path = _new(folder / "files" / f"{number:06}.parquet")
        pq.write_table(_two_ids(number, files), path)
        uris.append(path.as_uri())
    for begin in range(0, files, max(1, files // 10)):
        table.add_files(uris[begin : begin + max(1, files // 10)], check_duplicate_files=False)
    catalog.close()
    return str(folder / "house" / "n" / "t")


def hudi(folder: Path, files: int) -> str:
    """Write a copy-on-write Hudi table of version 6 with a single commit."""
    timeline = _new(folder / ".hoodie" / "hoodie.properties").parent
    properties = {
        "name": "t",
        "type": "COPY_ON_WRITE",
        "version": 6,
        "base.file.format": "PARQUET",
        "recordkey.fields": "id",
        "precombine.field": "id",
        "timeline.timezone": "UTC",
    }
    lines = [f"hoodie.table.{name}={value}\n" for name, value in properties.items()]
    (timeline / "hoodie.properties").write_text("".join(lines) + "hoodie.timeline.layout.version=1\n")
    (folder / ".hoodie_partition_metadata").write_text("commitTime=20260101000000000\npartitionDepth=0\n")
    stats = []
    for number in range(files):
        name = f"{number:06}-0_0-1-0_20260101000000000.parquet"
        pq.write_table(_two_ids(number, files), folder / name)
        stats.append({"fileId": f"{number:06}-0", "path": name, "partitionPath": ""})
    fields = [{"name": "id", "type": ["null", "long"]}]
    commit = {
        "partitionToWriteStats": {"": stats},
        "extraMetadata": {"schema": json.dumps({"type": "record", "name": "t", "fields": fields})},
        "operationType": "BULK_INSERT",
    }
    (timeline / "20260101000000000.commit").write_text(json.dumps(commit))
    return str(folder)


def _two_ids(number: int, files: int) -> pa.Table:
    """Return two ids, chosen so that the min/max ranges of nearly all files include every id."""
    return pa.table({"id": [number, files * 2 - number]})


def _new(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def list_files(folder: str) -> None:
    """List the names and call `stat` for each file: the minimum cost of a listing."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            list_files(entry.path)
        else:
            entry.stat()


def many_files(kind: str, make: Callable[[Path, int], str], folder: Path, files: int, rounds: int) -> dict[str, Any]:
    """Plan a query for one key over many small files, with a new table object and with one that planned before."""
    start = time.perf_counter()
    where = make(folder / kind, files)
    # A file that was just written has no token yet, and an index would not cover it.
    time.sleep(0.2)
    ps.open_table(where).build_index("id", kind="sieve", progress=False)
    setup_seconds = time.perf_counter() - start
    tracemalloc.start()
    table = ps.open_table(where)
    assert len(table.plan("id = 17").files) == 1
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    start = time.perf_counter()
    cold = ps.open_table(where).plan("id = 17")
    seconds_cold = time.perf_counter() - start
    assert len(cold.files) == 1
    is_folder = table.format == "parquet"
    times: dict[str, list[float]] = {"warm": [], "of it the snapshot": []}
    if is_folder:
        times["names and stat alone"] = []
    requests = 0
    for number in range(rounds):
        start = time.perf_counter()
        plan = table.plan(f"id = {number}")
        times["warm"].append(time.perf_counter() - start)
        assert len(plan.files) == 1
        requests = plan.requests
        start = time.perf_counter()
        table.opened.lake.snapshot()
        times["of it the snapshot"].append(time.perf_counter() - start)
        if is_folder:
            start = time.perf_counter()
            list_files(where)
            times["names and stat alone"].append(time.perf_counter() - start)
    medians = {name: statistics.median(values) for name, values in times.items()} | {"cold": seconds_cold}
    summary = ", ".join(f"{name} {seconds * 1e3:.1f} ms" for name, seconds in medians.items())
    print(f"{files} files, {kind}, one key: {summary}")
    print(
        f"  {cold.requests} requests cold, {requests} warm; {memory / 2**20:.1f} MiB; set up in {setup_seconds:.0f} s"
    )
    assert cold.requests <= 4, "more than four requests in addition to the table's own listing or log"
    assert memory <= HELD_BYTES * files, "more memory per file than allowed"
    return {
        "case": "many files",
        "format": kind,
        "files": files,
        "milliseconds": {name: round(seconds * 1e3, 2) for name, seconds in medians.items()},
        "least_milliseconds_warm": round(min(times["warm"]) * 1e3, 2),
        "requests": {"cold": cold.requests, "warm": requests},
        "mib_held": round(memory / 2**20, 1),
        "target_milliseconds_warm": 50,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check that all results agree")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    # The libraries that write the tables emit deprecation warnings.
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.smoke:
            cases = late_events(folder, 12, 4_000, 1)
            files, rounds = 200, 3
        else:
            cases = late_events(folder, 200, 255_000, 5)
            files, rounds = 10_000, 15
        shutil.rmtree(folder / "lake")
        for make in (plain, hive, delta, iceberg, hudi):
            cases.append(many_files(make.__name__, make, folder, files, rounds))
    if arguments.save:
        record.save("tables", cases, ("pyarrow", "duckdb", "polars", "deltalake", "pyiceberg", "hudi"))


if __name__ == "__main__":
    main()
