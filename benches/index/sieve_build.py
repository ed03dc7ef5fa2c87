"""Builds a Sieve index of texts, integers and times, each compared with Lance's BTREE and with Arrow's sort.

    .venv/bin/python benches/index/sieve_build.py --save [--folder FOLDER] [--rounds 5]

Contenders run alternately. Wall and CPU times cover reading the column, except for Arrow's sort, which gets the column
in memory. The program fails if an index of texts takes more than 0.7 times as long as the BTREE of the same column.
`--folder` keeps the tables for the next run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import parsieve as ps

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
import record

ROWS, SMOKE_ROWS = 20_000_000, 200_000
FILES, GROUPS_OF_A_FILE = 100, 4
COLUMNS = {
    "text": "random texts of 32 hexadecimal digits",
    "uuid": "random UUIDs as texts with dashes",
    "url": "texts of 40 to 60 bytes",
    "number": "random integers, each ten times",
    "time": "times by arrival, 5 % late",
}
SIEVE, BTREE, SORT = "parsieve", "Lance's BTREE", "Arrow's sort_indices"
# The most time that an index of these columns may take, relative to the BTREE.
GOALS = {"text": 0.7}


def hexadecimal(random: np.random.Generator, rows: int) -> np.ndarray:
    """Return random digits, one row for each value."""
    digits = np.frombuffer(random.bytes(16 * rows).hex().encode(), np.uint8)
    return digits.reshape(rows, 32)


def texts(symbols: np.ndarray) -> pa.Array:
    """Return strings of equal length, given as rows of bytes."""
    rows, length = symbols.shape
    ends = np.arange(0, length * rows + 1, length, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(symbols.tobytes()))


def values(column: str, number: int, rows: int) -> pa.Array:
    """Return the column of a file. It is the same in every run."""
    random = np.random.default_rng([number, *column.encode()])
    if column == "text":
        return texts(hexadecimal(random, rows))
    if column == "uuid":
        dashes = [8, 12, 16, 20]
        return texts(np.insert(hexadecimal(random, rows), dashes, ord("-"), axis=1))
    if column == "url":
        pages, keys = random.integers(0, 1 << 62, (2, rows)).astype(str)
        return pc.binary_join_element_wise("https://example.com/", pa.array(pages), "/", pa.array(keys), "")
    if column == "number":
        return pa.array(random.integers(0, rows * FILES // 10, rows) * 7919 + 1_000_003)
    arrival = (number * rows + np.arange(rows)) * 1000 + random.integers(0, 1000, rows)
    delay = np.where(random.random(rows) < 0.05, random.random(rows) * rows * FILES * 100, 0)
    return pa.array(np.maximum(arrival - delay.astype(np.int64), 0).astype("datetime64[us]"))


def write(folder: Path, column: str, rows: int) -> tuple[Path, Any]:
    """Write the column as a folder of Parquet files and as a Lance dataset, unless they exist."""
    import lance

    files = folder / f"{column}-{rows}"
    if not files.exists():
        part = folder / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for number in range(FILES):
            table = pa.table({column: values(column, number, rows // FILES)})
            pq.write_table(table, part / f"{number:05}.parquet", row_group_size=rows // FILES // GROUPS_OF_A_FILE)
        part.rename(files)
    copy = folder / f"{column}-{rows}.lance"
    if not copy.exists():

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(FILES):
                yield pa.record_batch({column: values(column, number, rows // FILES)})

        schema = pa.schema([(column, values(column, 0, 1).type)])
        reader = pa.RecordBatchReader.from_batches(schema, batches())
        lance.write_dataset(reader, str(copy), max_rows_per_file=rows // FILES)
    return files, lance.dataset(str(copy))


@dataclass
class Times:
    """The seconds of each round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def take(self, run: Callable[[], object]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


def race(folder: Path, column: str, rows: int, rounds: int) -> dict[str, Any]:
    """Build the indexes of a column alternately, and sort it."""
    files, dataset = write(folder, column, rows)
    place, in_memory = folder / "index", pq.read_table(files)[column].combine_chunks()

    def build() -> None:
        ps.open_table(files, index_location=place).build_index(column, kind="sieve", progress=False)

    runs: dict[str, Callable[[], object]] = {
        SIEVE: build,
        BTREE: lambda: dataset.create_scalar_index(column, "BTREE"),
        SORT: lambda: pc.sort_indices(in_memory),
    }
    times = {name: Times() for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            shutil.rmtree(place, ignore_errors=True)
            for index in dataset.list_indices():
                dataset.drop_index(index["name"])
            times[name].take(run)
    # Every build has found all rows of the table.
    first, last = in_memory[0].as_py(), in_memory[-1].as_py()
    times[SIEVE].take(build)
    times[SIEVE].wall.pop(), times[SIEVE].cpu.pop()
    table = ps.open_table(files, index_location=place)
    for number, value in ((0, first), (FILES - 1, last)):
        kept = table.plan([(column, "=", value)]).files
        assert any(f"{number:05}.parquet" in name for name in kept), f"{column}: the index lost a row"
    ratios = [a / b for a, b in zip(times[SIEVE].wall, times[BTREE].wall, strict=True)]
    cpu_ratios = [a / b for a, b in zip(times[SIEVE].cpu, times[BTREE].cpu, strict=True)]
    return {
        "column": column,
        "values": COLUMNS[column],
        "rows": rows,
        "rounds": rounds,
        "wall_of_btree": round(statistics.median(ratios), 3),
        "cpu_of_btree": round(statistics.median(cpu_ratios), 3),
        "cpu_of_sort": round(
            statistics.median(a / b for a, b in zip(times[SIEVE].cpu, times[SORT].cpu, strict=True)), 3
        ),
        "timings": [
            {
                "name": name,
                "wall_s": round(statistics.median(taken.wall), 3),
                "cpu_s": round(statistics.median(taken.cpu), 3),
                "min_wall_s": round(min(taken.wall), 3),
                "min_cpu_s": round(min(taken.cpu), 3),
            }
            for name, taken in times.items()
        ],
    }


def show(case: dict[str, Any]) -> None:
    """Print the times of a column."""
    print(f"\n{case['rows']:,} {case['values']} in {FILES} files; load {os.getloadavg()[0]:.1f}")
    print(f"  {'medians':<24} {'wall s':>8} {'CPU s':>8}")
    for timing in case["timings"]:
        print(f"  {timing['name']:<24} {timing['wall_s']:>8.2f} {timing['cpu_s']:>8.2f}")
    print(f"  of the BTREE: wall {case['wall_of_btree']:.2f}, CPU {case['cpu_of_btree']:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", nargs="*", choices=COLUMNS, default=list(COLUMNS), help="default: all")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to keep the tables")
    parser.add_argument("--smoke", action="store_true", help="few rows, one round, no goals")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    rows, rounds = (SMOKE_ROWS, 1) if arguments.smoke else (arguments.rows, arguments.rounds)
    cases = []
    with tempfile.TemporaryDirectory(prefix="sieve-build-") as temporary:
        folder = arguments.folder or Path(temporary)
        for column in arguments.columns:
            cases.append(race(folder, column, rows, rounds))
            show(cases[-1])
    if arguments.save:
        record.save("sieve-build", cases, ("pyarrow", "numpy", "pylance"))
    goals = {} if arguments.smoke else GOALS
    missed = [case for case in cases if case["wall_of_btree"] > goals.get(case["column"], float("inf"))]
    for case in missed:
        print(f"{case['column']}: {case['wall_of_btree']:.2f} of the BTREE's time, more than {goals[case['column']]}")
    if missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
