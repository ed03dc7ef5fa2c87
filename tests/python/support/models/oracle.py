"""An independent model of Parquet's Bloom filters, and columns with known stored values. The model is slow and simple.

A *raw* is a value as Arrow stores it: an integer (ticks, days, unscaled decimals), the bits of a float, or bytes. Tests
draw raws, make columns of them, and know every hash without reading the column back.
"""

import random
import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

Raw = int | bytes | None
Type = Any
Array = Any

SALT = np.array(
    [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31], np.uint32
)
DAY = 86_400_000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
JULIAN_DAY_OF_1970 = 2_440_588

NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
TIMES = [
    *[pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")],
    *[pa.timestamp(unit) for unit in PER_SECOND],
    *[pa.timestamp(unit, "UTC") for unit in PER_SECOND],
    pa.timestamp("us", "Europe/Berlin"),
    *[pa.duration(unit) for unit in PER_SECOND],
]
DECIMALS = [
    *[pa.decimal32(1, 0), pa.decimal32(5, 2), pa.decimal32(9, 9)],
    *[pa.decimal64(10, 2), pa.decimal64(18, 3)],
    *[pa.decimal128(precision, 2) for precision in range(2, 39)],
    *[pa.decimal256(4, 2), pa.decimal256(39, 0), pa.decimal256(76, 38)],
]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1), pa.binary(12), pa.binary(16), pa.binary(33)]
TYPES: list[Type] = [*NUMBERS, *FLOATS, *TIMES, *DECIMALS, *TEXTS, *BYTES]


def name(data_type: Type) -> str:
    """Return a test id for a type."""
    return re.sub(r"[\[\](), =/]+", "_", str(data_type)).strip("_")


def is_bytes(data_type: Type) -> bool:
    return data_type in TEXTS or data_type in BYTES or pa.types.is_fixed_size_binary(data_type)


def is_text(data_type: Type) -> bool:
    return data_type in TEXTS


def is_signed(data_type: Type) -> bool:
    return not pa.types.is_unsigned_integer(data_type) and not pa.types.is_floating(data_type)


# Plain encodings


def ticks(raw: int, unit: str, to: str) -> int:
    """Convert ticks to another unit. The result must be a whole number."""
    ticks, rest = divmod(raw * PER_SECOND[to], PER_SECOND[unit])
    assert rest == 0, "the test converts a value that no writer stores"
    return ticks


def decimal_width(precision: int) -> int:
    """Return the smallest number of bytes of two's complement for numbers with `precision` digits."""
    return next(width for width in range(1, 33) if 10**precision - 1 < 2 ** (8 * width - 1))


def default_physical(data_type: Type) -> str:
    """Return the physical type in which pyarrow writes an Arrow type."""
    if pa.types.is_decimal(data_type):
        return f"FIXED_LEN_BYTE_ARRAY({decimal_width(data_type.precision)})"
    if pa.types.is_fixed_size_binary(data_type):
        return f"FIXED_LEN_BYTE_ARRAY({data_type.byte_width})"
    if is_bytes(data_type):
        return "BYTE_ARRAY"
    if data_type in FLOATS:
        return {16: "FIXED_LEN_BYTE_ARRAY(2)", 32: "FLOAT", 64: "DOUBLE"}[data_type.bit_width]
    return "INT32" if data_type.bit_width <= 32 or pa.types.is_date64(data_type) else "INT64"


def plain(data_type: Type, raw: int | bytes, physical: str | None = None) -> bytes:
    """Return the plain encoding of a value, without the length of a BYTE_ARRAY."""
    physical = physical or default_physical(data_type)
    if isinstance(raw, bytes):
        return raw
    if data_type in FLOATS:
        return struct.pack({16: "<H", 32: "<I", 64: "<Q"}[data_type.bit_width], raw)
    if physical == "INT96":
        day, nanoseconds = divmod(ticks(raw, data_type.unit, "ns"), DAY * 10**6)
        return struct.pack("<QI", nanoseconds, day + JULIAN_DAY_OF_1970)
    if pa.types.is_date64(data_type) and physical == "INT32":
        raw, rest = divmod(raw, DAY)
        assert rest == 0
    elif (pa.types.is_timestamp(data_type) or pa.types.is_time(data_type)) and data_type.unit == "s":
        raw = ticks(raw, "s", "ms")
    if physical in ("INT32", "INT64"):
        code = {"INT32": "i", "INT64": "q"}[physical]
        return struct.pack("<" + (code if is_signed(data_type) else code.upper()), raw)
    if physical == "BYTE_ARRAY":
        return raw.to_bytes((raw if raw >= 0 else ~raw).bit_length() // 8 + 1, "big", signed=True)
    (width,) = re.findall(r"\d+", physical)
    return raw.to_bytes(int(width), "big", signed=True)


def hash_of(data_type: Type, raw: Raw, physical: str | None = None) -> int | None:
    return None if raw is None else xxhash.xxh64_intdigest(plain(data_type, raw, physical), seed=0)


def hashes_of(data_type: Type, raws: Iterable[Raw], physical: str | None = None) -> list[int | None]:
    return [hash_of(data_type, raw, physical) for raw in raws]


# The filter


def masks(hashes: Any) -> Any:
    low = (hashes & np.uint64(0xFFFF_FFFF)).astype(np.uint32)
    return np.uint32(1) << ((low[:, None] * SALT) >> np.uint32(27))


def blocks_of(hashes: Any, num_blocks: int) -> Any:
    return ((hashes >> np.uint64(32)) * np.uint64(num_blocks)) >> np.uint64(32)


def bitset(hashes: Iterable[int | None], num_blocks: int) -> bytes:
    """Return the bitset of a filter with these hashes."""
    present = np.array([hash for hash in hashes if hash is not None], np.uint64)
    words = np.zeros((num_blocks, 8), np.uint32)
    np.bitwise_or.at(words, blocks_of(present, num_blocks), masks(present))
    return words.astype("<u4").tobytes()


def may_contain(bitset: bytes, hashes: Sequence[int]) -> list[bool]:
    words = np.frombuffer(bitset, "<u4").reshape(-1, 8)
    probes = np.array(hashes, np.uint64)
    return [bool(hit) for hit in ((words[blocks_of(probes, len(words))] & masks(probes)) != 0).all(axis=1)]


def header(num_bytes: int) -> bytes:
    """Return the Thrift header: numBytes as a zigzag varint, then three unions with their first member."""
    varint, rest = b"", num_bytes * 2
    while rest >= 128:
        varint, rest = varint + bytes([rest % 128 + 128]), rest // 128
    return b"\x15" + varint + bytes([rest]) + bytes.fromhex("1c1c0000") * 3 + b"\x00"


# Columns


def array_of(data_type: Type, raws: Sequence[Raw]) -> Array:
    """Return a column of raws. Null slots of fixed width are all ones, to reveal code that reads them as values."""
    if is_bytes(data_type):
        return pa.array(
            [raw.decode() if is_text(data_type) and isinstance(raw, bytes) else raw for raw in raws], data_type
        )
    width = data_type.bit_width // 8
    values = b"".join(
        b"\xff" * width if raw is None else int(raw).to_bytes(width, "little", signed=is_signed(data_type))
        for raw in raws
    )
    valid = np.packbits([raw is not None for raw in raws], bitorder="little").tobytes() if None in raws else None
    buffers = [valid and pa.py_buffer(valid), pa.py_buffer(values)]
    return pa.Array.from_buffers(data_type, len(raws), buffers)


def limits(data_type: Type) -> tuple[int, int]:
    """Return the smallest and the largest raw that writers accept, for date64 in days."""
    if pa.types.is_decimal(data_type):
        largest = 10**data_type.precision - 1
        return -largest, largest
    if pa.types.is_time(data_type):
        return 0, 86_400 * PER_SECOND[data_type.unit] - 1
    bits = data_type.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed(data_type) else (0, 2**bits - 1)
    if pa.types.is_date64(data_type):
        return -(2**31), 2**31 - 1  # in days
    if pa.types.is_timestamp(data_type) and data_type.unit == "s":
        return -(2**63 // 1000), 2**63 // 1000
    return low, high


def raw_of(data_type: Type, number: int) -> int:
    """Return the raw for a number within the limits."""
    return number * DAY if pa.types.is_date64(data_type) else number


def edges(data_type: Type) -> list[Raw]:
    """Return edge cases: the ends of the range, zero and its neighbors, both zeros, NaNs, empty strings."""
    if data_type in FLOATS:
        bits = data_type.bit_width
        sign, infinity = 1 << (bits - 1), {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}[bits]
        return [
            0,
            sign,
            1,
            sign | 1,
            infinity,
            infinity | sign,
            infinity | 1,
            infinity | sign | (infinity >> 5),
            infinity - 1,
        ]
    if pa.types.is_fixed_size_binary(data_type) and not pa.types.is_decimal(data_type):
        return [bytes([byte]) * data_type.byte_width for byte in (0, 1, 0x7F, 0x80, 0xFF)]
    if is_bytes(data_type):
        # Every length up to 100: hashing has special code for 1, 4, 8 and 32 bytes, and string views for 12 bytes.
        return [*((b"parsieve" * 13)[:length] for length in range(100)), "grüße, 世界".encode()]
    low, high = limits(data_type)
    return [raw_of(data_type, number) for number in sorted({low, low + 1, max(low, -1), 0, 1, high - 1, high})]


def raws(data_type: Type, count: int, seed: int = 0) -> list[Raw]:
    """Return the edges and random values with some nulls. The result depends only on the arguments."""
    source = random.Random(f"{data_type} {seed}")

    def draw() -> Raw:
        if source.random() < 0.1:
            return None
        if data_type in FLOATS:
            return source.getrandbits(data_type.bit_width)
        if pa.types.is_fixed_size_binary(data_type) and not pa.types.is_decimal(data_type):
            return source.randbytes(data_type.byte_width)
        if is_bytes(data_type):
            return "".join(source.choices("abcdeé世\0", k=source.randrange(40))).encode()
        low, high = limits(data_type)
        return raw_of(data_type, source.randint(low, high))

    return [*edges(data_type), *(draw() for _ in range(count))]
