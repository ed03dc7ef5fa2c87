"""How fast object stores answer, which decides what to read together."""

from __future__ import annotations

import math
from numbers import Real
from typing import NamedTuple

# Requests of one step run at the same time, up to this number.
REQUESTS_AT_ONCE = 16


class RemoteSpeed(NamedTuple):
    """How fast object stores answer.

    parsieve compares the time of a request with the time of reading more bytes. So it decides which ranges to read with
    one request, whether to read all columns of a few rows at once, and whether a plan opens files. A wrong figure costs
    time, never a row.

    >>> import parsieve as ps
    >>> ps.RemoteSpeed(latency=0.1, throughput=1e6).round_trip_bytes
    100000
    """

    # Seconds until an object store begins to answer a request.
    latency: float = 0.030
    # Bytes that one request returns in a second.
    throughput: float = 70e6

    @property
    def round_trip_bytes(self) -> int:
        """Bytes that take as long to read as one more round trip."""
        return int(self.latency * self.throughput)

    @property
    def gap(self) -> int:
        """The longest gap between two ranges that are read with one request.

        Requests run at the same time, so another request costs a fraction of its latency: it takes up one of
        the parallel requests.
        """
        return self.round_trip_bytes // (2 * REQUESTS_AT_ONCE)


_speed = RemoteSpeed()


def remote_speed() -> RemoteSpeed:
    """Return the speed of object stores that parsieve assumes.

    >>> import parsieve as ps
    >>> ps.remote_speed().throughput
    70000000.0
    """
    return _speed


def set_remote_speed(latency: float | None = None, throughput: float | None = None) -> RemoteSpeed:
    """Set the speed of object stores that parsieve assumes in this process, and return it.

    Args:
        latency: Seconds until a store begins to answer a request. None restores the default, 0.030.
        throughput: Bytes that one request returns in a second. None restores the default, 70e6.

    >>> import parsieve as ps
    >>> ps.set_remote_speed(latency=0.004, throughput=400e6).round_trip_bytes
    1600000
    >>> ps.set_remote_speed().latency
    0.03
    """
    global _speed
    default = RemoteSpeed()
    speed = RemoteSpeed(
        default.latency if latency is None else latency,
        default.throughput if throughput is None else throughput,
    )
    for name, value in speed._asdict().items():
        if not isinstance(value, Real):
            raise TypeError(f"{name} must be a positive number, not {value!r}")
        if not 0 < float(value) < math.inf:
            raise ValueError(f"{name} must be a positive number, but is {value!r}")
    _speed = speed
    return speed
