"""Counters of a server in the text format of Prometheus, and its access log as lines of JSON."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from threading import Lock
from typing import Any, TextIO

from parsieve.observe import counters

_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)


class Requests:
    """Counts requests by route and status. Threads may share it."""

    def __init__(self, log: TextIO | None = None) -> None:
        self._log = sys.stderr if log is None else log
        self._lock = Lock()
        self._answered: Counter[tuple[str, int]] = Counter()
        self._faster: Counter[float] = Counter()
        self._seconds = 0.0

    def answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request, and log it without its body, headers and query, which may hold secrets."""
        line: dict[str, Any] = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "method": method}
        line |= {"route": route, "status": status, "seconds": round(seconds, 4)}
        with self._lock:
            self._answered[route, status] += 1
            self._seconds += seconds
            self._faster.update(bound for bound in _BUCKETS if seconds <= bound)
            print(json.dumps(line), file=self._log, flush=True)

    def text(self) -> str:
        """Return all counters."""
        with self._lock:
            total = sum(self._answered.values())
            lines = ["# TYPE parsieve_http_requests_total counter"]
            lines += [
                f'parsieve_http_requests_total{{route="{route}",status="{status}"}} {number}'
                for (route, status), number in sorted(self._answered.items())
            ]
            lines.append("# TYPE parsieve_http_request_seconds histogram")
            lines += [
                f'parsieve_http_request_seconds_bucket{{le="{bound}"}} {self._faster[bound]}' for bound in _BUCKETS
            ]
            lines += [f'parsieve_http_request_seconds_bucket{{le="+Inf"}} {total}']
            lines += [
                f"parsieve_http_request_seconds_sum {self._seconds}",
                f"parsieve_http_request_seconds_count {total}",
            ]
        return "\n".join(lines) + "\n" + counters.metrics().to_prometheus()
