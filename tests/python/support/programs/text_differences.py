"""Compare the rows of random conditions on texts with brute force, with text and word indexes of all units.

`python tests/python/support/programs/text_differences.py --conditions 10000 --seed 1` prints each difference with the
number of its table, and a summary. Every condition is read by parsieve, Polars, DuckDB and pyarrow.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import parsieve as ps
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
    differences = skipped = 0
    for number in range(PER_TABLE):
        if number == PER_TABLE // 2:
            # The index is stale for this file.
            history.write("f1.parquet")
        condition = random_condition(chance)
        try:
            skipped += history.check(table, condition)
            history.check_engines(table, condition)
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
    print(f"{differences} of {tables * PER_TABLE:,} differ; {skipped:,} rows skipped")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
