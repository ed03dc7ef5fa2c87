"""The result of a search for rows: the rows that may match, of the kept files whose row groups are known."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa


class KeptRows(ABC):
    """The rows that may match. Files are numbered by their slices in a snapshot."""

    @property
    @abstractmethod
    def ranges(self) -> dict[int, list[tuple[int, int]] | None]:
        """For each file, the first row and the number of rows of each range; None if all rows are kept."""

    @property
    @abstractmethod
    def row_groups(self) -> dict[int, tuple[int, list[int]]]:
        """For each file, the number of row groups, and the row groups with rows that may match."""

    @property
    @abstractmethod
    def num_rows(self) -> tuple[int, int]:
        """The number of kept rows, and of all rows of the files that have some."""

    @abstractmethod
    def without_rows(self) -> pa.Int64Array:
        """Return the numbers of the files in which no row may match."""
