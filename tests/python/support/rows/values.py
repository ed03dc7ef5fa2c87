"""Random arrays of every type that Parquet files can hold, with edge cases and nulls at each level."""

from __future__ import annotations

import random
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

ZONES = ("UTC", "Europe/Madrid", "+02:00")
UNITS = ("s", "ms", "us", "ns")
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Nanoseconds in 64 bits reach from 1677 to 2262. Most values are inside, so that each writer can store them.
FIRST_SECOND, LAST_SECOND = -9_000_000_000, 9_000_000_000
WORDS = ("", "a", "ab", "abc", "b", "it's", "é", "😀", "a%", "a_", "\\", 'q"q', "a\0b", "x" * 70, "naïve", "Z")


class Money(pa.ExtensionType):  # type: ignore[misc]
    """An extension type that is never registered, so that pyarrow reads its storage and metadata."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "parsieve.tests.money")

    def __hash__(self) -> int:
        return hash(self.extension_name)

    def __arrow_ext_serialize__(self) -> bytes:
        return b"EUR"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Money:
        return cls()


def _flat_types() -> dict[str, pa.DataType]:
    kinds: list[pa.DataType] = [pa.bool_(), pa.null(), pa.date32(), pa.date64()]
    kinds += [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
    kinds += [pa.float16(), pa.float32(), pa.float64()]
    kinds += [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    kinds += [pa.timestamp(unit, zone) for unit in UNITS for zone in (None, *ZONES[:2])]
    kinds += [pa.timestamp("us", ZONES[2]), *(pa.duration(unit) for unit in UNITS)]
    kinds += [pa.decimal32(7, 2), pa.decimal64(15, 3)]
    kinds += [pa.decimal128(digits, scale) for digits, scale in ((1, 0), (9, 2), (18, 4), (19, 0), (38, 10), (5, 5))]
    kinds += [pa.decimal256(20, 2), pa.decimal256(76, 30)]
    kinds += [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(1), pa.binary(5), pa.binary(16)]
    kinds += [pa.string_view(), pa.binary_view()]
    kinds += [pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.string(), ordered=True)]
    kinds += [pa.dictionary(pa.int16(), pa.int64()), pa.dictionary(pa.int32(), pa.binary())]
    kinds += [pa.dictionary(pa.int32(), pa.large_string()), pa.dictionary(pa.int32(), pa.float64())]
    kinds += [pa.uuid(), pa.json_(), pa.bool8(), Money()]
    return {str(kind): kind for kind in kinds}


FLAT = _flat_types()
# Types that occur more often, since writers treat them in more ways.
FREQUENT = [pa.int64(), pa.int32(), pa.string(), pa.float64(), pa.timestamp("us"), pa.decimal128(9, 2), pa.bool_()]


def pool(kind: pa.DataType, random_: random.Random, size: int) -> pa.Array:
    """Return at most `size` values of a flat type, without nulls, beginning with some of its edge cases."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pool(kind.storage_type, random_, size))
    if pt.is_dictionary(kind):
        return pool(kind.value_type, random_, min(size, 20)).unique().dictionary_encode().cast(kind)
    if pt.is_boolean(kind):
        return pa.array([True, False])
    if pt.is_null(kind):
        return pa.nulls(1)
    if pt.is_floating(kind):
        return _floats(kind, random_, size)
    if pt.is_decimal(kind):
        most = 10**kind.precision - 1
        numbers = _integers(random_, size, -most, most)
        return pa.array([_decimal(number, kind.scale) for number in numbers], kind)
    if _is_text(kind) or _is_bytes(kind):
        return _strings(kind, random_, size)
    low, high = _limits(kind)
    numbers = _integers(random_, size, low, high)
    if pt.is_date64(kind):
        return pa.array([number * 86_400_000 for number in numbers], pa.int64()).view(kind)
    if pt.is_temporal(kind):
        return pa.array(numbers, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    return pa.array(numbers, kind)


def _limits(kind: pa.DataType) -> tuple[int, int]:
    if pt.is_date(kind):
        return FIRST_SECOND // 86_400, LAST_SECOND // 86_400
    if pt.is_time(kind):
        return 0, 86_400 * PER_SECOND[kind.unit] - 1
    if pt.is_timestamp(kind) or pt.is_duration(kind):
        return FIRST_SECOND * PER_SECOND[kind.unit], LAST_SECOND * PER_SECOND[kind.unit]
    if pt.is_signed_integer(kind):
        return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    return 0, 2**kind.bit_width - 1


def _integers(random_: random.Random, size: int, low: int, high: int) -> list[int]:
    edges = [number for number in (0, 1, -1, low, high, low + 1, high - 1) if low <= number <= high]
    random_.shuffle(edges)
    narrow = random_.random() < 0.6
    # Deltas of small numbers need few bits, and deltas of large numbers overflow.
    ends = (max(low, -50), min(high, 1000)) if narrow else (low, high)
    return edges[: random_.randrange(len(edges) + 1)] + [random_.randint(*ends) for _ in range(max(1, size))]


def _floats(kind: pa.DataType, random_: random.Random, size: int) -> pa.Array:
    bits: int = kind.bit_width
    as_integer = {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[bits]
    sign, infinity = 1 << (bits - 1), {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}[bits]
    # Both zeros, the infinities, three NaNs, the smallest and the largest number.
    quiet = infinity | infinity >> 1
    patterns = [0, sign, infinity, infinity | sign, quiet, quiet | sign, quiet | 1, 1, infinity - 1]
    random_.shuffle(patterns)
    format_ = {16: "<e", 32: "<f", 64: "<d"}[bits]
    width = {16: "<H", 32: "<I", 64: "<Q"}[bits]
    numbers = [round(random_.uniform(-100, 100), random_.choice((0, 1, 9))) for _ in range(size)]
    patterns = patterns[: random_.randrange(len(patterns) + 1)]
    patterns += [struct.unpack(width, struct.pack(format_, number))[0] for number in numbers]
    return pa.array(patterns or [0], as_integer).view(kind)


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _strings(kind: pa.DataType, random_: random.Random, size: int) -> pa.Array:
    if pt.is_fixed_size_binary(kind):
        width: int = kind.byte_width
        edges = [bytes(width), b"\xff" * width, b"\x80" * width]
        return pa.array(edges[: random_.randrange(4)] + [random_.randbytes(width) for _ in range(max(1, size))], kind)
    prefix = random_.choice(("", "", "key-", "https://example.org/a/long/path/"))
    longest = random_.choice((3, 12, 40))
    texts = random_.sample(WORDS, random_.randrange(len(WORDS)))
    texts += [prefix + "".join(random_.choices("abcé0123", k=random_.randrange(longest))) for _ in range(max(1, size))]
    if random_.random() < 0.1:
        texts.append("long " * 2000)
    if _is_text(kind):
        return pa.array(texts, kind)
    return pa.array([text.encode() + random_.choice((b"", b"\xff", b"\0")) for text in texts], kind)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (pt.is_binary, pt.is_large_binary, pt.is_binary_view, pt.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def null_mask(random_: random.Random, rows: int, nullable: bool) -> list[bool]:
    """Return which rows are null: none, few, most, all, or in blocks."""
    form = random_.choice(("none", "none", "few", "few", "most", "blocks", "all")) if nullable else "none"
    if form == "none":
        return [False] * rows
    if form == "all":
        return [True] * rows
    if form == "blocks":
        length = random_.choice((1, 7, 64, 1000))
        return [bool((row // length) % 2) for row in range(rows)]
    share = 0.1 if form == "few" else 0.95
    return [random_.random() < share for _ in range(rows)]


def array_of(kind: pa.DataType, random_: random.Random, rows: int, nullable: bool = True) -> pa.Array:
    """Return a random array of any type."""
    mask = null_mask(random_, rows, nullable)
    if pt.is_struct(kind):
        children = [array_of(child.type, random_, rows, child.nullable) for child in kind]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(mask, pa.bool_()))
    if pt.is_fixed_size_list(kind):
        values = array_of(kind.value_type, random_, rows * kind.list_size, kind.value_field.nullable)
        return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=pa.array(mask, pa.bool_()))
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind):
        return _lists(kind, random_, mask)
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        # pyarrow cannot take elements of views.
        plain = pa.string() if pt.is_string_view(kind) else pa.binary()
        return array_of(plain, random_, rows, nullable).cast(kind)
    size = random_.choice((1, 2, 10, rows, rows))
    values = pool(kind, random_, min(size, 300))
    order = random_.choice(("random", "random", "runs", "ascending", "cycle"))
    if order == "random":
        numbers = [random_.randrange(len(values)) for _ in range(rows)]
    elif order == "ascending":
        numbers = sorted(random_.randrange(len(values)) for _ in range(rows))
        values = _sorted(values)
    else:
        length = random_.choice((2, 9, 100)) if order == "runs" else 1
        numbers = [(row // length) % len(values) for row in range(rows)]
    taken = [None if is_null else number for number, is_null in zip(numbers, mask, strict=True)]
    return values.take(pa.array(taken, pa.int64()))


def _sorted(values: pa.Array) -> pa.Array:
    try:
        return values.sort()
    except pa.ArrowException:
        return values


def _lists(kind: pa.DataType, random_: random.Random, mask: list[bool]) -> pa.Array:
    longest = random_.choice((1, 3, 3, 30))
    lengths = [0 if is_null else random_.randrange(longest + 1) for is_null in mask]
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    nulls = pa.array(mask, pa.bool_())
    total = offsets[-1]
    if pt.is_map(kind):
        keys = array_of(kind.key_type, random_, total, nullable=False)
        items = array_of(kind.item_type, random_, total, kind.item_field.nullable)
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items, type=kind, mask=nulls)
    values = array_of(kind.value_type, random_, total, kind.value_field.nullable)
    if pt.is_large_list(kind):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, type=kind, mask=nulls)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind, mask=nulls)


def random_type(random_: random.Random, depth: int = 0) -> pa.DataType:
    """Return a random type, flat or nested."""
    if depth < 3 and random_.random() < (0.22 if depth == 0 else 0.3):
        return _nested_type(random_, depth + 1)
    if random_.random() < 0.35:
        return random_.choice(FREQUENT)
    return random_.choice(list(FLAT.values()))


def _nested_type(random_: random.Random, depth: int) -> pa.DataType:
    def field(name: str) -> pa.Field:
        kind = random_type(random_, depth)
        # pyarrow cannot write a required column of nulls.
        return pa.field(name, kind, nullable=random_.random() < 0.8 or pt.is_null(kind))

    form = random_.choice(("struct", "struct", "list", "list", "large_list", "map", "fixed"))
    if form == "struct":
        names = random_.sample(("x", "y z", "X1", "a.b", "é"), random_.randrange(1, 4))
        return pa.struct([field(name) for name in names])
    if form == "list":
        return pa.list_(field("element"))
    if form == "large_list":
        return pa.large_list(field("element"))
    if form == "fixed":
        return pa.list_(field("element"), random_.randrange(1, 4))
    key = random_.choice((pa.string(), pa.int32(), pa.binary(5), pa.timestamp("us")))
    return pa.map_(key, field("value"))


def family(kind: pa.DataType) -> str:
    """Return a short name of a type for summaries."""
    if isinstance(kind, pa.BaseExtensionType):
        return "extension"
    if pt.is_dictionary(kind):
        return "dictionary"
    if pt.is_timestamp(kind):
        return f"timestamp {kind.unit}{' zoned' if kind.tz else ''}"
    text = str(kind)
    for cut in ("(", "<", "["):
        text = text.partition(cut)[0]
    return text


def is_integer_like(kind: Any) -> bool:
    """Return whether values of a type have neighbors that are one step away."""
    return bool(pt.is_integer(kind) or pt.is_temporal(kind))
