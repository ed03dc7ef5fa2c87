"""`spark.read.format("parsieve")` returns the rows for which the option `where` is true."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark_tables import SparkTable, ids, needs, settled

import parsieve as ps
import parsieve.spark as pss
from parsieve.spark.runtime import versions
from parsieve.spark.runtime.java import choose, home_for

pyspark = pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark

OLD = tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < (4, 1)
CONDITIONS = [
    "id IN (1, 55, 1000)",
    "name NOT LIKE 'n4%' AND id < 20 AND part = 1",
    "price > 90 OR day = DATE '2026-01-07'",
    "id > 1000",
    "cost <= 1.25 AND NOT flag",
    "at < TIMESTAMP '1970-01-01 10:00:00'",
]


@pytest.fixture
def known(spark: Any) -> None:
    if OLD:
        pytest.skip("there is no such data source before PySpark 4.1")
    pss.register(spark)


def loaded(spark: Any, folder: Any, where: str | None = None, **options: str) -> Any:
    reader = spark.read.format("parsieve").options(timezone="UTC", **options)
    return (reader if where is None else reader.option("where", where)).load(str(folder))


def ids_of(frame: Any) -> list[int]:
    """Return the ids of the DataFrame itself, which keeps the files of its first execution."""
    return sorted(row.id for row in frame.collect())


def rows(frame: Any) -> list[str]:
    return sorted(map(str, frame.collect()))


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_rows_equal_those_of_sparks_own_read(spark: Any, known: None, tmp_path: Path, kind: str) -> None:
    needs(kind)
    made = SparkTable(spark, kind, f"source_{kind}", tmp_path / "a table")
    made.insert(0, 80)
    first = settled(ps.open_table(made.folder)).opened.lake.snapshot().id
    ps.open_table(made.folder).build_index(["id", "name"], kind="sieve", progress=False)
    made.delete("id = 7")
    made.update("name = 'new'", "id = 14")
    frame, whole = loaded(spark, made.folder), made.whole()
    assert [(one.name, one.dataType) for one in frame.schema] == [(one.name, one.dataType) for one in whole.schema]
    before = rows(whole)
    assert rows(frame) == before
    for where in CONDITIONS if kind == "parquet" else CONDITIONS[:3]:
        assert rows(loaded(spark, made.folder, where)) == rows(whole.where(where)), where
    if kind != "parquet":
        fixed = loaded(spark, made.folder)
        made.insert(80, 90)
        # The first DataFrame has the state of its load, although it was never executed.
        assert rows(fixed) == before
        assert ids(loaded(spark, made.folder, "id = 85")) == [85]
        assert ids(loaded(spark, made.folder, "id IN (7, 85)", as_of=str(first))) == [7]
    made.drop()


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Path:
    """Eight files over the same interval of ids, with an index in another place."""
    for part in range(8):
        held = pa.table({"id": range(part, 800, 8), "name": [f"n{number % 50}" for number in range(part, 800, 8)]})
        (tmp_path / "t").mkdir(exist_ok=True)
        pq.write_table(held, tmp_path / "t" / f"{part}.parquet")
        os.utime(tmp_path / "t" / f"{part}.parquet", (1, 1))
    # New files are not indexed yet, so wait.
    opened = settled(ps.open_table(tmp_path / "t", index_location=tmp_path / "index"))
    opened.build_index("id", kind="sieve", progress=False)
    return tmp_path / "t"


def damage(file: Path) -> None:
    """Overwrite all pages of a file, and keep its footer."""
    data = file.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little") + 8
    file.write_bytes(b"PAR1" + b"\xff" * (len(data) - footer - 4) + data[-footer:])
    os.utime(file, (1, 1))


def test_several_queries_of_one_dataframe(spark: Any, known: None, table: Path) -> None:
    frame = loaded(spark, table)
    assert ids(frame.where("id = 33")) == [33]
    assert ids(frame) == list(range(800))
    assert ids(frame.where("id = 34 OR id = 700")) == [34, 700]
    assert frame.count() == 800
    joined = frame.where("id < 30").join(frame.where("name = 'n7'").withColumnRenamed("name", "other"), "id")
    assert ids(joined) == [7]
    assert ids(frame.where("id = 1").union(frame.where("id = 2"))) == [1, 2]


def test_dataframes_with_other_conditions_share_nothing(spark: Any, known: None, table: Path) -> None:
    one, other, whole = (
        loaded(spark, table, "id < 20"),
        loaded(spark, table, "id BETWEEN 10 AND 29"),
        loaded(spark, table),
    )
    assert ids(one) == list(range(20))
    assert ids(other) == list(range(10, 30))
    assert ids(one.join(other.select("id"), "id")) == list(range(10, 20))
    assert ids(whole.join(one.select("id"), "id", "left_anti")) == list(range(20, 800))
    assert ids(one.union(other)) == sorted([*range(20), *range(10, 30)])
    one.cache()
    try:
        assert one.count() == 20
        assert ids(loaded(spark, table, "id BETWEEN 10 AND 29")) == list(range(10, 30))
        assert ids(loaded(spark, table)) == list(range(800))
        assert ids(one.where("id > 17")) == [18, 19]
    finally:
        one.unpersist()


def test_views_have_the_right_rows(spark: Any, known: None, table: Path) -> None:
    loaded(spark, table, "id < 20").createOrReplaceTempView("some")
    spark.sql(f"CREATE TEMPORARY VIEW others USING parsieve OPTIONS (path '{table}', where 'id >= 790')")
    try:
        assert ids(spark.sql("SELECT * FROM some WHERE id = 3")) == [3]
        assert spark.sql("SELECT count(*) AS n FROM some").first().n == 20
        assert spark.sql("SELECT count(*) AS n FROM some WHERE id = 500").first().n == 0
        both = "SELECT a.id FROM some a JOIN some b ON a.id = b.id + 1 WHERE a.id > 3 AND b.id < 5"
        assert ids(spark.sql(both)) == [4, 5]
        assert ids(spark.sql("SELECT id FROM others UNION ALL SELECT id FROM some WHERE id < 2")) == [
            0,
            1,
            *range(790, 800),
        ]
    finally:
        spark.catalog.dropTempView("some")
        spark.catalog.dropTempView("others")


def test_skipped_files_are_not_opened(spark: Any, known: None, table: Path) -> None:
    index = str(table.parent / "index")
    some, whole = (
        loaded(spark, table, "id IN (33, 41)", index_location=index),
        loaded(spark, table, index_location=index),
    )
    # The DataFrame keeps the files of its first execution. The index would not cover the damaged ones.
    assert ids_of(some) == [33, 41]
    assert len(ids_of(whole)) == 800
    for part in set(range(8)) - {1}:
        damage(table / f"{part}.parquet")
    assert ids_of(some) == [33, 41]
    with pytest.raises(Exception, match=r"ConflictError: .* was changed since the plan"):
        ids_of(whole)
    # By their footers, these files may contain the key, and conditions of Spark skip no file.
    with pytest.raises(Exception, match="FormatError"):
        loaded(spark, table, index_location=index).where("id = 33").collect()


def test_a_schema_selects_columns(spark: Any, known: None, table: Path) -> None:
    reader = spark.read.format("parsieve").schema("name STRING").option("where", "id = 33")
    assert reader.load(str(table)).collect() == [("n33",)]
    with pytest.raises(Exception, match="there is no column 'nothing'; the columns are: id, name"):
        spark.read.format("parsieve").schema("nothing INT").load(str(table)).collect()
    with pytest.raises(Exception, match="column id is bigint, not int; load it as bigint, and cast it"):
        spark.read.format("parsieve").schema("id INT").load(str(table)).collect()


def test_types_equal_those_of_sparks_own_read(spark: Any, known: None, tmp_path: Path) -> None:
    held = pa.table(
        {
            "id": pa.array([1, None, 3], pa.uint32()),
            "long": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "word": pa.array(["a", None, "a"]).dictionary_encode(),
            "large": pa.array(["a", "b", None], pa.large_string()),
            "fixed": pa.array([b"abc", None, b"def"], pa.binary(3)),
            "list": pa.array([["a", None], None, []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
            "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.uint8())),
            "struct": pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}]),
            "zoned": pa.array([-1, 0, None], pa.timestamp("us", "Europe/Madrid")),
            "clock": pa.array([-1, 0, None], pa.timestamp("ms")),
        }
    )
    pq.write_table(held, tmp_path / "t.parquet")
    frame, whole = loaded(spark, tmp_path / "t.parquet"), spark.read.parquet(str(tmp_path / "t.parquet"))
    assert [(one.name, one.dataType) for one in frame.schema] == [(one.name, one.dataType) for one in whole.schema]
    assert rows(frame) == rows(whole)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "no table to load"),
        ({"path": "{table}", "wher": "id = 1"}, "unknown options: wher; options are path, where"),
        ({"path": "{table}", "where": "nothing = 1"}, "nothing"),
        ({"path": "{table}", "where": "reverse(name) = 'N1'"}, "is not understood"),
        ({"path": "{table}", "as_of": "3"}, "has no earlier states"),
        ({"path": "{table}", "storage_options": "secret"}, "storage_options must be a JSON object"),
        ({"path": "{table}/nowhere"}, "nowhere"),
    ],
)
def test_load_reports_wrong_options(spark: Any, known: None, table: Path, options: dict[str, str], said: str) -> None:
    reader = spark.read.format("parsieve")
    with pytest.raises(Exception, match=said):
        reader.options(**{name: value.format(table=table) for name, value in options.items()}).load()


def test_spark_shares_pushed_filters_between_queries(spark: Any, known: None) -> None:
    """If this fails, Spark no longer shares partitions between queries, and the source could use `pushFilters`."""
    from pyspark.sql import datasource

    class Pushed(datasource.DataSourceReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.asked: list[Any] = []

        def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802
            self.asked = filters
            return filters

        def partitions(self) -> list[Any]:
            wanted = [one.value for one in self.asked if isinstance(one, datasource.EqualTo)] or range(3)
            return [datasource.InputPartition(number) for number in wanted]

        def read(self, partition: Any) -> Iterator[tuple[int]]:
            yield (partition.value,)

    class Numbers(datasource.DataSource):  # type: ignore[misc]
        @classmethod
        def name(cls) -> str:
            return "numbers_pushed"

        def schema(self) -> str:
            return "id INT"

        def reader(self, schema: Any) -> Pushed:
            return Pushed()

    spark.dataSource.register(Numbers)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert ids(spark.read.format("numbers_pushed").load()) == [0, 1, 2]
        frame = spark.read.format("numbers_pushed").load()
        assert ids(frame.where("id = 1")) == [1]
        assert ids(frame) == [1], "Spark has lost two rows"
        joined = spark.read.format("numbers_pushed").load()
        assert ids(joined.where("id = 1").union(joined.where("id = 2"))) == [2], "Spark has lost a row"
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


CONNECTED = """
import sys
from pyspark.sql import SparkSession
import parsieve.spark as pss

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
pss.register(spark)
load = spark.read.format("parsieve").option("index_location", sys.argv[2])
frame = load.option("where", "id IN (33, 41)").load(sys.argv[1])
print("one", *(row.name for row in frame.where("id = 41").collect()))
print("ids", *sorted(row.id for row in frame.collect()))
spark.stop()
"""


def test_spark_connect_reads_the_source(spark: Any, known: None, table: Path) -> None:
    pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
    installed = versions.installed()
    environment = os.environ | {
        "JAVA_HOME": str(home_for(choose(installed), installed)),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": "--driver-memory 512m --conf spark.ui.enabled=false pyspark-shell",
    }
    command = [sys.executable, "-W", "ignore", "-c", CONNECTED, str(table), str(table.parent / "index")]
    done = subprocess.run(
        command, env=environment, cwd=table.parent, capture_output=True, text=True, timeout=1000, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["one n41", "ids 33 41"]


def test_older_sessions_are_refused(spark: Any) -> None:
    if not OLD:
        pytest.skip("it is there")
    with pytest.raises(ps.UnsupportedError, match=r"PySpark 4\.1 or newer, but this is 3\.5"):
        pss.register(spark)
