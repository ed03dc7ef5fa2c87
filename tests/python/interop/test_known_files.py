"""Check filters in files of apache/parquet-testing and arrow-rs for present and absent values."""

from pathlib import Path

import pyarrow as pa
import pytest

import parsieve as ps

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "parquet-testing"

# A filter that parquet-java wrote in Spark, from a test of arrow-rs.
FROM_JAVA = bytes.fromhex(
    "c8 01 50 14 40 44 08 6d 06 25 04 43 90 50 60 20 08 84 2b 21 00 05 63 41 02 00 e0 2c 40 4e 60 04"
)


def file(name: str) -> bytes:
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{name} of apache/parquet-testing is not on this machine ({FOLDER})")
    return path.read_bytes()


def check(filter: ps.BloomFilter, *, inside: list[str], outside: list[str]) -> None:
    for layout in (pa.string(), pa.string_view(), pa.large_binary()):
        column = pa.array([text.encode() for text in [*inside, *outside]], pa.binary()).cast(layout)
        assert filter.check(column).to_pylist() == [True] * len(inside) + [False] * len(outside)
    assert [text in filter for text in inside + outside] == [True] * len(inside) + [False] * len(outside)


def test_ten_strings_give_the_filter_of_parquet_java() -> None:
    strings = [f"a{number}" for number in range(10)]
    ours = ps.BloomFilter(num_bytes=32)
    ours.insert(pa.array(strings))
    assert bytes(memoryview(ours)) == FROM_JAVA
    check(ours, inside=strings, outside=["a10", "b0", ""])


def test_a_filter_of_parquet_mr_contains_its_values() -> None:
    filter = ps.BloomFilter.from_bytes(file("bloom_filter.xxhash.bin"))
    check(filter, inside=["hello", "parquet", "bloom", "filter"], outside=["Hello", "world", ""])
    ours = ps.BloomFilter(num_bytes=1024)
    ours.insert(pa.array(["hello", "parquet", "bloom", "filter"]))
    assert ours.to_bytes() == file("bloom_filter.xxhash.bin")


def test_a_filter_older_than_the_standard_raises() -> None:
    with pytest.raises(ps.ParsieveError, match="at byte"):
        ps.BloomFilter.from_bytes(file("bloom_filter.bin"))


@pytest.mark.parametrize(
    ("name", "offset", "num_bytes"),
    [
        ("data_index_bloom_encoding_stats.parquet", 192, 1024),
        ("data_index_bloom_encoding_with_length.parquet", 253, 2048),
    ],
)
def test_filters_inside_files_contain_their_values(name: str, offset: int, num_bytes: int) -> None:
    filter = ps.BloomFilter.from_bytes(file(name)[offset : offset + 16 + num_bytes])
    lines = "Hello,This is,a,test,How,are you,doing ,today,the quick,brown fox,jumps,over,the lazy,dog".split(",")
    check(filter, inside=lines, outside=["Hello_Not_Exists", "", "hello"])
    ours = ps.BloomFilter(num_bytes=num_bytes)
    ours.insert(pa.array(lines))
    assert ours == filter
