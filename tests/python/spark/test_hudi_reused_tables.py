"""An open Hudi table sees every change that Spark makes, just like a newly opened one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.spark_tables import SparkTable, needs

import parsieve as ps
from parsieve.lake import open_lake
from parsieve.lake.hudi.table import Hudi
from parsieve.lake.hudi.timeline import read_timeline

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.mark.parametrize("kind", [pytest.param("hudi_cow", marks=pytest.mark.slow), "hudi_mor"])
def test_an_open_table_sees_every_change(spark: Any, tmp_path: Path, kind: str) -> None:
    needs(kind)
    table = SparkTable(spark, kind, f"seen_{kind}", tmp_path / "t")
    table.insert(0, 40)
    opened = ps.open_table(table.folder)
    opened.build_index("id", kind="sieve")
    lake = opened.opened.lake
    assert isinstance(lake, Hudi)

    def call(text: str) -> None:
        spark.sql(f"CALL {text}").collect()

    def newest() -> str:
        return str(open_lake(table.folder).snapshot().id)

    def check(what: str) -> None:
        # While a file of the timeline is new, it is read again each time.
        while not read_timeline(lake.storage).fingerprint:
            time.sleep(0.01)
        now, fresh = lake.snapshot(), open_lake(table.folder).snapshot()
        assert now.tokens == fresh.tokens, what
        assert now.id == fresh.id, what
        # An unchanged timeline is not read again.
        assert lake.snapshot().slices is now.slices, what
        spark.sql(f"REFRESH TABLE {table.name}")
        wanted = sorted(row.id for row in table.whole().where("id % 10 = 3").select("id").collect())
        found = [
            one for tens in range(0, 100, 10) for one in opened.plan(f"id = {tens + 3}").to_arrow()["id"].to_pylist()
        ]
        assert sorted(found) == wanted, what

    check("the first rows")
    table.insert(40, 60)
    check("an insert")
    call(f"create_savepoint(table => '{table.name}', commit_time => '{newest()}')")
    check("a savepoint")
    saved = newest()
    table.update("name = 'new'", "id % 10 = 3")
    check("an update")
    table.delete("id = 13")
    check("a delete")
    opened.update_index()
    check("the index brought up to date")
    call(f"rollback_to_instant(table => '{table.name}', instant_time => '{newest()}')")
    check("a rollback")
    table.delete("id = 23")
    if kind == "hudi_mor":
        soon = "options => 'hoodie.compact.inline.max.delta.commits=1'"
        call(f"run_compaction(op => 'schedule', table => '{table.name}', {soon})")
        check("a compaction that is asked for")
        call(f"run_compaction(op => 'run', table => '{table.name}')")
        check("a compaction")
        assert list((tmp_path / "t" / ".hoodie" / "timeline").glob("*.commit")), "nothing was compacted"
    table.update("name = 'newer'", "id = 33")
    call(
        f"run_clean(table => '{table.name}', clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1)"
    )
    check("a clean")
    call(f"rollback_to_savepoint(table => '{table.name}', instant_time => '{saved}')")
    check("a restore")
    table.insert(60, 70)
    check("an insert after it")
    opened.update_index()
    assert opened.verify_index() == []
    table.drop()
