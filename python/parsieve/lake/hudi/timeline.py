"""Read a Hudi table's timeline: which instants were completed, and which of their files were cleaned."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from parsieve._core import FormatError, UnsupportedError
from parsieve.lake.hudi import properties as hudi_properties
from parsieve.lake.rows.file_rows import foreign
from parsieve.lake.storage.storage import Storage
from parsieve.sharing import cached_property

_NAME = re.compile(r"(\d{14,17})(?:_(\d{14,17}))?\.([a-z]+)(?:\.(requested|inflight))?")
_WRITES = {"commit", "deltacommit", "replacecommit"}
# The names of completed actions, if they differ from the names of the same actions while they run.
_COMPLETED_ACTIONS = {
    "clustering": "replacecommit",
    "compaction": "commit",
    "logcompaction": "deltacommit",
    "inflight": "commit",
}
_ARCHIVED = re.compile(r"\d{14,17}_\d{14,17}_\d+\.parquet")
_CLEAN_FIELDS = ["startCleanTime", "timeTakenInMillis", "totalFilesDeleted", "earliestCommitToRetain"]


@dataclass(frozen=True)
class Timeline:
    """The active timeline of a table at the time of its listing."""

    storage: Storage
    # `.hoodie/timeline` since table version 8, `.hoodie` before.
    folder: str
    names: frozenset[str]
    # Changes whenever a file of the timeline changes. It is "" while an action runs, or if one has just ended.
    fingerprint: str = ""

    @cached_property
    def _instants_by_state(self) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
        done, begun, cleans = set(), set(), []
        for name in self.names:
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            instant, _, action, state = match.groups()
            if state is None and action in _WRITES:
                done.add(instant)
            elif state is None and action == "clean":
                cleans.append(name)
            elif _COMPLETED_ACTIONS.get(action, action) in _WRITES:
                begun.add(instant)
        return frozenset(done), frozenset(begun - done), tuple(sorted(cleans))

    @property
    def completed(self) -> frozenset[str]:
        """Return the completed instants that write rows."""
        return self._instants_by_state[0]

    @property
    def pending(self) -> frozenset[str]:
        """Return the instants of running and abandoned writes."""
        return self._instants_by_state[1]

    @cached_property
    def pending_compactions(self) -> frozenset[str]:
        """Return the instants of compactions that were scheduled, and have not completed."""
        names = map(_NAME.fullmatch, self.names)
        return frozenset(name[1] for name in names if name is not None and name[3] == "compaction") - self.completed

    @cached_property
    def completions(self) -> dict[str, str]:
        """The times at which instants completed. Timelines before table version 8 have no such times."""
        names = map(_NAME.fullmatch, self.names)
        return {name[1]: name[2] for name in names if name is not None and name[2] is not None}

    @cached_property
    def first(self) -> str:
        """Return the first completed instant that was not archived."""
        return min(self.completed, default="")

    def is_committed(self, instant: str) -> bool:
        """Return whether the files of an instant are part of the table. The files of archived instants are."""
        return instant in self.completed or (instant < self.first and instant not in self.pending)

    @cached_property
    def archived(self) -> tuple[str, ...]:
        """Return the files with archived instants, since table version 8. Their names have the first and last one."""
        folder = f"{self.folder}/history"
        try:
            version = self._read(f"{folder}/_version_").decode(errors="replace").strip()
        except FileNotFoundError:
            return ()
        manifest = f"{folder}/manifest_{version}"
        try:
            names = [str(file["fileName"]) for file in json.loads(self._read(manifest))["files"]]
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{manifest} is malformed: {error!r}") from error
        return tuple(f"{folder}/{name}" for name in names if _ARCHIVED.fullmatch(name))

    def archived_completions(self, instants: Collection[str]) -> dict[str, str]:
        """Return when archived instants completed. Instants without such a time are missing."""
        completions: dict[str, str] = {}
        for path in self.archived:
            first, last, _ = path.rpartition("/")[2].split("_")
            wanted = {instant for instant in instants if first <= instant <= last} - completions.keys()
            if not wanted:
                continue
            with foreign(path), self.storage.open(self.storage.join(path)) as file:
                table = pq.read_table(file, columns=["instantTime", "completionTime"])
            pairs = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
            completions |= {instant: completion for instant, completion in pairs if instant in wanted and completion}
        return completions

    def check_not_cleaned(self, instant: str) -> None:
        """Raise an error if files of the table's state at an instant may have been deleted."""
        if instant < self.first:
            raise ValueError(f"the timeline of {self.storage.uri} begins at {self.first}, after {instant}")
        for name in self._instants_by_state[2][-1:]:
            earliest = self._earliest_kept(name)
            if not earliest and instant < name[:17]:
                raise UnsupportedError(
                    f"{self.storage.uri} was cleaned after {instant}, and its timeline does not record how far; "
                    "choose a later instant"
                )
            if earliest and instant < earliest:
                raise ValueError(
                    f"{self.storage.uri} was cleaned, so files of {instant} are missing; "
                    f"the earliest complete instant is {earliest}"
                )

    def _earliest_kept(self, name: str) -> str:
        return earliest_kept(self._read(f"{self.folder}/{name}"), name)

    def _read(self, path: str) -> bytes:
        with self.storage.open(self.storage.join(path)) as file:
            data: bytes = file.read()
        return data


def read_timeline(storage: Storage) -> Timeline:
    """List the timeline of a table."""
    folder = ".hoodie/timeline"
    tokens = storage.marks(folder)
    # A downgrade to version 6 moves the instants to `.hoodie`, and leaves the folder behind.
    if not any(map(_NAME.fullmatch, tokens)):
        folder = ".hoodie"
        tokens = storage.marks(folder)
    if not tokens:
        raise FileNotFoundError(f"no Hudi table in {storage.uri}")
    return Timeline(storage, folder, frozenset(tokens), _fingerprint(folder, tokens))


def _fingerprint(folder: str, tokens: Mapping[str, str | None]) -> str:
    """Return a text that identifies the state of a timeline, or "" while an action runs.

    Files are added and deleted only by inflight instants: writes, compactions, cleans, rollbacks, restores, and
    abandoned writes, which the next writer rolls back. A requested action has not begun yet.
    """
    tokens = {name: token for name, token in tokens.items() if token is not None and _NAME.fullmatch(name)}
    if "" in tokens.values():
        return ""
    done, begun = set(), set()
    for name in tokens:
        match = _NAME.fullmatch(name)
        assert match is not None
        if match[4] == "inflight" or match[3] == "inflight":
            begun.add(match[1])
        elif match[4] is None:
            done.add(match[1])
    if begun - done:
        return ""
    text = "\n".join(f"{name} {token}" for name, token in sorted(tokens.items()))
    return hashlib.blake2b(f"{folder}\n{text}".encode(), digest_size=32).hexdigest()


def properties_of(storage: Storage) -> dict[str, str]:
    """Return the table's properties."""
    return read_properties(hudi_properties.read_text(storage))


def read_properties(text: str) -> dict[str, str]:
    """Parse the text of a properties file."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().replace("\\:", ":") for name, _, value in pairs}


class _Avro:
    """A reader of Avro numbers and texts."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._at, self._name = data, 0, name

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._at:
            raise FormatError(f"{self._name} of Hudi's timeline is incomplete")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        number = shift = 0
        while True:
            (byte,) = self.take(1)
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (number >> 1) ^ -(number & 1)
            if shift > 63:
                raise FormatError(f"{self._name} of Hudi's timeline contains an invalid number")

    def text(self) -> bytes:
        return self.take(self.number())


def earliest_kept(data: bytes, name: str) -> str:
    """Return the earliest instant that a clean action kept complete, from the bytes of its record.

    Return "" if the cleaner keeps a number of file versions, and not all files since an instant.
    """
    if not data:
        return ""
    source = _Avro(data, name)
    if source.take(4) != b"Obj\1":
        raise FormatError(f"not an Avro file: {name} of Hudi's timeline")
    metadata: dict[bytes, bytes] = {}
    while count := source.number():
        if count < 0:
            source.number()
        for _ in range(abs(count)):
            key = source.text()
            metadata[key] = source.text()
    source.take(16)
    try:
        fields: list[Any] = json.loads(metadata.get(b"avro.schema", b""))["fields"]
        is_supported = [field["name"] for field in fields[:4]] == _CLEAN_FIELDS
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{name} of Hudi's timeline has no schema: {error!r}") from error
    codec = metadata.get(b"avro.codec", b"null")
    if not is_supported or codec not in (b"null", b"deflate"):
        raise UnsupportedError(
            f"{name} of Hudi's timeline has a schema or codec that this version of parsieve does not support"
        )
    source.number()
    block = source.text()
    try:
        record = _Avro(zlib.decompress(block, -15) if codec == b"deflate" else block, name)
    except zlib.error as error:
        raise FormatError(f"{name} of Hudi's timeline is damaged: {error}") from error
    record.text()
    record.number()
    record.number()
    return record.text().decode(errors="replace")
