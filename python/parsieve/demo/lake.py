"""A lake as people have it: files by arrival, events that came late, and users who are never the sort key.

```text
file        0    1    2    3   ...            each file holds the events that arrived in its hours,
hour   0    ####                              and batches of late ones from hours long ago: so the least and greatest
hour   1    #    ####                         time of a file span weeks, while it knows few hours of them
hour   2    #         ####  #
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
# Every 25th row is late; all late rows of a file come from so many single hours, as from devices that were offline.
LATE_EVERY = 25
LATE_HOURS = 3
USERS_OF_A_CLASS = 4_000
MICROS_OF_AN_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class Events:
    """The lake, and two questions whose answers lie in few of its files."""

    folder: Path
    num_files: int
    num_rows: int
    num_bytes: int
    user: int
    hour: dt.datetime

    @property
    def point(self) -> str:
        """One user's events."""
        return f"user_id = {self.user}"

    @property
    def range(self) -> str:
        """One hour of events."""
        end = self.hour + dt.timedelta(hours=1)
        return f"event_time >= TIMESTAMP '{self.hour.isoformat()}' AND event_time < TIMESTAMP '{end.isoformat()}'"


def write(folder: Path, num_files: int = 50, rows_of_a_file: int = 100_000) -> Events:
    """Write the files, without Bloom filters, as a job would that nobody can change."""
    folder.mkdir(parents=True, exist_ok=True)
    num_bytes = 0
    for number in range(num_files):
        path = folder / f"events-{number:04}.parquet"
        # Row groups as small as the lake's: one would make each file all or nothing.
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
    """The two classes of users that a file knows: each class comes to two files, far apart."""
    return number, (number * 7 + 3) % num_files


def _late_hour(number: int) -> int:
    return number * HOURS_OF_A_FILE + 5


def _events(number: int, num_files: int, rows: int) -> pa.Table:
    """The events of one file, the same in every run."""
    place = pc.random(rows, initializer=number)
    late = pa.array(range(rows), pa.int64())
    late = pc.equal(pc.subtract(late, pc.multiply(pc.divide(late, LATE_EVERY), LATE_EVERY)), 0)
    own = pc.floor(pc.multiply(place, float(HOURS_OF_A_FILE * MICROS_OF_AN_HOUR)))
    times = pc.add(pc.cast(own, pa.int64()), number * HOURS_OF_A_FILE * MICROS_OF_AN_HOUR)
    within = pc.cast(pc.floor(pc.multiply(pc.random(rows, initializer=number + 10_000), 3.6e9)), pa.int64())
    pick = pc.cast(pc.floor(pc.multiply(place, float(LATE_HOURS))), pa.int64())
    # A device comes back and brings one hour of long ago: of a quarter, a half and three quarters of the way here.
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
