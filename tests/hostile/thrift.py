"""Find the position of each number, length and list header of a structure in Thrift's compact protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Spot(NamedTuple):
    """A number in the bytes of a structure."""

    # Field ids from the outermost structure inward, such as `4.0.1.2.3.14` (0 and 2 are positions in lists).
    path: str
    # "integer", "length" for the length of a string, or "list" for the header of a list.
    kind: str
    start: int
    end: int
    value: int


def varint(value: int) -> bytes:
    """Encode an unsigned varint."""
    return bytes([value % 128 | 128]) + varint(value // 128) if value >= 128 else bytes([value])


def zigzag(value: int) -> bytes:
    """Encode a signed varint."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


class Walk:
    """A structure that begins at `start`. `spots` are its numbers, `end` is the position after its last byte."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.end = data, start
        self.spots: list[Spot] = list(self._structure(""))

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.end]
            self.end += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _structure(self, path: str) -> Iterator[Spot]:
        field = 0
        while head := self.data[self.end]:
            self.end += 1
            if head >> 4:
                field += head >> 4
            else:
                number = self._varint()
                field = number >> 1 ^ -(number & 1)
            yield from self._value(head & 15, f"{path}.{field}" if path else str(field))
        self.end += 1

    def _value(self, kind: int, path: str, in_list: bool = False) -> Iterator[Spot]:
        start = self.end
        if kind in (1, 2):
            self.end += in_list
        elif kind == 3:
            self.end += 1
        elif kind in (4, 5, 6):
            number = self._varint()
            yield Spot(path, "integer", start, self.end, number >> 1 ^ -(number & 1))
        elif kind == 7:
            self.end += 8
        elif kind == 8:
            length = self._varint()
            yield Spot(path, "length", start, self.end, length)
            self.end += length
        elif kind in (9, 10):
            head = self.data[self.end]
            self.end += 1
            count = head >> 4 if head >> 4 < 15 else self._varint()
            yield Spot(path, "list", start, self.end, count)
            for place in range(count):
                yield from self._value(head & 15, f"{path}.{place}", in_list=True)
        elif kind == 12:
            yield from self._structure(path)
        else:
            raise ValueError(f"no writer of these files writes type {kind}")


def wrong_values(data: bytes, spot: Spot) -> Iterator[tuple[str, bytes]]:
    """Yield wrong values for a number: a description and the encoded bytes."""
    if spot.kind == "integer":
        for value in (0, 1, -1, spot.value + 1, spot.value - 1, 2**31 - 1, -(2**31), 2**63 - 1):
            if value != spot.value:
                yield str(value), zigzag(value)
    elif spot.kind == "length":
        for value in (0, spot.value + 1, 2**31 - 1, 2**32, 2**63):
            yield str(value), varint(value)
    else:
        element = data[spot.start] & 15
        for value in (0, spot.value + 1, 2**20, 2**31 - 1):
            head = bytes([value << 4 | element]) if value < 15 else bytes([0xF0 | element]) + varint(value)
            yield f"{value} elements", head
        yield "0 elements without a type", b"\0"
        yield "1 element without a type", b"\x10"
