"""`pss.read` and `plan.to_spark` return the rows of a full read, and open at most the files that the plan keeps."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.models.plan_truth import random_predicate
from support.models.predicate_reference import rows as matching
from support.spark_tables import KINDS, SparkTable, callbacks_left, ids, ids_and_files, needs, settled, wait_until_old

import parsieve as ps
import parsieve.spark as pss
from parsieve.predicate import Expr, columns, parse
from parsieve.predicate.render import to_spark
from parsieve.spark.pushdown.catalyst import resolved, resolved_exactly
from parsieve.table import Table

errors = pytest.importorskip("pyspark.errors", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark


def expected(expr: Expr, full: pa.Table) -> list[int]:
    return sorted(full["id"].take(pa.array(matching(expr, full), pa.int64())).to_pylist())


def check(table: ps.Table, made: SparkTable, random_: random.Random, count: int, as_of: Any = None) -> None:
    """Random predicates select the right rows, from at most the files that the plan or min/max keeps."""
    spark = made.spark
    # The names of files are random, but the predicates that are drawn from their rows must not be.
    full = table.plan(None, as_of).to_arrow().sort_by("id")
    assert sorted(full["id"].to_pylist()) == ids(made.whole(as_of))
    plain = Table(table.opened.lake, f"{made.folder}/_no_index")
    for _ in range(count):
        expr = random_predicate(random_, full)
        if any(column.type == pa.timestamp("ns") for column in columns(expr)):
            # Spark writes INT96, which is nanoseconds in Arrow. Spark itself has no nanoseconds.
            continue
        plan, least = table.plan(expr, as_of), plain.plan(expr, as_of)
        rows, opened = ids_and_files(pss.read(spark, table, to_spark(expr), as_of))
        assert rows == expected(expr, full), str(expr)
        assert opened <= len(plan.kept) <= len(least.kept), (str(expr), plan.explain())
        rows, opened = ids_and_files(plan.to_spark(spark))
        assert rows == expected(expr, full), str(expr)
        assert opened <= len(plan.kept), str(expr)


@pytest.mark.parametrize("kind", KINDS)
def test_random_predicates_read_the_right_rows_through_a_history(spark: Any, tmp_path: Path, kind: str) -> None:
    """Read without an index, with an outdated one and with a current one, now and as of every earlier state."""
    needs(kind)
    random_ = random.Random(KINDS.index(kind))
    # Hudi cannot create a table in a folder with a blank in its name.
    made = SparkTable(spark, kind, f"random_{kind}", tmp_path / ("table" if "hudi" in kind else "a table"))
    made.insert(0, 60)
    table = ps.open_table(made.folder)
    states = [table.opened.lake.snapshot().id]
    check(settled(table), made, random_, 1)
    table.build_index(["id", "name", "price", "day"], progress=False)
    made.update("name = 'new', price = double('NaN')", "id IN (4, 31)")
    states.append(table.opened.lake.snapshot().id)
    made.delete("id BETWEEN 20 AND 24 OR name = 'n3'")
    made.insert(60, 80, 1, 1)
    check(table, made, random_, 2)
    settled(table).update_index(progress=False)
    check(table, made, random_, 3)
    new = [4, 31] if kind != "parquet" else []
    found, opened = ids_and_files(pss.read(spark, table, "name = 'new'"))
    assert found == new
    assert opened <= len(new)
    if kind != "parquet":
        # For every read of an earlier version, Spark replays Delta's log, which is slow.
        for state in states[:1] if kind == "delta" else states:
            check(table, made, random_, 1, state)
        assert ids(pss.read(spark, made.name, "name = 'new'", states[0])) == []
    if kind in ("parquet", "hudi_cow", "hudi_mor"):
        # Later conditions skip files, too, and so does SQL over a view.
        pss.read(spark, table).createOrReplaceTempView("reads")
        query = spark.sql("SELECT a.id FROM reads a JOIN reads b USING (id) WHERE b.name = 'n14'")
        found, opened = ids_and_files(query)
        assert found == ids(made.whole().where("name = 'n14'"))
        assert opened < 2 * len(table.plan().kept)
        spark.catalog.dropTempView("reads")
    made.drop()


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty files in two partitions. By min/max statistics, each of them may contain any id."""
    path = tmp_path_factory.mktemp("plain") / "a table"
    rows = spark.range(0, 1000, 1, 1).selectExpr("id * 617 % 1000 AS id", "id % 2 AS part", "concat('s', id) AS s")
    rows.repartition(10).write.partitionBy("part").parquet(str(path))
    settled(ps.open_table(path)).build_index("id", progress=False)
    return path


def test_all_forms_of_predicates_and_tables_are_accepted(spark: Any, folder: Path) -> None:
    table = ps.open_table(folder)
    for asked in (table, table.opened.lake, str(folder), folder, folder.as_uri()):
        for where in ("id = 7", parse("id = 7", table.schema)):
            assert ids_and_files(pss.read(spark, asked, where)) == ([7], 1), (asked, where)
    from pyspark.sql.functions import col

    assert ids_and_files(pss.read(spark, table, col("ID") == 7)) == ([7], 1)
    assert ids_and_files(pss.read(spark, table, [("id", "=", 7)])) == ([7], 1)
    assert ids_and_files(pss.read(spark, table, "id = 7 AND rand() >= 0")) == ([7], 1)
    assert ids_and_files(pss.read(spark, table, "id IN (SELECT 7)"))[0] == [7]
    assert pss.read(spark, table).count() == 1000
    spark.sql(f"CREATE TABLE plain_reads (id BIGINT, s STRING, part STRING) USING parquet PARTITIONED BY (part) "
              f"LOCATION '{folder}'")  # fmt: skip
    spark.sql("MSCK REPAIR TABLE plain_reads")
    # To the catalog, the partition is text; to the planner, a number.
    assert ids_and_files(pss.read(spark, "plain_reads", "id = 7 AND part < '9'")) == ([7], 1)
    spark.sql("ALTER TABLE plain_reads DROP PARTITION (part = '1')")
    assert pss.read(spark, "plain_reads").count() == 500
    spark.sql("DROP TABLE plain_reads")
    with pytest.raises(ps.UnsupportedError, match="plain folder"):
        pss.read(spark, table, as_of=1)
    with pytest.raises(ValueError, match="to open_table instead"):
        pss.read(spark, table, index_location=folder / "other")


def test_the_name_of_a_folder_is_not_a_pattern(spark: Any, tmp_path: Path) -> None:
    """Spark reads such names as patterns, and would read another table."""
    for name, first in (("t[1]{2}", 0), ("t12", 1000)):
        spark.range(first, first + 10).coalesce(1).write.parquet(str(tmp_path / name))
    table = ps.open_table(tmp_path / "t[1]{2}")
    assert ids(pss.read(spark, table)) == list(range(10))
    assert ids_and_files(pss.read(spark, table, "id = 3")) == ([3], 1)
    assert ids(table.plan("id > 7").to_spark(spark)) == [8, 9]


def test_caches_joins_and_explain_work_as_without_parsieve(spark: Any, folder: Path) -> None:
    table = ps.open_table(folder)
    cached = pss.read(spark, table, "id < 100").cache()
    try:
        assert cached.count() == 100
        again = pss.read(spark, folder, "id < 100")
        assert "InMemoryTableScan" in again._jdf.queryExecution().executedPlan().toString()
        joined = cached.join(pss.read(spark, table, "id IN (7, 700)"), "id")
        assert ids(joined) == [7]
    finally:
        cached.unpersist()
    text = pss.read(spark, table, "id = 9")._jdf.queryExecution().executedPlan().toString()
    assert "PushedFilters: [IsNotNull(id), EqualTo(id,9)]" in text


def test_skipped_files_are_not_opened(spark: Any, tmp_path: Path) -> None:
    """Damaged files keep their size, on which the index relies. Files of a plain folder also keep their footers."""
    for kind in ("parquet", "delta", "iceberg", "hudi_cow"):
        if kind != "parquet" and kind.partition("_")[0] not in _lakes():
            continue
        made = SparkTable(spark, kind, f"damaged_{kind}", tmp_path / kind)
        made.insert(0, 100, files=4)
        table = ps.open_table(made.folder)
        table.build_index("id", progress=False)
        # The index of a plain folder does not cover the damaged files, so only their footers can exclude them.
        plan = table.plan("id = 42 AND part = 0")
        assert len(plan.files) == 1
        for piece in table.opened.lake.snapshot().slices:
            if piece.path not in plan.files:
                path = Path(str(piece.path))
                data = path.read_bytes()
                kept = int.from_bytes(data[-8:-4], "little") + 8 if kind == "parquet" else 0
                path.write_bytes(b"PAR1" + b"damaged!" * len(data))
                with path.open("r+b") as file:
                    file.truncate(len(data) - kept)
                    file.seek(0, 2)
                    file.write(data[len(data) - kept :])
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        assert ids_and_files(pss.read(spark, table, "id = 42 AND part = 0")) == ([42], 1), kind
        assert ids_and_files(plan.to_spark(spark)) == ([42], 1), kind
        with pytest.raises(Exception, match=r"(?i)parquet|corrupt|damaged"):
            made.whole().selectExpr("max(name)").collect()
        made.drop()


def _lakes() -> set[str]:
    from parsieve.spark.runtime import versions

    return set(versions.installed().jars)


def test_many_reads_leak_nothing(spark: Any, folder: Path) -> None:
    """Callbacks from Java, settings and views stay as before."""
    table = ps.open_table(folder)
    spark.sql(f"CREATE TABLE many_reads (id BIGINT, s STRING) USING parquet LOCATION '{folder}/part=0'")

    before, settings = callbacks_left(spark), {row.key: row.value for row in spark.sql("SET").collect()}
    # After other tests, `spark.catalog.listTables` of Spark 3.5.3 failed.
    tables = spark.sql("SHOW TABLES").collect()
    for number in range(200):
        # Without the catalog, every read takes longer, because Spark reads a footer for the columns.
        query = pss.read(spark, table if number % 5 == 0 else "many_reads", f"id = {number}")
        if number % 50 == 0:
            assert ids(query) == [number]
        elif number % 4 == 0:
            query._jdf.queryExecution().executedPlan().toString()
    del query
    assert callbacks_left(spark, before + 2, rounds=200) <= before + 2
    assert {row.key: row.value for row in spark.sql("SET").collect()} == settings
    assert spark.sql("SHOW TABLES").collect() == tables
    spark.sql("DROP TABLE many_reads")


def test_conditions_on_columns_of_another_type_skip_nothing(spark: Any, tmp_path: Path) -> None:
    """With this setting, Spark reads the partition values as text, and compares them as text."""
    folder = str(tmp_path / "t")
    spark.range(0, 20).selectExpr("id", "id AS part").write.partitionBy("part").parquet(folder)
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    try:
        assert ids(pss.read(spark, folder, "part > '10'")) == [2, 3, 4, 5, 6, 7, 8, 9, *range(11, 20)]
        with pytest.raises(ps.UnsupportedError, match="is string to Spark"):
            ps.open_table(folder).plan("part > 10").to_spark(spark)
    finally:
        spark.conf.unset("spark.sql.sources.partitionColumnTypeInference.enabled")
    assert ids_and_files(pss.read(spark, folder, "part > '10'")) == (list(range(11, 20)), 9)


def test_timestamps_without_a_zone_have_that_of_the_session(spark: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "t")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        hours = "timestamp_micros(1767225600000000 + id * 3600000000) AS at"
        spark.range(0, 48, 1, 16).selectExpr("id", hours).write.parquet(folder)
        # Midnight in New York is five in the morning in UTC.
        for where in ("at = '2026-01-01 00:00:00'", [("at", "=", "2026-01-01 00:00:00")]):
            assert ids_and_files(pss.read(spark, folder, where)) == ([5], 1)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        where = [("at", "=", "2026-01-01 00:00:00")]
        assert ids(pss.read(spark, folder, where)) == [0]
        assert ids(pss.read(spark, folder, where, timezone="America/New_York")) == [5]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.unset("spark.sql.parquet.outputTimestampType")


MOMENTS = [
    "t <= 'now'",
    "day < ' Tomorrow UTC'",
    "n >= 'yesterday'",
    "t <= to_timestamp(concat('n', 'ow')) OR id = 7",
    "day = to_date('today')",
    "t <= TIMESTAMP 'now'",
    r"t <= TIMESTAMP 'n\u006fw'",
    "t <= `TIMESTAMP` 'now '",
    "t < now()",
]


@pytest.mark.parametrize("where", MOMENTS)
def test_texts_for_the_current_time_skip_nothing(spark: Any, where: str) -> None:
    """They have another value each time the DataFrame is read."""
    schema = "id BIGINT, t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, name STRING"
    types = spark.createDataFrame([], schema).schema
    assert resolved(spark, types, where).parts == ()
    assert resolved_exactly(spark, types, where) is None
    both = resolved(spark, types, f"({where}) AND name = 'now'").expression
    assert both is None if "TIMESTAMP" in where else str(both) == '(name == "now")'


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_of_the_future_are_not_skipped(spark: Any, tmp_path: Path, kind: str) -> None:
    needs(kind)
    made = SparkTable(spark, kind, f"future_{kind}", tmp_path / "t", "id BIGINT, at TIMESTAMP", part=None)
    spark.sql(f"INSERT INTO {made.name} VALUES (1, TIMESTAMP '2026-01-01 00:00:00')")
    spark.sql(f"INSERT INTO {made.name} SELECT 2, now() + INTERVAL 1 DAY")
    for where, files in (("at <= 'now'", 2), ("at <= '2026-02-01'", 1)):
        scan = pss.last_scan(pss.read(spark, made.name, where))
        assert scan is not None
        assert (scan.files_kept, scan.files_total) == (files, 2)
    made.drop()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_conditions_that_only_spark_understands_read_all_files(
    spark: Any, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Python has no dates outside of the years 1 to 9999, and columns of metadata are not in the schema."""
    needs(kind)
    made = SparkTable(spark, kind, f"only_spark_{kind}", tmp_path / "t")
    made.insert(0, 10)
    source = made.name if kind == "iceberg" else made.folder
    for where in (
        "day < DATE '+10000-01-01'",
        "day >= DATE '0000-01-01'",
        "day IN (DATE '+10000-01-01', DATE '2026-01-02') AND id > 0",
        "at < TIMESTAMP '+10000-01-01 00:00:00'",
    ):
        assert ids(pss.read(spark, source, where)) == ids(made.whole().where(where))
        first = pss.read(spark, source, where, order_by="id", limit=2)
        assert ids(first) == ids(made.whole().where(where).orderBy("id").limit(2))
    assert not caplog.records
    column = "_metadata.file_name" if kind == "delta" else "_file"
    assert ids(pss.read(spark, source, f"{column} IS NOT NULL AND id < 7")) == list(range(7))
    assert "no file was skipped: AnalysisException" in caplog.text
    with pytest.raises(errors.AnalysisException, match="missing"):
        pss.read(spark, source, "missing = 1")
    made.drop()


def test_nan_is_greater_than_all_numbers(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    for number, value in enumerate(("1.0D", "double('NaN')", "CAST(NULL AS DOUBLE)", "double('-0.0')")):
        spark.sql(f"SELECT {number}L AS id, {value} AS x").write.mode("append").parquet(str(folder))
    table = settled(ps.open_table(folder))
    table.build_index("x", progress=False)
    for where, found in (
        ("x > 5", [1]),
        ("x >= 1", [0, 1]),
        ("x != 1", [1, 3]),
        ("x = double('NaN')", [1]),
        ("isnan(x)", [1]),
        ("x = 0", [3]),
        ("x < 1", [3]),
        ("x NOT IN (1, 2)", [1, 3]),
        ("x IS NULL", [2]),
    ):
        assert ids(pss.read(spark, table, where)) == found, where


def test_texts_with_the_name_of_a_setting_are_not_changed(spark: Any, tmp_path: Path) -> None:
    """Spark replaces `${name}` in the text of a condition."""
    value = "a${spark.app.name}"
    pq.write_table(pa.table({"id": [1, 2], "s": [value, "a"]}), tmp_path / "0.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    for where in ([("s", "=", value)], [("s", "in", [value])]):
        assert table.plan(where).to_arrow(["id"])["id"].to_pylist() == [1]
        assert ids(table.plan(where).to_spark(spark)) == [1]
        assert ids(pss.read(spark, table, where)) == [1]


@pytest.mark.parametrize("others", [1, 20])
def test_lists_with_bytes_that_are_not_utf8_skip_nothing(spark: Any, tmp_path: Path, others: int) -> None:
    """Python gets such a text with U+FFFD in place of the bytes."""
    for number, text in enumerate((b"\xff", "\ufffd".encode(), b"b")):
        column = pa.array([text]).cast(pa.string(), safe=False)
        pq.write_table(pa.table({"id": [number], "s": column}), tmp_path / f"{number}.parquet")
    wait_until_old(tmp_path)
    texts = ", ".join(["CAST(X'FF' AS STRING)", *(f"'x{number}'" for number in range(others))])
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    try:
        for where, expected in ((f"s IN ({texts})", [0]), (f"s NOT IN ({texts})", [1, 2])):
            assert ids(spark.read.parquet(str(tmp_path)).where(where)) == expected
            assert ids(pss.read(spark, str(tmp_path), where)) == expected
    finally:
        spark.conf.unset("spark.sql.parquet.filterPushdown")
