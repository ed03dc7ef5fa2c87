"""Compare the rows of random conditions on lists and maps with brute force, with and without an index.

`python tests/python/support/programs/list_differences.py --conditions 10000 --seed 1` prints each difference with the
number of its table, and a summary.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import parsieve as ps
from support import lists

# Conditions of each table, without and with an index.
PER_TABLE = 50
COLUMNS = ("tags", "numbers", "ratios", "box.tags", "labels.key", "labels.value")


def check_table(seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    source = random.Random(seed)
    rows = lists.write_table(source, folder / "t")
    table = ps.open_table(folder / "t")
    differences = skipped = 0
    for number in range(PER_TABLE):
        if number == PER_TABLE // 2:
            chosen = source.sample(COLUMNS, source.randrange(1, len(COLUMNS)))
            table.build_index(chosen, source.choice(("sieve", "bloom", "both")), progress=False)
        condition = lists.random_condition(source)
        try:
            skipped += lists.check(table, rows, condition, source)
        except AssertionError as error:
            differences += 1
            print(f"{seed}: {error}", flush=True)
    return differences, skipped


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conditions", type=int, default=10_000)
    parser.add_argument("--seed", default="1")
    options = parser.parse_args()
    differences = skipped = 0
    tables = -(-options.conditions // PER_TABLE)
    for number in range(tables):
        with tempfile.TemporaryDirectory() as folder:
            wrong, more = check_table(f"{options.seed}-{number}", Path(folder))
            differences, skipped = differences + wrong, skipped + more
    print(f"{differences} of {tables * PER_TABLE} differ; {skipped} files skipped")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
