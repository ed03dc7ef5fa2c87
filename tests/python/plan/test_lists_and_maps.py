"""Conditions on the elements of lists and the entries of maps: no row is lost, with and without an index."""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from support import footer_edit, lists
from support.aging import wait_until_old
from support.formats import FORMATS

import parsieve as ps
from parsieve.index.log.columns import current_field, field_id_of
from parsieve.lake.rows.columns import leaf_field

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_row_is_lost(tmp_path: Path, seed: int) -> None:
    source = random.Random(f"lists {seed}")
    rows = lists.write_table(source, tmp_path / "t")
    table = ps.open_table(tmp_path / "t")
    conditions = [lists.random_condition(source) for _ in range(25)]
    skipped = sum(lists.check(table, rows, condition, source) for condition in conditions)
    columns = ["tags", "numbers", "ratios", "box.tags", "labels.key", "labels.value"]
    chosen = source.sample(columns, source.randrange(1, len(columns)))
    unit = source.choice(("file", "row_group", "rows"))
    table.build_index(chosen, source.choice(("sieve", "bloom", "both")), unit=unit)
    skipped_with_index = sum(lists.check(table, rows, condition, source) for condition in conditions)
    assert 0 < skipped <= skipped_with_index
    assert not table.verify_index()


def test_the_model_agrees_with_duckdb(tmp_path: Path) -> None:
    source = random.Random("lists in DuckDB")
    rows = lists.write_table(source, tmp_path / "t")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t AS FROM read_parquet('{tmp_path}/t/*.parquet')")
        for _ in range(300):
            condition = lists.random_condition(source)
            found = connection.execute(f"SELECT id FROM t WHERE {condition.sql} ORDER BY id").fetchall()
            assert [value for (value,) in found] == [row["id"] for row in rows if condition.truth(row) is True], (
                condition.sql
            )


@pytest.mark.parametrize("format_name", list(FORMATS))
@pytest.mark.parametrize("kind", ["sieve", "bloom"])
def test_all_formats_have_indexes_of_lists(tmp_path: Path, format_name: str, kind: str) -> None:
    source = random.Random(f"lists in {format_name} {kind}")
    files = [lists.random_table(source, 25, 25 * part, part) for part in range(3)]
    table = ps.Table(FORMATS[format_name](tmp_path / "t", files, 10))
    rows = pa.concat_tables(files).to_pylist()
    table.build_index(["tags", "box.tags", "numbers", "labels.key", "labels.value"], kind)
    skipped = sum(lists.check(table, rows, lists.random_condition(source), source) for _ in range(20))
    assert skipped > 0
    assert table.verify_index() == []
    assert "a99" not in str(table.plan("list_contains(tags, 'a99')").files)


def test_an_index_of_lists_follows_a_delta_table(tmp_path: Path) -> None:
    source = random.Random("lists in the history of a Delta table")
    path = str(tmp_path)
    write_deltalake(path, lists.random_table(source, 40, 0, 0))
    table = ps.open_table(path)
    table.build_index(["tags", "labels.key", "labels.value"], "both", fpp=0.1)
    for step in range(1, 6):
        write_deltalake(path, lists.random_table(source, 20, 1000 * step, step % 4), mode="append")
        DeltaTable(path).delete(f"id % 9 = {step}")
        check_state(table, source)
        table.update_index()
        check_state(table, source)
    table.compact_index()
    assert table.verify_index() == []
    check_state(table, source)


def test_lists_and_maps_are_indexed_by_several_names(tmp_path: Path) -> None:
    """`add_filters` takes the path in Parquet."""
    labels = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"tags": [["a"]], "labels": labels}), tmp_path / "a.parquet")
    table = ps.open_table(tmp_path)
    for name in ("tags", "tags.element", "tags.list.element"):
        assert list(table.build_index(name).columns) == ["tags.element"]
    for name in ("labels.value", "labels.key_value.value"):
        assert list(table.build_index(name).columns) == ["labels.value"]
    table.drop_index()
    for column in ("tags", "tags.list.element", "labels.key_value.value"):
        table.build_index(column)
        table.drop_index(column)
        assert not table.index_stats()
    for name in ("tags.list", "tags.list.key", "tags.key_value.element", "labels.list.value", "list.element"):
        with pytest.raises(ps.ColumnNotFoundError):
            table.build_index(name)


def test_an_index_of_lists_follows_an_iceberg_table(catalog: SqlCatalog) -> None:
    source = random.Random("lists in the history of an Iceberg table")
    first = lists.random_table(source, 40, 0, 0)
    written = catalog.create_table("n.lists", first.schema)
    written.append(first)
    table = ps.open_table(written)
    table.build_index(["tags", "labels.key", "box.tags"])
    for step in range(1, 5):
        more = lists.random_table(source, 20, 1000 * step, step % 4)
        written.append(
            more.rename_columns(["words" if name == "tags" and step > 2 else name for name in more.column_names])
        )
        written.delete(f"id < {10 * step}")
        if step == 2:
            with written.update_schema() as change:
                change.rename_column("tags", "words")
        table = ps.open_table(written)
        check_state(table, source, {"tags": "words"} if step >= 2 else {})
        table.update_index()
        check_state(table, source, {"tags": "words"} if step >= 2 else {})
    assert table.verify_index() == []


def check_state(table: ps.Table, source: random.Random, renamed: dict[str, str] | None = None) -> None:
    """Compare random conditions with brute force on the current rows of a table."""
    rows = table.plan().to_arrow().to_pylist()
    back = {new: old for old, new in (renamed or {}).items()}
    known = [{back.get(name, name): value for name, value in row.items()} for row in rows]
    for _ in range(8):
        condition = lists.random_condition(source)
        expected = sorted(row["id"] for row in known if condition.truth(row) is True)
        sql = condition.sql
        for old, new in (renamed or {}).items():
            sql = sql.replace(f"({old},", f"({new},")
        assert sorted(table.plan(sql, on_unknown="error").to_arrow()["id"].to_pylist()) == expected, sql


def test_filters_in_files_answer_for_elements(tmp_path: Path) -> None:
    for part in range(4):
        values = [[f"{row}-{part}"] for row in range(100)]
        pq.write_table(pa.table({"tags": values}), tmp_path / f"{part}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    assert len(table.plan("list_contains(tags, '50-2')").files) == 4
    for part in range(4):
        ps.add_filters(tmp_path / f"{part}.parquet", columns=[("tags", "list", "element")])
    wait_until_old(tmp_path)
    plan = ps.open_table(str(tmp_path)).plan("list_contains(tags, '50-2')")
    assert [Path(file).name for file in plan.files] == ["2.parquet"]
    assert plan.to_arrow()["tags"].to_pylist() == [["50-2"]]


def test_two_elements_may_answer_two_conditions(tmp_path: Path) -> None:
    # No single element lies between both bounds.
    values = pa.array([[("a", 1), ("b", 9)], [("a", 9), ("b", 1)]], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"m": values}), tmp_path / "f.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    for kind in ("none", "sieve"):
        if kind == "sieve":
            table.build_index("m.value", kind)
        for where in ("m['a'] < 2 AND m['b'] > 8", "m['a'] > 5 AND m['b'] < 7", "m['a'] = 1 AND NOT (m['b'] = 1)"):
            assert table.plan(where).to_arrow().num_rows == 1, (kind, where)


def test_keys_and_values_of_one_type_are_distinguished(tmp_path: Path) -> None:
    entries = pa.array([[("a", "x")], [("b", "y")]], pa.map_(pa.string(), pa.string()))
    pq.write_table(pa.table({"m": entries}), tmp_path / "f.parquet")
    table = ps.open_table(str(tmp_path))
    for where, count in (("m['a'] = 'x'", 1), ("m['x'] = 'a'", 0), ("list_contains(map_values(m), 'y')", 1)):
        plan = table.plan(where)
        assert plan.to_arrow().num_rows == len(plan.files) == count, where


def test_ids_of_elements_in_files_do_not_count(tmp_path: Path) -> None:
    # Columns of a folder are found by name, so each writer may number the elements as it likes.
    def tagged(name: str, number: int) -> pa.Field:
        element = pa.field("element", pa.string(), metadata={b"PARQUET:field_id": str(number).encode()})
        return pa.field(name, pa.list_(element), metadata={b"PARQUET:field_id": str(number + 10).encode()})

    for part, (first, second) in enumerate([(1, 2), (2, 1)]):
        schema = pa.schema([tagged("a", first), tagged("b", second)])
        table = pa.table({"a": [[f"a{part}"]], "b": [[f"b{part}"]]}).cast(schema)
        pq.write_table(table, tmp_path / f"{part}.parquet")
    wait_until_old(tmp_path)
    opened = ps.open_table(str(tmp_path))
    for kind in ("none", "both"):
        if kind == "both":
            opened.build_index(["a", "b"], kind)
        for where in ("a0", "a1", "b0", "b1"):
            assert opened.plan(f"list_contains({where[0]}, '{where}')").to_arrow().num_rows == 1, (kind, where)


def test_counts_of_nulls_in_lists_prove_nothing(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"tags": [["a"], None]}), path)

    def change(metadata: footer_edit.Struct) -> None:
        for statistics in footer_edit.statistics(metadata):
            statistics[footer_edit.NULL_COUNT] = (footer_edit.I64, 2)

    footer_edit.edit(path, change)
    assert ps.open_table(str(path)).plan("list_contains(tags, 'a')").to_arrow().num_rows == 1


def test_a_list_of_lists_is_kept_with_a_reason(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [[[1]], [[2, 3]]]}), tmp_path / "f.parquet")
    table = ps.open_table(str(tmp_path))
    with pytest.warns(ps.ParsieveWarning, match="not a list of single values"):
        assert len(table.plan("list_contains(x, 1)").files) == 1
    with pytest.raises(ps.UnsupportedError, match=r"x\.element is a list"):
        table.build_index("x")


def test_a_list_of_structs_in_a_table_of_plain_lists_is_kept(tmp_path: Path) -> None:
    for number, values in enumerate([[[1]], [[{"a": 1}]]]):
        pq.write_table(pa.table({"x": values}), tmp_path / f"{number}.parquet")
    plan = ps.open_table(str(tmp_path)).plan("list_contains(x, 7)")
    assert plan.files == [str(tmp_path / "1.parquet")]


def test_a_map_has_an_index_of_its_keys_or_values(tmp_path: Path) -> None:
    pq.write_table(pa.table({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}), tmp_path / "f.parquet")
    table = ps.open_table(str(tmp_path))
    with pytest.raises(ps.UnsupportedError, match=r"m is a map; index its keys as m\.key, or its values as m\.value"):
        table.build_index("m")
    table.build_index("m.key")
    assert table.index_kinds() == {"m.key": "sieve"}
    table.drop_index("m.key")


def test_null_tests_of_lists_keep_all_files(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"tags": [["a"], None], "id": [1, 2]}))
    table = ps.open_table(str(tmp_path))
    assert table.plan("tags IS NULL").to_arrow()["id"].to_pylist() == [2]
    assert table.plan("tags IS NOT NULL").to_arrow()["id"].to_pylist() == [1]


def test_an_index_of_elements_has_the_identity_of_its_list() -> None:
    # Delta gives ids to columns, but not to the elements of lists. A column that gets the name of another one must not
    # get its index.
    identified = {b"PARQUET:field_id": b"7"}
    schema = pa.schema(
        [
            pa.field("tags", pa.list_(pa.string()), metadata=identified),
            pa.field("labels", pa.map_(pa.string(), pa.string()), metadata={b"PARQUET:field_id": b"8"}),
            pa.field("plain", pa.list_(pa.string())),
        ]
    )
    paths = [("tags", "element"), ("labels", "key"), ("labels", "value")]
    ids = [field_id_of(leaf_field(schema, path)) for path in paths]
    assert None not in ids
    assert len(set(ids)) == 3
    assert field_id_of(leaf_field(schema, ("plain", "element"))) is None
    renamed = pa.schema([schema.field("plain").with_name("tags"), schema.field("tags").with_name("words")])
    assert current_field(renamed, ("tags", "element"), ids[0])[0] == ("words", "element")
    with pytest.raises(ps.ColumnNotFoundError):
        current_field(schema.remove(0), ("tags", "element"), ids[0])
