"""Indexes of expressions while a table changes: renames, wider types, deletes, maintenance and damage."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.types import LongType

import parsieve as ps

INDEXED = ["lower(email)", "tenant, id"]
CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "lower(email) = 'u12@x.com'": lambda row: (row["email"] or "").lower() == "u12@x.com",
    "lower(email) IS NULL": lambda row: row["email"] is None,
    "lower(email) IS DISTINCT FROM 'u12@x.com'": lambda row: (row["email"] or "").lower() != "u12@x.com",
    "lower(email) NOT BETWEEN 'u1' AND 'u5'": lambda row: (
        row["email"] is not None and not "u1" <= row["email"].lower() <= "u5"
    ),
    "tenant = 't1' AND id BETWEEN 7 AND 30": lambda row: row["tenant"] == "t1" and 7 <= (row["id"] or 0) <= 30,
}


def some_rows(first: int, count: int = 20) -> pa.Table:
    """Return rows whose texts have several spellings."""
    ids = list(range(first, first + count))
    return pa.table(
        {
            "email": [None if id % 9 == 0 else f"{'uU'[id % 2]}{id}@X.com" for id in ids],
            "tenant": [f"t{id % 3}" for id in ids],
            "id": pa.array(ids, pa.int32()),
        }
    )


def check(table: ps.Table) -> int:
    """Compare the rows of plans with all rows of the table, and return how many files the first plan skips."""
    everything = table.plan().to_arrow().to_pylist()
    skipped = []
    for where, holds in CONDITIONS.items():
        plan = table.plan(where, on_unknown="error")
        expected = sorted(str(row) for row in everything if holds(row))
        assert sorted(map(str, plan.to_arrow().to_pylist())) == expected, where
        skipped.append(len(plan.skipped))
    return skipped[0]


def test_maintenance_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    for part in range(4):
        pq.write_table(some_rows(part * 20), folder / f"{part}.parquet")
    table = ps.open_table(folder)
    table.build_index(INDEXED)
    assert check(table) == 3
    # A replaced file, a new one, and one that is gone.
    pq.write_table(some_rows(200), folder / "0.parquet")
    pq.write_table(some_rows(0, 30), folder / "4.parquet")
    (folder / "2.parquet").unlink()
    check(table)
    for compact in (False, True):
        table.update_index(compact=compact)
        assert check(table) >= 3
        assert table.verify_index() == []
        pq.write_table(some_rows(300), folder / f"more-{compact}.parquet")
        check(table)
    table.update_index(compact=False)
    table.compact_index()
    assert check(table) >= 3
    table.expire_index(older_than=dt.timedelta(0))
    assert check(table) >= 3
    assert table.verify_index() == []
    table.drop_index("lower(email)")
    check(table)
    assert list(table.index_kinds()) == ["key(tenant, id)"]
    table.drop_index()
    check(table)


@pytest.mark.parametrize("folder", ["bindings", "segments"])
def test_damaged_parts_keep_files(tmp_path: Path, folder: str) -> None:
    for part in range(4):
        pq.write_table(some_rows(part * 20), tmp_path / f"{part}.parquet")
    index = tmp_path.parent / f"{tmp_path.name} index"
    ps.open_table(tmp_path, index_location=index).build_index(INDEXED)
    for path in (index / folder).iterdir():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(bytes(data))
    table = ps.open_table(tmp_path, index_location=index)
    check(table)
    assert not any(problem.loses_rows for problem in table.verify_index())


def test_iceberg_renames_wider_types_and_deletes(catalog: Any) -> None:
    iceberg = catalog.create_table("n.users", some_rows(0).schema)
    for part in range(3):
        iceberg.append(some_rows(part * 20))
    table = ps.open_table(iceberg)
    table.build_index(INDEXED)
    assert check(table) >= 2
    iceberg.delete("id >= 12 AND id < 14")
    table = ps.open_table(iceberg)
    check(table)
    with iceberg.update_schema() as update:
        update.update_column("id", LongType())
    more = some_rows(60).set_column(2, "id", pa.array(range(2**40, 2**40 + 20), pa.int64()))
    iceberg.append(more)
    table = ps.open_table(iceberg)
    check(table)
    table.update_index()
    # Keys of both integer types have the same bytes.
    assert check(table) >= 2
    assert sorted(table.index_kinds()) == ["key(tenant, id)", "lower(email)"]
    found = table.plan(keys={"tenant, id": [("t1", 2**40 + 1), ("t0", 15)]})
    assert len(found.files) == 2
    assert sorted(found.to_arrow()["id"].to_pylist()) == [15, 2**40 + 1]
    # Another column gets the name of the indexed one.
    with iceberg.update_schema() as update:
        update.rename_column("email", "address")
    with iceberg.update_schema() as update:
        update.add_column("email", update._schema.find_field("address").field_type)
    table = ps.open_table(iceberg)
    check(table)
    assert table.plan("lower(address) = 'u16@x.com'").to_arrow()["id"].to_pylist() == [16]
    table.update_index()
    assert sorted(table.index_kinds()) == ["key(tenant, id)", "lower(address)"]
    check(table)


def test_delta_deletes_and_overwrites(tmp_path: Path) -> None:
    for part in range(3):
        write_deltalake(tmp_path, some_rows(part * 20), mode="append")
    table = ps.open_table(tmp_path)
    table.build_index(INDEXED)
    first = table.opened.lake.snapshot().id
    assert check(table) >= 2
    DeltaTable(tmp_path).delete("id = 12 OR email IS NULL")
    check(table)
    write_deltalake(tmp_path, some_rows(60), mode="append")
    table.update_index()
    assert check(table) >= 1
    DeltaTable(tmp_path).update(updates={"email": "'U12@x.com'"}, predicate="id = 33")
    check(table)
    assert table.plan("lower(email) = 'u12@x.com'").to_arrow()["id"].to_pylist() == [33]
    earlier = table.plan("lower(email) = 'u12@x.com'", first).to_arrow()
    assert pc.sum(earlier["id"]).as_py() == 12
    # The same name has another type now.
    other = some_rows(0).set_column(2, "id", pa.array([str(id) for id in range(20)]))
    write_deltalake(tmp_path, other, mode="overwrite", schema_mode="overwrite")
    plan = table.plan("tenant = 't1' AND id = '13'")
    assert plan.to_arrow()["email"].to_pylist() == ["U13@X.com"]
    table.update_index()
    assert table.plan("tenant = 't1' AND id = '13'").to_arrow()["email"].to_pylist() == ["U13@X.com"]


def write_texts(folder: Path, num_doubtful: int, length: int = 100) -> ps.Table:
    """Write 20 files of texts. Some of them have a text for which engines disagree about its lower case."""
    for part in range(20):
        texts = [f"User{row * 20 + part}" for row in range(length)]
        if part < num_doubtful:
            texts[0] = "Ünal"
        pq.write_table(pa.table({"name": texts}), folder / f"{part:02}.parquet")
    return ps.open_table(folder)


def test_explain_says_which_files_an_index_never_skips(tmp_path: Path) -> None:
    table = write_texts(tmp_path, 5)
    table.build_index("lower(name)", progress=False)
    plan = table.plan("lower(name) = 'user7'")
    assert len(plan.files) == 6
    text = plan.explain()
    assert "in doubt, so kept: 5 files" in text
    assert "for which engines disagree about lower(name), so the index of lower(name) never skips it" in text
    assert "07.parquet" not in text.partition("in doubt")[2]
    # A file with a match is kept in any case.
    assert "in doubt, so kept: 4 files" in table.plan("lower(name) = 'user22'").explain()
    assert table.plan("lower(name) = 'user7'", stale="error").files == plan.files


@pytest.mark.parametrize(("num_doubtful", "kind"), [(0, "sieve"), (5, "sieve"), (20, "none")])
def test_advice_counts_the_files_that_an_index_never_skips(tmp_path: Path, num_doubtful: int, kind: str) -> None:
    table = write_texts(tmp_path, num_doubtful)
    [advice] = table.advise("lower(name)")
    assert advice.recommendation == kind
    assert advice.sampled == 16
    table.build_index("lower(name)", progress=False)
    reads = len(table.plan("lower(name) = 'user7'").files)
    assert abs(advice.sieve_reads - reads) < 3
    assert ("engines disagree about lower(name)" in advice.why) == (kind == "none")


def test_advice_on_files_with_nothing_but_disagreement(tmp_path: Path) -> None:
    [advice] = write_texts(tmp_path, 20, length=1).advise("lower(name)")
    assert (advice.recommendation, advice.sieve_reads) == ("none", 20)


# The spellings of an expression that a caller can index, and conditions in which plans recognize it.
SPELLINGS: dict[str, list[Any]] = {
    "lower(email)": ["lower(email) = 'u7@x.com'", "LCASE(email) = 'u7@x.com'", "email = 'U7@X.com'"],
    "lcase(email)": [[("lower(email)", "=", "u7@x.com")], "lower(email) LIKE 'u7@%'"],
    "ucase(email)": ["upper(email) = 'U7@X.COM'", "ucase(email) IN ('U7@X.COM')"],
    "cast(text as long)": ["CAST(text AS BIGINT) = 7", "text::BIGINT = 7", pc.field("text").cast("int64") == 7],
    "get_json_object(json, '$.a.b')": ["json_extract_string(json, '$.a.b') = 'v7'"],
    "email, id": ["email = 'U7@X.com' AND id = 7", "id IN (7) AND email = 'U7@X.com'"],
    "key(id, email)": ["id = 7 AND email = 'U7@X.com'"],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_each_spelling_of_an_expression_builds_an_index_that_conditions_use(tmp_path: Path, spelling: str) -> None:
    for part in range(4):
        ids = [number for number in range(40) if number % 4 == part]
        columns = {"email": [f"{'uU'[id % 2]}{id}@X.com" for id in ids], "id": ids, "text": [str(id) for id in ids]}
        rows = pa.table({**columns, "json": [f'{{"a": {{"b": "v{id}"}}}}' for id in ids]})
        pq.write_table(rows, tmp_path / f"{part}.parquet")
    table = ps.open_table(tmp_path)
    report = table.build_index(spelling, pages=False)
    assert report.notes == ()
    for condition in SPELLINGS[spelling]:
        plan = table.plan(condition, on_unknown="error")
        assert [Path(path).name for path in plan.files] == ["3.parquet"], condition
        assert plan.to_arrow()["id"].to_pylist() == [7]


def test_values_that_differ_only_in_case_are_one_value_of_an_expression(tmp_path: Path) -> None:
    for part, emails in enumerate((["a", "b"], ["A", "c"], ["d", "e"])):
        pq.write_table(pa.table({"email": [*emails, "z"]}), tmp_path / f"{part}.parquet")
    table = ps.open_table(tmp_path)
    table.build_index("lower(email)", pages=False)
    plan = table.plan("email IN ('a', 'A')")
    assert plan.to_arrow()["email"].to_pylist() == ["a", "A"]
    assert [Path(path).name for path in plan.files] == ["0.parquet", "1.parquet"]


@pytest.mark.parametrize(
    "expression",
    ["length(email)", "email::BIGINT", "CAST(email AS INT)", "lower(trim(email))", "date_trunc('day', at)"],
)
def test_expressions_that_no_condition_could_use_are_errors(tmp_path: Path, expression: str) -> None:
    rows = pa.table({"email": ["a"], "at": [dt.datetime(2026, 1, 1)]})
    pq.write_table(rows, tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    with pytest.raises(ps.ColumnNotFoundError, match="The expressions that can be indexed are lower") as error:
        table.build_index(expression)
    assert str(error.value).endswith("index the timestamp itself") == ("date_trunc" in expression)


def test_the_report_of_a_build_counts_the_files_that_no_condition_skips(tmp_path: Path) -> None:
    for part, letter in enumerate("aäü"):
        pq.write_table(pa.table({"name": [f"{letter}{part}", "b"]}), tmp_path / f"{part}.parquet", row_group_size=1)
    table = ps.open_table(tmp_path)
    start = "2 of 3 files have values for which engines disagree about lower(name), so "
    report = table.build_index(["lower(name)", "name"], unit="file")
    assert report.notes == (f"{start}no condition on it skips them",)
    assert report.notes[0] in str(report)
    assert len(table.plan("lower(name) = 'nothing'").files) == 2
    report = table.build_index("lower(name)", unit="row_group")
    assert report.notes == (f"{start}every condition on it keeps those parts of them",)
