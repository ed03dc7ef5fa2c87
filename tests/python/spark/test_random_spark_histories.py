"""Plans of random tables that Spark writes return the same rows as Spark. `spark_differences.py` checks many more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.programs.spark_differences import check_table
from support.spark_histories.delta import DeltaHistory
from support.spark_histories.history import SparkHistory
from support.spark_histories.hudi import HudiHistory
from support.spark_histories.iceberg import IcebergHistory
from support.spark_tables import needs

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore::parsieve.ParsieveWarning")]


def test_plans_of_a_hudi_table(spark: Any, tmp_path: Path) -> None:
    check(spark, tmp_path, HudiHistory, "first")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [HudiHistory, DeltaHistory, IcebergHistory])
@pytest.mark.parametrize("number", range(10))
def test_plans_of_many_tables(spark: Any, tmp_path: Path, kind: type[SparkHistory], number: int) -> None:
    check(spark, tmp_path, kind, str(number))


def check(spark: Any, folder: Path, kind: type[SparkHistory], seed: str) -> None:
    """Check the plans of a table, and that they skipped files."""
    needs(kind.__name__.removesuffix("History").lower())
    wrong, skipped = check_table(spark, [kind], seed, folder)
    assert not wrong
    assert skipped
