"""Compare the rows of random conditions on texts with brute force, with text and word indexes of all units.

`python tests/python/support/programs/text_differences.py --conditions 10000 --seed 1` prints each difference with the
number of its table, and a summary. Every condition is read by parsieve, Polars, DuckDB and pyarrow.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import parsieve as ps
from support import differences
from support.aging import wait_until_old
from support.texts import History, random_condition

PER_TABLE = 100


def check_table(seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many rows were skipped."""
    chance = random.Random(seed)
    history = History(folder, chance)
    for number in range(5):
        history.write(f"f{number}.parquet")
    wait_until_old(folder)
    table = ps.open_table(str(folder))
    for kind in chance.choice((["text"], ["words"], ["text", "words"], ["text", "sieve"])):
        table.build_index("s", kind, unit=chance.choice(("file", "row_group", "rows")), progress=False)
    wrong = skipped = 0
    for number in range(PER_TABLE):
        if number == PER_TABLE // 2:
            # The index is stale for this file.
            history.write("f1.parquet")
        condition = random_condition(chance)
        try:
            skipped += history.check(table, condition)
            history.check_engines(table, condition)
        except AssertionError as error:
            wrong += 1
            print(f"{seed}: {error}", flush=True)
    return wrong, skipped


if __name__ == "__main__":
    differences.run(__doc__, check_table, PER_TABLE, "rows")
