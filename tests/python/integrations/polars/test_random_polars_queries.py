"""Polars returns the same rows from `scan_polars` as from the whole table in memory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from support import formats, frame_queries

import parsieve as ps

QUERIES = 40


@pytest.mark.parametrize("format_", formats.FORMATS)
@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
def test_random_queries_return_the_same_rows(tmp_path: Path, format_: str, indexed: bool) -> None:
    random_ = random.Random(f"{format_} {indexed}")
    files = frame_queries.random_files(random_, 8)
    lake = formats.FORMATS[format_](tmp_path / "t", files, 10)
    table = ps.Table(lake)
    if indexed:
        table.build_index(["id", "number", "text"], unit="row_group", progress=False)
    names = frame_queries.SCHEMA.names
    rows = pl.DataFrame(pl.from_arrow(table.plan().to_arrow(names)))
    assert sorted(rows["id"]) == list(range(8 * frame_queries.ROWS))
    frame = ps.scan_polars(table).select(names)
    for number in range(QUERIES):
        query = frame_queries.random_query(random_)
        engine: Any = random_.choice(("in-memory", "streaming"))
        actual, expected = query(frame).collect(engine=engine), query(rows.lazy()).collect()
        assert actual.equals(expected), f"query {number}: {query(frame).explain()}"
        assert actual.schema == expected.schema
