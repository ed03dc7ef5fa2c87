"""Files that are replaced after planning: every engine returns the rows of a single version, or a conflict."""

from __future__ import annotations

import itertools
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
from parsieve.lake.rows.arrow_scan import ScanFile
from parsieve.lake.rows.checked_files import CheckedFiles, OpenFile, Request
from parsieve.lake.storage.listing import TICK_NS
from parsieve.lake.storage.pinned import ATTEMPTS, HELD_BYTES, Pinned, checked
from parsieve.lake.storage.storage import Storage
from parsieve.lake.storage.version import Version, local_version
from parsieve.plan.results import polars_source

# Both versions contain k = 5, in different row groups.
OLD, NEW = [5, 6, 100, 101], [100, 101, 5, 6]


def write(path: Path, keys: list[int], version: str = "", **options: Any) -> None:
    """Replace a file by rename."""
    table = pa.table({"k": keys, "version": [version] * len(keys)})
    part = path.with_name(f".{path.name}.part")
    pq.write_table(table, part, row_group_size=2, compression="none", use_dictionary=False, **options)
    part.replace(path)


def overwrite(path: Path, keys: list[int], version: str = "") -> None:
    """Replace the content of a file in place."""
    write(path.with_name(".other"), keys, version)
    path.write_bytes(path.with_name(".other").read_bytes())


def wait_for_tokens(folder: Path) -> None:
    """Wait until all files have tokens."""
    for path in folder.glob("*.parquet"):
        while not Storage(str(folder)).stat(str(path)):
            time.sleep(0.01)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    folder = tmp_path / "t"
    folder.mkdir()
    write(folder / "a.parquet", OLD, "old")
    wait_for_tokens(folder)
    return folder / "a.parquet"


@pytest.fixture(autouse=True)
def lazy_relations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have DuckDB read results lazily, as it does with large results. `test_duckdb.py` tests eager results."""
    monkeypatch.setattr("parsieve.plan.results.duckdb_source.MOST_BYTES", 0)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


def versions(table: Any) -> list[str]:
    texts: list[str] = table["version"].to_pylist()
    return texts


def write_and_read(dataset: pads.Dataset) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        pads.write_dataset(dataset, folder, format="parquet")
        return versions(pads.dataset(folder).to_table())


def collect_after_schema(frame: pl.LazyFrame) -> list[str]:
    """Have Polars resolve the schema first, which it caches with the frame."""
    assert "version" in frame.collect_schema()
    texts: list[str] = frame.collect()["version"].to_list()
    return texts


# Each function takes a plan and returns a function that reads the plan's rows whenever it is called.
Read = Callable[[], list[str]]
READERS: dict[str, Callable[[ps.Plan, Any], Read]] = {
    "dataset": lambda plan, con: (lambda source: lambda: versions(source.to_table()))(plan.to_dataset()),
    "dataset_batches": lambda plan, con: (
        lambda source: lambda: versions(pa.Table.from_batches(source.to_batches(), source.schema))
    )(plan.to_dataset()),
    "dataset_head": lambda plan, con: (lambda source: lambda: versions(source.head(10)))(plan.to_dataset()),
    "dataset_take": lambda plan, con: (lambda source: lambda: versions(source.take([0])))(plan.to_dataset()),
    "dataset_filter": lambda plan, con: (
        lambda source: lambda: versions(source.filter(pads.field("k") < 50).to_table())
    )(plan.to_dataset()),
    "dataset_sorted": lambda plan, con: (lambda source: lambda: versions(source.sort_by("k").to_table()))(
        plan.to_dataset()
    ),
    "dataset_joined": lambda plan, con: (
        lambda source: lambda: versions(source.join(pads.dataset(pa.table({"k": [5]})), "k").to_table())
    )(plan.to_dataset()),
    "dataset_schema": lambda plan, con: (
        lambda source: (
            lambda: versions(source.replace_schema(pa.schema({"k": "int64", "version": "string"})).to_table())
        )
    )(plan.to_dataset()),
    "dataset_scanner": lambda plan, con: (lambda source: lambda: versions(source.to_table()))(
        plan.to_dataset().scanner()
    ),
    "dataset_reader": lambda plan, con: (lambda source: lambda: versions(source.scanner().to_reader().read_all()))(
        plan.to_dataset()
    ),
    "dataset_tagged": lambda plan, con: (
        lambda source: (
            lambda: [version for tagged in source.scanner().scan_batches() for version in versions(tagged.record_batch)]
        )
    )(plan.to_dataset()),
    "dataset_pickled": lambda plan, con: (lambda source: lambda: versions(pickle.loads(source).to_table()))(
        pickle.dumps(plan.to_dataset())
    ),
    "dataset_counted": lambda plan, con: (lambda source: lambda: ["any"] * source.count_rows())(plan.to_dataset()),
    "dataset_written": lambda plan, con: (lambda source: lambda: write_and_read(source))(plan.to_dataset()),
    "polars": lambda plan, con: (lambda source: lambda: source.collect()["version"].to_list())(plan.to_polars()),
    "polars_resolved": lambda plan, con: (lambda source: lambda: collect_after_schema(source))(plan.to_polars()),
    "polars_streaming": lambda plan, con: (
        lambda source: lambda: source.select("version").collect(engine="streaming")["version"].to_list()
    )(plan.to_polars()),
    "polars_dataset": lambda plan, con: (lambda source: lambda: source.collect()["version"].to_list())(
        pl.scan_pyarrow_dataset(plan.to_dataset())
    ),
    "duckdb": lambda plan, con: (lambda source: lambda: [version for (version,) in source.fetchall()])(
        plan.to_duckdb(con).project("version")
    ),
    "arrow": lambda plan, con: lambda: versions(plan.to_arrow()),
    "batches": lambda plan, con: lambda: [version for batch in plan.to_batches() for version in versions(batch)],
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("replace", [write, overwrite], ids=["by_rename", "in_place"])
def test_each_reading_returns_the_present_version_of_a_replaced_file(
    file: Path, reader: str, replace: Callable[..., None], con: duckdb.DuckDBPyConnection
) -> None:
    """Each later reading returns the rows of the file's present version."""
    plan = ps.open_table(file.parent).plan("k = 5", row_groups=True)
    assert plan.row_groups[str(file)] == [0]
    read = READERS[reader](plan, con)
    replace(file, NEW, "new")
    assert read() in (["new"], ["any"])
    assert read() in (["new"], ["any"])
    replace(file, OLD, "newer")
    assert read() in (["newer"], ["any"])


@pytest.mark.parametrize("reader", READERS)
def test_a_file_replaced_before_the_engine_takes_the_plan_is_read(
    file: Path, reader: str, con: duckdb.DuckDBPyConnection
) -> None:
    plan = ps.open_table(file.parent).plan("k = 5", row_groups=True)
    write(file, NEW, "new")
    assert READERS[reader](plan, con)() in (["new"], ["any"])


@pytest.mark.parametrize("reader", READERS)
def test_a_removed_file_is_a_conflict(file: Path, reader: str, con: duckdb.DuckDBPyConnection) -> None:
    write(file.with_name("b.parquet"), OLD, "b")
    plan = ps.open_table(file.parent).plan("k = 5")
    read = READERS[reader](plan, con)
    file.unlink()
    with pytest.raises((ps.ConflictError, duckdb.Error), match="removed since the plan"):
        read()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "columns", [{"key": [5]}, {"k": ["5"], "version": ["new"]}, {"k": [2**40], "version": [b"\xff"]}]
)
def test_a_replacement_with_other_columns_is_a_conflict(
    file: Path, reader: str, columns: dict[str, Any], con: duckdb.DuckDBPyConnection
) -> None:
    if "counted" in reader and "version" in columns:
        pytest.skip("counting does not read the column with other values")
    plan = ps.open_table(file.parent).plan("k = 5")
    read = READERS[reader](plan, con)
    pq.write_table(pa.table(columns), file)
    with pytest.raises((ps.ConflictError, duckdb.Error), match=r"plan again"):
        read()


def test_a_pinned_file_is_read_after_its_replacement(file: Path) -> None:
    """A pinned file that is replaced or removed is still the planned one."""
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


def test_a_write_to_a_pinned_file_is_noticed(file: Path) -> None:
    pinned = Pinned(Storage(str(file.parent)), str(file))
    facts = file.stat()
    with file.open("r+b") as opened:
        opened.write(b"PAR2")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert not pinned.is_unchanged()
    pinned.close()


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_file_that_another_process_completes_is_read_completely(file: Path, is_renamed: bool) -> None:
    complete = file.read_bytes()
    file.write_bytes(b"")
    pinned = Pinned(Storage(str(file.parent)), str(file))
    if is_renamed:
        write(file, OLD, "old")
    else:
        file.write_bytes(complete)
    pinned.settle()
    assert pinned.version == local_version(file.stat())
    assert pq.read_table(pinned.open())["k"].to_pylist() == OLD
    assert pinned.is_unchanged()
    pinned.close()


@pytest.mark.parametrize("changes", [0, 1, ATTEMPTS - 1, ATTEMPTS])
def test_a_file_that_changes_before_its_first_rows_is_read_again(changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()
    batch = pa.record_batch({"k": [1]})
    # The rows are held back if they take at most this many bytes.
    monkeypatch.setattr("parsieve.lake.storage.pinned.HELD_BYTES", batch.nbytes)

    def version() -> Version:
        # Each attempt compares the version before the read with the one after it.
        return Version(str(min((next(calls) + 1) // 2, changes)), 1)

    batches = checked(lambda _: iter([batch]), version, "x")
    if changes < ATTEMPTS:
        assert list(batches) == [batch]
    else:
        with pytest.raises(ps.ConflictError, match="x was changed since the plan, and again"):
            list(batches)


def test_a_file_that_just_changed_is_read_again_after_a_tick_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second change within the tick would not change the timestamp."""
    now, slept = 10**18 + 1, list[float]()
    monkeypatch.setattr("parsieve.lake.storage.pinned.time.time_ns", lambda: now)
    monkeypatch.setattr("parsieve.lake.storage.pinned.time.sleep", slept.append)
    versions = iter([Version(token, 1, now) for token in ("old", "new", "new", "new")])
    batch = pa.record_batch({"k": [1]})
    assert list(checked(lambda _: iter([batch]), lambda: next(versions), "x")) == [batch]
    assert slept == [TICK_NS / 1e9]


@pytest.mark.parametrize("content", [b"", b"P", b"PAR1", b"PAR1" * 20], ids=["empty", "short", "magic", "footer"])
@pytest.mark.parametrize("reader", READERS)
def test_an_unfinished_replacement_is_a_conflict(
    file: Path, reader: str, content: bytes, con: duckdb.DuckDBPyConnection
) -> None:
    read = READERS[reader](ps.open_table(file.parent).plan("k = 5"), con)
    file.write_bytes(content)
    with pytest.raises((ps.ConflictError, duckdb.Error), match="plan again"):
        read()


def checked_files(folder: Path) -> CheckedFiles:
    table = ps.open_table(folder)
    snapshot = table.opened.lake.snapshot()
    files = table.opened.lake.files(snapshot, snapshot.slices)
    assert files is not None
    return files


def test_a_write_during_the_read_of_a_large_file_is_a_conflict(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of large files are returned before the end of the file, so a write during the read is a conflict."""
    monkeypatch.setattr("parsieve.lake.rows.checked_files.HELD_BYTES", 0)
    stream = checked_files(file.parent).batches(Request(options={"batch_size": 1, "batch_readahead": 0}))
    next(stream)
    overwrite(file, [1] * 4, "new")
    with pytest.raises(ps.ConflictError, match="changed since the plan"):
        list(stream)


def test_many_small_files_or_a_few_large_ones_are_read_together(tmp_path: Path) -> None:
    def windows(*sizes: int, hold: bool = False) -> list[int]:
        storage = Storage(tmp_path)
        files = tuple(ScanFile(storage, "", "", size) for size in sizes)
        return [len(window) for window in CheckedFiles(files, pa.schema([])).windows(hold)]

    large = HELD_BYTES + 1
    assert windows(*[1] * 70) == windows(*[large] * 70, hold=True) == [32, 32, 6]
    assert windows(*[large] * 20) == [8, 8, 4]
    assert windows(1, 1, large, large, 1) == [2, 2, 1]
    # The rows of small files can wait until all of them are known to be unchanged.
    assert windows(HELD_BYTES // 2, HELD_BYTES // 2, 1, HELD_BYTES) == [2, 1, 1]


def test_a_file_that_changes_during_each_attempt_is_a_conflict(file: Path) -> None:
    files = checked_files(file.parent)
    times = []

    def read(opened: list[Any]) -> Iterator[int]:
        times.append(len(opened))
        overwrite(file, [len(times)] * 4)
        yield 1

    with pytest.raises(ps.ConflictError, match="changed since the plan, and again"):
        list(files.checked([0], True, read))
    assert 2 <= len(times) < 10


def test_a_damaged_file_is_not_reported_as_a_conflict(file: Path) -> None:
    """Only a file that differs from the planned one is a conflict."""
    data = bytearray(file.read_bytes())
    data[4:24] = b"\xff" * 20
    file.write_bytes(data)
    wait_for_tokens(file.parent)
    with pytest.raises(ps.FormatError):
        ps.open_table(file.parent).plan("k = 5").to_arrow()


@pytest.mark.parametrize("store", ["obstore", "fsspec", "pyarrow"])
def test_objects_replaced_after_planning_are_read_again(file: Path, store: str, con: duckdb.DuckDBPyConnection) -> None:
    """Stores identify versions by ETags or other metadata."""
    old = file.read_bytes()
    write(file, NEW, "new")
    new = file.read_bytes()
    replace: Callable[[bytes], Any]
    where: Any
    if store == "obstore":
        where = obstore.store.MemoryStore()
        replace = lambda data: where.put("t/a.parquet", data)  # noqa: E731
    elif store == "fsspec":
        import fsspec

        where = fsspec.filesystem("memory")
        replace = lambda data: where.pipe_file("/t/a.parquet", data)  # noqa: E731
    else:
        where = pyarrow.fs._MockFileSystem()
        where.create_dir("t")

        def replace(data: bytes) -> None:
            with where.open_output_stream("t/a.parquet") as stream:
                stream.write(data)

    replace(old)
    plan = ps.open_table((where, "t")).plan("k = 5", row_groups=True)
    reads = {
        reader: READERS[reader](plan, con)
        for reader in ("arrow", "batches", "polars", "duckdb", *(["dataset"] if store != "obstore" else []))
    }
    replace(new)
    # Without a dataset, DuckDB gets the rows immediately.
    eager = ("duckdb",) if store == "obstore" else ()
    for reader, read in reads.items():
        assert read() == (["old"] if reader in eager else ["new"]), reader
    for reader in reads:
        assert READERS[reader](plan, con)() == ["new"], reader


def test_a_fragment_does_not_cache_an_earlier_file(file: Path) -> None:
    dataset = ps.open_table(file.parent).plan().to_dataset()
    assert dataset.to_table().num_rows == 4
    write(file, [1], "new")
    (fragment,) = dataset.get_fragments()
    assert fragment.path == str(file)
    assert fragment.to_table()["k"].to_pylist() == [1]


def test_the_dataset_of_a_plan_is_a_pyarrow_dataset(file: Path) -> None:
    dataset = ps.open_table(file.parent).plan("k = 5").to_dataset()
    assert isinstance(dataset, pads.FileSystemDataset)
    assert dataset.files == [str(file)]
    assert dataset.scanner(columns={"twice": pads.field("k") * 2}).to_table().to_pydict() == {"twice": [10]}
    assert dataset.scanner(columns=["version"]).projected_schema == pa.schema({"version": "string"})
    assert dataset.scanner().dataset_schema == dataset.schema
    assert dataset.count_rows(filter=pads.field("k") > 5) == 0
    with pytest.raises(pa.ArrowInvalid, match="nothing"):
        dataset.scanner(columns=["nothing"])
    with pytest.raises(ValueError, match="filtered"):
        dataset.get_fragments()


@pytest.mark.parametrize("where", [None, "k = 5"])
def test_scans_that_bypass_the_checks_are_rejected(file: Path, where: str | None) -> None:
    """Arrow's own scan of the inner dataset caches footers, so a second scan would lose rows."""
    dataset = ps.open_table(file.parent).plan(where).to_dataset()
    other = pads.dataset(pa.table({"k": [5]}))
    with pytest.raises(ps.UnsupportedError, match="without checking their versions"):
        pads.Scanner.from_dataset(dataset)
    with pytest.raises(ps.UnsupportedError, match="without checking their versions"):
        other.join(dataset, "k")
    with pytest.raises(ValueError, match="filtered"):
        pads.dataset([dataset, other])


def test_a_file_truncated_while_polars_resolves_the_schema_is_a_conflict(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ps.open_table(file.parent).plan("k = 5")
    frame_of = polars_source.frame_of

    def truncate_first(files: CheckedFiles, expr: Any) -> Any:
        file.write_bytes(b"")
        return frame_of(files, expr)

    monkeypatch.setattr(polars_source, "frame_of", truncate_first)
    with pytest.raises(ps.ConflictError, match="was changed since the plan"):
        plan.to_polars()


@pytest.mark.parametrize("reader", ["to_arrow", "to_batches"])
def test_a_file_truncated_while_row_groups_are_selected_is_read_again(
    file: Path, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ps.open_table(file.parent).plan("k = 5", row_groups=True)
    assert plan.row_groups == {str(file): [0]}
    data = file.read_bytes()
    select = OpenFile.select_row_groups

    def truncate_first(opened: OpenFile) -> None:
        monkeypatch.setattr(OpenFile, "select_row_groups", select)
        file.write_bytes(b"")
        try:
            select(opened)
        finally:
            file.write_bytes(data)

    monkeypatch.setattr(OpenFile, "select_row_groups", truncate_first)
    table = pa.Table.from_batches(list(getattr(plan, reader)())) if reader == "to_batches" else plan.to_arrow()
    assert versions(table) == ["old"]
