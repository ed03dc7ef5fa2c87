"""Files that got other filters and kept their rows: notes beside the index, by which it is bound to them unread."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from parsieve._core import ParsieveError
from parsieve.filters.renewal_notes import RENEWALS
from parsieve.io import document
from parsieve.io.store.base import Store
from parsieve.lake.base import Location, Snapshot

# For each location the tokens of versions that had the rows which it has now.
Renewed = Mapping[Location, Collection[str]]


@dataclass(frozen=True)
class Renewals:
    """The notes that lie in a store, for a snapshot."""

    store: Store
    names: tuple[str, ...]
    tokens: Renewed

    @classmethod
    def read(cls, store: Store, snapshot: Snapshot) -> Renewals:
        """What the notes say of the versions of a snapshot. One that is damaged says nothing."""
        names, earlier = [], dict[tuple[Location, str], list[str]]()
        for stored in store.list(RENEWALS):
            names.append(stored.name)
            with contextlib.suppress(ParsieveError, OSError):
                fields = document.read(RENEWALS, store.get(stored.name), f"{store}/{stored.name}")
                rows: list[list[Any]] = fields.rows("same", str, str, str, str)
                for partition, group, since, until in rows:
                    earlier.setdefault((Location(partition, group), until), []).append(since)
        tokens = {}
        for location in {location for location, _ in earlier}:
            now = snapshot.tokens.get(location)
            if now:
                tokens[location] = _before(location, now, earlier)
        return cls(store, tuple(names), tokens)

    def forget(self) -> None:
        """Remove the notes, once the index is bound to what they tell."""
        for name in self.names:
            with contextlib.suppress(OSError):
                self.store.delete(name)


def _before(location: Location, now: str, earlier: Mapping[tuple[Location, str], list[str]]) -> set[str]:
    found: set[str] = set()
    pending = [now]
    while pending:
        for since in earlier.get((location, pending.pop()), ()):
            if since and since != now and since not in found:
                found.add(since)
                pending.append(since)
    return found
