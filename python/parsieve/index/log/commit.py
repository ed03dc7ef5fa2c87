"""One version of an index: the state of the table, and the files of each column and of the map of pages."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, Self, TypeVar

import pyarrow as pa

from parsieve._core import FormatError, UnsupportedError
from parsieve.index.log.columns import column_ids_of, decode_type, encode_type, field_id_of, find_field
from parsieve.index.log.parts import ROW_TYPES, MapPart, Part, Shelf, parts_of
from parsieve.index.scan.units import UNITS, Unit
from parsieve.io import document
from parsieve.lake.base import ColumnPath, Snapshot

# A version with a column in format 2, a text index or a map of pages is a document of version 2, which parsieve 0.1
# refuses to read and to change.
FORMAT = 2
# Trigrams of the code points as stored, each hashed like a separate string.
TEXT_FORM = 1
# How many earlier versions a commit lists with their table snapshots. The oldest of these lists older ones.
HISTORY = 100


# The contents of the filters of an index.
TextContent = Literal["trigrams", "words"]
TEXT_CONTENTS: tuple[TextContent, ...] = ("trigrams", "words")
Content = Literal["values"] | TextContent
# A column may have one text index for each content.
TextKey = tuple[ColumnPath, TextContent]


@dataclass(frozen=True, slots=True)
class TableState:
    """A snapshot of the table: its id in the table's format, and its instant."""

    id: int | str | None
    instant: int

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableState:
        """Return the state of a snapshot."""
        return cls(snapshot.id, snapshot.instant)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a column in format 2 is stored. Updates and compactions keep it; only a build or a conversion changes it."""

    # What answers name: files, row groups, or ranges of rows.
    unit: Unit
    # The bound for the expected units that a missing key reads needlessly. None stores no fingerprints.
    fpp: float | None = 0.02
    # Whether the exact keys are stored, so that compactions need not read the table.
    keep_keys: bool = False

    def options(self) -> dict[str, Any]:
        """Return the arguments of `SieveOptions` for a build."""
        fingerprints = {"fingerprints": False} if self.fpp is None else {"fpp": self.fpp}
        return {"format": FORMAT, "keep_keys": self.keep_keys, **fingerprints}


@dataclass(frozen=True, slots=True)
class Base:
    """The complete index of a column at an instant of the index."""

    instant: int
    root: Part
    # Segment files by number, and in format 2 the file of the unit pages, unless they are in the root's file.
    files: tuple[Part, ...]
    # The number of (key, location) pairs, to decide when the deltas need a compaction.
    pairs: int


@dataclass(frozen=True, slots=True)
class DeltaPart:
    """The changes of one commit to a column."""

    instant: int
    file: Part
    changes: int


@dataclass(frozen=True, slots=True)
class ColumnState:
    """The Sieve index of one column in a version."""

    path: ColumnPath
    field_id: int | None
    type: pa.DataType
    # The table snapshot of the last build or update.
    table: TableState
    # The token of each location that it covers: a full list, then changes to it.
    bindings: tuple[Part, ...]
    base: Base
    deltas: tuple[DeltaPart, ...] = ()
    # None in format 1.
    layout: Layout | None = None
    # The field ids of the columns of an expression, by which the index is found after they were renamed.
    column_ids: tuple[int, ...] = ()

    @property
    def format(self) -> int:
        """Return the format version of the column's files."""
        return 1 if self.layout is None else FORMAT

    def parts(self) -> list[Part]:
        """Return every file that the column references."""
        return [*self.bindings, self.base.root, *self.base.files, *(delta.file for delta in self.deltas)]


@dataclass(frozen=True, slots=True)
class BloomState:
    """The Bloom index of one column in a version."""

    path: ColumnPath
    field_id: int | None
    type: pa.DataType
    table: TableState
    fpp: float
    bindings: tuple[Part, ...]
    # If several shelves contain a location, the filter of the last one counts.
    shelves: tuple[Shelf, ...]

    def parts(self) -> list[Part]:
        """Return every file that the column references."""
        return [*self.bindings, *(part for shelf in self.shelves for part in (shelf.directory, shelf.rows))]


@dataclass(frozen=True, slots=True)
class TextState(BloomState):
    """The text index of one column in a version: a Bloom index of the trigrams or of the words of its texts."""

    # The definition of the trigrams or words. A reader that does not know it skips no files.
    form: int = TEXT_FORM
    content: TextContent = "trigrams"
    # The units of a build. Each shelf has the units of its locations.
    unit: Unit = "file"

    @property
    def kind(self) -> str:
        """Return the kind of index, as in `Table.build_index`."""
        return "text" if self.content == "trigrams" else "words"


KeyT = TypeVar("KeyT")
StateT = TypeVar("StateT", ColumnState, BloomState, TextState)


@dataclass(frozen=True, slots=True)
class MapState:
    """The map of pages in a version."""

    # The table snapshot of the last build or update.
    table: TableState
    # The token and the id of each location, in format 2. An id that no location has is of a file that is gone.
    bindings: tuple[Part, ...]
    files: tuple[MapPart, ...]

    def parts(self) -> list[Part]:
        """Return every file that the map references."""
        return [*self.bindings, *(part for files in self.files for part in files.parts())]


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of an index."""

    version: int
    # Identifies this attempt to commit, so that a writer recognizes its own.
    writer: str
    parent: str | None
    # Milliseconds since 1970 by the writer's clock, for information only.
    written: int
    operation: str
    table: TableState
    columns: Mapping[ColumnPath, ColumnState]
    blooms: Mapping[ColumnPath, BloomState]
    # Earlier versions with their table states, newest first.
    history: tuple[tuple[int, TableState], ...] = field(default=(), repr=False)
    # The map of pages, which belongs to the table and not to a column. None if the version has none.
    pages: MapState | None = None
    texts: Mapping[TextKey, TextState] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Encode the version as a file."""
        return document.write(
            "commit",
            {
                "version": self.version,
                "writer": self.writer,
                "parent": self.parent,
                "written": self.written,
                "operation": self.operation,
                "table": _state(self.table),
                "columns": [_column(state) for _, state in sorted(self.columns.items())],
                "blooms": [_bloom(state) for _, state in sorted(self.blooms.items())],
                "history": [{"version": version, **_state(state)} for version, state in self.history],
                **({} if self.pages is None else {"pages": _pages(self.pages)}),
                **({"texts": [_text(state) for _, state in sorted(self.texts.items())]} if self.texts else {}),
            },
            version=self.format,
        )

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Commit:
        """Decode a version from its file."""
        fields = document.read("commit", data, name, newest=FORMAT)
        columns = [_column_of(column, name) for column in fields.objects("columns")]
        if any(state.format > fields.version for state in columns):
            raise FormatError(f"{name} has a column in a newer format than its own")
        blooms = [_bloom_of(column, name) for column in fields.objects("blooms")]
        texts = fields.objects("texts") if fields.version > 1 and fields.has("texts") else []
        version = fields.get("version", int)
        history = tuple((entry.get("version", int), _state_of(entry)) for entry in fields.objects("history"))
        if any(later <= earlier for later, earlier in pairwise([version, *(number for number, _ in history)])):
            # A search through the versions would not end.
            raise FormatError(f"{name}: the history does not list earlier versions, newest first")
        return cls(
            version=version,
            writer=fields.get("writer", str),
            parent=fields.maybe("parent", str),
            written=fields.get("written", int),
            operation=fields.get("operation", str),
            table=_state_of(fields.inner("table")),
            columns={state.path: state for state in columns},
            blooms={state.path: state for state in blooms},
            history=history,
            pages=_pages_of(fields) if fields.version > 1 else None,
            texts={(state.path, state.content): state for state in (_text_of(column, name) for column in texts)},
        )

    def named(self, schema: pa.Schema) -> Self:
        """Return the version with the names that the columns have in a schema, and with their field ids.

        A column that the schema does not have keeps its name, unless another indexed column has this name now.
        """
        return replace(
            self,
            columns=_by_name(self.columns.values(), schema, lambda state: state.path),
            blooms=_by_name(self.blooms.values(), schema, lambda state: state.path),
            texts=_by_name(self.texts.values(), schema, lambda state: (state.path, state.content)),
        )

    @property
    def format(self) -> int:
        """Return the format version of the document."""
        if self.pages is not None or self.texts:
            return FORMAT
        return max((state.format for state in self.columns.values()), default=1)

    @property
    def states(self) -> list[ColumnState | BloomState]:
        """Return the index of each kind of each column."""
        return [*self.columns.values(), *self.blooms.values(), *self.texts.values()]

    @property
    def indexed(self) -> list[ColumnPath]:
        """Return the paths of all indexed columns."""
        return list(dict.fromkeys(state.path for state in self.states))

    @property
    def is_empty(self) -> bool:
        """Return whether no column is indexed."""
        return not self.states

    def parts(self) -> list[Part]:
        """Return every file that this version references."""
        parts = [part for state in self.states for part in state.parts()]
        return parts if self.pages is None else [*parts, *self.pages.parts()]


def after(
    parent: Commit | None,
    operation: str,
    table: TableState,
    columns: Mapping[ColumnPath, ColumnState],
    blooms: Mapping[ColumnPath, BloomState] | None = None,
    *,
    texts: Mapping[TextKey, TextState] | None = None,
    pages: MapState | Literal[False] | None = None,
) -> Commit:
    """Return the version after `parent`.

    If `blooms`, `texts` or `pages` is None, the version keeps these parts of the parent. If `pages` is False, it has no
    map; nor has a version without columns.
    """
    if blooms is None:
        blooms = {} if parent is None else parent.blooms
    if texts is None:
        texts = {} if parent is None else parent.texts
    if pages is None and parent is not None:
        pages = parent.pages
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
        pages=(pages or None) if columns or blooms or texts else None,
        texts=dict(texts),
    )


def _state(state: TableState) -> dict[str, Any]:
    return {"id": state.id, "instant": state.instant}


def _state_of(fields: document.Fields) -> TableState:
    return TableState(fields.name_of("id"), fields.get("instant", int))


def _pages(pages: MapState) -> dict[str, Any]:
    return {
        "table": _state(pages.table),
        "bindings": [part.to_list() for part in pages.bindings],
        "files": [part.to_row() for part in pages.files],
    }


def _pages_of(fields: document.Fields) -> MapState | None:
    if not fields.has("pages"):
        return None
    pages = fields.inner("pages")
    return MapState(
        table=_state_of(pages.inner("table")),
        bindings=parts_of(pages, "bindings"),
        files=tuple(MapPart.from_row(row) for row in pages.rows("files", *ROW_TYPES)),
    )


def _common_fields(column: ColumnState | BloomState) -> dict[str, Any]:
    """Encode the fields that both kinds of index have."""
    return {
        "path": list(column.path),
        "field_id": column.field_id,
        # "type" is for information only; "arrow" has the type as an Arrow schema message.
        "type": str(column.type),
        "arrow": encode_type(column.type),
        "table": _state(column.table),
        "bindings": [part.to_list() for part in column.bindings],
    }


def _rate_of(fields: document.Fields, source: str) -> float:
    try:
        return float(fields.get("fpp", str))
    except ValueError as error:
        raise FormatError(f"{source}: fpp is not a number") from error


def _bloom(column: BloomState) -> dict[str, Any]:
    shelves = [[*shelf.directory.to_list(), *shelf.rows.to_list()] for shelf in column.shelves]
    return {**_common_fields(column), "fpp": str(column.fpp), "shelves": shelves}


def _bloom_of(fields: document.Fields, source: str) -> BloomState:
    shelves = fields.rows("shelves", str, int, str, str, int, str)
    fpp = _rate_of(fields, source)
    if not fields.texts("path"):
        raise FormatError(f"{source}: a column has no path")
    return BloomState(
        path=fields.texts("path"),
        field_id=fields.maybe("field_id", int),
        type=decode_type(fields, source),
        table=_state_of(fields.inner("table")),
        fpp=fpp,
        bindings=parts_of(fields, "bindings"),
        shelves=tuple(Shelf(Part(*shelf[:3]), Part(*shelf[3:])) for shelf in shelves),
    )


def _text(column: TextState) -> dict[str, Any]:
    return {**_bloom(column), "form": column.form, "content": column.content, "unit": column.unit}


def _text_of(fields: document.Fields, source: str) -> TextState:
    state = _bloom_of(fields, source)
    name = fields.get("content", str)
    content = next((content for content in TEXT_CONTENTS if content == name), None)
    if content is None:
        raise UnsupportedError(f"{source} has a text index with unknown content {name!r}; use a newer parsieve")
    return TextState(
        state.path,
        state.field_id,
        state.type,
        state.table,
        state.fpp,
        state.bindings,
        state.shelves,
        form=fields.get("form", int),
        content=content,
        unit=_unit_of(fields, source),
    )


def _unit_of(fields: document.Fields, source: str) -> Unit:
    name = fields.get("unit", str)
    unit = next((unit for unit in UNITS if unit == name), None)
    if unit is None:
        raise UnsupportedError(f"{source} has units of the unknown kind {name!r}; use a newer parsieve")
    return unit


def _column(column: ColumnState) -> dict[str, Any]:
    base = column.base
    return {
        **_common_fields(column),
        "base": {
            "instant": base.instant,
            "root": [base.root.to_list()],
            "files": [part.to_list() for part in base.files],
            "pairs": base.pairs,
        },
        "deltas": [[delta.instant, *delta.file.to_list(), delta.changes] for delta in column.deltas],
        **({} if column.layout is None else {"format": FORMAT, "layout": _layout(column.layout)}),
        **({"column_ids": list(column.column_ids)} if column.column_ids else {}),
    }


def _layout(layout: Layout) -> dict[str, Any]:
    fpp = None if layout.fpp is None else str(layout.fpp)
    return {"unit": layout.unit, "fpp": fpp, "keep_keys": layout.keep_keys}


def _layout_of(fields: document.Fields, source: str) -> Layout | None:
    """Return the layout of a column, or None if it has format 1."""
    column_format = fields.maybe("format", int)
    if column_format is None:
        return None
    if column_format != FORMAT:
        raise UnsupportedError(
            f"{source} has a column in format {column_format}, but this parsieve reads formats 1 and {FORMAT}; use a "
            "newer parsieve"
        )
    layout = fields.inner("layout")
    unit = _unit_of(layout, source)
    return Layout(unit, _rate_of(layout, source) if layout.maybe("fpp", str) else None, layout.get("keep_keys", bool))


def _column_of(fields: document.Fields, source: str) -> ColumnState:
    base = fields.inner("base")
    root = parts_of(base, "root")
    layout = _layout_of(fields, source)
    if len(root) != 1 or not fields.texts("path"):
        raise FormatError(f"{source}: a column does not have exactly one path and one root")
    return ColumnState(
        path=fields.texts("path"),
        field_id=fields.maybe("field_id", int),
        type=decode_type(fields, source),
        table=_state_of(fields.inner("table")),
        bindings=parts_of(fields, "bindings"),
        base=Base(base.get("instant", int), root[0], parts_of(base, "files"), base.get("pairs", int)),
        deltas=tuple(
            DeltaPart(instant, Part(name, size, digest), changes)
            for instant, name, size, digest, changes in fields.rows("deltas", int, str, int, str, int)
        ),
        layout=layout,
        column_ids=fields.integers("column_ids") if fields.has("column_ids") else (),
    )


def with_base(column: ColumnState, base: Base, chain: tuple[Part, ...] | None = None) -> ColumnState:
    """Return a column with a new base and the deltas that this base does not contain, and maybe with new bindings."""
    deltas = tuple(delta for delta in column.deltas if delta.instant > base.instant)
    return replace(column, base=base, deltas=deltas, bindings=column.bindings if chain is None else chain)


def find_indexed(schema: pa.Schema, state: ColumnState | BloomState) -> tuple[ColumnPath, pa.Field] | None:
    """Return the path and the field of an indexed column in a schema; None if it was dropped or is now nested."""
    ids = state.column_ids if isinstance(state, ColumnState) else ()
    return find_field(schema, state.path, state.field_id, ids)


def named(state: StateT, schema: pa.Schema) -> StateT:
    """Return the index of a column, with the column's name and field ids in a schema if the schema has the column."""
    column = find_indexed(schema, state)
    if column is None:
        return state
    path, found = column
    changes: dict[str, Any] = {"path": path, "field_id": field_id_of(found)}
    if isinstance(state, ColumnState):
        changes["column_ids"] = column_ids_of(schema, path)
    return replace(state, **changes)


def _by_name(states: Iterable[StateT], schema: pa.Schema, key: Callable[[StateT], KeyT]) -> dict[KeyT, StateT]:
    # Of two columns with one name, the second is the one that the schema has.
    ordered = sorted(states, key=lambda state: find_indexed(schema, state) is not None)
    by_name = sorted((named(state, schema) for state in ordered), key=lambda state: state.path)
    return {key(state): state for state in by_name}
