"""Columns from Arrow producers, streams, numpy, pandas, Polars and DuckDB, and objects that are not columns."""

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.ids import short_repr
from support.models import oracle

import parsieve as ps

NUMBERS = [3, None, -1, 2**40]


def check(column: Any, data_type: Any, raws: Sequence[oracle.Raw], **leaf: Any) -> None:
    """Check that a column has the hashes and the filter of its raws, and that the filter contains every value."""
    expected = oracle.hashes_of(data_type, raws)
    if not isinstance(column, Once):
        assert ps.hash_column(column, **leaf).to_pylist() == expected
    filter = ps.BloomFilter(num_bytes=96)
    filter.insert(column() if isinstance(column, Once) else column, **leaf)
    assert bytes(memoryview(filter)) == oracle.bitset(expected, 3)
    if isinstance(column, Once):
        assert ps.hash_column(column()).to_pylist() == expected
    answers = filter.check(column() if isinstance(column, Once) else column, **leaf)
    assert isinstance(answers, pa.BooleanArray)
    assert answers.to_pylist() == [None if raw is None else True for raw in raws]


class Once:
    """A factory that makes a new stream for each use."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def __call__(self) -> Any:
        return self.make()


class OnlyArray:
    """An array with nothing but the capsule protocol, like arrays of nanoarrow and arro3."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.array.__arrow_c_array__(requested_schema)


class OnlyStream:
    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.stream.__arrow_c_stream__(requested_schema)


def batches() -> Iterator[Any]:
    for number in NUMBERS:
        yield pa.record_batch({"c": pa.array([number], pa.int64())})


def relation() -> Any:
    return duckdb.sql("SELECT unnest([3, NULL, -1, 1099511627776]) AS c")


def reader() -> Any:
    return pa.RecordBatchReader.from_batches(pa.schema({"c": pa.int64()}), batches())


@pytest.mark.parametrize(
    "column",
    [
        pa.array(NUMBERS, pa.int64()),
        pa.array([9, *NUMBERS, 9], pa.int64()).slice(1, 4),
        pa.chunked_array([NUMBERS[:1], [], NUMBERS[1:]], pa.int64()),
        pa.table({"c": pa.array(NUMBERS, pa.int64())}),
        pa.record_batch({"c": pa.array(NUMBERS, pa.int64())}),
        OnlyArray(pa.array(NUMBERS, pa.int64())),
        OnlyStream(pa.chunked_array([NUMBERS[:2], NUMBERS[2:]], pa.int64())),
        Once(reader),
        Once(lambda: OnlyStream(reader())),
        pd.Series(NUMBERS, dtype="int64[pyarrow]"),
        pd.Series(NUMBERS, dtype="Int64"),
        pd.DataFrame({"c": pd.Series(NUMBERS, dtype="Int64")}),
        pl.Series(NUMBERS),
        pl.Series([9, *NUMBERS])[1:],
        pl.concat([pl.Series(NUMBERS[:1], dtype=pl.Int64), pl.Series(NUMBERS[1:])], rechunk=False),
        pl.DataFrame({"c": NUMBERS}),
        Once(lambda: relation().to_arrow_table()["c"]),
        Once(relation),
        np.ma.array([3, 0, -1, 2**40], mask=[False, True, False, False]),
    ],
    ids=[
        *["array", "slice", "chunks", "table", "batch", "array capsule", "stream capsule", "reader", "reader capsule"],
        *["pandas arrow", "pandas nullable", "pandas frame", "polars", "polars slice", "polars chunks", "polars frame"],
        *["duckdb column", "duckdb relation", "masked numpy"],
    ],
)
def test_all_arrow_producers_give_the_same_column(column: Any) -> None:
    check(column, pa.int64(), [*NUMBERS])


@pytest.mark.parametrize(
    ("array", "data_type", "raws"),
    [
        (np.arange(6, dtype=np.int32), pa.int32(), [0, 1, 2, 3, 4, 5]),
        (np.arange(6, dtype=np.int64)[::2], pa.int64(), [0, 2, 4]),
        (np.arange(6, dtype=np.int64)[::-1], pa.int64(), [5, 4, 3, 2, 1, 0]),
        (np.arange(6, dtype=np.int16).reshape(2, 3)[:, 1], pa.int16(), [1, 4]),
        (np.array([255, 0], np.uint8), pa.uint8(), [255, 0]),
        (np.array([1.0, -0.0], np.float16), pa.float16(), [0x3C00, 0x8000]),
        (np.array([1.0, -0.0], np.float32), pa.float32(), [0x3F800000, 1 << 31]),
        (np.array(["2000-01-01", "NaT"], "datetime64[D]"), pa.date32(), [10957, None]),
        (np.array([7, "NaT"], "datetime64[s]"), pa.timestamp("s"), [7, None]),
        (np.array([7, -7], "datetime64[ns]"), pa.timestamp("ns"), [7, -7]),
        (np.array([7, -7], "timedelta64[us]"), pa.duration("us"), [7, -7]),
        (np.array(["a", "grün"]), pa.string(), [b"a", "grün".encode()]),
        (np.array([b"a", b"bc"]), pa.binary(), [b"a", b"bc"]),
        (np.array(["a", None], object), pa.string(), [b"a", None]),
        (np.empty(0, np.int64), pa.int64(), []),
    ],
    ids=lambda value: f"{value.dtype} {value.strides}" if isinstance(value, np.ndarray) else "",
)
def test_numpy_arrays_are_columns(array: Any, data_type: Any, raws: list[oracle.Raw]) -> None:
    check(array, data_type, raws)


def test_numpy_arrays_are_read_during_the_call_only() -> None:
    array = np.array([1, 2], np.int64)
    filter = ps.BloomFilter(num_bytes=1024)
    filter.insert(array)
    array[:] = 7
    assert filter.check(pa.array([1, 2, 7])).to_pylist() == [True, True, False]


@pytest.mark.parametrize(
    ("array", "wrong"),
    [
        (np.zeros((2, 2)), "1-dimensional"),
        (np.array([1j]), "numpy type"),
        (np.zeros(2, [("a", "i4")]), "numpy type"),
        (np.array([True]), "BOOLEAN"),
    ],
    ids=["two dimensions", "complex", "structured", "booleans"],
)
def test_unsupported_numpy_arrays_raise(array: Any, wrong: str) -> None:
    with pytest.raises(Exception, match=wrong):
        ps.hash_column(array)


def test_byte_swapped_numpy_arrays_raise_or_give_the_right_hashes() -> None:
    swapped = np.arange(3, dtype=np.int64).astype(">i8")
    try:
        hashes = ps.hash_column(swapped).to_pylist()
    except ps.UnsupportedError as error:
        assert "swapped" in str(error)  # noqa: PT017  (an error is fine, a wrong hash is not)
    else:
        assert hashes == oracle.hashes_of(pa.int64(), [0, 1, 2])


def test_series_of_other_types_are_columns() -> None:
    check(pd.Series(["a", None, "b"]), pa.string(), [b"a", None, b"b"])
    check(pd.Series(["a", None, "a"], dtype="category"), pa.string(), [b"a", None, b"a"])
    check(pd.Series(pd.to_datetime(["2000-01-01"])), pa.timestamp("us"), [946684800 * 10**6])
    check(pl.Series(["a", None, "a"], dtype=pl.Categorical), pa.string(), [b"a", None, b"a"])
    check(pl.Series(["a", None, "b"], dtype=pl.Enum(["b", "a"])), pa.string(), [b"a", None, b"b"])
    check(
        pl.Series(["short", "a string of more than twelve bytes"]),
        pa.string(),
        [b"short", b"a string of more than twelve bytes"],
    )
    check(pl.Series([[1, 2], None, [3]]), pa.int64(), [1, 2, 3])


# Buffers of Polars, DuckDB and others can have any address.
@pytest.mark.parametrize(
    "data_type", [*oracle.NUMBERS, *oracle.FLOATS, *oracle.DECIMALS, pa.timestamp("s")], ids=oracle.name
)
@pytest.mark.parametrize("shift", [1, 3, 4])
def test_misaligned_buffers_are_read(data_type: Any, shift: int) -> None:
    raws = [raw for raw in oracle.raws(data_type, 20) if raw is not None]
    values = oracle.array_of(data_type, raws).buffers()[1].to_pybytes()
    shifted = pa.py_buffer(bytes(shift) + values).slice(shift)
    assert shifted.address % 8 != 0
    check(pa.Array.from_buffers(data_type, len(raws), [None, shifted]), data_type, raws)


def test_misaligned_offsets_raise() -> None:
    """The Arrow library reads offsets before it could copy them to an aligned address."""
    offsets = pa.py_buffer(b"\0" + np.array([0, 1, 3], np.int32).tobytes()).slice(1)
    strings = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    lists = pa.ListArray.from_arrays([0, 1, 2], strings)
    for column in (strings, lists, pa.chunked_array([strings]), pa.StructArray.from_arrays([strings], ["only"])):
        with pytest.raises(ps.UnsupportedError, match="copy it first"):
            ps.hash_column(column)


@pytest.mark.parametrize(
    "value", [[1, 2], (1,), {1}, {"a": 1}, None, 1, "text", b"bytes", range(3), object(), iter([1])], ids=short_repr
)
def test_python_values_are_not_columns(value: Any) -> None:
    filter = ps.BloomFilter(num_bytes=32)
    for use in (filter.insert, filter.check, ps.hash_column):
        with pytest.raises(TypeError, match=r"pyarrow\.array") as caught:
            use(value)
        assert type(value).__name__ in str(caught.value)


@pytest.mark.parametrize(
    "column",
    [pa.array([], pa.int64()), pa.chunked_array([], pa.int64()), pa.array([1]).slice(1), np.empty(0, np.int64)],
    ids=["array", "no chunks", "slice", "numpy"],
)
def test_empty_columns_change_nothing(column: Any) -> None:
    filter = ps.BloomFilter(num_bytes=32)
    filter.insert(column)
    assert filter == ps.BloomFilter(num_bytes=32)
    assert filter.check(column).to_pylist() == []
    assert ps.hash_column(column).to_pylist() == []


def test_an_error_of_a_stream_reaches_the_caller() -> None:
    def broken() -> Iterator[Any]:
        yield pa.record_batch({"c": [1]})
        raise RuntimeError("the disk is on fire")

    filter = ps.BloomFilter(num_bytes=1024)
    with pytest.raises(Exception, match="the disk is on fire"):
        filter.insert(pa.RecordBatchReader.from_batches(pa.schema({"c": pa.int64()}), broken()))
    assert filter.check(pa.array([1, 2])).to_pylist() == [True, False]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1023, 1024, 1025, 5000])
@pytest.mark.parametrize("instruction_set", [None, *ps._core.instruction_sets()])
def test_no_slot_is_lost_at_the_edges_of_batches(size: int, instruction_set: str | None) -> None:
    """Batches have 1,024 slots, and answers have 64 bits to a word. Test the slots at these edges."""
    column = pa.array([None if number % 7 == 3 else number for number in range(size)], pa.int64())
    expected = oracle.hashes_of(pa.int64(), column.to_pylist())
    assert ps.hash_column(column, instruction_set=instruction_set).to_pylist() == expected
    filter = ps.BloomFilter(num_bytes=32 * 64)
    filter.insert(column, instruction_set=instruction_set)
    assert bytes(memoryview(filter)) == oracle.bitset(expected, 64)
    probes = pa.array(range(3 * size), pa.int64())
    hashes = [hash for hash in oracle.hashes_of(pa.int64(), probes.to_pylist()) if hash is not None]
    answers = filter.check(probes, instruction_set=instruction_set).to_pylist()
    assert answers == oracle.may_contain(bytes(memoryview(filter)), hashes)


def layouts(array: Any, raws: list[oracle.Raw]) -> Iterator[tuple[Any, list[oracle.Raw]]]:
    """Yield layouts of a long column: plain, sliced, as a dictionary, and as runs across the edges of batches."""
    yield array, raws
    yield array.slice(1021, 1030), raws[1021:2051]
    keys = [None if index % 11 == 5 else index * 7 % len(raws) for index in range(3000)]
    by_key = [None if key is None else raws[key] for key in keys]
    entries = pa.DictionaryArray.from_arrays(pa.array(keys, pa.int32()), array)
    yield entries, by_key
    yield entries.slice(1020, 1100), by_key[1020:2120]
    lengths = [1 + index % 4 for index in range(len(raws))]
    written_out = [raw for raw, length in zip(raws, lengths, strict=True) for _ in range(length)]
    runs = pa.RunEndEncodedArray.from_arrays(pa.array(np.cumsum(lengths), pa.int32()), array)
    yield runs, written_out
    yield runs.slice(1023, 2050), written_out[1023:3073]
    yield (
        pa.RunEndEncodedArray.from_arrays(pa.array(range(2, 6001, 2), pa.int16()), entries),
        [raw for raw in by_key for _ in range(2)],
    )


@pytest.mark.parametrize("data_type", oracle.TYPES, ids=oracle.name)
def test_long_columns_give_the_same_filter_in_every_layout(data_type: Any) -> None:
    raws = oracle.raws(data_type, 2200)
    for array, expected in layouts(oracle.array_of(data_type, raws), raws):
        check(array, data_type, expected)


@pytest.mark.parametrize("key", [1, 7, 127, -1])
@pytest.mark.parametrize("use", ["hash_column", "insert", "check"])
def test_dictionary_keys_out_of_range_raise(key: int, use: str) -> None:
    """A hash of an arbitrary value, a "no" or a panic would be wrong."""
    column = pa.DictionaryArray.from_arrays(pa.array([key], pa.int8()), pa.array([1.5]), safe=False)
    filter = ps.BloomFilter(num_bytes=1024, type=pa.float64())
    calls: dict[str, Any] = {"hash_column": ps.hash_column, "insert": filter.insert, "check": filter.check}
    with pytest.raises((ValueError, IndexError, ps.ParsieveError)):
        calls[use](column)


def test_list_views_out_of_range_raise() -> None:
    offsets, sizes = (pa.py_buffer(np.array([number], np.int32).tobytes()) for number in (2, 5))
    column = pa.Array.from_buffers(pa.list_view(pa.int64()), 1, [None, offsets, sizes], children=[pa.array([1, 2, 3])])
    with pytest.raises((ValueError, IndexError, ps.ParsieveError)):
        ps.hash_column(column)


INNER = pa.StructArray.from_arrays([pa.array(range(10))], ["a"]).slice(3, 6)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.StructArray.from_arrays([INNER], ["s"]).slice(1, 4), [4, 5, 6, 7]),
        (pa.FixedSizeListArray.from_arrays(INNER, 2), [3, 4, 5, 6, 7, 8]),
        (pa.FixedSizeListArray.from_arrays(INNER, 2).slice(1, 2), [5, 6, 7, 8]),
    ],
    ids=["structure", "list", "sliced list"],
)
def test_a_sliced_struct_inside_a_sliced_column_keeps_its_values(column: Any, expected: list[oracle.Raw]) -> None:
    check(column, pa.int64(), expected)
