"""The core's row reader decodes random rows of the files of each writer as pyarrow does."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.rows import writers
from support.rows.core_reads import CoreOutcome, RowFile, check_core, check_row_sets

pytestmark = [
    pytest.mark.skipif(RowFile is None, reason="this build of the core has no row reader"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


@pytest.mark.parametrize("writer", ["pyarrow", "arrow-rs", "duckdb", "polars"])
def test_random_rows_are_those_of_pyarrow(tmp_path: Path, writer: str) -> None:
    if writer not in writers.installed():
        pytest.skip(f"the library of {writer} is not installed")
    outcomes: list[CoreOutcome] = []
    for number in range(25):
        outcomes += check_core(f"{writer}/{number}", tmp_path / str(number), writer)
    mismatches = [outcome.mismatch for outcome in outcomes if outcome.mismatch]
    assert not mismatches, "\n".join(mismatches[:5])
    assert sum(outcome.num_rows > 0 for outcome in outcomes) >= 25


def test_row_sets_are_sets_of_row_numbers() -> None:
    random_ = random.Random(1)
    for _ in range(300):
        check_row_sets(random_, random_.choice((0, 1, 50, 3000)))
