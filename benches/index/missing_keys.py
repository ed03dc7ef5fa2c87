"""Counts the files that a Sieve index keeps for keys that exist and for missing keys, with and without fingerprints.

    .venv/bin/python benches/index/missing_keys.py

It prints the table of docs/concepts/sieve.md. The program fails if an index does not keep a file for each existing key.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps

# `fpp` of an index with fingerprints (the default), and without.
INDEXES = (0.02, None)
HEADS = ("table", "files", "existing key", "missing key", "missing key, no fingerprints")


@dataclass(frozen=True)
class Case:
    """A column of keys, the file of each row, and keys to look up."""

    name: str
    files: int
    keys: pa.Array
    file_of_row: np.ndarray
    existing: Sequence[Any]
    missing: Sequence[Any]

    def write(self, folder: Path) -> None:
        """Write the files."""
        order = np.argsort(self.file_of_row, kind="stable")
        ends = np.searchsorted(self.file_of_row[order], np.arange(self.files + 1))
        for number in range(self.files):
            rows = pa.array(order[ends[number] : ends[number + 1]])
            pq.write_table(pa.table({"k": self.keys.take(rows)}), folder / f"{number}.parquet")


def cases(rows: int, queries: int) -> Iterator[Case]:
    """Return the tables. Integer keys are even, so the odd numbers are missing."""
    draw = np.random.default_rng(1)
    millions = f"{rows / 1e6:g} million"

    def numbered(name: str, files: int, keys: np.ndarray, file_of_row: np.ndarray) -> Case:
        existing, missing = (draw.choice(keys, queries).tolist() for _ in range(2))
        return Case(name, files, pa.array(keys), file_of_row, existing, [key + 1 for key in missing])

    ids = np.arange(rows) * 2
    day = ids * 64 // (2 * rows)
    late = np.where(draw.random(rows) < 0.05, draw.integers(0, 64, rows), 0)
    yield numbered(f"{millions} order numbers by day, 5 % late", 64, ids, np.maximum(day, late))
    yield numbered(f"{millions} unique keys, scattered", 64, ids, draw.integers(0, 64, rows))
    few = np.repeat(draw.permutation(2000) * 2, 5)
    yield numbered("2,000 keys, each in about 4 files", 10, few, draw.integers(0, 10, len(few)))
    customers, orders = rows * 3 // 100, 67
    users = [str(uuid.UUID(bytes=draw.bytes(16))) for _ in range(customers)]
    owners = pa.array(draw.integers(0, customers, customers * orders))
    yield Case(
        f"{customers:,} customers with UUIDs, {orders} orders each",
        200,
        pa.array(users).take(owners),
        draw.integers(0, 200, len(owners)),
        random.Random(1).choices(users, k=queries),
        [str(uuid.UUID(bytes=draw.bytes(16))) for _ in range(queries)],
    )


def measure(case: Case) -> list[str]:
    """Return a line of the table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "table"
        folder.mkdir()
        case.write(folder)
        kept, bits = [], []
        for fpp in INDEXES:
            table = ps.open_table(folder, index_location=Path(scratch) / f"index-{fpp}")
            table.build_index("k", kind="sieve", unit="file", fpp=fpp, progress=False)

            def files_of(key: Any, table: ps.Table = table) -> int:
                return len(table.plan([("k", "=", key)], row_groups=False).files)

            existing = [files_of(key) for key in case.existing]
            assert min(existing) >= 1, f"{case.name}: the index skips an existing key"
            kept.append((np.mean(existing), np.mean([files_of(key) for key in case.missing])))
            bits.append(table.index_stats()["k"].bits_per_row)
    (existing_files, missing_files), (_, without) = kept
    figures = (existing_files, missing_files, without, *bits)
    return [case.name, str(case.files), *(f"{figure:.1f}" for figure in figures)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="few rows and few queries")
    is_smoke = parser.parse_args().smoke
    heads = [*HEADS, "bits per row", "bits, no fingerprints"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for case in cases(*((20_000, 20) if is_smoke else (2_000_000, 300))):
        print(f"| {' | '.join(measure(case))} |", flush=True)


if __name__ == "__main__":
    main()
