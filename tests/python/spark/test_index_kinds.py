"""`pss.build_index` takes the same kinds as `Table.build_index`, with the same default and meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark_tables import settled

import parsieve as ps
import parsieve.spark as pss

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten files. An index of `id` is worthwhile, and one of `same` is not."""
    path = tmp_path / "orders"
    path.mkdir()
    for part in range(10):
        pq.write_table(pa.table({"id": range(part, 1000, 10), "same": [7] * 100}), path / f"{part}.parquet")
    return path


@pytest.mark.parametrize("kind", ["auto", "sieve", "bloom", "both"])
def test_kinds_are_the_same_as_locally(spark: Any, folder: Path, tmp_path: Path, kind: str) -> None:
    columns = ["id", "same"]
    local = settled(ps.open_table(folder, index_location=tmp_path / "local"))
    distributed = settled(ps.open_table(folder, index_location=tmp_path / "spark"))
    local.build_index(columns, kind, progress=False)
    built = pss.build_index(spark, distributed, columns, kind)
    before, after = local.opened.index.newest(), distributed.opened.index.newest()
    assert before is not None
    assert after is not None
    assert set(after.columns) == set(before.columns)
    assert set(after.commit.blooms) == set(before.commit.blooms)
    assert "id: " in repr(built)
    assert "0x" not in repr(built)
    assert len(distributed.plan("id = 42").files) == 1


def test_the_default_is_auto(spark: Any, folder: Path) -> None:
    table = settled(ps.open_table(folder))
    built = pss.build_index(spark, table, "same")
    assert built.version == 0
    assert repr(built) == "<parsieve.index.View version 0, no columns>"
    assert table.opened.index.newest() is None
    assert repr(pss.build_index(spark, table, "id")) == "<parsieve.index.View version 1, id: sieve>"


def test_unknown_kinds_are_refused(spark: Any, folder: Path) -> None:
    with pytest.raises(ValueError, match='"sieve", "bloom", "both" and "auto", not \'minmax\''):
        pss.build_index(spark, str(folder), "id", "minmax")
    with pytest.raises(ps.ParsieveError):
        pss.build_index(spark, str(folder), "nothing", "both")
