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

import pyarrow.compute as pc
import pyarrow.parquet as pq

from parsieve._core import FormatError, UnsupportedError, delta_adds
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.lake.delta.files import Key, LogFiles, key_of, unquoted
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
# Bytes of commits that are read together.
_BATCH_BYTES = 8 << 20
_COLUMNS = [*(f"add.{name}" for name in _ADD), *_OTHERS]


@dataclass(frozen=True, slots=True)
class LogState:
    """The contents of the log at a version."""

    version: int
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    files: LogFiles


def latest_version(storage: Storage) -> int:
    """Return the newest version in the log. A version with a checkpoint may have no commit file."""
    names = storage.names("_delta_log")
    newest = max((name for name in names if _COMMIT.fullmatch(name)), default="")
    # Most checkpoint names sort before the newest commit's name, so only the few names after it are parsed.
    checkpoint, _ = _checkpoint({name for name in names if name > newest})
    if not newest and checkpoint < 0:
        raise FileNotFoundError(f"no Delta table in {storage.uri}")
    return max(checkpoint, int(newest[:20] or -1))


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
    empty: set[str] = set()
    while True:
        begin, checkpoint = _checkpoint(names - empty, version)
        missing = [number for number in range(begin + 1, version + 1) if f"{number:020}.json" not in names]
        if missing:
            reason = f", and {min(empty)} is empty" if empty else ""
            raise UnsupportedError(
                f"cannot read version {version} of {storage.uri}: version {missing[0]} is missing from its log{reason}"
            )
        commits = [f"{number:020}.json" for number in range(begin + 1, version + 1)]
        try:
            return _replay(storage, version, checkpoint, commits, None)
        except FormatError:
            # Delta's readers ignore empty checkpoints, which a writer leaves if it stops.
            found = {name for name in checkpoint if _is_empty(storage, name)}
            if not found:
                raise
            empty |= found


def _replay(
    storage: Storage, version: int, checkpoint: Sequence[str], commits: Sequence[str], earlier: LogState | None
) -> LogState:
    replay = _Replay(storage)
    if earlier is not None:
        replay.state = {"protocol": earlier.protocol, "metaData": earlier.metadata}
        replay.add_files(earlier.files)
    for content in _read_all(storage, _checkpoint_content, checkpoint):
        replay.add_checkpoint(content)
    for batch in _batches(zip(commits, _read_all(storage, _read, commits), strict=True)):
        replay.add_commits(batch)
    state = replay.state
    if "protocol" not in state or "metaData" not in state:
        raise FormatError(f"the log of {storage.uri} has no protocol or no metadata at version {version}")
    for name in ("protocol", "metaData"):
        if not isinstance(state[name], dict):
            raise FormatError(f"the log of {storage.uri} has {state[name]!r} as its {name} at version {version}")
    return LogState(version, state["protocol"], state["metaData"], replay.files())


def _checkpoint(names: set[str], version: int | None = None) -> tuple[int, list[str]]:
    """Return the version and the files of the newest complete checkpoint, or -1 and no files if there is none.

    With a version, later checkpoints are ignored.
    """
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
    begin = max((at for at in complete if version is None or at <= version), default=-1)
    return begin, complete.get(begin, [])


def _read_all(storage: Storage, read: Callable[[Storage, str], ReadT], names: Sequence[str]) -> Iterator[ReadT]:
    """Apply a function to each file, in order. Files of a store are read concurrently."""
    if storage.is_local or len(names) < 2:
        yield from (read(storage, name) for name in names)
        return
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
        yield from pool.map(partial(read, storage), names)


def _is_empty(storage: Storage, name: str) -> bool:
    with storage.open(storage.join(f"_delta_log/{name}")) as file:
        return not file.read(1)


def _read(storage: Storage, name: str) -> bytes:
    with storage.open(storage.join(f"_delta_log/{name}")) as file:
        data: bytes = file.read()
    return data


def _batches(commits: Iterable[tuple[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """Yield the contents of commits by name, several at a time."""
    batch: dict[str, bytes] = {}
    size = 0
    for name, text in commits:
        batch[name] = text
        size += len(text)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = {}, 0
    if batch:
        yield batch


def _lines(text: bytes, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the actions of a file, one on each line."""
    try:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
    except ValueError as error:
        raise FormatError(f"{name} of Delta's log contains a line that is not JSON: {error}") from error


def _others(lines: Sequence[bytes]) -> list[Mapping[str, Any]] | None:
    """Return the actions in some lines, or None if a line is not an action, or adds a file."""
    try:
        actions = [json.loads(line) for line in lines]
    except ValueError:
        return None
    return None if any(type(action) is not dict or action.get("add") for action in actions) else actions


@dataclass(slots=True)
class _Content:
    """A file of a checkpoint: its files as columns, and its other actions as objects."""

    files: list[LogFiles] = field(default_factory=list)
    actions: list[Mapping[str, Any]] = field(default_factory=list)


def _checkpoint_content(storage: Storage, name: str) -> _Content:
    if name.endswith(".json"):
        text = _read(storage, name)
        if not text:
            raise FormatError(f"{name} of Delta's log is empty")
        return _Content(actions=[*_lines(text, name)])
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
        # All files that were added, in order, and their number.
        self._parts: list[LogFiles] = []
        self._count = 0
        # The keys of removed files, with the number of files in front of each removal.
        self._removed: dict[Key, int] = {}
        self._storage = storage

    def add_checkpoint(self, content: _Content) -> None:
        """Add the contents of a file of the checkpoint, with its sidecars."""
        for files in content.files:
            self.add_files(files)
        for action in content.actions:
            if sidecar := action.get("sidecar"):
                with _checked():
                    name = unquote(sidecar["path"]).rpartition("/")[2]
                self.add_checkpoint(_checkpoint_content(self._storage, f"_sidecars/{name}"))
        # A checkpoint lists removed files for `VACUUM`. Its `add` actions are the files of the table.
        self._apply(action for action in content.actions if not (action.get("sidecar") or action.get("remove")))

    def add_commits(self, commits: Mapping[str, bytes]) -> None:
        """Apply the actions of commits."""
        log = b"\n".join(commits.values())
        columns, lines = delta_adds(log)
        others = _others([log[start:end] for _, start, end in lines])
        if others is None:
            # Python reads unusual actions, or finds the commit with the error.
            for name, text in commits.items():
                self._apply(_lines(text, name))
            return
        with _checked():
            for (num_adds, _, _), action in zip(lines, others, strict=True):
                self._apply_other(action, self._count + num_adds)
            self.add_files(LogFiles.of_lines(columns))

    def _apply(self, actions: Iterable[Mapping[str, Any]]) -> None:
        adds: list[Mapping[str, Any]] = []
        with _checked():
            for action in actions:
                if add := action.get("add"):
                    adds.append(add)
                self._apply_other(action, self._count + len(adds))
            self.add_files(LogFiles.of_actions(adds))

    def _apply_other(self, action: Mapping[str, Any], count: int) -> None:
        """Apply an action, except for its added file, after some number of files."""
        if (remove := action.get("remove")) and not action.get("add"):
            self._removed[key_of(unquoted(remove["path"]), remove.get("deletionVector"))] = count
        for name in ("protocol", "metaData"):
            if action.get(name):
                self.state[name] = action[name]

    def add_files(self, files: LogFiles) -> None:
        """Add files after all others."""
        self._parts.append(files)
        self._count += len(files)

    def files(self) -> LogFiles:
        """Return the files in the table after all actions."""
        with _checked():
            files = LogFiles.concatenated(self._parts).without(self._removed).without_duplicates()
            if pc.any(pc.match_substring(files.path, "\0")).as_py():
                raise ValueError("the path of a file contains a null character")
            return files


@contextmanager
def _checked() -> Iterator[None]:
    """Convert errors about missing or malformed fields to `FormatError`."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FormatError(f"an action in Delta's log violates the protocol: {error!r}") from error
