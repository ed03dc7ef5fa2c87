"""Engines read the kept row groups of a plan and no others: the bytes of the others may be damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.formats import FORMATS, catalog_at, delta

import parsieve as ps
from parsieve.io.sources import local_path
from parsieve.plan.results import duckdb_source
from parsieve.table import Table

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
KEYS = (3, 17, 38)


def by_duckdb(plan: ps.Plan) -> list[int]:
    with duckdb.connect() as con:
        return [row for (row,) in plan.to_duckdb(con).project("row").fetchall()]


ENGINES: dict[str, Callable[[ps.Plan], list[int]]] = {
    "pyarrow": lambda plan: plan.to_arrow(["row"])["row"].to_pylist(),
    "batches": lambda plan: [row for batch in plan.to_batches(["row"]) for row in batch["row"].to_pylist()],
    "dataset": lambda plan: plan.to_dataset().to_table(columns=["row"])["row"].to_pylist(),
    "polars": lambda plan: plan.to_polars().select("row").collect()["row"].to_list(),
    "polars limit": lambda plan: plan.to_polars().head(100).select("row").collect()["row"].to_list(),
    "duckdb": by_duckdb,
}


def files_of(count: int) -> list[pa.Table]:
    """Return files with the same keys in ascending order, but other rows."""
    keys = pa.array(range(40), pa.int64())
    return [pa.table({"key": keys, "row": [1000 * part + key for key in range(40)]}) for part in range(count)]


def damage_other_row_groups(plan: ps.Plan) -> None:
    """Overwrite the columns of the row groups that a plan skips."""
    for path, groups in plan.row_groups.items():
        assert groups is not None
        metadata = pq.read_metadata(local_path(path))
        skipped = set(range(metadata.num_row_groups)) - {*groups}
        assert skipped
        data = bytearray(Path(local_path(path)).read_bytes())
        for group in skipped:
            for number in range(metadata.num_columns):
                column = metadata.row_group(group).column(number)
                start = min(filter(None, (column.dictionary_page_offset, column.data_page_offset)))
                data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
        Path(local_path(path)).write_bytes(data)


def plan_of(table: ps.Table) -> ps.Plan:
    plan = table.plan(f"key IN {KEYS}", row_groups=True)
    assert set(map(tuple, filter(None, plan.row_groups.values()))) == {(0, 3, 7)}
    assert all(ranges == [(0, 5), (15, 5), (35, 5)] for ranges in plan.row_ranges.values())
    return plan


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["delta", "iceberg", "hudi"])
def test_engines_do_not_read_skipped_row_groups(form: str, engine: str, tmp_path: Path) -> None:
    plan = plan_of(Table(FORMATS[form](tmp_path / "t", files_of(3), 5)))
    damage_other_row_groups(plan)
    assert sorted(ENGINES[engine](plan)) == [1000 * part + key for part in range(3) for key in KEYS]


@pytest.mark.parametrize("engine", ["pyarrow", "batches", "polars", "duckdb"])
def test_files_that_need_a_conversion_are_read_by_row_group(engine: str, tmp_path: Path) -> None:
    with catalog_at(tmp_path) as catalog:
        schema = pa.schema([("id", pa.int64()), ("row", pa.int64())])
        properties = {"write.parquet.row-group-limit": "5"}
        iceberg = catalog.create_table("n.t", schema, properties=properties)
        for file in files_of(2):
            iceberg.append(file.rename_columns(["id", "row"]))
        with iceberg.update_schema() as update:
            update.rename_column("id", "key")
        plan = plan_of(ps.open_table(iceberg))
        damage_other_row_groups(plan)
        assert sorted(ENGINES[engine](plan)) == [1000 * part + key for part in range(2) for key in KEYS]


@pytest.mark.parametrize("engine", ["pyarrow", "batches"])
def test_files_next_to_files_with_deleted_rows_are_read_by_row_group(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = delta(tmp_path / "t", files_of(2), 5)
    # As if a file had a deletion vector, so that no engine may scan the files itself.
    monkeypatch.setattr(type(lake), "files", lambda *_: None)
    plan = plan_of(Table(lake))
    damage_other_row_groups(plan)
    assert sorted(ENGINES[engine](plan)) == [1000 * part + key for part in range(2) for key in KEYS]


@pytest.mark.parametrize("most", [2, 3, 4, 32])
def test_duckdb_reads_many_choices_of_row_groups_in_a_few_scans(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_source, "MOST_SCANS", most)
    choices: list[list[int] | None] = [[0], None, [1, 2], [0], [3], [2], []]
    paths = []
    expected = set()
    for number, groups in enumerate(choices):
        paths.append(str(tmp_path / f"{number}.parquet"))
        rows = [10 * number + row for row in range(8)]
        pq.write_table(pa.table({"row": rows}), paths[-1], row_group_size=2)
        expected |= {rows[2 * group + at] for group in (range(4) if groups is None else groups) for at in range(2)}
    with duckdb.connect() as con:
        scans = duckdb_source.scans_of(con, paths, choices)
        found = [row for scan in scans for (row,) in scan.project("row").fetchall()]
    # The file that is read completely has a separate scan, and the file without row groups to read has none.
    assert len(scans) == min(5, most)
    assert len(found) == len(set(found))
    assert expected <= set(found)
    assert most < 32 or set(found) == expected


def test_a_column_with_the_name_of_the_row_group_number_is_no_number(tmp_path: Path) -> None:
    path = str(tmp_path / "0.parquet")
    pq.write_table(pa.table({"row": range(8), "FILE_ROW_GROUP_NUMBER": [9] * 8}), path, row_group_size=2)
    with duckdb.connect() as con:
        [scan] = duckdb_source.scans_of(con, [path], [[1]])
        assert scan.project("row").fetchall() == [(row,) for row in range(8)]
