"""Rewrites a browser's screenshot as a small PNG: a palette instead of three bytes per pixel, and text chunks."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLORS = 256
Pixels = NDArray[np.uint8]


def chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    """Return the type and data of each chunk of a PNG, in order."""
    if not png.startswith(SIGNATURE):
        raise ValueError("not a PNG")
    result, offset = [], len(SIGNATURE)
    while offset < len(png):
        length, kind = struct.unpack_from(">I4s", png, offset)
        result.append((kind, png[offset + 8 : offset + 8 + length]))
        offset += 12 + length
    return result


def texts(png: bytes) -> dict[str, str]:
    """Return the text chunks of a PNG from `small`."""
    pairs = (data.split(b"\0", 1) for kind, data in chunks(png) if kind == b"tEXt")
    return {name.decode("latin-1"): text.decode("latin-1") for name, text in pairs}


def pixels(png: bytes) -> Pixels:
    """Return red, green and blue of every pixel.

    The PNG must have the form that browsers write: 8 bits per channel, and not interlaced.
    """
    parts = chunks(png)
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", parts[0][1])
    if depth != 8 or color not in (2, 6) or interlaced:
        raise ValueError(f"depth {depth}, color {color}, interlaced {interlaced}: not what a browser writes")
    channels = 3 if color == 2 else 4
    raw = np.frombuffer(zlib.decompress(b"".join(data for kind, data in parts if kind == b"IDAT")), np.uint8)
    lines = raw.reshape(height, 1 + width * channels)
    above = np.zeros((width, channels), np.int64)
    result = np.empty((height, width, channels), np.uint8)
    for number, line in enumerate(lines):
        above = _unfiltered(int(line[0]), line[1:].reshape(width, channels).astype(np.int64), above)
        result[number] = above
    return result[:, :, :3]


def _unfiltered(kind: int, line: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one line of pixels, from its filtered bytes and the line above."""
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
    """Return the same picture with its 256 most frequent colors; other colors become the nearest of them."""
    image = pixels(png)
    height, width = image.shape[:2]
    packed = image.astype(np.int64) @ np.array([65_536, 256, 1])
    colors, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    chosen = np.sort(np.argsort(-counts, kind="stable")[:COLORS])
    unpacked = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1)
    palette = unpacked[chosen]
    nearest = np.array([int(np.argmin(((palette - color) ** 2).sum(axis=1))) for color in unpacked], np.uint8)
    lines = np.zeros((height, 1 + width), np.uint8)
    lines[:, 1:] = nearest[places.reshape(height, width)]
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", header), (b"PLTE", palette.astype(np.uint8).tobytes())]
    parts += [(b"tEXt", f"{name}\0{text}".encode("latin-1")) for name, text in about.items()]
    parts += [(b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
