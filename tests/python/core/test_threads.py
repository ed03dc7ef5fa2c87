"""Threads may share a filter: nothing is lost, nothing waits for ever, the interpreter is free meanwhile.

Nothing here asserts a time; a deadlock is a thread that has not ended after minutes.
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

import parsieve as ps

NUM_BYTES = 32 << 12


def run(*jobs: Callable[[], Any], seconds: float = 500) -> None:
    """Runs jobs side by side; their errors are ours. The threads are daemons, so that a deadlock ends too."""
    barrier, errors = threading.Barrier(len(jobs)), list[BaseException]()

    def start(job: Callable[[], Any]) -> None:
        barrier.wait(seconds)
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    if errors:
        raise errors[0]


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Makes the interpreter change threads as often as it can."""
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
def test_inserts_side_by_side_lose_nothing(num_threads: int) -> None:
    shared, each = ps.BloomFilter(num_bytes=NUM_BYTES), 20_000

    def insert(number: int) -> Callable[[], None]:
        def job() -> None:
            for start in range(number * each, (number + 1) * each, 500):
                shared.insert(numbers(start, start + 500))

        return job

    run(*(insert(number) for number in range(num_threads)))
    assert shared == filter_of(numbers(0, num_threads * each))


def test_inserts_of_big_columns_side_by_side() -> None:
    shared = ps.BloomFilter(num_bytes=NUM_BYTES)
    run(
        *(
            lambda part=part: shared.insert(numbers(part, part + 400_000), threads=2)
            for part in range(0, 1_600_000, 400_000)
        )
    )
    assert shared == filter_of(numbers(0, 1_600_000))


def test_reads_during_writes_are_never_wrong() -> None:
    """What was inserted before a read is found by it, whatever else goes on."""
    shared, done = ps.BloomFilter(num_bytes=NUM_BYTES), 0

    def write() -> None:
        nonlocal done
        for start in range(0, 200_000, 1000):
            shared.insert(numbers(start, start + 1000))
            done = start + 1000

    def read() -> None:
        while done < 200_000:
            known = done
            assert shared.check(numbers(max(0, known - 5000), known)).false_count == 0
            assert shared.num_bytes == NUM_BYTES
            assert shared.estimated_ndv >= 0
            assert len(repr(shared)) > 20
            assert ps.BloomFilter.from_bytes(shared.to_bytes()).num_bytes == NUM_BYTES

    run(write, read, read)
    assert shared == filter_of(numbers(0, 200_000))


def test_exports_during_writes() -> None:
    """A view never changes under its owner; a writer is refused meanwhile and may try again."""
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


def test_threads_of_one_call_make_the_same_bits() -> None:
    column = pa.chunked_array([numbers(0, 700_000), pa.nulls(10, pa.int64()), numbers(700_000, 1_500_001)])
    expected, probes = filter_of(column), numbers(1_000_000, 2_500_000)
    answers = expected.check(probes)
    for threads in (1, 2, 3, 7, 64):
        filter = ps.BloomFilter(num_bytes=NUM_BYTES)
        filter.insert(column, threads=threads)
        assert filter == expected
        assert filter.check(probes, threads=threads).equals(answers)


class Counter:
    """A thread that counts its turns. It rests after each, so whoever has work to do gets the interpreter back."""

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


class Handed:
    """An array whose capsules are made beforehand, since pyarrow lets go of the interpreter when it makes them."""

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
def test_the_interpreter_is_released(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is made to switch for an hour, so another thread gets a turn only while we let go of the interpreter."""
    column, make_result, turns_at_result = numbers(0, 1_000_000), pa.array, list[int]()
    filter, other = ps.BloomFilter(num_bytes=1 << 25), ps.BloomFilter(num_bytes=1 << 25)
    turns = 0
    with Counter() as counter:
        # Results become pyarrow's, and that lets go too: turns are counted up to there.
        def noting_turns(*args: Any) -> Any:
            turns_at_result.append(counter.turns)
            return make_result(*args)

        monkeypatch.setattr(pa, "array", noting_turns)
        sys.setswitchinterval(3600)
        # A busy machine may not wake the other thread in the moment that we give it: as often as it takes.
        end = time.monotonic() + 200
        while turns == 0 and time.monotonic() < end:
            handed = Handed(column)
            turns_at_result.clear()
            before = counter.turns
            WORK[name](filter, other, handed)
            turns = [*turns_at_result, counter.turns][0] - before
        assert len(turns_at_result) == (name in ("check", "hash_column"))
    assert turns > 0


def test_the_counter_gets_no_turns_while_python_works() -> None:
    """Else the test above could not fail. (A switch that was asked for before may still come once.)"""
    turns = []
    with Counter() as counter:
        sys.setswitchinterval(3600)
        for _ in range(5):
            before = counter.turns
            sum(range(1_000_000))
            turns.append(counter.turns - before)
    assert 0 in turns


def test_merging_each_into_the_other_ends() -> None:
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


def test_a_ring_of_merges_ends() -> None:
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
            # Everything that takes the filter's lock, between two arrays of one insert.
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


def test_a_stream_may_use_the_filter_that_answers_for_it() -> None:
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


def test_streams_that_fill_each_others_filters_end() -> None:
    first, second = ps.BloomFilter(num_bytes=NUM_BYTES), ps.BloomFilter(num_bytes=NUM_BYTES)

    def fill(ours: ps.BloomFilter, theirs: ps.BloomFilter) -> Callable[[], None]:
        def batches() -> Iterator[Any]:
            for start in range(0, 2000, 10):
                theirs.insert(numbers(start, start + 10))
                yield pa.record_batch({"c": numbers(start, start + 10)})

        return lambda: ours.insert(pa.RecordBatchReader.from_batches(pa.schema({"c": pa.int64()}), batches()))

    run(fill(first, second), fill(second, first))
    assert first == second == filter_of(numbers(0, 2000))


def test_arrays_that_run_python_when_they_are_dropped() -> None:
    """The last reference to a buffer may be ours; its owner then runs Python, and even uses the filter."""
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
