"""A store whose process is killed at one of its writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from parsieve.index import LocalStore, TableIndex
from parsieve.io.store.base import Data, Stored, chunks_of

# The process dies before the write, after half of it, or after it.
MOMENTS = ("before", "torn", "after")


class KilledError(BaseException):
    """Raised by a store after the death of its process: nothing that the process does has an effect any more."""


class KilledStore(LocalStore):
    """A store that stops working at the write or deletion number `deadly`.

    Cleaning up fails too, as after `kill -9`.
    """

    def __init__(self, folder: Path, deadly: int, moment: str) -> None:
        super().__init__(folder)
        self.writes = 0
        self.is_dead = False
        self._deadly = deadly
        self._moment = moment

    def _at_write(self, name: str, data: bytes, write: Callable[[], Any]) -> Any:
        self._live()
        self.writes += 1
        if self.writes != self._deadly:
            return write()
        self.is_dead = True
        if self._moment == "after":
            write()
        elif self._moment == "torn" and data:
            # Files get their name when they are complete.
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / f".tmp-{path.name}").write_bytes(data[: len(data) // 2])
        raise KilledError

    def _live(self) -> None:
        if self.is_dead:
            raise KilledError

    def put(self, name: str, data: Data) -> None:
        self._at_write(name, b"".join(chunks_of(data)), lambda: LocalStore.put(self, name, data))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return bool(self._at_write(name, data, lambda: LocalStore.put_if_absent(self, name, data)))

    def list(self, folder: str, after: str = "") -> list[Stored]:
        self._live()
        return super().list(folder, after)

    def delete(self, name: str) -> None:
        self._at_write(name, b"", lambda: LocalStore.delete(self, name))


def kills(folder: Callable[[], Path], operation: Callable[[TableIndex], object]) -> Iterator[tuple[str, Path]]:
    """Kill an operation at each of its writes, each time in a new folder. Yield the moment and the folder."""
    for moment in MOMENTS:
        deadly = 1
        while True:
            store = KilledStore(folder(), deadly, moment)
            try:
                operation(TableIndex(store))
            except KilledError:
                yield f"{moment} write {deadly}", store.root
            else:
                assert deadly > 3
                break
            deadly += 1
