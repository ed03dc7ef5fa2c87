"""Count what parsieve does in this process."""

from __future__ import annotations

import json
from typing import NamedTuple

from parsieve.sharing import Lock

_PREFIX = "parsieve"


class Metrics(NamedTuple):
    """What parsieve has done in this process so far, from `metrics()`. Subtract an earlier result to measure a period.

    >>> from parsieve import Metrics
    >>> earlier, now = Metrics(plans=2, files_skipped=90), Metrics(plans=5, files_skipped=240)
    >>> (now - earlier).plans, (now - earlier).files_skipped
    (3, 150)
    """

    # Plans, and the files that they kept and skipped.
    plans: int = 0
    files_kept: int = 0
    files_skipped: int = 0
    # Row groups that plans kept and skipped, of the files whose footers they judged.
    row_groups_kept: int = 0
    row_groups_skipped: int = 0
    # Rows that parsieve returned. Rows that an engine reads from the kept files itself are not counted.
    rows_returned: int = 0
    # Requests that parsieve made for parts of index files and Parquet files, and the bytes that they returned. What
    # pyarrow, engines and the libraries of table formats read is not counted.
    requests: int = 0
    bytes_read: int = 0
    # Seconds spent planning, without listing the table; and seconds in which a consumer waited for rows.
    plan_seconds: float = 0.0
    read_seconds: float = 0.0
    # Indexes built or converted; and updates of an index.
    index_builds: int = 0
    index_updates: int = 0

    def __sub__(self, earlier: Metrics) -> Metrics:
        """Return the difference to an earlier snapshot."""
        return Metrics(**{name: now - getattr(earlier, name) for name, now in self._asdict().items()})

    def to_json(self) -> str:
        """Return the counters as a JSON object.

        >>> from parsieve import Metrics
        >>> Metrics(plans=2).to_json()[:28]
        '{"plans": 2, "files_kept": 0'
        """
        return json.dumps(self._asdict())

    def to_prometheus(self) -> str:
        """Return the counters in the text format of Prometheus.

        >>> from parsieve import Metrics
        >>> print(Metrics(plans=2).to_prometheus().splitlines()[1])
        parsieve_plans_total 2
        """
        lines = []
        for name, value in self._asdict().items():
            lines += [f"# TYPE {_PREFIX}_{name}_total counter", f"{_PREFIX}_{name}_total {value}"]
        return "\n".join(lines) + "\n"


class _Counters:
    """The counters of this process. Threads may share them."""

    def __init__(self) -> None:
        self.values: dict[str, float] = dict.fromkeys(Metrics._fields, 0)
        self.lock = Lock()


_counters = _Counters()


def add(**amounts: float) -> None:
    """Add amounts to counters, by their names in `Metrics`."""
    with _counters.lock:
        values = _counters.values
        for name, amount in amounts.items():
            values[name] += amount


def metrics() -> Metrics:
    """Return what parsieve has done in this process: plans, files skipped, rows, requests, bytes and seconds.

    The counters start at zero in each process and are never reset. To measure a period, subtract two results.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(3):
    ...     pq.write_table(pa.table({"id": [part]}), f"{folder}/part-{part}.parquet")
    >>> before = ps.metrics()
    >>> rows = ps.open_table(folder).plan("id = 1").to_arrow()
    >>> spent = ps.metrics() - before
    >>> spent.plans, spent.files_kept, spent.files_skipped, spent.rows_returned
    (1, 1, 2, 1)
    """
    with _counters.lock:
        return Metrics(**_counters.values)  # type: ignore[arg-type]
