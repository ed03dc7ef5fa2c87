"""What docs/guides/operating.md says about copies of an index, and about copies with missing parts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import parsieve as ps
from parsieve import FormatError
from parsieve.errors import IndexNotFoundError

# Each of these rows is in a file of its own.
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


def test_an_index_without_bindings_is_not_compacted_to_nothing(orders: Path, tmp_path: Path) -> None:
    table = without(orders, tmp_path / "copy", "bindings")
    with pytest.raises(FormatError, match="it is missing"):
        table.update_index()
    with pytest.raises(FormatError, match="build it again"):
        table.compact_index()
