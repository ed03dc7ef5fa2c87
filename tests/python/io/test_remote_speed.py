"""The speed of object stores decides what is read together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from obstore.store import MemoryStore

import parsieve as ps
from parsieve import _core
from parsieve.io.ranges import RangeReader


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    assert ps.set_remote_speed() == ps.RemoteSpeed()


def requests_of_two_ranges(gap: int) -> int:
    """Return how many requests read two ranges with a gap between them."""
    store = MemoryStore()
    store.put("file", bytes(1 << 20))
    reader = RangeReader((store, "file"))
    reader.fetch([(0, 10), (10 + gap, 20 + gap)], _core.Fetched())
    return reader.requests


def test_a_slow_store_joins_more_ranges() -> None:
    assert requests_of_two_ranges(60_000) == 1
    assert requests_of_two_ranges(100_000) == 2
    ps.set_remote_speed(latency=0.1)
    assert requests_of_two_ranges(100_000) == 1
    ps.set_remote_speed(latency=0.001)
    assert requests_of_two_ranges(10_000) == 2


def test_each_figure_has_a_default() -> None:
    assert ps.set_remote_speed(throughput=1e9) == ps.RemoteSpeed(0.030, 1e9) == ps.remote_speed()
    assert ps.set_remote_speed(latency=0.5) == ps.RemoteSpeed(0.5, 70e6)


@pytest.mark.parametrize("speed", [{"latency": 0.0}, {"latency": -1.0}, {"throughput": float("inf")}])
def test_wrong_figures_are_refused(speed: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(speed))} must be a positive number"):
        ps.set_remote_speed(**speed)
    assert ps.remote_speed() == ps.RemoteSpeed()
    fast: Any = "fast"
    with pytest.raises(TypeError, match="latency must be a positive number, not 'fast'"):
        ps.set_remote_speed(latency=fast)
