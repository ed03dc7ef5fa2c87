"""What docs/guides/operating.md says about copies of an index, and about copies with missing parts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support.aging import wait_until_old
from support.places import index_of

import parsieve as ps
from parsieve import FormatError
from parsieve.errors import IndexNotFoundError

# Each of these rows is in a separate file.
MATCHES = 3
QUESTION = "customer = 42"


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Delta table whose index was built, updated, compacted and expired."""
    place = tmp_path_factory.mktemp("lake") / "orders"
    for day in range(8):
        write_deltalake(
            place, pa.table({"customer": [(day * 619 + row * 7) % 700 for row in range(20)]}), mode="append"
        )
    write_deltalake(place, pa.table({"customer": [42, 43]}), mode="append")
    table = ps.open_table(str(place))
    table.build_index("customer", kind="sieve")
    write_deltalake(place, pa.table({"customer": [42]}), mode="append")
    table.update_index()
    table.compact_index()
    table.expire_index(0)
    return place


def rows(place: Path) -> int:
    return int(ps.open_table(str(place)).plan(QUESTION).to_arrow().num_rows)


def num_kept(place: Path) -> int:
    return len(ps.open_table(str(place)).plan(QUESTION).files)


def without(orders: Path, copy: Path, part: str) -> ps.Table:
    shutil.copytree(orders, copy)
    shutil.rmtree(copy / "_parsieve" / part)
    return ps.open_table(str(copy))


def test_the_index_of_a_copied_delta_table_still_answers(orders: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(orders, copy)
    assert rows(copy) == MATCHES == num_kept(copy)
    assert ps.open_table(str(copy)).verify_index() == []


def test_the_index_of_a_copied_folder_answers_nothing_until_it_is_updated(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    for number in range(3):
        pq.write_table(pa.table({"id": [number, number + 10]}), table / f"{number}.parquet")
    ps.open_table(str(table), index_location=str(tmp_path / "index")).build_index("id", kind="sieve")
    shutil.copytree(table, tmp_path / "copy")
    copy = ps.open_table(str(tmp_path / "copy"), index_location=str(tmp_path / "index"))
    plan = copy.plan("id = 10", row_groups=False)
    assert len(plan.files) == 3
    assert plan.to_arrow()["id"].to_pylist() == [10]
    copy.update_index()
    assert len(copy.plan("id = 10", row_groups=False).files) == 1


@pytest.mark.parametrize("part", ["bindings", "log", "roots", "segments"])
def test_a_half_copied_index_keeps_files_until_it_is_built_again(orders: Path, tmp_path: Path, part: str) -> None:
    copy = tmp_path / "copy"
    table = without(orders, copy, part)
    assert rows(copy) == MATCHES < num_kept(copy)
    if part == "log":
        with pytest.raises(IndexNotFoundError, match="build one first"):
            table.verify_index()
    else:
        assert [problem.loses_rows for problem in table.verify_index()] == [False]
    table.build_index("customer", kind="sieve")
    assert rows(copy) == MATCHES == num_kept(copy)
    assert table.verify_index() == []


@pytest.fixture
def updated(tmp_path: Path) -> Path:
    """Return a plain folder with an index of each kind, which an update has added to."""
    folder = tmp_path / "lake" / "updated"
    folder.mkdir(parents=True)
    for number in range(8):
        pq.write_table(
            pa.table({"id": range(number, 96, 8), "text": ["some words"] * 12}), folder / f"{number}.parquet"
        )
    wait_until_old(folder)
    table = ps.open_table(folder)
    table.build_index("id", kind="sieve", pages=True)
    table.build_index("text", kind="bloom")
    pq.write_table(pa.table({"id": [100], "text": ["others"]}), folder / "8.parquet")
    wait_until_old(folder)
    table.update_index()
    return folder


@pytest.mark.parametrize(
    ("part", "question"),
    [
        ("bindings", "id = 42"),
        ("roots", "id = 42"),
        ("segments", "id = 42"),
        ("deltas", "id = 42"),
        ("bindings", "text = 'others'"),
        ("shelves", "text = 'others'"),
    ],
)
def test_only_a_build_repairs_a_damaged_index_and_messages_say_so(updated: Path, part: str, question: str) -> None:
    assert len(ps.open_table(updated).plan(question, row_groups=False, stale="error").files) == 1
    shutil.rmtree(index_of(updated) / part)
    table = ps.open_table(updated)
    with pytest.raises(ps.StaleIndexError) as raised:
        table.plan(question, row_groups=False, stale="error")
    message = str(raised.value)
    assert re.search(
        rf"updated is damaged: {part}/\S+: it is missing.*\. Build it again with build_index\(\), or", message
    )
    assert message.count(": it is missing") == len(set(re.findall(rf"{part}/[^\s:]+", message)))
    assert "checksum" not in message
    assert "update_index" not in message
    assert {problem.problem for problem in table.verify_index()} == {"it is missing"}
    if part == "bindings":
        with pytest.raises(FormatError, match=r"so build it again with build_index\(\): .*/bindings/") as refused:
            table.update_index()
        assert type(refused.value) is FormatError
    else:
        table.update_index()
        assert len(ps.open_table(updated).plan(question, row_groups=False).files) > 1
    for column, kind in (("id", "sieve"), ("text", "bloom")):
        table.build_index(column, kind=kind)
    assert len(table.plan(question, row_groups=False, stale="error").files) == 1


def test_the_map_of_pages_is_repaired_on_request(updated: Path) -> None:
    shutil.rmtree(index_of(updated) / "pages")
    table = ps.open_table(updated)
    assert table.plan("id = 42").to_arrow().num_rows == 1
    table.update_index()
    assert len(table.verify_index()) > 0
    # Readers of local files may not need the map.
    view = table.opened.index.newest()
    assert view is not None
    assert view.pages is not None
    assert view.pages.read(table.opened.snapshot().slices) == [None] * 9
    remedy = r"it is missing\. Build it again with build_index\(\.\.\., pages=True\), or"
    with pytest.raises(ps.StaleIndexError, match=remedy):
        table.plan("id = 42", stale="error")
    table.build_index("id", kind="sieve", pages=True)
    assert table.verify_index() == []
    assert len(table.plan("id = 42", stale="error").files) == 1


def test_a_store_that_cannot_be_read_now_is_not_reported_as_damaged(updated: Path) -> None:
    table = ps.open_table(updated)
    roots = index_of(updated) / "roots"
    moved = roots.rename(roots.with_name("moved"))
    roots.write_bytes(b"")
    with pytest.raises(ps.StaleIndexError, match=r"updated cannot be used: .*To read the files without it, plan with"):
        table.plan("id = 42", row_groups=False, stale="error")
    roots.unlink()
    moved.rename(roots)
    assert len(table.plan("id = 42", row_groups=False, stale="error").files) == 1


def test_an_index_without_bindings_is_not_compacted_to_nothing(orders: Path, tmp_path: Path) -> None:
    table = without(orders, tmp_path / "copy", "bindings")
    with pytest.raises(FormatError, match="it is missing"):
        table.update_index()
    with pytest.raises(FormatError, match="build it again"):
        table.compact_index()
