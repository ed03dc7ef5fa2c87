"""Reads the last ten rows of one user: the files read in ten layouts, and what the best reader of exact bounds reads.

A table has a column of each layout of `layouts.py`, and users that are spread over all files. The rows are compared
with a sort in memory. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import layouts
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import record

import parsieve as ps
from parsieve.plan.order.ordered_plan import OrderedPlan

FIRST = 10
OURS, ALL = "parsieve, stops early", "parsieve, all candidates"
DUCKDB, POLARS = "DuckDB alone", "Polars alone"


def write(folder: Path, files: int, rows: int, candidates: int) -> pa.Table:
    """Write the table, and return it with the file of each row. A user has rows in about `candidates` files."""
    random = np.random.default_rng(7)
    columns = {layout.name: layout.values(random, files, rows) for layout in layouts.LAYOUTS}
    users = random.integers(0, max(2, files * rows // candidates), files * rows)
    table = pa.table(columns | {"user": users})
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(table.slice(number * rows, rows), folder / f"{number:05}.parquet")
    return table.append_column("file", pa.array(np.repeat(np.arange(files), rows)))


def best(rows: pa.Table, greatest: pa.Array, column: str) -> int:
    """Return how many candidates a reader needs that knows their greatest values, and reads one after the other."""
    # Ranks have the order of the values, also for types that Python does not compare.
    values = pa.chunked_array([rows[column].combine_chunks(), greatest])
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_pylist()
    by_file: dict[int, list[int]] = {}
    for file, rank in zip(rows["file"].to_pylist(), ranks, strict=False):
        by_file.setdefault(file, []).append(rank)
    bounds = ranks[len(rows) :]
    first: list[int] = []
    ordered = sorted(by_file, key=lambda file: (-bounds[file], file))
    for at, file in enumerate(ordered):
        if len(first) == FIRST and bounds[file] <= first[-1]:
            return at
        first = sorted([*first, *by_file[file]], reverse=True)[:FIRST]
    return len(ordered)


def measure(folder: Path, files: int, rows: int, count: int, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the files read and the times of every layout."""
    table = write(folder / "table", files, rows, candidates=100)
    opened = ps.open_table(folder / "table", index_location=folder / "index")
    names = [layout.name for layout in layouts.LAYOUTS]
    opened.build_index([*names, "user"], kind="sieve", progress=False)
    users = np.random.default_rng(11).choice(np.unique(table["user"].to_numpy()), count)
    for layout in layouts.LAYOUTS:
        greatest = table.group_by("file").aggregate([(layout.name, "max")]).sort_by("file")[f"{layout.name}_max"]
        read, needed, candidates = [], [], []
        sources: dict[str, tuple[Any, Any]] = {
            OURS: (_first, opened),
            ALL: (_sorted, opened),
            DUCKDB: (_duckdb, folder / "table"),
            POLARS: (_polars, folder / "table"),
        }
        seconds: dict[str, list[float]] = {way: [] for way in sources}
        for at, user in enumerate(users.tolist()):
            matching = table.filter(pc.equal(table["user"], user))
            expected = matching.sort_by([(layout.name, "descending")])[layout.name].to_pylist()[:FIRST]
            plan = opened.plan(f"user = {user}", order_by=layout.name, descending=True, limit=FIRST)
            assert isinstance(plan, OrderedPlan)
            reader = plan.first_rows()
            assert reader.read([layout.name], None)[layout.name].to_pylist() == expected
            read.append(reader.files_read)
            candidates.append(len(plan.files))
            needed.append(best(matching, greatest.combine_chunks(), layout.name))
            for way, (ask, source) in sources.items():
                # Engines take long, and nearly the same time for each user.
                if at < rounds or way in (OURS, ALL):
                    start = time.perf_counter()
                    assert ask(source, user, layout.name) == expected, way
                    seconds[way].append(time.perf_counter() - start)
        excess = [one - other for one, other in zip(read, needed, strict=True)]
        case = {
            "layout": layout.name,
            "about": layout.about,
            "files": files,
            "rows": files * rows,
            "users": count,
            "candidates": round(statistics.fmean(candidates), 1),
            "needed": round(statistics.fmean(needed), 2),
            "read": round(statistics.fmean(read), 2),
            "most_excess": max(excess),
            "milliseconds": {way: round(statistics.median(times) * 1e3, 2) for way, times in seconds.items()},
        }
        print(f"  {layout.about:<26}", {name: case[name] for name in list(case)[5:]})
        yield case


def _first(table: ps.Table, user: int, column: str) -> list[Any]:
    plan = table.plan(f"user = {user}", order_by=column, descending=True, limit=FIRST)
    values: list[Any] = plan.to_arrow([column])[column].to_pylist()
    return values


def _sorted(table: ps.Table, user: int, column: str) -> list[Any]:
    rows = table.plan(f"user = {user}").to_arrow([column])
    values: list[Any] = rows.sort_by([(column, "descending")])[column].to_pylist()
    return values[:FIRST]


def _duckdb(folder: Path, user: int, column: str) -> list[Any]:
    query = f"SELECT {column} FROM '{folder}/*.parquet' WHERE user = {user} ORDER BY {column} DESC LIMIT {FIRST}"
    connection: Any = duckdb.connect()
    values: list[Any] = connection.sql(query).to_arrow_table()[column].to_pylist()
    return values


def _polars(folder: Path, user: int, column: str) -> list[Any]:
    rows = pl.scan_parquet(folder / "*.parquet").filter(pl.col("user") == user).select(column)
    # Nulls come first in a descending order of Polars, but there are none here.
    values: list[Any] = rows.sort(column, descending=True).head(FIRST).collect().to_arrow()[column].to_pylist()
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check the rows and the files read")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    files, rows, count, rounds = (60, 200, 3, 1) if arguments.smoke else (5_000, 400, 30, 5)
    with tempfile.TemporaryDirectory() as folder:
        cases = list(measure(Path(folder), files, rows, count, rounds))
    assert max(case["most_excess"] for case in cases) <= 3, "more than three unneeded files were read"
    if arguments.save:
        record.save("first-rows", cases, ("pyarrow", "numpy", "duckdb", "polars"))


if __name__ == "__main__":
    main()
