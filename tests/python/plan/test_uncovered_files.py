"""Plans explain why the index does not cover a file, and use correct singular and plural forms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

import parsieve as ps
from parsieve.lake.base import Location, Slice
from parsieve.plan.evidence.index import apply


def slice_of(group: str, token: str) -> Slice:
    return Slice("", group, token, group, 1, 1, True, {}, None)


def test_each_uncovered_file_has_a_reason() -> None:
    slices = [slice_of("new", "1"), slice_of("changed", "2"), slice_of("young", ""), slice_of("rewritten just now", "")]
    slices.append(slice_of("left out", "1"))
    bound = {Location("", "changed"): "1", Location("", "rewritten just now"): "1", Location("", "left out"): ""}
    reasons = apply.uncovered(slices, range(5), [{}, bound], is_damaged=False)
    assert reasons == {
        0: [apply.NEW],
        1: [apply.CHANGED],
        2: [apply.YOUNG],
        3: [apply.CHANGED],
        4: [apply.LEFT_OUT],
    }
    other = {Location("", "left out"): "1"}
    assert apply.uncovered(slices, [4], [bound, other], is_damaged=False) == {4: [apply.LEFT_OUT]}
    assert apply.uncovered(slices, [4], [{}, other], is_damaged=False) == {4: [apply.NEW]}
    assert apply.uncovered(slices, [0], [{}], is_damaged=True) == {0: [apply.UNREADABLE]}
    assert apply.uncovered(slices, [1], [bound], is_damaged=True) == {1: [apply.CHANGED]}


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    for part in range(4):
        write(tmp_path, part)
    table = ps.open_table(str(tmp_path))
    while not table.index_stats() or table.index_stats()["id"].locations < 4:
        table.build_index("id", kind="sieve")
    return table


def write(folder: Path, part: int, rows: int = 100) -> None:
    path = folder / f"part-{part}.parquet"
    pq.write_table(pa.table({"id": [*range(part, rows, 4), 0, 1_000]}), path)
    os.utime(path, (1_000_000_000 + part, 1_000_000_000 + part))


def test_explain_lists_files_by_reason(table: ps.Table, tmp_path: Path) -> None:
    assert "in doubt" not in table.plan("id = 42").explain()
    write(tmp_path, 1, rows=50)
    lines = table.plan("id = 42").explain().splitlines()
    assert lines[lines.index("in doubt, so kept: 1 file") + 1 :][:2] == [
        f"  {apply.CHANGED}:",
        f"    {tmp_path}/part-1.parquet",
    ]
    for part in range(10, 17):
        write(tmp_path, part)
    text = table.plan("id = 42").explain()
    assert "in doubt, so kept: 8 files" in text
    # New files are too young until a tick has passed.
    assert apply.NEW in text or apply.YOUNG in text
    assert "… and " in text


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("sieve", "text = 'order 42'"),
        ("bloom", "text = 'order 42'"),
        ("text", "text LIKE '%order 42%'"),
        ("words", "has_token(text, '42')"),
    ],
)
def test_every_kind_of_index_names_changed_and_new_files(tmp_path: Path, kind: Any, where: str) -> None:
    def write(part: int, text: str) -> None:
        pq.write_table(pa.table({"text": [text]}), tmp_path / f"{part}.parquet")

    for part in range(3):
        write(part, f"order {part}")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    table.build_index("text", kind, progress=False)
    assert table.plan(where, stale="error").files == []
    write(1, "order 42, changed")
    write(3, "order 42, new")
    wait_until_old(tmp_path)
    # Footers could exclude the files.
    plan = table.plan(where, row_groups=False)
    assert [(Path(keep.path).stem, keep.doubt) for keep in plan.kept] == [
        ("1", (apply.CHANGED,)),
        ("3", (apply.NEW,)),
    ]
    with pytest.raises(ps.StaleIndexError, match="2 files"):
        table.plan(where, row_groups=False, stale="error")


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
def test_a_file_of_another_type_is_left_out_of_the_index(tmp_path: Path, kind: Any) -> None:
    """An update leaves the file out again, so no reason may promise that an update helps."""
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "1.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    assert len(table.build_index("id", kind, progress=False).left_out) == 1
    for _ in range(2):
        assert [keep.doubt for keep in table.plan("id = 3", row_groups=False).kept] == [(apply.LEFT_OUT,)]
        assert "column id: a file holds string" in table.update_index(progress=False).left_out[0].reason


def test_explain_says_that_an_ignored_predicate_keeps_all_files(table: ps.Table) -> None:
    text = table.plan("id = 'x'", on_unknown="ignore").explain()
    assert "kept 4 of 4 files" in text
    assert "\nignored: id = 'x' (" in text
    assert "). All files are kept.\n" in text
    assert "(current state)" in text.splitlines()[1]


def test_counts_of_one_file_are_singular(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "0.parquet")
    plan = ps.open_table(str(tmp_path)).plan("id = 1")
    assert "kept 1 of 1 file, " in plan.explain()
    assert repr(plan) == "<parsieve.Plan of id = 1: 1 of 1 file>"


def test_uncovered_files_are_counted_for_each_column(table: ps.Table, tmp_path: Path) -> None:
    assert table.count_uncovered() == {"id": 0}
    write(tmp_path, 1, rows=50)
    write(tmp_path, 10)
    assert table.count_uncovered() == {"id": 2}
    table.update_index(progress=False)
    table.build_index("id", kind="bloom", progress=False)
    write(tmp_path, 11)
    assert table.count_uncovered() == {"id": 1}
    assert ps.open_table(str(tmp_path), index_location=f"{tmp_path}-none").count_uncovered() == {}


def test_uncovered_files_are_counted_by_the_newest_version(table: ps.Table, tmp_path: Path) -> None:
    """Another process replaces and expires a version that was opened, but not yet read."""
    view, slices = table.opened.index.look(), table.opened.lake.snapshot().slices
    assert view is not None
    other = ps.open_table(str(tmp_path))
    other.build_index("id", kind="sieve", progress=False)
    assert other.expire_index(older_than=0).versions_removed
    assert view.count_uncovered(slices) == {("id",): 0}


def test_a_refused_question_concerns_only_its_plan(tmp_path: Path) -> None:
    def write(ids: list[Any]) -> None:
        pq.write_table(pa.table({"id": ids, "other": [1, 2]}), tmp_path / "0.parquet")
        wait_until_old(tmp_path)

    write([1, 2])
    table = ps.open_table(str(tmp_path))
    table.build_index(["id", "other"], kind="sieve", progress=False)
    write(["a", "b"])
    table = ps.open_table(str(tmp_path))
    [note] = table.plan("id = 'a'").record.notes
    assert note.startswith("the index, a question to id: ")
    assert table.plan("other = 2").record.notes == ()
