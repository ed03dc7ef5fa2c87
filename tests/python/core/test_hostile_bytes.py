"""Invalid bytes raise a typed error with the position, and wrong sizes in headers do not allocate memory."""

import subprocess
import sys
import tracemalloc

import pyarrow as pa
import pytest
from support.models import oracle

import parsieve as ps

SIZE = bytes.fromhex("1540")  # field 1, i32: 32 bytes
ALGORITHM = HASH = COMPRESSION = bytes.fromhex("1c1c0000")  # next field, structure: a union with its first member
HEADER = SIZE + ALGORITHM + HASH + COMPRESSION + b"\x00"
BITSET = bytes(range(32))


def varint(number: int) -> bytes:
    return bytes([number % 128 + 128]) + varint(number // 128) if number >= 128 else bytes([number])


def check(data: bytes, error: type[Exception], *words: str) -> None:
    with pytest.raises(error) as caught:
        ps.BloomFilter.from_bytes(data)
    message = str(caught.value)
    assert "at byte" in message
    assert int(message.rpartition("at byte ")[2].rstrip(")")) <= len(data)
    assert all(word in message for word in words), message


def test_the_unchanged_bytes_are_valid() -> None:
    assert bytes(memoryview(ps.BloomFilter.from_bytes(HEADER + BITSET))) == BITSET


@pytest.mark.parametrize("num_blocks", [1, 33, 2**15])
def test_every_prefix_raises(num_blocks: int) -> None:
    data = oracle.header(32 * num_blocks) + bytes(32 * num_blocks)
    for end in [*range(100), *range(100, len(data), 9973), len(data) - 1]:
        if end < len(data):
            check(data[:end], ps.FormatError)


def test_every_flipped_bit_of_the_header_raises_or_changes_nothing() -> None:
    same = 0
    for position in range(len(HEADER)):
        for bit in range(8):
            data = bytearray(HEADER + BITSET)
            data[position] ^= 1 << bit
            try:
                filter = ps.BloomFilter.from_bytes(bytes(data))
            except ps.ParsieveError:
                continue
            # Thrift allows a few other bits in an empty structure. They never change the bitset.
            assert bytes(memoryview(filter)) == BITSET, f"bit {bit} of byte {position}"
            same += 1
    assert same < 12


def test_every_value_of_every_header_byte_is_safe() -> None:
    for position in range(len(HEADER)):
        for value in range(256):
            data = HEADER[:position] + bytes([value]) + HEADER[position + 1 :] + BITSET
            try:
                filter = ps.BloomFilter.from_bytes(data)
            except ps.ParsieveError as error:
                assert "at byte" in str(error)  # noqa: PT017  (most bytes raise an error, which must contain the position)
            else:
                assert bytes(memoryview(filter)) == BITSET


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (SIZE + bytes.fromhex("1c2c0000") + HASH + COMPRESSION + b"\0", ["BloomFilterAlgorithm", "member 2"]),
        (SIZE + ALGORITHM + bytes.fromhex("1c2c0000") + COMPRESSION + b"\0", ["BloomFilterHash", "member 2"]),
        (SIZE + ALGORITHM + HASH + bytes.fromhex("1c2c0000") + b"\0", ["BloomFilterCompression", "member 2"]),
        (SIZE + ALGORITHM + HASH + bytes.fromhex("1cfc0000") + b"\0", ["BloomFilterCompression", "member 15"]),
        (SIZE + bytes.fromhex("1c1c001c0000") + HASH + COMPRESSION + b"\0", ["BloomFilterAlgorithm", "member 2"]),
        (SIZE + bytes.fromhex("1c00") + HASH + COMPRESSION + b"\0", ["BloomFilterAlgorithm", "no member"]),
    ],
)
def test_unknown_union_members_raise(data: bytes, words: list[str]) -> None:
    check(data + BITSET, ps.UnsupportedError, *words)


@pytest.mark.parametrize("claim", [0, 1, 31, 33, 48, 1000, -1, -32, -(2**31), 2**31 - 1, 2**31 - 31])
def test_impossible_sizes_raise(claim: int) -> None:
    zigzag = 2 * claim if claim >= 0 else -2 * claim - 1
    check(b"\x15" + varint(zigzag) + HEADER[2:] + BITSET, ps.FormatError, str(claim), "multiple of 32")


@pytest.mark.parametrize("claim", [64, 2**20, 2**30, 2**31 - 32])
def test_sizes_beyond_the_input_raise(claim: int) -> None:
    check(oracle.header(claim) + BITSET, ps.FormatError, f"{claim} bytes", "32 bytes follow")


@pytest.mark.parametrize("more", [b"\0", bytes(32), HEADER + BITSET])
def test_trailing_bytes_raise(more: bytes) -> None:
    check(HEADER + BITSET + more, ps.FormatError, f"{len(more)} bytes follow", "at byte 47")


@pytest.mark.parametrize("missing", range(4))
def test_missing_fields_raise(missing: int) -> None:
    parts = [(1, b"\x15", b"\x40"), *[(field, b"\x1c", bytes.fromhex("1c0000")) for field in (2, 3, 4)]]
    data, last = b"", 0
    for field, kind, value in parts:
        if field != missing + 1:
            data, last = data + bytes([(field - last) << 4 | kind[0] & 15]) + value, field
    name = ["numBytes", "algorithm", "hash", "compression"][missing]
    check(data + b"\0" + BITSET, ps.FormatError, "missing", name)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x40" + HEADER[2:],  # numBytes as i64
        b"\x15" + b"\xff" * 12 + HEADER[2:],  # a varint without end
        b"\x15" + varint(2**40) + HEADER[2:],  # out of range
        SIZE + b"\x15\x02" + HEADER[6:],  # a number where a union belongs
        b"\x1d\x40" + HEADER[2:],  # type 13 does not exist
        b"\x1f\x40" + HEADER[2:],
        b"\x05" + varint(2**20) + b"\x40" + HEADER[2:],  # a field id out of range
    ],
    ids=bytes.hex,
)
def test_invalid_thrift_raises(data: bytes) -> None:
    check(data + BITSET, ps.FormatError)


UNKNOWN_FIELDS = {
    "bool": "11",
    "byte": "137f",
    "i16": "14ff01",
    "i64": "16ffffffffffffffffff01",
    "double": "170000000000000000",
    "binary": "18036e6577",
    "list": "1935020406",
    "list of lists": "1929150215040506"[:12] + "02",
    "set": "1a250204",
    "map": "1b02550204060 8".replace(" ", ""),
    "empty map": "1b00",
    "structure": "1c15020000"[:8],
    "far field": "05a60102",
}


@pytest.mark.parametrize(
    "field",
    ["bool", "byte", "i16", "i64", "double", "binary", "list", "set", "map", "empty map", "structure", "far field"],
)
def test_unknown_fields_are_skipped(field: str) -> None:
    data = HEADER[:-1] + bytes.fromhex(UNKNOWN_FIELDS[field]) + b"\0" + BITSET
    assert bytes(memoryview(ps.BloomFilter.from_bytes(data))) == BITSET


@pytest.mark.parametrize("depth", [100, 10_000, 1_000_000])
@pytest.mark.parametrize(
    "level", [b"\x1c", b"\x19\x1c", b"\x19\x19"], ids=["structures", "lists of structures", "lists"]
)
def test_deep_thrift_raises(level: bytes, depth: int) -> None:
    check(HEADER[:-1] + level * depth + BITSET, ps.FormatError)
    # Test a union member too, since future versions may add fields to it.
    check(SIZE + b"\x1c\x1c" + level * depth + BITSET, ps.FormatError)


@pytest.mark.parametrize("head", ["19f5", "19fc", "1af8", "19f1"])
@pytest.mark.parametrize("count", [1000, 2**31 - 1])
def test_huge_containers_raise(head: str, count: int) -> None:
    check(HEADER[:-1] + bytes.fromhex(head) + varint(count) + b"\0" + BITSET, ps.FormatError)


def test_huge_strings_and_maps_raise() -> None:
    for count in (1000, 2**31 - 1, 2**63):
        check(HEADER[:-1] + b"\x18" + varint(count) + b"\0" + BITSET, ps.FormatError)
        check(HEADER[:-1] + b"\x1b" + varint(count) + b"\x55" + BITSET, ps.FormatError)


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"\0" * 100, b"\xff" * 100, b"\x15" * 100, b"\x1c" * 100], ids=bytes.hex
)
def test_other_bytes_raise(data: bytes) -> None:
    check(data, ps.ParsieveError)


def test_the_format_before_the_standard_raises() -> None:
    check((1024).to_bytes(4, "little") + bytes(8) + bytes(1024), ps.FormatError)


MEMORY_PROGRAM = """
import sys
import parsieve as ps

def peak():
    # On Linux, getrusage includes the memory of the parent process at the fork.
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

before = peak()
for data in eval(sys.stdin.read()):
    for _ in range(3):
        try:
            ps.BloomFilter.from_bytes(data)
        except ps.ParsieveError:
            pass
        else:
            raise SystemExit("accepted")
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_wrong_sizes_do_not_allocate_memory() -> None:
    inputs = [
        oracle.header(2**31 - 32) + BITSET,
        HEADER[:-1] + b"\x18" + varint(2**31 - 1),
        HEADER[:-1] + b"\x19\xf8" + varint(2**31 - 1) + BITSET,
        HEADER[:-1] + b"\x1b" + varint(2**31 - 1) + b"\x88" + BITSET,
    ]
    command = [sys.executable, "-c", MEMORY_PROGRAM]
    answer = subprocess.run(command, input=repr(inputs), capture_output=True, text=True, check=False, timeout=500)
    assert answer.returncode == 0, answer.stderr + answer.stdout
    assert int(answer.stdout) < 16 * 1024, "KiB more than before"


def test_rejected_inputs_leak_no_memory() -> None:
    truncated = oracle.header(2**20) + bytes(2**20 - 1)
    tracemalloc.start()
    try:
        for _ in range(50):
            with pytest.raises(ps.FormatError):
                ps.BloomFilter.from_bytes(truncated)
        assert tracemalloc.get_traced_memory()[0] < 2**20
    finally:
        tracemalloc.stop()


def test_sizes_need_not_be_powers_of_two() -> None:
    filter = ps.BloomFilter.from_bytes(oracle.header(96) + bytes(96))
    filter.insert(pa.array(["x"]))
    assert bytes(memoryview(filter)) == oracle.bitset(oracle.hashes_of(pa.string(), [b"x"]), 3)
