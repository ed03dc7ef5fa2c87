"""Invalid arguments raise a clear error before anything changes."""

import decimal
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

INTEGERS = pa.array([1, 2, 3])


@pytest.mark.parametrize("fpp", [0.0, 1.0, -1.0, 2.0, float("nan")])
def test_a_rate_is_checked_even_if_it_is_not_used(fpp: float) -> None:
    for size in ({"ndv": 100}, {"num_bytes": 32}):
        with pytest.raises(ValueError, match="fpp must be between 0 and 1"):
            ps.BloomFilter(fpp=fpp, **size)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["100", 1.5])
def test_sizes_must_be_integers(size: Any) -> None:
    with pytest.raises(TypeError, match=f"ndv must be an integer, not {size!r}"):
        ps.BloomFilter(ndv=size)
    with pytest.raises(TypeError, match=f"num_bytes must be an integer, not {size!r}"):
        ps.BloomFilter(num_bytes=size)


@pytest.mark.parametrize("threads", [0, -1, -(2**40)])
def test_less_than_one_thread_raises(threads: int) -> None:
    filter = ps.BloomFilter(ndv=10)
    for call in (filter.insert, filter.check):
        with pytest.raises(ValueError, match="threads"):
            call(INTEGERS, threads=threads)
    for function in (ps.add_filters, ps.check_filters):
        with pytest.raises(ValueError, match="threads"):
            function("nobody.parquet", threads=threads)


@pytest.mark.parametrize("factor", [-1, -(2**70), 2**64])
def test_invalid_factors_raise(factor: int) -> None:
    filter = ps.BloomFilter(num_bytes=1024)
    for call in (filter.fold, filter.folded):
        with pytest.raises(ValueError, match="factor"):
            call(factor=factor)


def test_might_contain_requires_a_dict_of_columns() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": INTEGERS}), file)
    for values in ([5], 5, "id", None):
        with pytest.raises(TypeError, match="values must be a dict"):
            ps.open_filters(file).might_contain(values)  # type: ignore[arg-type]


def stored(column: pa.Array, **options: Any) -> bytes:
    filter = ps.BloomFilter(ndv=10, **options)
    filter.insert(column)
    return filter.to_bytes()


def test_a_filter_of_unknown_type_does_not_guess_the_type_of_numbers() -> None:
    unknown = ps.BloomFilter.from_bytes(stored(INTEGERS))
    for column in (
        INTEGERS,
        pa.array([1.5]),
        pa.array([decimal.Decimal("1.5")]),
        pa.array([[1]]),
        INTEGERS.dictionary_encode(),
    ):
        with pytest.raises(TypeError, match="depends on the column's type"):
            unknown.check(column)
    assert ps.BloomFilter.from_bytes(stored(INTEGERS), type=pa.int64()).check(INTEGERS).to_pylist() == [True] * 3
    texts = pa.array(["a", None, "b"])
    text = ps.BloomFilter.from_bytes(stored(texts))
    for column in (texts, texts.dictionary_encode(), texts.cast(pa.large_binary())):
        assert text.check(column).to_pylist() == [True, None, True]
    fresh = ps.BloomFilter.from_bytes(ps.BloomFilter(ndv=10).to_bytes())
    fresh.insert(INTEGERS)
    assert fresh.physical_type == "INT64"


def test_a_decimal_from_bytes_needs_its_physical_type() -> None:
    prices = pa.array([decimal.Decimal("1.50")], pa.decimal128(9, 2))
    data = stored(prices, type=prices.type, physical_type="INT32")
    with pytest.raises(ValueError, match="physical_type"):
        ps.BloomFilter.from_bytes(data, type=prices.type)
    assert ps.BloomFilter.from_bytes(data, type=prices.type, physical_type="INT32").check(prices).to_pylist() == [True]
