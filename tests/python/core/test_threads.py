"""Threads can share a filter without lost values or deadlocks, and long calls release the interpreter lock (GIL).

No test measures time. A thread that has not ended after minutes counts as a deadlock.
"""

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.threads import run

import parsieve as ps

NUM_BYTES = 32 << 12


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Make the interpreter switch threads as often as possible."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def filter_of(values: Any, num_bytes: int = NUM_BYTES) -> ps.BloomFilter:
    filter = ps.BloomFilter(num_bytes=num_bytes)
    filter.insert(values)
    return filter


def numbers(start: int, stop: int) -> Any:
    return pa.array(np.arange(start, stop, dtype=np.int64))


@pytest.mark.parametrize("num_threads", [2, 8])
def test_parallel_inserts_lose_no_values(num_threads: int) -> None:
    shared, each = ps.BloomFilter(num_bytes=NUM_BYTES), 20_000

    def insert(number: int) -> Callable[[], None]:
        def job() -> None:
            for start in range(number * each, (number + 1) * each, 500):
                shared.insert(numbers(start, start + 500))

        return job

    run(*(insert(number) for number in range(num_threads)))
    assert shared == filter_of(numbers(0, num_threads * each))


def test_parallel_inserts_of_big_columns_lose_no_values() -> None:
    shared = ps.BloomFilter(num_bytes=NUM_BYTES)
    run(
        *(
            lambda part=part: shared.insert(numbers(part, part + 400_000), threads=2)
            for part in range(0, 1_600_000, 400_000)
        )
    )
    assert shared == filter_of(numbers(0, 1_600_000))


def test_reads_during_writes_give_no_wrong_no() -> None:
    """Each read finds all values that were inserted before it."""
    shared, done = ps.BloomFilter(num_bytes=NUM_BYTES), 0

    def write() -> None:
        nonlocal done
        for start in range(0, 200_000, 1000):
            shared.insert(numbers(start, start + 1000))
            done = start + 1000

    def read() -> None:
        while done < 200_000:
            end = done
            assert shared.check(numbers(max(0, end - 5000), end)).false_count == 0
            assert shared.num_bytes == NUM_BYTES
            assert shared.estimated_ndv >= 0
            assert len(repr(shared)) > 20
            assert ps.BloomFilter.from_bytes(shared.to_bytes()).num_bytes == NUM_BYTES

    run(write, read, read)
    assert shared == filter_of(numbers(0, 200_000))


def test_memory_views_do_not_change_during_writes() -> None:
    """A memory view never changes. Writes raise an error while it exists, and succeed afterwards."""
    shared, refused = ps.BloomFilter(num_bytes=NUM_BYTES), 0

    def write() -> None:
        nonlocal refused
        for start in range(0, 20_000, 100):
            while True:
                try:
                    shared.insert(numbers(start, start + 100))
                    break
                except BufferError:
                    refused += 1

    def look() -> None:
        for _ in range(300):
            with memoryview(shared) as view:
                assert bytes(view) == bytes(view)

    run(write, look)
    assert shared == filter_of(numbers(0, 20_000))


def test_the_number_of_threads_does_not_change_the_bits() -> None:
    column = pa.chunked_array([numbers(0, 700_000), pa.nulls(10, pa.int64()), numbers(700_000, 1_500_001)])
    expected, probes = filter_of(column), numbers(1_000_000, 2_500_000)
    answers = expected.check(probes)
    for threads in (1, 2, 3, 7, 64):
        filter = ps.BloomFilter(num_bytes=NUM_BYTES)
        filter.insert(column, threads=threads)
        assert filter == expected
        assert filter.check(probes, threads=threads).equals(answers)


class Counter:
    """A thread that counts its turns. It sleeps after each turn, so that other threads get the lock back."""

    def __init__(self) -> None:
        self.turns, self.stop = 0, False
        self.thread = threading.Thread(target=self.work, daemon=True)

    def work(self) -> None:
        while not self.stop:
            self.turns += 1
            time.sleep(1e-5)

    def __enter__(self) -> "Counter":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop = True
        self.thread.join()


class WithCapsules:
    """An array with existing capsules, because pyarrow releases the lock when it makes them."""

    def __init__(self, array: Any) -> None:
        self.capsules = array.__arrow_c_array__()

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self.capsules


WORK: dict[str, Callable[[Any, Any, Any], Any]] = {
    "insert": lambda filter, _, column: filter.insert(column),
    "check": lambda filter, _, column: filter.check(column),
    "hash_column": lambda _, __, column: ps.hash_column(column),
    "merge": lambda filter, other, _: filter.merge(other),
    "fold": lambda filter, _, __: filter.folded(factor=2),
    "estimate": lambda filter, _, __: filter.estimated_ndv,
}


@pytest.mark.parametrize("name", WORK)
def test_long_calls_release_the_interpreter_lock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a switch interval of an hour, another thread gets a turn only if the call releases the lock."""
    column, make_result, turns_at_result = numbers(0, 1_000_000), pa.array, list[int]()
    filter, other = ps.BloomFilter(num_bytes=1 << 25), ps.BloomFilter(num_bytes=1 << 25)
    turns = 0
    with Counter() as counter:
        # Count turns until the result is converted to a pyarrow array, because pyarrow releases the lock too.
        def record_turns(*args: Any) -> Any:
            turns_at_result.append(counter.turns)
            return make_result(*args)

        monkeypatch.setattr(pa, "array", record_turns)
        sys.setswitchinterval(3600)
        # Repeat the call, because a busy machine may not wake the other thread in time.
        end = time.monotonic() + 200
        while turns == 0 and time.monotonic() < end:
            array = WithCapsules(column)
            turns_at_result.clear()
            before = counter.turns
            WORK[name](filter, other, array)
            turns = [*turns_at_result, counter.turns][0] - before
        assert len(turns_at_result) == (name in ("check", "hash_column"))
    assert turns > 0


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="this Python has no GIL")
def test_the_counter_gets_no_turns_while_python_works() -> None:
    """This shows that the test above can fail. A pending switch may still cause a turn."""
    turns = []
    with Counter() as counter:
        sys.setswitchinterval(3600)
        for _ in range(5):
            before = counter.turns
            sum(range(1_000_000))
            turns.append(counter.turns - before)
    assert 0 in turns


def test_merging_two_filters_into_each_other_does_not_deadlock() -> None:
    first, second = filter_of(numbers(0, 1000)), filter_of(numbers(1000, 2000))

    def merge(into: ps.BloomFilter, other: ps.BloomFilter) -> Callable[[], None]:
        def job() -> None:
            for _ in range(2000):
                into.merge(other)

        return job

    def compare() -> None:
        for _ in range(2000):
            assert first == first
            _ = first == second, second == first, first | second, second | first

    run(merge(first, second), merge(second, first), compare)
    assert first == second == filter_of(numbers(0, 2000))


def test_a_ring_of_merges_does_not_deadlock() -> None:
    ring = [filter_of(numbers(100 * part, 100 * part + 100)) for part in range(5)]

    def merge(into: ps.BloomFilter, other: ps.BloomFilter) -> Callable[[], None]:
        def job() -> None:
            for _ in range(1000):
                into.merge(other)

        return job

    run(*(merge(into, other) for into, other in itertools.permutations(ring, 2)))
    assert all(each == filter_of(numbers(0, 500)) for each in ring)


def test_a_stream_may_use_the_filter_it_fills() -> None:
    filter = ps.BloomFilter(num_bytes=NUM_BYTES)
    other = filter_of(numbers(500, 600))
    seen = []

    def batches() -> Iterator[Any]:
        for start in range(0, 100, 10):
            yield pa.record_batch({"c": numbers(start, start + 10)})
            # Call every method that locks the filter, between two arrays of one insert.
            seen.append(filter.check(numbers(start, start + 10)).false_count)
            filter.insert(numbers(900 + start, 901 + start))
            filter.merge(other)
            assert start in filter
            with memoryview(filter) as view:
                assert len(view) == NUM_BYTES
            assert filter == ps.BloomFilter.from_bytes(filter.to_bytes())

    run(lambda: filter.insert(pa.RecordBatchReader.from_batches(pa.schema({"c": pa.int64()}), batches())))
    assert seen == [0] * 10
    assert filter.check(numbers(0, 100)).false_count == 0
    assert filter.check(numbers(500, 600)).false_count == 0


def test_a_stream_may_use_the_filter_that_checks_it() -> None:
    filter = filter_of(numbers(0, 100))

    def batches() -> Iterator[Any]:
        for start in range(0, 100, 10):
            filter.insert(numbers(0, 100))
            yield pa.record_batch({"c": numbers(start, start + 10)})

    answers: list[Any] = []
    run(
        lambda: answers.append(filter.check(pa.RecordBatchReader.from_batches(pa.schema({"c": pa.int64()}), batches())))
    )
    assert answers[0].true_count == 100


def test_streams_that_fill_the_filters_of_each_other_do_not_deadlock() -> None:
    first, second = ps.BloomFilter(num_bytes=NUM_BYTES), ps.BloomFilter(num_bytes=NUM_BYTES)

    def fill(ours: ps.BloomFilter, theirs: ps.BloomFilter) -> Callable[[], None]:
        def batches() -> Iterator[Any]:
            for start in range(0, 2000, 10):
                theirs.insert(numbers(start, start + 10))
                yield pa.record_batch({"c": numbers(start, start + 10)})

        return lambda: ours.insert(pa.RecordBatchReader.from_batches(pa.schema({"c": pa.int64()}), batches()))

    run(fill(first, second), fill(second, first))
    assert first == second == filter_of(numbers(0, 2000))


def test_arrays_may_run_python_when_they_are_dropped() -> None:
    """The call may drop the last reference to a buffer, whose owner then runs Python code that uses the filter."""
    filter, dropped = ps.BloomFilter(num_bytes=NUM_BYTES), []

    class Owner(bytearray):
        def __del__(self) -> None:
            dropped.append(filter.num_bytes)
            filter.insert(numbers(7, 8))

    def batches() -> Iterator[Any]:
        for _ in range(5):
            buffer = pa.py_buffer(Owner(np.arange(100, dtype=np.int64).tobytes()))
            yield pa.record_batch({"c": pa.Array.from_buffers(pa.int64(), 100, [None, buffer])})
            del buffer

    run(lambda: filter.insert(pa.RecordBatchReader.from_batches(pa.schema({"c": pa.int64()}), batches())))
    assert dropped == [NUM_BYTES] * 5
    assert filter == filter_of(numbers(0, 100))
