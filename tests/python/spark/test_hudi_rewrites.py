"""Reads wait while Hudi rewrites the properties of a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.programs.hudi_rewrite import STEPS, Rewrite
from support.spark_tables import SparkTable, ids, needs

import parsieve as ps
import parsieve.spark as pss

pytestmark = pytest.mark.spark


def test_reads_wait_while_the_properties_are_rewritten(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("hudi_mor")
    made = SparkTable(spark, "hudi_mor", "rewritten", tmp_path / "t")
    made.insert(0, 20)
    table = ps.open_table(made.folder)
    table.build_index("id", progress=False)
    plan = table.plan("id < 3")
    ways: dict[str, Callable[[], Any]] = {
        "read a path": lambda: pss.read(spark, made.folder, "id < 3"),
        "read a name": lambda: pss.read(spark, made.name, "id < 3"),
        "read an instant": lambda: pss.read(spark, made.folder, "id < 3", plan.record.snapshot.id),
        "plan": lambda: table.plan("id < 3").to_spark(spark),
        "a plan from before": lambda: plan.to_spark(spark),
    }
    for name, way in ways.items():
        with monkeypatch.context() as context:
            rewrite = Rewrite(made.folder, context, "empty")
            assert ids(way()) == [0, 1, 2], name
            # Spark reads the backup if the file is missing, so it may finish earlier.
            assert STEPS[rewrite.step] == "done", name
    with monkeypatch.context() as context:
        Rewrite(made.folder, context, "empty")
        pss.update_index(spark, made.folder)
    made.drop()
