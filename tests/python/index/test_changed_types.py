"""A column whose new type its index cannot have loses the index, with a note. The other columns keep theirs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from support.aging import wait_until_old

import parsieve as ps

TEXTS = pa.array(["x", "y"])
LISTS = pa.array([["x"], ["y"]])
MAPS = pa.array([[("x", 1)], [("y", 2)]], pa.map_(pa.string(), pa.int64()))
STRUCTS = pa.array([{"q": 1}, {"q": 2}])


@pytest.mark.parametrize(
    ("kind", "before", "after", "name", "now"),
    [
        ("sieve", TEXTS, LISTS, "b", "b is of type list<element: string> now"),
        ("both", TEXTS, LISTS, "b", "b is of type list<element: string> now"),
        ("text", TEXTS, LISTS, "b", "b is of type list<element: string> now"),
        ("sieve", TEXTS, STRUCTS, "b", "b is of type struct<q: int64> now"),
        ("sieve", TEXTS, MAPS, "b", "b is of type map<string, int64 ('b')> now"),
        ("both", TEXTS, pa.nulls(2), "b", "b is of type null now"),
        ("bloom", TEXTS, pa.array([True, False]), "b", "b is of type bool now"),
        ("words", TEXTS, pa.array([1, 2]), "b", "b is of type int64 now"),
        ("text", LISTS, pa.array([[1], [2]]), "b.element", "b.element is of type int64 now"),
        ("sieve", LISTS, TEXTS, "b.element", "b is of type string now"),
        ("both", LISTS, STRUCTS, "b.element", "b is of type struct<q: int64> now"),
        ("sieve", MAPS, TEXTS, "b.value", "b is of type string now"),
        ("sieve", STRUCTS, TEXTS, "b.q", "b is of type string now"),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_other_columns_are_maintained(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    kind: str,
    before: pa.Array,
    after: pa.Array,
    name: str,
    now: str,
) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": before}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    table.build_index("a", kind="sieve")
    table.build_index(name, kind=kind)
    for part in (0, 1):
        pq.write_table(pa.table({"a": [1, 2 + part], "b": after}), tmp_path / f"{part}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    problems = table.verify_index()
    kinds = {"both": ["Sieve", "Bloom"]}.get(kind, [kind.title() if kind in ("sieve", "bloom") else kind])
    assert [(problem.column, problem.loses_rows) for problem in problems] == [
        (tuple(name.split(".")), False) for _ in kinds
    ]
    assert all(problem.problem.startswith(now) for problem in problems)
    kept = f"{now}, so its index was not compacted; update_index() removes it"
    assert table.compact_index().notes == ((kept,) if "Sieve" in kinds else ())
    with caplog.at_level("WARNING", "parsieve"):
        report = table.update_index()
    assert report.columns == ("a",)
    assert report.notes == tuple(f"{now}, so its {which} index was dropped" for which in kinds)
    assert all(note in caplog.text for note in report.notes)
    assert table.index_kinds() == {"a": "sieve"}
    assert table.verify_index() == []
    assert len(table.plan("a = 3", stale="error").files) == 1
    assert table.plan().to_arrow()["b"].to_pylist() == 2 * after.to_pylist()
    assert table.update_index().notes == ()


def test_purging_the_index_of_a_changed_column_is_refused(tmp_path: Path) -> None:
    """It would keep traces of deleted rows."""
    pq.write_table(pa.table({"a": [1, 2], "b": TEXTS}), tmp_path / "0.parquet")
    ps.open_table(tmp_path).build_index(["a", "b"], kind="sieve")
    pq.write_table(pa.table({"a": [1, 2], "b": LISTS}), tmp_path / "0.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    with pytest.raises(ps.ColumnNotFoundError, match=r"b is of type .* now; call update_index\(\) first"):
        table.compact_index(purge=True)


def test_an_update_notes_the_index_of_a_dropped_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "0.parquet")
    ps.open_table(tmp_path).build_index(["a", "b", "lower(b)"], kind="sieve")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "0.parquet")
    wait_until_old(tmp_path)
    report = ps.open_table(tmp_path).update_index()
    assert report.columns == ("a",)
    assert sorted(report.notes) == [
        "a column of lower(b) was dropped, or has another type now, so its Sieve index was dropped",
        "b was dropped from the table, so its Sieve index was dropped",
    ]


def test_an_index_whose_last_column_changed_is_empty(tmp_path: Path) -> None:
    pq.write_table(pa.table({"b": TEXTS}), tmp_path / "0.parquet")
    ps.open_table(tmp_path).build_index("b", kind="sieve")
    pq.write_table(pa.table({"b": LISTS}), tmp_path / "0.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    assert table.update_index().notes == ("b is of type list<element: string> now, so its Sieve index was dropped",)
    assert table.index_kinds() == {}
    with pytest.raises(ps.IndexNotFoundError):
        table.update_index()
    table.build_index("b", kind="sieve")
    assert table.index_kinds() == {"b.element": "sieve"}


def test_a_column_keeps_its_index_if_it_cannot_be_built_again(tmp_path: Path) -> None:
    for name in ("b", "c"):
        pq.write_table(pa.table({"k": pa.array([1, 2], pa.int32())}), tmp_path / f"{name}.parquet")
    ps.open_table(tmp_path).build_index("k", kind="sieve")
    # The first file decides which type the column has.
    pq.write_table(pa.table({"k": [1 << 40]}), tmp_path / "a.parquet")
    (tmp_path / "c.parquet").write_bytes(b"damaged")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    with pytest.raises(ps.FormatError, match=r"c\.parquet"):
        table.update_index()
    assert table.index_kinds() == {"k": "sieve"}
    pq.write_table(pa.table({"k": [5]}), tmp_path / "c.parquet")
    wait_until_old(tmp_path)
    assert table.update_index().columns == ("k",)
    assert table.verify_index() == []
    assert table.plan(f"k = {1 << 40}", stale="error").to_arrow()["k"].to_pylist() == [1 << 40]


@pytest.mark.parametrize("kind", ["sieve", "bloom", "text"])
def test_an_update_keeps_the_index_of_a_column_that_was_added_meanwhile(tmp_path: Path, kind: str) -> None:
    write_deltalake(tmp_path, pa.table({"a": ["x"]}))
    table = ps.open_table(tmp_path)
    table.build_index("a", kind=kind)
    write_deltalake(tmp_path, pa.table({"a": ["y"]}), mode="append")
    earlier = table.opened.lake.snapshot()
    write_deltalake(tmp_path, pa.table({"a": ["z"], "b": ["v"]}), mode="append", schema_mode="merge")
    ps.open_table(tmp_path).build_index("b", kind=kind)
    # An update that began before.
    table.opened.index.update(table.opened.lake, earlier)
    table = ps.open_table(tmp_path)
    assert table.index_kinds() == {"a": kind, "b": kind}
    assert table.count_uncovered() == {"a": 1, "b": 0}
    table.update_index()
    assert table.verify_index() == []
