"""Random histories of hand-written tables against models of their rows. The programs of the models check many more."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.programs import delta_differences, iceberg_differences

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("number", range(4))
def test_plans_return_the_rows_of_the_iceberg_model(tmp_path: Path, number: int) -> None:
    wrong, _ = iceberg_differences.check_table(f"Iceberg {number}", tmp_path)
    assert not wrong


@pytest.mark.parametrize("number", range(4))
def test_plans_return_the_rows_of_the_delta_model(tmp_path: Path, number: int) -> None:
    wrong, _ = delta_differences.check_table(f"Delta {number}", tmp_path)
    assert not wrong
