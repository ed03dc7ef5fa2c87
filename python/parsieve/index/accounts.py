"""What a build or update reads and leaves out, counted while it runs, for the report at its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pyarrow as pa

from parsieve._core import UnsupportedError
from parsieve.errors import ConflictError
from parsieve.index.settling import path_of_slice, settle, unsettled, warn_of
from parsieve.lake.base import ColumnPath, Lake, LeftOut, Location, Slice, Snapshot


class Account:
    """The slices that one build or update read, with their rows, and those that it left out. Threads may share it."""

    def __init__(self) -> None:
        self.rows: dict[Location, int] = {}
        self._left_out: dict[str, LeftOut] = {}
        self._warned = 0
        self._begun = time.monotonic()
        self._lock = threading.Lock()

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self._begun

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The files that the index does not cover, by path."""
        return tuple(self._left_out[path] for path in sorted(self._left_out))

    def settle(self, lake: Lake, snapshot: Snapshot) -> Snapshot:
        """Wait until files can be trusted, as `settle` does, and note those that cannot."""
        settled = settle(lake, snapshot)
        self._left_out |= {one.path: one for one in unsettled(settled)}
        return settled

    def watch(self, lake: Lake) -> Lake:
        """The lake, whose reads are counted here."""
        return cast(Lake, _Watched(lake, self))

    def read(self, piece: Slice, rows: int) -> None:
        """Note a slice that was read."""
        with self._lock:
            self.rows[piece.location] = rows

    def leave_out(self, piece: Slice, error: Exception) -> None:
        """Note a slice that could not be read."""
        path = path_of_slice(piece)
        with self._lock:
            self._left_out[path] = LeftOut(path, " ".join(str(error).split()))

    def warn(self, where: object) -> None:
        """Log the files that were left out, once."""
        if len(self._left_out) > self._warned:
            warn_of(self.left_out, f"the index in {where}")
        self._warned = len(self._left_out)


class _Watched:
    """A lake whose reads an account counts; everything else is the lake's own."""

    def __init__(self, lake: Lake, account: Account) -> None:
        self._lake = lake
        self._account = account

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def read_keys(self, piece: Slice, columns: Sequence[ColumnPath]) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            for batch in self._lake.read_keys(piece, columns):
                rows += batch.num_rows
                yield batch
        except (ConflictError, FileNotFoundError, UnsupportedError) as error:
            self._account.leave_out(piece, error)
            raise
        self._account.read(piece, rows)
