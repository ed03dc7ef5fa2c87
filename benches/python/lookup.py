"""Measure `Table.lookup` for 1 to 1,000,000 keys, next to a full scan by pyarrow.

    python benches/python/lookup.py FOLDER COLUMN [--sizes 1,1000,1000000] [--rounds 3] [--scans 1000,1000000]

The folder needs an index of the column, which must have at least a million rows. Seven of ten keys exist. The rows have
all columns of the table. Times are medians: elapsed seconds, and seconds of all processors, which depend less on other
programs that run at the same time.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable, Sized
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq

import parsieve as ps

# The number of keys, and the share of them that exists.
MOST_KEYS = 1_000_000
PRESENT = 0.7


def make_keys(folder: str, column: str) -> pa.Array:
    """Return a million keys in random order: values of the column from all files, and others of the same form."""
    files = sorted(pads.dataset(folder).files)
    each = int(MOST_KEYS * PRESENT / len(files)) + 1
    parts = []
    for number, path in enumerate(files):
        values = pq.read_table(path, columns=[column])[column].combine_chunks()
        parts.append(values.take(pc.array_sort_indices(pc.random(len(values), initializer=number)).slice(0, each)))
    present = pa.concat_arrays(parts)
    rest = pc.random(MOST_KEYS - len(present), initializer=-1)
    if pa.types.is_integer(present.type):
        absent = pc.floor(pc.multiply(rest, 1e12)).cast(pa.int64()).cast(present.type)
    else:
        absent = pc.binary_join_element_wise(pc.cast(rest, pa.string()), "-", "").cast(present.type)
    keys = pa.concat_arrays([present, absent])
    return keys.take(pc.array_sort_indices(pc.random(len(keys), initializer=0)))


def measure(work: Callable[[], Sized], rounds: int) -> dict[str, Any]:
    """Return the number of rows, and median times."""
    elapsed, processors, rows = [], [], 0
    for _ in range(rounds):
        begun, used = time.perf_counter(), time.process_time()
        result = work()
        elapsed.append(time.perf_counter() - begun)
        processors.append(time.process_time() - used)
        rows = len(result)
    return {"rows": rows, "elapsed": statistics.median(elapsed), "processors": statistics.median(processors)}


def main() -> None:
    """Measure and print one line of JSON for each size and form of keys."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("column")
    parser.add_argument("--sizes", default="1,10,100,1000,10000,100000,1000000")
    parser.add_argument("--scans", default="1000,1000000", help="the numbers of keys to scan the table for")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    table, dataset = ps.open_table(options.folder), pads.dataset(options.folder)
    all_keys = make_keys(options.folder, options.column)
    # The first lookup reads the index and imports modules.
    table.lookup(options.column, all_keys.slice(0, 1))
    scans = set(map(int, options.scans.split(",") if options.scans else ()))
    for size in map(int, options.sizes.split(",")):
        keys = all_keys.slice(0, size)
        forms: dict[str, Any] = {"arrow": keys, "list": keys.to_pylist(), "polars": pl.Series(keys)}
        for form, given in forms.items():
            look_up = functools.partial(table.lookup, options.column, given)
            print_line({"reader": "parsieve", "keys": size, "form": form} | measure(look_up, options.rounds))
        if size in scans:
            scan = functools.partial(dataset.to_table, filter=pc.field(options.column).isin(keys))
            print_line({"reader": "pyarrow", "keys": size} | measure(scan, 1))


def print_line(result: dict[str, Any]) -> None:
    """Print a result as a line of JSON."""
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
