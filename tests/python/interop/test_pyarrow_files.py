"""Our filters equal the filters that pyarrow writes for the same values, bit for bit and for every type."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.models import oracle

import parsieve as ps


def filters_in(file: bytes) -> dict[str, list[bytes]]:
    """Return the header and bitset of each filter in a file, by column and row group."""
    metadata = pq.read_metadata(io.BytesIO(file))
    filters: dict[str, list[bytes]] = {}
    for row_group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(row_group).column(number)
            if chunk.bloom_filter_offset is not None:
                end = chunk.bloom_filter_offset + chunk.bloom_filter_length
                filters.setdefault(chunk.path_in_schema, []).append(file[chunk.bloom_filter_offset : end])
    return filters


def write(column: Any, num_values: int, **options: Any) -> bytes:
    """Write a file with one column `c` and a filter for each leaf."""
    table = pa.table({"c": column})
    plain = io.BytesIO()
    pq.write_table(table, plain)
    row_group = pq.read_metadata(io.BytesIO(plain.getvalue())).row_group(0)
    leaves = [row_group.column(number).path_in_schema for number in range(row_group.num_columns)]
    file = io.BytesIO()
    bloom = {leaf: {"ndv": num_values, "fpp": 0.01} for leaf in leaves}
    pq.write_table(table, file, bloom_filter_options=bloom, **options)
    return file.getvalue()


def check(
    column: Any, *, insert: Any = None, leaves: tuple[str | None, ...] = (None,), type: Any = None, **options: Any
) -> None:
    """Check that the filters of a written file equal ours.

    `insert` is the same column in a form that the writer does not support.
    """
    insert = column if insert is None else insert
    written = filters_in(write(column, max(len(column), 8), **options))
    assert len(written) == len(leaves), written.keys()
    for leaf, (theirs,) in zip(leaves, written.values(), strict=True):
        parsed = ps.BloomFilter.from_bytes(theirs, type=type)
        ours = ps.BloomFilter(num_bytes=parsed.num_bytes, type=type)
        ours.insert(insert, leaf=leaf)
        assert any(bytes(memoryview(ours))), "an empty filter proves nothing"
        assert ours.to_bytes() == theirs
        assert ours == parsed
        assert all(ours.check(insert, leaf=leaf).drop_null().to_pylist())


@pytest.mark.parametrize("data_type", oracle.TYPES, ids=oracle.name)
def test_filters_of_flat_types_equal_ours(data_type: Any) -> None:
    column = oracle.array_of(data_type, oracle.raws(data_type, 300))
    check(column)
    check(column, use_dictionary=False)


@pytest.mark.parametrize("data_type", oracle.TYPES, ids=oracle.name)
def test_filters_of_flat_types_equal_the_model(data_type: Any) -> None:
    raws = oracle.raws(data_type, 300)
    ((theirs,),) = filters_in(write(oracle.array_of(data_type, raws), 400)).values()
    num_blocks = ps.BloomFilter.from_bytes(theirs).num_blocks
    model = oracle.bitset(oracle.hashes_of(data_type, raws), num_blocks)
    assert theirs == oracle.header(32 * num_blocks) + model


# Options of pyarrow for old readers: narrow decimals as integers, and timestamps in other units.
@pytest.mark.parametrize("precision", [1, 5, 9, 10, 18])
def test_filters_of_decimals_as_integers_equal_ours(precision: int) -> None:
    data_type = pa.decimal128(precision, 1)
    column = oracle.array_of(data_type, oracle.raws(data_type, 200))
    ((theirs,),) = filters_in(write(column, 200, store_decimal_as_integer=True)).values()
    physical = "INT32" if precision <= 9 else "INT64"
    ours = ps.BloomFilter(num_bytes=ps.BloomFilter.from_bytes(theirs).num_bytes, type=data_type, physical_type=physical)
    ours.insert(column)
    assert ours.to_bytes() == theirs
    other = ps.BloomFilter(num_bytes=ours.num_bytes)
    other.insert(column)
    assert other != ours, "the two forms have different hashes"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_filters_of_timestamps_in_another_unit_equal_ours(unit: str) -> None:
    million = 10**6  # a whole number of every coarser unit
    column = pa.array([0, million, -million, None], pa.timestamp(unit))
    check(column, coerce_timestamps="us", type=pa.timestamp("us"))
    check(column, coerce_timestamps="ms", type=pa.timestamp("ms"))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", "a", None]).dictionary_encode(),
        pa.array([b"a", b"", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.uint64()), pa.array([1.5, -0.0])),
    ],
    ids=["text", "bytes", "doubles"],
)
def test_filters_of_dictionaries_equal_ours(column: Any) -> None:
    check(column)


def test_unused_entries_of_a_dictionary_are_not_inserted() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 2], pa.int32()), pa.array([10, 11, 12], pa.int64()))
    check(column.dictionary_decode(), insert=column)
    nulls = pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 0], pa.int8()), pa.array(["used", "not", None]))
    check(pa.array(["used", None, None, "used"]), insert=nulls)


def test_filters_of_runs_equal_ours() -> None:
    values = pa.array(["x", None, "yy"])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([3, 5, 9], pa.int16()), values)
    check(pa.array(["x"] * 3 + [None] * 2 + ["yy"] * 4), insert=runs)
    check(pa.array([None, "yy"]), insert=runs.slice(4, 2))


def test_extension_types_have_the_hashes_of_their_storage() -> None:
    check(pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16)), None], pa.binary(16))))
    check(pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": 1}', None])))


@pytest.mark.parametrize(
    "data_type",
    [
        *[pa.list_(pa.int64()), pa.large_list(pa.string()), pa.list_(pa.int32(), 2)],
        *[pa.list_view(pa.int64()), pa.large_list_view(pa.string()), pa.list_(pa.list_(pa.float64()))],
    ],
    ids=oracle.name,
)
def test_filters_of_lists_equal_ours(data_type: Any) -> None:
    nested = pa.types.is_list(data_type.value_type)
    item: Any = "text" if "string" in str(data_type) else 7
    rows = [[item, item], None, [None, item], [item * 2, None]]
    check(pa.array([[row, None, row] if row else None for row in rows] if nested else rows, data_type))


def test_filters_of_structs_and_maps_equal_ours() -> None:
    rows = [{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}, {"a": 4, "b": {"c": None}}]
    check(pa.array(rows, pa.struct({"a": pa.int32(), "b": pa.struct({"c": pa.string()})})), leaves=("a", "b.c"))
    pairs = [[("k", 1), ("l", None)], None, [], [("m", 3)]]
    check(pa.array(pairs, pa.map_(pa.string(), pa.int64())), leaves=("key", "value"))
    people = [[{"name": "a", "age": 1}], None, [{"name": None, "age": 2}, None]]
    check(pa.array(people, pa.list_(pa.struct({"name": pa.string(), "age": pa.int16()}))), leaves=("name", "age"))


def test_each_row_group_has_its_own_filter() -> None:
    column = pa.array(range(1000), pa.int64())
    (filters,) = filters_in(write(column, 100, row_group_size=100)).values()
    assert len(filters) == 10
    for number, theirs in enumerate(filters):
        ours = ps.BloomFilter(num_bytes=ps.BloomFilter.from_bytes(theirs).num_bytes)
        ours.insert(column.slice(100 * number, 100))
        assert ours.to_bytes() == theirs


def test_a_column_of_nulls_has_an_empty_filter() -> None:
    ((theirs,),) = filters_in(write(pa.nulls(5, pa.string()), 8)).values()
    ours = ps.BloomFilter(num_bytes=ps.BloomFilter.from_bytes(theirs).num_bytes)
    ours.insert(pa.nulls(5, pa.string()))
    ours.insert(pa.nulls(5))
    assert ours.to_bytes() == theirs
    assert not any(bytes(memoryview(ours)))
