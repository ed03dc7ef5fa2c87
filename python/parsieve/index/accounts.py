"""Count the files and rows that a build or an update reads, for its report."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from parsieve._core import UnsupportedError
from parsieve.index.build.lost import why_dropped, why_lost
from parsieve.index.build.renewals import Renewed
from parsieve.index.build.settle import log_left_out, path_of_slice, settle, unsettled
from parsieve.index.findings import name_of
from parsieve.index.log import bindings
from parsieve.index.log.parts import naming_remedy
from parsieve.index.reports import BuildReport, CompactReport, ConvertReport, UpdateReport
from parsieve.index.sieve import query
from parsieve.index.sizes import lookup_bytes, pages_bytes, stored_bytes
from parsieve.index.view import View
from parsieve.lake.base import ColumnPath, Lake, LeftOut, Location, Slice, Snapshot
from parsieve.lake.slices import Slices, locations_and_tokens
from parsieve.lake.slices import names_of as names_of_slices
from parsieve.predicate.expressions.expression import index_name, is_expression
from parsieve.wording import count


class Account:
    """The slices that one build or update reads, with their rows, and the ones it leaves out. Threads may share it."""

    def __init__(self) -> None:
        self.rows: dict[Location, int] = {}
        # The slices that compactions read again after an update.
        self.rows_again: dict[Location, int] = {}
        self.snapshot: Snapshot | None = None
        self._left_out: dict[str, LeftOut] = {}
        self._unmapped: dict[Location, Exception] = {}
        self._dropped: tuple[str, ...] = ()
        self._logged = 0
        self._begun = time.monotonic()
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._begun

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Return the files that the index does not cover, sorted by path."""
        return tuple(self._left_out[path] for path in sorted(self._left_out))

    def settle(self, lake: Lake, snapshot: Snapshot) -> Snapshot:
        """Wait until files can be indexed, as `settle` does, and record the other files."""
        self.snapshot = settled = settle(lake, snapshot)
        self._left_out |= {file.path: file for file in unsettled(settled)}
        return settled

    def watch(self, lake: Lake) -> Lake:
        """Return a lake whose reads are counted."""
        return cast(Lake, _Watched(lake, self))

    def of_compaction(self) -> Account:
        """Return an account for a compaction after an update. It counts reads as `rows_again` of this account."""
        account = Account()
        account.rows = self.rows_again
        account.snapshot, account._left_out, account._lock = self.snapshot, self._left_out, self._lock
        return account

    def read(self, file_slice: Slice, rows: int) -> None:
        """Record a slice that was read."""
        with self._lock:
            self.rows[file_slice.location] = rows

    def leave_out(self, file_slice: Slice, error: Exception) -> None:
        """Record a slice that could not be read, or whose rows do not fit its footer."""
        path = path_of_slice(file_slice)
        with self._lock:
            self.rows.pop(file_slice.location, None)
            self._left_out[path] = LeftOut(path, _reason(error, path), not isinstance(error, UnsupportedError))

    def leave_unmapped(self, slices: Mapping[Location, Exception]) -> None:
        """Record slices that the map of pages leaves out."""
        self._unmapped |= slices

    def note_dropped(self, before: View | None, after: View, snapshot: Snapshot) -> None:
        """Record which indexes of a version an update dropped, and why."""
        states = () if before is None else before.commit.states
        self._dropped += tuple(
            note
            for state in states
            if (note := why_dropped(snapshot.schema, state)) is not None and state not in after.commit.states
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a note for each index that an update dropped, and one for the slices without a map of their pages."""
        return (*self._dropped, *self._notes_of_map())

    def _notes_of_map(self) -> tuple[str, ...]:
        if not self._unmapped:
            return ()
        location, error = min(self._unmapped.items(), key=lambda entry: entry[0])
        count = len(self._unmapped)
        which = "1 file has" if count == 1 else f"{count:,} files have"
        reason = " ".join(str(error).split())
        return (f"{which} no map of pages, so readers use the footers: {name_of(location)}: {reason}",)

    def warn(self, where: object) -> None:
        """Log the files that were left out, once."""
        if len(self._left_out) > self._logged:
            log_left_out(self.left_out, f"the index in {where}")
        self._logged = len(self._left_out)

    def built(self, view: View | None, columns: Mapping[ColumnPath, str], notes: Sequence[str]) -> BuildReport:
        """Return the report of a build. `columns` has the kind of index of each column."""
        paths = [path for path, kind in columns.items() if kind != "none"]
        sizes, num_bytes = (0, 0), 0
        if view is not None and paths:
            view = self._named(view)
            sizes, num_bytes = (stored_bytes(view.commit, paths), lookup_bytes(view, paths)), pages_bytes(view.commit)
            notes = (*notes, *disagreements(view, paths))
        names = {index_name(path): kind for path, kind in columns.items()}
        rows = sum(self.rows.values())
        notes = (*notes, *self.notes)
        return BuildReport(names, len(self.rows), rows, *sizes, self.seconds, self.left_out, notes, num_bytes)

    def converted(
        self, before: View, view: View | None, paths: Sequence[ColumnPath], notes: Sequence[str]
    ) -> ConvertReport:
        """Return the report of a conversion of some columns. There is no new version if there are none."""
        sizes, num_bytes = (0, 0, 0), 0
        if view is not None:
            view = self._named(view)
            stored = stored_bytes(before.commit, paths), stored_bytes(view.commit, paths)
            sizes, num_bytes = (*stored, lookup_bytes(view, paths)), pages_bytes(view.commit)
        names = tuple(map(index_name, paths))
        rows = sum(self.rows.values())
        notes = (*notes, *self.notes)
        return ConvertReport(names, len(self.rows), rows, *sizes, self.seconds, self.left_out, notes, num_bytes)

    def compacted(self, before: View | None, view: View, snapshot: Snapshot) -> CompactReport:
        """Return the report of a compaction. `before` is the index before the compaction."""
        before = None if before is None else before.named(snapshot.schema)
        view = view.named(snapshot.schema)
        states = {} if before is None else before.columns
        merged = {
            index_name(path): len(state.deltas)
            for path, state in states.items()
            if path in view.columns and view.columns[path].base != state.base
        }
        notes = []
        if before is not None and before.commit.pages != view.commit.pages:
            notes.append("the map of pages was stored again, as by a new build")
        notes += [
            f"{reason}, so its index was not compacted; update_index() removes it"
            for state in view.columns.values()
            if state.layout is not None and (reason := why_lost(snapshot.schema, state)) is not None
        ]
        return CompactReport(
            columns=tuple(merged),
            updates_merged=sum(merged.values()),
            bytes_stored=stored_bytes(view.commit),
            bytes_lookup=lookup_bytes(view),
            seconds=self.seconds,
            notes=tuple(notes),
            files_read=len(self.rows),
            rows=sum(self.rows.values()),
            left_out=self._left_out_of_compaction(before, view, snapshot),
            pages_bytes=pages_bytes(view.commit),
        )

    def _named(self, view: View) -> View:
        """Return a version with the current names of the columns."""
        return view if self.snapshot is None else view.named(self.snapshot.schema)

    def _left_out_of_compaction(self, before: View | None, view: View, snapshot: Snapshot) -> tuple[LeftOut, ...]:
        """Return the files of a snapshot that an index covered, but no longer covers after a compaction."""
        lost: set[Location] = set()
        for path, reader in () if before is None else ((path, before.reader(path)) for path in before.columns):
            if path in view.columns and view.columns[path].bindings != reader.state.bindings:
                after = view.reader(path)
                bound = after.bound
                if not after.gone:
                    lost |= {location for location, token in reader.bound.items() if token and not bound.get(location)}
        numbers = [
            number for number, location in enumerate(locations_and_tokens(snapshot.slices)[0]) if location in lost
        ]
        for file_slice in snapshot.slices.at(numbers):
            name = path_of_slice(file_slice)
            self._left_out.setdefault(name, LeftOut(name, "it changed since the last update of the index"))
        return self.left_out

    def updated(self, view: View | None, before: Mapping[Location, set[str]], renewed: Renewed) -> UpdateReport:
        """Return the report of an update. `before` has the tokens that the index was bound to."""
        slices = Slices.of(()) if self.snapshot is None else self.snapshot.slices
        current = set(locations_and_tokens(slices)[0])
        renewed_locations = {
            location
            for location, tokens in renewed.items()
            if location not in self.rows and before.get(location, set()).intersection(tokens)
        }
        left_out = sum(name in self._left_out for name in names_of_slices(slices))
        return UpdateReport(
            columns=() if view is None else names_of(self._named(view)),
            files_read=len(self.rows),
            files_renewed=len(renewed_locations),
            files_removed=sum(location not in current for location in before),
            files_unchanged=max(0, len(slices) - len(self.rows) - len(renewed_locations) - left_out),
            rows=sum(self.rows.values()),
            bytes_stored=0 if view is None else stored_bytes(view.commit),
            bytes_lookup=0 if view is None else lookup_bytes(view),
            seconds=self.seconds,
            left_out=self.left_out,
            notes=self.notes,
            pages_bytes=0 if view is None else pages_bytes(view.commit),
            files_compacted=len(self.rows_again),
            rows_compacted=sum(self.rows_again.values()),
        )


def disagreements(view: View, paths: Sequence[ColumnPath]) -> list[str]:
    """Return a note for each expression of these with values on which engines disagree, which no plan skips."""
    notes = []
    for path in paths:
        if path not in view.columns or not is_expression(path):
            continue
        # The index has a null for each such value.
        answer = view.reader(path).find_units(query.is_null())
        num_doubtful = 0 if answer is None else pc.count_distinct(answer.ids).as_py()
        if num_doubtful:
            name = index_name(path)
            of = f"{num_doubtful:,} of {count(len(view.reader(path).bound), 'file')}"
            layout = view.columns[path].layout
            is_whole = layout is None or layout.unit == "file"
            kept = "no condition on it skips them" if is_whole else "every condition on it keeps those parts of them"
            verb = "has" if num_doubtful == 1 else "have"
            notes.append(f"{of} {verb} values for which engines disagree about {name}, so {kept}")
    return notes


def names_of(view: View) -> tuple[str, ...]:
    """Return the names of the indexed columns."""
    return tuple(index_name(path) for path in view.commit.indexed)


def bound_tokens(view: View | None) -> dict[Location, set[str]]:
    """Return the tokens of each location that the columns of an index are bound to."""
    tokens: dict[Location, set[str]] = {}
    if view is None:
        return tokens
    for chain in {state.bindings for state in view.commit.states}:
        with naming_remedy():
            bound = bindings.read(view.store, chain)
        for location, token in bound.tokens.items():
            tokens.setdefault(location, set()).add(token)
    return tokens


class _Watched:
    """A lake whose reads are counted."""

    def __init__(self, lake: Lake, account: Account) -> None:
        self._lake = lake
        self._account = account

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def read_keys(self, file_slice: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        rows = 0
        for batch in self._lake.read_keys(file_slice, columns):
            rows += batch.num_rows
            yield batch
        self._account.read(file_slice, rows)

    def leave_out(self, file_slice: Slice, error: Exception) -> None:
        self._account.leave_out(file_slice, error)


def _reason(error: Exception, path: str) -> str:
    """Return the text of an error about a file without the path, which `LeftOut` has too."""
    text = " ".join(str(error).split())
    for before, instead in ((": ", ""), (", ", ""), (" ", "it ")):
        if text.startswith(path + before):
            return instead + text[len(path + before) :]
    return text
