"""Names of files and columns with a special meaning for an engine: all engines return the same rows."""

from __future__ import annotations

import io
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from support.aging import wait_until_old
from support.formats import FORMATS

import parsieve as ps
from parsieve.lake.folder.table import ParquetDir
from parsieve.table import Table

FILES = ["a[1]", "a1", "b*", "b2", "c?", "c1", "{a1,b2}", "d e", "d%20e", "f#g", "f", "it's", '"', "\\", "$HOME", "x:y"]
COLUMNS = ["a.b", 'q"q', "b`t", "it's", "new\nline", "1", "*", "^r.*$"]


def rows_of_all_engines(plan: ps.Plan) -> list[list[int]]:
    with duckdb.connect() as con:
        frames = plan.to_arrow(), plan.to_polars().collect().to_arrow(), plan.to_duckdb(con).to_arrow_table()
    return [sorted(frame["row"].to_pylist()) for frame in frames]


@pytest.mark.parametrize("below", ["", "[a]*"])
def test_file_names_are_not_interpreted_as_patterns(tmp_path: Path, below: str) -> None:
    folder = tmp_path / below
    (tmp_path / "a").mkdir()
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(FILES):
        pq.write_table(pa.table({"id": [number], "row": [number]}), folder / f"{name}.parquet")
    table = ps.open_table(str(folder))
    assert rows_of_all_engines(table.plan()) == [list(range(len(FILES)))] * 3
    for number in range(len(FILES)):
        assert rows_of_all_engines(table.plan(f"id = {number}")) == [[number]] * 3, FILES[number]


@pytest.mark.parametrize("column", COLUMNS)
def test_column_names_are_not_interpreted_as_patterns(tmp_path: Path, column: str) -> None:
    for part in range(3):
        pq.write_table(pa.table({"row": [part], column: [part + 10]}), tmp_path / f"{part}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(str(tmp_path))
    quoted = column.replace('"', '""')
    for kind in ("sieve", "bloom"):
        assert rows_of_all_engines(table.plan(f'"{quoted}" = 11')) == [[1]] * 3
        assert rows_of_all_engines(table.plan([(column, "=", 12)])) == [[2]] * 3
        table.build_index(column, kind=kind, progress=False)
        assert table.index_kinds() == {column: kind}
        table.drop_index(column)
    table.build_index(column, progress=False)
    table.compact_index(column)
    assert len(table.plan([(column, "=", 12)]).files) == 1


@pytest.mark.parametrize("column", ["*", "^row$", "^.*$", "^none$"])
@pytest.mark.parametrize("others", [{}, {"f": [0.5]}])
def test_polars_selects_names_that_look_like_patterns(
    tmp_path: Path, column: str, others: dict[str, list[float]]
) -> None:
    for part in range(4):
        pq.write_table(pa.table({"row": [part], column: [part + 10], **others}), tmp_path / f"{part}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    rows = [(part, part + 10, *(others.get("f", ()))) for part in range(4)]
    odd = pl.nth(1)
    for where, expected in ((None, rows), ("row > 1", rows[2:]), ([(column, ">", 10)], rows[1:])):
        frames = [table.plan(where).to_polars()]
        if not isinstance(where, list):
            frames.append(ps.scan_polars(table).filter(pl.sql_expr(where or "true")))
        for frame in frames:
            assert frame.collect().rows() == expected
            assert frame.select(odd).collect().rows() == [row[1:2] for row in expected]
            assert frame.select("row").collect().rows() == [row[:1] for row in expected]
            assert frame.filter(odd > 12).collect().rows() == rows[3:]
            assert frame.filter(odd > 12).select("row").collect().rows() == [(3,)]
            assert frame.head(2).collect().rows() == expected[:2]
            assert frame.head(2).filter(odd == expected[1][1]).collect().rows() == expected[1:2]
            assert frame.select(pl.len()).collect().item() == len(expected)


@pytest.mark.parametrize("column", ["__filename", "__fragment_index", "__batch_index", "__last_in_fragment"])
@pytest.mark.parametrize("form", ["folder", "delta"])
def test_columns_that_the_scans_of_pyarrow_add(tmp_path: Path, column: str, form: str) -> None:
    files = [pa.table({"row": [part], column: [str(part)], "f": [0.5]}) for part in range(3)]
    table = Table(FORMATS[form](tmp_path / "t", files, 10))
    conditions = {None: [0, 1, 2], "row > 0": [1, 2], f"{column} = '1'": [1], "row > 9": []}
    for where, expected in conditions.items():
        plan = table.plan(where)
        assert rows_of_all_engines(plan) == [expected] * 3
        assert sorted(plan.to_arrow([column])[column].to_pylist()) == list(map(str, expected))
        assert sum(batch.num_rows for batch in plan.to_batches()) == plan.count_rows() == len(expected)
        assert plan.to_polars().filter(pl.col(column) == "1").select("row").collect().rows() == [(1,)] * (1 in expected)
        with pytest.raises(ps.UnsupportedError, match=f"cannot have a column {column}"):
            plan.to_dataset()
    frame = ps.scan_polars(table)
    assert sorted(frame.filter(pl.col("row") > 0).collect()[column]) == ["1", "2"]
    assert table.lookup("row", [2]).table[column].to_pylist() == ["2"]
    ordered = table.plan(order_by="row", limit=1)
    assert ordered.to_arrow()[column].to_pylist() == ["0"]
    for dataset in (ordered.to_dataset, table.dataset):
        with pytest.raises(ps.UnsupportedError, match=f"cannot have a column {column}"):
            dataset()


def test_files_may_have_columns_that_the_scans_of_pyarrow_add(tmp_path: Path) -> None:
    pq.write_table(pa.table({"row": [0]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"row": [1], "__filename": ["1"]}), tmp_path / "1.parquet")
    table = Table(ParquetDir(tmp_path, schema=pa.schema({"row": pa.int64()})))
    assert rows_of_all_engines(table.plan()) == [[0, 1]] * 3
    assert table.dataset().count_rows() == table.plan("row >= 0").to_dataset().count_rows() == 2


@pytest.mark.parametrize("form", ["folder", "delta"])
def test_a_column_may_have_an_empty_name(tmp_path: Path, form: str) -> None:
    files = [pa.table({"row": [part], "": [part]}) for part in range(3)]
    table = Table(FORMATS[form](tmp_path / "t", files, 10))
    assert table.build_index("", progress=False).columns == {"": "sieve"}
    assert rows_of_all_engines(table.plan('"" = 1')) == [[1]] * 3
    assert rows_of_all_engines(table.plan('"" >= 1')) == [[1, 2]] * 3
    with pytest.raises(ps.UnsupportedError, match="column without a name"):
        ps.scan_polars(table)


@pytest.mark.parametrize("name", ["a\0b", "nested"])
def test_rows_next_to_a_name_with_a_nul(tmp_path: Path, name: str) -> None:
    """Arrow's C interface, through which the core and engines read schemas, ends a name at a NUL."""
    for part in range(3):
        rows = [part * 2, part * 2 + 1]
        odd = rows if name == "a\0b" else [[{"x\0y": row}] for row in rows]
        pq.write_table(pa.table({"row": rows, name: odd, "a": rows}), tmp_path / f"{part}.parquet")
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    for where in (None, "row >= 0", "row > 1 AND a < 3"):
        plan, expected = table.plan(where), [2] if where and "a" in where else [0, 1, 2, 3, 4, 5]
        assert plan.to_arrow()["row"].to_pylist() == expected
        assert plan.to_arrow().schema.names == ["row", name, "a"]
        assert [row for batch in plan.to_batches(["row"]) for row in batch["row"].to_pylist()] == expected
        assert plan.count_rows() == len(expected)
    assert table.lookup("row", [3, 1]).table["row"].to_pylist() == [3, 1]
    ordered = table.plan("row > 1", order_by="row", limit=2)
    assert ordered.to_arrow()["row"].to_pylist() == [2, 3]
    for plan in (table.plan(), table.plan("row = 1"), ordered):
        for read in (plan.to_polars, plan.to_duckdb, plan.to_dataset, lambda plan=plan: pa.table(plan)):
            with pytest.raises(ps.UnsupportedError, match=r"'a\\x00b' .*NUL|'x\\x00y' .*NUL"):
                read()
    for scan in (ps.scan_polars, lambda table: table.dataset()):
        with pytest.raises(ps.UnsupportedError, match="NUL"):
            scan(table)


def test_a_map_of_pages_with_a_nul_in_a_name(tmp_path: Path) -> None:
    store, buffer = MemoryStore(), io.BytesIO()
    pq.write_table(pa.table({"row": [1, 2], "a\0b": [3, 4]}), buffer, write_page_index=True)
    store.put("lake/0.parquet", buffer.getvalue())
    table = ps.open_table((store, "lake"), index_location=tmp_path / "index")
    table.build_index("row", kind="sieve", pages=True, progress=False)
    assert table.plan("row = 2").to_arrow()["a\0b"].to_pylist() == [4]


def test_a_file_name_that_is_not_unicode_is_rejected(tmp_path: Path) -> None:
    pq.write_table(pa.table({"row": [1]}), tmp_path / "a.parquet")
    (tmp_path / "a.parquet").rename(tmp_path / "\udcff.parquet")
    with pytest.raises(ps.UnsupportedError, match="rename it"):
        ps.open_table(str(tmp_path)).plan("row = 1")
