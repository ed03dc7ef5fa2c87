"""Builds an index that is larger than Spark's memory: a table with a single key column in many files.

    make develop .venv-spark/stamp-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/large.py FOLDER --rows 600000000 --save

The keys are scattered over all files, with about four rows per key. This is the worst case for a build, because no
order of the files helps. FOLDER keeps all files and results, so an interrupted run can resume. At the end, the bench
looks up the keys of random rows. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps
import parsieve.spark as pss

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches" / "python"))
import record  # noqa: E402

ROWS_PER_FILE = 3_000_000
ROWS_PER_KEY = 4
NUM_LOOKUPS = 200


def keys_of(number: int, rows: int, total_rows: int) -> Any:
    """Return the random keys of one file."""
    return np.random.default_rng(number).integers(0, max(1, total_rows // ROWS_PER_KEY), rows)


def make(table: Path, number: int, rows: int, total_rows: int) -> None:
    """Write one file, unless it exists."""
    path = table / f"part-{number:05}.parquet"
    if not path.exists():
        unfinished = table / f".{path.name}"
        keys = pa.table({"key": keys_of(number, rows, total_rows)})
        pq.write_table(keys, unfinished, compression="zstd", use_dictionary=False)
        unfinished.replace(path)


class Peak:
    """The peak memory of this process and all its child processes together, sampled a few times per second."""

    def __init__(self) -> None:
        self.all = 0
        self.java = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.3):
            memory = _memory_of_processes()
            self.all = max(self.all, sum(size for _, size in memory.values()))
            self.java = max([self.java, *(size for name, size in memory.values() if name == "java")])


def _memory_of_processes() -> dict[int, tuple[str, int]]:
    """Return the name and resident bytes of this process and its descendants, by process id (Linux)."""
    parents, processes = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue
        pid = int(status.parent.name)
        parents[pid] = int(fields["PPid"])
        processes[pid] = fields["Name"].strip(), int(fields.get("VmRSS", "0").split()[0]) << 10
    ours = {int(Path("/proc/self").resolve().name)}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: processes[pid] for pid in ours if pid in processes}


def build(spark: Any, table: Path, index: Path) -> dict[str, Any]:
    """Build the index, and return the seconds, memory and bytes."""
    shutil.rmtree(index, ignore_errors=True)
    with Peak() as peak:
        start = time.perf_counter()
        pss.build_index(spark, str(table), "key", index_location=index)
        seconds = time.perf_counter() - start
    stats = ps.open_table(table, index_location=index).index_stats()["key"]
    return {
        "seconds": round(seconds, 1),
        "peak_bytes_of_all_processes": peak.all,
        "peak_bytes_of_java": peak.java,
        "lookup_bytes": stats.lookup_bytes + stats.root_bytes,
        "keys_bytes": stats.keys_bytes,
        "bits_per_row": round(stats.bits_per_row, 3),
    }


def sort(spark: Any, table: Path) -> dict[str, Any]:
    """Return the seconds of Spark's own sort of the same column."""
    start = time.perf_counter()
    spark.read.parquet(str(table)).select("key").sort("key").write.format("noop").mode("overwrite").save()
    return {"seconds": round(time.perf_counter() - start, 1)}


def look_up(table: Path, index: Path, sizes: list[int], rows: int) -> dict[str, Any]:
    """Look up the keys of random rows, check that the file of each is kept, and return the mean number of files."""
    opened = ps.open_table(table, index_location=index)
    random = np.random.default_rng(7)
    files, seconds = 0, []
    for _ in range(NUM_LOOKUPS):
        number = int(random.integers(len(sizes)))
        key = int(random.choice(keys_of(number, sizes[number], rows)))
        start = time.perf_counter()
        plan = opened.plan(f"key = {key}")
        seconds.append(time.perf_counter() - start)
        kept = {Path(file).name for file in plan.files}
        assert f"part-{number:05}.parquet" in kept, f"the file with key {key} was skipped"
        files += len(kept)
    return {"files_kept": files / NUM_LOOKUPS, "plan_ms": round(1000 * float(np.median(seconds)), 2)}


def main() -> None:
    """Run the missing steps, and optionally save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=Path, help="folder for the table, the index and the results; an interrupted run resumes"
    )
    parser.add_argument("--rows", type=int, default=600_000_000)
    parser.add_argument("--memory", default="2g", help="memory of Spark's driver, which does all the work")
    parser.add_argument("--sort", action="store_true", help="also measure Spark's own sort of the column")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    table, index = arguments.folder / "table", arguments.folder / "index"
    table.mkdir(parents=True, exist_ok=True)
    steps = record.SavedSteps(arguments.folder / "measured.json")
    sizes = [min(ROWS_PER_FILE, arguments.rows - first) for first in range(0, arguments.rows, ROWS_PER_FILE)]
    for number, rows in enumerate(sizes):
        make(table, number, rows, arguments.rows)
    spark = pss.session(
        lakes=[],
        master="local[2]",
        memory=arguments.memory,
        warehouse=arguments.folder / "warehouse",
        config={
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(arguments.folder / "spark"),
            # With one partition per core, Spark's own sort does not fit in 2 GB.
            "spark.sql.shuffle.partitions": str(max(16, arguments.rows // 1_000_000)),
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        },
    )
    try:
        case = {
            "rows": arguments.rows,
            "files": len(sizes),
            "table_bytes": sum(path.stat().st_size for path in table.glob("*.parquet")),
            "memory": arguments.memory,
            "build": steps.once("build", lambda: build(spark, table, index)),
        }
        if arguments.sort:
            case["sort"] = steps.once("sort", lambda: sort(spark, table))
    finally:
        spark.stop()
    case["look_up"] = steps.once("look_up", lambda: look_up(table, index, sizes, arguments.rows))
    print(case)
    if arguments.save:
        record.save("large-build", [case], ("pyspark", "pyarrow"), by="spark")


if __name__ == "__main__":
    main()
