"""`Table.lookup` returns the rows of each key in the order of the keys."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(5)
    for part in range(4):
        ids = rng.sample(range(part, 4_000, 4), 500)
        pq.write_table(
            pa.table({"id": ids, "user": [n % 50 for n in ids], "text": [f"row {n}" for n in ids]}),
            tmp_path / f"{part}.parquet",
            row_group_size=100,
        )
    return tmp_path


def test_rows_are_in_the_order_of_the_keys(folder: Path) -> None:
    everything = {row["id"]: row["text"] for row in pq.read_table(folder).to_pylist()}
    table = ps.open_table(folder)
    rng = random.Random(1)
    for indexed in (False, True):
        if indexed:
            table.build_index("id")
        for number in (1, 10, 700):
            keys = [rng.randrange(4_000) for _ in range(number)]
            result = table.lookup("id", keys)
            present = [key for key in keys if key in everything]
            assert result.table["id"].to_pylist() == present
            assert result.table["text"].to_pylist() == [everything[key] for key in present]
            assert [keys[position] for position in result.positions.to_pylist()] == present
            assert result.missing.to_pylist() == list(dict.fromkeys(key for key in keys if key not in everything))


def test_keys_with_several_rows(folder: Path) -> None:
    result = ps.open_table(folder).lookup("user", [7, None, 7, 99], columns=["user", "id"])
    ids = [row["id"] for row in pq.read_table(folder).to_pylist() if row["user"] == 7]
    assert result.table["id"].to_pylist() == ids + ids
    assert result.positions.to_pylist() == [0] * len(ids) + [2] * len(ids)
    assert result.missing.to_pylist() == [99]
    assert result.table.schema.names == ["user", "id"]
    assert len(result) == 2 * len(ids)
    assert repr(result) == f"<parsieve.LookupResult: {2 * len(ids):,} rows, 1 key missing>"


@pytest.mark.parametrize(
    "keys",
    [
        pa.array([3, 7], pa.int64()),
        pa.array([3, 7], pa.uint8()),
        pa.chunked_array([[3], [7]]),
        pa.array([3, 7]).dictionary_encode(),
        pl.Series([3, 7]),
        [3.0, 7.0],
        (Decimal(3), Decimal(7)),
    ],
)
def test_forms_of_keys(tmp_path: Path, keys: Any) -> None:
    pq.write_table(pa.table({"id": [7, 5, 3]}), tmp_path / "0.parquet")
    assert ps.open_table(tmp_path).lookup("id", keys).table["id"].to_pylist() == [3, 7]


def test_keys_that_the_column_cannot_hold(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([7, 5, 3], pa.int8())}), tmp_path / "0.parquet")
    result = ps.open_table(tmp_path).lookup("id", [3, 1_000, 2.5])
    assert result.table["id"].to_pylist() == [3]
    assert result.missing.to_pylist() == [1_000, 2.5]
    with pytest.raises(TypeError, match="does not match column id"):
        ps.open_table(tmp_path).lookup("id", ["three"])


def test_floats_with_two_zeros_and_nan(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [0.0, -0.0, float("nan"), 1.5], "n": range(4)}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    assert table.lookup("x", [0.0]).table["n"].to_pylist() == [0, 1]
    assert table.lookup("x", [-0.0, float("nan")]).table["n"].to_pylist() == [0, 1, 2]


def test_no_keys_and_no_rows(folder: Path) -> None:
    for keys in ([], [None], [-1], pa.array([], pa.int64())):
        result = ps.open_table(folder).lookup("id", keys, columns=["text"])
        assert result.table.equals(pa.table({"text": pa.array([], pa.string())}))
        assert result.missing.to_pylist() == [key for key in keys if key is not None]


def test_fields_of_structs(tmp_path: Path) -> None:
    rows = [{"a": {"b": 1}}, {"a": None}, {"a": {"b": 2}}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    assert table.lookup("a.b", [2, 1]).table.to_pylist() == [rows[2], rows[0]]
    assert table.lookup(["a", "b"], [2]).table.to_pylist() == [rows[2]]


def test_a_result_is_an_arrow_stream(folder: Path) -> None:
    result = ps.open_table(folder).lookup("user", [7])
    assert pa.table(result).equals(result.table)
    assert pl.DataFrame(result).height == len(result)


def test_files_that_the_index_does_not_cover(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("id")
    pq.write_table(pa.table({"id": [9_999], "user": [1], "text": ["new"]}), folder / "9.parquet")
    assert table.lookup("id", [9_999]).table["text"].to_pylist() == ["new"]


def test_an_unknown_column(folder: Path) -> None:
    with pytest.raises(ps.ColumnNotFoundError, match="idd"):
        ps.open_table(folder).lookup("idd", [1])
