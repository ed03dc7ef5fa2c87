"""A picture of a browser written again as a small PNG: a palette instead of three bytes a pixel, and words about it."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = 256
Pixels = NDArray[np.uint8]


def chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    """The kinds and contents of a PNG's chunks, in order."""
    if not png.startswith(SIGNATURE):
        raise ValueError("not a PNG")
    found, at = [], len(SIGNATURE)
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        found.append((kind, png[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def words(png: bytes) -> dict[str, str]:
    """What was written into a PNG by `small`."""
    texts = (data.split(b"\0", 1) for kind, data in chunks(png) if kind == b"tEXt")
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in texts}


def pixels(png: bytes) -> Pixels:
    """Red, green and blue of every pixel, of a PNG as browsers write it: 8 bits a channel, not interlaced."""
    parts = chunks(png)
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    if depth != 8 or colour not in (2, 6) or interlaced:
        raise ValueError(f"depth {depth}, colour {colour}, interlaced {interlaced}: not what a browser writes")
    channels = 3 if colour == 2 else 4
    raw = np.frombuffer(zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT")), np.uint8)
    lines = raw.reshape(height, 1 + width * channels)
    above = np.zeros((width, channels), np.int64)
    found = np.empty((height, width, channels), np.uint8)
    for number, line in enumerate(lines):
        above = _unfiltered(int(line[0]), line[1:].reshape(width, channels).astype(np.int64), above)
        found[number] = above
    return found[:, :, :3]


def _unfiltered(kind: int, line: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.int64]:
    """One line of pixels, from what is stored of it and the line above."""
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0) & 255
    if kind == 2:
        return (line + above) & 255
    left, corner = np.zeros(line.shape[1], np.int64), np.zeros(line.shape[1], np.int64)
    for at in range(len(line)):
        up = above[at]
        if kind == 3:
            guess = (left + up) // 2
        else:
            first, second, third = np.abs(up - corner), np.abs(left - corner), np.abs(left + up - 2 * corner)
            guess = np.where((first <= second) & (first <= third), left, np.where(second <= third, up, corner))
        left = (line[at] + guess) & 255
        line[at], corner = left, up
    return line


def small(png: bytes, about: dict[str, str]) -> bytes:
    """The same picture with the 256 colours that it has most of, others as the nearest of those."""
    seen = pixels(png)
    height, width = seen.shape[:2]
    packed = seen.astype(np.int64) @ np.array([65_536, 256, 1])
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    chosen = np.sort(np.argsort(-counts, kind="stable")[:COLOURS])
    every = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
    kept = every[chosen]
    nearest = np.array([int(np.argmin(((kept - one) ** 2).sum(axis=1))) for one in every], np.uint8)
    lines = np.zeros((height, 1 + width), np.uint8)
    lines[:, 1:] = nearest[places.reshape(height, width)]
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", kept.astype(np.uint8).tobytes())]
    parts += [(b"tEXt", f"{name}\0{text}".encode("latin-1")) for name, text in about.items()]
    parts += [(b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
