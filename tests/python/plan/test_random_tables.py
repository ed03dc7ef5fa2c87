"""Random tables of several writers, random predicates: no matching row group is skipped, and engines give its rows."""

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


# Files are slow to shrink.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
WRITERS = {"pyarrow": with_pyarrow, "duckdb": with_duckdb, "polars": with_polars}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp())
    yield made
    shutil.rmtree(made)


def matching(expr: Expr, path: str) -> tuple[set[int], list[int]]:
    """The row groups that hold a matching row by reading all, and the rows' own numbers."""
    file = pq.ParquetFile(path)
    groups, found = set(), []
    for number in range(file.num_row_groups):
        table = file.read_row_group(number)
        hits = rows(expr, table)
        found += [table["row"][hit].as_py() for hit in hits]
        if hits:
            groups.add(number)
    return groups, found


@pytest.mark.parametrize("writer", WRITERS)
@settings(deadline=None, phases=PHASES, max_examples=25)
@given(data=st.data())
def test_no_row_is_lost(writer: str, folder: Path, data: st.DataObject) -> None:
    place = Path(tempfile.mkdtemp(dir=folder))
    expr = data.draw(PREDICATES)
    # Engines read files by themselves only where no column is in doubt: nanoseconds might be INT96.
    native = data.draw(st.booleans()) and "ns" not in {column.path[0] for column in columns(expr)}
    for part in range(data.draw(st.integers(1, 3))):
        table = data.draw(tables())
        table = table.drop(["ns"]) if native else table
        numbers = pa.array(range(part * 100, part * 100 + table.num_rows), pa.int64())
        WRITERS[writer](table.append_column("row", numbers), str(place / f"part-{part}.parquet"), data.draw)
    table = open_table(str(place))
    # Some writers have no type for all columns and take another one.
    names = ColumnNames(table.schema)
    assume(all(names.find(column.path).value_type == column.value_type for column in columns(expr)))
    plan = table.plan(expr)
    expected: list[int] = []
    for path in sorted(map(str, place.glob("*.parquet"))):
        groups, found = matching(expr, path)
        expected += found
        assert not groups or path in plan.row_groups, (expr, plan.explain())
        kept = plan.row_groups.get(path)
        assert groups <= set(groups if kept is None else kept), (expr, plan.explain())
    assert sorted(plan.to_arrow(["row"])["row"].to_pylist()) == expected
    assert sorted(plan.to_polars().collect()["row"].to_list()) == expected
    with duckdb.connect() as con:
        assert sorted(row for (row,) in plan.to_duckdb(con).project("row").fetchall()) == expected
    # Warm, with footers that were kept from the first plan.
    again = table.plan(expr)
    assert (again.files, again.row_groups) == (plan.files, plan.row_groups)


# Types that pyarrow prunes by min/max, without the values for which it is known to lose rows.
STEADY = {"i1", "u1", "i4", "i8", "u8", "day", "t", "ms", "tz", "row"}


@settings(deadline=None, phases=PHASES, max_examples=100)
@given(data=st.data())
def test_never_more_is_kept_than_by_pyarrow(folder: Path, data: st.DataObject) -> None:
    expr = data.draw(PREDICATES.filter(lambda one: {column.path[0] for column in columns(one)} <= STEADY))
    table = data.draw(tables())
    path = f"{tempfile.mkdtemp(dir=folder)}/part.parquet"
    pq.write_table(table, path, row_group_size=2)
    (fragment,) = pads.dataset(path).get_fragments()
    kept_by_pyarrow = {group.id for group in fragment.subset(filter=to_pyarrow(expr)).row_groups}
    kept = open_table(path).plan(expr).row_groups.get(path, [])
    metadata = pq.read_metadata(path)
    ours = range(metadata.num_row_groups) if kept is None else kept
    # Nothing is read of a row group without rows.
    assert {group for group in ours if metadata.row_group(group).num_rows} <= kept_by_pyarrow
