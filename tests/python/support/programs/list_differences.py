"""Compare the rows of random conditions on lists and maps with brute force, with and without an index.

`python tests/python/support/programs/list_differences.py --conditions 10000 --seed 1` prints each difference with the
number of its table, and a summary.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import parsieve as ps
from support import differences, lists

# Conditions of each table, without and with an index.
PER_TABLE = 50
COLUMNS = ("tags", "numbers", "ratios", "box.tags", "labels.key", "labels.value")


def check_table(seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    source = random.Random(seed)
    rows = lists.write_table(source, folder / "t")
    table = ps.open_table(folder / "t")
    wrong = skipped = 0
    for number in range(PER_TABLE):
        if number == PER_TABLE // 2:
            chosen = source.sample(COLUMNS, source.randrange(1, len(COLUMNS)))
            table.build_index(chosen, source.choice(("sieve", "bloom", "both")), progress=False)
        condition = lists.random_condition(source)
        try:
            skipped += lists.check(table, rows, condition, source)
        except AssertionError as error:
            wrong += 1
            print(f"{seed}: {error}", flush=True)
    return wrong, skipped


if __name__ == "__main__":
    differences.run(__doc__, check_table, PER_TABLE, "files")
