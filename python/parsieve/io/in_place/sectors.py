"""Sectors of a file: the unit that a disk writes as a whole, and that a journal has a checksum for."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from parsieve.io import fd as descriptors
from parsieve.io.fd import Range

# No disk has smaller sectors. Sectors are counted from the start of the file, so a range may begin and end within one.
SECTOR = 512
# The size of a checksum.
CHECKSUM = 4


def split_range(start: int, end: int, unit: int = SECTOR) -> Iterator[Range]:
    """Yield the parts of a range in each sector."""
    while start < end:
        stop = min(end, (start // unit + 1) * unit)
        yield start, stop
        start = stop


def align(parts: Iterable[bytes], start: int, unit: int) -> Iterator[tuple[int, bytes]]:
    """Yield consecutive bytes in blocks that end at multiples of `unit`, each with its position in the file."""
    block = bytearray()
    for part in parts:
        rest = memoryview(part)
        while rest:
            room = unit - (start + len(block)) % unit
            block += rest[:room]
            rest = rest[room:]
            if (start + len(block)) % unit == 0:
                yield start, bytes(block)
                start += len(block)
                block.clear()
    if block:
        yield start, bytes(block)


def split(parts: Iterable[bytes], start: int) -> Iterator[memoryview]:
    """Yield the bytes of each sector of consecutive bytes that begin at `start`."""
    for position, block in align(parts, start, descriptors.CHUNK):
        view = memoryview(block)
        first = min(-position % SECTOR, len(view))
        if first:
            yield view[:first]
        for cut in range(first, len(view), SECTOR):
            yield view[cut : cut + SECTOR]


def checksums(parts: Iterable[bytes], start: int) -> bytes:
    """Return the CRC-32 of each sector of consecutive bytes that begin at `start`."""
    return b"".join([checksum(sector) for sector in split(parts, start)])


def checksum(sector: bytes | memoryview) -> bytes:
    """Return the CRC-32 of a sector."""
    return zlib.crc32(sector).to_bytes(CHECKSUM, "little")


def read_with_checksums(fd: int, start: int, end: int, expected: bytes) -> Iterator[tuple[memoryview, bool]]:
    """Yield the bytes of each sector of a range, and whether they have the expected checksum."""
    for number, sector in enumerate(split(descriptors.read_chunks(fd, start, end), start)):
        place = number * CHECKSUM
        yield sector, checksum(sector) == expected[place : place + CHECKSUM]
