"""Test random columns of every type and layout: filters contain all inserted values, and hashes equal the model's."""

import itertools
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.models import oracle

import parsieve as ps

MANY = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
FEWER = settings(MANY, max_examples=150)


@dataclass
class Column:
    """An array, and the raws below each of its slots, in order and including nulls."""

    array: Any
    data_type: Any
    slots: list[list[oracle.Raw]]

    @property
    def raws(self) -> list[oracle.Raw]:
        return [raw for slot in self.slots for raw in slot if raw is not None]

    @property
    def hashes(self) -> list[int | None]:
        return oracle.hashes_of(self.data_type, self.raws)


def raws(data_type: Any) -> st.SearchStrategy[oracle.Raw]:
    """Return a strategy for values of a type that often draws edge cases."""
    edges = st.sampled_from(oracle.edges(data_type))
    if data_type in oracle.FLOATS:
        return edges | st.integers(0, 2**data_type.bit_width - 1)
    if oracle.is_text(data_type):
        return edges | st.text(max_size=40).map(lambda text: text.encode("utf-8", "ignore"))
    if oracle.is_bytes(data_type):
        width = data_type.byte_width if pa.types.is_fixed_size_binary(data_type) else None
        return edges | st.binary(min_size=width or 0, max_size=width or 40)
    low, high = oracle.limits(data_type)
    return edges | st.integers(low, high).map(lambda number: oracle.raw_of(data_type, number))


def maybe_null(data_type: Any, nulls: bool = True) -> st.SearchStrategy[oracle.Raw]:
    return st.none() | raws(data_type) if nulls else raws(data_type)


@st.composite
def sliced(draw: st.DrawFn, column: Column) -> Column:
    start = draw(st.integers(0, len(column.slots)))
    length = draw(st.integers(0, len(column.slots) - start))
    return Column(column.array.slice(start, length), column.data_type, column.slots[start : start + length])


@st.composite
def flat(draw: st.DrawFn, data_type: Any = None) -> Column:
    """Draw a slice of a plain array, of a dictionary with null and unused entries, or of runs."""
    data_type = draw(st.sampled_from(oracle.TYPES)) if data_type is None else data_type
    values = draw(st.lists(maybe_null(data_type, draw(st.booleans())), max_size=20))
    column = Column(oracle.array_of(data_type, values), data_type, [[raw] for raw in values])
    for layer in draw(st.sampled_from([(), (), (dictionary,), (runs,), (dictionary, runs)])):
        if column.slots:
            column = draw(sliced(draw(layer(column))))
    return draw(sliced(column)) if draw(st.booleans()) else column


@st.composite
def dictionary(draw: st.DrawFn, column: Column) -> Column:
    """Draw a dictionary. The number under a null key is not a valid key, since producers may leave any number there."""
    keys = draw(st.lists(st.none() | st.integers(0, len(column.slots) - 1), max_size=30))
    indices = oracle.array_of(draw(st.sampled_from(oracle.NUMBERS)), keys)
    array = pa.DictionaryArray.from_arrays(indices, column.array, safe=False)
    return Column(array, column.data_type, [[None] if key is None else column.slots[key] for key in keys])


@st.composite
def runs(draw: st.DrawFn, column: Column) -> Column:
    lengths = draw(st.lists(st.integers(1, 5), min_size=len(column.slots), max_size=len(column.slots)))
    ends = pa.array(itertools.accumulate(lengths), draw(st.sampled_from([pa.int16(), pa.int32(), pa.int64()])))
    slots = [slot for slot, length in zip(column.slots, lengths, strict=True) for _ in range(length)]
    return Column(pa.RunEndEncodedArray.from_arrays(ends, column.array), column.data_type, slots)


def masked(draw: st.DrawFn, num_rows: int) -> tuple[Any, list[bool]]:
    """Draw which rows are null. Return pyarrow's mask or None, and a list."""
    null = draw(st.lists(st.booleans(), min_size=num_rows, max_size=num_rows) | st.just([False] * num_rows))
    return (pa.array(null, pa.bool_()) if any(null) else None), null


def rows_of(column: Column, bounds: list[tuple[int, int]], null: list[bool]) -> list[list[oracle.Raw]]:
    """Return the raws below each row. Elements below a null row are not values."""
    return [
        [] if hidden else [raw for slot in column.slots[start:end] for raw in slot]
        for (start, end), hidden in zip(bounds, null, strict=True)
    ]


@st.composite
def nested(draw: st.DrawFn, column: Column) -> Column:
    """Nest a column in any list, struct or map, with null parents above values."""
    size = len(column.slots)
    kind = draw(st.sampled_from(["list", "large_list", "list_view", "large_list_view", "fixed", "struct", "map"]))
    wide = kind.startswith("large")
    if kind == "struct":
        mask, null = masked(draw, size)
        array = pa.StructArray.from_arrays([column.array], ["only"], mask=mask)
        return Column(array, column.data_type, rows_of(column, [(row, row + 1) for row in range(size)], null))
    if kind == "fixed":
        width = draw(st.integers(1, 3))
        num_rows = size // width
        mask, null = masked(draw, num_rows)
        array = pa.FixedSizeListArray.from_arrays(column.array.slice(0, num_rows * width), width, mask=mask)
        bounds = [(row * width, (row + 1) * width) for row in range(num_rows)]
        return Column(array, column.data_type, rows_of(column, bounds, null))
    integer = pa.int64() if wide else pa.int32()
    if kind.endswith("view"):
        # Views may overlap and have any order.
        pairs = draw(st.lists(st.tuples(st.integers(0, size), st.integers(0, size)), max_size=8))
        bounds = [(min(pair), max(pair)) for pair in pairs]
        mask, null = masked(draw, len(bounds))
        maker = pa.LargeListViewArray if wide else pa.ListViewArray
        starts = pa.array([start for start, _ in bounds], integer)
        sizes = pa.array([end - start for start, end in bounds], integer)
        return Column(
            maker.from_arrays(starts, sizes, column.array, mask=mask), column.data_type, rows_of(column, bounds, null)
        )
    cuts = sorted(draw(st.lists(st.integers(0, size), min_size=1, max_size=8)))
    bounds = list(itertools.pairwise(cuts))
    mask, null = masked(draw, len(bounds))
    offsets = pa.array(cuts, integer)
    if kind == "map":
        keys = pa.array(range(size), pa.int64())
        array = pa.MapArray.from_arrays(offsets, keys, column.array, mask=mask)
    else:
        array = (pa.LargeListArray if wide else pa.ListArray).from_arrays(offsets, column.array, mask=mask)
    return Column(array, column.data_type, rows_of(column, bounds, null))


@st.composite
def columns(draw: st.DrawFn) -> Column:
    column = draw(flat())
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
        column = draw(sliced(draw(nested(column)))) if draw(st.booleans()) else draw(nested(column))
    return column


@st.composite
def chunked(draw: st.DrawFn, column: Column) -> Any:
    cuts = sorted(draw(st.lists(st.integers(0, len(column.slots)), max_size=4)))
    ends = [0, *cuts, len(column.slots)]
    return pa.chunked_array([column.array.slice(a, b - a) for a, b in itertools.pairwise(ends)], column.array.type)


def leaf_of(data_type: Any) -> list[str]:
    """Return the path to the only leaf that is not the key of a map."""
    if pa.types.is_map(data_type):
        return ["value", *leaf_of(data_type.item_type)]
    if pa.types.is_struct(data_type):
        return ["only", *leaf_of(data_type.field(0).type)]
    if pa.types.is_nested(data_type):
        return leaf_of(data_type.value_type)
    return []


def check(column: Column, array: Any, num_blocks: int, **options: Any) -> ps.BloomFilter:
    """Check that hashes and bits equal the model's, and that the filter contains all values. Return the filter."""
    leaf = leaf_of(column.array.type)
    hashes = ps.hash_column(array, leaf=leaf).to_pylist()
    assert [hash for hash in hashes if hash is not None] == column.hashes
    filter = ps.BloomFilter(num_bytes=32 * num_blocks)
    filter.insert(array, leaf=leaf, **options)
    assert bytes(memoryview(filter)) == oracle.bitset(column.hashes, num_blocks)
    answers = filter.check(array, leaf=leaf, **options).to_pylist()
    assert [answer is None for answer in answers] == [hash is None for hash in hashes]
    assert all(answer is not False for answer in answers)
    return filter


@MANY
@given(column=flat())
def test_flat_columns_have_a_hash_for_every_slot(column: Column) -> None:
    expected = [oracle.hash_of(column.data_type, raw) for (raw,) in column.slots]
    assert ps.hash_column(column.array).to_pylist() == expected


@MANY
@given(data=st.data(), column=columns(), num_blocks=st.integers(1, 40))
def test_inserted_values_are_found(data: st.DataObject, column: Column, num_blocks: int) -> None:
    filter = check(column, column.array, num_blocks)
    assert check(column, data.draw(chunked(column)), num_blocks) == filter


@FEWER
@given(column=columns(), threads=st.integers(1, 5), isa=st.sampled_from(ps._core.instruction_sets()))
def test_threads_and_instruction_sets_do_not_change_the_bits(column: Column, threads: int, isa: str) -> None:
    assert check(column, column.array, 7, threads=threads, instruction_set=isa) == check(column, column.array, 7)


@FEWER
@given(data=st.data(), data_type=st.sampled_from(oracle.TYPES))
def test_layouts_of_the_same_values_make_the_same_filter(data: st.DataObject, data_type: Any) -> None:
    values = data.draw(st.lists(maybe_null(data_type), min_size=1, max_size=20))
    plain = Column(oracle.array_of(data_type, values), data_type, [[raw] for raw in values])
    keys = pa.array([values.index(raw) for raw in values], pa.int32())
    as_dictionary = pa.DictionaryArray.from_arrays(keys, plain.array)
    as_runs = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(values) + 1), pa.int32()), plain.array)
    as_list = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), plain.array)
    filters = []
    for array in (
        plain.array,
        as_dictionary,
        as_runs,
        as_list,
        pa.chunked_array([plain.array.slice(0, 0), plain.array]),
    ):
        filter = ps.BloomFilter(num_bytes=96)
        filter.insert(array)
        filters.append(filter)
        # Fill the filter from any layout, and check it with every other layout.
        assert all(answer is not False for answer in filter.check(as_dictionary).to_pylist())
    assert all(filter == filters[0] for filter in filters)


@FEWER
@given(first=flat(pa.int64()), second=flat(pa.int64()), factor=st.sampled_from([1, 2, 3, 4, 6, 12]))
def test_inserted_values_are_found_after_merge_fold_bytes_and_pickle(
    first: Column, second: Column, factor: int
) -> None:
    halves = []
    for column in (first, second):
        filter = ps.BloomFilter(num_bytes=32 * 12, type=pa.int64())
        filter.insert(column.array)
        halves.append(filter)
    union = pickle.loads(pickle.dumps(halves[0] | halves[1])).folded(factor=factor, tight=True)
    union = ps.BloomFilter.from_bytes(union.to_bytes(), type=pa.int64())
    assert bytes(memoryview(union)) == oracle.bitset(first.hashes + second.hashes, 12 // factor)
    for column in (first, second):
        assert all(answer is not False for answer in union.check(column.array).to_pylist())
        assert all(union.might_contain(raw) for raw in column.raws)


@st.composite
def physical_forms(draw: st.DrawFn) -> tuple[Any, str]:
    """Draw a type and a physical type that can store it in a file."""
    data_type = draw(
        st.sampled_from([*oracle.DECIMALS, pa.int8(), pa.uint16(), pa.uint32(), pa.timestamp("us"), pa.date64()])
    )
    if pa.types.is_decimal(data_type):
        width = oracle.decimal_width(data_type.precision)
        forms = ["BYTE_ARRAY", f"FIXED_LEN_BYTE_ARRAY({draw(st.integers(width, 32))})"]
        forms += ["INT32"] * (data_type.precision <= 9) + ["INT64"] * (data_type.precision <= 18)
    elif pa.types.is_timestamp(data_type):
        forms = ["INT64", "INT96"]
    else:
        forms = ["INT64"]
    return data_type, draw(st.sampled_from(forms))


@FEWER
@given(data=st.data(), form=physical_forms())
def test_values_are_found_in_every_physical_type(data: st.DataObject, form: tuple[Any, str]) -> None:
    data_type, physical = form
    values = data.draw(st.lists(maybe_null(data_type), max_size=20))
    if physical == "INT96":
        values = [None if raw is None else raw % 2**60 for raw in values]
    array = oracle.array_of(data_type, values)
    expected = oracle.hashes_of(data_type, values, physical)
    assert ps.hash_column(array, physical).to_pylist() == expected
    filter = ps.BloomFilter(num_bytes=64, type=data_type, physical_type=physical)
    filter.insert(array)
    assert bytes(memoryview(filter)) == oracle.bitset(expected, 2)
    assert filter.check(array).to_pylist() == [None if raw is None else True for raw in values]


def check_probes(
    stored: Any, values: list[int], probe_type: Any, probes: list[int], converted: list[int | None]
) -> None:
    """Check probes of another type: the answers equal the model's for the converted values, or the probes raise."""
    filter = ps.BloomFilter(num_bytes=64)
    filter.insert(oracle.array_of(stored, values))
    low, high = oracle.limits(stored)
    array = oracle.array_of(probe_type, probes)
    if all(raw is not None and low <= raw <= high for raw in converted):
        hashes = [hash for hash in oracle.hashes_of(stored, converted) if hash is not None]
        assert filter.check(array).to_pylist() == oracle.may_contain(bytes(memoryview(filter)), hashes)
    else:
        with pytest.raises(ValueError, match="no exact form"):
            filter.check(array)


NARROW = st.integers(-300, 300) | st.sampled_from([2**k + d for k in (7, 8, 15, 16, 31, 32, 63) for d in (-1, 0)])


@MANY
@given(data=st.data(), stored=st.sampled_from(oracle.NUMBERS), probe_type=st.sampled_from(oracle.NUMBERS))
def test_integer_probes_may_have_any_width_and_sign(data: st.DataObject, stored: Any, probe_type: Any) -> None:
    def fitting(data_type: Any) -> list[int]:
        low, high = oracle.limits(data_type)
        return data.draw(st.lists(NARROW.filter(lambda number: low <= number <= high), min_size=1, max_size=8))

    values, probes = fitting(stored), fitting(probe_type)
    # Narrow columns are stored as INT32, which limits their values.
    wide = {8: 32, 16: 32, 32: 32, 64: 64}[stored.bit_width]
    column_type = {(32, True): pa.int32(), (64, True): pa.int64(), (32, False): pa.uint32(), (64, False): pa.uint64()}[
        wide, oracle.is_signed(stored)
    ]
    filter = ps.BloomFilter(num_bytes=64)
    filter.insert(oracle.array_of(stored, values))
    assert bytes(memoryview(filter)) == oracle.bitset(oracle.hashes_of(column_type, values), 2)
    check_probes(column_type, values, probe_type, probes, [*probes])


UNITS = list(oracle.PER_SECOND)


@MANY
@given(
    maker=st.sampled_from([pa.timestamp, pa.duration]),
    stored=st.sampled_from(UNITS),
    probe=st.sampled_from(UNITS),
    values=st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=5),
    probes=st.lists(
        st.integers(-(10**18), 10**18) | st.integers(-(10**6), 10**6).map(lambda number: number * 10**9),
        min_size=1,
        max_size=5,
    ),
)
def test_time_probes_may_have_any_unit(
    maker: Any, stored: str, probe: str, values: list[int], probes: list[int]
) -> None:
    # Timestamps in seconds are stored in milliseconds.
    column = "ms" if stored == "s" and maker is pa.timestamp else stored
    factor, divisor = oracle.PER_SECOND[column], oracle.PER_SECOND[probe]
    converted = [raw * factor // divisor if raw * factor % divisor == 0 else None for raw in probes]
    in_column = [raw * factor // oracle.PER_SECOND[stored] for raw in values]
    filter = ps.BloomFilter(num_bytes=64)
    filter.insert(oracle.array_of(maker(stored), values))
    assert bytes(memoryview(filter)) == oracle.bitset(oracle.hashes_of(maker(column), in_column), 2)
    check_probes(maker(column), in_column, maker(probe), probes, converted)


@FEWER
@given(
    st.lists(st.floats(width=32), min_size=1, max_size=8),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_float_probes_may_have_any_width(values: list[float], stored: Any, probe: Any) -> None:
    """Probes that equal a stored value are found, with any sign of zero. Probes without an exact form raise."""
    with np.errstate(over="ignore", invalid="ignore"):
        inside, probes = np.array(values, stored), np.array(values, probe)
        exact = probes.astype(stored).astype(probe)
    filter = ps.BloomFilter(num_bytes=1024)
    filter.insert(pa.array(inside, from_pandas=False))
    array = pa.array(probes, from_pandas=False)
    if np.array_equal(exact, probes, equal_nan=True):
        answers = filter.check(array).to_pylist()
        equal = [bool(np.isnan(value) or (inside == value).any()) for value in probes.astype(np.float64)]
        assert all(answer for answer, must in zip(answers, equal, strict=True) if must)
    else:
        with pytest.raises(ValueError, match="no exact form"):
            filter.check(array)
