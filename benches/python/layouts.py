"""Counts the files read for different layouts: min/max, a Bloom filter per file, the Sieve, and the exact optimum.

One table has a column of each layout, so all of them use the same files. The bench computes every answer by brute force
first, and fails if a plan misses a file with a matching row. See `benches/README.md`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import record

import parsieve as ps

MINMAX, BLOOM, SIEVE, OPTIMUM = "min/max", "Bloom per file", "Sieve", "optimum"
GAP = 1_000
QUESTIONS = {
    "present": "one key that is there",
    "absent": "one key that is not there",
    "in10": "IN of ten keys that are there",
    "narrow": "an interval over 1/10,000 of the rows",
    "wide": "an interval over 1/100 of the rows",
}


@dataclass(frozen=True)
class Layout:
    """A column, and a function of a random generator, files and rows per file that returns its values in file order."""

    name: str
    about: str
    values: Callable[[np.random.Generator, int, int], Any]


def _gaps(random: np.random.Generator, count: int) -> Any:
    """Return ascending keys with gaps."""
    return np.cumsum(random.integers(1, 2 * GAP, count))


def _sorted(random: np.random.Generator, files: int, rows: int) -> Any:
    return _gaps(random, files * rows)


def _late(random: np.random.Generator, files: int, rows: int) -> Any:
    """Return event times. One in twenty is late, by up to a seventh of the total time."""
    arrival = _gaps(random, files * rows)
    late = random.random(files * rows) < 0.05
    delay = (random.random(files * rows) * arrival[-1] / 7).astype(np.int64)
    return np.maximum(np.where(late, arrival - delay, arrival), 0).astype("datetime64[us]")


def _clumps(random: np.random.Generator, files: int, rows: int) -> Any:
    """Return keys so that each file has one run from the lower half of all keys and one from the upper half."""
    keys = _gaps(random, files * rows).reshape(2, files, rows // 2)
    second = np.arange(files) * 7 % files if files % 7 else np.arange(files)[::-1]
    return np.concatenate([keys[0], keys[1][second]], axis=1).reshape(-1)


def _hashed(random: np.random.Generator, files: int, rows: int) -> Any:
    """Return keys that are distributed over the files by their hash, as in a bucketed table."""
    keys = _gaps(random, files * rows)
    return keys[np.argsort(keys * np.int64(-7046029254386353131) >> 8, kind="stable")]


def _uniform(random: np.random.Generator, files: int, rows: int) -> Any:
    return random.permutation(_gaps(random, files * rows))


def _ten(random: np.random.Generator, files: int, rows: int) -> Any:
    """Return random keys with about ten rows each."""
    keys = _gaps(random, files * rows // 10)
    return keys[random.integers(0, len(keys), files * rows)]


def _zipf(random: np.random.Generator, files: int, rows: int) -> Any:
    """Return a few keys with many rows, and many keys with few rows."""
    names = random.permutation(_gaps(random, 200_000))
    return names[np.minimum(random.zipf(1.3, files * rows), len(names)) - 1]


def _uuids(random: np.random.Generator, files: int, rows: int) -> Any:
    digits = random.bytes(16 * files * rows).hex()
    texts = (digits[start : start + 32] for start in range(0, len(digits), 32))
    return [f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}" for text in texts]


def _decimals(random: np.random.Generator, files: int, rows: int) -> Any:
    cents = pa.array(random.integers(0, 10**9, files * rows))
    return pc.divide(pc.cast(cents, pa.decimal128(19, 0)), pa.scalar(100, pa.decimal128(3, 0))).cast(
        pa.decimal128(12, 2), safe=False
    )


def _few(random: np.random.Generator, files: int, rows: int) -> Any:
    """Return twenty values, all of them in every file."""
    return random.integers(0, 20, files * rows)


LAYOUTS = (
    Layout("sorted", "the table's sort key", _sorted),
    Layout("late", "event time, 5 % late", _late),
    Layout("clumps", "two clumps a file", _clumps),
    Layout("hashed", "hash-bucketed", _hashed),
    Layout("uniform", "uniform, one row a key", _uniform),
    Layout("ten", "uniform, ten rows a key", _ten),
    Layout("zipf", "Zipf", _zipf),
    Layout("uuid", "UUID text", _uuids),
    Layout("decimal", "decimals", _decimals),
    Layout("few", "twenty values", _few),
)


def write(folder: Path, files: int, rows: int) -> pa.Table:
    """Write the table to files, and return it with the file number of each row."""
    random = np.random.default_rng(7)
    table = pa.table({layout.name: layout.values(random, files, rows) for layout in LAYOUTS})
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(table.slice(number * rows, rows), folder / f"{number:05}.parquet")
    return table.append_column("file", pa.array(np.repeat(np.arange(files), rows)))


def questions(table: pa.Table, column: str, kind: str, count: int) -> Iterator[tuple[Any, pc.Expression]]:
    """Yield predicates with random keys of the column, each as tuples and as a pyarrow expression."""
    random = np.random.default_rng(11)
    values = table[column].combine_chunks()
    ordered = values.sort()
    field = pc.field(column)
    absent: set[Any] = set()
    for _ in range(count):
        if kind == "present":
            key = values[int(random.integers(len(values)))]
            yield (column, "=", key), field == key
        elif kind == "absent":
            key = _absent(ordered, random, absent)
            if key is not None:
                yield (column, "=", key), field == key
        elif kind == "in10":
            keys = values.take(pa.array(random.integers(0, len(values), 10)))
            yield (column, "in", keys.to_pylist()), field.isin(keys)
        else:
            span = max(1, len(values) // (10_000 if kind == "narrow" else 100))
            begin = int(random.integers(len(values) - span))
            low, high = ordered[begin], ordered[begin + span]
            yield [(column, ">=", low), (column, "<=", high)], (field >= low) & (field <= high)


def _absent(ordered: pa.Array, random: np.random.Generator, seen: set[Any]) -> Any:
    """Return a value between two neighbors that no row has; None if there is no such value."""
    for _ in range(50):
        low = ordered[int(random.integers(len(ordered)))]
        if pa.types.is_string(ordered.type):
            key: Any = pa.scalar(low.as_py()[:-1] + "~")
        elif pa.types.is_timestamp(ordered.type):
            key = pa.scalar(low.value + 1, pa.int64()).cast(ordered.type)
        elif pa.types.is_decimal(ordered.type):
            key = pc.add(low, pa.scalar(1, pa.int64()).cast(pa.decimal128(19, 0))).cast(ordered.type)
        else:
            key = pa.scalar(low.as_py() + 1, ordered.type)
        if key not in seen and pc.index(ordered, key).as_py() < 0 and key.as_py() <= ordered[-1].as_py():
            seen.add(key)
            return key
    return None


def measure(folder: Path, files: int, rows: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield the mean number of files read for every layout, query and kind of plan, and the sizes of both indexes."""
    table = write(folder / "table", files, rows)
    # A file that was just written has no token yet, and an index would not cover it.
    time.sleep(0.2)
    ways = {}
    columns = [layout.name for layout in LAYOUTS]
    for way, kind in ((MINMAX, None), (SIEVE, "sieve"), (BLOOM, "bloom")):
        ways[way] = ps.open_table(folder / "table", index_location=folder / way.split("/")[0].replace(" ", "-"))
        start = time.perf_counter()
        if kind is not None:
            ways[way].build_index(columns, kind=kind, progress=False)
            print(f"  {way}: all {len(columns)} columns built in {time.perf_counter() - start:.1f} s")
    for layout in LAYOUTS:
        reads: dict[str, dict[str, float]] = {}
        milliseconds: dict[str, dict[str, float]] = {}
        for kind in QUESTIONS:
            counts: dict[str, list[int]] = {way: [] for way in (*ways, OPTIMUM)}
            seconds: dict[str, list[float]] = {way: [] for way in ways}
            for where, expression in questions(table, layout.name, kind, count):
                needed = set(pc.unique(table.filter(expression)["file"]).to_pylist())
                counts[OPTIMUM].append(len(needed))
                for way, opened in ways.items():
                    start = time.perf_counter()
                    plan = opened.plan(where)
                    seconds[way].append(time.perf_counter() - start)
                    kept = {int(Path(path).stem) for path in plan.files}
                    assert needed <= kept, f"{way} loses rows of {where}: {sorted(needed - kept)}"
                    counts[way].append(len(kept))
            if counts[OPTIMUM]:
                reads[kind] = {way: round(statistics.fmean(values), 3) for way, values in counts.items()}
                milliseconds[kind] = {way: round(statistics.median(times) * 1e3, 2) for way, times in seconds.items()}
        size = {way: _index_bytes(ways[way], layout.name) for way in (SIEVE, BLOOM)}
        print(f"  {layout.about}; index {size} bytes")
        for kind, means in reads.items():
            print(f"    {QUESTIONS[kind]:<40}" + ", ".join(f"{way} {mean:,.1f}" for way, mean in means.items()))
        yield {
            "layout": layout.name,
            "about": layout.about,
            "files": files,
            "rows": files * rows,
            "questions": count,
            "files_read": reads,
            "plan_milliseconds": milliseconds,
            "lookup_bits_per_row": {way: round(num_bytes * 8 / (files * rows), 3) for way, num_bytes in size.items()},
        }


def _index_bytes(table: ps.Table, column: str) -> int:
    """Return the bytes of the index that queries read, without the parts for maintenance."""
    view = table.opened.index.refresh()
    assert view is not None
    if (column,) in view.columns:
        stats = table.index_stats()[column]
        return int(stats.lookup_bytes + stats.root_bytes)
    shelves = view.commit.blooms[column,].shelves
    return sum(part.size for shelf in shelves for part in (shelf.directory, shelf.rows))


def figures(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the measurements as figures for `parsieve report`."""
    result = []
    for files in dict.fromkeys(case["files"] for case in cases):
        group = [case for case in cases if case["files"] == files]
        for kind, about in QUESTIONS.items():
            measured = [case for case in group if kind in case["files_read"]]
            series = [
                record.series(way, [case["files_read"][kind][way] for case in measured], ours=way == SIEVE)
                for way in (MINMAX, BLOOM, SIEVE, OPTIMUM)
            ]
            says = (
                f"Files that a plan reads for {about}, out of {files:,} files; mean of {group[0]['questions']} queries."
            )
            chart = {"kind": "dots", "categories": [case["about"] for case in measured], "series": series}
            even = [
                case["about"]
                for case in measured
                if case["files_read"][kind][SIEVE] > 0.9 * case["files_read"][kind][MINMAX]
            ]
            notes = (
                [f"Min/max reads at most a tenth more, so an index saves little: {', '.join(even)}."] if even else []
            )
            result.append(
                {"title": f"{files:,} files: {about}", "says": says, "notes": notes}
                | chart
                | {"unit": "files", "category": "layout"}
            )
        series = [
            record.series(way, [case["lookup_bits_per_row"][way] for case in group], ours=way == SIEVE)
            for way in (BLOOM, SIEVE)
        ]
        result.append(
            {
                "title": f"{files:,} files: size of the index",
                "says": f"Bits per row that queries read; {group[0]['rows']:,} rows. If a value has many rows or the "
                "table is sorted by the column, there is little to store.",
                "kind": "dots",
                "categories": [case["about"] for case in group],
                "series": series,
                "unit": "bits per row",
                "category": "layout",
            }
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="use little data, to check that no row is lost")
    parser.add_argument("--save", action="store_true", help="write a record to benches/results")
    arguments = parser.parse_args()
    sizes = [(12, 500)] if arguments.smoke else [(200, 10_000), (5_000, 1_000)]
    cases: list[dict[str, Any]] = []
    for files, rows in sizes:
        print(f"{files:,} files of {rows:,} rows")
        with tempfile.TemporaryDirectory() as folder:
            cases += measure(Path(folder), files, rows, 3 if arguments.smoke else 20)
    drawn = figures(cases)
    if arguments.save:
        record.save("layouts", cases, ("pyarrow", "numpy"), drawn)


if __name__ == "__main__":
    main()
