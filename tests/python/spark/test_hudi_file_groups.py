"""Hudi file groups with rows that their files alone do not show."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from support.spark_tables import ids, needs

import parsieve as ps
import parsieve.spark as pss
from parsieve.lake.hudi.partitions import PartitionPaths

pytestmark = pytest.mark.spark


# With these options, a record keeps its partition when its partition column changes.
KEEPS_PARTITION = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}


class Written:
    """A Hudi table that Spark's data source writes."""

    def __init__(self, spark: Any, folder: Path, **options: str) -> None:
        self.spark, self.folder = spark, str(folder)
        self.options = {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "v",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            **options,
        }

    def write(self, sql: str, operation: str = "upsert") -> None:
        options = {**self.options, "hoodie.datasource.write.operation": operation}
        frame = self.spark.sql(sql).coalesce(1)
        frame.write.format("hudi").options(**options).mode("append").save(self.folder)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return the rows that Spark reads."""
        return sorted(map(tuple, self.spark.read.format("hudi").load(self.folder).select(*columns).collect()))


def rows_of(plan: ps.Plan, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in plan.to_arrow(columns).to_pylist())


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_records_that_keep_their_partition(spark: Any, tmp_path: Path, kind: str) -> None:
    """With a global index, a record can stay in its partition although its partition column changes."""
    needs("hudi")
    written = Written(
        spark,
        tmp_path / "t",
        **{
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.table.type": kind,
            **KEEPS_PARTITION,
        },
    )
    written.write("SELECT id, CAST(id % 2 AS INT) AS p, 0L AS v FROM range(6)", "bulk_insert")
    written.write("SELECT 4L AS id, 1 AS p, 1L AS v")
    expected = written.rows("id", "p", "v")
    assert (4, 0, 1) in expected
    table = ps.open_table(written.folder)
    for _ in range(2):
        assert rows_of(table.plan(), "id", "p", "v") == expected
        for part in (0, 1):
            for where in (f"p = {part}", f"p = {part} AND id >= 0", f"id IN (0, 1, 4) AND p = {part}"):
                plan = table.plan(where)
                found = [key for key, p, _ in expected if p == part and ("IN" not in where or key in (0, 1, 4))]
                assert ids_of(plan) == found, where
                assert ids(pss.read(spark, written.folder, where)) == found, where
        table.build_index(["id", "p"], kind="sieve", progress=False)


@pytest.mark.parametrize("line", ["", "hoodie.table.keygenerator.class=org.apache.hudi.keygen.SimpleKeyGenerator\n"])
def test_records_that_keep_their_partition_in_old_tables(spark: Any, tmp_path: Path, line: str) -> None:
    """Tables of Hudi 0.x have only the class of the key generator, or neither its class nor its type."""
    needs("hudi")
    written = Written(
        spark,
        tmp_path / "t",
        **{
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.write.table.version": "6",
            **KEEPS_PARTITION,
        },
    )
    written.write("SELECT id, 'x/y' AS p, 0L AS v FROM range(3)", "bulk_insert")
    written.write("SELECT id, 'z' AS p, 1L AS v FROM range(3)")
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = [other for other in properties.read_text().splitlines(True) if "keygenerator" not in other]
    properties.write_text("".join([*lines, line]))
    properties.with_name(".hoodie.properties.crc").unlink()
    assert written.rows("id", "p") == [(0, "x/y"), (1, "x/y"), (2, "x/y")]
    assert ids_of(ps.open_table(written.folder).plan("p = 'x/y'")) == [0, 1, 2]
    assert ids(pss.read(spark, written.folder, "p = 'x/y'")) == [0, 1, 2]


def test_indexes_with_the_partition_values_of_the_file(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """parsieve 0.1 took the values of partition columns from the file, so its index does not have the path's values."""
    needs("hudi")
    written = Written(
        spark,
        tmp_path / "t",
        **{
            "hoodie.datasource.write.partitionpath.field": "p",
            **KEEPS_PARTITION,
        },
    )
    written.write("SELECT id, 0 AS p, 0L AS v FROM range(6)", "bulk_insert")
    written.write("SELECT id, 1 AS p, 1L AS v FROM range(6)")
    table = ps.open_table(written.folder)
    with monkeypatch.context() as patches:
        patches.setattr(PartitionPaths, "values", lambda self, partition: {})
        table.build_index("p", kind="sieve", progress=False)
        assert table.plan("p = 0").files == []
    table = ps.open_table(written.folder)
    assert ids_of(table.plan("p = 0")) == list(range(6))
    assert table.update_index(progress=False).files_read == 1
    assert ids_of(table.plan("p = 0")) == list(range(6))


def ids_of(plan: ps.Plan) -> list[int]:
    """Return the ids of a plan's rows, and check that all readers return the same ones."""
    found = sorted(plan.to_arrow()["id"].to_pylist())
    assert sorted(plan.to_polars().collect()["id"].to_list()) == found
    return found


def test_logs_that_are_written_while_a_compaction_is_scheduled(spark: Any, tmp_path: Path) -> None:
    """In table version 6, the package `hudi` does not list these logs."""
    needs("hudi")
    written = Written(
        spark,
        tmp_path / "t",
        **{
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.write.table.version": "6",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        },
    )
    written.write("SELECT id, 'old' AS n, 0L AS v FROM range(4)", "bulk_insert")
    written.write("SELECT 1L AS id, 'one' AS n, 1L AS v")
    table = ps.open_table(written.folder)
    table.build_index("n", kind="sieve", progress=False)
    spark.sql(f"CREATE TABLE scheduled USING hudi LOCATION '{written.folder}'")
    options = "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false'"
    spark.sql(f"CALL run_compaction(op => 'schedule', table => 'scheduled', {options})").collect()
    assert rows_of(table.plan(), "id", "n") == written.rows("id", "n")
    before = table.opened.lake.snapshot().id
    written.write("SELECT 2L AS id, 'two' AS n, 2L AS v")
    plan = table.plan("n = 'two'")
    assert len(plan.files) == 1
    [file_slice] = plan.record.snapshot.slices
    assert file_slice.token.endswith("|hidden logs")
    assert ids(pss.read(spark, written.folder, "n = 'two'")) == [2]
    for call in (plan.to_arrow, lambda: table.build_index("n", kind="sieve", progress=False)):
        with pytest.raises(ps.UnsupportedError, match=r"since a compaction was scheduled.*; run the compaction"):
            call()
    assert len(table.update_index(progress=False).left_out) == 1
    assert len(table.plan("n = 'two'").files) == 1
    assert rows_of(table.plan(as_of=before), "id", "n") == [(0, "old"), (1, "one"), (2, "old"), (3, "old")]
    spark.sql(f"CALL run_compaction(op => 'run', table => 'scheduled', {options})").collect()
    assert rows_of(table.plan(), "id", "n") == written.rows("id", "n")
    assert rows_of(table.plan("n = 'two'"), "id") == [(2,)]
    table.update_index(progress=False)
    assert rows_of(table.plan("n = 'two'"), "id") == [(2,)]
    assert table.plan("n = 'three'").files == []
    spark.sql("DROP TABLE scheduled")


@pytest.mark.parametrize("version", ["8", "9"])
def test_logs_of_a_write_that_began_before_a_compaction_was_scheduled(spark: Any, tmp_path: Path, version: str) -> None:
    """Since table version 8, they belong to the base file of the compaction if the write completed later."""
    needs("hudi")
    written = Written(
        spark,
        tmp_path / "t",
        **{
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.write.table.version": version,
            "hoodie.write.auto.upgrade": "false",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        },
    )
    written.write("SELECT id, 'old' AS n, 0L AS v FROM range(4)", "bulk_insert")
    written.write("SELECT 1L AS id, 'one' AS n, 1L AS v")
    name = f"overtaken_{version}"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{written.folder}'")
    options = "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false'"
    spark.sql(f"CALL run_compaction(op => 'schedule', table => '{name}', {options})").collect()
    written.write("SELECT 2L AS id, 'two' AS n, 2L AS v")
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    [scheduled] = [path.name.partition(".")[0] for path in timeline.glob("*.compaction.requested")]
    began = max(path.name[:17] for path in timeline.glob("*.deltacommit"))
    replace_everywhere(tmp_path / "t", began, str(int(scheduled) - 1))
    spark.sql(f"REFRESH TABLE {name}")
    spark.sql(f"CALL run_compaction(op => 'run', table => '{name}', {options})").collect()
    check_overtaken(spark, written)
    # Other file groups get commits until the write is archived.
    archival = {"keep.min.commits": "2", "keep.max.commits": "3", "clean.commits.retained": "1"}
    written.options |= {f"hoodie.{name}": value for name, value in archival.items()}
    written.options |= {"hoodie.parquet.small.file.limit": "0", "hoodie.commits.archival.batch": "1"}
    for number in range(4):
        written.write(f"SELECT {10 + number}L AS id, 'more' AS n, 0L AS v", "insert")
    assert min(path.name[:17] for path in timeline.glob("*commit")) >= scheduled
    check_overtaken(spark, written)
    spark.sql(f"DROP TABLE {name}")


def check_overtaken(spark: Any, written: Written) -> None:
    table = ps.open_table(written.folder)
    tokens = [file_slice.token for file_slice in table.opened.lake.snapshot().slices]
    assert sum(token.endswith("|logs of earlier writes") for token in tokens) == 1
    rows = written.rows("id", "n")
    assert rows[:4] == [(0, "old"), (1, "one"), (2, "two"), (3, "old")]
    assert rows_of(table.plan(), "id", "n") == rows
    table.build_index("n", kind="sieve", progress=False)
    for text, expected in (("old", [0, 3]), ("two", [2])):
        assert ids_of(table.plan(f"n = '{text}'")) == expected
        assert ids(pss.read(spark, written.folder, f"n = '{text}'")) == expected


def replace_everywhere(folder: Path, old: str, new: str) -> None:
    """Replace a text of the same length in the names and bytes of all files, and delete Hadoop's checksums of them."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        data = path.read_bytes()
        if path.suffix == ".crc":
            path.unlink()
        elif old in path.name or old.encode() in data:
            path.write_bytes(data.replace(old.encode(), new.encode()))
            path.rename(path.with_name(path.name.replace(old, new)))


def test_file_groups_of_logs_only(spark: Any, tmp_path: Path) -> None:
    """If a table has Hudi's metadata table, the package `hudi` does not list them."""
    needs("hudi")
    written = Written(
        spark,
        tmp_path / "t",
        **{
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.index.type": "INMEMORY",
            "hoodie.metadata.enable": "true",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        },
    )
    written.write("SELECT id, 'old' AS n, 0L AS v FROM range(4)")
    table = ps.open_table(written.folder)
    plan = table.plan("n = 'old'")
    assert len(plan.kept) == 1
    with pytest.raises(ps.UnsupportedError, match="has logs but no base file"):
        plan.to_arrow()
    assert ids(pss.read(spark, written.folder, "n = 'old'")) == [0, 1, 2, 3]
    spark.sql(f"CREATE TABLE logs_only USING hudi LOCATION '{written.folder}'")
    for operation in ("schedule", "run"):
        options = "options => 'hoodie.compact.inline.max.delta.commits=1'"
        spark.sql(f"CALL run_compaction(op => '{operation}', table => 'logs_only', {options})").collect()
    assert rows_of(table.plan("n = 'old'"), "id") == [(0,), (1,), (2,), (3,)]
    spark.sql("DROP TABLE logs_only")


@pytest.mark.parametrize("damaged", [".", ".hoodie/timeline", "files", "logs"])
def test_tables_without_their_metadata_table(spark: Any, tmp_path: Path, damaged: str) -> None:
    """The package `hudi` then lists folders, where it omits partitions, or takes the table to be empty."""
    needs("hudi")
    options = {"hoodie.metadata.enable": "true", "hoodie.datasource.write.partitionpath.field": "p"}
    written = Written(spark, tmp_path / "t", **options)
    written.write(
        "SELECT 0L AS id, 'a/b' AS p, 0L AS v UNION ALL SELECT 1L, 'metadata', 0L UNION ALL SELECT 2L, 'c', 0L"
    )
    expected = written.rows("id", "p")
    metadata = tmp_path / "t" / ".hoodie" / "metadata"
    if damaged == "logs":
        for log in metadata.glob("files/.files-*.log.*"):
            log.unlink()
    else:
        shutil.rmtree(metadata / damaged)
    table = ps.open_table(written.folder)
    assert rows_of(table.plan(), "id", "p") == expected
    table.build_index("id", kind="sieve", progress=False)
    for number, part in expected:
        assert rows_of(table.plan(f"id = {number}"), "id", "p") == [(number, part)]
