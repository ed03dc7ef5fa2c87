"""An index that Spark builds next to a new plain folder covers all files, and readers of the folder do not see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve import spark as pss

pytestmark = pytest.mark.spark


def shop(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for part in range(4):
        pq.write_table(pa.table({"k": range(part, 40, 4)}), folder / f"{part}.parquet")
    return folder


def names_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
def test_an_index_covers_new_files_and_is_invisible_to_readers(spark: Any, tmp_path: Path, kind: str) -> None:
    folder = shop(tmp_path / "lake" / "shop")
    before = names_below(folder)
    pss.build_index(spark, str(folder), "k", kind)
    assert names_below(folder) == before
    assert spark.read.parquet(str(folder)).count() == 40
    assert pl.scan_parquet(folder).select(pl.len()).collect().item() == 40
    assert (tmp_path / "lake" / ".parsieve" / "shop").is_dir()
    table = ps.open_table(folder)
    assert len(table.plan("k = 17").files) == 1
    pq.write_table(pa.table({"k": [17, 100]}), folder / "4.parquet")
    pss.update_index(spark, str(folder))
    plan = table.plan("k = 17")
    assert len(plan.files) == 2
    assert not [keep.doubt for keep in plan.kept if keep.doubt]


def test_an_index_of_version_0_1_is_updated_in_its_place(spark: Any, tmp_path: Path) -> None:
    folder = shop(tmp_path / "lake" / "shop")
    pss.build_index(spark, str(folder), "k", index_location=folder / "_parsieve")
    pq.write_table(pa.table({"k": [100]}), folder / "4.parquet")
    pss.update_index(spark, str(folder))
    assert not (tmp_path / "lake" / ".parsieve").exists()
    for table in (str(folder), ps.open_table(folder)):
        assert pss.read(spark, table, "k = 100").count() == 1
    assert ps.open_table(folder).index_stats()["k"].locations == 5
