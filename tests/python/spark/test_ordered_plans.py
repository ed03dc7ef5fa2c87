"""Spark returns the first rows in an order, of a plan and of a table, and opens only the files that may hold them."""

from __future__ import annotations

import logging
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old
from support.models.plan_truth import random_predicate
from support.models.predicate_reference import rows as matching
from support.orders import Order, random_order
from support.spark_tables import KINDS, SparkTable, files_of_scans, needs, settled

import parsieve as ps
import parsieve.spark as pss
from parsieve.predicate import columns
from parsieve.predicate.render import to_spark
from parsieve.spark.pushdown.catalyst import resolved_exactly
from parsieve.spark.scan.read import scan_of

errors = pytest.importorskip("pyspark.errors", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark

NAMES = ["id", "name", "price", "day", "cost", "at", "flag", "part"]


def check(table: ps.Table, made: SparkTable, chance: random.Random, count: int) -> None:
    """Compare random ordered reads with brute force."""
    full = table.plan().to_arrow(NAMES).sort_by("id")
    ids = full["id"].to_pylist()
    assert ids == sorted(row.id for row in made.whole().select("id").collect())
    for _ in range(count):
        order, expr = random_order(chance, full.schema), random_predicate(chance, full)
        # Spark writes INT96, which is nanoseconds in Arrow. Spark itself has no nanoseconds.
        where = None if any(column.type == pa.timestamp("ns") for column in columns(expr)) else to_spark(expr)
        matches = range(len(full)) if where is None else matching(expr, full)
        if where is not None and chance.random() < 0.5:
            frame = table.plan(expr, **asdict(order)).to_spark(made.spark)
        else:
            frame = pss.read(made.spark, table, where, **asdict(order))
        query = frame.select("id", *NAMES[1:])
        found = [row.id for row in query.collect()]
        about = (where, order)
        assert len(set(found)) == len(found), about
        assert set(found) <= {ids[row] for row in matches}, about
        ranks = order.ranks(full)
        expected = sorted(ranks[row] for row in matches)[: order.limit]
        assert [ranks[ids.index(number)] for number in found] == expected, about


def check_history(spark: Any, folder: Path, kind: str, seed: str, count: int) -> None:
    """Check reads of a table without an index, with one, and with one that does not cover all files."""
    needs(kind)
    chance = random.Random(seed)
    made = SparkTable(spark, kind, f"ordered_{kind}_{seed}", folder)
    made.insert(0, 60, files=3)
    table = settled(ps.open_table(made.folder))
    check(table, made, chance, count // 4)
    table.build_index(["id", "price", "at"], "sieve", progress=False)
    check(table, made, chance, count // 4)
    made.update("price = double('NaN')", "id IN (4, 31)")
    made.delete("id BETWEEN 20 AND 24 OR name = 'n3'")
    made.insert(60, 80, 1, 1)
    # Files of plain folders are new now, so nothing is certain about them.
    check(table, made, chance, count // 4)
    check(settled(table), made, chance, count - 3 * (count // 4))
    made.drop()


@pytest.mark.parametrize("kind", KINDS)
def test_first_rows_are_the_same_as_by_brute_force(spark: Any, tmp_path: Path, kind: str) -> None:
    check_history(spark, tmp_path / "t", kind, "1", 4)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", KINDS)
def test_first_rows_are_the_same_as_by_brute_force_in_many_reads(spark: Any, tmp_path: Path, kind: str) -> None:
    for seed in range(2, 6):
        check_history(spark, tmp_path / str(seed), kind, str(seed), 25)


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg", "hudi_cow"])
def test_files_without_first_rows_are_not_opened(spark: Any, tmp_path: Path, kind: str) -> None:
    needs(kind)
    made = SparkTable(spark, kind, f"opened_{kind}", tmp_path / "t")
    for part in range(3):
        made.insert(part * 40, part * 40 + 40, files=1)
    table = settled(ps.open_table(made.folder))
    table.build_index(["id", "at", "name"], "sieve", progress=False)
    # In files of plain folders, Spark stores these times as INT96.
    for column in ("id", "at"):
        order = Order([column], descending=True, limit=3)
        plan = table.plan("name = 'n0' OR part = 0", **asdict(order))
        for frame in (pss.read(spark, table, "name = 'n0' OR part = 0", **asdict(order)), plan.to_spark(spark)):
            query = frame.select("id")
            assert [row.id for row in query.collect()] == [118, 116, 114]
            assert sum(files_of_scans(query)) <= 2 < len(plan.files)
    # parsieve does not understand this condition, so Spark sorts all candidates.
    frame = pss.read(spark, table, "part = 0 AND id % 4 = 0", order_by="id", descending=True, limit=2)
    assert [row.id for row in frame.collect()] == [116, 112]
    made.drop()


@pytest.mark.parametrize(
    ("where", "is_exact"),
    [
        ("price > 1.5", True),
        ("NOT (price > 1.5) OR name LIKE 'n1%'", True),
        ("name NOT IN ('n1', 'n2') AND flag", True),
        ("name IN ('n1', NULL)", True),
        ("NOT flag OR cost = 2.25", True),
        ("day BETWEEN DATE '2026-01-03' AND DATE '2026-01-20' AND price <> double('NaN')", False),
        ("name LIKE 'n_\\\\%'", False),
        ("part = 0 AND (id < 9 OR (name > 'n2' AND id % 2 = 0))", False),
        ("day < current_date()", False),
        ("id = 1 OR 1 = 1", False),
        ("1 = 2", False),
        ("at > TIMESTAMP '2026-01-01 00:00:00'", False),
        ("lower(name) = 'n1'", False),
    ],
)
def test_a_condition_has_an_exact_translation_or_none(spark: Any, folder: Path, where: str, is_exact: bool) -> None:
    table = ps.open_table(str(folder))
    scan = scan_of(spark, table.opened.lake)
    condition = resolved_exactly(spark, scan.schema, where)
    predicate = None if condition is None else scan.types().exact_predicate(condition, table.schema)
    assert (predicate is not None) == is_exact
    rows = spark.read.parquet(str(folder)).where(where).orderBy("id").select("id").collect()
    if predicate is not None:
        assert table.plan(predicate).to_arrow(["id"]).sort_by("id")["id"].to_pylist() == [row.id for row in rows]
    last = pss.read(spark, table, where, order_by="id", descending=True, limit=3)
    assert [row.id for row in last.collect()] == [row.id for row in rows[::-1][:3]]


@pytest.mark.parametrize("values", [["n1"], [f"n{number}" for number in range(20)]])
def test_a_negated_list_with_a_null_is_not_exact(spark: Any, folder: Path, values: list[str]) -> None:
    """This rule of Spark's optimizer replaces such a list by false, but can be excluded."""
    rule = "org.apache.spark.sql.catalyst.optimizer.ReplaceNullWithFalseInPredicate"
    where = f"name NOT IN ({', '.join(map(repr, values))}, NULL) OR id > 70"
    spark.conf.set("spark.sql.optimizer.excludedRules", rule)
    try:
        assert resolved_exactly(spark, spark.read.parquet(str(folder)).schema, where) is None
        first = pss.read(spark, str(folder), where, order_by="id", limit=2)
        assert [row.id for row in first.collect()] == [71, 72]
    finally:
        spark.conf.unset("spark.sql.optimizer.excludedRules")


def test_spark_sorts_rows_that_parsieve_cannot_sort(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows are those of Spark, and every reason is logged."""
    for name in ("case", "nested", "parts"):
        (tmp_path / name).mkdir()
    pq.write_table(pa.table({"id": range(10, 20)}), tmp_path / "case" / "a.parquet")
    pq.write_table(pa.table({"ID": range(10)}), tmp_path / "case" / "b.parquet")
    pq.write_table(pa.table({"id": range(10, 20)}), tmp_path / "nested" / "a.parquet")
    (tmp_path / "nested" / "below").mkdir()
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "nested" / "below" / "b.parquet")
    days = pa.array([0, 2_932_897, 3_000_000], pa.int32()).view(pa.date32())
    pq.write_table(pa.table({"id": range(3), "day": days}), tmp_path / "parts" / "a.parquet")
    int96 = str(tmp_path / "int96")
    spark.sql("SELECT id, named_struct('t', timestamp_micros(id)) s FROM range(9)").write.parquet(int96)
    ancient = str(tmp_path / "ancient")
    setting = "spark.sql.parquet.int96RebaseModeInWrite"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "CORRECTED")
    spark.sql("SELECT id, TIMESTAMP '1500-01-01 00:00:00' t FROM range(3)").write.parquet(ancient)
    spark.conf.set(setting, before)
    caplog.set_level(logging.INFO, "parsieve.spark")
    for folder, column, reason in (
        (str(tmp_path / "case"), "id", "differ only in case"),
        (str(tmp_path / "nested"), "id", "below/b.parquet"),
        (str(tmp_path / "parts"), "ID", ""),
        (str(tmp_path / "parts"), "_metadata.file_name", "no column '_metadata"),
        (str(tmp_path / "parts"), "day", ""),
        (int96, "s.t", "nested INT96"),
        (int96, "s", "has no order"),
        (ancient, "t", "INT96"),
    ):
        wait_until_old(Path(folder))
        caplog.clear()
        for descending in (False, True):
            found = pss.read(spark, folder, order_by=column, descending=descending, limit=2)
            whole = spark.read.parquet(folder)
            whole = whole.orderBy(whole[column].desc() if descending else whole[column]).limit(2)
            assert found.toJSON().collect() == whole.toJSON().collect(), column
        assert reason in caplog.text
    for missing in ("missing", "lower(id)", "*", "id desc"):
        with pytest.raises((ps.ColumnNotFoundError, ps.UnsupportedError), match=r"(missing|lower|\*|desc)"):
            pss.read(spark, str(tmp_path / "parts"), order_by=missing, limit=2)
    with pytest.raises(errors.AnalysisException, match="missing"):
        pss.read(spark, str(tmp_path / "parts"), "missing = 1", order_by="id", limit=2)


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a plain folder of Spark, whose times are stored as INT96."""
    path = tmp_path_factory.mktemp("exact") / "t"
    SparkTable(spark, "parquet", "exact", path).insert(0, 80, files=4)
    wait_until_old(path)
    return path


def test_rows_are_those_of_the_planned_state(spark: Any, tmp_path: Path) -> None:
    made = SparkTable(spark, "delta", "ordered_state", tmp_path / "t")
    made.insert(0, 40)
    frame = pss.read(spark, made.folder, order_by="id", descending=True, limit=2)
    made.delete("id > 30")
    assert [row.id for row in frame.collect()] == [39, 38]
    assert [row.id for row in pss.read(spark, made.folder, order_by="id", descending=True, limit=2).collect()] == [
        30,
        29,
    ]
    made.drop()
    folder = tmp_path / "plain"
    folder.mkdir()
    for part in range(3):
        pq.write_table(pa.table({"id": range(part * 10, part * 10 + 10)}), folder / f"{part}.parquet")
    wait_until_old(folder)
    frame = pss.read(spark, str(folder), order_by="id", descending=True, limit=2)
    assert [row.id for row in frame.collect()] == [29, 28]
    pq.write_table(pa.table({"id": range(5)}), folder / "2.parquet")
    with pytest.raises(Exception, match="changed since the plan"):
        frame.collect()
    wait_until_old(folder)
    table = ps.open_table(str(folder))
    plan = table.plan(order_by="id", descending=True, limit=2)
    pq.write_table(pa.table({"id": range(90, 99)}), folder / "2.parquet")
    # The last of the first rows is now in a file that the plan does not know.
    with pytest.raises(ps.ConflictError, match=r"2.parquet was written again"):
        plan.to_spark(spark)
    assert [row.id for row in pss.read(spark, table, order_by="id", descending=True, limit=2).collect()] == [98, 97]


@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize("descending", [False, True])
def test_fields_of_structs_have_an_order(spark: Any, tmp_path: Path, descending: bool, nulls: Any) -> None:
    for part in range(4):
        # No two rows have the same value, except for the nulls.
        at = [*(part + 4.0 * number for number in range(5)), None, *([float("nan")] if part == 2 else [])]
        pq.write_table(
            pa.table({"s": [{"at": value} for value in at], "n": [part] * len(at)}), tmp_path / f"{part}.parquet"
        )
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    for limit in (3, 21):
        order = Order(["s", "at"], descending, nulls, limit)
        plan = table.plan("n > 0", **asdict(order))
        expected = [repr(row["at"]) for row in plan.to_arrow()["s"].to_pylist()]
        for frame in (plan.to_spark(spark), pss.read(spark, table, "n > 0", **asdict(order))):
            assert [repr(row.s.at) for row in frame.collect()] == expected
    assert table.plan("n > 0", limit=5).to_spark(spark).count() == 5
    assert pss.read(spark, table, "n > 0", limit=5).count() == 5
