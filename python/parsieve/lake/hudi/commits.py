"""Read which file groups the commits of a Hudi table wrote and replaced."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from parsieve._core import FormatError

# The partition and the id of a file group.
Group = tuple[str, str]


class Commits:
    """The file groups that completed instants wrote and replaced. A completed instant never changes."""

    def __init__(self) -> None:
        self._written: dict[str, frozenset[Group]] = {}
        self._replaced: dict[str, frozenset[Group]] = {}

    def written(self, table: Any, instant: str) -> frozenset[Group]:
        """Return the file groups that an instant wrote. An archived instant has none."""
        if instant not in self._written:
            timeline = table.get_timeline()
            self._read(timeline, completed_instants(timeline))
        return self._written.get(instant, frozenset())

    def replaced(self, table: Any, instants: Collection[str]) -> set[Group]:
        """Return the file groups that some instants replaced. This reads only the instants that replace file groups."""
        timeline = table.get_timeline()
        self._read(timeline, timeline.get_completed_replacecommits())
        return {group for instant in instants for group in self._replaced.get(instant, ())}

    def _read(self, timeline: Any, instants: Sequence[Any]) -> None:
        for completed in instants:
            instant = completed.timestamp
            if instant in self._written:
                continue
            try:
                metadata = json.loads(timeline.get_instant_metadata_in_json(completed))
            except ValueError as error:
                raise FormatError(f"the instant {instant} in Hudi's timeline is damaged: {error}") from error
            replaced = (metadata.get("partitionToReplaceFileIds") or {}).items()
            self._replaced[instant] = frozenset((partition, str(group)) for partition, ids in replaced for group in ids)
            written = (metadata.get("partitionToWriteStats") or {}).items()
            self._written[instant] = frozenset(
                (partition, str(stat["fileId"])) for partition, stats in written for stat in stats
            )


def completed_instants(timeline: Any) -> list[Any]:
    """Return the completed instants that write rows, as objects of the `hudi` package."""
    return [
        *timeline.get_completed_commits(),
        *timeline.get_completed_deltacommits(),
        *timeline.get_completed_replacecommits(),
    ]
