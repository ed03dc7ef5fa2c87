"""Repeat work on a version of an index that another process expired meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from parsieve._core import ParsieveError
from parsieve.errors import ConflictError

if TYPE_CHECKING:
    from parsieve.index.table_index import TableIndex
    from parsieve.index.view import View

ResultT = TypeVar("ResultT")

ATTEMPTS = 5


def repeat_if_expired(
    index: TableIndex,
    work: Callable[[View | None], ResultT],
    *,
    is_broken: Callable[[ResultT], Any] = lambda _: False,
) -> ResultT:
    """Return the result of `work` on the newest version of an index.

    If the work fails, or its result is broken, because another process expired this version, repeat it with the version
    that is the newest one now.
    """
    for _ in range(ATTEMPTS):
        view = index.newest()
        try:
            result = work(view)
            if not is_broken(result) or not is_expired(index, view):
                return result
        except ConflictError:
            raise
        except (ParsieveError, FileNotFoundError):
            if not is_expired(index, view):
                raise
        index.refresh()
    raise ConflictError(
        f"{index.store}: other processes expired the version in use in all {ATTEMPTS} attempts; try again later"
    )


def is_expired(index: TableIndex, view: View | None) -> bool:
    """Return whether a version was removed, but not the whole index."""
    versions = [version for version, _ in index.log.stored()]
    return view is not None and bool(versions) and view.version not in versions
