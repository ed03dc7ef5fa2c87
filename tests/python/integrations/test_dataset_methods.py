"""The methods of `Table.dataset` return the same as the methods of a pyarrow dataset of the files."""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.integrations.dataset import fragment as fragments
from parsieve.integrations.dataset.scanner import TableScanner

FILES = 12
ID = pc.field("id")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    path.mkdir()
    for number in range(FILES):
        rows = range(number * 10, number * 10 + 10)
        columns = {"id": rows, "name": [f"n{row}" for row in rows], "real": [row / 2 for row in rows]}
        pq.write_table(pa.table(columns), path / f"{number:02}.parquet")
    return path


@pytest.fixture
def ours(folder: Path) -> Any:
    return ps.open_table(folder).dataset()


@pytest.fixture
def theirs(folder: Path) -> Any:
    return pads.dataset(sorted(str(path) for path in folder.iterdir()))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"columns": ["name", "id"]},
        {"columns": []},
        {"columns": ["id", "id"]},
        {"columns": {"double": ID * 2, "name": pc.field("name")}},
        {"columns": ["name"], "filter": ID > 50},
        {"columns": [], "filter": ID > 50},
        {"columns": {"one": pc.scalar(1)}, "filter": pc.field("real") <= 3},
        {"filter": pc.field(0) == 42, "columns": ["name"]},
        {"filter": pc.scalar(True)},
        {"filter": ID.isin(pa.array([42.0, None]))},
        {"filter": (ID > 7) & (pc.multiply(ID, 2) < 100)},
        {"batch_size": 3, "use_threads": False},
    ],
    ids=str,
)
def test_scans(ours: Any, theirs: Any, arguments: dict[str, Any]) -> None:
    expected = theirs.to_table(**arguments)
    actual = ours.to_table(**arguments)
    assert actual.schema == ours.scanner(**arguments).projected_schema == expected.schema
    assert actual.num_rows == expected.num_rows
    assert actual.combine_chunks() == expected.combine_chunks()
    batches = list(ours.to_batches(**arguments))
    assert sum(batch.num_rows for batch in batches) == expected.num_rows
    assert max(batch.num_rows for batch in batches) <= arguments.get("batch_size", 1000)
    assert ours.scanner(**arguments).to_reader().read_all().num_rows == expected.num_rows


@pytest.mark.parametrize(
    "ask",
    [
        lambda data: data.scanner(threads=3),
        lambda data: data.to_table(columns=["nothing"]),
        lambda data: data.filter(pc.field("nothing") == 1).to_table(),
        lambda data: list(data.get_fragments(pc.field("nothing") == 1)),
        lambda data: data.to_table(filter=pc.field("name") == 5),
    ],
)
def test_wrong_arguments_raise_the_same_errors(ours: Any, theirs: Any, ask: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, pa.ArrowException)) as expected:
        ask(theirs)
    with pytest.raises(expected.type):
        ask(ours)


def test_a_filter_is_checked_when_it_is_added(ours: Any) -> None:
    with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
        ours.filter(pc.field("nothing") == 1)


def test_columns_that_pyarrow_computes_are_refused(ours: Any, folder: Path) -> None:
    planned = ps.open_table(folder).plan("id > 5").to_dataset()
    for dataset in (ours, planned):
        with pytest.raises(ps.UnsupportedError, match="has no column __filename"):
            dataset.to_table(columns=["id", "__filename"])
    with pytest.raises(pa.ArrowInvalid, match="No match for FieldRef"):
        ours.to_table(filter=pc.field("__filename").is_valid())


def test_rows_by_their_positions(ours: Any, theirs: Any) -> None:
    for places in ([100, 3, 3], [], [0], list(range(119, -1, -7))):
        assert ours.take(places) == theirs.take(pa.array(places, pa.int64())).cast(ours.schema)
    assert ours.take(pa.array([1]), columns=["id"], filter=ID > 57)["id"].to_pylist() == [59]
    for wrong in ([3, 120], [-1], [None]):
        with pytest.raises(IndexError):
            ours.take(wrong)
    assert ours.head(13) == theirs.head(13)


def test_take_stops_after_the_last_row(ours: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(scanner: TableScanner) -> Iterator[pa.RecordBatch]:
        for batch in all_batches(scanner):
            read.append(batch.num_rows)
            yield batch

    all_batches = TableScanner.to_batches
    monkeypatch.setattr(TableScanner, "to_batches", counted)
    assert ours.take([25, 3], batch_size=10)["id"].to_pylist() == [25, 3]
    assert read == [10, 10, 10]


@pytest.mark.parametrize(
    "condition",
    [None, ID == 42, (ID == 42) & (pc.multiply(ID, 2) == 85), (ID > 95) & (pc.field("name") == "n101")],
    ids=str,
)
def test_fragments_have_all_rows_of_their_files(ours: Any, theirs: Any, condition: pc.Expression | None) -> None:
    """The filter of `get_fragments` chooses files, and the filter of a fragment's scan chooses rows."""
    expected = [part.to_table() for part in theirs.get_fragments(condition)]
    parts = list(ours.get_fragments(condition))
    for part in parts:
        rows = part.to_table()
        assert rows in expected
        for other in (condition, ID % 3 == 0 if hasattr(ID, "__mod__") else ID < 45):
            assert part.count_rows(filter=other) == part.to_table(filter=other).num_rows
            assert part.to_table(filter=other) == (rows if other is None else rows.filter(other))
    count = theirs.count_rows(filter=condition)
    assert sum(part.count_rows(filter=condition) for part in parts) == count
    assert pa.concat_tables(part.to_table(filter=condition) for part in parts) == theirs.to_table(filter=condition)


def test_fragments_of_a_filtered_dataset(ours: Any) -> None:
    some = ours.filter(ID > 98)
    assert [part.count_rows() for part in some.get_fragments()] == [1, 10, 10]
    assert [part.to_table(filter=ID < 105).num_rows for part in some.get_fragments(ID < 105)] == [1, 5]


def test_large_tables_have_few_fragments(ours: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments, "MOST_FRAGMENTS", 5)
    assert [part.count_rows() for part in ours.get_fragments()] == [30, 30, 30, 30]
    assert [part.count_rows(filter=ID < 70) for part in ours.get_fragments(ID < 70)] == [20, 20, 20, 10]


def test_write_dataset(ours: Any, tmp_path: Path) -> None:
    pads.write_dataset(ours.filter(ID > 57), tmp_path / "copy", format="parquet")
    assert pads.dataset(tmp_path / "copy").to_table().sort_by("id")["id"].to_pylist() == list(range(58, 120))


@pytest.mark.parametrize("planned", [False, True])
def test_scans_from_a_thread_without_python_functions(
    folder: Path, planned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DataFusion starts scans in separate threads, where the scan is the outermost Python function."""
    table = ps.open_table(folder)
    dataset: Any = table.plan().to_dataset() if planned else table.dataset()
    failed: list[Any] = []
    done = threading.Event()

    def note(error: Any) -> None:
        failed.append(repr(error.exc_value))
        done.set()

    monkeypatch.setattr(sys, "unraisablehook", note)
    # The thread drops its arguments when it ends.
    _thread.start_new_thread(dataset.scanner, (), {"columns": _Names(["id"], done)})
    assert done.wait(100)
    assert not failed


class _Names(list[str]):
    """Names of columns that set an event when they are no longer used."""

    def __init__(self, names: list[str], done: threading.Event) -> None:
        super().__init__(names)
        self._done = done

    def __del__(self) -> None:
        self._done.set()


def test_early_stops_leave_no_threads(ours: Any) -> None:
    for _ in range(5):
        batches = ours.to_batches(filter=ID >= 0)
        next(batches)
        batches.close()
        reader = ours.scanner(filter=ID >= 0).to_reader()
        reader.read_next_batch()
        del reader
        ours.head(1, filter=ID >= 0)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("parsieve")]
