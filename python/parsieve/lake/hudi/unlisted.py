"""Find the file groups of a table that the package `hudi` does not list.

Without Hudi's metadata table, or if it cannot open it, the package takes only folders without other folders for
partitions, and never the folder `metadata`. In a table without partition columns, it looks for files only in the
table's folder. With the metadata table, it leaves out file groups that have logs and no base file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from parsieve.lake.hudi.commits import Group
from parsieve.lake.hudi.metadata_table import lists_all_files
from parsieve.lake.hudi.timeline import Timeline
from parsieve.lake.storage.storage import Storage
from parsieve.sharing import cached_property

_BASE = re.compile(r"([^_]+)_[^_]*_(\d{14,17})\.parquet")
_LOG = re.compile(r"\.([^_]+)_(\d{14,17})\.log\.\d+(?:_\d+-\d+-\d+)?")
_PARTITION = ".hoodie_partition_metadata"


@dataclass(frozen=True, slots=True)
class FoundSlice:
    """The newest version of a file group at an instant, with the attributes that the package `hudi` gives a slice."""

    partition_path: str
    file_id: str
    creation_instant_time: str
    # "" without a base file.
    base_file_name: str
    base_file_size: int
    log_file_names: list[str]
    log_file_sizes: list[int]

    def base_file_relative_path(self) -> str:
        """Return the path of the base file below the table."""
        return _join(self.partition_path, self.base_file_name)

    def log_files_relative_paths(self) -> list[str]:
        """Return the paths of the logs below the table."""
        return [_join(self.partition_path, name) for name in self.log_file_names]


@dataclass(slots=True)
class _Files:
    """The files of one file group, each with the instant in its name."""

    bases: dict[str, str] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    # As far as the listing contains them.
    sizes: dict[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Search:
    """A search for file groups in the folders of a table at an instant."""

    storage: Storage
    timeline: Timeline
    properties: Mapping[str, str]
    instant: str
    # Returns the file groups that an instant of the active timeline wrote.
    written: Callable[[str], Collection[Group]]
    # Returns the file groups that some completed instants replaced.
    replaced: Callable[[Collection[str]], Collection[Group]]

    def slices(self, listed: Collection[Group]) -> Iterator[FoundSlice]:
        """Yield the file groups of the table that are not listed."""
        if not self._has_logs and self._has_partitions and self._has_metadata_table:
            # The metadata table lists all base files.
            return
        missing = {group: files for group, files in self._files().items() if group not in listed}
        if missing:
            completed = {instant for instant in self.timeline.completed if instant <= self.instant}
            for group in missing.keys() - self.replaced(completed):
                found = self._newest(group, missing[group])
                if found is not None:
                    yield found

    @property
    def _has_logs(self) -> bool:
        return self.properties.get("hoodie.table.type") == "MERGE_ON_READ"

    @property
    def _has_partitions(self) -> bool:
        return bool(self.properties.get("hoodie.table.partition.fields"))

    @cached_property
    def _has_metadata_table(self) -> bool:
        """Return whether the package `hudi` lists the table by its metadata table. The check makes several requests."""
        partitions = self.properties.get("hoodie.table.metadata.partitions", "").split(",")
        return self._version >= 8 and "files" in partitions and lists_all_files(self.storage)

    @property
    def _version(self) -> int:
        return int(self.properties.get("hoodie.table.version", "6"))

    def _files(self) -> dict[Group, _Files]:
        """Return the committed files in all partitions."""
        folders: dict[str, dict[str, int | None]] = {}
        others = set[str]()
        for path, size in self.storage.sizes(skip=(".hoodie",)):
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, {})[name] = size
            above, has_other, _ = f"/{folder}/".partition("/.hoodie/")
            if has_other:
                # Another Hudi table.
                others.add(above.lstrip("/"))
        groups: dict[Group, _Files] = {}
        for folder, sizes in folders.items():
            if any(f"{folder}/".startswith(f"{other}/") for other in others):
                continue
            if folder and not any(name.startswith(_PARTITION) for name in sizes):
                continue
            for name, size in sizes.items():
                self._add(groups, folder, name, size)
        return groups

    def _add(self, groups: dict[Group, _Files], folder: str, name: str, size: int | None) -> None:
        base = _BASE.fullmatch(name)
        log = _LOG.fullmatch(name) if self._has_logs else None
        match = base or log
        if match is None or match[2] > self.instant:
            return
        # In the names of old logs, the instant is that of the base file, or of a compaction that is only scheduled.
        if not self.timeline.is_committed(match[2]) and (base or self._version >= 8):
            return
        files = groups.setdefault((folder, match[1]), _Files())
        (files.logs if base is None else files.bases)[name] = match[2]
        files.sizes[name] = size

    def _newest(self, group: Group, files: _Files) -> FoundSlice | None:
        """Return the newest version of a file group, or None if only failed writes wrote its files."""
        partition, group_id = group
        bases = {name: instant for name, instant in files.bases.items() if self._is_written(instant, group)}
        if files.bases and (self._has_partitions or not partition) and self._has_metadata_table:
            return None
        base = max(bases, key=lambda name: (bases[name], name), default="")
        begin = bases.get(base, "")
        if self._version >= 8:
            completed = self._completions(files.logs.values()) if begin else {}
            logs = [name for name, instant in files.logs.items() if completed.get(instant, instant) >= begin]
        else:
            logs = [name for name, instant in files.logs.items() if instant == begin or not begin]
        if not base and not logs:
            return None
        logs.sort()

        def size_of(name: str) -> int:
            size = files.sizes[name]
            return self.storage.version(self.storage.join(_join(partition, name))).size if size is None else size

        return FoundSlice(
            partition_path=partition,
            file_id=group_id,
            creation_instant_time=begin or min(files.logs.values()),
            base_file_name=base,
            base_file_size=size_of(base) if base else 0,
            log_file_names=logs,
            log_file_sizes=[size_of(name) for name in logs],
        )

    def _is_written(self, instant: str, group: Group) -> bool:
        return instant not in self.timeline.completed or group in self.written(instant)

    def _completions(self, instants: Collection[str]) -> dict[str, str]:
        """Return the times at which instants completed, as far as the timeline has them."""
        active = self.timeline.completions
        return active | self.timeline.archived_completions(set(instants) - active.keys())


def _join(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name
