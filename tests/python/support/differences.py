"""The main function of programs that compare many random answers with brute force."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path


def run(about: str | None, check_table: Callable[[str, Path], tuple[int, int]], per_table: int, skipped: str) -> None:
    """Check random tables until there were enough conditions. Exit with 1 if an answer differs.

    `check_table` gets a seed and an empty folder, and returns how many answers differ and how much was skipped, which
    `skipped` names.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--conditions", type=int, default=10_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--table", type=int, help="check only the table with this number")
    options = parser.parse_args()
    differences = total = 0
    tables = range(-(-options.conditions // per_table)) if options.table is None else [options.table]
    for number in tables:
        with tempfile.TemporaryDirectory() as place:
            # An index is stored next to the folder.
            folder = Path(place) / "table"
            folder.mkdir()
            wrong, more = check_table(f"{options.seed}-{number}", folder)
            differences, total = differences + wrong, total + more
    print(f"{differences} of {len(tables) * per_table:,} differ; {total:,} {skipped} skipped")
    sys.exit(differences > 0)
