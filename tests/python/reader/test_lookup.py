"""`Table.lookup` returns the rows of each key in the order of the keys."""

from __future__ import annotations

import random
import uuid
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

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
        pa.array([3, 7], pa.float16()),
        pa.array([3, 7], pa.decimal32(5, 1)),
    ],
)
def test_forms_of_keys(tmp_path: Path, keys: Any) -> None:
    pq.write_table(pa.table({"id": [7, 5, 3]}), tmp_path / "0.parquet")
    assert ps.open_table(tmp_path).lookup("id", keys).table["id"].to_pylist() == [3, 7]


def test_large_unsigned_keys_in_a_list(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([2**64 - 1, 2**63, 1], pa.uint64())}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    assert table.lookup("id", [2**63, 1]).table["id"].to_pylist() == [2**63, 1]
    assert table.plan(keys={"id": [2**64 - 1]}).to_arrow()["id"].to_pylist() == [2**64 - 1]


@pytest.mark.parametrize(
    "keys", [[2**64 - 1, 0.5], [Fraction(1, 2)], [2**70], [Decimal("0.5"), 2**64 - 1], [np.longdouble(1)]]
)
def test_keys_without_a_common_type_are_not_truncated(tmp_path: Path, keys: Any) -> None:
    pq.write_table(pa.table({"id": pa.array([0, 2**64 - 1], pa.uint64())}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    for find in (lambda: table.lookup("id", keys), lambda: table.plan(keys={"id": keys})):
        with pytest.raises(TypeError, match="no common Arrow type"):
            find()


@pytest.mark.parametrize("key", ["1e-77", "1e-10000000"])
def test_keys_with_more_decimal_places_than_any_type(tmp_path: Path, key: str) -> None:
    pq.write_table(pa.table({"price": pa.array([Decimal("0.00")], pa.decimal128(5, 2))}), tmp_path / "0.parquet")
    with pytest.raises(TypeError, match="no common Arrow type"):
        ps.open_table(tmp_path).lookup("price", [Decimal(key)])


def test_keys_that_the_column_cannot_hold(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([7, 5, 3], pa.int8())}), tmp_path / "0.parquet")
    result = ps.open_table(tmp_path).lookup("id", [3, 1_000, 2.5])
    assert result.table["id"].to_pylist() == [3]
    assert result.missing.to_pylist() == [1_000, 2.5]
    with pytest.raises(TypeError, match="does not match column id"):
        ps.open_table(tmp_path).lookup("id", ["three"])
    with pytest.raises(TypeError, match="no common Arrow type"):
        ps.open_table(tmp_path).lookup("id", [3, "three"])


def test_keys_that_only_a_wider_file_can_hold(tmp_path: Path) -> None:
    """The first file decides the type, so a plan refuses to read the values. A lookup must not report them missing."""
    large = 2**40
    pq.write_table(pa.table({"x": pa.array([1, 2], pa.int32()), "y": [1, 1]}), tmp_path / "0.parquet")
    wide = pa.table({"x": pa.array([5, large], pa.int64()), "y": [2, 2]})
    pq.write_table(wide, tmp_path / "1.parquet", bloom_filter_options={"x": True, "y": True})
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    lookups = [("x", [1, large]), ("key(x, y)", [(1, 1), (large, 2)])]
    for name, keys in lookups:
        with pytest.raises(ps.UnsupportedError, match=r"1\.parquet, column x: a file holds int64"):
            table.lookup(name, keys)
    pq.write_table(wide.slice(0, 1), tmp_path / "1.parquet", bloom_filter_options={"x": True, "y": True})
    wait_until_old(tmp_path)
    table = ps.open_table(tmp_path)
    assert table.lookup("x", [1, 5, large]).missing.to_pylist() == [large]


@pytest.mark.parametrize("as_keys", [list, np.array, pd.Series])
def test_a_uuid_as_key_of_a_string_column_is_its_text(tmp_path: Path, as_keys: Any) -> None:
    pq.write_table(pa.table({"id": [str(uuid.UUID(int=5)), "x"]}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    keys = as_keys([uuid.UUID(int=5), uuid.UUID(int=6)])
    assert table.plan(keys={"id": keys}).to_arrow()["id"].to_pylist() == [str(uuid.UUID(int=5))]
    result = table.lookup("id", keys)
    assert result.table["id"].to_pylist() == [str(uuid.UUID(int=5))]
    assert result.missing.to_pylist() == [str(uuid.UUID(int=6))]


def test_missing_keys_keep_their_extension_type(tmp_path: Path) -> None:
    present, absent = uuid.uuid4().bytes, uuid.uuid4().bytes
    pq.write_table(pa.table({"id": pa.array([present], pa.uuid())}), tmp_path / "0.parquet")
    result = ps.open_table(tmp_path).lookup("id", pa.array([absent, present], pa.uuid()))
    assert result.table["id"].type == result.missing.type == pa.uuid()
    assert result.missing.storage.to_pylist() == [absent]


def test_floats_with_two_zeros_and_nan(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [0.0, -0.0, float("nan"), 1.5], "n": range(4)}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    assert table.lookup("x", [0.0]).table["n"].to_pylist() == [0, 1]
    assert table.lookup("x", [-0.0, float("nan")]).table["n"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_every_nan_is_the_same_key(tmp_path: Path, bits: int) -> None:
    exponent = {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}[bits]
    patterns = [exponent | exponent >> 1, exponent | exponent >> 1 | 1 << (bits - 1), exponent | 1]
    as_integer, kind = {16: (pa.uint16(), pa.float16()), 32: (pa.uint32(), pa.float32())}.get(
        bits, (pa.uint64(), pa.float64())
    )
    nans = pa.array(patterns, as_integer).view(kind)
    pq.write_table(pa.table({"x": nans, "n": range(3)}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"x": nans.slice(2), "n": [3]}), tmp_path / "1.parquet")
    table = ps.open_table(tmp_path)
    for key in range(3):
        result = table.lookup("x", nans.slice(key, 1))
        assert (result.table["n"].to_pylist(), len(result.missing)) == ([0, 1, 2, 3], 0)
    absent = pa.concat_arrays([nans, pa.array([0, 1 << (bits - 1)], as_integer).view(kind)])
    pq.write_table(pa.table({"x": pa.array([], kind), "n": pa.array([], pa.int64())}), tmp_path / "0.parquet")
    (tmp_path / "1.parquet").unlink()
    # Both zeros are one key, too.
    assert len(table.lookup("x", absent).missing) == 2


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


@pytest.mark.parametrize("indexed", [False, True])
def test_many_keys(tmp_path: Path, indexed: bool) -> None:
    rng = random.Random(3)
    ids = rng.sample(range(400_000), 200_000)
    for part in range(4):
        some = ids[part::4]
        data = pa.table({"id": some, "text": pa.array([f"{n:x}" for n in some]), "twice": [n // 2 for n in some]})
        pq.write_table(data, tmp_path / f"{part}.parquet", row_group_size=20_000)
    table = ps.open_table(tmp_path)
    if indexed:
        table.build_index(["id", "text"])
    existing = set(ids)
    keys = [rng.randrange(400_000) for _ in range(100_000)]
    present = [key for key in keys if key in existing]
    missing = list(dict.fromkeys(key for key in keys if key not in existing))
    result = table.lookup("id", keys, columns=["id"])
    assert result.table["id"].to_pylist() == present
    assert result.missing.to_pylist() == missing
    texts = pl.Series([f"{key:x}" for key in keys])
    result = table.lookup("text", texts, columns=["id"])
    assert result.table["id"].to_pylist() == present
    assert result.missing.to_pylist() == [f"{key:x}" for key in missing]
    result = table.lookup("twice", range(200_000), columns=["id", "twice"])
    assert sorted(result.table["id"].to_pylist()) == sorted(ids)
    assert result.table["twice"].to_pylist() == sorted(n // 2 for n in ids)


def test_more_keys_than_the_sample_that_plans_look_up(tmp_path: Path) -> None:
    for part in range(3):
        pq.write_table(pa.table({"id": range(part * 1000, part * 1000 + 1000)}), tmp_path / f"{part}.parquet")
    table = ps.open_table(tmp_path)
    table.build_index("id")
    for keys in (
        [*range(100_000, 200_000), 1_500],
        [1_500, *range(-100_000, 0)],
        [*range(3000), *range(10**6, 10**6 + 99_000)],
    ):
        result = table.lookup("id", keys)
        assert result.table["id"].to_pylist() == [key for key in keys if 0 <= key < 3000]
    # The sample does not hold the only key that exists, so the plan looks up all keys in the index.
    assert len(table.lookup("id", [*range(100_000, 200_000), 1_500]).plan.files) == 1


VALUES: dict[str, tuple[pa.Array, list[Any]]] = {
    "decimal": (
        pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(9, 2)),
        [Decimal("-2.250"), Decimal("1.5")],
    ),
    "narrow decimal": (
        pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(9, 2)).cast(pa.decimal64(9, 2)),
        [Decimal("-2.25"), Decimal("1.5")],
    ),
    "wide decimal": (pa.array([Decimal(10**45), Decimal(7), None], pa.decimal256(50, 0)), [7, 10**45]),
    "uuid": (pa.array([bytes(16), b"\x01" * 16, None], pa.uuid()), [uuid.UUID(bytes=b"\x01" * 16), uuid.UUID(int=0)]),
    "instant": (
        pa.array([0, 5, None], pa.timestamp("us", "Europe/Madrid")),
        [datetime(1970, 1, 1, 1, 0, 0, 5, timezone(timedelta(hours=1))), datetime(1970, 1, 1, tzinfo=UTC)],
    ),
    "nanoseconds": (
        pa.array([1, 2, None], pa.timestamp("ns")),
        [pa.scalar(2, pa.timestamp("ns")), pa.scalar(1, pa.timestamp("ns"))],
    ),
    "date": (pa.array([date(2026, 1, 31), date(1, 1, 1), None]), [date(1, 1, 1), date(2026, 1, 31)]),
    "binary": (pa.array([b"\xff\xfe", b"", None]), [b"", b"\xff\xfe"]),
    "fixed binary": (pa.array([b"ab", b"cd", None], pa.binary(2)), [b"cd", b"ab"]),
    "half float": (pa.array([1.5, -2.0, None], pa.float16()), [-2.0, 1.5]),
    "boolean": (pa.array([True, False, None]), [False, True]),
    "dictionary": (pa.array(["a", "b", None]).dictionary_encode(), ["b", "a"]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("more", [0, 100])
def test_types_of_keys(tmp_path: Path, name: str, more: int) -> None:
    """The second key is in the first row. With many `more` keys, rows are found with a Bloom filter of the keys."""
    values, keys = VALUES[name]
    pq.write_table(pa.table({"key": values, "row": [0, 1, 2]}), tmp_path / "0.parquet")
    table = ps.open_table(tmp_path)
    others: dict[str, list[Any]] = {
        "decimal": [Decimal(n + 100) for n in range(more)],
        "date": [date(1990, 1, n % 28 + 1) for n in range(more)],
    }
    result = table.lookup("key", [*keys, keys[0], *others.get(name, [])], columns=["row"])
    assert result.table["row"].to_pylist()[-1] == result.table["row"].to_pylist()[-3]
    by_arrow = table.lookup("key", pa.chunked_array([values.slice(1, 1), values.slice(2, 1), values.slice(0, 1)]))
    assert by_arrow.table["row"].to_pylist() == [1, 0]
    assert by_arrow.positions.to_pylist() == [0, 2]
    assert len(by_arrow.missing) == 0


def test_columns(folder: Path) -> None:
    table = ps.open_table(folder)
    key = pq.read_table(folder)["id"][0].as_py()
    without = table.lookup("ID", [key, key, -1], columns=[])
    assert without.table.schema.names == []
    assert len(without) == 2
    assert without.positions.to_pylist() == [0, 1]
    assert table.lookup("Id", [key], columns="TEXT").table.to_pylist() == [{"text": f"row {key}"}]
    assert table.lookup("id", [key], columns=["text", "Id", "id"]).table.schema.names == ["text", "id", "id"]
    with pytest.raises(ps.ColumnNotFoundError, match="texts"):
        table.lookup("id", [key], columns=["texts"])


def test_files_that_were_replaced_since_the_index(folder: Path) -> None:
    table = ps.open_table(folder)
    table.build_index("id")
    pq.write_table(pa.table({"id": [9_999], "user": [1], "text": ["new"]}), folder / "0.parquet")
    assert ps.open_table(folder).lookup("id", [9_999, 9_999]).table["text"].to_pylist() == ["new", "new"]


def test_results_that_are_put_in_order_in_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(8)
    keys = [rng.randrange(4_000) for _ in range(3_000)]
    expected = ps.open_table(folder).lookup("id", keys).table
    monkeypatch.setattr("parsieve.plan.lookup.MOST_BYTES", 1_000)
    assert ps.open_table(folder).lookup("id", keys).table.equals(expected)
