"""The Dagster asset of examples/recipes. Dagster is only in the environment of `make test-recipes`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

dagster = pytest.importorskip("dagster")
RECIPE = Path(__file__).parents[3] / "examples" / "recipes" / "dagster_assets.py"


def test_the_asset_builds_updates_and_checks_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    for part in range(5):
        pq.write_table(pa.table({"order_id": range(part, 500, 5)}), folder / f"{part}.parquet")
    monkeypatch.setenv("TABLE", str(folder))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    spec = importlib.util.spec_from_file_location("dagster_assets", RECIPE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    read = []
    for expected in (5, 1):
        result = dagster.materialize([module.orders_index, module.covers_all_files])
        assert result.success
        [event] = result.get_asset_materialization_events()
        read.append(event.materialization.metadata["files_read"].value)
        assert [check.passed for check in result.get_asset_check_evaluations()] == [True]
        assert read[-1] == expected
        pq.write_table(pa.table({"order_id": [7000]}), folder / "new.parquet")
    assert not ps.open_table(folder).plan("order_id = 42").kept[0].doubt
