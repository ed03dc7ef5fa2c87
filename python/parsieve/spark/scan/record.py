"""`Scan`: how much of a table one Spark scan read, and why it skipped the rest."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parsieve.sharing import cached_property
from parsieve.wording import count, size

if TYPE_CHECKING:
    from parsieve.plan.record import PlanRecord

_log = logging.getLogger("parsieve.spark")


@dataclass(frozen=True)
class Scan:
    """How much of a table one scan read, and why the rest was skipped.

    `table` is a path or URI. Spark got `files_kept` of its `files_total` files, with `bytes_kept` of `bytes_total`
    bytes; both are None if sizes are unknown. `evidence` shows why files were skipped, and `notes` why others were not.

    >>> from parsieve.spark import Scan
    >>> print(Scan("lake/orders", 51, 200, 78_000_000, 305_000_000))
    orders: 51 of 200 files, 78 of 305 MB
    """

    table: str
    files_kept: int
    files_total: int
    bytes_kept: int | None = None
    bytes_total: int | None = None
    _failure: str = field(default="", repr=False)
    _plan: PlanRecord | None = field(default=None, repr=False, compare=False)

    @cached_property
    def evidence(self) -> dict[str, int]:
        """How many files each kind of evidence skipped, such as `{"sieve index": 149}`."""
        if self._plan is None:
            return {}
        return dict(Counter(skip.evidence for skip in self._plan.skips).most_common())

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """The reasons why files were kept in doubt, each with the number of files."""
        failures = (self._failure,) if self._failure else ()
        if self._plan is None:
            return failures
        files = Counter(doubt for keep in self._plan.keeps for doubt in keep.doubt)
        doubts = (f"{doubt} ({count(number, 'file')})" for doubt, number in files.most_common())
        return (*failures, *self._plan.notes, *doubts)

    def __str__(self) -> str:
        name = self.table.rstrip("/").rpartition("/")[2] or self.table
        text = f"{name}: {self.files_kept} of {self.files_total} files"
        if self.bytes_kept is None or self.bytes_total is None:
            return text
        return f"{text}, {size(self.bytes_kept, of=self.bytes_total)}"


def log_scan(
    table: str, sizes: Mapping[str, int | None], kept: Set[str], plan: PlanRecord | None, failure: str = ""
) -> Scan:
    """Return the record of a scan, and log it. `sizes` has all listed files, `kept` the files to read."""
    all_sizes = list(sizes.values())
    kept_sizes = [size for path, size in sizes.items() if path in kept]
    scan = Scan(table, len(kept_sizes), len(all_sizes), _total(kept_sizes), _total(all_sizes), failure, plan)
    _log.info("%s", scan)
    return scan


def _total(sizes: Sequence[int | None]) -> int | None:
    known_sizes = [size for size in sizes if size is not None]
    return sum(known_sizes) if len(known_sizes) == len(sizes) else None
