"""Delta's log as it stands at a version: protocol, metadata, and the files with their deletion vectors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from parsieve._core import FormatError, UnsupportedError
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.lake.rows.file_rows import foreign
from parsieve.lake.storage.storage import Storage

_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PARTS = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_SECOND = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(json|parquet)")
_ADD = ["path", "partitionValues", "size", "modificationTime", "stats", "deletionVector"]
_COLUMNS = [*(f"add.{name}" for name in _ADD), "metaData", "protocol", "sidecar"]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that an `add` action brought and no `remove` took away."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modified: int
    stats: str | None
    vector: Mapping[str, Any] | None

    @property
    def vector_id(self) -> str:
        """What tells one deletion vector of a file from another; "" where there is none."""
        return _vector_id(self.vector)


@dataclass(frozen=True, slots=True)
class LogState:
    """What the log says at a version."""

    version: int
    protocol: Mapping[str, Any]
    metadata: Mapping[str, Any]
    files: list[DataFile]


def _vector_id(vector: Mapping[str, Any] | None) -> str:
    if vector is None:
        return ""
    offset = "" if vector.get("offset") is None else f"@{vector['offset']}"
    return f"{vector['storageType']}{vector['pathOrInlineDv']}{offset}"


def latest_version(storage: Storage) -> int:
    """The newest version in the log."""
    versions = [int(match[1]) for name in storage.names("_delta_log") if (match := _COMMIT.fullmatch(name))]
    if not versions:
        raise FileNotFoundError(f"no Delta table in {storage.uri}")
    return max(versions)


def commit_mark(storage: Storage, version: int) -> str:
    """What proves that the commit of a version is still the same file; "" where nothing does, or it is gone."""
    try:
        return storage.stat(storage.join(f"_delta_log/{version:020}.json"))
    except FileNotFoundError:
        return ""


def state_at(storage: Storage, version: int) -> LogState:
    """Replay the log from the newest checkpoint that a version can begin with."""
    names = storage.names("_delta_log")
    begin, checkpoint = _checkpoint(names, version)
    missing = [one for one in range(begin + 1, version + 1) if f"{one:020}.json" not in names]
    if missing:
        raise UnsupportedError(
            f"the log of {storage.uri} lacks version {missing[0]}, so version {version} cannot be told any more"
        )
    state: dict[str, Any] = {}
    files: dict[tuple[str, str], DataFile] = {}
    with ThreadPoolExecutor(REQUESTS_AT_ONCE, "parsieve-read") as pool:
        for actions in pool.map(lambda name: list(_checkpoint_actions(storage, name)), checkpoint):
            _apply(actions, state, files)
        commits = [f"{one:020}.json" for one in range(begin + 1, version + 1)]
        for name, text in zip(commits, pool.map(lambda name: _read(storage, name), commits), strict=True):
            _apply(_lines(text, name), state, files)
    if "protocol" not in state or "metaData" not in state:
        raise FormatError(f"the log of {storage.uri} has no protocol or no metadata at version {version}")
    return LogState(version, state["protocol"], state["metaData"], list(files.values()))


def _checkpoint(names: set[str], version: int) -> tuple[int, list[str]]:
    """The version and the files of the newest whole checkpoint; -1 where the log goes back to the beginning."""
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        if match := _CLASSIC.fullmatch(name) or _SECOND.fullmatch(name):
            whole[int(match[1])] = [name]
        elif match := _PARTS.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3])), []).append(name)
    for (at, count), found in parts.items():
        if len(found) == count:
            whole.setdefault(at, found)
    begin = max((at for at in whole if at <= version), default=-1)
    return begin, whole.get(begin, [])


def _read(storage: Storage, name: str) -> bytes:
    with storage.open(storage.join(f"_delta_log/{name}")) as file:
        data: bytes = file.read()
    return data


def _lines(text: bytes, name: str) -> Iterator[Mapping[str, Any]]:
    for line in text.splitlines():
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise FormatError(f"{name} of Delta's log contains a line that is not JSON: {error}") from error


def _checkpoint_actions(storage: Storage, name: str) -> Iterator[Mapping[str, Any]]:
    if name.endswith(".json"):
        actions = list(_lines(_read(storage, name), name))
    else:
        with foreign(f"{name} of Delta's log"), storage.open(storage.join(f"_delta_log/{name}")) as file:
            table = pq.ParquetFile(file)
            held = table.schema_arrow.names
            actions = table.read(columns=[one for one in _COLUMNS if one.partition(".")[0] in held]).to_pylist()
    for action in actions:
        sidecar = action.get("sidecar")
        if sidecar:
            yield from _checkpoint_actions(storage, f"_sidecars/{unquote(sidecar['path']).rpartition('/')[2]}")
        else:
            yield action


def _apply(actions: Any, state: dict[str, Any], files: dict[tuple[str, str], DataFile]) -> None:
    try:
        for action in actions:
            if add := action.get("add"):
                file = DataFile(
                    unquote(add["path"]),
                    dict(add["partitionValues"] or {}),
                    int(add["size"]),
                    int(add["modificationTime"]),
                    add.get("stats"),
                    add.get("deletionVector"),
                )
                files[file.path, file.vector_id] = file
            elif remove := action.get("remove"):
                files.pop((unquote(remove["path"]), _vector_id(remove.get("deletionVector"))), None)
            for name in ("protocol", "metaData"):
                if action.get(name):
                    state[name] = action[name]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"an action of Delta's log is not what the protocol says: {error!r}") from error
