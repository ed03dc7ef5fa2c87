"""Replay Delta's log to get the protocol, the metadata and the data files of a version."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow.parquet as pq

from parsieve._core import FormatError, UnsupportedError
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.lake.delta.files import Key, LogFiles, NewFiles
from parsieve.lake.rows.file_rows import foreign
from parsieve.lake.storage.storage import Storage

ReadT = TypeVar("ReadT")
_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PARTS = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_SECOND = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(json|parquet)")
_ADD = ["path", "partitionValues", "size", "modificationTime", "stats", "deletionVector"]
_OTHERS = ["metaData", "protocol", "sidecar"]
# Batch sizes for a checkpoint: its rows, and the bytes that one request reads.
_ROWS, _BUFFER = 1 << 15, 1 << 16
_COLUMNS = [*(f"add.{name}" for name in _ADD), *_OTHERS]


@dataclass(frozen=True, slots=True)
class LogState:
    """The contents of the log at a version."""

    version: int
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    files: LogFiles


def latest_version(storage: Storage) -> int:
    """Return the newest version in the log."""
    versions = [int(match[1]) for name in storage.names("_delta_log") if (match := _COMMIT.fullmatch(name))]
    if not versions:
        raise FileNotFoundError(f"no Delta table in {storage.uri}")
    return max(versions)


def commit_token(storage: Storage, version: int) -> str:
    """Return the token of the commit of a version, or "" if it has none yet or was deleted."""
    try:
        return storage.stat(storage.join(f"_delta_log/{version:020}.json"))
    except FileNotFoundError:
        return ""


def state_at(storage: Storage, version: int, earlier: LogState | None = None) -> LogState:
    """Replay the log from an earlier state, or else from the newest checkpoint at or before the version."""
    names = storage.names("_delta_log")
    if earlier is not None and earlier.version < version:
        commits = [f"{number:020}.json" for number in range(earlier.version + 1, version + 1)]
        if all(name in names for name in commits):
            return _replay(storage, version, [], commits, earlier)
    begin, checkpoint = _checkpoint(names, version)
    missing = [number for number in range(begin + 1, version + 1) if f"{number:020}.json" not in names]
    if missing:
        raise UnsupportedError(
            f"cannot read version {version} of {storage.uri}: version {missing[0]} is missing in its log"
        )
    commits = [f"{number:020}.json" for number in range(begin + 1, version + 1)]
    return _replay(storage, version, checkpoint, commits, None)


def _replay(
    storage: Storage, version: int, checkpoint: Sequence[str], commits: Sequence[str], earlier: LogState | None
) -> LogState:
    replay = _Replay(storage)
    if earlier is not None:
        replay.state = {"protocol": earlier.protocol, "metaData": earlier.metadata}
        replay.base.append(earlier.files)
    for content in _read_all(storage, _checkpoint_content, checkpoint):
        replay.add_checkpoint(content)
    for name, text in zip(commits, _read_all(storage, _read, commits), strict=True):
        replay.apply(_lines(text, name))
    state = replay.state
    if "protocol" not in state or "metaData" not in state:
        raise FormatError(f"the log of {storage.uri} has no protocol or no metadata at version {version}")
    return LogState(version, state["protocol"], state["metaData"], replay.files())


def _checkpoint(names: set[str], version: int) -> tuple[int, list[str]]:
    """Return the version and the files of the newest complete checkpoint, or -1 and no files if there is none."""
    complete: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        if match := _CLASSIC.fullmatch(name) or _SECOND.fullmatch(name):
            complete[int(match[1])] = [name]
        elif match := _PARTS.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3])), []).append(name)
    for (at, count), paths in parts.items():
        if len(paths) == count:
            complete.setdefault(at, paths)
    begin = max((at for at in complete if at <= version), default=-1)
    return begin, complete.get(begin, [])


def _read_all(storage: Storage, read: Callable[[Storage, str], ReadT], names: Sequence[str]) -> Iterator[ReadT]:
    """Apply a function to each file, in order. Files of a store are read concurrently."""
    if storage.is_local or len(names) < 2:
        yield from (read(storage, name) for name in names)
        return
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
        yield from pool.map(partial(read, storage), names)


def _read(storage: Storage, name: str) -> bytes:
    with storage.open(storage.join(f"_delta_log/{name}")) as file:
        data: bytes = file.read()
    return data


def _lines(text: bytes, name: str) -> Sequence[Mapping[str, Any]]:
    """Return the actions of a file, one on each line."""
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        # One array is read faster than many objects.
        actions: list[Mapping[str, Any]] = json.loads(b"[%b]" % b",".join(lines))
        if len(actions) == len(lines):
            return actions
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise FormatError(f"{name} of Delta's log contains a line that is not JSON: {error}") from error


@dataclass(slots=True)
class _Content:
    """A file of a checkpoint: its files as columns, and its other actions as objects."""

    files: list[LogFiles] = field(default_factory=list)
    actions: list[Mapping[str, Any]] = field(default_factory=list)


def _checkpoint_content(storage: Storage, name: str) -> _Content:
    if name.endswith(".json"):
        return _Content(actions=[*_lines(_read(storage, name), name)])
    with foreign(f"{name} of Delta's log"), storage.open(storage.join(f"_delta_log/{name}")) as source:
        # Read a few rows at a time, and only the bytes that they need, to save memory.
        file = pq.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=not storage.is_local)
        names = file.schema_arrow.names
        columns = [column for column in _COLUMNS if column.partition(".")[0] in names]
        content = _Content()
        for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
            if "add" in names:
                with _checked():
                    files = LogFiles.of_adds(batch.column("add"))
                content.files += [] if files is None else [files]
            for kind in _OTHERS:
                if kind in names:
                    content.actions += [{kind: action} for action in batch.column(kind).drop_null().to_pylist()]
    return content


class _Replay:
    """The state of the log while its actions are applied one after another."""

    def __init__(self, storage: Storage) -> None:
        self.state: dict[str, Any] = {}
        # The files of the checkpoint, or of an earlier state.
        self.base: list[LogFiles] = []
        # The files that commits added, and the keys of files that commits removed.
        self._added = NewFiles()
        self._removed: set[Key] = set()
        self._storage = storage

    def add_checkpoint(self, content: _Content) -> None:
        """Add the contents of a file of the checkpoint, with its sidecars."""
        self.base += content.files
        for action in content.actions:
            if sidecar := action.get("sidecar"):
                with _checked():
                    name = unquote(sidecar["path"]).rpartition("/")[2]
                self.add_checkpoint(_checkpoint_content(self._storage, f"_sidecars/{name}"))
            elif not action.get("remove"):
                # A checkpoint lists removed files for `VACUUM`. Its `add` actions are the files of the table.
                self.apply([action])

    def apply(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Apply the actions of a commit."""
        added, removed, state = self._added, self._removed, self.state
        adds: list[Mapping[str, Any]] = []
        with _checked():
            for action in actions:
                if add := action.get("add"):
                    adds.append(add)
                elif remove := action.get("remove"):
                    added.add(adds)
                    adds.clear()
                    removed.add(added.remove(remove))
                for name in ("protocol", "metaData"):
                    if action.get(name):
                        state[name] = action[name]
            added.add(adds)

    def files(self) -> LogFiles:
        """Return the files in the table after all actions."""
        with _checked():
            replaced = self._removed.union(self._added.keys())
            base = [part.without(replaced) for part in self.base]
            return LogFiles.concatenated([*base, self._added.columns()]).without_duplicates()


@contextmanager
def _checked() -> Iterator[None]:
    """Convert errors about missing or malformed fields to `FormatError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"an action in Delta's log violates the protocol: {error!r}") from error
