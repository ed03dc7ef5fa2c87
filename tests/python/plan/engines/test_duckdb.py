"""`to_duckdb` on a plain folder: DuckDB reads the matching rows immediately, from files that are kept open."""

import os
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from support.formats import FORMATS

import parsieve as ps
from parsieve.io.sources import local_path
from parsieve.plan.results import duckdb_source
from parsieve.table import Table

pytestmark = pytest.mark.skipif(not duckdb_source._DESCRIPTORS.is_dir(), reason="needs /proc/self/fd")


def write(path: Path, keys: list[int], version: str) -> None:
    """Replace a file with another one."""
    table = pa.table({"k": keys, "version": [version] * len(keys), "at": pa.array(keys, pa.timestamp("us", "UTC"))})
    pq.write_table(table, path.with_suffix(".tmp"), row_group_size=2)
    path.with_suffix(".tmp").replace(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    for number in range(40):
        write(tmp_path / "t" / f"{number:02}.parquet", [5, 6, 100 + number], "old")
    return tmp_path / "t"


def versions(relation: duckdb.DuckDBPyRelation) -> set[str]:
    return {version for (version,) in relation.project("version").fetchall()}


def test_a_relation_keeps_the_rows_from_its_creation(folder: Path) -> None:
    plan = ps.open_table(folder).plan("k = 5")
    relation = plan.to_duckdb()
    assert relation.aggregate("count(*)").fetchall() == [(40,)]
    for path in folder.iterdir():
        write(path, [5, 6], "new")
    assert versions(relation) == {"old"}
    assert versions(plan.to_duckdb()) == {"new"}


def test_reused_file_descriptors_return_the_right_rows(folder: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for number in range(100, 140):
        [row] = ps.open_table(folder).plan(f"k = {number}").to_duckdb().project("k").fetchall()
        assert row == (number,)
    assert len(os.listdir("/proc/self/fd")) <= open_before + 8  # noqa: PTH208


def test_a_plan_without_rows_is_an_empty_relation_with_all_columns(folder: Path) -> None:
    table = ps.open_table(folder)
    some, none = table.plan("k = 5").to_duckdb(), table.plan("k = 5 AND version = 'new'").to_duckdb()
    assert none.fetchall() == []
    assert (none.columns, none.types) == (some.columns, some.types)


def test_large_results_are_read_lazily(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = ps.open_table(folder).plan("k = 5")
    monkeypatch.setattr(duckdb_source, "MOST_BYTES", 1000)
    relation = files.to_duckdb()
    for path in folder.iterdir():
        write(path, [5, 6], "new")
    assert versions(relation) == {"new"}
    assert relation.aggregate("count(*)").fetchall() == [(40,)]


def test_a_file_that_changes_while_duckdb_reads_it_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ps.open_table(folder).plan("k = 5")
    # No row is passed on before all files are known to be unchanged, even if the rows take much memory.
    monkeypatch.setattr("parsieve.lake.rows.checked_files.HELD_MEMORY", 0)
    other = folder.with_name("other.parquet")
    write(other, [5, 5], "new")
    scans_of = duckdb_source.scans_of

    def overwrite_and_scan(*args: Any) -> list[Any]:
        if other.exists():
            (folder / "07.parquet").write_bytes(other.read_bytes())
            other.unlink()
        return scans_of(*args)

    monkeypatch.setattr(duckdb_source, "scans_of", overwrite_and_scan)
    read = [version for (version,) in plan.to_duckdb().project("version").fetchall()]
    assert sorted(read) == ["new"] * 2 + ["old"] * 39


def test_duckdb_returns_the_same_rows_as_pyarrow(folder: Path) -> None:
    expected = pads.dataset(folder).to_table(filter=pads.field("k") > 90).sort_by("k")
    assert (
        ps.open_table(folder).plan("k > 90").to_duckdb().order("k").to_arrow_table().cast(expected.schema) == expected
    )


def test_duckdb_does_not_parse_long_conditions(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It parses a condition several times, which is slow for many values."""
    plan = ps.open_table(folder).plan(pads.field("k").isin([*range(5, 7), *range(1000, 12_000)]))
    assert len(plan.files) == 40
    monkeypatch.delattr(duckdb_source, "scans_of")
    assert plan.to_duckdb().order("k").project("k").fetchall() == [(key,) for key in (5, 6) for _ in range(40)]


def test_duckdb_scans_the_files_of_delta_itself_unless_they_were_replaced(tmp_path: Path) -> None:
    rows = pa.table({"k": [5, 6, 100, 101]})
    plan = Table(FORMATS["delta"](tmp_path / "t", [rows, rows], 2)).plan("k < 50", row_groups=True)
    assert set(map(tuple, filter(None, plan.row_groups.values()))) == {(0,)}
    with duckdb.connect() as con:
        assert "PARQUET" in plan.to_duckdb(con).explain()
        # The new file has its matching rows in other row groups.
        pq.write_table(pa.table({"k": [100, 101, 5, 6, 7]}), local_path(plan.files[0]), row_group_size=2)
        relation = plan.to_duckdb(con)
        assert "PARQUET" not in relation.explain()
        assert sorted(relation.fetchall()) == [(5,), (5,), (6,), (6,), (7,)]


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal256(50, 0)], ids=str)
def test_duckdb_does_not_have_every_nested_type(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"k": [5], "nested": pa.nulls(1, pa.list_(kind))}), tmp_path / "a.parquet")
    with duckdb.connect() as con, pytest.raises(ps.UnsupportedError, match="DuckDB has no half floats and no decimals"):
        ps.open_table(tmp_path).plan("k = 5").to_duckdb(con)
