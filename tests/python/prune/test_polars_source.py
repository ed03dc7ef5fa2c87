"""What Polars pushes down into the frame of a plan: columns, predicates and slices, over many windows of files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

FILES = 70
QUERIES: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "all": lambda frame: frame,
    "column": lambda frame: frame.select("b"),
    "length": lambda frame: frame.select(pl.len()),
    "filtered": lambda frame: frame.filter(pl.col("a") % 7 == 3).select("b"),
    "head": lambda frame: frame.head(75),
    "none": lambda frame: frame.head(0),
    "head_then_filter": lambda frame: frame.head(75).filter(pl.col("a") % 7 == 3).select("b"),
    "filter_then_head": lambda frame: frame.filter(pl.col("a") % 7 == 3).head(5),
    "slice": lambda frame: frame.slice(60, 20),
    "tail": lambda frame: frame.tail(5),
    "group": lambda frame: frame.group_by(pl.col("a") % 5).agg(pl.col("b").max()).sort("a"),
    "join": lambda frame: frame.join(frame.select("a"), on="a").sort("a"),
}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("where", [None, "a >= 20"])
def test_pushed_down(
    tmp_path: Path, where: str | None, held: bool, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not held:
        monkeypatch.setattr("parsieve.lake.checked.HELD_BYTES", 0)
    for part in range(FILES):
        pq.write_table(
            pa.table({"a": [2 * part, 2 * part + 1], "b": [f"{part}", None]}), tmp_path / f"{part:02}.parquet"
        )
    plan = ps.open_table(tmp_path).plan(where, row_groups=False)
    frame = plan.to_polars()
    assert "parsieve" in frame.explain()
    whole = pl.DataFrame(pl.from_arrow(plan.to_arrow())).lazy()
    for name, query in QUERIES.items():
        found, wanted = query(frame).collect(engine=engine), query(whole).collect()  # type: ignore[call-overload]
        assert found.equals(wanted), name
