"""A pruned file list has the rows of a full read, and Spark does not open the skipped files."""

import gc
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from support.spark_tables import callbacks_left, wait_until_old

import parsieve as ps
import parsieve.spark as pss
from parsieve.lake import open_lake
from parsieve.spark.pushdown.catalyst import Filter
from parsieve.spark.runtime import versions
from parsieve.spark.scan import file_index, iceberg
from parsieve.spark.scan.file_index import Kept
from parsieve.spark.scan.read import scan_of

pytestmark = pytest.mark.spark


class Exact:
    """A `Keep` that returns the files in which pyarrow finds a row. It records its arguments."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Filter]] = []
        self.kept: set[str] = set()

    def __call__(self, paths: Sequence[str], where: Filter) -> Kept:
        self.asked.append((len(paths), where))
        if where.expression is None:
            self.kept = set(paths)
        else:
            self.kept = {
                path
                for path in paths
                if ds.dataset(path, partitioning="hive", partition_base_dir=str(Path(path).parents[1])).count_rows(
                    filter=where.expression
                )
            }
        return Kept(self.kept)


def needs(lake: str) -> None:
    if lake not in versions.installed().jars:
        pytest.skip(f"no jars of {lake} for this PySpark")


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def files_read(frame: Any) -> int:
    """Return how many files the scans of a query opened, as counted by Spark."""
    plan = frame._jdf.queryExecution().executedPlan()
    list(map(str, frame._jdf.queryExecution().toRdd().collect()))
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = plan.collectLeaves()
    return sum(
        leaves.apply(at).metrics().apply("numFiles").value()
        for at in range(leaves.size())
        if leaves.apply(at).metrics().contains("numFiles")
    )


@pytest.fixture(scope="module")
def folder(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty files in three partitions, each with a tenth of the ids."""
    path = tmp_path_factory.mktemp("plain") / "table with blanks"
    spark.range(0, 1000, 1, 10).selectExpr("id", "concat('s', id) AS s", "id % 3 AS part").write.partitionBy(
        "part"
    ).parquet(str(path))
    return path


def plain(spark: Any, folder: Path, keep: file_index.Keep) -> Any:
    return file_index.prune(spark.read.parquet(str(folder)), keep)


CONDITIONS = [
    "id = 350",
    "id IN (1, 2, 999)",
    "id BETWEEN 95 AND 105",
    "s = 's17' AND part = 2",
    "id = 1 OR s = 's500'",
    "s LIKE 's99%'",
    "NOT (id > 5)",
    "id IS NULL",
    "part = 1 AND id < 10",
    "abs(id) = 400 AND id >= 390",
]


@pytest.mark.parametrize("where", CONDITIONS)
def test_rows_equal_those_of_a_full_read(spark: Any, folder: Path, where: str) -> None:
    keep = Exact()
    assert ids(plain(spark, folder, keep).where(where)) == ids(spark.read.parquet(str(folder)).where(where))
    assert len(keep.asked) == 1
    assert len(keep.kept) < 22


def test_only_kept_files_are_opened(spark: Any, tmp_path: Path) -> None:
    """The other files are overwritten."""
    spark.range(0, 1000, 1, 10).write.parquet(str(tmp_path / "t"))
    frame = plain(spark, tmp_path / "t", Exact())
    keep = Exact()
    found = ds.dataset(str(tmp_path / "t"), format="parquet", exclude_invalid_files=True).files
    keep(found, Filter((), ds.field("id") == 350))
    assert len(keep.kept) == 1
    kept = set(keep.kept)
    frame = plain(spark, tmp_path / "t", lambda paths, where: Kept(kept))
    for file in found:
        if file not in kept:
            Path(file).write_bytes(b"destroyed" * 100)
            Path(file).with_name(f".{Path(file).name}.crc").unlink()
    query = frame.where("id = 350")
    assert ids(query) == [350]
    assert files_read(query) == 1
    with pytest.raises(Exception, match=r"(?i)parquet"):
        ids(spark.read.schema("id BIGINT").parquet(str(tmp_path / "t")).where("id = 350"))


def test_views_joins_partitions_and_explain_work(spark: Any, folder: Path) -> None:
    keep = Exact()
    plain(spark, folder, keep).createOrReplaceTempView("skipping")
    joined = spark.sql("SELECT a.id FROM skipping a JOIN skipping b USING (id) WHERE a.id IN (7, 700) AND b.part = 1")
    assert ids(joined) == [7, 700]
    # Each side of the join has its own plan. Spark had already reduced one by the condition on the partition.
    assert sorted(count for count, _ in keep.asked) == [10, 30]
    query = plain(spark, folder, keep).where("part = 0 AND id = 9")
    text = query._jdf.queryExecution().explainString(
        spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    )
    assert "PushedFilters: [IsNotNull(id), EqualTo(id,9)]" in text
    assert ids(query) == [9]
    assert sorted(query.inputFiles()) == sorted(spark.read.parquet(str(folder)).inputFiles())
    spark.catalog.dropTempView("skipping")


def test_only_equal_reads_share_a_cache(spark: Any, folder: Path) -> None:
    keep, other = Exact(), Exact()
    cached = plain(spark, folder, keep).where("id < 100").cache()
    try:
        assert cached.count() == 100
        asked = len(keep.asked)
        assert plain(spark, folder, keep).where("id < 100").count() == 100
        assert len(keep.asked) == asked, "Spark took the cached answer"
        assert plain(spark, folder, other).where("id < 100").count() == 100
        assert len(other.asked) == 1, "another choice of files is another table"
        assert spark.read.parquet(str(folder)).where("id < 100").count() == 100
    finally:
        cached.unpersist()


def test_a_failing_keep_reads_all_files(
    spark: Any, folder: Path, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def fails(paths: Sequence[str], where: Filter) -> Kept:
        raise ps.FormatError("the index is broken")

    with caplog.at_level(logging.WARNING, "parsieve.spark"):
        assert ids(plain(spark, folder, fails).where("id = 5")) == [5]
        assert "no file was skipped: FormatError: the index is broken" in caplog.text
        if "delta" in versions.installed().jars:
            spark.range(0, 10, 1, 2).write.format("delta").save(str(tmp_path / "t"))
            caplog.clear()
            assert ids(scan_of(spark, open_lake(tmp_path / "t")).pruned(fails, "id = 5")) == [5]
            assert "the index is broken" in caplog.text


# test_read.py checks the same for `pss.read`, which uses this code.
@pytest.mark.slow
def test_many_reads_leak_nothing(spark: Any, folder: Path) -> None:
    """Callbacks from Java, settings and views stay as before."""

    keep = Exact()
    before, settings = callbacks_left(spark), {row.key: row.value for row in spark.sql("SET").collect()}
    views = spark.catalog.listTables()
    for number in range(200):
        query = plain(spark, folder, keep).where(f"id = {number}")
        if number % 20 == 0:
            assert ids(query) == [number]
        else:
            query._jdf.queryExecution().executedPlan().toString()
    del query
    assert callbacks_left(spark, before + 2, rounds=200) <= before + 2
    assert {row.key: row.value for row in spark.sql("SET").collect()} == settings
    assert spark.catalog.listTables() == views


def test_other_dataframes_are_refused(spark: Any, folder: Path) -> None:
    with pytest.raises(ps.UnsupportedError, match="Range"):
        file_index.prune(spark.range(3), Exact())
    with pytest.raises(ps.UnsupportedError, match="Filter"):
        file_index.prune(spark.read.parquet(str(folder)).where("id > 3"), Exact())


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_hudi_tables_with_logs_and_deletes_are_pruned_at_each_instant(spark: Any, tmp_path: Path, kind: str) -> None:
    needs("hudi")
    folder, name = str(tmp_path / "t"), f"skip_{kind}"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, name STRING, part BIGINT) USING hudi LOCATION '{folder}' "
        f"PARTITIONED BY (part) TBLPROPERTIES (type = '{kind}', primaryKey = 'id')"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, concat('n', id), id % 3 FROM range(60)")
    spark.sql(f"UPDATE {name} SET name = 'new' WHERE id = 4")
    spark.sql(f"DELETE FROM {name} WHERE id = 7")
    # A merge-on-read table keeps changes in hidden files such as part=3/.x.log.1_0-1-1.
    assert bool(list(Path(folder).glob("part=*/.*.log.*"))) == (kind == "mor")
    first = min(row.commit_time for row in spark.sql(f"CALL show_commits(table => '{name}')").collect())
    asked: list[tuple[set[str], Filter]] = []

    def keep(paths: Sequence[str], where: Filter) -> Kept:
        """Keep partition 1, which contains 4 and 7."""
        asked.append((set(paths), where))
        return Kept({path for path in paths if "/part=1/" in path})

    now = file_index.prune(spark.read.format("hudi").load(folder), keep)
    assert [row.name for row in now.where("id = 4").collect()] == ["new"]
    assert ids(now.where("id IN (4, 7)")) == [4]
    assert ids(now) == sorted(set(range(1, 60, 3)) - {7})
    assert all(len(paths) == 3 for paths, _ in asked)
    assert asked[0][1].expression is not None
    then = file_index.prune(spark.read.format("hudi").option("as.of.instant", first).load(folder), keep)
    assert [row.name for row in then.where("id = 4").collect()] == ["n4"]
    assert ids(then) == list(range(1, 60, 3))
    spark.sql(f"DROP TABLE {name}")


def test_delta_tables_with_deletion_vectors_are_pruned_at_each_version(spark: Any, tmp_path: Path) -> None:
    needs("delta")
    folder = str(tmp_path / "table with blanks")
    rows = spark.range(0, 100, 1, 5).selectExpr("id", "concat('a ', id % 2) AS part")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").partitionBy("part").save(folder)
    spark.sql(f"DELETE FROM delta.`{folder}` WHERE id = 50")
    assert list(Path(folder).rglob("deletion_vector_*.bin"))
    keep = Exact()
    for where, version, expected in (
        ("id BETWEEN 49 AND 52", None, [49, 51, 52]),
        ("id BETWEEN 49 AND 52", 0, [49, 50, 51, 52]),
        ("id = 50", None, []),
        ("id = 1000", None, []),
        ("part = 'a 1' AND id < 4", None, [1, 3]),
    ):
        answer = scan_of(spark, open_lake(folder), as_of=version).pruned(keep, where)
        assert ids(answer) == expected
        assert len(keep.asked) == 1
        assert keep.asked.pop()[0] == 10
        assert len(keep.kept) <= 2
    assert ids(scan_of(spark, open_lake(folder)).whole()) == sorted(set(range(100)) - {50})
    one = scan_of(spark, open_lake(folder)).pruned(keep, "id = 51")
    assert files_read(one) == 1
    with pytest.raises(ps.UnsupportedError, match="deletion vectors"):
        file_index.prune(spark.read.format("delta").load(folder), keep)


def scan_class(frame: Any) -> str:
    """Return the class of a frame's first scan. No variable refers to the plan, which would keep it alive."""
    leaf = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    return str(leaf.scan().getClass().getSimpleName())


def test_iceberg_tables_with_deletes_are_pruned_at_each_snapshot_and_schema(spark: Any) -> None:
    needs("iceberg")
    name = "iceberg.skip.t"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part) "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    folder = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0].data_type
    folder = file_index.plain_path(folder)
    lake = open_lake(folder)

    def pruned(source: str, keep: file_index.Keep, where: str, snapshot: int | None = None) -> Any:
        return scan_of(spark, lake, source, snapshot).pruned(keep, where)

    keep = Exact()
    assert ids(pruned(name, keep, "id = 1")) == []
    for start in (0, 50):
        rows = spark.range(start, start + 50, 1, 1).selectExpr("id", "concat('a ', id % 2) AS part")
        rows.writeTo(name).append()
    first = spark.sql(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at").collect()[1].snapshot_id
    spark.sql(f"DELETE FROM {name} WHERE id = 50")
    assert spark.table(f"{name}.delete_files").count() == 1
    spark.sql(f"ALTER TABLE {name} ADD COLUMN more STRING")
    keep = Exact()
    for source in (name, folder):
        for where, snapshot, expected in (
            ("id BETWEEN 48 AND 51", None, [48, 49, 51]),
            ("id BETWEEN 48 AND 51", first, [48, 49, 50, 51]),
            ("id IN (50, 3)", None, [3]),
            ("id = 1000", None, []),
        ):
            answer = pruned(source, keep, where, snapshot)
            assert ids(answer) == expected
            if keep.kept:
                assert scan_class(answer) == "SparkStagedScan", "the tasks are those that were left"
            assert ("more" in answer.columns) == (snapshot is None)
            assert keep.asked.pop()[0] == 4
    assert len(keep.kept) == 0
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN part TO portion")
    renamed = pruned(name, keep, "id = 50 AND part = 'a 0'", first)
    assert renamed.columns == ["id", "part"]
    assert ids(renamed) == [50]
    held = pruned(name, keep, "id = 51")
    assert ids(held.where("portion = 'a 1'")) == [51]
    assert ids(scan_of(spark, lake, name).whole()) == sorted(set(range(100)) - {50})
    assert iceberg._staged, "those of a frame that is held stay"
    del answer, held
    # py4j keeps objects that it returned for a second. This loop asks much more often.
    for _ in range(600):
        gc.collect()
        spark._jvm.System.gc()
        iceberg._release_staged(spark)
        if not iceberg._staged:
            break
        time.sleep(0.1)
    assert not iceberg._staged, "the tasks of frames that are gone are let go"
    spark.sql(f"DROP TABLE {name} PURGE")


def test_conditions_are_translated_exactly_or_left_out(spark: Any, tmp_path: Path) -> None:
    """With the expression, pyarrow finds all rows that Spark finds, and no others if the translation is complete."""
    folder = str(tmp_path / "types")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    spark.sql(
        "SELECT CAST(id - 2 AS TINYINT) AS b, CAST(id AS INT) AS i, id AS l, CAST(id / 4 AS FLOAT) AS f, id / 8 AS d, "
        "concat('it\\'s ', id) AS s, CAST(concat('x', id) AS BINARY) AS x, date_add(DATE '1969-12-30', CAST(id AS INT))"
        " AS day, timestamp_micros(id * 3600000001) AS t, CAST(timestamp_micros(id * 7) AS TIMESTAMP_NTZ) AS n, "
        "CAST(id / 4 AS DECIMAL(9, 2)) AS e, IF(id = 3, NULL, id) AS z, named_struct('a.b', id) AS st, id > 4 AS flag "
        "FROM range(0, 10, 1, 1)"
    ).write.parquet(folder)
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    rows = ds.dataset(folder, exclude_invalid_files=True)
    said: list[Filter] = []

    def keep(paths: Sequence[str], where: Filter) -> Kept:
        said.append(where)
        return Kept(set(paths))

    frame = file_index.prune(spark.read.parquet(folder), keep)
    exact = {
        "b": "b = 1", "i": "i >= 7", "mirrored": "5 > l", "f": "f = 0.25", "d": "d <= 0.5", "s": "s = 'it\\'s 4'",
        "x": "x = X'7834'", "day": "day = DATE '1970-01-01'", "t": "t > TIMESTAMP '1970-01-01 05:00:00'",
        "n": "n = TIMESTAMP_NTZ '1970-01-01 00:00:00.000014'", "e": "e IN (0.25, 1.5)", "null": "z IS NULL",
        "not null": "z IS NOT NULL AND z < 5", "safe": "z <=> 4", "field": "st.`a.b` = 6",
        "set": f"l IN ({', '.join(map(str, range(5, 300)))})", "null in set": "l IN (1, 2, NULL)",
        "flag": "flag", "no flag": "flag = false", "not": "l != 4", "not in": "l NOT IN (1, 2)",
        "nan": "isnan(d) OR l = 3", "no prefix": "s NOT LIKE 'it\\'s 4%' AND NOT startswith(s, 'it\\'s 5')",
        "contains": "contains(s, 's 4')", "like": "s LIKE '%s%4'", "end": "s LIKE '%4'", "middle": "s LIKE '%\\'s 5%'",
        "no end": "NOT endswith(s, '4')", "no middle": "s NOT LIKE '%s 4%'", "one": "s LIKE 'it_s%4'",
        "or": "l = 1 OR s = 'it\\'s 9'", "prefix": "s LIKE 'it_s%' AND s LIKE 'it\\'s%'",
    }  # fmt: skip
    for name, where in exact.items():
        expected = {row.l for row in frame.where(where).collect()}
        asked = said.pop()
        assert asked.expression is not None, name
        found = set(rows.to_table(filter=asked.expression)["l"].to_pylist())
        assert found == expected if name not in ("prefix", "one", "like") else found >= expected, (name, asked.sql)
    for where in ("l + 1 = 4", "length(s) = 6", "l = 1 OR abs(l) = 3", "upper(s) = 'X' OR s = 'it\\'s 3'"):
        expected = {row.l for row in frame.where(where).collect()}
        asked = said.pop()
        if asked.expression is not None:
            assert set(rows.to_table(filter=asked.expression)["l"].to_pylist()) >= expected, (where, asked.sql)
    assert isinstance(rows.schema.field("t").type, pa.TimestampType)


def test_columns_with_a_collation_have_the_order_of_spark(spark: Any, tmp_path: Path) -> None:
    if versions.installed().line < (4, 0):
        pytest.skip("Spark has collations from version 4 on")
    folder = str(tmp_path / "t")
    for number, text in enumerate(("B", "a", "C", "b")):
        value = f"'{text}' COLLATE UTF8_LCASE"
        rows = spark.sql(f"SELECT {number} AS id, {value} AS s, named_struct('t', {value}) AS st, array({value}) AS l")
        rows.coalesce(1).write.mode("append").parquet(folder)
    wait_until_old(folder)
    whole = spark.read.parquet(folder)
    for column in ("s", "st.t"):
        first = whole.orderBy(column, "id").limit(1).collect()
        assert pss.read(spark, folder, order_by=column, limit=1).collect() == first, column
    for where in ("s = 'b'", "s IN ('b', 'c')", "st.t LIKE 'b%'", "array_contains(l, 'b')", "s <> 'b'"):
        assert ids(pss.read(spark, folder, where)) == ids(whole.where(where)), where
    table = ps.open_table(folder)
    for where in ("s = 'b'", "st.t = 'b'", "array_contains(l, 'b')"):
        with pytest.raises(ps.UnsupportedError, match="is string collate UTF8_LCASE to Spark"):
            table.plan(where).to_spark(spark)
    with pytest.raises(ps.UnsupportedError, match="is string collate UTF8_LCASE to Spark"):
        pss.read(spark, table, [("s", "=", "b")])
