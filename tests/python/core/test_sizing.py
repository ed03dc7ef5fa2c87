"""Sizes keep the requested false positive rate. Compare them with expected rates, an exact model and filled filters."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.models import oracle

import parsieve as ps

PROBES = 10_000_000
INSERTED = 2_200_000

# The values, the requested rate, the blocks by the simple formula, and the real rate of that size.
TABLE = [
    (10_000, 0.1, 256, 7.2e-2),
    (10_000, 0.01, 512, 3.5e-3),
    (10_000, 0.001, 1_024, 1.03e-4),
    (10_000, 0.0001, 1_024, 1.03e-4),
    (100_000, 0.1, 4_096, 1.02e-2),
    (100_000, 0.01, 4_096, 1.02e-2),
    (100_000, 0.001, 8_192, 3.3e-4),
    (100_000, 0.0001, 16_384, 8.9e-6),
    (100_000, 0.00001, 16_384, 8.9e-6),
    (1_000_000, 0.1, 32_768, 2.7e-2),
    (1_000_000, 0.01, 65_536, 1.03e-3),
    (1_000_000, 0.001, 65_536, 1.03e-3),
    (1_000_000, 0.0001, 131_072, 2.8e-5),
    (1_000_000, 0.00001, 131_072, 2.8e-5),
    (1_000_000, 0.000001, 262_144, 8.3e-7),
]


def exact_rate(num_blocks: int, ndv: int) -> float:
    """Return the exact rate of a filter, whose blocks have loads with a Poisson distribution."""
    mean = ndv / num_blocks
    spread = 20 * math.sqrt(mean) + 40
    loads = range(max(0, int(mean - spread)), int(mean + spread))
    weights = (math.exp(j * math.log(mean) - mean - math.lgamma(j + 1)) for j in loads)
    return math.fsum(weight * (1 - (31 / 32) ** j) ** 8 for j, weight in zip(loads, weights, strict=False))


def filled(num_bytes: int, values: Any) -> ps.BloomFilter:
    filter = ps.BloomFilter(num_bytes=num_bytes)
    filter.insert(values)
    return filter


def measured(filter: ps.BloomFilter, probes: Any) -> float:
    return float(filter.check(probes, threads=2).true_count / len(probes))


@pytest.fixture(scope="module")
def distinct_values() -> Any:
    """Return distinct integers for inserts and for probes. They are distinct because an odd factor is a bijection."""
    return pa.array(np.arange(INSERTED + PROBES, dtype=np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15))


@pytest.mark.parametrize(("ndv", "fpp", "simple", "real"), TABLE)
def test_optimal_sizes_are_the_smallest_that_keep_the_rate(ndv: int, fpp: float, simple: int, real: float) -> None:
    assert ps.optimal_num_bytes(ndv, fpp, model="simple") == 32 * simple
    assert ps.false_positive_rate(32 * simple, ndv) == pytest.approx(real, rel=0.05)
    for tight in (False, True):
        num_bytes = ps.optimal_num_bytes(ndv, fpp, tight=tight)
        assert exact_rate(num_bytes // 32, ndv) <= fpp
        assert ps.BloomFilter(ndv, fpp, tight=tight).num_bytes == num_bytes
        # The next smaller size exceeds the rate.
        smaller = num_bytes - 32 if tight else num_bytes // 2
        assert exact_rate(smaller // 32, ndv) > fpp
        assert tight or num_bytes & (num_bytes - 1) == 0
    assert ps.optimal_num_bytes(ndv, fpp, tight=True) <= ps.optimal_num_bytes(ndv, fpp)


@pytest.mark.parametrize("ndv", [1, 10, 1_000, 26_214, 10**6, 10**8])
@pytest.mark.parametrize("num_blocks", [1, 3, 1024, 2**20, 2**26 - 1])
def test_the_false_positive_rate_equals_the_exact_model(ndv: int, num_blocks: int) -> None:
    assert ps.false_positive_rate(32 * num_blocks, ndv) == pytest.approx(
        exact_rate(num_blocks, ndv), rel=1e-6, abs=1e-60
    )


def mean_rate(values: Any, count: int, ndv: int, make: Any) -> float:
    """Return the mean rate of `count` filters, because the rate of one depends on how evenly its blocks are filled."""
    num_probes = PROBES // count
    rates = []
    for number in range(count):
        filter = make()
        filter.insert(values.slice(number * ndv, ndv), threads=2)
        rates.append(measured(filter, values.slice(INSERTED + number * num_probes, num_probes)))
        # The filter estimates its own rate from its bits.
        tolerance = 5 * math.sqrt(rates[-1] / num_probes) + 1e-6
        assert filter.estimated_fpp == pytest.approx(rates[-1], rel=0.05, abs=tolerance)
        assert filter.estimated_ndv == pytest.approx(ndv, rel=0.02)
    return sum(rates) / count


@pytest.mark.parametrize("ndv", [10_000, 100_000, 1_000_000])
@pytest.mark.parametrize("fpp", [0.1, 0.01, 0.001])
def test_measured_rates_equal_the_requested_rate(distinct_values: Any, ndv: int, fpp: float) -> None:
    rate = mean_rate(distinct_values, min(100, INSERTED // ndv), ndv, lambda: ps.BloomFilter(ndv, fpp, tight=True))
    assert rate == pytest.approx(fpp, rel=0.02, abs=4 * math.sqrt(fpp / PROBES))


@pytest.mark.parametrize(
    ("ndv", "percent", "tolerance"), [(26_214, 1.26, 0.03), (52_428, 17.9, 0.1), (13_107, 0.042, 0.003)]
)
def test_measured_rates_of_1024_blocks_equal_the_expected_rates(
    distinct_values: Any, ndv: int, percent: float, tolerance: float
) -> None:
    rate = mean_rate(distinct_values, 40, ndv, lambda: ps.BloomFilter(num_bytes=32 * 1024))
    assert 100 * rate == pytest.approx(percent, abs=tolerance)
    assert 100 * ps.false_positive_rate(32 * 1024, ndv) == pytest.approx(percent, abs=tolerance)


def test_sizes_are_monotonic_and_limited() -> None:
    sizes = [ps.optimal_num_bytes(ndv, 0.01, tight=True) for ndv in range(0, 20_000, 97)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 32
    rates = [ps.false_positive_rate(32 * blocks, 1000) for blocks in range(1, 500)]
    assert rates == sorted(rates, reverse=True)
    assert ps.optimal_num_bytes(0) == ps.optimal_num_bytes(1) == 32
    assert ps.false_positive_rate(32, 0) == 0
    for ndv in (2**40, 2**63, 2**64 - 1):
        with pytest.raises(ValueError, match=rf"{ndv} values"):
            ps.optimal_num_bytes(ndv)
    with pytest.raises(ValueError, match="exact"):
        ps.optimal_num_bytes(10, model="perfect")


@pytest.mark.parametrize("num_bytes", [0, 33, 2**31])
def test_rates_of_impossible_sizes_raise(num_bytes: int) -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        ps.false_positive_rate(num_bytes, 10)


# Folding


def check_fold(num_blocks: int, factor: int, values: Any) -> None:
    """Check that a folded filter equals a filter that was built with the smaller size, bit for bit."""
    big, small = filled(32 * num_blocks, values), filled(32 * num_blocks // factor, values)
    folded = big.folded(factor=factor, tight=True)
    assert folded == small
    assert folded.num_blocks == num_blocks // factor
    assert big.num_blocks == num_blocks
    assert all(folded.check(values).to_pylist())
    big.fold(factor=factor, tight=True)
    assert big.to_bytes() == small.to_bytes()


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 7, 12, 45, 64, 97, 360, 2310])
def test_a_fold_by_every_divisor_equals_a_filter_built_small(num_blocks: int) -> None:
    values = pa.array(range(300), pa.int64())
    for factor in range(1, num_blocks + 1):
        if num_blocks % factor == 0:
            check_fold(num_blocks, factor, values)
        else:
            with pytest.raises(ValueError, match="must divide"):
                filled(32 * num_blocks, values).fold(factor=factor, tight=True)


@pytest.mark.parametrize("factor", [2, 3, 5, 9, 45, 2**7, 2**14])
def test_a_fold_of_a_big_filter_equals_a_filter_built_small(factor: int) -> None:
    check_fold(2**14 * 45, factor, pa.array(range(20_000), pa.int64()))


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("fpp", [0.5, 0.1, 0.01, 0.0001])
def test_folds_go_as_far_as_the_rate_allows(distinct_values: Any, fpp: float, tight: bool) -> None:
    filter = filled(32 * 2**14 * 45, distinct_values.slice(0, 20_000))
    folded = filter.folded(fpp, tight=tight)
    assert 0 < folded.estimated_fpp <= fpp
    assert measured(folded, distinct_values.slice(INSERTED, 1_000_000)) <= fpp * 1.05 + 4 * math.sqrt(fpp / 1_000_000)
    factor = filter.num_blocks // folded.num_blocks
    assert tight or factor & (factor - 1) == 0
    # One more fold exceeds the rate.
    further = [step for step in (2, 3, 5) if folded.num_blocks % step == 0] if tight else [2]
    for step in further:
        if folded.num_blocks % step == 0:
            assert folded.folded(factor=step, tight=True).estimated_fpp > fpp


def test_impossible_folds_raise() -> None:
    filter = ps.BloomFilter(num_bytes=32 * 12)
    for factor in (0, 5, 8, 24, 2**63):
        with pytest.raises(ValueError, match="12 blocks cannot be folded"):
            filter.fold(factor=factor, tight=True)
    with pytest.raises(ValueError, match="tight=True"):
        filter.fold(factor=3)
    for fpp in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            filter.fold(fpp)
    assert filter.num_blocks == 12


def test_estimates_of_empty_and_full_filters() -> None:
    empty = ps.BloomFilter(num_bytes=64)
    assert (empty.estimated_fpp, empty.estimated_ndv) == (0, 0)
    full = ps.BloomFilter.from_bytes(oracle.header(64) + b"\xff" * 64)
    assert (full.estimated_fpp, full.estimated_ndv) == (1, math.inf)
    assert full.check(pa.array(["a"])).to_pylist() == [True]
    assert "inf" in repr(full)
