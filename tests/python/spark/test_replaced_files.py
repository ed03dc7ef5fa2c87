"""A file of a plain folder that is replaced between the plan and the read is read in full, or is a conflict."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark_tables import ids, settled

import parsieve as ps
import parsieve.spark as pss

pytestmark = pytest.mark.spark
KEY = 5
CHANGED = "ConflictError: .* changed since the plan"


def put(path: Path, rows: list[int], group: int = 100) -> None:
    """Replace a file atomically, by a rename."""
    new = path.with_name(f".{path.name}.new")
    pq.write_table(pa.table({"id": rows}), new, row_group_size=group, compression="none", use_dictionary=False)
    new.replace(path)


def short() -> list[int]:
    return [KEY, *range(1000, 1099)]


def longer() -> list[int]:
    """Return a file many times as long, with the key at its end."""
    return [*range(2000, 6999), KEY]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "orders"
    path.mkdir()
    for number in range(3):
        put(
            path / f"part-{number}.parquet",
            short() if number == 1 else [*range(10_000 * (number + 1), 10_000 * (number + 1) + 50)],
        )
    return path


def test_a_longer_file_is_read_to_its_end(spark: Any, folder: Path) -> None:
    """Without the current size, Spark would read the file only up to its size when it was listed."""
    table = settled(ps.open_table(folder))
    spark.sql(f"CREATE TABLE replaced (id BIGINT) USING parquet LOCATION '{folder}'")
    spark.table("replaced").count()
    frame, alone = pss.read(spark, table), spark.read.parquet(str(folder))
    put(folder / "part-1.parquet", longer())
    assert ids(alone.where(f"id = {KEY}")) == [], "that is what this is about"
    assert ids(frame.where(f"id = {KEY}")) == [KEY]
    assert frame.count() == 5100
    named = pss.read(spark, "replaced")
    assert ids(named.where(f"id = {KEY}")) == [KEY]
    put(folder / "part-1.parquet", short())
    assert ids(frame.where(f"id = {KEY}")) == [KEY]
    assert ids(named.where(f"id = {KEY}")) == [KEY]
    assert frame.count() == 200
    spark.sql("DROP TABLE replaced")


def test_a_file_replaced_between_plan_and_read_is_a_conflict(spark: Any, folder: Path) -> None:
    table = settled(ps.open_table(folder))
    planned = table.plan(f"id = {KEY}").to_spark(spark)
    read = pss.read(spark, table, f"id = {KEY}")
    assert ids(planned) == ids(read) == [KEY]
    # A query that runs again has the files of the first run.
    again = read.select("id")
    assert len(again.collect()) == 1
    put(folder / "part-1.parquet", longer())
    with pytest.raises(Exception, match=CHANGED):
        planned.collect()
    with pytest.raises(Exception, match=CHANGED):
        again.collect()
    assert ids(read) == [KEY]
    assert ids(table.plan(f"id = {KEY}").to_spark(spark)) == [KEY]
    (folder / "part-1.parquet").unlink()
    with pytest.raises(Exception, match=r"(?i)changed since the plan|does not exist"):
        again.collect()


def test_no_setting_hides_a_conflict(spark: Any, folder: Path) -> None:
    table = settled(ps.open_table(folder))
    for setting in ("spark.sql.files.ignoreCorruptFiles", "spark.sql.files.ignoreMissingFiles"):
        spark.conf.set(setting, "true")
        try:
            frame = table.plan(f"id = {KEY}").to_spark(spark)
            put(folder / "part-1.parquet", longer())
            with pytest.raises(Exception, match=CHANGED):
                frame.collect()
        finally:
            spark.conf.unset(setting)


def test_parts_of_a_file_have_one_version(spark: Any, folder: Path) -> None:
    """Several tasks read a large file. They must not read parts of different versions."""
    table = settled(ps.open_table(folder))
    put(folder / "part-1.parquet", longer())
    spark.conf.set("spark.sql.files.maxPartitionBytes", "10000")
    try:
        frame = pss.read(spark, table).where(f"id = {KEY}")
        assert frame.rdd.getNumPartitions() > 3
        assert ids(frame) == [KEY]
        rows = frame.toLocalIterator()
        put(folder / "part-1.parquet", list(reversed(longer())))
        with pytest.raises(Exception, match=CHANGED):
            list(rows)
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_a_setting_selects_the_reader_of_spark(spark: Any, folder: Path) -> None:
    def reader(frame: Any) -> str:
        scan = frame._jdf.queryExecution().analyzed().collectLeaves().head()
        return str(scan.relation().fileFormat().getClass().getSimpleName())

    assert reader(pss.read(spark, folder)) == "WatchedParquet"
    spark.conf.set("spark.parsieve.watchFiles", "false")
    try:
        assert reader(pss.read(spark, folder)) == "ParquetFileFormat"
        assert ids(pss.read(spark, folder, f"id = {KEY}")) == [KEY]
    finally:
        spark.conf.unset("spark.parsieve.watchFiles")


def race(spark: Any, folder: Path, reads: int) -> Counter[str]:
    """Count how reads end while files are replaced 30 times a second. Every version of the files contains the key.

    If every read meets a replacement, because the machine is slow, the writer slows down until some do not.
    """
    table, stop = ps.open_table(folder), threading.Event()
    versions = itertools.cycle([short(), longer(), list(reversed(longer())), list(reversed(short()))])
    names = itertools.cycle(["part-0.parquet", "part-1.parquet", "part-2.parquet"])

    def write() -> None:
        while not stop.wait(pause[0]):
            put(folder / next(names), next(versions), 50)

    def planned() -> Any:
        return table.plan(f"id = {KEY}").to_spark(spark)

    kept = pss.read(spark, table)
    ways: list[Callable[[], Any]] = [
        planned,
        lambda: pss.read(spark, table, f"id = {KEY}"),
        lambda: kept.where(f"id = {KEY}"),
        lambda: pss.read(spark, str(folder)).where(f"id = {KEY}"),
    ]
    writer = threading.Thread(target=write, daemon=True)
    found: Counter[str] = Counter()
    pause, conflicts = [1 / 30], 0
    writer.start()
    try:
        for way in itertools.islice(itertools.cycle(ways), reads):
            end = _end(way)
            found[end] += 1
            conflicts = conflicts + 1 if end == "conflict" else 0
            pause[0] = pause[0] * 2 if conflicts >= 3 else max(1 / 30, pause[0] / 4)
    finally:
        stop.set()
        writer.join()
    assert [_end(way) for way in ways] == ["key"] * len(ways)
    return found


def _end(way: Callable[[], Any]) -> str:
    try:
        answer = ids(way())
    except Exception as error:
        # The cause of Java's error is the error of the reader.
        is_conflict = isinstance(error, ps.ConflictError) or "changed since the plan" in str(error)
        return "conflict" if is_conflict else f"error: {error}"
    return "key" if set(answer) == {KEY} else f"rows: {answer}"


@pytest.mark.parametrize("reads", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_random_replacements_while_spark_reads_lose_no_row(spark: Any, tmp_path: Path, reads: int) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    for number in range(3):
        put(folder / f"part-{number}.parquet", short())
    found = race(spark, folder, reads)
    assert set(found) <= {"key", "conflict"}, found
    assert found["key"], found
