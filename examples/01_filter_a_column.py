"""Fill a Bloom filter from an Arrow column, probe it, and time both."""

import time
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import parsieve as ps

VALUES = 2_000_000


def nanoseconds_per_value(action: Callable[[], object]) -> float:
    """Return the best of three runs."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best / VALUES * 1e9


def main() -> None:
    orders = pc.cast(pc.multiply(pc.random(VALUES, initializer=42), float(2**62)), pa.int64(), safe=False)
    missing = pc.negate(pc.add(orders, 1))

    # The filter is large enough to keep the requested rate exactly, not only approximately.
    orders_filter = ps.BloomFilter(ndv=VALUES, fpp=0.01)
    orders_filter.insert(orders)
    print(orders_filter)

    answers = orders_filter.check(orders)
    assert answers.true_count == VALUES, "a filter contains every inserted value"
    false_positives = orders_filter.check(missing).true_count / VALUES
    print(f"false positives: {false_positives:.3%} (requested: at most 1 %)")
    assert false_positives < 0.01

    # Write the filter as the bytes of a Parquet file, and read it again.
    loaded = ps.BloomFilter.from_bytes(orders_filter.to_bytes(), type=orders.type)
    assert loaded == orders_filter
    print(f"one order: {loaded.might_contain(orders[0].as_py())}")

    # Merge the filters of two parts, and fold a filter that is too large.
    north, south = (ps.BloomFilter(num_bytes=orders_filter.num_bytes) for _ in range(2))
    north.insert(orders[: VALUES // 2])
    south.insert(orders[VALUES // 2 :])
    assert north | south == orders_filter

    big = ps.BloomFilter(num_bytes=64 << 20)
    big.insert(orders)
    big.fold(fpp=0.01)
    print(f"64 MiB folded to {big.num_bytes >> 20} MiB at an estimated rate of {big.estimated_fpp:.3%}")
    assert big == orders_filter

    print()
    print(f"{'instruction set':<18}{'insert ns/value':>18}{'check ns/value':>18}")
    for instruction_set in ps.instruction_sets():
        insert = nanoseconds_per_value(partial(orders_filter.insert, orders, instruction_set=instruction_set))
        check = nanoseconds_per_value(partial(orders_filter.check, orders, instruction_set=instruction_set))
        print(f"{instruction_set:<18}{insert:>18.2f}{check:>18.2f}")


if __name__ == "__main__":
    main()
