"""Wait until the files of a table can be trusted before indexing them, and log the files that an index leaves out.

Builds and updates call `settle`, whether this process or Spark's executors read the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from parsieve.lake.base import LASTING_REASONS, SAME_LOCATION, Lake, LeftOut, Slice, Snapshot
from parsieve.lake.slices import locations_and_tokens
from parsieve.observe.logs import INDEX

# How many paths one warning lists.
LISTED = 5


def settle(lake: Lake, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot to index, whose `unsettled` names the slices that cannot be indexed now.

    A file that changed within one tick of the filesystem's clock may change again without a new timestamp, so it
    cannot be indexed safely. This waits once until the tick is over, and lists the files again. Files that change
    during the wait are not indexed, so a table that is written all the time does not delay the build.

    A snapshot that went through this before is returned unchanged.
    """
    if snapshot.unsettled is not None:
        return snapshot
    settled = lake.settled(snapshot)
    counts = Counter(locations_and_tokens(settled.slices)[0])
    duplicates = {location: SAME_LOCATION for location, count in counts.items() if count > 1}
    if duplicates:
        settled = replace(settled, unsettled={**(settled.unsettled or {}), **duplicates})
    return settled


def unsettled(snapshot: Snapshot) -> tuple[LeftOut, ...]:
    """Return the slices that an index cannot cover, with reasons."""
    reasons = snapshot.unsettled or {}
    locations, _ = locations_and_tokens(snapshot.slices)
    numbers = [number for number, location in enumerate(locations) if location in reasons]
    return tuple(
        _left_out(path_of_slice(file_slice), reasons[file_slice.location]) for file_slice in snapshot.slices.at(numbers)
    )


def _left_out(path: str, reason: str) -> LeftOut:
    return LeftOut(path, reason, until_update=reason not in LASTING_REASONS)


def path_of_slice(file_slice: Slice) -> str:
    """Return the path of the base file, or the file group if it has only log files."""
    return file_slice.path or "/".join(filter(None, (file_slice.partition, file_slice.group)))


def log_left_out(left_out: Sequence[LeftOut], where: object) -> None:
    """Log the files that an index does not cover. The report of the build or update has them too."""
    if not left_out:
        return
    listed = "; ".join(map(str, left_out[:LISTED]))
    more = f"; and {len(left_out) - LISTED} more" if len(left_out) > LISTED else ""
    INDEX.warning(
        "%s leaves out %d %s, which every plan reads: %s%s",
        where,
        len(left_out),
        "file" if len(left_out) == 1 else "files",
        listed,
        more,
        extra={"is_in_report": True},
    )
