"""Files that are replaced after the plan: each way to rows gives the rows of one version, or a conflict."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import obstore.store
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.lake.rows.checked_files import CheckedFiles, Opened, Request
from parsieve.lake.storage.pinned import Pinned, local_version
from parsieve.lake.storage.storage import Storage
from parsieve.plan import polars_source

# Both versions hold k = 5, in other row groups.
OLD, NEW = [5, 6, 100, 101], [100, 101, 5, 6]


def write(path: Path, keys: list[int], version: str = "", **options: Any) -> None:
    """Replace a file by rename."""
    table = pa.table({"k": keys, "version": [version] * len(keys)})
    part = path.with_name(f".{path.name}.part")
    pq.write_table(table, part, row_group_size=2, compression="none", use_dictionary=False, **options)
    part.replace(path)


def overwrite(path: Path, keys: list[int], version: str = "") -> None:
    """Replace what a file holds, in place."""
    write(path.with_name(".other"), keys, version)
    path.write_bytes(path.with_name(".other").read_bytes())


def settled(folder: Path) -> None:
    """Make files old enough for their tokens to prove something."""
    for path in folder.glob("*.parquet"):
        while not Storage(str(folder)).stat(str(path)):
            time.sleep(0.01)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    write(folder / "a.parquet", OLD, "old")
    settled(folder)
    return folder / "a.parquet"


@pytest.fixture(autouse=True)
def lazy_relations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have DuckDB read all results later, as it does with large ones; `test_duckdb_rows.py` tests the others."""
    monkeypatch.setattr("parsieve.plan.duckdb_source.MOST_BYTES", 0)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


def versions(table: Any) -> list[str]:
    found: list[str] = table["version"].to_pylist()
    return found


def written(dataset: pads.Dataset) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        pads.write_dataset(dataset, folder, format="parquet")
        return versions(pads.dataset(folder).to_table())


def resolved(frame: pl.LazyFrame) -> list[str]:
    """Have Polars look at the schema first, which it remembers with the frame."""
    assert "version" in frame.collect_schema()
    found: list[str] = frame.collect()["version"].to_list()
    return found


# Each takes a plan and gives what reads it, as often as it is called.
Later = Callable[[], list[str]]
LAZY: dict[str, Callable[[ps.Plan, Any], Later]] = {
    "dataset": lambda plan, con: (lambda found: lambda: versions(found.to_table()))(plan.to_dataset()),
    "dataset_batches": lambda plan, con: (
        lambda found: lambda: versions(pa.Table.from_batches(found.to_batches(), found.schema))
    )(plan.to_dataset()),
    "dataset_head": lambda plan, con: (lambda found: lambda: versions(found.head(10)))(plan.to_dataset()),
    "dataset_take": lambda plan, con: (lambda found: lambda: versions(found.take([0])))(plan.to_dataset()),
    "dataset_filter": lambda plan, con: (lambda found: lambda: versions(found.filter(pads.field("k") < 50).to_table()))(
        plan.to_dataset()
    ),
    "dataset_sorted": lambda plan, con: (lambda found: lambda: versions(found.sort_by("k").to_table()))(
        plan.to_dataset()
    ),
    "dataset_joined": lambda plan, con: (
        lambda found: lambda: versions(found.join(pads.dataset(pa.table({"k": [5]})), "k").to_table())
    )(plan.to_dataset()),
    "dataset_schema": lambda plan, con: (
        lambda found: lambda: versions(found.replace_schema(pa.schema({"k": "int64", "version": "string"})).to_table())
    )(plan.to_dataset()),
    "dataset_scanner": lambda plan, con: (lambda found: lambda: versions(found.to_table()))(
        plan.to_dataset().scanner()
    ),
    "dataset_reader": lambda plan, con: (lambda found: lambda: versions(found.scanner().to_reader().read_all()))(
        plan.to_dataset()
    ),
    "dataset_tagged": lambda plan, con: (
        lambda found: (
            lambda: [one for tagged in found.scanner().scan_batches() for one in versions(tagged.record_batch)]
        )
    )(plan.to_dataset()),
    "dataset_pickled": lambda plan, con: (lambda found: lambda: versions(pickle.loads(found).to_table()))(
        pickle.dumps(plan.to_dataset())
    ),
    "dataset_counted": lambda plan, con: (lambda found: lambda: ["any"] * found.count_rows())(plan.to_dataset()),
    "dataset_written": lambda plan, con: (lambda found: lambda: written(found))(plan.to_dataset()),
    "polars": lambda plan, con: (lambda found: lambda: found.collect()["version"].to_list())(plan.to_polars()),
    "polars_resolved": lambda plan, con: (lambda found: lambda: resolved(found))(plan.to_polars()),
    "polars_streaming": lambda plan, con: (
        lambda found: lambda: found.select("version").collect(engine="streaming")["version"].to_list()
    )(plan.to_polars()),
    "polars_dataset": lambda plan, con: (lambda found: lambda: found.collect()["version"].to_list())(
        pl.scan_pyarrow_dataset(plan.to_dataset())
    ),
    "duckdb": lambda plan, con: (lambda found: lambda: [one for (one,) in found.fetchall()])(
        plan.to_duckdb(con).project("version")
    ),
    "arrow": lambda plan, con: lambda: versions(plan.to_arrow()),
    "batches": lambda plan, con: lambda: [one for batch in plan.to_batches() for one in versions(batch)],
}


@pytest.mark.parametrize("way", LAZY)
@pytest.mark.parametrize("put", [write, overwrite], ids=["by_rename", "in_place"])
def test_a_file_replaced_between_the_plan_and_each_reading(
    file: Path, way: str, put: Callable[..., None], con: duckdb.DuckDBPyConnection
) -> None:
    """Reading later, and reading again, follows the file."""
    plan = ps.open_table(file.parent).plan("k = 5", row_groups=True)
    assert plan.row_groups[str(file)] == [0]
    later = LAZY[way](plan, con)
    put(file, NEW, "new")
    assert later() in (["new"], ["any"])
    assert later() in (["new"], ["any"])
    put(file, OLD, "newer")
    assert later() in (["newer"], ["any"])


@pytest.mark.parametrize("way", LAZY)
def test_a_file_replaced_between_plan_and_hand_off(file: Path, way: str, con: duckdb.DuckDBPyConnection) -> None:
    plan = ps.open_table(file.parent).plan("k = 5", row_groups=True)
    write(file, NEW, "new")
    assert LAZY[way](plan, con)() in (["new"], ["any"])


@pytest.mark.parametrize("way", LAZY)
def test_a_file_that_is_gone_is_a_conflict(file: Path, way: str, con: duckdb.DuckDBPyConnection) -> None:
    write(file.with_name("b.parquet"), OLD, "b")
    plan = ps.open_table(file.parent).plan("k = 5")
    later = LAZY[way](plan, con)
    file.unlink()
    with pytest.raises((ps.ConflictError, duckdb.Error), match="removed since the plan"):
        later()


@pytest.mark.parametrize("way", LAZY)
@pytest.mark.parametrize(
    "other", [{"key": [5]}, {"k": ["5"], "version": ["new"]}, {"k": [2**40], "version": [b"\xff"]}]
)
def test_a_file_replaced_by_one_with_other_columns_is_a_conflict(
    file: Path, way: str, other: dict[str, Any], con: duckdb.DuckDBPyConnection
) -> None:
    if "counted" in way and "version" in other:
        pytest.skip("the column that has other values is not needed to count")
    plan = ps.open_table(file.parent).plan("k = 5")
    later = LAZY[way](plan, con)
    pq.write_table(pa.table(other), file)
    with pytest.raises((ps.ConflictError, duckdb.Error), match=r"plan again"):
        later()


def test_a_held_file_is_read_as_it_was(file: Path) -> None:
    """A file that loses its name while it is read is still the planned one."""
    storage = Storage(str(file.parent))
    pinned = Pinned(storage, str(file))
    assert pinned.version == local_version(file.stat())
    assert pinned.version.token == storage.stat(str(file))
    write(file, NEW, "new")
    assert pinned.is_unchanged()
    assert set(pq.read_table(pinned.open())["version"].to_pylist()) == {"old"}
    file.unlink()
    assert pinned.is_unchanged()
    pinned.close()


def test_a_held_file_that_is_written_to_is_noticed(file: Path) -> None:
    pinned = Pinned(Storage(str(file.parent)), str(file))
    facts = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"PAR2")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert not pinned.is_unchanged()
    pinned.close()


def checked_files(folder: Path) -> CheckedFiles:
    table = ps.open_table(folder)
    snapshot = table.opened.lake.snapshot()
    found = table.opened.lake.files(snapshot, snapshot.slices)
    assert found is not None
    return found


def test_rows_that_were_given_out_are_not_taken_back(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file is not held back, so writing to it in the midst of reading is a conflict."""
    monkeypatch.setattr("parsieve.lake.rows.checked_files.HELD_BYTES", 0)
    stream = checked_files(file.parent).batches(Request(options={"batch_size": 1, "batch_readahead": 0}))
    next(stream)
    overwrite(file, [1] * 4, "new")
    with pytest.raises(ps.ConflictError, match="changed since the plan"):
        list(stream)


def test_a_file_that_changes_at_each_reading_is_a_conflict_in_the_end(file: Path) -> None:
    files = checked_files(file.parent)
    times = []

    def read(opened: list[Any]) -> Iterator[int]:
        times.append(len(opened))
        overwrite(file, [len(times)] * 4)
        yield 1

    with pytest.raises(ps.ConflictError, match="changed since the plan, and again"):
        list(files.checked([0], True, read))
    assert 2 <= len(times) < 10


def test_a_damaged_file_is_still_called_damaged(file: Path) -> None:
    """Only a file that is not the planned one is a conflict."""
    data = bytearray(file.read_bytes())
    data[4:24] = b"\xff" * 20
    file.write_bytes(data)
    settled(file.parent)
    with pytest.raises(ps.FormatError):
        ps.open_table(file.parent).plan("k = 5").to_arrow()


@pytest.mark.parametrize("store", ["obstore", "fsspec", "pyarrow"])
def test_objects_replaced_after_the_plan(file: Path, store: str, con: duckdb.DuckDBPyConnection) -> None:
    """On stores, by an ETag or whatever else the store says of a version."""
    old = file.read_bytes()
    write(file, NEW, "new")
    new = file.read_bytes()
    put: Callable[[bytes], Any]
    where: Any
    if store == "obstore":
        where = obstore.store.MemoryStore()
        put = lambda data: where.put("t/a.parquet", data)  # noqa: E731
    elif store == "fsspec":
        import fsspec

        where = fsspec.filesystem("memory")
        put = lambda data: where.pipe_file("/t/a.parquet", data)  # noqa: E731
    else:
        where = pyarrow.fs._MockFileSystem()
        where.create_dir("t")

        def put(data: bytes) -> None:
            with where.open_output_stream("t/a.parquet") as stream:
                stream.write(data)

    put(old)
    plan = ps.open_table((where, "t")).plan("k = 5", row_groups=True)
    laters = {
        way: LAZY[way](plan, con)
        for way in ("arrow", "batches", "polars", "duckdb", *(["dataset"] if store != "obstore" else []))
    }
    put(new)
    # What has no dataset is read when it is handed over.
    eager = ("polars", "duckdb") if store == "obstore" else ()
    for way, later in laters.items():
        assert later() == (["old"] if way in eager else ["new"]), way
    for way in laters:
        assert LAZY[way](plan, con)() == ["new"], way


def test_a_fragment_has_no_memory_of_an_earlier_file(file: Path) -> None:
    found = ps.open_table(file.parent).plan().to_dataset()
    assert found.to_table().num_rows == 4
    write(file, [1], "new")
    (fragment,) = found.get_fragments()
    assert fragment.path == str(file)
    assert fragment.to_table()["k"].to_pylist() == [1]


def test_a_dataset_of_a_plan_is_one_of_pyarrow(file: Path) -> None:
    found = ps.open_table(file.parent).plan("k = 5").to_dataset()
    assert isinstance(found, pads.FileSystemDataset)
    assert found.files == [str(file)]
    assert found.scanner(columns={"twice": pads.field("k") * 2}).to_table().to_pydict() == {"twice": [10]}
    assert found.scanner(columns=["version"]).projected_schema == pa.schema({"version": "string"})
    assert found.scanner().dataset_schema == found.schema
    assert found.count_rows(filter=pads.field("k") > 5) == 0
    with pytest.raises(pa.ArrowInvalid, match="nothing"):
        found.scanner(columns=["nothing"])
    with pytest.raises(ValueError, match="filtered"):
        found.get_fragments()


@pytest.mark.parametrize("where", [None, "k = 5"])
def test_what_would_bypass_the_checks_is_refused(file: Path, where: str | None) -> None:
    """Arrow's own scan of the object below remembers footers: the second one would lose rows."""
    found = ps.open_table(file.parent).plan(where).to_dataset()
    other = pads.dataset(pa.table({"k": [5]}))
    with pytest.raises(ps.UnsupportedError, match="without checking their versions"):
        pads.Scanner.from_dataset(found)
    with pytest.raises(ps.UnsupportedError, match="without checking their versions"):
        other.join(found, "k")
    with pytest.raises(ValueError, match="filtered"):
        pads.dataset([found, other])


def test_a_file_truncated_while_polars_looks_at_its_schema(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ps.open_table(file.parent).plan("k = 5")
    frame_of = polars_source.frame_of

    def truncate_first(files: CheckedFiles, expr: Any) -> Any:
        file.write_bytes(b"")
        return frame_of(files, expr)

    monkeypatch.setattr(polars_source, "frame_of", truncate_first)
    with pytest.raises(ps.ConflictError, match="was changed since the plan"):
        plan.to_polars()


@pytest.mark.parametrize("way", ["to_arrow", "to_batches"])
def test_a_file_truncated_while_its_row_groups_are_selected(
    file: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ps.open_table(file.parent).plan("k = 5", row_groups=True)
    assert plan.row_groups == {str(file): [0]}
    data = file.read_bytes()
    select = Opened.select_row_groups

    def truncate_first(opened: Opened) -> None:
        monkeypatch.setattr(Opened, "select_row_groups", select)
        file.write_bytes(b"")
        try:
            select(opened)
        finally:
            file.write_bytes(data)

    monkeypatch.setattr(Opened, "select_row_groups", truncate_first)
    table = pa.Table.from_batches(list(getattr(plan, way)())) if way == "to_batches" else plan.to_arrow()
    assert versions(table) == ["old"]
