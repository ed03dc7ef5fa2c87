"""Find the version of a Delta table at a time by the timestamps in its commits.

If a table has the feature `inCommitTimestamp`, the first action of each commit contains its time. Otherwise, only the
modification times of the files tell when they were committed, and a copy of the table has other ones.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from parsieve._core import FormatError
from parsieve.lake.storage.storage import Storage

_COMMIT = re.compile(r"(\d{20})\.json")
# The first action of a commit is usually shorter.
_FIRST_READ = 1 << 14
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class CommitTimes:
    """The versions whose commits contain their times, up to the newest one.

    `enabled_since` reads from the table's metadata which version enabled the feature. It returns None if none did.
    """

    def __init__(self, storage: Storage, enabled_since: Callable[[], int | None]) -> None:
        self._storage = storage
        self._times: dict[int, int | None] = {}
        versions = sorted(int(name[:20]) for name in storage.names("_delta_log") if _COMMIT.fullmatch(name))
        # If the feature was enabled later, earlier commits contain no time, unless it was enabled before and disabled.
        first = len(versions)
        if versions and self._has_time(versions[-1]):
            since = enabled_since()
            first = bisect_left(versions, True, key=self._has_time) if since is None else bisect_left(versions, since)
        self.versions = versions[first:]
        # The versions before them.
        self.others = versions[:first]

    def newest_until(self, moment: dt.datetime) -> int | None:
        """Return the newest of these versions at a time, or None if all of them are newer."""
        milliseconds = (moment - _EPOCH) // dt.timedelta(milliseconds=1)
        place = bisect_right(self.versions, milliseconds, key=lambda version: self._time(version) or 0)
        return self.versions[place - 1] if place else None

    def _has_time(self, version: int) -> bool:
        return self._time(version) is not None

    def _time(self, version: int) -> int | None:
        """Return the time in a commit, in milliseconds since 1970, or None if it contains none."""
        if version not in self._times:
            path = self._storage.join(f"_delta_log/{version:020}.json")
            with self._storage.open(path) as file:
                start: bytes = file.read(_FIRST_READ)
                if b"\n" not in start:
                    start += file.read()
            try:
                action = json.loads(start.split(b"\n", 1)[0])
                time = action.get("commitInfo", {}).get("inCommitTimestamp")
            except (ValueError, AttributeError) as error:
                raise FormatError(f"{path}: the first action is malformed: {error}") from error
            self._times[version] = time if isinstance(time, int) else None
        return self._times[version]
