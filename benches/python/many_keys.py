"""Rows of many keys: `plan(keys=...)` with a Sieve index, and the semi-joins of DuckDB and Polars on the same files.

The table has a key that is scattered over all files, and one that follows the order in which rows were written. All
contenders must return the same number of rows and the same sum. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import record

import parsieve as ps

FILES, ROWS = 100, 100_000
OURS, DUCKDB, POLARS = "parsieve", "DuckDB's semi-join", "Polars' semi-join"


def write(folder: Path, files: int, rows: int) -> None:
    """Write the table."""
    random = np.random.default_rng(7)
    total = files * rows
    scattered = random.permutation(total) * 3
    folder.mkdir(parents=True)
    for number in range(files):
        part = slice(number * rows, (number + 1) * rows)
        ordered = np.arange(part.start, part.stop) * 3
        table = pa.table(
            {
                "scattered": scattered[part],
                "ordered": random.permutation(ordered),
                "value": random.integers(0, 1000, rows),
                "payload": random.random(rows),
            }
        )
        pq.write_table(table, folder / f"{number:05}.parquet", compression="zstd", row_group_size=max(1, rows // 4))


def keys_of(column: str, count: int, total: int) -> pa.Array:
    """Return distinct keys. One in three exists. The keys of `ordered` are neighbors, as in a join by time."""
    random = np.random.default_rng(count)
    if column == "scattered":
        return pa.array(random.permutation(np.unique(random.integers(0, total * 3, count * 2)))[:count])
    start = int(random.integers(0, total * 3 - count * 2))
    return pa.array(random.permutation(np.arange(start, start + count)))


def ours(folder: Path, index: Path, column: str, keys: pa.Array) -> dict[str, Any]:
    table = ps.open_table(folder, index_location=index)
    table.plan(keys={column: keys.slice(0, 1)})
    start = time.perf_counter()
    plan = table.plan(keys={column: keys})
    planned = time.perf_counter()
    rows = plan.to_arrow(["value"])
    return {
        "rows": rows.num_rows,
        "sum": pc.sum(rows["value"]).as_py() or 0,
        "seconds": time.perf_counter() - start,
        "plan_seconds": planned - start,
        "files_kept": len(plan.files),
    }


def by_duckdb(folder: Path, index: Path, column: str, keys: pa.Array) -> dict[str, Any]:
    connection: Any = duckdb.connect()
    connection.register("wanted", pa.table({"key": keys}))
    query = f"SELECT count(*), coalesce(sum(value), 0) FROM '{folder}/*.parquet' SEMI JOIN wanted ON {column} = key"
    start = time.perf_counter()
    rows, total = connection.execute(query).fetchone()
    return {"rows": rows, "sum": int(total), "seconds": time.perf_counter() - start}


def by_polars(folder: Path, index: Path, column: str, keys: pa.Array) -> dict[str, Any]:
    wanted: Any = pl.from_arrow(pa.table({"key": keys}))
    start = time.perf_counter()
    frame = pl.scan_parquet(f"{folder}/*.parquet").select(column, "value")
    joined = frame.join(wanted.lazy(), left_on=column, right_on="key", how="semi")
    rows: Any = joined.select(pl.len().alias("rows"), pl.col("value").sum()).collect()
    return {"rows": rows["rows"][0], "sum": rows["value"][0], "seconds": time.perf_counter() - start}


CONTENDERS = {OURS: ours, DUCKDB: by_duckdb, POLARS: by_polars}


def peak_memory() -> int:
    """Return the most memory that this process has used, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def measure(name: str, folder: Path, column: str, count: int, total: int) -> dict[str, Any]:
    """Measure one contender in a separate process, so that its memory does not include the memory of the others."""
    arguments = [name, str(folder), column, str(count), str(total)]
    process = subprocess.run(
        [sys.executable, __file__, "--one", *arguments], capture_output=True, text=True, check=True
    )
    measured: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return measured


def one(name: str, folder: Path, column: str, count: int, total: int) -> None:
    """Run a contender twice, and print the second run. The first one loads code and fills the system's cache."""
    keys = keys_of(column, count, total)
    table, index = folder / "table", folder / "index"
    CONTENDERS[name](table, index, column, keys)
    result = CONTENDERS[name](table, index, column, keys)
    print(json.dumps(result | {"memory_bytes": peak_memory()}))


def race(folder: Path, column: str, count: int, total: int, rounds: int) -> dict[str, Any]:
    """Run the contenders one after the other, several times, and return the medians."""
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, runs in measured.items():
            runs.append(measure(name, folder, column, count, total))
    answers = {(run["rows"], run["sum"]) for runs in measured.values() for run in runs}
    assert len(answers) == 1, answers

    def medians(key: str) -> dict[str, float]:
        return {name: statistics.median(run[key] for run in runs) for name, runs in measured.items()}

    case = {
        "column": column,
        "keys": count,
        "rows": measured[OURS][0]["rows"],
        "files_kept": measured[OURS][0]["files_kept"],
        "plan_milliseconds": round(statistics.median(run["plan_seconds"] for run in measured[OURS]) * 1e3, 1),
        "milliseconds": {name: round(value * 1e3, 1) for name, value in medians("seconds").items()},
        "memory_megabytes": {name: round(value / 2**20) for name, value in medians("memory_bytes").items()},
    }
    print(case, flush=True)
    return case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check the rows")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    parser.add_argument("--one", nargs=5, metavar=("NAME", "FOLDER", "COLUMN", "KEYS", "ROWS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, folder, column, count, total = arguments.one
        one(name, Path(folder), column, int(count), int(total))
        return
    files, rows, rounds = (6, 600, 1) if arguments.smoke else (FILES, ROWS, 3)
    counts = (1, 500) if arguments.smoke else (1, 100, 10_000, 1_000_000)
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        write(base / "table", files, rows)
        table = ps.open_table(base / "table", index_location=base / "index")
        table.build_index(["scattered", "ordered"], "sieve", progress=False)
        cases = [
            race(base, column, count, files * rows, rounds) for column in ("scattered", "ordered") for count in counts
        ]
    if arguments.save:
        record.save("many-keys", cases, ("pyarrow", "duckdb", "polars"))


if __name__ == "__main__":
    main()
