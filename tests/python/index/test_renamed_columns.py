"""Indexes follow columns that are renamed in Delta and Iceberg tables, and never answer for other columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.models.lake_truth import commit
from support.renamed_tables import FILES, ROWS, Renamed, key, renamed_table, rows_of

import parsieve as ps
from parsieve.cli import main
from parsieve.index.local_executor import LocalExecutor
from parsieve.index.sieve.build import rebuild

KINDS = ["sieve", "bloom", "both", "text", "words"]
Holds = Callable[[Any], bool]


@pytest.fixture(params=["delta", "iceberg"])
def renamed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Renamed]:
    with renamed_table(request.param, tmp_path) as table:
        yield table


def condition(kind: str, column: str, number: int) -> tuple[str, Holds]:
    """Return a condition that this kind of index answers, and whether it holds for a value."""
    if kind == "text":
        return f"{column} LIKE '%{number:03} e%'", lambda value: value is not None and f"{number:03} e" in value
    if kind == "words":
        return f"has_token({column}, 'Key{number:03}')", lambda value: value == key(number)
    return f"{column} = '{key(number)}'", lambda value: value == key(number)


def value_at(row: dict[str, Any], path: str) -> Any:
    for name in path.split("."):
        row = row[name]
    return row


def check(renamed: Renamed, kind: str, column: str, number: int, *, files: int | None = None) -> None:
    """Compare the rows of plans with all rows of the table. `files` is how many the index keeps, if it answers."""
    where, holds = condition(kind, column, number)
    expected = [row["id"] for row in renamed.rows() if holds(value_at(row, column))]
    for row_groups in (None, False):
        plan = ps.open_table(renamed.location).plan(where, row_groups=row_groups, on_unknown="error")
        assert sorted(plan.to_arrow()["id"].to_pylist()) == sorted(expected), where
    if files is not None:
        plan = ps.open_table(renamed.location).plan(where, row_groups=False, stale="error")
        assert len(plan.files) == files, plan.explain()
        assert not [keep.doubt for keep in plan.kept if keep.doubt]
        assert any(skip.evidence.endswith("index") for skip in plan.skipped)


def names(renamed: Renamed) -> list[str]:
    """Return the names of the indexed columns, which all methods agree on."""
    table = ps.open_table(renamed.location)
    kinds = table.index_kinds()
    assert table.count_uncovered().keys() == kinds.keys()
    assert list(table.index_stats()) == [name for name, kind in kinds.items() if "sieve" in kind or "both" in kind]
    return sorted(kinds)


@pytest.mark.parametrize("kind", KINDS)
def test_plans_follow_a_column_and_not_its_name(renamed: Renamed, kind: str) -> None:
    ps.open_table(renamed.location).build_index("a", kind=kind)
    check(renamed, kind, "a", 7, files=1)
    renamed.rename("a", "b")
    check(renamed, kind, "b", 7, files=1)
    # Another column gets the name. Its values are not in the index.
    renamed.add("a")
    renamed.append([{**row, "b": row["a"], "a": key(7)} for row in rows_of(0)])
    for name in ("a", "b"):
        check(renamed, kind, name, 7)
        check(renamed, kind, name, 4)
    assert len(ps.open_table(renamed.location).plan("a IS NULL").to_arrow()) == FILES * ROWS
    report = ps.open_table(renamed.location).update_index()
    assert (report.columns, report.files_read, report.notes) == (("b",), 1, ())
    assert names(renamed) == ["b"]
    check(renamed, kind, "b", 4, files=2)
    check(renamed, kind, "a", 4)
    check(renamed, kind, "a", 7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("indexed", [["a"], ["a", "c"]], ids=["one", "both"])
def test_swapped_names(renamed: Renamed, kind: str, indexed: list[str]) -> None:
    ps.open_table(renamed.location).build_index(indexed, kind=kind)
    renamed.swap("a", "c")
    after = ["c"] if indexed == ["a"] else ["a", "c"]
    for updated in (False, True):
        if updated:
            report = ps.open_table(renamed.location).update_index()
            assert (report.files_read, report.notes) == (0, ())
        assert names(renamed) == after
        check(renamed, kind, "c", 7, files=1)
        check(renamed, kind, "a", 107, files=None if indexed == ["a"] else 1)
        check(renamed, kind, "a", 7)
        check(renamed, kind, "c", 107)
        assert ps.open_table(renamed.location).verify_index() == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("updated", [False, True])
def test_maintenance_uses_the_current_names(renamed: Renamed, kind: str, updated: bool) -> None:
    ps.open_table(renamed.location).build_index(["a", "c"], kind=kind)
    renamed.append([{**row, "id": row["id"] + 100} for row in rows_of(1)])
    ps.open_table(renamed.location).update_index(compact=False)
    renamed.rename("a", "b")
    renamed.add("a")
    renamed.append([{**row, "b": row["a"], "a": None} for row in rows_of(2)])
    table = ps.open_table(renamed.location)
    assert set(table.count_uncovered().values()) == {1}
    if updated:
        assert table.update_index(compact=False).columns == ("b", "c")
        assert set(table.count_uncovered().values()) == {0}
    assert names(renamed) == ["b", "c"]
    assert table.verify_index() == []
    for method in (table.compact_index, table.drop_index):
        with pytest.raises(ps.ColumnNotFoundError, match=r"^a is not indexed; .*[Ii]ndexed columns: b, c$"):
            method("a")
    assert table.compact_index("b").columns == (("b",) if kind in ("sieve", "both") else ())
    # A compaction of one column leaves the other as it is.
    assert names(renamed) == ["b", "c"]
    check(renamed, kind, "b", 7)
    check(renamed, kind, "c", 107)
    assert table.compact_index(purge=True).notes == ()
    assert table.update_index().columns == ("b", "c")
    check(renamed, kind, "b", 4, files=1)
    assert table.verify_index() == []
    assert table.drop_index("b").columns == ("b",)
    assert names(renamed) == ["c"]
    check(renamed, kind, "b", 4)
    check(renamed, kind, "c", 107, files=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_dropped_column_is_the_one_with_the_name_now(renamed: Renamed, kind: str) -> None:
    ps.open_table(renamed.location).build_index(["a", "c"], kind=kind)
    renamed.swap("a", "c")
    ps.open_table(renamed.location).drop_index("a")
    assert names(renamed) == ["c"]
    check(renamed, kind, "c", 7, files=1)
    check(renamed, kind, "a", 107)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_of_a_new_column_does_not_replace_that_of_a_renamed_one(renamed: Renamed, kind: str) -> None:
    ps.open_table(renamed.location).build_index("a", kind=kind)
    renamed.rename("a", "b")
    renamed.add("a")
    renamed.append([{**row, "b": row["a"], "a": key(7)} for row in rows_of(0)])
    report = ps.open_table(renamed.location).build_index("a", kind=kind)
    assert report.columns == {"a": kind}
    assert names(renamed) == ["a", "b"]
    check(renamed, kind, "a", 7, files=1)
    check(renamed, kind, "b", 7)
    assert ps.open_table(renamed.location).update_index().columns == ("a", "b")
    check(renamed, kind, "b", 4, files=2)
    check(renamed, kind, "a", 4, files=0)


@pytest.mark.parametrize("other", ["bloom", "text"])
def test_kinds_of_one_column_that_were_updated_under_different_names(renamed: Renamed, other: str) -> None:
    """A new build knows the new name. The other kind of index has the old name until an update."""
    ps.open_table(renamed.location).build_index("a", kind=other)
    renamed.swap("a", "c")
    table = ps.open_table(renamed.location)
    table.build_index(["a", "c"], kind="sieve")
    both = "both" if other == "bloom" else "sieve and text"
    assert table.index_kinds() == {"a": "sieve", "c": both}
    table.drop_index("a")
    assert table.index_kinds() == {"c": both}
    check(renamed, other, "c", 7, files=1)


@pytest.mark.parametrize("kind", ["both", "text"])
@pytest.mark.parametrize(
    ("before", "path", "name", "after", "number"),
    [
        ("s.x", "s.x", "z", "s.z", 207),
        ("s.x", "s", "t", "t.x", 207),
        ("tags", "tags", "words", "words.element", 407),
        ("labels.value", "labels", "marks", "marks.value", 507),
    ],
)
def test_fields_and_elements(
    renamed: Renamed, kind: str, before: str, path: str, name: str, after: str, number: int
) -> None:
    ps.open_table(renamed.location).build_index(before, kind=kind)
    renamed.rename(path, name)
    if path in ("s.x", "s"):
        check(renamed, kind, after, number, files=1)
    assert names(renamed) == [after]
    report = ps.open_table(renamed.location).update_index()
    assert (report.columns, report.files_read, report.notes) == ((after,), 0, ())
    assert ps.open_table(renamed.location).verify_index() == []
    assert ps.open_table(renamed.location).drop_index(after).columns == (after,)


def test_elements_of_a_renamed_list(renamed: Renamed) -> None:
    ps.open_table(renamed.location).build_index("tags", kind="sieve")
    renamed.rename("tags", "words")
    expected = [row["id"] for row in renamed.rows() if key(407) in row["words"]]
    plan = ps.open_table(renamed.location).plan(f"list_contains(words, '{key(407)}')", stale="error")
    assert plan.to_arrow()["id"].to_pylist() == expected
    assert len(plan.files) == 1


def test_swapped_fields_of_a_struct(renamed: Renamed) -> None:
    ps.open_table(renamed.location).build_index("s.x", kind="both")
    renamed.swap("s.x", "s.y")
    for _ in range(2):
        check(renamed, "both", "s.y", 207, files=1)
        check(renamed, "both", "s.x", 307)
        check(renamed, "both", "s.x", 207)
        assert names(renamed) == ["s.y"]
        ps.open_table(renamed.location).update_index()


EXPRESSIONS = ["lower(a)", "a, id"]


def check_expressions(renamed: Renamed, column: str, number: int, *, files: int | None = None) -> None:
    """Compare conditions on expressions of a column, and conditions that imply them, with all rows."""
    here, rows = ps.open_table(renamed.location), renamed.rows()
    for where, last in (
        (f"lower({column}) = '{key(number).lower()}'", 1000),
        (f"{column} = '{key(number)}'", 1000),
        (f"{column} = '{key(number)}' AND id BETWEEN 0 AND 15", 15),
    ):
        expected = [row["id"] for row in rows if row[column] == key(number) and row["id"] <= last]
        plan = here.plan(where, row_groups=False, on_unknown="error")
        assert sorted(plan.to_arrow()["id"].to_pylist()) == sorted(expected), where
        if files is not None:
            assert len(here.plan(where, row_groups=False, stale="error").files) == files, where
    nulls = [row["id"] for row in rows if row[column] is None]
    assert sorted(here.plan(f"lower({column}) IS NULL").to_arrow()["id"].to_pylist()) == sorted(nulls)


def test_expressions_follow_their_columns(renamed: Renamed) -> None:
    ps.open_table(renamed.location).build_index(EXPRESSIONS)
    check_expressions(renamed, "a", 7, files=1)
    renamed.rename("a", "b")
    for name, updated in (("b", False), ("b", True)):
        if updated:
            report = ps.open_table(renamed.location).update_index()
            assert (report.columns, report.files_read, report.notes) == ((f"key({name}, id)", f"lower({name})"), 0, ())
        assert names(renamed) == [f"key({name}, id)", f"lower({name})"]
        check_expressions(renamed, name, 7, files=1)
        assert ps.open_table(renamed.location).verify_index() == []
    # Another column gets the name, and the index of a third expression is built.
    renamed.rename("b", "odd name")
    renamed.add("b")
    renamed.append([{**row, "odd name": row["a"], "b": key(7)} for row in rows_of(0)])
    table = ps.open_table(renamed.location)
    table.build_index("lower(b)")
    assert names(renamed) == ['key("odd name", id)', 'lower("odd name")', "lower(b)"]
    check_expressions(renamed, "b", 7, files=1)
    check_expressions(renamed, "b", 4)
    assert table.plan(f"lower(\"odd name\") = '{key(7).lower()}'").to_arrow()["id"].to_pylist() == [7]
    with pytest.raises(ps.ColumnNotFoundError, match=r"^lower\(a\) is not indexed; "):
        table.drop_index("lower(a)")
    table.compact_index('lower("odd name")', purge=True)
    assert table.update_index().notes == ()
    assert table.verify_index() == []
    assert table.drop_index('lower("odd name")').columns == ('lower("odd name")',)
    assert names(renamed) == ['key("odd name", id)', "lower(b)"]
    check_expressions(renamed, "b", 7, files=1)


def test_expressions_of_swapped_columns(renamed: Renamed) -> None:
    ps.open_table(renamed.location).build_index([*EXPRESSIONS, "key(a, c)"])
    renamed.swap("a", "c")
    for _ in range(2):
        assert names(renamed) == ["key(c, a)", "key(c, id)", "lower(c)"]
        check_expressions(renamed, "c", 7, files=1)
        check_expressions(renamed, "a", 107)
        check_expressions(renamed, "a", 7)
        where = f"c = '{key(7)}' AND a = '{key(107)}'"
        assert ps.open_table(renamed.location).plan(where, row_groups=False).to_arrow()["id"].to_pylist() == [7]
        assert ps.open_table(renamed.location).update_index().notes == ()


def test_a_column_with_the_new_name_of_an_expression(renamed: Renamed) -> None:
    """Its values are not those of the expression, so the index of the expression is dropped."""
    ps.open_table(renamed.location).build_index(["lower(a)", "c"], kind="sieve")
    renamed.rename("a", "b")
    renamed.rename("tags", "lower(b)")
    renamed.append([{**row, "b": row["a"], "lower(b)": ["none"]} for row in rows_of(0)])
    table = ps.open_table(renamed.location)
    for _ in range(2):
        for number in (4, 7):
            expected = [row["id"] for row in renamed.rows() if row["b"] == key(number)]
            for where in (f"lower(b) = '{key(number).lower()}'", f"b = '{key(number)}'"):
                assert sorted(table.plan(where, row_groups=False).to_arrow()["id"].to_pylist()) == expected
        table.update_index()
    assert names(renamed) == ["c"]


@pytest.mark.parametrize("kind", KINDS)
def test_earlier_snapshots_have_their_own_names(renamed: Renamed, kind: str) -> None:
    table = ps.open_table(renamed.location)
    indexed = ["a", "lower(a)"] if kind == "sieve" else ["a"]
    table.build_index(indexed, kind=kind)
    first = table.opened.lake.snapshot().id
    rows = renamed.rows()
    renamed.swap("a", "c")
    renamed.rename("a", "d")
    renamed.add("a")
    renamed.append([{**row, "d": row["c"], "c": row["a"], "a": key(7)} for row in rows_of(1)])
    for step in range(4):
        for number, column in ((7, "a"), (107, "c"), (107, "a"), (7, "c")):
            where, holds = condition(kind, column, number)
            expected = [row["id"] for row in rows if holds(row[column])]
            for one in (where, f"lower({column}) = '{key(number).lower()}'"):
                plan = ps.open_table(renamed.location).plan(one, first, row_groups=False)
                assert plan.to_arrow()["id"].to_pylist() == expected, (one, step)
        where, _ = condition(kind, "a", 7)
        assert len(ps.open_table(renamed.location).plan(where, first, row_groups=False, stale="error").files) == 1
        check(renamed, kind, "c", 7)
        check(renamed, kind, "a", 7)
        if step == 0:
            table.update_index()
        elif step == 1:
            # Only the newest version of the index remains.
            table.expire_index(0)
        else:
            table.build_index("a", kind=kind)


def map_columns(folder: Path, **columns: tuple[str, int]) -> None:
    """Give the columns of a Delta table these names, each for a name in files and an id."""
    log = (folder / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    action = next(action["metaData"] for action in map(json.loads, log) if "metaData" in action)
    fields = [
        {
            "name": name,
            "type": "long" if name == "id" else "string",
            "nullable": True,
            "metadata": {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical},
        }
        for name, (physical, number) in columns.items()
    ]
    action |= {"schemaString": json.dumps({"type": "struct", "fields": fields})}
    action |= {"configuration": {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}}
    commit(folder, {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, {"metaData": action})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("updated", [False, True])
def test_a_delta_column_that_gets_an_id_and_another_name(tmp_path: Path, kind: str, updated: bool) -> None:
    """A table without ids cannot rename columns. So it first gets ids, which its index does not have."""
    for part in range(FILES):
        rows = pa.Table.from_pylist(rows_of(part)).select(["id", "a"])
        write_deltalake(tmp_path, rows, mode="append")
    indexed = ["a", "lower(a)"] if kind == "sieve" else ["a"]
    ps.open_table(tmp_path).build_index(indexed, kind=kind)

    map_columns(tmp_path, id=("id", 1), a=("a", 2))
    if updated:
        ps.open_table(tmp_path).update_index()
    # The column a is another one now.
    map_columns(tmp_path, id=("id", 1), b=("a", 2), a=("new", 3))
    table = ps.open_table(tmp_path)
    for step in range(2):
        assert sorted(table.index_kinds()) == (["b", "lower(b)"] if kind == "sieve" else ["b"])
        assert table.plan(condition(kind, "b", 7)[0], row_groups=False).to_arrow()["id"].to_pylist() == [7]
        assert table.plan(condition(kind, "a", 7)[0], row_groups=False).to_arrow().num_rows == 0
        assert table.plan("a IS NULL", row_groups=False).to_arrow().num_rows == FILES * ROWS
        plan = table.plan(condition(kind, "a", 7)[0], FILES - 1, row_groups=False)
        assert plan.to_arrow()["id"].to_pylist() == [7]
        if step == 0:
            report = table.update_index()
            assert (report.files_read, report.notes) == (0, ())
    assert len(table.plan(condition(kind, "b", 7)[0], row_groups=False, stale="error").files) == 1
    assert table.verify_index() == []


@pytest.mark.parametrize("kind", ["sieve", "bloom"])
def test_an_update_to_a_state_without_ids(tmp_path: Path, kind: str) -> None:
    """In an earlier state of a Delta table, which has no ids, the name of an indexed column is that of another one."""
    for part in range(FILES):
        write_deltalake(tmp_path, pa.Table.from_pylist(rows_of(part)).select(["id", "a", "c"]), mode="append")
    map_columns(tmp_path, id=("id", 1), c=("a", 2), a=("c", 3))
    table = ps.open_table(tmp_path)
    table.build_index("a", kind=kind)
    assert table.plan(condition(kind, "a", 107)[0], row_groups=False, stale="error").to_arrow()["id"].to_pylist() == [7]
    table.opened.index.update(table.opened.lake, table.opened.lake.snapshot(FILES - 1), progress=False)
    for column, number in (("a", 7), ("c", 107)):
        plan = table.plan(condition(kind, column, number)[0], FILES - 1, row_groups=False)
        assert plan.to_arrow()["id"].to_pylist() == [7]
        assert table.plan(condition(kind, column, number)[0], row_groups=False).to_arrow().num_rows == 0


def test_problems_have_the_current_name(renamed: Renamed) -> None:
    ps.open_table(renamed.location).build_index(["a", "lower(a)"], kind="sieve")
    renamed.rename("a", "b")
    table = ps.open_table(renamed.location)
    view = table.opened.index.newest()
    assert view is not None
    for state in view.columns.values():
        Path(renamed.location.removeprefix("file://"), "_parsieve", state.base.files[0].name).unlink()
    problems = ps.open_table(renamed.location).verify_index()
    assert {problem.column for problem in problems} == {("b",), ("lower(b)", "element")}
    assert not any(problem.loses_rows for problem in problems)


def test_the_command_line_has_the_current_names(renamed: Renamed, capsys: pytest.CaptureFixture[str]) -> None:
    ps.open_table(renamed.location).build_index(["a", "lower(a)", "c"], kind="sieve")
    renamed.swap("a", "c")
    assert main(["index", "stats", renamed.location, "--json"]) == 0
    assert sorted(json.loads(capsys.readouterr().out)) == ["a", "c", "lower(c)"]
    assert main(["index", "drop", renamed.location, "lower(c)"]) == 0
    assert sorted(ps.open_table(renamed.location).index_kinds()) == ["a", "c"]


def test_a_conversion_of_renamed_columns(renamed: Renamed) -> None:
    table = ps.open_table(renamed.location)
    index, lake = table.opened.index, table.opened.lake
    index.build(lake, lake.snapshot(), ["id"], progress=False)
    rebuild(index.log, lake, lake.snapshot(), {("a",): None, ("c",): None}, LocalExecutor(index.store))
    renamed.swap("a", "c")
    renamed.rename("a", "b")
    table = ps.open_table(renamed.location)
    assert table.convert_index().columns == ("b", "c")
    assert names(renamed) == ["b", "c", "id"]
    check(renamed, "sieve", "c", 7, files=1)
    check(renamed, "sieve", "b", 107, files=1)
    assert {stats.format for stats in table.index_stats().values()} == {2}
