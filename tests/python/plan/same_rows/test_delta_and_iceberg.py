"""Plans of Delta and Iceberg tables with deleted rows and changed columns return the rows of the formats' libraries."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.rows import cases
from support.rows.lakes import LAKES, run_lake

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::UserWarning")


@pytest.mark.parametrize("format_", LAKES)
def test_plans_return_the_live_rows(tmp_path: Path, format_: str) -> None:
    outcomes: list[cases.Outcome] = []
    for number in range(8):
        outcomes += run_lake(f"{format_}/{number}", tmp_path / str(number), 6, format_)
    mismatches = [outcome for outcome in outcomes if outcome.result == cases.MISMATCH]
    assert not mismatches, "\n".join(outcome.detail for outcome in mismatches[:5])
    assert sum(outcome.num_rows > 0 for outcome in outcomes) >= 20
