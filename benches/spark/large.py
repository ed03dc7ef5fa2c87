"""An index of more rows than Spark's memory holds, built by Spark: a narrow table of a key in many files.

    make develop .venv-spark/stamp-spark
    PYTHONPATH=python .venv-spark/bin/python benches/spark/large.py FOLDER --rows 600000000 --save

The keys are scattered over all files, some four rows of each: the worst that a build can meet, since no order of the
files helps it. Every file that was made and every step that was measured stays in FOLDER: a command that was
interrupted goes on there. Rows of files picked at random are looked up in the end. See `benches/README.md`.
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
from kept import Kept  # noqa: E402

ROWS_OF_A_FILE = 3_000_000
ROWS_OF_A_KEY = 4
LOOKED_UP = 200


def keys_of(number: int, rows: int, of_all: int) -> Any:
    """The keys of one file: any of all."""
    return np.random.default_rng(number).integers(0, max(1, of_all // ROWS_OF_A_KEY), rows)


def make(table: Path, number: int, rows: int, of_all: int) -> None:
    """One file, unless it is there."""
    path = table / f"part-{number:05}.parquet"
    if not path.exists():
        unfinished = table / f".{path.name}"
        keys = pa.table({"key": keys_of(number, rows, of_all)})
        pq.write_table(keys, unfinished, compression="zstd", use_dictionary=False)
        unfinished.replace(path)


class Peak:
    """The most memory that this process and all it started held together, looked at a few times a second."""

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
            held = {pid: of for pid, of in _held().items() if of[1]}
            self.all = max(self.all, sum(size for _, size in held.values()))
            self.java = max([self.java, *(size for name, size in held.values() if name == "java")])


def _held() -> dict[int, tuple[str, int]]:
    """Name and resident bytes of this process and of all that it started, by their numbers (Linux)."""
    parents, found = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            of = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:
            continue
        pid = int(status.parent.name)
        parents[pid] = int(of["PPid"])
        found[pid] = of["Name"].strip(), int(of.get("VmRSS", "0").split()[0]) << 10
    ours = {int(Path("/proc/self").resolve().name)}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: found[pid] for pid in ours if pid in found}


def build(spark: Any, table: Path, index: Path) -> dict[str, Any]:
    """Seconds, memory and bytes of the build."""
    shutil.rmtree(index, ignore_errors=True)
    with Peak() as peak:
        begun = time.perf_counter()
        pss.build_index(spark, str(table), "key", index_location=index)
        spent = time.perf_counter() - begun
    of = ps.open_table(table, index_location=index).index_stats()["key"]
    return {
        "seconds": round(spent, 1),
        "peak_bytes_of_all_processes": peak.all,
        "peak_bytes_of_java": peak.java,
        "lookup_bytes": of.lookup_bytes + of.root_bytes,
        "keys_bytes": of.keys_bytes,
        "bits_per_row": round(of.bits_per_row, 3),
    }


def sort(spark: Any, table: Path) -> dict[str, Any]:
    """Seconds of Spark's own sort of the same column."""
    begun = time.perf_counter()
    spark.read.parquet(str(table)).select("key").sort("key").write.format("noop").mode("overwrite").save()
    return {"seconds": round(time.perf_counter() - begun, 1)}


def look_up(table: Path, index: Path, sizes: list[int], rows: int) -> dict[str, Any]:
    """Rows of files at random: is each one's file kept, and how many others are."""
    opened = ps.open_table(table, index_location=index)
    random = np.random.default_rng(7)
    files, seconds = 0, []
    for _ in range(LOOKED_UP):
        number = int(random.integers(len(sizes)))
        key = int(random.choice(keys_of(number, sizes[number], rows)))
        begun = time.perf_counter()
        plan = opened.plan(f"key = {key}")
        seconds.append(time.perf_counter() - begun)
        kept = {Path(file).name for file in plan.files}
        assert f"part-{number:05}.parquet" in kept, f"the file of {key} is left out"
        files += len(kept)
    return {"files_kept": files / LOOKED_UP, "plan_ms": round(1000 * float(np.median(seconds)), 2)}


def main() -> None:
    """Measure what is missing, and save if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where table, index and results lie; an interrupted run goes on")
    parser.add_argument("--rows", type=int, default=600_000_000)
    parser.add_argument("--memory", default="2g", help="of Spark's driver, which does all the work here")
    parser.add_argument("--sort", action="store_true", help="measure Spark's own sort of the column, too")
    parser.add_argument("--save", action="store_true", help="write a record into benches/results")
    asked = parser.parse_args()
    table, index = asked.folder / "table", asked.folder / "index"
    table.mkdir(parents=True, exist_ok=True)
    kept = Kept(asked.folder / "measured.json")
    sizes = [min(ROWS_OF_A_FILE, asked.rows - first) for first in range(0, asked.rows, ROWS_OF_A_FILE)]
    for number, rows in enumerate(sizes):
        make(table, number, rows, asked.rows)
    spark = pss.session(
        lakes=[],
        master="local[2]",
        memory=asked.memory,
        warehouse=asked.folder / "warehouse",
        config={
            "spark.ui.showConsoleProgress": "false",
            "spark.local.dir": str(asked.folder / "spark"),
            # With a partition for each core Spark's own sort has no room in 2 GB.
            "spark.sql.shuffle.partitions": str(max(16, asked.rows // 1_000_000)),
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        },
    )
    try:
        case = {
            "rows": asked.rows,
            "files": len(sizes),
            "table_bytes": sum(path.stat().st_size for path in table.glob("*.parquet")),
            "memory": asked.memory,
            "build": kept.once("build", lambda: build(spark, table, index)),
        }
        if asked.sort:
            case["sort"] = kept.once("sort", lambda: sort(spark, table))
    finally:
        spark.stop()
    case["look_up"] = kept.once("look_up", lambda: look_up(table, index, sizes, asked.rows))
    print(case)
    if asked.save:
        record.save("large-build", [case], ("pyspark", "pyarrow"), by="spark")


if __name__ == "__main__":
    main()
