"""Versions of an index: one small file each, put only if its name is free; what they name is never written twice.

```text
commits/v00000000000000000007    writer, parent, the table's snapshot, and for each column: bindings, base, deltas
```
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from parsieve._core import FormatError
from parsieve.io import document
from parsieve.io.store.base import Store, Stored
from parsieve.lake.base import ColumnPath, Snapshot

COMMITS = "commits"
# How many versions a commit remembers by their table's snapshot; older ones are found by way of the oldest of these.
HISTORY = 100
ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class TableState:
    """A snapshot of the table: its name in the format, and its instant."""

    id: int | str | None
    instant: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableState:
        """Where a snapshot stands."""
        return cls(snapshot.id, snapshot.instant)


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the store that a version names."""

    name: str
    size: int
    # SHA-256 of a file that is read whole; segment files are read by ranges, each of which has a checksum of its own.
    digest: str = ""

    @classmethod
    def put(cls, store: Store, name: str, data: bytes) -> Part:
        """Store a file that is read whole."""
        store.put(name, data)
        return cls(name, len(data), hashlib.sha256(data).hexdigest())

    def get(self, store: Store) -> bytes:
        """The whole file, if it is what was stored."""
        try:
            data = store.get(self.name)
        except FileNotFoundError as error:
            raise BrokenPartError(store, self.name, "it is gone", gone=True) from error
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise BrokenPartError(store, self.name, "its bytes are not those that were written")
        return data


class BrokenPartError(FormatError):
    """A file that a version names cannot be used."""

    def __init__(self, store: Store, name: str, why: str, gone: bool = False) -> None:
        super().__init__(f"{store}/{name}: {why}")
        self.name = name
        self.why = why
        self.gone = gone


@dataclass(frozen=True, slots=True)
class Base:
    """A whole index of a column as of an instant of the index."""

    instant: int
    root: Part
    # Segment files by number.
    files: tuple[Part, ...]
    # (key, location) pairs, to judge when deltas have grown too many.
    pairs: int


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """The changes of one commit to a column."""

    instant: int
    file: Part
    changes: int


@dataclass(frozen=True, slots=True)
class ColumnState:
    """What a version knows of one column."""

    path: ColumnPath
    field_id: int | None
    type: pa.DataType
    # The table's snapshot that the column follows.
    table: TableState
    # Which version of each location it speaks of: a full list, then changes to it.
    bindings: tuple[Part, ...]
    base: Base
    deltas: tuple[DeltaPart, ...] = ()

    def parts(self) -> list[Part]:
        """Every file that it names."""
        return [*self.bindings, self.base.root, *self.base.files, *(delta.file for delta in self.deltas)]


@dataclass(frozen=True, slots=True)
class Shelf:
    """Bloom filters of some locations: the directory is read whole, the rows by ranges."""

    directory: Part
    rows: Part


@dataclass(frozen=True, slots=True)
class BloomState:
    """What a version knows of one column by Bloom filters."""

    path: ColumnPath
    field_id: int | None
    type: pa.DataType
    table: TableState
    fpp: float
    bindings: tuple[Part, ...]
    # A location's filter is that of the last shelf which names it.
    shelves: tuple[Shelf, ...]

    def parts(self) -> list[Part]:
        """Every file that it names."""
        return [*self.bindings, *(part for shelf in self.shelves for part in (shelf.directory, shelf.rows))]


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of an index."""

    version: int
    # Names this attempt to commit, so that a writer knows its own.
    writer: str
    parent: str | None
    # Milliseconds since 1970 by the writer's clock, for people.
    written: int
    operation: str
    table: TableState
    columns: Mapping[ColumnPath, ColumnState]
    blooms: Mapping[ColumnPath, BloomState]
    # Earlier versions with the table's states, newest first.
    history: tuple[tuple[int, TableState], ...] = field(default=(), repr=False)

    def to_bytes(self) -> bytes:
        """The file of this version."""
        return document.write(
            "commit",
            {
                "version": self.version,
                "writer": self.writer,
                "parent": self.parent,
                "written": self.written,
                "operation": self.operation,
                "table": _state(self.table),
                "columns": [_column(one) for _, one in sorted(self.columns.items())],
                "blooms": [_bloom(one) for _, one in sorted(self.blooms.items())],
                "history": [{"version": version, **_state(state)} for version, state in self.history],
            },
        )

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Commit:
        """A version from its file."""
        fields = document.read("commit", data, name)
        columns = [_column_of(one, name) for one in fields.objects("columns")]
        blooms = [_bloom_of(one, name) for one in fields.objects("blooms")]
        return cls(
            version=fields.get("version", int),
            writer=fields.get("writer", str),
            parent=fields.maybe("parent", str),
            written=fields.get("written", int),
            operation=fields.get("operation", str),
            table=_state_of(fields.inner("table")),
            columns={one.path: one for one in columns},
            blooms={one.path: one for one in blooms},
            history=tuple((one.get("version", int), _state_of(one)) for one in fields.objects("history")),
        )

    @property
    def is_empty(self) -> bool:
        """Whether no column is indexed."""
        return not (self.columns or self.blooms)

    def parts(self) -> list[Part]:
        """Every file that this version names."""
        states: list[ColumnState | BloomState] = [*self.columns.values(), *self.blooms.values()]
        return [part for state in states for part in state.parts()]


def after(
    parent: Commit | None,
    operation: str,
    table: TableState,
    columns: Mapping[ColumnPath, ColumnState],
    blooms: Mapping[ColumnPath, BloomState] | None = None,
) -> Commit:
    """The version after another one; without `blooms` it has the parent's."""
    if blooms is None:
        blooms = {} if parent is None else parent.blooms
    history = () if parent is None else ((parent.version, parent.table), *parent.history)[:HISTORY]
    return Commit(
        version=1 if parent is None else parent.version + 1,
        writer=secrets.token_hex(16),
        parent=None if parent is None else parent.writer,
        written=time.time_ns() // 1_000_000,
        operation=operation,
        table=table,
        columns=dict(columns),
        blooms=dict(blooms),
        history=history,
    )


def _state(state: TableState) -> dict[str, Any]:
    return {"id": state.id, "instant": state.instant}


def _state_of(fields: document.Fields) -> TableState:
    return TableState(fields.name_of("id"), fields.get("instant", int))


def _part(part: Part) -> list[Any]:
    return [part.name, part.size, part.digest]


def _parts_of(fields: document.Fields, field: str) -> tuple[Part, ...]:
    return tuple(Part(name, size, digest) for name, size, digest in fields.rows(field, str, int, str))


def _followed(column: ColumnState | BloomState) -> dict[str, Any]:
    """Which column of which table is followed, and how far."""
    return {
        "path": list(column.path),
        "field_id": column.field_id,
        # For people, and then as Arrow's own schema message, which is what counts.
        "type": str(column.type),
        "arrow": base64.b64encode(pa.schema([pa.field("", column.type)]).serialize()).decode(),
        "table": _state(column.table),
        "bindings": [_part(one) for one in column.bindings],
    }


def _type_of(fields: document.Fields, source: str) -> pa.DataType:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(fields.get("arrow", str), validate=True)))
        return schema.field(0).type
    except (ValueError, OSError, IndexError, pa.ArrowException) as error:
        raise FormatError(f"{source}: the type of a column cannot be read: {error}") from error


def _bloom(column: BloomState) -> dict[str, Any]:
    shelves = [[*_part(shelf.directory), *_part(shelf.rows)] for shelf in column.shelves]
    return {**_followed(column), "fpp": str(column.fpp), "shelves": shelves}


def _bloom_of(fields: document.Fields, source: str) -> BloomState:
    shelves = fields.rows("shelves", str, int, str, str, int, str)
    try:
        fpp = float(fields.get("fpp", str))
    except ValueError as error:
        raise FormatError(f"{source}: fpp is no number") from error
    if not fields.texts("path"):
        raise FormatError(f"{source}: a column has a path")
    return BloomState(
        path=fields.texts("path"),
        field_id=fields.maybe("field_id", int),
        type=_type_of(fields, source),
        table=_state_of(fields.inner("table")),
        fpp=fpp,
        bindings=_parts_of(fields, "bindings"),
        shelves=tuple(Shelf(Part(*shelf[:3]), Part(*shelf[3:])) for shelf in shelves),
    )


def _column(column: ColumnState) -> dict[str, Any]:
    base = column.base
    return {
        **_followed(column),
        "base": {
            "instant": base.instant,
            "root": [_part(base.root)],
            "files": [_part(one) for one in base.files],
            "pairs": base.pairs,
        },
        "deltas": [[delta.instant, *_part(delta.file), delta.changes] for delta in column.deltas],
    }


def _column_of(fields: document.Fields, source: str) -> ColumnState:
    base = fields.inner("base")
    root = _parts_of(base, "root")
    if len(root) != 1 or not fields.texts("path"):
        raise FormatError(f"{source}: a column has one path and one root")
    return ColumnState(
        path=fields.texts("path"),
        field_id=fields.maybe("field_id", int),
        type=_type_of(fields, source),
        table=_state_of(fields.inner("table")),
        bindings=_parts_of(fields, "bindings"),
        base=Base(base.get("instant", int), root[0], _parts_of(base, "files"), base.get("pairs", int)),
        deltas=tuple(
            DeltaPart(instant, Part(name, size, digest), changes)
            for instant, name, size, digest, changes in fields.rows("deltas", int, str, int, str, int)
        ),
    )


def name_of(version: int) -> str:
    """The file of a version."""
    return f"{COMMITS}/v{version:020d}"


class Log:
    """The versions in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def stored(self) -> list[tuple[int, Stored]]:
        """The versions that are there, oldest first."""
        found = []
        for one in self.store.list(COMMITS):
            digits = one.name.removeprefix(f"{COMMITS}/v")
            if len(digits) == 20 and digits.isdecimal():
                found.append((int(digits), one))
        return found

    def read(self, version: int) -> Commit:
        """A version. `FileNotFoundError` if it is gone, `FormatError` if it is damaged."""
        name = name_of(version)
        commit = Commit.from_bytes(self.store.get(name), f"{self.store}/{name}")
        if commit.version != version:
            raise FormatError(f"{self.store}/{name} is version {commit.version}")
        return commit

    def newest(self) -> Commit | None:
        """The newest version, or None where there is none."""
        for _ in range(ATTEMPTS):
            versions = self.stored()
            if not versions:
                return None
            # Somebody may expire it between the two looks; then there is a newer one.
            with contextlib.suppress(FileNotFoundError):
                try:
                    return self.read(versions[-1][0])
                except FormatError as error:
                    raise FormatError(
                        f"{error}. Without this file the version before it is the newest; without the folder "
                        f"{self.store} there is no index, and another one can be built"
                    ) from error
        raise FileNotFoundError(f"the versions of {self.store} vanish as fast as they are listed")

    def publish(self, commit: Commit) -> bool:
        """Make a version the newest one; False where somebody else was faster, and nothing has happened then."""
        name, data = name_of(commit.version), commit.to_bytes()
        for attempt in range(ATTEMPTS):
            try:
                written = self.store.put_if_absent(name, data)
                break
            except OSError:
                # It may have arrived all the same: whoever wrote the file is named in it.
                if self._is_ours(name, data):
                    written = True
                    break
                if attempt + 1 == ATTEMPTS:
                    raise
                time.sleep(0.05 * 2**attempt)
        if not written and not self._is_ours(name, data):
            return False
        return self._stands(commit)

    def _is_ours(self, name: str, data: bytes) -> bool:
        try:
            return self.store.get(name) == data
        except FileNotFoundError:
            return False

    def _stands(self, commit: Commit) -> bool:
        """Whether the newest version descends from ours.

        It may not where a writer slept while others committed, and expired, the very number that it then put.
        """
        later = [version for version, _ in self.stored() if version > commit.version]
        if not later:
            return True
        if later[0] == commit.version + 1:
            with contextlib.suppress(FileNotFoundError):
                if self.read(later[0]).parent == commit.writer:
                    return True
        self.store.delete(name_of(commit.version))
        return False


def without(column: ColumnState, base: Base) -> ColumnState:
    """A column with another base, and only the deltas that the base does not stand for."""
    return replace(column, base=base, deltas=tuple(delta for delta in column.deltas if delta.instant > base.instant))
