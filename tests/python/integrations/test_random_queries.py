"""Engines return the same rows from a table of parsieve as from its rows in memory.

`support/programs/engine_differences.py` asks many more queries.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import engines, formats

QUERIES = 15


@pytest.mark.parametrize("format_", formats.FORMATS)
@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
def test_random_queries_return_the_same_rows(tmp_path: Path, format_: str, indexed: bool) -> None:
    table = engines.random_table(random.Random(format_), tmp_path / "t", format_, indexed=indexed)
    for engine in engines.ENGINES:
        assert not engines.differences(engine, table, f"{format_} {indexed}", QUERIES)
