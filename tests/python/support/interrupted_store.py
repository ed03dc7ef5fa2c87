"""A store that lets another process run between two steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from parsieve.index import LocalStore
from parsieve.io.store.base import Data, Stored


class InterruptedStore(LocalStore):
    """A store that calls a function once, before its listing or change number `number`."""

    def __init__(self, folder: Path, number: int, action: Callable[[], object]) -> None:
        super().__init__(folder)
        self._left = number
        self._action = action
        self.is_done = False

    def _count_step(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.is_done = True
            self._action()

    def put(self, name: str, data: Data) -> None:
        self._count_step()
        super().put(name, data)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self._count_step()
        return super().put_if_absent(name, data)

    def delete(self, name: str) -> None:
        self._count_step()
        super().delete(name)

    def list(self, folder: str, after: str = "") -> list[Stored]:
        self._count_step()
        return super().list(folder, after)
