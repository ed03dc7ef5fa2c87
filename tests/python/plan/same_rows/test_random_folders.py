"""Plans of random files of each writer return the rows that pyarrow reads and Python filters, bit for bit.

`support/programs/row_differences.py` runs many more cases, and repeats one by its seed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.rows import cases, writers

# The number of folders of each writer. Each has six predicates and projections.
FOLDERS = {"pyarrow": 40, "arrow-rs": 30, "duckdb": 15, "polars": 15, "fastparquet": 8, "clickhouse": 4}
# A folder with Parquet files of other writers, such as a clone of apache/parquet-testing.
FILES = os.environ.get("PARSIEVE_PARQUET_FILES")

pytestmark = pytest.mark.filterwarnings(
    # The libraries that write the files.
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
    "ignore::UserWarning",
    "ignore::RuntimeWarning",
)


@pytest.mark.parametrize("writer", FOLDERS)
def test_plans_return_the_rows_that_pyarrow_reads(tmp_path: Path, writer: str) -> None:
    if writer not in writers.installed():
        pytest.skip(f"the library of {writer} is not installed")
    outcomes: list[cases.Outcome] = []
    for number in range(FOLDERS[writer]):
        outcomes += cases.run_folder(f"{writer}/{number}", tmp_path / str(number), 6, writer)
    assert_equal(outcomes, FOLDERS[writer] * 3)


def test_plans_of_files_of_other_writers_return_the_rows_that_pyarrow_reads(tmp_path: Path) -> None:
    if FILES is None:
        pytest.skip("set PARSIEVE_PARQUET_FILES to a folder with Parquet files of other writers")
    paths = sorted(Path(FILES).rglob("*.parquet"))
    assert paths, f"no Parquet files in {FILES}"
    outcomes: list[cases.Outcome] = []
    for number, path in enumerate(path for path in paths if cases.is_readable(path)):
        for round_ in range(3):
            outcomes += cases.run_file(path, f"{path.name}/{round_}", tmp_path / f"{number}-{round_}", 8)
    assert_equal(outcomes, len(paths))


def assert_equal(outcomes: list[cases.Outcome], at_least: int) -> None:
    """Check that no plan returned other rows, and that most plans could be compared."""
    mismatches = [outcome for outcome in outcomes if outcome.result == cases.MISMATCH]
    assert not mismatches, "\n".join(outcome.detail for outcome in mismatches[:5])
    equal = [outcome for outcome in outcomes if outcome.result == cases.EQUAL]
    assert len(equal) >= at_least
    assert sum(outcome.num_rows > 0 for outcome in equal) >= at_least / 3
