"""Read random Delta tables through plans, and compare the rows with a model of their histories.

`python tests/python/support/programs/delta_differences.py --conditions 10000 --seed 1` prints each difference with the
number of its table, and a summary. The tables combine features that writers seldom combine: every mode of column
mapping, columns that are dropped and added again, widened types, cut bounds, deletion vectors, restores, every form of
checkpoint, and paths and partitions with odd characters.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support import differences
from support.models.delta_histories import DeltaHistory
from support.models.table_states import PER_TABLE, check_history


def check_table(seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    return check_history(seed, DeltaHistory(folder / "t", random.Random(seed)))


if __name__ == "__main__":
    differences.run(__doc__, check_table, PER_TABLE, "files")
