"""Plans over thousands of columns finish in time, so they do not compare each pair of columns."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

COLUMNS, TERMS = 5_000, 1_000


def rows(part: int) -> pa.Table:
    return pa.table({f"c{number}": [part, part + 1] for number in range(COLUMNS)})


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_a_predicate_on_a_thousand_of_five_thousand_columns(tmp_path: Path, format: str) -> None:
    all_statistics = {"delta.dataSkippingNumIndexedCols": str(COLUMNS)}
    for part in range(3):
        if format == "delta":
            configuration = all_statistics if part == 0 else None
            deltalake.write_deltalake(str(tmp_path), rows(part), mode="append", configuration=configuration)
        else:
            pq.write_table(rows(part), tmp_path / f"{part}.parquet")
    table = ps.open_table(str(tmp_path))
    where = " AND ".join(f"c{number * (COLUMNS // TERMS)} = 0" for number in range(TERMS))
    plan = table.plan(where)
    assert len(plan.files) == 1
    assert len(plan.skipped) == 2
    assert "kept 1 of 3 files" in plan.explain()
    assert len(table.plan([(f"c{number}", "=", 3) for number in range(TERMS)]).files) == 1
