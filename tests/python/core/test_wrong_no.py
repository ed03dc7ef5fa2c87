"""Regression tests for inputs that once caused a wrong "no"."""

import datetime as dt
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve import cli

NANOSECOND = pd.Timestamp("2026-01-01 00:00:00.000000001")


def filter_of(column: Any, **kind: Any) -> ps.BloomFilter:
    filter = ps.BloomFilter(num_bytes=1 << 12, **kind)
    filter.insert(column)
    return filter


@pytest.mark.parametrize(
    "column",
    [
        np.array([NANOSECOND], dtype=object),
        pd.Index([NANOSECOND], dtype=object),
        pd.Series([NANOSECOND], dtype=object),
        np.array([pd.Timedelta(1)], dtype=object),
        pd.Series([NANOSECOND.tz_localize("UTC")], dtype=object),
    ],
    ids=["array", "index", "series", "timedelta", "zoned"],
)
def test_objects_with_nanoseconds_raise(column: Any) -> None:
    for use in (ps.BloomFilter(num_bytes=32).insert, ps.BloomFilter(num_bytes=32).check, ps.hash_column):
        with pytest.raises(ps.UnsupportedError, match="nanoseconds"):
            use(column)


def test_objects_of_other_types_are_columns() -> None:
    names = filter_of(np.array(["a", None, "b"], dtype=object))
    assert names.check(pd.Series(["a", "b"], dtype=object)).to_pylist() == [True, True]


def test_a_single_timestamp_keeps_its_nanoseconds() -> None:
    stamps = filter_of(pd.Series([NANOSECOND]))
    assert NANOSECOND in stamps
    with pytest.raises(pa.ArrowInvalid, match="lose"):
        stamps.might_contain(NANOSECOND, type=pa.timestamp("us"))
    zoned = filter_of(pd.Series([NANOSECOND.tz_localize("Europe/Berlin")]))
    assert NANOSECOND.tz_localize("Europe/Berlin") in zoned
    assert NANOSECOND.tz_localize("Europe/Berlin").tz_convert("Asia/Tokyo") in zoned
    assert pd.Timedelta(1) in filter_of(pd.Series([pd.Timedelta(1)]))


def test_the_command_line_rejects_nanoseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"ts": pa.array([1767225600000000001], pa.timestamp("ns"))})
    pq.write_table(table, path, bloom_filter_options={"ts": {"ndv": 10, "fpp": 1e-4}})
    assert cli.main(["probe", str(path), "ts", "2026-01-01T00:00:00.000000001"]) == 2
    assert "nanoseconds" in capsys.readouterr().err


def test_polars_object_columns_raise() -> None:
    with pytest.raises(ps.UnsupportedError, match="Object"):
        ps.hash_column(pl.Series(["x"], dtype=pl.Object))


def test_uuids_are_not_compared_with_text(tmp_path: Path) -> None:
    value = uuid.UUID("6b9b4b50-0000-4000-8000-000000000001")
    texts, uuids = pa.array([str(value)]), pa.array([value.bytes], pa.uuid())
    with pytest.raises(TypeError, match="UUID"):
        filter_of(texts).check(uuids)
    assert filter_of(uuids).check(uuids).to_pylist() == [True]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"c": texts}), path, bloom_filter_options={"c": {"ndv": 10, "fpp": 1e-4}})
    with ps.open_filters(path) as filters:
        assert filters.might_contain({"c": uuids}) == [True]
        assert filters.might_contain({"c": [value]}) == [True]


@pytest.mark.parametrize(
    "meet",
    [
        lambda unknown: unknown | filter_of(pa.array([7])),
        lambda unknown: filter_of(pa.array([7])) | unknown,
        lambda unknown: unknown.insert(pa.array([7])) or unknown,
        lambda unknown: unknown.insert(pa.array([], pa.int64())) or unknown,
    ],
    ids=["or", "or typed", "insert", "insert nothing"],
)
def test_values_of_an_unknown_type_stay_unknown(meet: Callable[[ps.BloomFilter], ps.BloomFilter]) -> None:
    unknown = ps.BloomFilter.from_bytes(filter_of(pa.array([42], pa.int32())).to_bytes())
    met = meet(unknown)
    assert met.column_type is None
    with pytest.raises(TypeError, match="type="):
        42 in met  # noqa: B015
    assert met.might_contain(42, type=pa.int32())


def test_only_values_determine_the_column_type() -> None:
    filter = ps.BloomFilter(num_bytes=32)
    filter.insert(np.array([]))
    filter.insert(pa.nulls(3, pa.string()))
    assert filter.column_type is None
    filter.insert(pa.array([1]))
    assert filter.column_type == "INT64 integer"


ALL_NULL = {
    "text": pa.nulls(2, pa.string()),
    "integers": pa.nulls(2, pa.int32()),
    "dates": pa.nulls(2, pa.date32()),
    "decimals": pa.nulls(2, pa.decimal128(9, 2)),
    "dictionary": pa.nulls(2, pa.dictionary(pa.int8(), pa.string())),
    "runs": pa.RunEndEncodedArray.from_arrays([2], pa.nulls(1, pa.string())),
    "leaf": pa.StructArray.from_arrays([pa.nulls(2, pa.string())], ["only"]),
    "pandas": pd.Series([None, None], dtype="string"),
    "polars": pl.Series([None, None]),
}


@pytest.mark.parametrize("name", ALL_NULL)
@pytest.mark.parametrize("reals", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_null_probes_of_any_type_get_null_from_floats(name: str, reals: pa.DataType) -> None:
    assert filter_of(pa.array([1.0], reals)).check(ALL_NULL[name]).to_pylist() == [None, None]


def test_dictionary_keys_below_a_null_parent_may_be_out_of_range() -> None:
    entries = pa.DictionaryArray.from_arrays(pa.array([0, 99], pa.int8()), pa.array([1.0, 2.0]), safe=False)
    column = pa.StructArray.from_arrays([entries], ["only"], mask=pa.array([False, True]))
    assert filter_of(pa.array([1.0])).check(column).to_pylist() == [True, None]


def test_a_consumed_array_raises() -> None:
    class Once:
        def __init__(self) -> None:
            self.capsules = pa.array([1, 2, 3]).__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
            return self.capsules

    once = Once()
    filter_of(once)
    with pytest.raises(ValueError, match="consumed"):
        filter_of(once)


def test_scales_past_128_bits() -> None:
    wide = filter_of(pa.array([Decimal(5)], pa.decimal256(76, 38)))
    assert 5 in wide
    assert wide.check(pa.array([Decimal(5)])).to_pylist() == [True]


def test_numbers_of_numpy_and_types_of_others() -> None:
    assert np.float32(5) in filter_of(pa.array([5]))
    stamp = dt.datetime(2026, 1, 1)
    assert filter_of(pa.array([stamp], pa.timestamp("us"))).might_contain(stamp, type=pa.timestamp("ms"))


def test_tiny_rates_by_the_simple_formula() -> None:
    assert ps.optimal_num_bytes(10**6, 1e-200, model="simple") == 128 << 20


@pytest.mark.parametrize("dtype", ["M8[25s]", "m8[25s]"])
def test_numpy_times_in_steps_of_several_units(dtype: str) -> None:
    """pyarrow reads 125 seconds as 5, because it ignores the multiple of the unit."""
    value: Any = np.array([5], dtype)[0]
    filter = filter_of(pa.array([125], pa.timestamp("s") if dtype[0] == "M" else pa.duration("s")))
    assert value.astype(f"{value.dtype.kind}8[s]") in filter
    for act in (lambda: value in filter, lambda: filter.check(np.array([value])), lambda: filter_of(np.array([value]))):
        with pytest.raises(ps.UnsupportedError, match="steps of 25 s"):
            act()


def test_numpy_times_of_several_units_exclude_no_row_group(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"t": pa.array([125_000], pa.timestamp("ms"))}), path, bloom_filter_options={"t": True})
    assert ps.open_filters(path).might_contain({"t": np.array([5], "M8[25s]")[0]}) == [True]


@pytest.mark.parametrize(("precision", "scale"), [(50, 49), (76, 76), (76, 0), (76, -20)])
def test_decimals_whose_scale_is_far_from_that_of_the_value(precision: int, scale: int) -> None:
    filter = ps.BloomFilter(num_bytes=1 << 12, type=pa.decimal256(precision, scale))
    present = [Decimal(0), Decimal(-3).scaleb(-scale), Decimal(10).scaleb(-scale)]
    filter.insert(pa.array(present, pa.decimal256(precision, scale)))
    assert 0 in filter
    assert Decimal("0.00") in filter
    assert all(value in filter for value in present)
    assert Decimal(7).scaleb(-scale) not in filter
    assert filter.check(pa.array([0, None])).to_pylist() == [True, None]


def test_integers_compare_with_a_scale_beyond_128_bits() -> None:
    filter = ps.BloomFilter(num_bytes=1 << 12, type=pa.decimal256(50, 49))
    filter.insert(pa.array([3], pa.decimal256(50, 49)))
    assert 3 in filter
    assert 4 not in filter
    assert filter.check(pa.array([3, 4], pa.int8())).to_pylist() == [True, False]
    with pytest.raises(ValueError, match="no exact form"):
        assert 10**30 in filter


def test_a_numpy_day_matches_a_date() -> None:
    filter = filter_of(pa.array([dt.date(2024, 1, 1)]))
    assert np.datetime64("2024-01-01") in filter
    assert np.datetime64("2024-01-02") not in filter
    assert filter.might_contain(np.datetime64("2024-01-01"), type=pa.date32())
    assert filter.check(np.array(["2024-01-01", "NaT"], "datetime64[D]")).to_pylist() == [True, None]
    with pytest.raises(TypeError, match="no nulls"):
        assert np.datetime64("NaT", "D") in filter
    with pytest.raises(TypeError, match="no Arrow type"):
        assert np.datetime64("2024-01") in filter
    with pytest.raises(TypeError, match="cannot be compared"):
        assert np.datetime64("2024-01-01") in filter_of(pa.array([dt.datetime(2024, 1, 1)]))
