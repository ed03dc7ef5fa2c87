"""Damaged pages and offset indexes are typed errors, or the rows that pyarrow reads. They are never other rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.rows import cases
from support.rows.damage import run_damage


@pytest.mark.parametrize("writer", ["pyarrow", "arrow-rs"])
def test_damaged_pages_never_give_other_rows(tmp_path: Path, writer: str) -> None:
    outcomes: list[cases.Outcome] = []
    for number in range(12):
        outcomes += run_damage(f"damage/{number}", tmp_path / str(number), 3, writer=writer)
    mismatches = [outcome for outcome in outcomes if outcome.result == cases.MISMATCH]
    assert not mismatches, "\n".join(outcome.detail for outcome in mismatches[:5])
    errors = sum(outcome.detail.startswith(("FormatError", "UnsupportedError")) for outcome in outcomes)
    rows = sum(outcome.num_rows > 0 for outcome in outcomes)
    assert errors > 15
    assert rows > 15
