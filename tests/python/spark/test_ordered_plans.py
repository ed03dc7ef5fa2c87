"""A plan with an order and a limit gives Spark the same rows as pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_are_the_same(spark: Any, tmp_path: Path, descending: bool, nulls: Any) -> None:
    for part in range(4):
        # No two rows have the same value, except for the nulls.
        at = [*(part + 4.0 * number for number in range(5)), None, *([float("nan")] if part == 2 else [])]
        pq.write_table(
            pa.table({"s": [{"at": value} for value in at], "n": [part] * len(at)}), tmp_path / f"{part}.parquet"
        )
    table = ps.open_table(str(tmp_path))
    for limit in (3, 21):
        plan = table.plan("n > 0", order_by="s.at", descending=descending, nulls=nulls, limit=limit)
        frame = plan.to_spark(spark)
        assert [repr(row.s.at) for row in frame.collect()] == [
            repr(row["at"]) for row in plan.to_arrow()["s"].to_pylist()
        ]
    assert table.plan("n > 0", limit=5).to_spark(spark).count() == 5
