"""Commit new versions of an index while other writers do the same."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from typing import Literal

from parsieve.errors import ConflictError
from parsieve.index.log.commit import (
    BloomState,
    ColumnState,
    Commit,
    MapState,
    TableState,
    TextKey,
    TextState,
    after,
)
from parsieve.index.log.log import Log
from parsieve.index.log.parts import lost
from parsieve.lake.base import ColumnPath

RETRIES = 100

Columns = Mapping[ColumnPath, ColumnState]
Blooms = Mapping[ColumnPath, BloomState]
Texts = Mapping[TextKey, TextState]


class Transaction:
    """Commits one version of an index. If another writer commits first, the same work is based on the newer version.

    ```python
    transaction = Transaction(log, "update")
    while True:
        newest = transaction.begin()
        ...  # write files that no version references yet
        if version := transaction.commit(table, columns=columns):
            return version
    ```
    """

    def __init__(self, log: Log, operation: str) -> None:
        self._log = log
        self._operation = operation
        self._newest: Commit | None = None
        self._begun = 0

    @property
    def is_retry(self) -> bool:
        """Return whether another writer committed first."""
        return self._begun > 1

    def begin(self) -> Commit | None:
        """Return the newest version, on which the next `commit` is based; None if there is no index."""
        if self._begun:
            if self._begun == RETRIES:
                raise ConflictError(
                    f"{self._log.store}: other writers committed first in all {RETRIES} attempts to commit this "
                    f"{self._operation}; try again later"
                )
            time.sleep(random.uniform(0, min(0.5, 0.005 * 2 ** min(self._begun - 1, 10))))
        self._begun += 1
        self._newest = self._log.newest()
        return self._newest

    @property
    def newest(self) -> Commit | None:
        """Return the version on which the next `commit` is based."""
        return self._newest

    def is_outdated(self) -> bool:
        """Return whether another writer has committed since `begin`."""
        return self._log.newest() != self._newest

    def commit(
        self,
        table: TableState,
        *,
        columns: Columns | None = None,
        blooms: Blooms | None = None,
        texts: Texts | None = None,
        pages: MapState | Literal[False] | None = None,
    ) -> Commit | None:
        """Commit a version with these columns. If an argument is None, this kind of index does not change.

        If `pages` is False, the version has no map of pages.

        Return None if another writer committed first; call `begin` again in that case.
        """
        newest = self._newest
        if columns is None:
            columns = {} if newest is None else newest.columns
        version = after(newest, self._operation, table, columns, blooms, texts=texts, pages=pages)
        parts_before = set() if newest is None else set(newest.parts())
        new_parts = [part for part in version.parts() if part not in parts_before]
        # Never publish a version whose files are missing, not even briefly.
        missing = lost(self._log.store, new_parts)
        if not missing and self._log.publish(version):
            missing = lost(self._log.store, new_parts)
            if not missing:
                return version
            _withdraw(self._log, version, set(missing))
        if missing:
            raise ConflictError(
                f"{self._log.store}: another process expired files of this {self._operation} before it was committed, "
                f"because it ran for too long: {', '.join(missing)}; run it again"
            )
        return None


def _withdraw(log: Log, version: Commit, missing: set[str]) -> None:
    """Undo a version whose files are missing, and drop what uses these files from the versions that follow it."""
    if max((number for number, _ in log.stored()), default=version.version) == version.version:
        log.delete([version.version])
    transaction = Transaction(log, "withdraw")
    while True:
        newest = transaction.begin()
        if newest is None:
            return
        columns = {path: state for path, state in newest.columns.items() if not _uses(state, missing)}
        blooms = {path: state for path, state in newest.blooms.items() if not _uses(state, missing)}
        texts = {key: state for key, state in newest.texts.items() if not _uses(state, missing)}
        has_bad_map = newest.pages is not None and _uses(newest.pages, missing)
        if not has_bad_map and len(columns) + len(blooms) + len(texts) == len(newest.states):
            return
        pages: Literal[False] | None = False if has_bad_map else None
        if transaction.commit(newest.table, columns=columns, blooms=blooms, texts=texts, pages=pages):
            return


def _uses(state: ColumnState | BloomState | MapState, files: set[str]) -> bool:
    return any(part.name in files for part in state.parts())
