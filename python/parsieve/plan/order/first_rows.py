"""Read the first rows in an order, file by file, and stop when no other file can hold an earlier row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from parsieve.lake.storage.pinned import changed_since
from parsieve.observe.logs import ROWS
from parsieve.plan.order.any_rows import MOST_FILES, few_files, files_for
from parsieve.plan.order.ordering import Ordering
from parsieve.plan.plan import MatchingRows
from parsieve.plan.record import PlanRecord
from parsieve.predicate.column_names import column_names
from parsieve.predicate.expr import Expr
from parsieve.wording import count

# Returns the plan of the same predicate and another condition, on the same state of the table.
Narrow = Callable[[Expr], PlanRecord]


class FirstRows:
    """The first rows of a plan in an order."""

    def __init__(
        self,
        record: PlanRecord,
        numbers: Sequence[int],
        ordering: Ordering,
        limit: int | None,
        narrow: Narrow | None,
    ) -> None:
        """`numbers` are the kept files in the order to read them. Without `narrow`, all of them are read."""
        self._record = record
        self._numbers = numbers
        self._ordering = ordering
        self._limit = limit
        self._narrow = narrow
        # How many files were read.
        self.files_read = 0

    def read(self, names: Sequence[str] | None, threads: int | None) -> pa.Table:
        """Return the rows, with some columns."""
        output = column_names(self._record.snapshot.schema, names)
        needed = list(output)
        if self._ordering.column.path[0] not in needed:
            needed.append(self._ordering.column.path[0])
        rows = self._first_rows(needed, threads)
        if ROWS.isEnabledFor(10):
            ROWS.debug("read %d of %s for the first rows", self.files_read, count(len(self._numbers), "file"))
        return rows.select([rows.schema.names.index(name) for name in output])

    def _first_rows(self, needed: list[str], threads: int | None) -> pa.Table:
        record, remaining = self._record, list(self._numbers)
        rows: pa.Table | None = None
        few = few_files(record)
        together = few if self._limit is not None else len(remaining)
        while remaining and self._limit != 0:
            files, remaining = remaining[:together], remaining[together:]
            self.files_read += len(files)
            more = self._of_files(record, files, rows, needed, threads)
            rows = self._cut(more if rows is None else pa.concat_tables([rows, more]))
            if self._limit is None:
                break
            if len(rows) < self._limit:
                together = max(few, files_for(self._limit - len(rows), len(rows), self.files_read))
            elif self._narrow is not None and remaining:
                record, remaining = self._before(rows, len(rows) - 1, remaining)
                together = few
                if len(remaining) > few:
                    # A file that may hold a row before all others must be read, unless many such rows are found.
                    needs = self._before(rows, 0, remaining)[1]
                    chosen = set(needs)
                    remaining = [*needs, *(number for number in remaining if number not in chosen)]
                    together = min(max(few, len(needs)), MOST_FILES)
        return MatchingRows.of(record, []).reader(needed).read_all() if rows is None else rows

    def _before(self, rows: pa.Table, at: int, remaining: Sequence[int]) -> tuple[PlanRecord, list[int]]:
        """Return the plan of rows before one of those read, and the remaining files that can hold such rows."""
        assert self._narrow is not None
        earlier = self._ordering.before(self._ordering.values(rows)[at])
        if earlier is None:
            return self._record, []
        record = self._narrow(earlier)
        kept = set(record.kept)
        return record, [number for number in remaining if number in kept]

    def _of_files(
        self, record: PlanRecord, files: Sequence[int], rows: pa.Table | None, needed: list[str], threads: int | None
    ) -> pa.Table:
        """Return the rows of some files that may be among the first."""
        key = [self._ordering.column.path[0]]
        if self._limit is None or needed == key:
            return MatchingRows.of(record, files).reader(needed, hold=True, threads=threads).read_all()
        # Find the last of the first rows, then read the other columns of rows before it only.
        keys = MatchingRows.of(record, files).reader(key, hold=True, threads=threads).read_all()
        first = self._cut(keys if rows is None else pa.concat_tables([rows.select(key), keys]))
        last = self._ordering.values(first)[len(first) - 1] if len(first) == self._limit else None
        until = None if last is None else self._ordering.until(last)
        more = MatchingRows.of(record, files, until).reader(needed, hold=True, threads=threads).read_all()
        if len(more) + (0 if rows is None else len(rows)) < len(first):
            raise changed_since(record.name(files[0]))
        return more

    def _cut(self, rows: pa.Table) -> pa.Table:
        """Return the first of some rows, in order."""
        return rows.take(self._ordering.sort(self._ordering.values(rows)).slice(0, self._limit))
