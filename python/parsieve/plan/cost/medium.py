"""The cost of reading by kind of storage, and the number of files to read in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from parsieve.io.remote_speed import REQUESTS_AT_ONCE, RemoteSpeed, remote_speed
from parsieve.lake.base import Lake, Slice

# For fewer local files than this, starting threads takes longer than reading one by one.
FEW = 4

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Medium:
    """How many seconds it takes to read from one kind of storage."""

    # To open a file and read its footer.
    footer: float
    # To look values up in the Bloom filters of a file.
    filters: float
    # Seconds that an engine needs to open a file, and bytes of rows that it reads per second.
    opening: float
    throughput: float
    # How many files are read in parallel.
    at_once: int
    # To start a batch of any size.
    batch: float = 0.0005

    def price(self, footers: int, filters: int) -> float:
        """Return how many seconds it takes to read this many footers and this many files' filters."""
        rounds = -(-footers // self.at_once) * self.footer + -(-filters // self.at_once) * self.filters
        return self.batch + rounds

    def saving(self, size: float) -> float:
        """Return how many seconds an engine saves if a file of this size is skipped."""
        return self.opening + size / self.throughput


# Measured: docs/design/cost-model.md.
LOCAL = Medium(footer=0.0002, filters=0.0002, opening=0.0002, throughput=400e6, at_once=1)


@cache
def _remote(speed: RemoteSpeed) -> Medium:
    footer, filters = 2 * speed.latency, 3 * speed.latency
    return Medium(footer, filters, opening=0.004, throughput=speed.throughput, at_once=REQUESTS_AT_ONCE)


def medium_of(lake: Lake, piece: Slice) -> Medium:
    """Return the kind of storage that a slice's base file is on, without opening it."""
    storage = getattr(lake, "_storage", None)
    if storage is not None:
        return LOCAL if storage.is_local else _remote(remote_speed())
    path = piece.path or lake.uri
    return _remote(remote_speed()) if "://" in path and not path.startswith("file://") else LOCAL


def read_all(read: Callable[[Item], Answer], items: Sequence[Item], medium: Medium) -> list[Answer]:
    """Read several files, in threads if that is faster, and return the answers in the order of `items`."""
    if medium is LOCAL and len(items) < FEW:
        return [read(item) for item in items]
    with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(items)), "parsieve-plan") as pool:
        return list(pool.map(read, items))
