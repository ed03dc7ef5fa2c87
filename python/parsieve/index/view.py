"""One version of an index: which locations may match a query.

A part that cannot be read keeps the locations that it covers, and is listed in `doubts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.errors import not_indexed
from parsieve.index.bloom.reader import BloomReader
from parsieve.index.log.columns import current_expression, path_of
from parsieve.index.log.commit import BloomState, ColumnState, Commit, TableState, TextContent
from parsieve.index.pages.reader import MapReader
from parsieve.index.sieve.query import Query
from parsieve.index.sieve.reader import Answer, ColumnReader
from parsieve.index.text.reader import TextReader
from parsieve.io.store.base import Store
from parsieve.lake.base import ColumnPath, Location, Slice
from parsieve.lake.slices import Slices, locations_and_tokens
from parsieve.predicate.expressions.expression import Expression, index_name


class View:
    """A version of an index. A view never changes, so its tokens and its answers always belong together."""

    def __init__(self, store: Store, commit: Commit, newer: Callable[[], View | None] | None = None) -> None:
        self.store = store
        self.commit = commit
        self._newer = newer
        self._readers = {path: ColumnReader(store, state) for path, state in commit.columns.items()}
        self._blooms = {path: BloomReader(store, state) for path, state in commit.blooms.items()}
        self._texts = {key: TextReader(store, state) for key, state in commit.texts.items()}
        # Where the chunks and pages of the table's files are. None if the version has no map of pages.
        self.pages = None if commit.pages is None else MapReader(store, commit.pages)

    def __repr__(self) -> str:
        """Show the version and its columns."""
        columns = ", ".join(f"{'.'.join(path)}: {kind}" for path, kind in sorted(self.kinds.items()))
        return f"<parsieve.index.View version {self.version}, {columns or 'no columns'}>"

    def named(self, schema: pa.Schema | None) -> Self:
        """Return the version with the names that its columns have in a schema. None keeps the names of the index."""
        commit = self.commit if schema is None else self.commit.named(schema)
        return self if commit == self.commit else type(self)(self.store, commit, self._newer)

    @property
    def kinds(self) -> dict[ColumnPath, str]:
        """Return the kind of index of each column, as in "both and text"."""
        blooms = self.commit.blooms
        kinds = dict.fromkeys(blooms, "bloom") | {path: "both" if path in blooms else "sieve" for path in self.columns}
        for (path, _), state in self.commit.texts.items():
            kinds[path] = f"{kinds[path]} and {state.kind}" if path in kinds else state.kind
        return kinds

    @property
    def version(self) -> int:
        """Return the number of the version."""
        return self.commit.version

    @property
    def table(self) -> TableState:
        """Return the table snapshot that the version was built for."""
        return self.commit.table

    @property
    def columns(self) -> Mapping[ColumnPath, ColumnState]:
        """Return the columns that have a Sieve index."""
        return self.commit.columns

    @property
    def doubts(self) -> dict[str, str]:
        """Return why parts could not be read so far, by name. They stay unusable until the index is built again.

        The locations that they cover are kept, and the footers of files are read whose pages they map.
        """
        readers: list[ColumnReader | BloomReader | MapReader] = [
            *self._readers.values(),
            *self._blooms.values(),
            *self._texts.values(),
        ]
        readers += [] if self.pages is None else [self.pages]
        return {name: reason for reader in readers for name, reason in reader.doubts.copy().items()}

    def find(self, column: str | Sequence[str], field_id: int | None = None) -> ColumnPath | None:
        """Return the path of a column in this version, by field id, or by name if neither has an id."""
        return _find(self.columns, column, field_id)

    def expressions(self, schema: pa.Schema) -> list[Expression]:
        """Return the indexed expressions whose columns a schema has."""
        expressions = [
            current_expression(schema, path, state.field_id, state.column_ids) for path, state in self.columns.items()
        ]
        return [expression for expression in expressions if expression is not None]

    def bloom(self, column: str | Sequence[str], field_id: int | None = None) -> BloomReader | None:
        """Return the Bloom index of a column, which is found as by `find`; None if it has none."""
        path = _find(self.commit.blooms, column, field_id)
        return None if path is None else self._blooms[path]

    def text(
        self, column: str | Sequence[str], field_id: int | None = None, content: TextContent = "trigrams"
    ) -> TextReader | None:
        """Return the text index of a column, which is found as by `find`; None if it has none."""
        states = {path: state for (path, of_state), state in self.commit.texts.items() if of_state == content}
        path = _find(states, column, field_id)
        return None if path is None else self._texts[path, content]

    def reader(self, column: str | Sequence[str]) -> ColumnReader:
        """Return the Sieve index of a column."""
        path = path_of(column)
        reader = self._readers.get(path)
        if reader is None:
            raise not_indexed(index_name(path), map(index_name, self.columns))
        return reader

    def token(self, location: Location, column: str | Sequence[str] | None = None) -> str | None:
        """Return the token of a location that a column covers; without a column, the token that all columns cover."""
        readers = [self.reader(column)] if column is not None else list(self._readers.values())
        tokens = {reader.bound.get(location) for reader in readers}
        return tokens.pop() if len(tokens) == 1 else None

    def count_uncovered(self, slices: Slices) -> dict[ColumnPath, int]:
        """Return for each indexed column how many slices one of its indexes does not cover in their current version.

        If files of this version were expired, the newest version answers instead.
        """
        locations, tokens = locations_and_tokens(slices)
        readers: list[tuple[ColumnPath, ColumnReader | BloomReader]] = [*self._readers.items(), *self._blooms.items()]
        readers += [(path, reader) for (path, _), reader in self._texts.items()]
        counts: dict[ColumnPath, int] = {}
        for path, reader in readers:
            bound = reader.bound
            missing = sum(
                not token or bound.get(location) != token for location, token in zip(locations, tokens, strict=True)
            )
            counts[path] = max(missing, counts.get(path, 0))
        newer = self._newest() if any(reader.gone for reader in self._readers.values()) else None
        return counts if newer is None else newer.count_uncovered(slices)

    def _newest(self) -> View | None:
        """Return the newest version, or None if this version is the newest."""
        newer = None if self._newer is None else self._newer()
        return newer if newer is not None and newer.version > self.version else None

    def lookup(self, column: str | Sequence[str], query: Query) -> set[Location]:
        """Return the covered locations that may match. Locations that the column does not cover must be kept too."""
        reader = self.reader(column)
        answer = reader.find_units(query)
        if answer is None:
            return set(reader.bound)
        kept = set(answer.ids.to_pylist())
        numbers = reader.numbers
        return {location for location in reader.bound if numbers.get(location, -1) in kept or location not in numbers}

    def may_match(self, column: str | Sequence[str], query: Query, slices: Sequence[Slice]) -> pa.BooleanArray:
        """Return for each slice whether it may match. False means that the slice with this token has no matching row.

        If files of this version were expired, the newest version answers instead.
        """
        return self.find_units(column, query, slices)[0]

    def find_units(
        self, column: str | Sequence[str], query: Query, slices: Sequence[Slice]
    ) -> tuple[pa.BooleanArray, Answer | None]:
        """Return the result of `may_match`, and the units that may match.

        The units are None if all of them may match, or if the newest version answers for this one.
        """
        reader = self.reader(column)
        answer = reader.find_units(query)
        numbers = reader.numbered(slices)
        if reader.gone:
            newer = self._newest()
            path = None if newer is None else newer.find(reader.state.path, reader.state.field_id)
            if newer is not None and path is not None:
                return newer.may_match(path, query, slices), None
        if answer is None:
            return pa.repeat(pa.scalar(True), len(slices)), None
        may_match = pc.or_(pc.is_null(numbers), pc.is_in(numbers, value_set=answer.ids))
        return may_match, None if reader.gone else answer


def _find(
    states: Mapping[ColumnPath, ColumnState | BloomState], column: str | Sequence[str], field_id: int | None
) -> ColumnPath | None:
    if field_id is not None:
        return next((path for path, state in states.items() if state.field_id == field_id), None)
    path = path_of(column)
    state = states.get(path)
    # If only the index has a field id, the column may be another one with the same name.
    return path if state is not None and state.field_id is None else None
