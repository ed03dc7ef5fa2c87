"""pyiceberg reads the same rows through the server as from the whole table.

`support/programs/served_differences.py` asks many more queries, also of Spark.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import served_queries


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_random_queries_return_the_same_rows(tmp_path: Path, seed: str) -> None:
    with served_queries.pyiceberg_table(random.Random(seed), tmp_path) as differences:
        assert not differences(seed, 25)
