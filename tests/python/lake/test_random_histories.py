"""Plans of random tables return the rows of a model. The programs `*_differences.py` check many more tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.programs import delta_differences, encrypted_differences, iceberg_differences


@pytest.mark.parametrize("number", range(4))
def test_plans_return_the_rows_of_the_iceberg_model(tmp_path: Path, number: int) -> None:
    wrong, _ = iceberg_differences.check_table(f"Iceberg {number}", tmp_path)
    assert not wrong


@pytest.mark.parametrize("number", range(4))
def test_plans_return_the_rows_of_the_delta_model(tmp_path: Path, number: int) -> None:
    wrong, _ = delta_differences.check_table(f"Delta {number}", tmp_path)
    assert not wrong


@pytest.mark.parametrize("number", range(4))
def test_plans_of_encrypted_folders_return_the_rows_that_were_written(tmp_path: Path, number: int) -> None:
    wrong, _ = encrypted_differences.check_table(f"encrypted {number}", tmp_path)
    assert not wrong
