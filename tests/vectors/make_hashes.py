"""Write hashes.json: values of every Arrow type, with their plain encodings written by hand and their XXH64 hashes.

Run `python tests/vectors/make_hashes.py` from the repository's root. The script needs the `xxhash` package. It does not
import parsieve, so that the vectors are independent of it. Tests in Python and Rust read the result.

A case consists of an Arrow type (name and parameters), the physical type of the column (null: the type that pyarrow's
writer chooses), and values. A value is Arrow's stored value as text: an integer in decimal digits (ticks, days,
unscaled decimals), the bits of a float as "0x...", bytes in hex. `repeat` is the number of repetitions of both the
value and its plain encoding. `null` is a null.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import xxhash

Case = dict[str, Any]


def pack(code: str) -> Callable[[int], bytes]:
    return lambda value: struct.pack(code, value)


def big_endian(width: int) -> Callable[[int], bytes]:
    return lambda value: value.to_bytes(width, "big", signed=True)


def times(factor: int, code: str) -> Callable[[int], bytes]:
    return lambda value: struct.pack(code, value * factor)


def int96(per_second: int) -> Callable[[int], bytes]:
    """Encode timestamps as INT96: the nanoseconds of the day, then the Julian day."""

    def encode(value: int) -> bytes:
        days, rest = divmod(value, 86_400 * per_second)
        return struct.pack("<QI", rest * (10**9 // per_second), 2_440_588 + days)

    return encode


def case(arrow: Case, physical: str | None, values: list[Case | None]) -> Case:
    return {"arrow": arrow, "physical_type": physical, "values": values}


def value(text: str, plain: bytes, repeat: int = 1) -> Case:
    entry = {"value": text, "plain": plain.hex(), "hash": f"0x{xxhash.xxh64_hexdigest(plain * repeat, seed=0)}"}
    return entry | ({"repeat": repeat} if repeat > 1 else {})


def numbers(arrow: Case, physical: str | None, encode: Callable[[int], bytes], values: list[int]) -> Case:
    return case(arrow, physical, [*(value(str(number), encode(number)) for number in values), None])


def integers() -> list[Case]:
    cases = []
    for bits in (8, 16, 32, 64):
        top = 2 ** (bits - 1)
        narrow, wide = ("i", "q") if bits < 64 else ("q", "q")
        signed, unsigned = [0, 1, -1, 42, top - 1, -top], [0, 1, 42, top - 1, top, 2 * top - 1]
        cases += [
            numbers({"name": f"int{bits}"}, None, pack("<" + narrow), signed),
            numbers({"name": f"int{bits}"}, "INT64", pack("<" + wide), signed),
            # An unsigned column stores bit patterns: 2^32 - 1 is the INT32 ff ff ff ff.
            numbers({"name": f"uint{bits}"}, None, pack("<" + narrow.upper()), unsigned),
            numbers({"name": f"uint{bits}"}, "INT64", pack("<" + wide.upper()), unsigned),
        ]
    cases.append(numbers({"name": "int64"}, "INT32", pack("<i"), [0, -1, 2**31 - 1, -(2**31)]))
    cases.append(numbers({"name": "uint64"}, "INT32", pack("<I"), [0, 1, 2**31, 2**32 - 1]))
    return cases


def floats() -> list[Case]:
    # 0, -0, 1, -1.5, the smallest subnormal, both infinities, a quiet NaN, a negative NaN, a NaN with a payload.
    halves = [0x0000, 0x8000, 0x3C00, 0xBE00, 0x0001, 0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7C01]
    singles = [0, 1 << 31, 0x3F800000, 0xBFC00000, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001]
    doubles = [0, 1 << 63, 0x3FF << 52, 0xBFF8 << 48, 1, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0xFFF8 << 48]
    tables = [("float16", "<H", halves), ("float32", "<I", singles), ("float64", "<Q", [*doubles, (0x7FF << 52) + 1])]
    cases = []
    for name, code, all_bits in tables:
        entries = [value(f"0x{bits:0{struct.calcsize(code) * 2}x}", struct.pack(code, bits)) for bits in all_bits]
        cases.append(case({"name": name}, None, [*entries, None]))
    # Values that another width represents exactly.
    exact = [("0x3c00", 1.0), ("0xbe00", -1.5), ("0x8000", -0.0), ("0x7c00", float("inf")), ("0x0001", 2.0**-24)]
    for physical, code in (("FLOAT", "<f"), ("DOUBLE", "<d")):
        entries = [value(bits, struct.pack(code, number)) for bits, number in exact]
        cases.append(case({"name": "float16"}, physical, [*entries, None]))
    entries = [value("0x3f800000", struct.pack("<d", 1.0)), value("0x3dcccccd", struct.pack("<d", 0.10000000149011612))]
    cases.append(case({"name": "float32"}, "DOUBLE", [*entries, None]))
    entries = [
        value("0x3ff0000000000000", struct.pack("<f", 1.0)),
        value("0x8000000000000000", struct.pack("<f", -0.0)),
    ]
    cases.append(case({"name": "float64"}, "FLOAT", [*entries, None]))
    return cases


def times_and_dates() -> list[Case]:
    day, wide = 86_400_000, [0, 1, -1, 1_700_000_000, -62_135_596_800, 2**53]
    cases = [
        numbers({"name": "date32"}, None, pack("<i"), [0, 1, -1, 19_000, 2**31 - 1, -(2**31)]),
        # pyarrow stores whole days, arrow-rs stores milliseconds.
        numbers({"name": "date64"}, None, lambda ms: struct.pack("<i", ms // day), [0, day, -day, 19_000 * day]),
        numbers({"name": "date64"}, "INT64", pack("<q"), [0, day, -day, 1, -1]),
        # Parquet has no unit for seconds.
        numbers({"name": "time32", "unit": "s"}, None, times(1000, "<i"), [0, 1, 86_399]),
        numbers({"name": "time32", "unit": "ms"}, None, pack("<i"), [0, 1, 86_399_999]),
        numbers({"name": "time64", "unit": "us"}, None, pack("<q"), [0, 1, 86_399_999_999]),
        numbers({"name": "time64", "unit": "ns"}, None, pack("<q"), [0, 1, 86_399_999_999_999]),
    ]
    for unit, per_second in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        edges = [2**63 // 1000 - 1, -(2**63 // 1000)] if unit == "s" else [2**63 - 1, -(2**63)]
        stored = times(1000, "<q") if unit == "s" else pack("<q")
        for zone in (None, "UTC", "America/New_York"):
            arrow = {"name": "timestamp", "unit": unit, "zone": zone}
            cases.append(numbers(arrow, None, stored, [*wide, *edges]))
            cases.append(numbers(arrow, "INT96", int96(per_second), [0, 1, -1, 1_700_000_000, -86_400 * per_second]))
        cases.append(numbers({"name": "duration", "unit": unit}, None, pack("<q"), [0, 1, -1, 2**63 - 1, -(2**63)]))
    return cases


def decimals() -> list[Case]:
    def shortest(number: int) -> bytes:
        return number.to_bytes(
            next(w for w in range(1, 33) if -(2 ** (8 * w - 1)) <= number < 2 ** (8 * w - 1)), "big", signed=True
        )

    # Bits, precision, scale, and the number of bytes that pyarrow chooses for this precision.
    shapes = [
        *[(32, 1, 0, 1), (32, 2, 0, 1), (32, 3, 1, 2), (32, 9, 2, 4), (64, 10, 2, 5), (64, 18, 6, 8)],
        *[(128, 4, 2, 2), (128, 5, 2, 3), (128, 9, 2, 4), (128, 11, 0, 5), (128, 12, 0, 6), (128, 18, 2, 8)],
        *[(128, 19, 2, 9), (128, 20, 4, 9), (128, 38, 10, 16), (128, 38, -3, 16)],
        *[(256, 9, 2, 4), (256, 18, 2, 8), (256, 39, 0, 17), (256, 76, 38, 32)],
    ]
    cases = []
    for bits, precision, scale, width in shapes:
        largest = 10**precision - 1
        values = [0, 1, -1, 5, *([127, 128, -128, -129, 255, -256] if precision >= 3 else []), largest, -largest]
        arrow = {"name": f"decimal{bits}", "precision": precision, "scale": scale}
        cases.append(numbers(arrow, None, big_endian(width), values))
        cases.append(numbers(arrow, "FIXED_LEN_BYTE_ARRAY", big_endian(width), values))
        cases.append(numbers(arrow, "BYTE_ARRAY", shortest, values))
        for wider in (16, 32):
            if width < wider:
                cases.append(numbers(arrow, f"FIXED_LEN_BYTE_ARRAY({wider})", big_endian(wider), values))
        if precision <= 9:
            cases.append(numbers(arrow, "INT32", pack("<i"), values))
        if precision <= 18:
            cases.append(numbers(arrow, "INT64", pack("<q"), values))
    return cases


def strings() -> list[Case]:
    # Lengths around the limits at which XXH64 (1, 4, 8, 32 bytes) and string views (12 bytes) change their method.
    lengths = [0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 1000]
    texts = [bytes(97 + index % 26 for index in range(length)) for length in lengths]
    texts += ["grüße".encode(), "世界".encode(), "🦀".encode(), b"\0", b"a\0b"]
    entries = [*(value(text.hex(), text) for text in texts), value("61", b"a", repeat=1_000_000), None]
    names = ["string", "large_string", "string_view", "binary", "large_binary", "binary_view"]
    cases = [case({"name": name}, None, entries) for name in names]
    raw = [b"\xff\x00\x80", b"\x00" * 40]
    cases += [case({"name": name}, None, [value(text.hex(), text) for text in raw]) for name in names[3:]]
    sixteen = [bytes(range(16)), b"\xff" * 16]
    cases.append(case({"name": "binary"}, "FIXED_LEN_BYTE_ARRAY(16)", [value(text.hex(), text) for text in sixteen]))
    for width in (1, 2, 8, 12, 16, 20, 32, 33):
        fixed = [bytes(width), b"\xff" * width, bytes(range(width))]
        arrow = {"name": "fixed_size_binary", "width": width}
        entries = [*(value(text.hex(), text) for text in fixed), None]
        cases += [case(arrow, None, entries), case(arrow, "BYTE_ARRAY", entries)]
        if width == 12:
            cases.append(case(arrow, "INT96", entries))
    uuids = [bytes.fromhex("123e4567e89b12d3a456426614174000"), bytes(16)]
    cases.append(case({"name": "uuid"}, None, [*(value(text.hex(), text) for text in uuids), None]))
    return cases


def main() -> None:
    cases = [*integers(), *floats(), *times_and_dates(), *decimals(), *strings()]
    lines = ",\n".join(json.dumps(entry) for entry in cases)
    Path(__file__).with_name("hashes.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
