"""Compare plans for random conditions on expressions with the rows that engines find, with and without an index.

`python tests/python/support/programs/expression_differences.py --conditions 10000 --seed 1` prints each difference with
the number of its table, and a summary.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import parsieve as ps
from support import differences, expressions

# Conditions of each table. The last ones are after a change of the table.
PER_TABLE = 50


def check_table(seed: str, folder: Path, conditions: int = PER_TABLE) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    source = random.Random(seed)
    where = folder / "t"
    rows = expressions.write_table(source, where)
    table = ps.open_table(where)
    wrong = skipped = 0
    for number in range(conditions):
        if number == conditions // 10:
            chosen = source.sample(expressions.INDEXED, source.randrange(2, len(expressions.INDEXED)))
            table.build_index(chosen, progress=False, unit=source.choice(("file", "row_group", "rows")))
        if number == conditions // 2:
            rows = expressions.add_file(source, where, rows)
            if source.random() < 0.7:
                table.update_index(progress=False, compact=source.choice((True, False)))
        condition = expressions.random_condition(source)
        try:
            skipped += expressions.check(table, rows, where, condition)
        except AssertionError as error:
            wrong += 1
            print(f"{seed}: {error}", flush=True)
    return wrong, skipped


if __name__ == "__main__":
    differences.run(__doc__, check_table, PER_TABLE, "files")
