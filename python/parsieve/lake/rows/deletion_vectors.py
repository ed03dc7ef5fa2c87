"""Decode deletion vectors: portable 64-bit Roaring bitmaps of row positions. All bytes are validated."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from itertools import pairwise
from zlib import crc32

from parsieve._core import FormatError, UnsupportedError

_RUNS = 12347
_NO_RUNS = 12346
# Bitmaps with runs have no offsets if they have fewer containers than this.
_NO_OFFSETS_BELOW = 4


# Delta and Iceberg use the same magic number and the same frame: length, magic number and bitmap, checksum.
_MAGIC = (1681511377).to_bytes(4, "little")


def unframed(framed: bytes, size: int, place: str) -> bytes:
    """Return the bytes of a deletion vector between its length and its checksum."""
    data = framed[4:-4]
    if (
        len(framed) != size + 8
        or framed[:4] != size.to_bytes(4, "big")
        or framed[-4:] != crc32(data).to_bytes(4, "big")
    ):
        raise FormatError(f"the deletion vector in {place} is damaged (wrong length or checksum)")
    return data


class _Bytes:
    """A reader of bytes. Reading beyond their end is an error."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise FormatError(
                f"a deletion vector ends at byte {len(self._data)}, but needs {count} bytes after byte {self._at}"
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def numbers(self, format: str) -> tuple[int, ...]:
        return struct.unpack("<" + format, self.take(struct.calcsize("<" + format)))

    def shorts(self, count: int) -> tuple[int, ...]:
        return self.numbers(f"{count}H")


def positions(data: bytes, at_most: int) -> array[int]:
    """Return the positions in ascending order. All are below `at_most`, which also bounds the memory."""
    source, rows, before = _Bytes(data), array("Q"), -1
    if source.take(4) != _MAGIC:
        raise UnsupportedError(
            f"a deletion vector begins with {data[:4].hex()}, a format that this version of parsieve does not support"
        )
    (maps,) = source.numbers("Q")
    for _ in range(maps):
        (high,) = source.numbers("I")
        if high <= before:
            raise FormatError(f"the keys of a deletion vector are not in order: {high} after {before}")
        before = high
        for container in _containers(source, at_most):
            if len(rows) + len(container) > at_most:
                raise FormatError(f"a deletion vector has more than the {at_most} rows of its file")
            rows.extend((high << 32) + low for low in container)
    if rows and rows[-1] >= at_most:
        raise FormatError(f"a deletion vector deletes row {rows[-1]} of a file of {at_most} rows")
    return rows


def _containers(source: _Bytes, at_most: int) -> Iterator[array[int]]:
    (cookie,) = source.numbers("I")
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        flags = int.from_bytes(source.take((count + 7) // 8), "little")
    elif cookie == _NO_RUNS:
        (count,) = source.numbers("I")
        flags = 0
    else:
        raise FormatError(f"not a Roaring bitmap: a deletion vector begins with {cookie}")
    if count > 1 << 16:
        raise FormatError(f"a deletion vector claims {count} containers; the maximum is 65536")
    described = source.shorts(2 * count)
    keys, sizes = described[::2], [size + 1 for size in described[1::2]]
    if any(key >= after for key, after in pairwise(keys)):
        raise FormatError("the containers of a deletion vector are not in order")
    if cookie == _NO_RUNS or count >= _NO_OFFSETS_BELOW:
        source.take(4 * count)
    if sum(sizes) > at_most:
        raise FormatError(f"a deletion vector claims {sum(sizes)} rows of a file of {at_most} rows")
    for number, (key, size) in enumerate(zip(keys, sizes, strict=True)):
        if flags >> number & 1:
            values = _runs(source, size)
        elif size > 4096:
            bits = f"{int.from_bytes(source.take(8192), 'little'):065536b}"[::-1]
            values = [place for place, bit in enumerate(bits) if bit == "1"]
        else:
            values = list(source.shorts(size))
        if len(values) != size or any(value >= after for value, after in pairwise(values)):
            raise FormatError("a container of a deletion vector has a wrong number or order of rows")
        yield array("Q", [(key << 16) + low for low in values])


def _runs(source: _Bytes, size: int) -> list[int]:
    (count,) = source.shorts(1)
    pairs = source.shorts(2 * count)
    values: list[int] = []
    for start, more in zip(pairs[::2], pairs[1::2], strict=True):
        if len(values) + more + 1 > size or start + more > 0xFFFF:
            raise FormatError("a run of a deletion vector is longer than its container")
        values += range(start, start + more + 1)
    return values
