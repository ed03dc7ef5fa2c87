"""Filters as Python objects: merging, copies, pickles, equality, buffers and bytes."""

import copy
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.models import oracle

import parsieve as ps


def filter_of(values: Any, num_bytes: int = 1024, **options: Any) -> ps.BloomFilter:
    filter = ps.BloomFilter(num_bytes=num_bytes, **options)
    filter.insert(pa.array(values) if isinstance(values, list | range) else values)
    return filter


def test_a_merged_filter_contains_the_values_of_both() -> None:
    both, ours, theirs = filter_of(range(100)), filter_of(range(60)), filter_of(range(40, 100))
    assert ours | theirs == both
    assert ours != both, "an operator changes nothing"
    union = ours
    union |= theirs
    assert union is ours
    assert ours == both
    other = filter_of(range(60))
    other.merge(theirs)
    assert other == both
    assert all(other.check(pa.array(range(100))).to_pylist())


def test_merging_with_itself_or_an_empty_filter_changes_nothing() -> None:
    filter = filter_of(range(9))
    filter.merge(filter)
    filter |= filter
    filter.merge(ps.BloomFilter(num_bytes=1024))
    assert filter == filter | filter == filter_of(range(9))
    empty = ps.BloomFilter(num_bytes=1024)
    empty.merge(filter)
    assert empty == filter
    assert empty.column_type == filter.column_type is not None


def test_incompatible_filters_cannot_be_merged() -> None:
    filter = filter_of([1, 2])
    with pytest.raises(TypeError, match=r"INT64 integer and BYTE_ARRAY bytes cannot be merged"):
        filter.merge(filter_of(["a"]))
    with pytest.raises(TypeError, match="cannot be merged"):
        filter.merge(filter_of(pa.array([1], pa.timestamp("us"))))
    with pytest.raises(ValueError, match=r"32 and 64 blocks .* fold"):
        filter.merge(filter_of([1], 2048))
    with pytest.raises(TypeError):
        filter.merge(b"bytes")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        filter | {1, 2}  # type: ignore[operator]
    with pytest.raises(TypeError):
        filter |= 1  # type: ignore[arg-type]
    assert filter == filter_of([1, 2])


def copies() -> dict[str, Any]:
    made: dict[str, Any] = {
        f"pickle protocol {protocol}": lambda value, protocol=protocol: pickle.loads(pickle.dumps(value, protocol))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
    }
    return made | {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "deepcopy in a list": lambda v: copy.deepcopy([v, v])[1],
    }


COLUMNS = [
    pa.array([1, None, 2], pa.int32()),
    pa.array(["a", ""]),
    pa.array([1], pa.uint64()),
    pa.array([1, -1], pa.timestamp("ms", "UTC")),
    pa.array([1], pa.time32("s")),
    pa.array([1], pa.duration("ns")),
    pa.array([86_400_000], pa.date64()),
    pa.array([12, -5], pa.decimal128(38, 10)),
    pa.array([0.0]),
]


@pytest.mark.parametrize("duplicate", copies().values(), ids=copies())
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: oracle.name(column.type))
def test_copies_are_equal_and_independent(duplicate: Any, column: Any) -> None:
    filter = filter_of(column)
    before = filter.to_bytes()
    twin = duplicate(filter)
    assert type(twin) is ps.BloomFilter
    assert twin == filter
    assert twin.column_type == filter.column_type
    assert twin.check(column).to_pylist() == filter.check(column).to_pylist()
    twin.insert(oracle.array_of(column.type, oracle.raws(column.type, 20)))
    assert twin != filter
    assert filter.to_bytes() == before


def test_a_copy_of_an_empty_filter_gets_the_type_of_its_first_values() -> None:
    for duplicate in copies().values():
        twin = duplicate(ps.BloomFilter(num_bytes=64))
        assert twin.column_type is None
        twin.insert(pa.array(["x"]))
        assert twin.physical_type == "BYTE_ARRAY"


def test_a_pickle_remembers_a_chosen_physical_type() -> None:
    filter = filter_of(pa.array([1], pa.decimal128(9, 2)), type=pa.decimal128(9, 2), physical_type="INT32")
    twin = pickle.loads(pickle.dumps(filter))
    assert twin.physical_type == "INT32"
    assert twin.check(pa.array([1, 2], pa.decimal128(9, 2))).to_pylist() == [True, False]


@pytest.mark.parametrize("data", [b"", b"nonsense", oracle.header(64) + bytes(32)])
def test_a_broken_pickle_raises(data: bytes) -> None:
    with pytest.raises(ps.ParsieveError):
        ps.BloomFilter._restore(data, None)
    with pytest.raises(ValueError, match="physical type"):
        ps.BloomFilter._restore(oracle.header(32) + bytes(32), "INT33 integer")


def test_filters_with_equal_bits_are_equal() -> None:
    filter = filter_of([1, 2])
    assert filter == filter_of([2, 1, 1])
    assert filter == ps.BloomFilter.from_bytes(filter.to_bytes())
    assert filter != filter_of([1, 3])
    assert filter_of([]) != filter_of([], 2048)
    assert (filter == "filter") is False
    assert (filter != None) is True  # noqa: E711
    with pytest.raises(TypeError, match="unhashable"):
        hash(filter)
    with pytest.raises(TypeError):
        filter < filter  # type: ignore[operator]  # noqa: B015


def test_the_repr_describes_the_filter() -> None:
    text = repr(filter_of(range(500), 4096))
    for part in ("BloomFilter", "INT64 integer", "4096 bytes", "about 5", "estimated fpp"):
        assert part in text
    assert "unknown type" in repr(ps.BloomFilter(num_bytes=32))


def test_properties_describe_the_filter() -> None:
    filter = ps.BloomFilter(num_bytes=96)
    assert (filter.num_bytes, filter.num_blocks, filter.physical_type, filter.column_type) == (96, 3, None, None)
    filter.insert(pa.array([1], pa.timestamp("s", "UTC")))
    assert filter.physical_type == "INT64"
    assert filter.column_type == "INT64 instant[ms]"
    for name in ("num_bytes", "physical_type", "anything"):
        with pytest.raises(AttributeError):
            setattr(filter, name, 1)
    with pytest.raises(TypeError):
        type("Sub", (ps.BloomFilter,), {})


# Memory


def test_the_buffer_contains_the_bitset() -> None:
    filter = filter_of(range(50))
    view = memoryview(filter)
    assert (view.readonly, view.nbytes, view.ndim, view.itemsize, view.c_contiguous) == (True, 1024, 1, 1, True)
    assert bytes(view) == oracle.bitset(oracle.hashes_of(pa.int64(), range(50)), 32)
    assert filter.to_bytes() == oracle.header(1024) + bytes(view)
    array = np.frombuffer(memoryview(filter), np.uint8)
    assert array.flags.writeable is False
    with pytest.raises(TypeError):
        view[0] = 1


def test_the_buffer_is_read_only(tmp_path: Any) -> None:
    # readinto requests a writable buffer.
    (tmp_path / "file").write_bytes(b"\xff" * 1024)
    filter = filter_of([1])
    with (tmp_path / "file").open("rb") as file, pytest.raises((BufferError, TypeError)):
        file.readinto(filter)
    assert filter == filter_of([1])


def test_a_filter_whose_buffer_is_exported_cannot_change() -> None:
    filter, other = filter_of([1]), filter_of([2])
    changes: list[Any] = [
        lambda: filter.insert(pa.array([5])),
        lambda: filter.merge(other),
        lambda: filter.__ior__(other),
        lambda: filter.fold(factor=2),
        lambda: filter.fold(0.5),
    ]
    first, second = memoryview(filter), memoryview(filter)
    for views_left in (2, 1):
        for change in changes:
            with pytest.raises(BufferError, match="release the memoryview"):
                change()
        assert bytes(second) == bytes(memoryview(filter_of([1])))
        if views_left == 2:
            first.release()
    # Reads are allowed.
    assert filter.check(pa.array([1])).to_pylist() == [True]
    assert filter | other == filter_of([1, 2])
    assert filter.folded(factor=2).num_blocks == 16
    assert pickle.loads(pickle.dumps(filter)) == filter
    second.release()
    for change in changes:
        change()
    assert filter.num_blocks < 32


def test_a_buffer_keeps_its_memory_alive() -> None:
    filter = filter_of(range(100), 1 << 20)
    expected = bytes(memoryview(filter))
    view = memoryview(filter)
    del filter
    assert bytes(view) == expected


def test_from_bytes_copies_any_buffer() -> None:
    filter = filter_of([1, 2])
    data = bytearray(filter.to_bytes())
    forms: list[Any] = [bytes(data), data, memoryview(data), memoryview(data).cast("c"), np.frombuffer(data, np.uint8)]
    made = [ps.BloomFilter.from_bytes(form) for form in forms]
    made.append(ps.BloomFilter.from_bytes(memoryview(bytes(1) + data)[1:]))
    data[-1] ^= 0xFF
    assert all(each == filter for each in made)
    with pytest.raises(TypeError):
        ps.BloomFilter.from_bytes("text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ps.BloomFilter.from_bytes(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [pa.py_buffer, lambda data: memoryview(data).cast("b")], ids=["pyarrow", "b"])
def test_from_bytes_accepts_buffers_of_signed_bytes(form: Any) -> None:
    """pyarrow's buffers have signed bytes."""
    filter = filter_of([1, 2])
    assert ps.BloomFilter.from_bytes(form(filter.to_bytes())) == filter


@pytest.mark.parametrize("num_bytes", [32, 64, 96, 1024, 1 << 20, 1 << 27])
def test_headers_have_the_exact_bytes_of_the_standard(num_bytes: int) -> None:
    stored = ps.BloomFilter(num_bytes=num_bytes).to_bytes()
    head = oracle.header(num_bytes)
    assert stored[: len(head)] == head
    assert len(stored) == len(head) + num_bytes
    assert not np.frombuffer(stored, np.uint8)[len(head) :].any()
    assert ps.BloomFilter.from_bytes(stored).num_bytes == num_bytes


def test_the_smallest_header_has_the_exact_bytes() -> None:
    assert ps.BloomFilter(num_bytes=32).to_bytes()[:15] == bytes.fromhex("15401c1c00001c1c00001c1c000000")
    assert [len(oracle.header(size)) for size in (32, 1 << 20, 1 << 27)] == [15, 18, 19]


def test_inserted_values_are_found_after_every_operation() -> None:
    halves = [pa.array(range(5000), pa.int64()), pa.array(range(5000, 10_000), pa.int64())]
    filter, other = (filter_of(half, 32 * 2**12 * 3) for half in halves)
    filter.merge(other)
    filter = pickle.loads(pickle.dumps(ps.BloomFilter.from_bytes(filter.to_bytes(), type=pa.int64())))
    filter.fold(0.05, tight=True)
    filter = copy.deepcopy(filter | filter)
    for half in halves:
        assert all(filter.check(half).to_pylist())
        assert all(value in filter for value in half.to_pylist()[:100])
