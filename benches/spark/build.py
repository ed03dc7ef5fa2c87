"""Compares an index build with Spark's own sort of the same column, in one session. See `benches/README.md`.

    make develop .venv-spark/stamp-bench-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/build.py --scale 3.34 --memory 2g

Contenders run alternately. The sort discards its result (Spark's sink `noop`), so only its work counts. The build
writes its index. Both read the same files. The first round compares the segments with a local build.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parsieve.spark as pss
from parsieve import _core
from parsieve.index import TableIndex, View
from parsieve.lake import open_lake

ROOT = Path(__file__).resolve().parents[2]
# The project's goal: the time of the build divided by the time of the sort.
TARGET = 1.5


def small(folder: Path, rows: int) -> None:
    """Write keys like lineitem's, without its generator: ascending, with about four rows per key."""
    random = np.random.default_rng(1)
    for number in range(4):
        keys = np.sort(random.integers(0, rows // 4, rows // 4)) + number * (rows // 4)
        pq.write_table(
            pa.table({"l_orderkey": keys, "l_partkey": random.permutation(keys)}), folder / f"{number}.parquet"
        )


def lineitem(folder: Path, scale: float, parts: int) -> None:
    """Write TPC-H's lineitem with tpchgen-cli."""
    program = shutil.which("tpchgen-cli", path=os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))
    if program is None:
        raise SystemExit("tpchgen-cli is not installed; run make .venv-spark/stamp-bench-spark")
    command = [program, "parquet", "-s", str(scale), "-T", "lineitem", "--parts", str(parts), "-c", "ZSTD(1)"]
    subprocess.run([*command, "-o", str(folder)], check=True)


def segments(view: View) -> list[bytes]:
    """Return the lookup section of every segment."""
    [state] = view.columns.values()
    files = [view.store.get(part.name) for part in state.base.files]
    ranges = _core.SieveTimeline(_core.SieveAxis(state.type), state.base.root.get(view.store), []).segments()
    return [files[file][start : start + length] for file, start, length, *_ in ranges]


def measure(spark: Any, table: Path, column: str, rounds: int, check: bool) -> dict[str, Any]:
    """Return the seconds of both contenders in each round."""
    seconds: dict[str, list[float]] = {"spark sort": [], "build_index": []}
    index_bytes = 0
    for number in range(rounds + 1):
        where = Path(tempfile.mkdtemp(prefix="parsieve-bench-"))
        try:
            started = time.perf_counter()
            frame = spark.read.parquet(str(table)).select(column)
            frame.sort(column).write.format("noop").mode("overwrite").save()
            sorted_at = time.perf_counter()
            view = pss.build_index(spark, str(table), column, index_location=where)
            built_at = time.perf_counter()
            [state] = view.columns.values()
            index_bytes = sum(part.size for part in [state.base.root, *state.base.files])
            if number == 0 and check:
                lake = open_lake(str(table))
                local = TableIndex(where / "local").build(lake, lake.snapshot(), [column], progress=False)
                assert segments(local) == segments(view), "the segments differ from those of the local build"
        finally:
            shutil.rmtree(where)
        # The first round is not counted: it starts Python's workers and warms up Java's compiler.
        if number:
            seconds["spark sort"].append(sorted_at - started)
            seconds["build_index"].append(built_at - sorted_at)
            print(f"  round {number}: " + ", ".join(f"{name} {times[-1]:.2f} s" for name, times in seconds.items()))
    ratios = [built / sorted_ for sorted_, built in zip(*seconds.values(), strict=True)]
    ratio = statistics.median(ratios)
    print(f"{column}: {ratio:.2f} times Spark's sort (goal: at most {TARGET}); index {index_bytes:,} bytes")
    return {"column": column, "seconds": seconds, "ratio": ratio, "target": TARGET, "index_bytes": index_bytes}


def main() -> None:
    """Measure, print, and optionally save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor; 3.34 gives 20 million rows")
    parser.add_argument("--parts", type=int, default=8, help="number of files of the table")
    parser.add_argument("--table", type=Path, help="use a folder of Parquet files instead of lineitem")
    parser.add_argument("--columns", nargs="+", default=["l_orderkey", "l_partkey"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="2g", help="memory of Spark's driver, which does all the work")
    parser.add_argument(
        "--smoke", action="store_true", help="run once with little data, to check that all results agree"
    )
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="parsieve-bench-"))
    try:
        if arguments.smoke:
            small(folder, 40_000)
        elif arguments.table is None:
            lineitem(folder, arguments.scale, arguments.parts)
        table = arguments.table or folder
        files = sorted(table.rglob("*.parquet"))
        # The generator creates a folder for each table; Spark needs the folder with the files.
        table = files[0].parent if arguments.table is None else table
        for file in files if arguments.table is None else []:
            os.utime(file, (1, 1))
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        print(f"{rows:,} rows in {len(files)} files")
        spark = pss.session(
            lakes=[],
            master="local[2]",
            memory=arguments.memory,
            warehouse=folder / "warehouse",
            # With one partition per core, or with coalesced partitions, Spark's sort does not fit in 2 GB.
            config={
                "spark.ui.showConsoleProgress": False,
                "spark.sql.shuffle.partitions": 16,
                "spark.sql.adaptive.coalescePartitions.enabled": False,
            },
        )
        rounds = 1 if arguments.smoke else arguments.rounds
        results = [
            measure(spark, table, column, rounds, check=arguments.smoke or rows < 10**8) for column in arguments.columns
        ]
        spark.stop()
    finally:
        shutil.rmtree(folder)
    if arguments.save:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        record = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": commit.stdout.strip(),
            "machine": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "load": os.getloadavg(),
            "pyspark": version("pyspark"),
            "memory": arguments.memory,
            "rows": rows,
            "files": len(files),
            "columns": results,
        }
        path = ROOT / "benches" / "results" / f"spark-build-{record['date'][:10]}.json"
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
