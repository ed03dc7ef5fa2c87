"""A filter never gives a wrong "no", for any sign, width, unit, scale or type of a probe."""

import datetime
import math
import struct
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.ids import short_repr

import parsieve as ps

UTC = datetime.UTC


def filter_of(column: Any, **options: Any) -> ps.BloomFilter:
    filter = ps.BloomFilter(num_bytes=4096, **options)
    filter.insert(column)
    return filter


def check(inserted: Any, probes: Any, expected: Sequence[bool | None]) -> None:
    assert filter_of(inserted).check(probes).to_pylist() == expected


def test_null_probes_get_null_answers() -> None:
    check(pa.array([1, None]), pa.array([None, 1, None, 5]), [None, True, None, False])
    check(pa.array([1, None]), pa.nulls(2), [None, None])
    check(pa.array([1]), pa.nulls(2, pa.int64()), [None, None])


@pytest.mark.parametrize("data_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("encoded", ["flat", "dictionary", "runs", "list"])
def test_zeros_match_either_sign_and_nans_are_never_excluded(data_type: Any, encoded: str) -> None:
    def form(values: list[float | None]) -> Any:
        array = pa.array(
            np.array([math.nan if v is None else v for v in values], data_type.to_pandas_dtype()), data_type
        )
        if encoded == "dictionary":
            return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int8()), array)
        if encoded == "runs":
            return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), array)
        if encoded == "list":
            return pa.array([[value.as_py()] for value in array], pa.list_(data_type))
        return array

    probes = form([0.0, -0.0, math.nan, 1.0, math.inf])
    check(form([0.0]), probes, [True, True, True, False, False])
    check(form([-0.0]), probes, [True, True, True, False, False])
    check(form([1.0]), probes, [False, False, True, True, False])
    assert filter_of(form([])).check(probes).to_pylist() == [False, False, True, False, False]
    # Stored values are hashed without normalization: files can contain either sign.
    assert ps.hash_column(form([0.0])).to_pylist() != ps.hash_column(form([-0.0])).to_pylist()


def test_nans_with_any_payload_are_never_excluded() -> None:
    bits = np.array([0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0000, 0x7FF0_0000_0000_0001, 2**64 - 1], np.uint64)
    check(pa.array([1.0]), pa.array(bits.view(np.float64), from_pandas=False), [True] * 4)


# Each probe is converted to the type of the filter. A "no" is correct only if the conversion is exact.
EXACT = [
    (pa.array([1, -3], pa.int32()), pa.array([1, -3, 4], pa.int64()), [True, True, False]),
    (pa.array([1, -3], pa.int32()), pa.array([1, -3, 4], pa.int8()), [True, True, False]),
    (pa.array([1, 3], pa.int64()), pa.array([1, 3, 4], pa.uint8()), [True, True, False]),
    (pa.array([1, 2**32 - 1], pa.uint32()), pa.array([1, 2**32 - 1], pa.int64()), [True, True]),
    (pa.array([5, 2**63], pa.uint64()), pa.array([5, 6], pa.int64()), [True, False]),
    (pa.array([5, -6], pa.int64()), pa.array([5, 6], pa.uint64()), [True, False]),
    (pa.array([0.5, 0.0], pa.float32()), pa.array([0.5, -0.0, 1.5]), [True, True, False]),
    (pa.array([0.5, 0.0]), pa.array([0.5, -0.0, 1.5], pa.float32()), [True, True, False]),
    (pa.array([0.5]), pa.array(np.array([0.5, 1.5], np.float16)), [True, False]),
    (pa.array([0.1], pa.float32()), pa.array([0.10000000149011612, math.nan]), [True, True]),
    (pa.array([7], pa.timestamp("s")), pa.array([7 * 10**9, 8 * 10**9], pa.timestamp("ns")), [True, False]),
    (pa.array([7], pa.timestamp("us")), pa.array([7000, 8000], pa.timestamp("ns")), [True, False]),
    (pa.array([7 * 10**9], pa.timestamp("ns")), pa.array([7, 8], pa.timestamp("s")), [True, False]),
    (pa.array([7], pa.timestamp("us", "UTC")), pa.array([7, 8], pa.timestamp("us", "Asia/Tokyo")), [True, False]),
    (pa.array([7], pa.duration("s")), pa.array([7000, 8000], pa.duration("ms")), [True, False]),
    (pa.array([7], pa.time32("s")), pa.array([7 * 10**6, 8 * 10**6], pa.time64("us")), [True, False]),
    (pa.array([2], pa.date32()), pa.array([2 * 86_400_000, 0], pa.date64()), [True, False]),
    (pa.array([2 * 86_400_000], pa.date64()), pa.array([2, 3], pa.date32()), [True, False]),
    (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), pa.array([Decimal("1.5"), Decimal("1.6")], pa.decimal128(5, 1)), [True, False]),  # noqa: E501
    (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), pa.array([Decimal("1.500")], pa.decimal256(50, 3)), [True]),
    (pa.array([Decimal("1.5")], pa.decimal64(18, 1)), pa.array([Decimal("1.5000")], pa.decimal32(9, 4)), [True]),
    (pa.array([Decimal("3.00")], pa.decimal128(9, 2)), pa.array([3, 4]), [True, False]),
    (pa.array([3]), pa.array([Decimal("3.00"), Decimal("4.00")], pa.decimal128(9, 2)), [True, False]),
    (pa.array(["a"]), pa.array([b"a", b"b"]), [True, False]),
    (pa.array(["a"]), pa.array(["a", "b"], pa.string_view()), [True, False]),
    (pa.array([b"ab"], pa.binary(2)), pa.array([b"ab", b"cd"]), [True, False]),
    (pa.array([b"ab"]), pa.array([b"ab", b"cd"], pa.binary(2)), [True, False]),
    (pa.array(["a", "a"]).dictionary_encode(), pa.array(["a", "b"]), [True, False]),
]  # fmt: skip


@pytest.mark.parametrize(("inserted", "probes", "expected"), EXACT, ids=lambda value: str(getattr(value, "type", "")))
def test_probes_of_other_types_convert_exactly(inserted: Any, probes: Any, expected: list[bool]) -> None:
    check(inserted, probes, expected)
    # Inserted values are converted in the same way.
    filter = ps.BloomFilter(num_bytes=4096, type=inserted.type)
    filter.insert(probes)
    assert filter.check(inserted.slice(0, 1)).to_pylist() == [expected[0]]


def raised(inserted: Any, probes: Any, error: type[Exception], *words: str) -> None:
    filter = filter_of(inserted)
    before = bytes(memoryview(filter))
    for use in (filter.check, filter.insert):
        with pytest.raises(error) as caught:
            use(probes)
        assert all(word in str(caught.value) for word in words), caught.value
    assert bytes(memoryview(filter)) == before


@pytest.mark.parametrize(
    ("inserted", "probe"),
    [
        (pa.array([1], pa.int32()), pa.array([2**31])),
        (pa.array([1], pa.int32()), pa.array([-(2**31) - 1])),
        (pa.array([1], pa.uint32()), pa.array([-1])),
        (pa.array([1], pa.int64()), pa.array([2**63], pa.uint64())),
        (pa.array([1], pa.uint64()), pa.array([-1])),
        (pa.array([0.1], pa.float32()), pa.array([0.1])),
        (pa.array([0.1], pa.float32()), pa.array([1e300])),
        (pa.array(np.array([0.5], np.float16)), pa.array([65520.0], pa.float32())),
        (pa.array([1], pa.timestamp("us")), pa.array([1001], pa.timestamp("ns"))),
        (pa.array([1], pa.timestamp("ns")), pa.array([2**62], pa.timestamp("s"))),
        (pa.array([1], pa.timestamp("s")), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.duration("s")), pa.array([1], pa.duration("ms"))),
        (pa.array([1], pa.date32()), pa.array([1], pa.date64())),
        (pa.array([1]), pa.array([Decimal("1.5")])),
        (pa.array([Decimal("1.5")]), pa.array([Decimal("1.55")])),
        (pa.array([Decimal("1.5")], pa.decimal128(2, 1)), pa.array([100])),
        (pa.array([b"ab"], pa.binary(2)), pa.array([b"abc"])),
        (pa.array([b"ab"], pa.binary(2)), pa.array([""])),
    ],
    ids=lambda array: str(array.type),
)
def test_values_without_an_exact_form_raise(inserted: Any, probe: Any) -> None:
    raised(inserted, pa.concat_arrays([pa.nulls(3, probe.type), probe]), ValueError, "no exact form", str(3))


@pytest.mark.parametrize(
    ("inserted", "probe"),
    [
        (pa.array([1]), pa.array(["1"])),
        (pa.array(["1"]), pa.array([1])),
        (pa.array([1]), pa.array([1.0])),
        (pa.array([1.0]), pa.array([1])),
        (pa.array([1.0]), pa.array([Decimal("1.0")])),
        (pa.array([Decimal("1.0")]), pa.array([1.0])),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("us", "UTC"))),
        (pa.array([1], pa.timestamp("us", "UTC")), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.date32())),
        (pa.array([1], pa.date32()), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.date32()), pa.array([1], pa.int32())),
        (pa.array([1], pa.int32()), pa.array([1], pa.date32())),
        (pa.array([1], pa.timestamp("us")), pa.array([1])),
        (pa.array([1], pa.duration("us")), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.time64("us")), pa.array([1], pa.duration("us"))),
        (pa.array([b"12345678"], pa.binary(8)), pa.array([1])),
    ],
    ids=lambda array: str(array.type),
)
def test_types_with_another_meaning_raise(inserted: Any, probe: Any) -> None:
    raised(inserted, probe, TypeError, "cannot be compared", "cast it")


@pytest.mark.parametrize(
    ("column", "word"),
    [
        (pa.array([True]), "BOOLEAN"),
        (pa.array([[True]]), "BOOLEAN"),
        (pa.array([True, None]).dictionary_encode(), "BOOLEAN"),
        (pa.nulls(1, pa.bool_()), "BOOLEAN"),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), "interval"),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "Union"),
        (pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]), "Union"),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_types_that_parquet_cannot_hash_raise(column: Any, word: str) -> None:
    integers = filter_of(pa.array([1]))
    for use in (ps.BloomFilter(num_bytes=32).insert, integers.insert, integers.check, ps.hash_column):
        with pytest.raises(ps.UnsupportedError, match=word) as caught:
            use(column)
        assert "has no Parquet hash" in str(caught.value)


# Single values

ONE = [
    (pa.array([1], pa.int32()), [1, 1.0, np.int8(1), np.uint64(1), np.float64(1), Decimal("1"), Decimal("1.00"), pa.scalar(1)]),  # noqa: E501
    (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1, np.uint64(2**64 - 1)]),
    (pa.array([0.5, 0.0]), [0.5, 0, 0.0, -0.0, False + 0, np.float32(0.5), np.float16(0.5), math.nan, np.float32("nan")]),  # noqa: E501
    (pa.array([2.0**70]), [2**70, 2.0**70]),
    (pa.array([0.5], pa.float32()), [0.5, np.float64(0.5), math.nan]),
    (pa.array(np.array([0.5], np.float16)), [0.5, math.nan]),
    (pa.array(["x"]), ["x", b"x", np.str_("x"), bytearray(b"x"), memoryview(b"x")]),
    (pa.array([b"x"]), ["x", b"x"]),
    (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), [Decimal("1.5"), Decimal("1.500")]),
    (pa.array([Decimal("100")], pa.decimal128(9, 2)), [100, Decimal("1E+2"), Decimal(100)]),
    (pa.array([datetime.date(2020, 1, 2)]), [datetime.date(2020, 1, 2), pa.scalar(datetime.date(2020, 1, 2))]),
    (pa.array([datetime.datetime(2020, 1, 2)]), [datetime.datetime(2020, 1, 2), pd.Timestamp("2020-01-02"), np.datetime64("2020-01-02", "ns")]),  # noqa: E501
    (pa.array([datetime.datetime(2020, 1, 2, tzinfo=UTC)]), [datetime.datetime(2020, 1, 2, tzinfo=UTC), datetime.datetime(2020, 1, 2, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))]),  # noqa: E501
    (pa.array([datetime.timedelta(seconds=1)]), [datetime.timedelta(seconds=1), np.timedelta64(1, "s")]),
    (pa.array([datetime.time(1, 2)]), [datetime.time(1, 2)]),
    (pa.array([bytes(range(16))], pa.binary(16)), [bytes(range(16))]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value"),
    [(column, value) for column, values in ONE for value in values],
    ids=short_repr,
)
def test_a_single_value_is_found(column: Any, value: Any) -> None:
    filter = filter_of(column)
    assert filter.might_contain(value) is True
    assert (value in filter) is True
    empty = ps.BloomFilter(num_bytes=4096, type=column.type)
    assert empty.might_contain(value) is (isinstance(value, float | np.floating) and math.isnan(value))


@pytest.mark.parametrize(
    ("column", "value", "error"),
    [
        (pa.array([1], pa.int32()), 2**31, ValueError),
        (pa.array([1], pa.int32()), 2**80, ValueError),
        (pa.array([1]), -(2**63) - 1, ValueError),
        (pa.array([1]), 1.5, TypeError),
        (pa.array([1]), math.nan, TypeError),
        (pa.array([1]), Decimal("1.5"), ValueError),
        (pa.array([1]), "1", TypeError),
        (pa.array([1]), True, TypeError),
        (pa.array([1]), None, TypeError),
        (pa.array([1.0]), 2**53 + 1, ValueError),
        (pa.array([1.0]), True, TypeError),
        (pa.array([0.1], pa.float32()), 0.1, ValueError),
        (pa.array(["1"]), 1, TypeError),
        (pa.array(["1"]), "\ud800", UnicodeEncodeError),
        (pa.array([1], pa.timestamp("us")), datetime.datetime(2020, 1, 1, tzinfo=UTC), TypeError),
        (pa.array([1], pa.timestamp("us", "UTC")), datetime.datetime(2020, 1, 1), TypeError),
        (pa.array([1], pa.timestamp("ms")), datetime.datetime(2020, 1, 1, microsecond=1), ValueError),
        (pa.array([1], pa.timestamp("us")), 1, TypeError),
        (pa.array([Decimal("1.5")]), 1.5, TypeError),
        (pa.array([b"ab"], pa.binary(2)), b"abc", ValueError),
    ],
    ids=short_repr,
)
def test_a_value_that_the_column_cannot_store_raises(column: Any, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        filter_of(column).might_contain(value)


def test_a_single_value_may_have_a_type() -> None:
    stored = filter_of(pa.array([1], pa.int32())).to_bytes()
    unknown = ps.BloomFilter.from_bytes(stored)
    with pytest.raises(TypeError, match="pass type="):
        unknown.might_contain(1)
    assert unknown.might_contain(1, type=pa.int32())
    assert unknown.might_contain(1, type=pa.int16())
    bound = ps.BloomFilter.from_bytes(stored, type=pa.int32())
    assert bound.might_contain(1)
    assert bound.might_contain(1, type=pa.int64())
    assert not bound.might_contain(2, type=pa.int64())
    with pytest.raises(ps.UnsupportedError):
        bound.might_contain(True, type=pa.bool_())


@pytest.mark.parametrize(
    ("null", "arguments"),
    [
        (None, {}),
        (pd.NaT, {}),
        (pa.scalar(None, pa.int64()), {}),
        (pa.scalar(None, pa.string()), {}),
        (None, {"type": pa.int64()}),
    ],
    ids=["None", "NaT", "int64", "string", "with type"],
)
def test_a_null_raises(null: Any, arguments: dict[str, Any]) -> None:
    """Filters do not contain nulls, so a "no" would be wrong for columns with nulls."""
    filter = filter_of(pa.array([1, None]))
    with pytest.raises((TypeError, ValueError)):
        filter.might_contain(null, **arguments)


@pytest.mark.parametrize(
    "value",
    [np.array([1, 2]), [1, 2], [1], [], {"a": 1}],
    ids=repr,
)
def test_a_sequence_is_not_a_single_value(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        filter_of(pa.array([1, 2])).might_contain(value)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (pa.array([Decimal("1.50")], pa.decimal128(9, 2)), Decimal("1.50")),
        (pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("ns")), datetime.datetime(2020, 1, 1)),
        (pa.array([datetime.timedelta(1)], pa.duration("ms")), datetime.timedelta(1)),
        (pa.array([datetime.time(1)], pa.time64("ns")), datetime.time(1)),
    ],
    ids=short_repr,
)
def test_a_filter_of_unknown_type_gives_no_wrong_no(column: Any, value: Any) -> None:
    """The hash of such a value depends on the unit, scale or width of the column."""
    unknown = ps.BloomFilter.from_bytes(filter_of(column).to_bytes())
    try:
        assert unknown.might_contain(value)
    except TypeError as error:
        assert "type=" in str(error)  # noqa: PT017  (an error is fine, a "no" is not)


def test_uuids_match_their_bytes() -> None:
    value = uuid.UUID("123e4567-e89b-12d3-a456-426614174000")
    filter = filter_of(pa.array([value.bytes], pa.uuid()))
    assert filter.might_contain(value.bytes)
    assert filter.might_contain(value)
    assert not filter.might_contain(uuid.UUID(int=1))


def test_integers_beyond_the_range_of_doubles_raise() -> None:
    with pytest.raises(ValueError, match="no exact form"):
        filter_of(pa.array([1.0])).might_contain(10**400)


def test_int96_timestamps_are_found() -> None:
    """Impala and old versions of Spark store timestamps as INT96."""
    column = pa.array([0, 10**9, -1, None], pa.timestamp("ns"))
    filter = filter_of(column, type=pa.timestamp("us"), physical_type="INT96")
    assert filter.physical_type == "INT96"
    assert filter.check(column).to_pylist() == [True, True, True, None]
    assert filter.check(pa.array([0, 1, 2], pa.timestamp("s"))).to_pylist() == [True, True, False]
    raw = struct.pack("<QI", 0, 2_440_588)
    assert filter_of(pa.array([raw], pa.binary(12)), type=pa.binary(12), physical_type="INT96") == filter_of(
        pa.array([0], pa.timestamp("us")), type=pa.timestamp("us"), physical_type="INT96"
    )


# Leaves

PEOPLE = pa.array(
    [[{"name": "a", "at": {"x.y": 1}}, None], None, [{"name": None, "at": {"x.y": 2}}]],
    pa.list_(pa.struct({"name": pa.string(), "at": pa.struct({"x.y": pa.int64()})})),
)
MAP = pa.array([[("k", 1)], None, [("l", None)]], pa.map_(pa.string(), pa.int64()))


@pytest.mark.parametrize(
    ("column", "leaf", "expected"),
    [
        (PEOPLE, "name", ["a", None, None]),
        (PEOPLE, "list.element.name", ["a", None, None]),
        (PEOPLE, ("name",), ["a", None, None]),
        (PEOPLE, ["list", "element", "name"], ["a", None, None]),
        (PEOPLE, ("at", "x.y"), [1, None, 2]),
        (PEOPLE, "at", [1, None, 2]),
        (MAP, "key", ["k", "l"]),
        (MAP, "value", [1, None]),
        (MAP, "key_value.value", [1, None]),
        (pa.table({"a": [1], "b": ["x"]}), "b", ["x"]),
        (pa.array([[1], [2, 3]]), None, [1, 2, 3]),
        (pa.array([[1], [2, 3]]), "list.element", [1, 2, 3]),
        (pa.array([{"a": {"b": 1}}]), None, [1]),
        (pa.array([1]), [], [1]),
    ],
    ids=str,
)
def test_leaves_are_chosen_by_name(column: Any, leaf: Any, expected: list[Any]) -> None:
    hashes = ps.hash_column(pa.array(expected)).to_pylist()
    assert ps.hash_column(column, leaf=leaf).to_pylist() == hashes
    filter = ps.BloomFilter(num_bytes=4096)
    filter.insert(column, leaf=leaf)
    assert filter == filter_of(pa.array(expected))
    assert filter.check(column, leaf=leaf).to_pylist() == [None if value is None else True for value in expected]


@pytest.mark.parametrize(
    ("column", "leaf", "words"),
    [
        (PEOPLE, None, ["leaf=", "name", "at.x.y"]),
        (PEOPLE, "nam", ["'nam'", '"nam"', "name", "at.x.y"]),
        (PEOPLE, "at.x.y", ["name", "at.x.y"]),
        (PEOPLE, "name.more", ["name.more", "at.x.y"]),
        (MAP, None, ["leaf=", "key"]),
        (pa.table({"a": [1], "b": ["x"]}), None, ["leaf=", "a, b"]),
        (pa.array([1]), "a", ["a", "the column itself"]),
    ],
    ids=str,
)
def test_missing_leaves_raise(column: Any, leaf: Any, words: list[str]) -> None:
    filter = ps.BloomFilter(num_bytes=32)
    for use in (filter.insert, filter.check, ps.hash_column):
        with pytest.raises(ValueError, match="lea") as caught:
            use(column, leaf=leaf)
        message = str(caught.value)
        assert all(word in message for word in words if "'" not in word), message


# Arguments


@pytest.mark.parametrize(
    ("physical_type", "column", "error", "word"),
    [
        ("int32", pa.array([1]), ValueError, "INT32"),
        ("BOOLEAN", pa.array([1]), ValueError, "INT32"),
        ("FIXED_LEN_BYTE_ARRAY(-1)", pa.array([b"a"]), ValueError, "FIXED_LEN_BYTE_ARRAY"),
        ("FIXED_LEN_BYTE_ARRAY(99999999999)", pa.array([b"a"]), ValueError, "FIXED_LEN_BYTE_ARRAY"),
        ("FIXED_LEN_BYTE_ARRAY", pa.array([b"a"]), TypeError, "without a length"),
        ("DOUBLE", pa.array([1]), TypeError, "DOUBLE"),
        ("INT96", pa.array([1]), TypeError, "INT96"),
        ("INT64", pa.array([1], pa.date32()), TypeError, "INT64"),
        ("INT32", pa.array([1, None, 2**40]), ValueError, "row 2"),
        ("FIXED_LEN_BYTE_ARRAY(1)", pa.array([b"a", None, b"bb"]), ValueError, "row 2"),
        ("FIXED_LEN_BYTE_ARRAY(2)", pa.array([Decimal("99999.00")]), ValueError, "row 0"),
        ("INT32", pa.array([Decimal("99999999.00")], pa.decimal128(10, 2)), ValueError, "row 0"),
    ],
)
def test_impossible_physical_types_raise(physical_type: str, column: Any, error: type[Exception], word: str) -> None:
    with pytest.raises(error) as caught:
        ps.hash_column(column, physical_type)
    assert word in str(caught.value)


def test_errors_count_rows_from_the_start_of_the_column() -> None:
    column = pa.chunked_array([[1] * 2000, [2**40]])
    with pytest.raises(ValueError, match="no exact form"):
        ps.hash_column(column, "INT32")
    filter = ps.BloomFilter(num_bytes=32, type=pa.int32())
    with pytest.raises(ValueError, match=r"row 1500\b"):
        filter.insert(pa.array([1] * 1500 + [2**40] + [1] * 1500))


def test_a_value_beyond_its_type_raises_value_error() -> None:
    filter = ps.BloomFilter(num_bytes=32, type=pa.timestamp("s"))
    for value in (2**63, float("inf")):
        with pytest.raises(ValueError, match=r"has no exact form as timestamp\[s\]"):
            filter.might_contain(value, type=pa.timestamp("s"))


def test_invalid_arguments_raise() -> None:
    filter = ps.BloomFilter(num_bytes=32)
    column = pa.array([1])
    with pytest.raises(ValueError, match="threads must be at least 1"):
        filter.insert(column, threads=0)
    with pytest.raises(ValueError, match="portable"):
        filter.check(column, instruction_set="mmx")
    with pytest.raises(ValueError, match="pass either"):
        ps.BloomFilter()
    with pytest.raises(ValueError, match="pass either"):
        ps.BloomFilter(10, num_bytes=32)
    with pytest.raises(ValueError, match="physical_type also needs type="):
        ps.BloomFilter(num_bytes=32, physical_type="INT32")
    with pytest.raises(ps.UnsupportedError, match="BOOLEAN"):
        ps.BloomFilter(num_bytes=32, type=pa.bool_())
    for num_bytes in (0, 1, 31, 33, 2**31 - 1, 2**31, 2**63):
        with pytest.raises(ValueError, match="multiple of 32"):
            ps.BloomFilter(num_bytes=num_bytes)
    for fpp in (0.0, 1.0, -1.0, 2.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="between 0 and 1"):
            ps.BloomFilter(100, fpp)
    for size in (-1, 2**64, 2**100):
        with pytest.raises((ValueError, OverflowError)):
            ps.BloomFilter(num_bytes=size)
