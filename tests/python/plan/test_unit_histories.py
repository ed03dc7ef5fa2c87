"""Plans of long random histories keep the physical position of each matching row: file, row group and row range.

`spark/test_spark_unit_histories.py` does the same for tables with deletion vectors, position deletes and Hudi logs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support.models.unit_histories import (
    DeltaUnitTable,
    Effort,
    FolderTable,
    HudiUnitTable,
    IcebergUnitTable,
    UnitTable,
    live,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore:Delete:UserWarning"
)

FORMATS = ["folder", "delta", "iceberg", "hudi"]
SHORT = Effort(commits=18, rows=12, check_every=6, plans=3)
# Hudi's timeline is slow to read, and its commits are larger.
LONG = {"hudi": Effort(commits=100, rows=110, check_every=5, plans=4)}
# With fewer commits, the history of a folder with the second seed has only 9,234 operations.
LONG["folder"] = Effort(commits=290, rows=45, check_every=6, plans=4)
LONG |= dict.fromkeys(["delta", "iceberg"], Effort(commits=250, rows=45, check_every=6, plans=4))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    sql_catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=(tmp_path / "house").as_uri())
    sql_catalog.create_namespace("n")
    yield sql_catalog
    sql_catalog.close()


def create(kind: str, seed: int, folder: Path, catalog: SqlCatalog) -> UnitTable:
    random_ = random.Random(seed)
    if kind == "iceberg":
        return IcebergUnitTable(random_, catalog)
    makers: dict[str, Callable[[random.Random, Path], UnitTable]] = {
        "folder": FolderTable,
        "delta": DeltaUnitTable,
        "hudi": HudiUnitTable,
    }
    return makers[kind](random_, folder)


@pytest.mark.parametrize("kind", FORMATS)
def test_plans_of_a_short_history_keep_the_position_of_each_match(
    tmp_path: Path, catalog: SqlCatalog, kind: str
) -> None:
    assert live(create(kind, 1, tmp_path, catalog), SHORT) > 100


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", FORMATS)
def test_plans_of_ten_thousand_row_operations_keep_the_position_of_each_match(
    tmp_path: Path, catalog: SqlCatalog, kind: str, seed: int
) -> None:
    unit = "row_group" if seed == 1 else "auto"
    assert live(create(kind, seed, tmp_path, catalog), LONG[kind], unit) >= 10_000
