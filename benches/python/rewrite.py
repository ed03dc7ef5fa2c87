"""Adds filters to an existing file, compared with rewriting the file by pyarrow and DuckDB. See `benches/README.md`.

Contenders run alternately, each in its own process, so that its peak memory can be measured. All of them sync their
output. Times are in seconds, and memory is in MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import record

import parsieve as ps

ROOT = Path(__file__).resolve().parents[2]
ROW_GROUP = 1 << 20
FPP = 0.01
# The project's goals, compared with the faster of the other contenders.
TARGETS = {"id": 10.0, "text": 4.0}
# Options that DuckDB's documentation suggests for filters of millions of distinct values.
DICTIONARIES = "dictionary_size_limit 1048576, string_dictionary_page_size_limit 1000000000"


def make(path: Path, codec: str, rows: int) -> None:
    """Write unsorted random int64 and strings of 96 bytes, and some other columns."""
    random = np.random.default_rng(1)
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)
    writer = None
    for start in range(0, rows, ROW_GROUP):
        count = min(ROW_GROUP, rows - start)
        text = letters[random.integers(0, 16, (count, 96), dtype=np.uint8)]
        offsets = np.arange(0, 96 * (count + 1), 96, dtype=np.int32)
        table = pa.table(
            {
                "id": random.integers(-(2**63), 2**63 - 1, count),
                "text": pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text.reshape(-1))),
                "amount": random.normal(size=count),
                "when": random.integers(1_600_000_000_000_000, 1_700_000_000_000_000, count).astype("datetime64[us]"),
                "kind": random.integers(0, 20, count),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema, compression=codec, use_dictionary=["kind"])
        writer.write_table(table, row_group_size=ROW_GROUP)
    assert writer is not None
    writer.close()


def with_parsieve(source: Path, out: Path, column: str, codec: str) -> None:
    ps.add_filters(source, columns=column, fpp=FPP)


def with_parsieve_in_place(source: Path, out: Path, column: str, codec: str) -> None:
    ps.add_filters(source, columns=column, fpp=FPP, in_place=True)


def with_parsieve_to_dest(source: Path, out: Path, column: str, codec: str) -> None:
    ps.add_filters(source, out, columns=column, fpp=FPP)


def with_pyarrow(source: Path, out: Path, column: str, codec: str) -> None:
    with (
        pq.ParquetFile(source) as file,
        pq.ParquetWriter(
            out,
            file.schema_arrow,
            compression=codec,
            use_dictionary=["kind"],
            bloom_filter_options={column: {"ndv": ROW_GROUP, "fpp": FPP}},
        ) as writer,
    ):
        for row_group in range(file.num_row_groups):
            writer.write_table(file.read_row_group(row_group), row_group_size=ROW_GROUP)


def with_duckdb(source: Path, out: Path, column: str, codec: str) -> None:
    import duckdb

    duckdb.sql(
        f"copy (from read_parquet('{source}')) to '{out}' (format parquet, compression {codec}, "
        f"row_group_size {ROW_GROUP}, bloom_filter_false_positive_ratio {FPP}, {DICTIONARIES})"
    )


CONTENDERS: dict[str, Callable[[Path, Path, str, str], None]] = {
    "parsieve": with_parsieve,
    "parsieve in place": with_parsieve_in_place,
    "parsieve to dest": with_parsieve_to_dest,
    "pyarrow": with_pyarrow,
    "duckdb": with_duckdb,
}


def peak(reset: bool = False) -> float:
    """Return the peak memory of this process; `ru_maxrss` would include the process that started it."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def run_one(name: str, source: Path, out: Path, column: str, codec: str) -> None:
    """Run one contender in a child process, and print its measurements."""
    if name == "duckdb":
        import duckdb  # noqa: F401 - its import is not timed
    before = peak(reset=True)
    base = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    CONTENDERS[name](source, out, column, codec)
    done = time.perf_counter()
    if out.exists():
        fd = os.open(out, os.O_RDWR)
        os.fsync(fd)
        os.close(fd)
    synced = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - base.ru_utime - base.ru_stime
    written = out if out.exists() else source
    with ps.open_filters(written) as filters:
        count = sum(place.column == column for place in filters.ranges())
        assert count == filters.num_row_groups, f"{name} wrote {count} filters of {column}"
    print(
        json.dumps(
            {
                "wall": synced - start,
                "wall_before_sync": done - start,
                "cpu": cpu,
                "peak_mib": peak() - before,
            }
        )
    )


def race(folder: Path, codec: str, rows: int, rounds: int) -> list[dict[str, Any]]:
    original = folder / f"{codec}.parquet"
    make(original, codec, rows)
    size = original.stat().st_size
    cases = []
    for column, target in TARGETS.items():
        times: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
        for _ in range(rounds):
            for name in CONTENDERS:
                source, out = folder / "source.parquet", folder / "out.parquet"
                shutil.copyfile(original, source)
                os.sync()
                child = [sys.executable, __file__, "--child", name, str(source), str(out), column, codec]
                answer = subprocess.run(child, capture_output=True, text=True, check=False)
                if answer.returncode != 0:
                    raise SystemExit(f"{name}: {answer.stderr}")
                times[name].append(json.loads(answer.stdout))
                out.unlink(missing_ok=True)
        medians = {
            name: {key: round(statistics.median(run[key] for run in runs), 4) for key in runs[0]}
            for name, runs in times.items()
        }
        ratio = {
            name: {
                key: round(min(medians[peer][key] for peer in ("pyarrow", "duckdb")) / medians[name][key], 2)
                for key in ("wall", "cpu")
            }
            for name in CONTENDERS
            if name.startswith("parsieve")
        }
        print(f"\n{column} of {size >> 20} MiB, {codec}, {rounds} rounds; target {target:g} times the faster peer")
        for name, values in medians.items():
            times_faster = f"  {ratio[name]['wall']:.1f}x wall, {ratio[name]['cpu']:.1f}x cpu" if name in ratio else ""
            print(
                f"  {name:<18} {values['wall']:7.2f} s, {values['cpu']:7.2f} s of CPU, "
                f"{values['peak_mib']:6.0f} MiB more than before{times_faster}"
            )
        cases.append(
            {"column": column, "codec": codec, "bytes": size, "rows": rows, "rounds": rounds, "target": target}
            | {"medians": medians, "times_faster": ratio}
        )
    original.unlink()
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--smoke", action="store_true", help="run once, with small files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=9_000_000, help="9,000,000 rows are 1 GiB with Snappy")
    parser.add_argument("--codec", action="append", choices=["snappy", "zstd"])
    parser.add_argument("--folder", type=Path, help="the folder for the files (default: target/ of this repository)")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    if arguments.child:
        name, source, out, column, codec = arguments.child
        run_one(name, Path(source), Path(out), column, codec)
        return
    rows, rounds = (20_000, 1) if arguments.smoke else (arguments.rows, arguments.rounds)
    cases = []
    # The system's temporary folder may be in memory.
    (ROOT / "target").mkdir(exist_ok=True)
    where = arguments.folder or ROOT / "target"
    with tempfile.TemporaryDirectory(dir=where) as folder:
        for codec in arguments.codec or ["snappy", "zstd"]:
            cases += race(Path(folder), codec, rows, rounds)
    if arguments.save:
        kind = f"rewrite-{record.filesystem(where)}" if arguments.folder else "rewrite"
        record.save(kind, cases, ("pyarrow", "duckdb"))


if __name__ == "__main__":
    main()
