"""The matching rows of a plan, read page by page."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import pyarrow as pa

from parsieve.index.pages.reader import MapReader
from parsieve.lake.base import Lake, Snapshot
from parsieve.lake.slices import SliceObjects
from parsieve.plan.record import PlanRecord
from parsieve.plan.results.observed import observed
from parsieve.plan.results.reading import choose_reading
from parsieve.predicate.column_names import column_names
from parsieve.predicate.expr import Always, And, Expr
from parsieve.predicate.normalize import columns_of_other_types, normalize
from parsieve.predicate.render.form import check_understood
from parsieve.reader.request import Candidates, ReadRequest
from parsieve.reader.table import TableReader

Kind = TypeVar("Kind", bound="Matches")


class Matches(ABC):
    """The rows of some slices for which a predicate is true.

    A pickled copy contains these slices, but not the rest of the snapshot.
    """

    # Whether few of the table's rows can match.
    are_few = False
    # The map of the pages of the table's files, if its index has one.
    pages: MapReader | None = None

    def __init__(self, lake: Lake, snapshot: Snapshot, expr: Expr, candidates: Sequence[Candidates]) -> None:
        """`candidates` are the slices that may contain such rows, with the rows of each that may match."""
        self._lake = lake
        self._snapshot = snapshot
        self._expr = expr
        self._candidates = candidates

    @classmethod
    def of(cls, record: PlanRecord, numbers: Sequence[int] | None = None, condition: Expr | None = None) -> Self:
        """Return the rows of some kept files of a plan by their numbers, or of all of them.

        With a `condition`, return only the rows for which it is true as well.
        """
        numbers = record.kept if numbers is None else numbers
        candidates = [
            Candidates(file_slice, record.row_ranges.get(number), record.groups_to_read(number))
            for number, file_slice in zip(numbers, record.slices(numbers), strict=True)
        ]
        expr = record.expr if condition is None else And((record.expr, condition))
        rows = cls(record.lake, record.snapshot, expr, candidates)
        rows.are_few = choose_reading(record).for_engines
        rows.pages = record.pages
        return rows

    def __getstate__(self) -> dict[str, Any]:
        snapshot = self._snapshot
        state = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_files", "_slices", "_row_groups", "pages")
        }
        return state | {"_snapshot": Snapshot(snapshot.id, snapshot.instant, snapshot.schema, SliceObjects(()))}

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._snapshot.schema

    @abstractmethod
    def scan(self, output: list[str], hold: bool) -> pa.RecordBatchReader:
        """Return the rows as a stream with these columns, by decoding complete row groups with pyarrow."""

    def reader(
        self, names: Sequence[str] | None, hold: bool = False, threads: int | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream, with some columns.

        With `hold`, rows are returned only once a file is read completely, so that any file that changes can be read
        again. Without, a large file that is overwritten after some of its rows were returned raises `ConflictError`.
        """
        # An error in the middle of a stream would reach other libraries as a text only.
        check_understood(normalize(self._expr))
        output = self._columns(names)
        self.refuse_other_types()
        if not self.reads_pages(output):
            return observed(self.scan(output, hold), self._lake.uri)
        request = ReadRequest(self.schema, tuple(output), self._expr)
        table = TableReader(self._lake, request, self.pages)
        batches = table.read(
            self._candidates,
            lambda start, end: iter(self._part(start, end).scan(output, hold)),
            threads=threads,
            hold=hold,
        )
        return observed(pa.RecordBatchReader.from_batches(request.output, batches), self._lake.uri)

    @property
    def columns_of_other_types(self) -> list[str]:
        """The columns in which a value that the table's type cannot represent may make the predicate true."""
        if self._lake.types_are_certain:
            return []
        return list(dict.fromkeys(column.path[0] for column in columns_of_other_types(self._expr)))

    def refuse_other_types(self) -> None:
        """Raise `UnsupportedError` if a value that the table's type cannot represent may make the predicate true.

        Readers convert values to the table's type. No value of this type makes such a condition true, so a reader may
        skip the values that do.
        """
        names = self.columns_of_other_types
        others = self._of_other_types(names) if names else []
        if others:
            # Reading the values converts them.
            for _ in type(self)(self._lake, self._snapshot, Always(True), others).scan(names, hold=False):
                pass

    def _of_other_types(self, names: Sequence[str]) -> list[Candidates]:
        """Return the slices in which some columns do not have the table's types."""
        from parsieve.lake.rows.arrow_scan import without_dictionaries

        files = self._lake.files(self._snapshot, [part.file_slice for part in self._candidates])
        if files is None:
            return list(self._candidates)
        # Whether names that differ only in case are the same column depends on the engine, so such files are read too.
        types = {name.lower(): (name, without_dictionaries(self.schema.field(name).type)) for name in names}
        return [
            part
            for part, physical in zip(self._candidates, files.physical_schemas(), strict=True)
            if any(
                types.get(field.name.lower(), own) != own
                for field in physical
                for own in [(field.name, without_dictionaries(field.type))]
            )
        ]

    def reads_pages(self, output: Sequence[str]) -> bool:
        """Return whether to read the rows page by page. Without a condition, all pages must be decoded."""
        return bool(self._candidates and output) and not isinstance(normalize(self._expr), Always)

    def _columns(self, names: Sequence[str] | str | None) -> list[str]:
        """Return the names of the requested columns, or of all columns."""
        return column_names(self._snapshot.schema, names)

    def _part(self, start: int, end: int) -> Self:
        """Return the rows of some of the slices."""
        return type(self)(self._lake, self._snapshot, self._expr, self._candidates[start:end])

    def of_kind(self, kind: type[Kind]) -> Kind:
        """Return the same rows as another subclass."""
        return kind(self._lake, self._snapshot, self._expr, self._candidates)
