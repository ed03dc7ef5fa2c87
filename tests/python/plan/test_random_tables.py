"""Random tables and predicates: no matching row group is skipped, and all engines return all matching rows."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, assume, given, settings
from support.models.predicate_reference import rows
from support.models.predicate_strategies import PREDICATES, tables

from parsieve.predicate import Expr, columns
from parsieve.predicate.column_names import ColumnNames
from parsieve.predicate.render import to_pyarrow
from parsieve.table import open_table


def with_pyarrow(table: pa.Table, path: str, draw: Any) -> None:
    pq.write_table(
        table,
        path,
        row_group_size=draw(st.sampled_from([1, 2, 3, 100])),
        use_dictionary=draw(st.booleans()),
        write_statistics=draw(st.sampled_from([True, True, False, ["i4", "s"]])),
        store_decimal_as_integer=draw(st.booleans()),
        data_page_version=draw(st.sampled_from(["1.0", "2.0"])),
        version=draw(st.sampled_from(["1.0", "2.4", "2.6"])),
        bloom_filter_options=draw(st.sampled_from([None, {"i8": True, "s": True, "d": True}])),
    )


def with_duckdb(table: pa.Table, path: str, draw: Any) -> None:
    with duckdb.connect() as con:
        con.register("written", table)
        con.execute(f"COPY (SELECT * FROM written) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2)")


def with_polars(table: pa.Table, path: str, draw: Any) -> None:
    pl.DataFrame(pl.from_arrow(table)).write_parquet(path, row_group_size=draw(st.sampled_from([1, 3])))


# Without shrinking, which is slow for files.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
WRITERS = {"pyarrow": with_pyarrow, "duckdb": with_duckdb, "polars": with_polars}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    temporary = Path(tempfile.mkdtemp())
    yield temporary
    shutil.rmtree(temporary)


def matching(expr: Expr, path: str) -> tuple[set[int], list[int]]:
    """Read a file and return its row groups with a matching row, and the numbers of the matching rows."""
    file = pq.ParquetFile(path)
    groups, numbers = set(), []
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        hits = rows(expr, table)
        numbers += [table["row"][hit].as_py() for hit in hits]
        if hits:
            groups.add(number)
    return groups, numbers


@pytest.mark.parametrize("writer", WRITERS)
@settings(deadline=None, phases=PHASES, max_examples=25)
@given(data=st.data())
def test_every_writer_and_engine_keeps_all_matching_rows(writer: str, folder: Path, data: st.DataObject) -> None:
    table_folder = Path(tempfile.mkdtemp(dir=folder))
    expr = data.draw(PREDICATES)
    # Engines read the files directly only if the plan knows all column types. Nanoseconds might be INT96.
    native = data.draw(st.booleans()) and "ns" not in {column.path[0] for column in columns(expr)}
    for part in range(data.draw(st.integers(1, 3))):
        table = data.draw(tables())
        table = table.drop(["ns"]) if native else table
        numbers = pa.array(range(part * 100, part * 100 + table.num_rows), pa.int64())
        WRITERS[writer](table.append_column("row", numbers), str(table_folder / f"part-{part}.parquet"), data.draw)
    table = open_table(str(table_folder))
    # Some writers do not support all types and write another type.
    names = ColumnNames(table.schema)
    assume(all(names.find(column.path).value_type == column.value_type for column in columns(expr)))
    plan = table.plan(expr)
    expected: list[int] = []
    for path in sorted(map(str, table_folder.glob("*.parquet"))):
        groups, numbers = matching(expr, path)
        expected += numbers
        assert not groups or path in plan.row_groups, (expr, plan.explain())
        kept_groups = plan.row_groups.get(path)
        assert groups <= set(groups if kept_groups is None else kept_groups), (expr, plan.explain())
    assert sorted(plan.to_arrow(["row"])["row"].to_pylist()) == expected
    assert sorted(plan.to_polars().collect()["row"].to_list()) == expected
    with duckdb.connect() as con:
        assert sorted(row for (row,) in plan.to_duckdb(con).project("row").fetchall()) == expected
    # Plan again, with cached footers.
    cached = table.plan(expr)
    assert (cached.files, cached.row_groups) == (plan.files, plan.row_groups)


# Types that pyarrow skips by min/max statistics, except those for which it is known to lose rows.
RELIABLE = {"i1", "u1", "i4", "i8", "u8", "day", "t", "ms", "tz", "row"}


@settings(deadline=None, phases=PHASES, max_examples=100)
@given(data=st.data())
def test_pyarrow_never_keeps_fewer_row_groups(folder: Path, data: st.DataObject) -> None:
    expr = data.draw(PREDICATES.filter(lambda drawn: {column.path[0] for column in columns(drawn)} <= RELIABLE))
    table = data.draw(tables())
    path = f"{tempfile.mkdtemp(dir=folder)}/part.parquet"
    pq.write_table(table, path, row_group_size=2)
    (fragment,) = pads.dataset(path).get_fragments()
    kept_by_pyarrow = {group.id for group in fragment.subset(filter=to_pyarrow(expr)).row_groups}
    kept_groups = open_table(path).plan(expr).row_groups.get(path, [])
    metadata = pq.read_metadata(path)
    ours = range(metadata.num_row_groups) if kept_groups is None else kept_groups
    # Ignore row groups without rows: reading them costs nothing.
    assert {group for group in ours if metadata.row_group(group).num_rows} <= kept_by_pyarrow
