"""Cached properties and locks that threads and forked processes can share."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801 - the name in functools
        """Compute a property of an object at its first use, as `functools.cached_property` does.

        Python 3.11 holds one lock for all objects of a class while it computes the property. So threads wait for each
        other, and a process that is forked meanwhile waits forever. Later versions have no lock, so two threads may get
        different values. Here, two threads may compute a value at the same time, but both get the same one.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self._name = ""
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            # The value replaces this descriptor, so the next access does not call it.
            return instance.__dict__.setdefault(self._name, self._compute(instance))


class Lock:
    """A lock that is free in a forked process, even if another thread held it during the fork.

    The guarded data must be valid after each statement, because the forked process continues with it.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Free the lock in a forked process."""
        self._lock = threading.Lock()


_locks: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_locks() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
