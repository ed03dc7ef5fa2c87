"""Tables planned: a lake of late events, asked by three engines without and with an index; plans of 10,000 files.

`benches/README.md` says how to read the numbers.
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
# Linux counts what a process reads, be it from memory or from the disk.
COUNTS = Path("/proc/self/io")

# What an open table holds of each file after a plan, at most: its slice, its token, and its place in the index.
HELD_BYTES = 8 << 10


def engines(events: lake.Events) -> dict[str, tuple[Callable[[str], int], Callable[[ps.Plan], int]]]:
    """Rows found by each engine with the means of its own, and in what a plan keeps."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    glob = f"{events.folder}/*.parquet"

    def form(where: str) -> Any:
        return parse(where, pads.dataset(events.folder).schema)

    def by_duckdb(where: str) -> int:
        found = connection.sql(f"SELECT * FROM read_parquet('{glob}') WHERE {render.to_duckdb(form(where))}")
        return int(found.to_arrow_table().num_rows)

    return {
        "pyarrow": (
            lambda where: int(pads.dataset(events.folder).to_table(filter=render.to_pyarrow(form(where))).num_rows),
            lambda plan: int(plan.to_arrow().num_rows),
        ),
        "polars": (
            lambda where: pl.scan_parquet(glob).filter(render.to_polars(form(where))).collect().height,
            lambda plan: plan.to_polars().collect().height,
        ),
        "duckdb": (by_duckdb, lambda plan: int(plan.to_duckdb(connection).to_arrow_table().num_rows)),
    }


def bytes_read(events: lake.Events, engine: str, where: str, way: str) -> int | None:
    """Bytes that all reads of this process bring for a question; None where the system does not tell.

    By objects that know nothing yet: the index and the footers are read too, and no connection remembers files.
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
    """A point and a range query, in turn without and with an index of both columns."""
    events = lake.write(folder / "lake", files, rows_of_a_file)
    time.sleep(0.2)
    table = ps.open_table(events.folder)
    begun = time.perf_counter()
    table.build_index(["user_id", "event_time"], progress=False)
    build = time.perf_counter() - begun
    stats = table.index_stats()
    print(f"{files} files, {events.num_rows:,} rows, {events.num_bytes / 1e6:.0f} MB; index built in {build:.1f} s")
    for name, of in stats.items():
        print(f"  {name}: {of.bits_per_row:.2f} bits a row for lookups, {of.lookup_bytes + of.root_bytes:,} bytes")
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
                found = planned(plan)
                times[WITH].append(time.perf_counter() - start)
                assert found == expected, f"{engine}: {found} rows with the plan, {expected} without"
            ratio = statistics.median(a / b for a, b in zip(times[ALONE], times[WITH], strict=True))
            read = {way: bytes_read(events, engine, where, way) for way in (ALONE, WITH)}
            kept = sum(Path(path).stat().st_size for path in plan.files)
            medians = {way: statistics.median(of) for way, of in times.items()}
            print(
                f"  {question} {engine:<8} {medians[ALONE] * 1e3:8.1f} ms alone, {medians[WITH] * 1e3:7.1f} ms with "
                f"({ratio:.1f}x); files {files} -> {len(plan.files)}, of {events.num_bytes:,} -> {kept:,} bytes; "
                f"bytes read {read[ALONE]} -> {read[WITH]}"
            )
            cases.append(
                {
                    "question": question,
                    "engine": engine,
                    "rows": found,
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
                "bits_per_row": round(of.bits_per_row, 3),
                "stored_bytes": of.stored_bytes,
                "lookup_bytes": of.lookup_bytes,
                "root_bytes": of.root_bytes,
            }
            for name, of in stats.items()
        },
    }
    return [about, *cases]


def plain(folder: Path, files: int) -> str:
    """Files of a folder without partitions, as fast as they can be written."""
    for number in range(files):
        pq.write_table(_two_ids(number, files), _new(folder / f"{number:06}.parquet"))
    return str(folder)


def hive(folder: Path, files: int) -> str:
    """Files in a hundred folders."""
    for number in range(files):
        pq.write_table(_two_ids(number, files), _new(folder / f"day={number * 100 // files}" / f"{number:06}.parquet"))
    return str(folder)


def delta(folder: Path, files: int) -> str:
    """A Delta table of a hundred commits, each of which brought a file to many partitions."""
    from deltalake import write_deltalake

    commits = min(100, files)
    for commit in range(commits):
        numbers = range(commit * files // commits, (commit + 1) * files // commits)
        rows = pa.concat_tables([_two_ids(number, files) for number in numbers])
        part = pa.array([place // 2 for place in range(rows.num_rows)], pa.int32())
        write_deltalake(str(folder), rows.append_column("part", part), partition_by=["part"], mode="append")
    return str(folder)


def iceberg(folder: Path, files: int) -> str:
    """An Iceberg table of ten snapshots, each of which took files in."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir()
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=(folder / "house").as_uri())
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    named = []
    for number in range(files):
        path = _new(folder / "files" / f"{number:06}.parquet")
        pq.write_table(_two_ids(number, files), path)
        named.append(path.as_uri())
    for begin in range(0, files, max(1, files // 10)):
        table.add_files(named[begin : begin + max(1, files // 10)], check_duplicate_files=False)
    catalog.close()
    return str(folder / "house" / "n" / "t")


def hudi(folder: Path, files: int) -> str:
    """A Hudi table of copied files, version 6, as one commit would leave it."""
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
    said = {
        "partitionToWriteStats": {"": stats},
        "extraMetadata": {"schema": json.dumps({"type": "record", "name": "t", "fields": fields})},
        "operationType": "BULK_INSERT",
    }
    (timeline / "20260101000000000.commit").write_text(json.dumps(said))
    return str(folder)


def _two_ids(number: int, files: int) -> pa.Table:
    """So that nearly every file's minimum and maximum surround every id."""
    return pa.table({"id": [number, files * 2 - number]})


def _new(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def look_at(folder: str) -> None:
    """The least that a listing costs: names, and one `stat` for each file."""
    for entry in os.scandir(folder):
        if entry.is_dir():
            look_at(entry.path)
        else:
            entry.stat()


def many_files(kind: str, make: Callable[[Path, int], str], folder: Path, files: int, rounds: int) -> dict[str, Any]:
    """Plans of a point over many small files: of a new table object, and of one that planned before."""
    begun = time.perf_counter()
    where = make(folder / kind, files)
    # A file of this very moment might still change unseen, and the index would not speak of it.
    time.sleep(0.2)
    ps.open_table(where).build_index("id", kind="sieve", progress=False)
    made = time.perf_counter() - begun
    tracemalloc.start()
    table = ps.open_table(where)
    assert len(table.plan("id = 17").files) == 1
    held = tracemalloc.get_traced_memory()[0]
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
    for turn in range(rounds):
        start = time.perf_counter()
        plan = table.plan(f"id = {turn}")
        times["warm"].append(time.perf_counter() - start)
        assert len(plan.files) == 1
        requests = plan.requests
        start = time.perf_counter()
        table.opened.lake.snapshot()
        times["of it the snapshot"].append(time.perf_counter() - start)
        if is_folder:
            start = time.perf_counter()
            look_at(where)
            times["names and stat alone"].append(time.perf_counter() - start)
    medians = {name: statistics.median(of) for name, of in times.items()} | {"cold": seconds_cold}
    print(f"{files} files, {kind}, a point: " + ", ".join(f"{name} {of * 1e3:.1f} ms" for name, of in medians.items()))
    print(f"  {cold.requests} requests cold, {requests} warm; {held / 2**20:.1f} MiB held; made in {made:.0f} s")
    assert cold.requests <= 4, "more than four requests beside the table's own listing or log"
    assert held <= HELD_BYTES * files, "more memory is held for each file than is promised"
    return {
        "case": "many files",
        "format": kind,
        "files": files,
        "milliseconds": {name: round(of * 1e3, 2) for name, of in medians.items()},
        "least_milliseconds_warm": round(min(times["warm"]) * 1e3, 2),
        "requests": {"cold": cold.requests, "warm": requests},
        "mib_held": round(held / 2**20, 1),
        "target_milliseconds_warm": 50,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small: does it run, and do all agree")
    parser.add_argument("--save", action="store_true", help="write benches/results")
    arguments = parser.parse_args()
    # Libraries that write the tables warn of what they will leave out one day.
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
