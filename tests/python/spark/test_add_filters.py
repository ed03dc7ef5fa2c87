"""`pss.add_filters` adds the same filters as one process, and only once, even if tasks run twice."""

from __future__ import annotations

import doctest
import inspect
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.spark_tables import wait_until_old

import parsieve as ps
import parsieve.spark as pss
from parsieve.index import TableIndex, View
from parsieve.index.bloom.build import build as build_bloom
from parsieve.index.local_executor import LocalExecutor
from parsieve.index.log import bindings
from parsieve.index.log.columns import field_id_of
from parsieve.index.log.log import Log
from parsieve.io.store.local import LocalStore
from parsieve.lake import Lake, Snapshot, open_lake
from parsieve.lake.storage.storage import Storage
from parsieve.spark.build import bloom, filter_files
from parsieve.spark.build.executor import SparkExecutor
from parsieve.spark.runtime import versions

pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = pytest.mark.spark
ROWS = 3000


def rows(number: int) -> pa.Table:
    keys = [None if row % 50 == 0 else row * 7 + number for row in range(ROWS)]
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"{number} {key}" for key in keys], "load": keys})


def plain(folder: Path, files: int = 6) -> Path:
    for number in range(files):
        below = folder / f"part={number % 2}"
        below.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(number), below / f"{number}.parquet", row_group_size=1000)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.parquet"))}


def summary(frame: Any) -> dict[str, Any]:
    return {Path(row.path).name: row for row in frame.collect()}


def test_executors_add_the_same_filters_as_one_process(spark: Any, tmp_path: Path) -> None:
    folder = plain(tmp_path / "t")
    shutil.copytree(folder, tmp_path / "local")
    # The rows before filters are added.
    before = spark.read.parquet(str(folder)).orderBy("k", "part", "s").collect()
    (folder / "part=0" / "broken.parquet").write_bytes(b"PAR1 and nothing of it is true PAR1")
    done = summary(pss.add_filters(spark, str(folder), ["k", "s"], fpp=0.001))
    assert len(done) == 7
    broken = done.pop("broken.parquet")
    assert (broken.status, broken.filters, broken.bytes) == ("failed", 0, 0)
    assert "FormatError" in broken.error
    assert {(row.status, row.filters, row.error) for row in done.values()} == {("added", 6, None)}
    assert all(row.bytes > 1000 and row.seconds > 0 for row in done.values())
    (folder / "part=0" / "broken.parquet").unlink()
    for path in sorted((tmp_path / "local").rglob("*.parquet")):
        ps.add_filters(path, columns=["k", "s"], fpp=0.001)
    assert contents(folder) == contents(tmp_path / "local")
    assert spark.read.parquet(str(folder)).orderBy("k", "part", "s").collect() == before
    assert not [path for path in folder.rglob(".*") if path.suffix == ".tmp"]


def test_an_interrupted_run_can_be_repeated(spark: Any, tmp_path: Path) -> None:
    folder = plain(tmp_path / "t")
    paths = sorted(folder.rglob("*.parquet"))
    ps.add_filters(paths[0], columns=["k", "s"])
    ps.add_filters(paths[1], columns="k")
    # A killed task leaves such a file, which no reader uses.
    (folder / "part=0" / ".parsieve-0123.tmp").write_bytes(b"half a file")
    times = [path.stat().st_mtime_ns for path in paths]
    done = summary(pss.add_filters(spark, str(folder), ["k", "s"]))
    told = [(done[path.name].status, done[path.name].filters) for path in paths]
    assert told == [("unchanged", 0), ("added", 3), *[("added", 6)] * 4]
    assert paths[0].stat().st_mtime_ns == times[0]
    again = contents(folder)
    assert {row.status for row in summary(pss.add_filters(spark, str(folder), ["k", "s"])).values()} == {"unchanged"}
    assert contents(folder) == again
    replaced = summary(pss.add_filters(spark, str(folder), "k", fpp=0.0001, existing="replace"))
    assert {(row.status, row.filters) for row in replaced.values()} == {("added", 3)}
    for number, path in enumerate(sorted(folder.rglob("*.parquet"), key=lambda path: path.name)):
        with ps.open_filters(path) as filters:
            assert len(filters.ranges()) == 6
            assert [filters.might_contain({"k": key}) for key in (7 + number, 7 * 1500 + 7 + number)] == [
                [True, False, False],
                [False, True, False],
            ]


@pytest.mark.parametrize("replace", [False, True])
def test_concurrent_attempts_of_a_task_add_filters_once(tmp_path: Path, replace: bool) -> None:
    """Eight attempts run on the same file, like speculative tasks and retries. Only one adds filters."""
    folder = plain(tmp_path / "t", 1)
    pq.write_table(rows(3), folder / "part=0" / "0.parquet", row_group_size=100)
    wait_until_old(folder)
    storage = Storage(str(folder))
    [file] = storage.list()
    assert file.token
    options = {"columns": ["k", "s"], "fpp": 0.01, "threads": 1, "upload": False}
    with ThreadPoolExecutor(8) as pool:
        twins = [pool.submit(filter_files.add_to_file, storage, file, options, replace) for _ in range(8)]
        done = [twin.result()[0] for twin in twins]
    assert sorted(one.status for one in done) == ["added", *["unchanged"] * 7], done
    with ps.open_filters(file.path) as filters:
        assert len(filters.ranges()) == 60
    # The first attempt added the filters, and its result was lost.
    once = Path(file.path).read_bytes()
    again, _ = filter_files.add_to_file(storage, file, options, replace)
    assert again.status == "unchanged"
    assert Path(file.path).read_bytes() == once
    assert pq.read_table(file.path, partitioning=None).equals(rows(3))


def test_an_attempt_that_ends_after_the_check_is_detected(tmp_path: Path) -> None:
    """Otherwise the filters would be replaced by equal ones, and the file would grow by the old ones."""
    folder = plain(tmp_path / "t", 1)
    wait_until_old(folder)
    [file] = Storage(str(folder)).list()
    options = {"columns": "k", "fpp": 0.01, "threads": 1, "upload": False}
    twins: list[str] = []

    class Slow(Storage):
        def stat(self, path: str) -> str:
            found = super().stat(path)
            if not twins:
                twins.append(filter_files.add_to_file(Storage(str(folder)), file, options, True)[0].status)
            return found

    assert filter_files.add_to_file(Slow(str(folder)), file, options, True)[0].status == "unchanged"
    assert twins == ["added"]


def test_a_wrong_argument_is_an_error_and_a_damaged_file_is_reported(spark: Any, tmp_path: Path) -> None:
    folder = plain(tmp_path / "t", 2)
    before = contents(folder)
    with pytest.raises(ps.ColumnNotFoundError, match="nothing"):
        pss.add_filters(spark, str(folder), "nothing")
    for wrong in ({"fpp": 2.0}, {"existing": "error"}):
        with pytest.raises(ValueError, match=r"fpp|existing"):
            pss.add_filters(spark, str(folder), "k", **wrong)
    assert contents(folder) == before
    os.link(folder / "part=0" / "0.parquet", tmp_path / "another name")
    pq.write_table(pa.table({"other": [1]}), folder / "part=0" / "odd.parquet")
    done = summary(pss.add_filters(spark, str(folder), {"k": {"fpp": 0.001}}))
    assert {name: row.status for name, row in done.items()} == {
        "0.parquet": "failed",
        "1.parquet": "added",
        "odd.parquet": "failed",
    }
    assert "hard links" in done["0.parquet"].error
    assert "ColumnNotFoundError" in done["odd.parquet"].error
    assert summary(pss.add_filters(spark, str(folder), "k", hard_links="break"))["0.parquet"].status == "added"
    chosen = summary(pss.add_filters(spark, str(folder)))
    assert chosen["0.parquet"].filters == 6, "auto takes s and load, too"


def shelves(view: View) -> dict[Any, list[tuple[bytes, bytes]]]:
    return {
        path: [(shelf.directory.get(view.store), view.store.get(shelf.rows.name)) for shelf in state.shelves]
        for path, state in view.commit.blooms.items()
    }


def some_table(spark: Any, folder: Path, lake: str) -> tuple[Any, str]:
    """Create a table with two writes and a delete. Return the argument for `add_filters`, and the folder."""
    if lake not in versions.installed().jars:
        pytest.skip(f"no jars of {lake} for this PySpark")
    frame = spark.range(4000).selectExpr("id AS k", "CASE WHEN id % 10 = 0 THEN NULL ELSE 'n' || id END AS s")
    if lake == "delta":
        frame.repartition(3).write.format("delta").option("delta.enableDeletionVectors", "true").save(str(folder))
        spark.sql(f"DELETE FROM delta.`{folder}` WHERE k < 5")
        return str(folder), str(folder)
    if lake == "hudi":
        settings = {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "k",
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.compact.inline": "false",
        }
        for rows in (frame, frame.where("k < 5").selectExpr("k", "'later' AS s")):
            rows.coalesce(1).write.format("hudi").options(**settings).mode("append").save(str(folder))
        return str(folder), str(folder)
    name = f"iceberg.adding.t{time.monotonic_ns()}"
    spark.sql(
        f"CREATE TABLE {name} (k BIGINT, s STRING) USING iceberg "
        "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    frame.coalesce(2).writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE k < 5")
    warehouse = str(spark.conf.get("spark.sql.catalog.iceberg.warehouse")).removeprefix("file:")
    return name, f"{warehouse}/{name.removeprefix('iceberg.').replace('.', '/')}"


def local_bloom(lake: Lake, snapshot: Snapshot, where: Path, columns: list[str], **options: Any) -> View:
    return TableIndex(where).build_bloom(lake, snapshot, columns, **options)


@pytest.mark.parametrize("lake", ["delta", "iceberg", "hudi"])
def test_lake_tables_get_a_bloom_index(spark: Any, tmp_path: Path, lake: str) -> None:
    table, place = some_table(spark, tmp_path / "t", lake)
    before = contents(Path(place))
    done = pss.add_filters(spark, table, ["k", "s"], index_location=tmp_path / "index").collect()
    opened = open_lake(place)
    snapshot = opened.snapshot()
    assert contents(Path(place)) == before
    assert [(row.status, row.filters, row.error) for row in done] == [("added", 2, None)] * len(snapshot.slices)
    assert [row.path for row in done] == [piece.path for piece in snapshot.slices]
    assert all(row.bytes > 1000 for row in done)
    view = TableIndex(tmp_path / "index").newest()
    assert view is not None
    local = local_bloom(opened, snapshot, tmp_path / "local", ["k", "s"])
    assert shelves(view) == shelves(local)
    assert bindings.read(view.store, view.commit.blooms["s",].bindings).tokens == snapshot.tokens
    # The temporary files of the executors are deleted.
    named = {part.name for state in view.commit.blooms.values() for part in state.parts()}
    assert {one.name for one in LocalStore(tmp_path / "index").list("shelves")} <= named
    again = pss.add_filters(spark, table, ["k", "s"], index_location=tmp_path / "index").collect()
    assert [(row.status, row.filters) for row in again] == [("unchanged", 0)] * len(again)
    assert TableIndex(tmp_path / "index").newest().version == view.version  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="name the columns"):
        pss.add_filters(spark, table)
    reader = view.bloom("k", field_id_of(snapshot.schema.field("k")))
    assert reader is not None
    assert any(reader.may_match(pa.array([3999]), snapshot.slices).to_pylist())
    assert not any(reader.may_match(pa.array([10**12 + 1]), snapshot.slices).to_pylist())


def test_the_bloom_index_of_a_folder_equals_the_one_of_one_process(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = plain(tmp_path / "t")
    pq.write_table(rows(0).slice(0, 0), folder / "part=0" / "empty.parquet")
    pq.write_table(
        pa.table({"k": ["no", "numbers"], "s": ["x", "y"], "load": [1, 2]}), folder / "part=1" / "odd.parquet"
    )
    wait_until_old(folder)
    lake = open_lake(str(folder))
    snapshot = lake.snapshot()
    view = pss.build_index(spark, str(folder), ["k", "s"], kind="bloom", fpp=0.001, index_location=tmp_path / "index")
    local = TableIndex(tmp_path / "local")
    assert shelves(view) == shelves(local.build_bloom(lake, snapshot, ["k", "s"], fpp=0.001))
    assert len(view.commit.blooms["k",].shelves) == 1
    # Small shelves, and temporary files with a single filter.
    monkeypatch.setattr(bloom, "FILE_BYTES", 1)
    executor = SparkExecutor(spark, LocalStore(tmp_path / "small"), shelf_bytes=9000)
    small = View(executor.store, build_bloom(Log(executor.store), lake, snapshot, ["s"], executor), lambda: None)
    local_executor = LocalExecutor(LocalStore(tmp_path / "same"), memory=4 * 9000)
    same = build_bloom(Log(LocalStore(tmp_path / "same")), lake, snapshot, ["s"], local_executor)
    assert len(same.blooms["s",].shelves) > 2
    assert shelves(small) == shelves(View(LocalStore(tmp_path / "same"), same, lambda: None))
    # One file is new, one has changed, one is gone.
    pq.write_table(rows(9), folder / "part=1" / "9.parquet")
    pq.write_table(rows(10), folder / "part=0" / "0.parquet")
    (folder / "part=0" / "2.parquet").unlink()
    wait_until_old(folder)
    view = pss.update_index(spark, str(folder), index_location=tmp_path / "index")
    updated = local.update(lake, lake.snapshot(), progress=False)
    assert view.version == updated.version == 2
    assert shelves(view) == shelves(updated)
    assert len(view.commit.blooms["k",].shelves) == 2
    monkeypatch.setattr("parsieve.index.bloom.update.MAX_SHELVES", 1)
    pq.write_table(rows(11), folder / "part=0" / "11.parquet")
    wait_until_old(folder)
    view = pss.update_index(spark, str(folder), index_location=tmp_path / "index")
    assert shelves(view) == shelves(local.update(lake, lake.snapshot(), progress=False))
    assert len(view.commit.blooms["k",].shelves) == 1
    snapshot = lake.snapshot()
    reader = view.bloom("k")
    assert reader is not None
    found = reader.may_match(pa.array([7 * 7 + 11]), snapshot.slices).to_pylist()
    kept = {piece.group.rpartition("/")[2] for piece, keep in zip(snapshot.slices, found, strict=True) if keep}
    assert "11.parquet" in kept
    assert "odd.parquet" in kept, "what cannot be read belongs to every answer"
    assert len(kept) < 5
    wrongs: list[dict[str, Any]] = [{"parts": 2}, {"options": {}}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="Sieve"):
            pss.build_index(spark, lake, "k", kind="bloom", **wrong)


def test_the_docstring_example_runs(spark: Any) -> None:
    text = inspect.getdoc(pss.add_filters) or ""
    test = doctest.DocTestParser().get_doctest(text, {"spark": spark}, "add_filters", None, None)
    said: list[str] = []
    assert doctest.DocTestRunner().run(test, out=said.append).failed == 0, "".join(said)


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_files_are_changed_once_and_only_inside_the_folder(spark: Any, tmp_path: Path) -> None:
    folder, elsewhere = plain(tmp_path / "t", 2), plain(tmp_path / "elsewhere", 1)
    before = contents(elsewhere)
    (folder / "part=0" / "again.parquet").symlink_to("0.parquet")
    (folder / "part=1" / "link.parquet").symlink_to(elsewhere / "part=0" / "0.parquet")
    (folder / "part=2").symlink_to(elsewhere / "part=0")
    done = {str(Path(row.path).relative_to(folder)): row for row in pss.add_filters(spark, str(folder), "k").collect()}
    assert {name: row.status for name, row in done.items()} == {
        "part=0/0.parquet": "added",
        "part=1/1.parquet": "added",
        "part=1/link.parquet": "failed",
        "part=2/0.parquet": "failed",
    }
    assert done["part=2/0.parquet"].error.startswith("a link leads out of the folder")
    assert contents(elsewhere) == before
