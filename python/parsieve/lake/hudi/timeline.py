"""Hudi's timeline as its folder shows it: which instants hold, and how far back the cleaner has gone."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from parsieve._core import FormatError, UnsupportedError
from parsieve.lake.hudi import properties as hudi_properties
from parsieve.lake.storage.storage import Storage

_NAME = re.compile(r"(\d{14,17})(?:_(\d{14,17}))?\.([a-z]+)(?:\.(requested|inflight))?")
_WRITES = {"commit", "deltacommit", "replacecommit"}
# What goes on under another name than that which it ends with.
_ENDS_AS = {"clustering": "replacecommit", "compaction": "commit", "logcompaction": "deltacommit", "inflight": "commit"}
_CLEAN_FIELDS = ["startCleanTime", "timeTakenInMillis", "totalFilesDeleted", "earliestCommitToRetain"]


@dataclass(frozen=True)
class Timeline:
    """The active timeline of a table at the time of its listing."""

    storage: Storage
    # Of the tables of version 8 and later, below `.hoodie/timeline`; earlier ones keep it in `.hoodie` itself.
    folder: str
    names: frozenset[str]
    # Changes whenever a file of the timeline does; "" where something goes on, or went on just now.
    mark: str = ""

    @cached_property
    def _found(self) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
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
            elif _ENDS_AS.get(action, action) in _WRITES:
                begun.add(instant)
        return frozenset(done), frozenset(begun - done), tuple(sorted(cleans))

    @property
    def completed(self) -> frozenset[str]:
        """The instants that wrote, and hold."""
        return self._found[0]

    @property
    def pending(self) -> frozenset[str]:
        """The instants that are being written, or were given up."""
        return self._found[1]

    @cached_property
    def first(self) -> str:
        """The first instant that holds and was not archived."""
        return min(self.completed, default="")

    def holds(self, instant: str) -> bool:
        """Whether what an instant wrote is part of the table: what was archived is."""
        return instant in self.completed or (instant < self.first and instant not in self.pending)

    def refuse_cleaned(self, instant: str) -> None:
        """`ValueError` for an instant of which files may be gone."""
        if instant < self.first:
            raise ValueError(f"the timeline of {self.storage.uri} begins at {self.first}, after {instant}")
        for name in self._found[2][-1:]:
            kept = self._earliest_kept(name)
            if not kept and instant < name[:17]:
                raise UnsupportedError(f"{self.storage.uri} was cleaned after {instant}, and nobody says how far")
            if kept and instant < kept:
                raise ValueError(
                    f"files of {self.storage.uri} were cleaned that {instant} needs; {kept} is the first whole"
                )

    def _earliest_kept(self, name: str) -> str:
        with self.storage.open(self.storage.join(f"{self.folder}/{name}")) as file:
            data: bytes = file.read()
        return earliest_kept(data, name)


def read_timeline(storage: Storage) -> Timeline:
    """List the timeline of a table."""
    folder = ".hoodie/timeline"
    marks = storage.marks(folder)
    if not marks:
        folder = ".hoodie"
        marks = storage.marks(folder)
    if not marks:
        raise FileNotFoundError(f"no Hudi table in {storage.uri}")
    return Timeline(storage, folder, frozenset(marks), _mark(folder, marks))


def _mark(folder: str, marks: Mapping[str, str | None]) -> str:
    """What stands for the whole of a timeline, in which nothing goes on.

    Files come and go only under an instant that is inflight: a write, a compaction, a clean, a rollback, a restore, or
    one that was given up, which the next writer rolls back. What is merely requested has not begun.
    """
    told = {name: mark for name, mark in marks.items() if mark is not None and _NAME.fullmatch(name)}
    if "" in told.values():
        return ""
    done, begun = set(), set()
    for name in told:
        match = _NAME.fullmatch(name)
        assert match is not None
        if match[4] == "inflight" or match[3] == "inflight":
            begun.add(match[1])
        elif match[4] is None:
            done.add(match[1])
    if begun - done:
        return ""
    text = "\n".join(f"{name} {mark}" for name, mark in sorted(told.items()))
    return hashlib.blake2b(f"{folder}\n{text}".encode(), digest_size=32).hexdigest()


def properties_of(storage: Storage) -> dict[str, str]:
    """The table's own properties."""
    return read_properties(hudi_properties.read_text(storage))


def read_properties(text: str) -> dict[str, str]:
    """The properties that a file of them says."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip().replace("\\:", ":") for name, _, value in pairs}


class _Avro:
    """As much of an Avro file as its first fields need."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._at, self._name = data, 0, name

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._at:
            raise FormatError(f"{self._name} of Hudi's timeline is cut short")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self) -> int:
        found = shift = 0
        while True:
            (byte,) = self.take(1)
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (found >> 1) ^ -(found & 1)
            if shift > 63:
                raise FormatError(f"{self._name} of Hudi's timeline holds no number where one should be")

    def text(self) -> bytes:
        return self.take(self.number())


def earliest_kept(data: bytes, name: str) -> str:
    """The first instant that a clean left whole, from its record; "" where it kept versions, not instants."""
    if not data:
        return ""
    source = _Avro(data, name)
    if source.take(4) != b"Obj\1":
        raise FormatError(f"not an Avro file: {name} of Hudi's timeline")
    about: dict[bytes, bytes] = {}
    while count := source.number():
        if count < 0:
            source.number()
        for _ in range(abs(count)):
            key = source.text()
            about[key] = source.text()
    source.take(16)
    try:
        fields: list[Any] = json.loads(about.get(b"avro.schema", b""))["fields"]
        known = [one["name"] for one in fields[:4]] == _CLEAN_FIELDS
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{name} of Hudi's timeline has no schema: {error!r}") from error
    codec = about.get(b"avro.codec", b"null")
    if not known or codec not in (b"null", b"deflate"):
        raise UnsupportedError(f"{name} of Hudi's timeline is written in a way that this version does not know")
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
