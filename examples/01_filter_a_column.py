"""Fill a Bloom filter from an Arrow column, probe it, and time both."""

import time
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import parsieve as ps

VALUES = 2_000_000


def nanoseconds_per_value(action: Callable[[], object]) -> float:
    """Best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best / VALUES * 1e9


def main() -> None:
    orders = pc.cast(pc.multiply(pc.random(VALUES, initializer=42), float(2**62)), pa.int64(), safe=False)
    absent = pc.negate(pc.add(orders, 1))

    # Sized by the exact model: the promised rate is kept, not just nearly.
    orders_filter = ps.BloomFilter(ndv=VALUES, fpp=0.01)
    orders_filter.insert(orders)
    print(orders_filter)

    answers = orders_filter.check(orders)
    assert answers.true_count == VALUES, "what was inserted may always be present"
    false_positives = orders_filter.check(absent).true_count / VALUES
    print(f"absent orders that seem present: {false_positives:.3%} (promised: at most 1 %)")
    assert false_positives < 0.01

    # The same filter as bytes of a Parquet file, and back.
    again = ps.BloomFilter.from_bytes(orders_filter.to_bytes(), type=orders.type)
    assert again == orders_filter
    print(f"one order: {again.might_contain(orders[0].as_py())}")

    # Filters of many parts merge, and fold to the size that their values need.
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
