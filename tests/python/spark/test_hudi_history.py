"""`pss.read` returns the rows of a full read after each step in the life of an indexed Hudi table.

The steps are upserts, deletes, compaction, clustering, moves to another partition, savepoint, restore and clean. The
index is first as it was before the step, then updated. Reads are of the current state and of earlier ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.models.predicate_reference import rows as matching
from support.spark_tables import SparkTable, files_of_scans, needs, selected

import parsieve as ps
import parsieve.spark as pss
from parsieve.predicate import parse
from parsieve.predicate.render import to_spark
from parsieve.table import Table

pytestmark = pytest.mark.spark

INDEXED = ["id", "name", "price", "day", "cost"]
FORMS = [
    "name = 'new'",
    "id IN (4, 23, 64, 9999)",
    "id BETWEEN 18 AND 26",
    "name LIKE 'ne%' AND part = 1",
    "price > 90",
    "name = 'n14' OR id = 3",
    "NOT (id > 5)",
    "price IS NULL AND name < 'n2'",
    "cost <= 2.5",
    "day = DATE '2026-01-07' AND NOT (name = 'n3')",
    "id NOT IN (1, 2) AND name >= 'n48'",
    "flag IS NULL AND id < 12",
    "name != 'new' AND day > DATE '2026-02-05'",
    "at >= TIMESTAMP '1970-01-03 00:00:00' AND name IS NOT NULL AND price = 37.5",
    "part = 0 AND id = 60",
    "name = 'nobody'",
    "price = CAST('NaN' AS DOUBLE) AND id < 30",
    "NOT (name LIKE 'n%')",
]


class History:
    """A table with its index, and the reads that are checked after each step."""

    def __init__(self, spark: Any, made: SparkTable, forms_at_once: int) -> None:
        self.spark, self.made = spark, made
        self.table = ps.open_table(made.folder)
        self.without = Table(self.table.opened.lake, f"{made.folder}/_no_index")
        self.forms_at_once = forms_at_once
        self.forms = itertools.cycle(FORMS)
        # The name and the rows of each state.
        self.states: dict[str, list[tuple[Any, ...]]] = {}
        self.fewer = 0

    def now(self) -> str:
        return str(self.table.opened.lake.snapshot().id)

    def full(self, as_of: str | None = None) -> pa.Table:
        return self.table.plan(None, as_of).to_arrow()

    def step(self, act: Callable[[], None]) -> None:
        """Do one step, and check reads before and after an update of the index."""
        act()
        state = self.now()
        rows = told(self.full())
        assert rows == sorted((row.id, row.name, row.part) for row in self.made.whole().collect())
        self.states[state] = rows
        self.check(None)
        self.table.update_index(progress=False)
        self.check(None)
        assert self.table.plan("name = 'nobody'").kept == [], "the index knows all that there is"

    def check(self, as_of: str | None, forms: Sequence[str] | None = None) -> None:
        """Check the rows and the number of files of some predicates, in a single Spark query."""
        from pyspark.sql.functions import lit

        full, frames, expected, kept = self.full(as_of), [], set(), []
        for number, form in enumerate(forms or itertools.islice(self.forms, self.forms_at_once)):
            expr = parse(form, full.schema, "UTC")
            plan, least = self.table.plan(expr, as_of), self.without.plan(expr, as_of)
            assert len(plan.kept) <= len(least.kept), form
            self.fewer += len(least.kept) - len(plan.kept)
            kept.append((form, len(plan.kept)))
            ids = full["id"].take(pa.array(matching(expr, full), pa.int64())).to_pylist()
            expected |= {(number, key) for key in ids}
            frame = pss.read(self.spark, self.table, to_spark(expr), as_of)
            frames.append(frame.select(lit(number).alias("number"), "id"))
        union = frames[0]
        for frame in frames[1:]:
            union = union.union(frame)
        found = [(row.number, row.id) for row in union.collect()]
        assert len(found) == len(set(found))
        wrong = sorted(set(found) ^ expected)
        assert not wrong, [(kept[number], key) for number, key in wrong]
        opened = files_of_scans(union)
        assert len(opened) == len(kept)
        for (form, most), count in zip(kept, opened, strict=True):
            assert count <= most, form


def told(full: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(full[name].to_pylist() for name in ("id", "name", "part")), strict=True))


@pytest.mark.timeout(2400)
def test_every_step_of_a_merge_on_read_table_keeps_all_rows(spark: Any, tmp_path: Path) -> None:
    """Each update of the index is checked with two other forms of predicates, one before and one after it."""
    needs("hudi")
    live(spark, tmp_path / "t", "hudi_mor", 1)


@pytest.mark.slow
@pytest.mark.timeout(4000)
@pytest.mark.parametrize("kind", ["hudi_mor", "hudi_cow"])
def test_every_form_of_table_keeps_all_rows_after_each_step(spark: Any, tmp_path: Path, kind: str) -> None:
    needs("hudi")
    live(spark, tmp_path / "t", kind, len(FORMS))


def live(spark: Any, folder: Path, kind: str, forms_at_once: int) -> None:
    """Run all steps in the life of a table."""
    name = f"life_{kind}_{forms_at_once}"
    made = SparkTable(spark, kind, name, folder)
    made.insert(0, 60)
    history = History(spark, made, forms_at_once)
    history.states[history.now()] = told(history.full())
    history.check(None)
    pss.build_index(spark, made.folder, INDEXED, kind="sieve")
    merges = kind == "hudi_mor"

    def logs() -> int:
        return sum(not piece.clean for piece in history.table.opened.lake.snapshot().slices)

    def call(procedure: str, **arguments: Any) -> list[Any]:
        given = "".join(f", {key} => {value!r}" for key, value in arguments.items())
        return list(spark.sql(f"CALL {procedure}(table => '{name}'{given})").collect())

    def compact() -> None:
        options = "hoodie.compact.inline.max.delta.commits=1"
        assert len(call("run_compaction", op="schedule", options=options)) == 1
        before = logs()
        call("run_compaction", op="run", options=options)
        assert before > 0 == logs()

    def cluster() -> None:
        before = {piece.group for piece in history.table.opened.lake.snapshot().slices}
        call("run_clustering", order="name", op="scheduleAndExecute")
        assert not before & {piece.group for piece in history.table.opened.lake.snapshot().slices}

    def move() -> None:
        """Move records to the other partition, which removes them from the first."""
        rows = spark.sql(f"SELECT * FROM ({selected(0, 60, 3, 1)}) WHERE id IN (6, 7, 40)")
        rows = rows.withColumn("part", 1 - rows.part)
        options = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ" if merges else "COPY_ON_WRITE",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.index.type": "GLOBAL_SIMPLE",
            "hoodie.global.simple.index.update.partition.path": "true",
            "hoodie.simple.index.update.partition.path": "true",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.metadata.enable": "false" if merges else "true",
        }
        rows.write.format("hudi").options(**options).mode("append").save(made.folder)
        assert {row[0]: row[2] for row in told(history.full()) if row[0] in (6, 7, 40)} == {6: 1, 7: 0, 40: 1}

    history.step(lambda: made.update("name = 'new', price = double('NaN')", "id IN (4, 31)"))
    assert (logs() > 0) == merges
    history.step(lambda: made.delete("id BETWEEN 20 AND 24 OR name = 'n3'"))
    history.step(lambda: made.insert(60, 80, 1, 1))
    if merges:
        history.step(compact)
        history.step(lambda: made.update("name = 'newer'", "id IN (31, 64)"))
    history.step(cluster)
    history.step(move)
    saved, before = history.now(), told(history.full())
    call("create_savepoint", commit_time=saved)
    history.step(lambda: made.update("name = 'lost'", "id < 10"))
    undone = history.now()

    def restore() -> None:
        assert call("rollback_to_savepoint", instant_time=saved)[0][0]
        assert told(history.full()) == before

    history.step(restore)
    history.states.pop(undone, None)
    history.step(lambda: made.update("name = 'new'", "id IN (8, 70)"))
    # The index also answers for earlier states, so rows of one file are not read from others.
    fewer, before_now = history.fewer, list(history.states.items())
    for state, rows in before_now if forms_at_once == len(FORMS) else before_now[::3]:
        assert told(history.full(state)) == rows
        history.check(state, FORMS[: max(2, forms_at_once)])
    assert history.fewer > fewer
    for state, _ in before_now:
        # This raises an error if the index does not cover the whole table.
        history.table.plan("name = 'n14'", state, stale="error")
    first = before_now[0][0]
    # The restore brings back the earlier rows.
    assert told(history.full(undone)) == before
    history.check(undone, FORMS[:2])

    # States whose files were cleaned are refused; the others have their rows.
    def clean() -> None:
        call("delete_savepoint", instant_time=saved)
        call("run_clean", clean_policy="KEEP_LATEST_COMMITS", retain_commits=1)

    files = len(list(folder.rglob("*.parquet")))
    history.step(clean)
    assert len(list(folder.rglob("*.parquet"))) < files
    with pytest.raises(ValueError, match=r"cleaned|begins at"):
        history.table.plan("name = 'new'", first)
    last = list(history.states)[-1]
    assert told(history.full(last)) == history.states[last]
    history.check(last, FORMS[:2])
    assert history.table.verify_index() == []
    made.drop()
