"""Indexes three columns of a lake of 20 million requests with parsieve, and with BTREE indexes of Lance.

    .venv/bin/python benches/index/sieve_lake.py --save [--folder FOLDER]

Measures the bytes of all files of the index, the build time, and the units that questions keep, which are compared with
brute force. The program fails if an index loses a row, or misses a bound. `--folder` keeps the lake for the next run.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sieve_index import MeasuredIndex, ask
from sieve_truth import Truth

import parsieve as ps

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
import record

FILES, GROUPS_OF_A_FILE = 100, 4
ROWS = 20_000_000
ROWS_OF_A_USER = 10
# One event in twenty arrives late, by up to a seventh of the total time.
LATE, MOST_LATE = 0.05, 7
MICROS_OF_A_ROW = 1_000_000
COLUMNS = {"request": "20 M unique texts", "user": "2 M keys at random", "ts": "by arrival, 5 % late"}
KINDS = ("present", "absent", "narrow", "wide")
GROUPS, WHOLE_FILES, BTREE = "row groups, fingerprints", "files, no fingerprints", "Lance's BTREE"
# The arguments of each build, the units in a file, and the most bytes that the index of 20 million rows may have.
WAYS: dict[str, tuple[dict[str, Any], int, int]] = {
    GROUPS: ({"unit": "row_group", "fpp": 0.02}, GROUPS_OF_A_FILE, 90_000_000),
    WHOLE_FILES: ({"unit": "file", "fpp": None}, 1, 60_000_000),
}
FPP = 0.02
MOST_SECONDS_OF_BTREE = 0.7


def events(number: int, rows: int, micros_of_a_row: int = MICROS_OF_A_ROW, most_late: float = MOST_LATE) -> pa.Table:
    """Return the events of a file. They are the same in every run.

    The longest delay of an event is the total time, divided by `most_late`.
    """
    random = np.random.default_rng(number)
    digits = np.frombuffer(random.bytes(16 * rows).hex().encode(), np.uint8)
    ends = pa.py_buffer(np.arange(0, 32 * rows + 1, 32, dtype=np.int32))
    requests = pa.StringArray.from_buffers(rows, ends, pa.py_buffer(digits))
    users = random.integers(0, rows * FILES // ROWS_OF_A_USER, rows)
    arrival = (number * rows + np.arange(rows)) * micros_of_a_row + random.integers(0, micros_of_a_row, rows)
    delay = random.random(rows) * (FILES * rows * micros_of_a_row / most_late)
    times = np.where(random.random(rows) < LATE, np.maximum(arrival - delay.astype(np.int64), 0), arrival)
    # Users are not consecutive numbers.
    return pa.table(
        {"request": requests, "user": users * 7919 + 1_000_003, "ts": pa.array(times.astype("datetime64[us]"))}
    )


def write(folder: Path, rows: int) -> int:
    """Write the lake unless it exists, and return its bytes."""
    if not folder.exists():
        part = folder.with_name(folder.name + "-part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for number in range(FILES):
            table = events(number, rows // FILES)
            pq.write_table(table, part / f"{number:05}.parquet", row_group_size=rows // FILES // GROUPS_OF_A_FILE)
        part.rename(folder)
    return sum(path.stat().st_size for path in folder.iterdir())


def write_lance(folder: Path, rows: int) -> Any:
    """Write the same rows as a Lance dataset with the same number of files, and return it."""
    import lance

    schema = events(0, 1).schema

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(FILES):
            yield from events(number, rows // FILES).to_batches()

    reader = pa.RecordBatchReader.from_batches(schema, batches())
    return lance.write_dataset(reader, str(folder), max_rows_per_file=rows // FILES)


def build_btrees(dataset: Any) -> None:
    for column in COLUMNS:
        dataset.create_scalar_index(column, "BTREE")


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def build_alternately(folder: Path, rows: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Build all indexes alternately, and return the median seconds and the bytes of each."""
    dataset = write_lance(folder / "lance", rows)
    indexes = folder / "lance" / "_indices"

    def build(way: str) -> Callable[[], None]:
        def run() -> None:
            shutil.rmtree(folder / way, ignore_errors=True)
            table = ps.open_table(folder / "lake", index_location=folder / way)
            table.build_index(list(COLUMNS), kind="sieve", progress=False, **WAYS[way][0])

        return run

    builds: dict[str, Callable[[], None]] = {BTREE: lambda: build_btrees(dataset), **{way: build(way) for way in WAYS}}
    seconds: dict[str, list[float]] = {way: [] for way in builds}
    for _ in range(rounds):
        for way, run in builds.items():
            # `replace` would keep the files of earlier indexes.
            for index in dataset.list_indices():
                dataset.drop_index(index["name"])
            shutil.rmtree(indexes, ignore_errors=True)
            start = time.perf_counter()
            run()
            seconds[way].append(round(time.perf_counter() - start, 2))
            print(f"  {way}: {seconds[way][-1]:.1f} s", flush=True)
            if way == BTREE:
                btree_bytes = folder_bytes(indexes)
    sizes = {BTREE: btree_bytes, **{way: folder_bytes(folder / way) for way in WAYS}}
    return {
        way: {"seconds": statistics.median(times), "all_seconds": times, "bytes": sizes[way]}
        for way, times in seconds.items()
    }


def measure_columns(folder: Path, rows: int, count: int) -> Iterator[dict[str, Any]]:
    """Build one index per column, and yield its bytes and the units that questions keep."""
    for column, about in COLUMNS.items():
        values = pa.concat_arrays([events(number, rows // FILES)[column].combine_chunks() for number in range(FILES)])
        case: dict[str, Any] = {"case": "column", "column": column, "about": about, "rows": rows, "ways": {}}
        for way, (options, units_of_a_file, _) in WAYS.items():
            place = folder / f"{column}-{units_of_a_file}"
            table = ps.open_table(folder / "lake", index_location=place)
            table.build_index(column, kind="sieve", progress=False, **options)
            num_units = FILES * units_of_a_file
            truth = Truth(values, np.repeat(np.arange(num_units), rows // num_units), num_units)
            index = MeasuredIndex(folder / "lake", place, column, units_of_a_file)
            units = {}
            for kind in KINDS:
                answers = ask(
                    index, truth.questions(kind, count if kind in ("present", "absent") else max(1, count // 20))
                )
                if answers is not None:
                    units[kind] = answers
            slices = table.opened.lake.snapshot().slices
            # The builder decides for each column whether fingerprints pay.
            has_fingerprints = units["absent"]["kept"] < 0.5
            bindings = list(zip(slices.group.to_pylist(), slices.token.to_pylist(), strict=True))
            model = truth.model_bits(FPP if has_fingerprints else None, bindings)
            case["ways"][way] = {
                "stored_bytes": index.bytes_stored,
                "lookup_bytes": index.bytes_read,
                "model_bits": {part: round(bits) for part, bits in model.items()},
                "units": units,
            }
            kept = ", ".join(f"{kind} {means['kept']:,.4g} of {means['optimum']:,.4g}" for kind, means in units.items())
            print(
                f"  {column}, {way}: {index.bytes_stored * 8 / rows:.2f} bits per row stored, "
                f"{index.bytes_read * 8 / rows:.2f} read, model {sum(model.values()) / rows:.2f}; units kept: {kept}",
                flush=True,
            )
        yield case


def missed(built: dict[str, Any], columns: list[dict[str, Any]], is_full: bool) -> list[str]:
    """Return the bounds that are missed. Sizes and times have bounds at full size only."""
    result = []
    if is_full:
        for way, (_, _, most) in WAYS.items():
            if built[way]["bytes"] > most:
                result.append(f"{way}: {built[way]['bytes'] / 1e6:.1f} MB of at most {most / 1e6:.0f} MB")
        ratio = built[GROUPS]["seconds"] / built[BTREE]["seconds"]
        if ratio > MOST_SECONDS_OF_BTREE:
            result.append(f"built in {ratio:.2f} of the time of {BTREE}, of at most {MOST_SECONDS_OF_BTREE}")
    for case in columns:
        for way, measured in case["ways"].items():
            result += [
                f"{case['column']}, {way}, {kind}: {means['kept']} units of {means['optimum']}"
                for kind, means in measured["units"].items()
                if kind != "absent" and means["kept"] > means["optimum"] * 1.000_001
            ]
        if case["column"] != "ts":
            means = case["ways"][GROUPS]["units"]["absent"]
            # The mean of few random questions may exceed the expected value by three standard errors.
            error = 3 * (FPP / means["questions"]) ** 0.5 if not is_full else 0.0
            if means["kept"] > FPP + error:
                result.append(f"{case['column']}, {GROUPS}, absent: {means['kept']} units")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="use little data; sizes and times have no bounds then")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the lake (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="builds of each index (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="where the lake is, or is written (default: a temporary folder)")
    arguments = parser.parse_args()
    rows, rounds, count = (20_000, 1, 200) if arguments.smoke else (arguments.rows, arguments.rounds, 20_000)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        lake = (arguments.folder or folder) / f"lake-{rows}"
        num_bytes = write(lake, rows)
        (folder / "lake").symlink_to(lake.resolve())
        print(f"{rows:,} rows in {FILES} files, {num_bytes / 1e6:.0f} MB")
        built = build_alternately(folder, rows, rounds)
        for way, measured in built.items():
            print(f"  {way}: {measured['bytes'] / 1e6:.1f} MB, {measured['seconds']:.1f} s")
        columns = list(measure_columns(folder, rows, count))
    misses = missed(built, columns, is_full=rows >= ROWS)
    about = {"case": "lake", "rows": rows, "files": FILES, "row_groups_of_a_file": GROUPS_OF_A_FILE}
    about |= {"bytes": num_bytes, "columns": COLUMNS, "built": built, "missed": misses}
    if arguments.save:
        record.save("sieve-lake", [about, *columns], ("pyarrow", "numpy", "pylance"))
    if misses:
        print(f"\n{len(misses)} bounds are missed:", *misses, sep="\n  ")
    return int(bool(misses))


if __name__ == "__main__":
    sys.exit(main())
