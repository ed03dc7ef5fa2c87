"""Read random Iceberg tables through plans, and compare the rows with a model of their histories.

`python tests/python/support/programs/iceberg_differences.py --conditions 10000 --seed 1` prints each difference with
the number of its table, and a summary. The tables combine features that writers seldom combine: columns that are
dropped and added again, promoted types, defaults, files without IDs, partitions that change, cut bounds, NaN and -0.0
in partitions, position deletes, deletion vectors and equality deletes. To check the model, pyiceberg reads the newest
version too.
"""

from __future__ import annotations

import logging
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support import differences
from support.models.iceberg_histories import IcebergHistory
from support.models.table_states import PER_TABLE, check_history


def check_table(seed: str, folder: Path) -> tuple[int, int]:
    """Return how many answers differ, and how many files were skipped."""
    return check_history(seed, IcebergHistory(folder / "t", random.Random(seed)))


if __name__ == "__main__":
    # An index warns about the files with equality deletes.
    logging.getLogger("parsieve").setLevel(logging.ERROR)
    differences.run(__doc__, check_table, PER_TABLE, "files")
