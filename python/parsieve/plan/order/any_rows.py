"""Read any rows of a plan, a few files at a time, and stop when there are enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from parsieve.plan.plan import MatchingRows
from parsieve.plan.record import PlanRecord

# How many files are read together. Each further file may have been unnecessary.
LOCAL_FILES, REMOTE_FILES = 2, 4
# How many files are read together if all of them must probably be read.
MOST_FILES = 256


class AnyRows:
    """Some of the rows of a plan, in no order."""

    def __init__(self, record: PlanRecord, limit: int) -> None:
        self._record = record
        self._limit = limit
        # How many files were read.
        self.files_read = 0

    def tables(self, names: Sequence[str] | None, threads: int | None = None) -> Iterator[pa.Table]:
        """Yield rows with some columns, until there are as many as the limit."""
        few = few_files(self._record)
        remaining, found, together = self._record.kept, 0, few
        while remaining and found < self._limit:
            files, remaining = remaining[:together], remaining[together:]
            self.files_read += len(files)
            rows = MatchingRows.of(self._record, files).reader(names, hold=True, threads=threads).read_all()
            yield rows.slice(0, self._limit - found)
            found += len(rows)
            together = max(few, files_for(self._limit - found, found, self.files_read))

    def read(self, names: Sequence[str] | None, threads: int | None = None) -> pa.Table:
        """Return the rows with some columns."""
        if names is not None and not names:
            # Tables without columns lose their number of rows when they are concatenated.
            return self.read(self._record.snapshot.schema.names[:1], threads).select([])
        none = MatchingRows.of(self._record, []).reader(names).read_all()
        return pa.concat_tables([none, *self.tables(names, threads)])


def few_files(record: PlanRecord) -> int:
    """Return how many files to read together at first."""
    return LOCAL_FILES if record.lake.is_local else REMOTE_FILES


def files_for(missing: int, found: int, files_read: int) -> int:
    """Return how many files to read next: half of the files that hold the missing rows, judging by the others."""
    return min(missing * files_read // (2 * found) if found else 2 * files_read, MOST_FILES)
