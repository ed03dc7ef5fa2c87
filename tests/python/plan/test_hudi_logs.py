"""If logs change the rows of a base file, its statistics, filters and rows are not used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.lake.base import AsOf, ColumnPath, Lake, Slice, Snapshot
from parsieve.lake.rows.file_rows import selected
from parsieve.lake.slices import SliceObjects

SCHEMA = pa.schema([("x", pa.int64())])


class Logged(Lake):
    """A table format with base files and separate changes of their rows, like a merge-on-read table."""

    format = "logged"

    def __init__(self, folder: Path, base: dict[str, list[int]]) -> None:
        self.uri = str(folder)
        self.storage_options = {}
        self.rows = {name: list(values) for name, values in base.items()}
        self.logs = dict.fromkeys(base, 0)
        self.file_size: int | None = 1
        for name, values in base.items():
            table = pa.table({"x": pa.array(values, pa.int64())})
            pq.write_table(table, folder / name, bloom_filter_options={"x": {"ndv": 100, "fpp": 0.0001}})

    def upsert(self, name: str, old: int, new: int) -> None:
        """Change the value of a row by a log."""
        self.rows[name][self.rows[name].index(old)] = new
        self.logs[name] += 1

    def snapshot(self, as_of: AsOf = None) -> Snapshot:
        slices = []
        for name, count in self.logs.items():
            path = f"{self.uri}/{name}"
            token, rows = f"{name}+{count}", list(self.rows[name])
            slices.append(Slice("", name, token, path, self.file_size, None, count == 0, {}, rows))
        return Snapshot(sum(self.logs.values()), sum(self.logs.values()), SCHEMA, SliceObjects(slices))

    def read_keys(self, data_slice: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        yield from _Merged(data_slice.native).batches(SCHEMA)

    def read(
        self,
        snapshot: Snapshot,
        slices: Sequence[Slice],
        columns: Sequence[str] | None = None,
        filter: Any = None,
        row_groups: Sequence[Sequence[int] | None] = (),
    ) -> pa.RecordBatchReader:
        return selected([_Merged(data_slice.native) for data_slice in slices], snapshot.schema, columns, filter)


class _Merged:
    def __init__(self, rows: list[int]) -> None:
        self._rows = rows

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(self._rows, pa.int64())], schema=schema)


@pytest.fixture
def lake(tmp_path: Path) -> Logged:
    logged = Logged(tmp_path, {"a.parquet": [1, 2, 3], "b.parquet": [4, 5, 6], "c.parquet": [7, 8, 9]})
    logged.upsert("b.parquet", 5, 1000)
    return logged


def names(plan: ps.Plan) -> list[str]:
    return [Path(path).stem for path in plan.files]


@pytest.mark.parametrize("row_groups", [None, True, False])
@pytest.mark.parametrize("kind", [None, "sieve", "bloom"])
def test_statistics_and_filters_of_a_base_file_with_logs_are_ignored(
    lake: Logged, kind: str | None, row_groups: bool | None
) -> None:
    table = ps.Table(lake)
    if kind is not None:
        table.build_index("x", kind=kind)
    read_footers = row_groups is not False
    # The maximum and the filter of the base file of b exclude 1000, and include 5, which is no longer in b.
    kept_names = names(table.plan("x = 1000", row_groups=row_groups))
    assert kept_names == (["b"] if kind is not None or read_footers else ["a", "b", "c"])
    assert "b" in names(table.plan("x > 999", row_groups=row_groups))
    assert "b" in names(table.plan("x NOT IN (4, 5, 6)", row_groups=row_groups))
    # An index was built from the live rows, so it may skip b. (A Sieve of so few keys is imprecise.)
    if kind == "bloom":
        assert names(table.plan("x = 5", row_groups=row_groups)) == []
    # One more log, which the index does not cover.
    lake.upsert("b.parquet", 4, 77)
    assert "b" in names(table.plan("x = 77", row_groups=row_groups))
    assert "b" in names(table.plan("x = 5", row_groups=row_groups))
    if kind is not None:
        table.update_index()
        assert names(table.plan("x = 77", row_groups=row_groups)) == ["b"]
        assert set(names(table.plan("x = 4", row_groups=row_groups))) <= ({"b"} if kind == "sieve" else set())


def test_a_share_of_the_table_needs_the_sizes_of_files(lake: Logged) -> None:
    assert "because 67% of the table can match" in ps.Table(lake).plan("x = 8").explain()
    lake.file_size = None
    assert "because the sizes of files are not known" in ps.Table(lake).plan("x = 8").explain()


def test_engines_read_merged_rows(lake: Logged) -> None:
    """Engines must not read base files without their logs."""
    plan = ps.Table(lake).plan("x >= 5")
    expected = [6, 7, 8, 9, 1000]
    assert sorted(plan.to_arrow()["x"].to_pylist()) == expected
    assert sorted(plan.to_polars().collect()["x"].to_list()) == expected
    with duckdb.connect() as con:
        assert sorted(value for (value,) in plan.to_duckdb(con).fetchall()) == expected
    with pytest.raises(ps.UnsupportedError, match="to_arrow"):
        plan.to_dataset()
    # All files are kept. The file with logs has no selection of row groups.
    assert plan.row_groups[f"{lake.uri}/b.parquet"] is None
