"""Generate a typical lake: files sorted by arrival, some late events, and users spread over all files.

```text
file        0    1    2    3   ...            Each file has the events that arrived in its hours,
hour   0    ####                              and batches of late events from a few hours long ago.
hour   1    #    ####                         So its min/max event times span weeks,
hour   2    #         ####  #                 but it has events of only a few of these hours.
```
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
HOURS_OF_A_FILE = 12
# Every 25th row is late. The late rows of a file come from this many earlier hours, as if devices had been offline.
LATE_EVERY = 25
LATE_HOURS = 3
USERS_OF_A_CLASS = 4_000
MICROS_OF_AN_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Events:
    """The lake, and two queries that match rows in few of its files."""

    folder: Path
    num_files: int
    num_rows: int
    num_bytes: int
    user: int
    hour: dt.datetime

    @property
    def point(self) -> str:
        """The query for the events of one user."""
        return f"user_id = {self.user}"

    @property
    def range(self) -> str:
        """The query for the events of one hour."""
        end = self.hour + dt.timedelta(hours=1)
        return f"event_time >= TIMESTAMP '{self.hour.isoformat()}' AND event_time < TIMESTAMP '{end.isoformat()}'"


def write(folder: Path, num_files: int = 50, rows_of_a_file: int = 100_000) -> Events:
    """Write the files without Bloom filters, like an existing job that you cannot change."""
    folder.mkdir(parents=True, exist_ok=True)
    num_bytes = 0
    for number in range(num_files):
        path = folder / f"events-{number:04}.parquet"
        # Several row groups, so that engines can skip parts of a file.
        pq.write_table(_events(number, num_files, rows_of_a_file), path, row_group_size=rows_of_a_file // 4)
        num_bytes += path.stat().st_size
    return Events(
        folder=folder,
        num_files=num_files,
        num_rows=num_files * rows_of_a_file,
        num_bytes=num_bytes,
        user=num_files // 2 + num_files * 17,
        hour=START + dt.timedelta(hours=_late_hour(num_files // 4)),
    )


def _users_of(number: int, num_files: int) -> tuple[int, int]:
    """Return the two classes of users in a file. Each class is in two files that are far apart."""
    return number, (number * 7 + 3) % num_files


def _late_hour(number: int) -> int:
    return number * HOURS_OF_A_FILE + 5


def _events(number: int, num_files: int, rows: int) -> pa.Table:
    """Return the events of one file. They are the same in every run."""
    place = pc.random(rows, initializer=number)
    late = pa.array(range(rows), pa.int64())
    late = pc.equal(pc.subtract(late, pc.multiply(pc.divide(late, LATE_EVERY), LATE_EVERY)), 0)
    own = pc.floor(pc.multiply(place, float(HOURS_OF_A_FILE * MICROS_OF_AN_HOUR)))
    times = pc.add(pc.cast(own, pa.int64()), number * HOURS_OF_A_FILE * MICROS_OF_AN_HOUR)
    within = pc.cast(pc.floor(pc.multiply(pc.random(rows, initializer=number + 10_000), 3.6e9)), pa.int64())
    pick = pc.cast(pc.floor(pc.multiply(place, float(LATE_HOURS))), pa.int64())
    # Late events come from three earlier hours: after a quarter, half and three quarters of the time up to this file.
    hours = pa.array([_late_hour(number * (batch + 1) // (LATE_HOURS + 1)) for batch in range(LATE_HOURS)])
    then = pc.add(pc.multiply(pc.take(hours, pick), MICROS_OF_AN_HOUR), within)
    micros = pc.add(pc.if_else(late, then, times), int(START.timestamp() * 1_000_000))

    first, second = _users_of(number, num_files)
    chance = pc.random(rows, initializer=number + 20_000)
    of_class = pc.cast(pc.floor(pc.multiply(chance, float(USERS_OF_A_CLASS))), pa.int64())
    which = pc.if_else(pc.less(pc.random(rows, initializer=number + 30_000), 0.5), first, second)
    kinds = pa.array(["view", "click", "cart", "buy"])
    kind = pc.take(kinds, pc.cast(pc.floor(pc.multiply(chance, 4.0)), pa.int64()))
    return pa.table(
        {
            "event_time": pc.cast(micros, pa.timestamp("us", tz="UTC")),
            "user_id": pc.add(pc.multiply(of_class, num_files), which),
            "kind": kind.dictionary_encode(),
            "amount": pc.round(pc.multiply(place, 500.0), 2),
            "session": within,
        }
    ).sort_by("event_time")
