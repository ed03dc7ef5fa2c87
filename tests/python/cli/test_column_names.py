"""For a missing column, Python and the command line suggest the closest column name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.cli import main
from parsieve.errors import did_you_mean, no_column


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    address = [{"street": "Main", "zip": 1}] * 3
    table = pa.table({"order_id": [1, 2, 3], "customer_id": ["a", "b", "c"], "address": address})
    pq.write_table(table, tmp_path / "part-0.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("misspelled", "closest"),
    [("custmer_id", "customer_id"), ("CustomerId", "customer_id"), ("address.stret", "address.street")],
)
def test_every_call_suggests_the_closest_column(folder: Path, misspelled: str, closest: str) -> None:
    table = ps.open_table(folder)
    hint = rf"there is no column '{misspelled}'; did you mean '{closest}'\?"
    for call in (
        lambda: table.plan(f"{misspelled} = 'x'"),
        lambda: table.plan([(misspelled, "=", "x")]),
        lambda: table.build_index(misspelled),
        lambda: table.advise(misspelled),
        lambda: ps.add_filters(folder / "part-0.parquet", columns=[misspelled]),
        lambda: ps.open_filters(folder / "part-0.parquet").might_contain({misspelled: "x"}),
    ):
        with pytest.raises(ps.ColumnNotFoundError, match=hint):
            call()


def test_errors_say_how_to_name_keys_and_expressions(tmp_path: Path) -> None:
    labels = pa.array([[("host", "a")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"labels": labels, "email": ["a"]}), tmp_path / "part-0.parquet")
    table = ps.open_table(tmp_path)
    for call in (table.build_index, lambda name: table.plan(f"{name} = 'a'")):
        with pytest.raises(ps.ColumnNotFoundError, match=r"labels is a map; in a condition, write labels\['host'\]"):
            call("labels.host")
    for name in ("substr(email, 1, 3)", "email->>'$.a'", "email::BIGINT", "CAST(email AS INT)", "length(email)"):
        with pytest.raises(ps.ColumnNotFoundError, match=r"expressions that can be indexed are lower\(text\)"):
            table.build_index(name)


def test_to_arrow_suggests_the_closest_column(folder: Path) -> None:
    with pytest.raises(ps.ColumnNotFoundError, match="did you mean 'order_id'"):
        ps.open_table(folder).plan("order_id = 1").to_arrow(columns=["oder_id"])


def test_the_error_for_a_column_without_an_index_lists_indexed_columns(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index(["order_id", "customer_id"], kind="sieve")
    for call in (table.drop_index, table.compact_index):
        with pytest.raises(ps.ColumnNotFoundError, match=r"custmer_id is not indexed; did you mean 'customer_id'\?"):
            call("custmer_id")
        with pytest.raises(ps.ColumnNotFoundError, match="x is not indexed; indexed columns: customer_id, order_id"):
            call("x")


def test_the_command_line_prints_the_suggestion_in_one_line(folder: Path, capsys: Any) -> None:
    assert main(["plan", str(folder), "custmer_id = 'x'"]) == 2
    printed = capsys.readouterr()
    assert printed.err == (
        "parsieve: there is no column 'custmer_id'; did you mean 'customer_id'? "
        "The columns are: order_id, customer_id, address\n"
    )


def test_distant_names_are_not_suggested() -> None:
    assert did_you_mean("zzz", ["order_id", "customer_id"]) == ""
    assert did_you_mean("", ["a"]) == ""
    names = [f"column_{number}" for number in range(30)]
    assert str(no_column("zzz", names)).endswith("column_19 and 10 more")


def test_every_call_finds_the_column_whose_name_differs_only_in_case(folder: Path, capsys: Any) -> None:
    table, file = ps.open_table(folder), folder / "part-0.parquet"
    for column, other in (("order_id", "ORDER_ID"), ("address.zip", "Address.ZIP")):
        assert set(table.build_index(other).columns) == {column}
        assert table.drop_index(other).columns == (column,)
        assert {added.column for added in ps.add_filters(file, columns=[other]).added} == {column}
        with ps.open_filters(file) as filters:
            assert filters.might_contain({other: 1}) == [True]
            assert filters.might_contain({other: 77}) == [False]
            assert filters.filter(0, other) == filters.filter(0, column)
        assert ps.drop_filters(file, columns=other).dropped
    table.build_index(ps.expr("lower(customer_id)"))
    assert table.drop_index("LOWER(Customer_Id)").columns == ("lower(customer_id)",)
    table.build_index("customer_id")
    assert main(["index", "drop", str(folder), "Customer_ID"]) == 0
    assert "dropped customer_id" in capsys.readouterr().out


def test_an_ambiguous_column_of_a_file_must_match_exactly(tmp_path: Path) -> None:
    file = tmp_path / "0.parquet"
    pq.write_table(pa.table({"id": [1], "ID": [2]}), file)
    assert [added.column for added in ps.add_filters(file, columns="ID").added] == ["ID"]
    with ps.open_filters(file) as filters:
        assert filters.might_contain({"ID": 1}) == [False]
        with pytest.raises(ps.ColumnNotFoundError, match=r"'Id' matches several columns"):
            filters.might_contain({"Id": 1})


def test_an_index_of_another_field_is_not_dropped(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": [{"a": 1, "A": 2}]}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    table.build_index(("s", "A"), kind="sieve")
    with pytest.raises(ps.ColumnNotFoundError, match=r"s\.a is not indexed"):
        table.drop_index("s.a")
    assert list(table.index_stats()) == ["s.A"]


def test_the_filters_of_a_folder_cannot_be_opened(folder: Path) -> None:
    with pytest.raises(IsADirectoryError, match="is a folder, and open_filters takes one file") as caught:
        ps.open_filters(folder)
    assert caught.value.filename == str(folder)
