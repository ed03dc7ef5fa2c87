"""Write files and build an index immediately, many times: each index must cover all files.

    python tests/python/support/programs/fresh_files.py --times 200

A file that was written just now may change again with the same timestamps, so a build waits until its timestamps can be
trusted. This program fails if a build does not wait long enough, and leaves a file out.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import parsieve as ps

FILES = 32
ROWS = 10
# Each build gets the next of these kinds.
KINDS = ("sieve", "bloom", "both")


def write(folder: Path) -> None:
    """Write files with distinct keys, so that each key is in one file."""
    folder.mkdir()
    for part in range(FILES):
        pq.write_table(pa.table({"k": range(part, FILES * ROWS, FILES)}), folder / f"{part}.parquet")


def problems(folder: Path, kind: str) -> list[str]:
    """Build an index of new files, and return the files that it does not cover."""
    write(folder)
    table = ps.open_table(folder)
    report = table.build_index("k", kind=kind, progress=False)
    found = [f"left out: {left_out}" for left_out in report.left_out]
    if report.files != FILES:
        found.append(f"indexed {report.files} of {FILES} files")
    # Another process would open the table again.
    reopened = ps.open_table(folder)
    for part in range(FILES):
        plan = reopened.plan(f"k = {part}", row_groups=False)
        names = [Path(path).name for path in plan.files]
        # A Bloom filter may keep other files too, with a known probability.
        expected = f"{part}.parquet" in names if kind == "bloom" else names == [f"{part}.parquet"]
        if not expected:
            found.append(f"k = {part} keeps {names}")
        found += [f"k = {part}: {keep.doubt}" for keep in plan.kept if keep.doubt]
    return found


def run(times: int, kinds: Sequence[str] = KINDS) -> list[str]:
    """Write a table and build its index a number of times, and return all problems."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for time in range(times):
            kind = kinds[time % len(kinds)]
            found += [f"build {time + 1}, {kind}: {text}" for text in problems(Path(folder) / str(time), kind)]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=200)
    options = parser.parse_args()
    wrong = run(options.times)
    print("\n".join(wrong[:20]))
    print(f"{options.times} builds of {FILES} new files, {len(wrong)} problems")
    raise SystemExit(bool(wrong))
