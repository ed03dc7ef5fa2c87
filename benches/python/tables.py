"""Tables planned: a lake of late events, asked by three engines without and with an index; plans of 10,000 files.

`benches/README.md` says how to read the numbers.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
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


def late_events(folder: Path, files: int, rows_of_a_file: int, rounds: int) -> list[dict[str, Any]]:
    """A point and a range query, in turn without and with an index of both columns."""
    events = lake.write(folder / "lake", files, rows_of_a_file)
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
            kept = sum(Path(path).stat().st_size for path in plan.files)
            medians = {way: statistics.median(of) for way, of in times.items()}
            print(
                f"  {question} {engine:<8} {medians[ALONE] * 1e3:8.1f} ms alone, {medians[WITH] * 1e3:7.1f} ms with "
                f"({ratio:.1f}x); files {files} -> {len(plan.files)}, bytes {events.num_bytes:,} -> {kept:,}"
            )
            cases.append(
                {
                    "question": question,
                    "engine": engine,
                    "rows": found,
                    "milliseconds": {way: round(median * 1e3, 3) for way, median in medians.items()},
                    "times_faster": round(ratio, 2),
                    "files": {ALONE: files, WITH: len(plan.files)},
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
                "lookup_bytes": of.lookup_bytes,
                "root_bytes": of.root_bytes,
            }
            for name, of in stats.items()
        },
    }
    return [about, *cases]


def many_files(folder: Path, files: int, rounds: int) -> dict[str, Any]:
    """Plans of a point query over many small files, cold (a new table object) and warm."""
    where = folder / "many"
    where.mkdir()
    for number in range(files):
        pq.write_table(pa.table({"id": [number, files * 2 - number]}), where / f"{number:06}.parquet")
    table = ps.open_table(where)
    table.build_index("id", kind="sieve", progress=False)
    start = time.perf_counter()
    cold = ps.open_table(where).plan("id = 17")
    seconds_cold = time.perf_counter() - start
    assert len(cold.files) == 1
    warm = []
    for turn in range(rounds):
        start = time.perf_counter()
        plan = table.plan(f"id = {turn}")
        warm.append(time.perf_counter() - start)
        assert len(plan.files) == 1
    listing = []
    for _ in range(rounds):
        start = time.perf_counter()
        table._lake.snapshot()
        listing.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    medians = {"warm": statistics.median(warm), "of it the listing": statistics.median(listing), "cold": seconds_cold}
    print(f"{files} files, a point: " + ", ".join(f"{name} {of * 1e3:.1f} ms" for name, of in medians.items()))
    print(f"  peak memory of this process: {peak:.0f} MiB")
    return {
        "case": "many files",
        "files": files,
        "milliseconds": {name: round(of * 1e3, 2) for name, of in medians.items()},
        "peak_mib": round(peak),
        "target_milliseconds_warm": 50,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small: does it run, and do all agree")
    parser.add_argument("--save", action="store_true", help="write benches/results")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.smoke:
            cases = [*late_events(folder, 12, 4_000, 1), many_files(folder, 200, 3)]
        else:
            cases = [*late_events(folder, 200, 230_000, 5), many_files(folder, 10_000, 15)]
    if arguments.save:
        record.save("tables", cases, ("pyarrow", "duckdb", "polars"))


if __name__ == "__main__":
    main()
