"""Files with columns of every type: present values are never excluded, and missing values usually are."""

import datetime as dt
import io
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.models import oracle

import parsieve as ps

# In Parquet these types look like plain integers; only pyarrow's own metadata tells them apart.
DURATIONS = [pa.duration(unit) for unit in oracle.PER_SECOND]


def write(column: Any, **options: Any) -> io.BytesIO:
    """Write a file with the column `c` in two row groups, and filters for all leaves."""
    table = pa.table({"c": column})
    file = io.BytesIO()
    pq.write_table(table, file)
    row_group = pq.read_metadata(file).row_group(0)
    leaves = [row_group.column(number).path_in_schema for number in range(row_group.num_columns)]
    file = io.BytesIO()
    bloom = {leaf: {"ndv": max(len(column), 8), "fpp": 0.001} for leaf in leaves}
    pq.write_table(table, file, bloom_filter_options=bloom, row_group_size=(len(column) + 1) // 2, **options)
    return file


def literals(column: Any) -> list[Any]:
    """Return the Python values of a column, without values that Python cannot represent, such as the year 10,000."""
    values = []
    for scalar in column:
        try:
            value = scalar.as_py()
        except (ValueError, OverflowError):
            continue
        if not (pa.types.is_time(column.type) and pa.scalar(value, column.type) != scalar):
            values.append(value)
    return values


@pytest.mark.parametrize("data_type", oracle.TYPES, ids=oracle.name)
def test_present_values_are_never_excluded(data_type: Any) -> None:
    column = oracle.array_of(data_type, [raw for raw in oracle.raws(data_type, 100) if raw is not None])
    half = (len(column) + 1) // 2
    with ps.open_filters(write(column)) as filters:
        for row_group, part in enumerate((column.slice(0, half), column.slice(half))):
            filter = filters.filter(row_group, "c")
            assert filter is not None
            if data_type in DURATIONS:
                assert filters.column_type("c") == "INT64 integer"
                with pytest.raises(TypeError, match="cast it first"):
                    filter.check(part)
            else:
                assert filter.check(part).false_count == 0
            assert filters.might_contain({"c": part})[row_group]
            for row in range(len(part)):
                assert filters.might_contain({"c": part.slice(row, 1)})[row_group], part[row]
            for value in literals(part):
                assert filters.might_contain({"c": value})[row_group], value


@pytest.mark.parametrize("data_type", oracle.TYPES, ids=oracle.name)
def test_missing_values_are_usually_excluded(data_type: Any) -> None:
    present = set(oracle.raws(data_type, 100))
    absent = [raw for raw in oracle.raws(data_type, 300, seed=1) if raw not in present]
    if data_type in DURATIONS or len(absent) < 20:
        return
    column = oracle.array_of(data_type, sorted(raw for raw in present if raw is not None))
    with ps.open_filters(write(column)) as filters:
        probes = oracle.array_of(data_type, absent)
        answers = [filters.might_contain({"c": probes.slice(row, 1)}) for row in range(len(absent))]
        kept = sum(sum(answer) for answer in answers) / (2 * len(answers))
        # The rate is 0.001, but half floats and random bits of floats contain NaN, which is never excluded.
        assert kept < (0.1 if data_type in oracle.FLOATS else 0.03)


@pytest.mark.parametrize("physical", ["INT32", "INT64"])
def test_decimals_stored_as_integers(physical: str) -> None:
    data_type = pa.decimal128(9 if physical == "INT32" else 18, 2)
    column = oracle.array_of(data_type, oracle.raws(data_type, 50)).drop_null()
    with ps.open_filters(write(column, store_decimal_as_integer=True)) as filters:
        assert filters.column_type("c") == f"{physical} decimal[2]"
        for value in literals(column):
            assert any(filters.might_contain({"c": value}))
        assert filters.might_contain({"c": Decimal("1234567.89")}) == [False, False]
        assert filters.might_contain({"c": 1234567}) == [False, False]
        for doubtful in (Decimal("0.001"), Decimal(10) ** 30, 1234567.89, "1234567.89"):
            assert filters.might_contain({"c": doubtful}) == [True, True]


def test_int96_timestamps() -> None:
    # Dates before 1970 are rounded down, too.
    column = pa.array([-1, 0, 1, -86_400_000_000_000, 10**18, -(10**18) - 1], pa.timestamp("ns"))
    file = write(column, use_deprecated_int96_timestamps=True)
    with ps.open_filters(file) as filters:
        assert filters.column_type("c") == "INT96 timestamp[ns]"
        for row in range(len(column)):
            assert any(filters.might_contain({"c": column.slice(row, 1)}))
        assert filters.might_contain({"c": dt.datetime(2020, 1, 1)}) == [False, False]
        assert filters.might_contain({"c": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}) == [True, True]


def test_units_zones_and_fractions_of_a_moment() -> None:
    moment = dt.datetime(2026, 1, 1, 12, 0, 0, 123_456)
    for unit in ("us", "ns"):
        naive = ps.open_filters(write(pa.array([moment] * 2, pa.timestamp(unit))))
        zoned = ps.open_filters(write(pa.array([moment] * 2, pa.timestamp(unit, "UTC"))))
        instant, other = moment.replace(tzinfo=dt.UTC), moment + dt.timedelta(microseconds=1)
        berlin = instant.astimezone(dt.timezone(dt.timedelta(hours=1)))
        assert naive.might_contain({"c": moment}) == zoned.might_contain({"c": berlin}) == [True, True]
        assert naive.might_contain({"c": other}) == [False, False]
        assert zoned.might_contain({"c": other.replace(tzinfo=dt.UTC)}) == [False, False]
        # A local time may match in some time zone.
        assert naive.might_contain({"c": other.replace(tzinfo=dt.UTC)}) == [True, True]
        assert zoned.might_contain({"c": other}) == [True, True]
        assert naive.might_contain({"c": dt.date(2020, 1, 1)}) == [True, True]


def test_days_in_the_old_calendar_of_spark_exclude_nothing() -> None:
    columns = {"day": pa.array([0, 1], pa.date32()), "at": pa.array([0, 1], pa.timestamp("us")), "id": [0, 1]}
    old = {"day": dt.date(1500, 1, 1), "at": dt.datetime(1500, 1, 1), "id": 5}
    bloom: Any = {name: {"ndv": 8, "fpp": 0.0001} for name in columns}
    for mark, int96, expect in [
        (None, False, {"day": False, "at": False}),
        ("org.apache.spark.legacyDateTime", False, {"day": True, "at": True}),
        ("org.apache.spark.legacyINT96", True, {"day": False, "at": True}),
        ("org.apache.spark.legacyDateTime", True, {"day": True, "at": False}),
    ]:
        file = io.BytesIO()
        table = pa.table(columns).replace_schema_metadata({mark: ""} if mark else None)
        pq.write_table(table, file, bloom_filter_options=bloom, use_deprecated_int96_timestamps=int96)
        filters = ps.open_filters(file)
        for name, value in old.items():
            assert filters.might_contain({name: value}) == [expect.get(name, False)], (mark, int96, name)


def test_pandas_timestamps_keep_their_nanoseconds() -> None:
    moment = pd.Timestamp("2026-01-01 00:00:00.000000001")
    filters = ps.open_filters(write(pa.array([moment.value] * 2, pa.timestamp("ns"))))
    filter = filters.filter(0, "c")
    assert filter is not None
    assert moment in filter
    assert filters.might_contain({"c": moment}) == [True, True]
    assert filters.might_contain({"c": pd.Timestamp("2026-01-01")}) == [False, False]
    zoned = ps.open_filters(write(pa.array([moment.value] * 2, pa.timestamp("ns", "UTC"))))
    assert zoned.might_contain({"c": moment.tz_localize("UTC")}) == [True, True]
    assert zoned.might_contain({"c": moment.tz_localize("Europe/Berlin")}) == [False, False]


def test_both_zeros_match_and_nan_is_never_excluded() -> None:
    for data_type in (pa.float32(), pa.float64()):
        for present, asked in ((0.0, -0.0), (-0.0, 0), (0.0, np.float32(-0.0)), (-0.0, np.float64(0.0))):
            filters = ps.open_filters(write(pa.array([present, 5.0], data_type)))
            assert filters.might_contain({"c": asked}) == [True, False]
            assert filters.might_contain({"c": float("nan")}) == [True, True]
            assert filters.might_contain({"c": pa.array([7.0, float("nan")])}) == [True, True]
            assert filters.might_contain({"c": [7.0, 8.0]}) == [False, False]


def test_float_columns_exclude_only_exact_values() -> None:
    filters = ps.open_filters(write(pa.array([0.1, 0.2], pa.float32())))
    assert filters.might_contain({"c": np.float32(0.1)}) == [True, False]
    assert filters.might_contain({"c": 0.1}) == [True, True]  # a double that no float equals
    assert filters.might_contain({"c": 0.75}) == [False, False]
    assert filters.might_contain({"c": 2**24 + 1}) == [True, True]


def test_uuids() -> None:
    values = [uuid.UUID(int=number) for number in range(4)]
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([value.bytes for value in values], pa.binary(16)))
    filters = ps.open_filters(write(column))
    assert filters.might_contain({"c": values[0]}) == [True, False]
    assert filters.might_contain({"c": uuid.UUID(int=9)}) == [False, False]
    assert filters.might_contain({"c": str(uuid.UUID(int=9))}) == [True, True]
    text = ps.open_filters(write(pa.array([str(value) for value in values])))
    assert text.might_contain({"c": str(values[0])}) == [True, False]
    assert text.might_contain({"c": uuid.UUID(int=9)}) == [True, True]
    # UUIDs of Arrow are bytes, too. They exclude no row group of a column with their text.
    dictionary = pa.DictionaryArray.from_arrays([0, 3], column)
    of_text = text.filter(0, "c")
    assert of_text is not None
    for probe in (column, column[3], dictionary, dictionary[1], pa.chunked_array([dictionary]), [column[3]]):
        assert text.might_contain({"c": probe}) == [True, True]
        assert filters.might_contain({"c": probe})[1]
    with pytest.raises(TypeError, match="a UUID can be compared with"):
        of_text.might_contain(column[3])
    with pytest.raises(TypeError, match="a UUID can be compared with"):
        of_text.might_contain(values[3], type=pa.uuid())
    with pytest.raises(TypeError, match="a UUID can be compared with"):
        of_text.check(dictionary)


def test_values_that_the_column_type_cannot_represent_exclude_nothing() -> None:
    for data_type in (pa.int32(), pa.uint32(), pa.int64(), pa.string(), pa.date32(), pa.time64("us"), pa.float64()):
        value: Any = "x" if data_type == pa.string() else 1
        filters = ps.open_filters(write(pa.array([value, value]).cast(pa.int64() if value == 1 else pa.string())))
        for doubtful in (2**70, 0.5, True, None, object(), {"a": 1}, dt.time(1, tzinfo=dt.UTC), Decimal("NaN"), [[1]]):
            assert filters.might_contain({"c": doubtful}) == [True, True], (data_type, doubtful)
            assert filters.might_contain({"c": [value, doubtful]}) == [True, True]
    unsigned = ps.open_filters(write(pa.array([1, 2**32 - 1], pa.uint32())))
    assert unsigned.might_contain({"c": -1}) == [True, True]
    assert unsigned.might_contain({"c": 2**32 - 1}) == [False, True]
    signed = ps.open_filters(write(pa.array([-1, -2], pa.int32())))
    assert signed.might_contain({"c": 2**32 - 1}) == [True, True]


def test_all_columns_must_match_and_one_of_the_values() -> None:
    table = pa.table({"a": [1, 2, 3, 4], "b": ["w", "x", "y", "z"], "plain": [0, 0, 0, 0]})
    file = io.BytesIO()
    options = {"a": {"ndv": 8, "fpp": 0.0001}, "b": {"ndv": 8, "fpp": 0.0001}}
    pq.write_table(table, file, row_group_size=1, bloom_filter_options=options)
    filters = ps.open_filters(file)
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "1111"),
        ({"a": 2}, "0100"),
        ({"a": [2, 4]}, "0101"),
        ({"a": (2, 4), "b": {"z"}}, "0001"),
        ({"a": frozenset([2]), "b": "z"}, "0000"),
        ({"a": range(1, 3), "b": pa.array(["w", "y"])}, "1000"),
        ({"a": np.array([3, 9]), "plain": 7}, "0010"),
        ({"a": pd.Series([1, 9]), "b": pa.chunked_array([["w"], []])}, "1000"),
        ({"a": []}, "0000"),
        ({"plain": 1}, "1111"),
        ({"a": np.int64(4)}, "0001"),
        ({"b": [None, "q"]}, "1111"),
        ({"a": pa.scalar(3)}, "0010"),
    ]
    for values, expect in cases:
        assert filters.might_contain(values) == [digit == "1" for digit in expect], values


def test_nested_columns_and_names_with_dots() -> None:
    point = pa.struct({"x.y": pa.int64(), "x": pa.struct({"y": pa.int64()})})
    table = pa.table({"p": pa.array([{"x.y": 1, "x": {"y": 2}}], point), "l": [[3, 4]], "d.t": [5]})
    file = io.BytesIO()
    options: Any = {"ndv": 8, "fpp": 0.0001}
    pq.write_table(table, file, bloom_filter_options={"l.list.element": options, "d.t": options})
    filters = ps.open_filters(file)
    assert filters.columns == [("p", "x.y"), ("p", "x", "y"), "l.list.element", "d.t"]
    assert filters.might_contain({"l.list.element": [4, 9], "d.t": 5}) == [True]
    assert filters.might_contain({("l", "list", "element"): 9}) == [False]
    assert filters.might_contain({("d.t",): 9}) == [False]
    assert filters.filter(0, ["d.t"]) is not None
    assert filters.filter(0, ("p", "x", "y")) is None
    with pytest.raises(ps.ColumnNotFoundError, match="matches several") as ambiguous:
        filters.filter(0, "p.x.y")
    assert isinstance(ambiguous.value, KeyError)
    assert filters.might_contain({"L.list.element": 9}) == [False]
    for unknown in ("l", ("d", "t"), "", "l.list.elements"):
        with pytest.raises(ps.ColumnNotFoundError, match=r"[tT]he columns are: .*l\.list\.element"):
            filters.might_contain({unknown: 1})
    for row_group in (-1, 1, 10**6):
        with pytest.raises(IndexError, match="the file has 1"):
            filters.filter(row_group, "d.t")


DUCKDB: dict[str, str] = {
    "TINYINT": "i - 20",
    "INTEGER": "(i - 20) * 100000000",
    "BIGINT": "(i - 20) * 100000000000000000",
    "UINTEGER": "i * 119304647",
    "UBIGINT": "18446744073709551615 - i",
    "FLOAT": "i / 8 - 2",
    "DOUBLE": "i / 3 - 5",
    "VARCHAR": "repeat('ü', i) || i",
    "BLOB": "repeat('x', i)",
    "DATE": "DATE '1969-12-20' + i::INTEGER",
    "TIME": "TIME '00:00:00' + to_seconds(i)",
    "TIMESTAMP": "TIMESTAMP '1969-12-31 23:59:50' + to_seconds(i)",
    "TIMESTAMP_MS": "TIMESTAMP '1969-12-31 23:59:50' + to_seconds(i)",
    "TIMESTAMPTZ": "TIMESTAMP '1969-12-31 23:59:50' + to_seconds(i)",
    "DECIMAL(4, 1)": "i - 20",
    "DECIMAL(18, 3)": "i - 20",
    "UUID": "'f0000000-0000-0000-0000-0000000000' || lpad(i::VARCHAR, 2, '0')",
    "INTERVAL": "to_days(i::INTEGER)",
}


@pytest.mark.parametrize("name", DUCKDB)
def test_duckdb_excludes_the_same_row_groups(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "c.parquet")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        made = f"SELECT ({DUCKDB[name]})::{name} AS c FROM (SELECT k % 37 AS i FROM range(5000) t(k))"
        connection.sql(made).write_parquet(path)
        column = connection.sql(f"SELECT DISTINCT c FROM ({made})").to_arrow_table()["c"].combine_chunks()
        filters = ps.open_filters(path)
        if name == "INTERVAL":
            # DuckDB hashes these types in a form of its own.
            assert filters.column_type("c") is None
            assert filters.might_contain({"c": column}) == [True]
            if filters.ranges():
                with pytest.raises(ps.UnsupportedError, match="cannot have a Bloom filter"):
                    filters.filter(0, "c")
            return
        assert filters.ranges(), "DuckDB wrote a filter"
        for row in range(len(column)):
            assert filters.might_contain({"c": column.slice(row, 1)}) == [True]
        for value in literals(column):
            assert filters.might_contain({"c": value}) == [True], value
        if name in ("INTEGER", "BIGINT", "DOUBLE", "VARCHAR", "DATE"):
            probes: list[Any] = [f"{number}" for number in range(99)] if name == "VARCHAR" else list(range(99))
            probes = [dt.date(1970, 1, 1) + dt.timedelta(number) for number in range(99)] if name == "DATE" else probes
            query = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'c', ?::{name})"
            for probe in probes:
                ((excluded,),) = connection.execute(query, [path, probe]).fetchall()
                assert filters.might_contain({"c": probe}) == [not excluded]
