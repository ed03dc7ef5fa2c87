"""Read notes about files whose filters changed but not their rows, so that an update need not read them again."""

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

# The tokens of earlier versions of each location that have the same rows as the current version.
Renewed = Mapping[Location, Collection[str]]


@dataclass(frozen=True)
class Renewals:
    """The notes in a store that concern a snapshot."""

    store: Store
    names: tuple[str, ...]
    tokens: Renewed

    @classmethod
    def read(cls, store: Store, snapshot: Snapshot) -> Renewals:
        """Read the notes, and follow them from the tokens of a snapshot back to earlier tokens. Skip damaged notes."""
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
            current = snapshot.tokens.get(location)
            if current:
                tokens[location] = _tokens_before(location, current, earlier)
        return cls(store, tuple(names), tokens)

    def forget(self) -> None:
        """Remove the notes, once the index is bound to the new tokens."""
        for name in self.names:
            with contextlib.suppress(OSError):
                self.store.delete(name)


def _tokens_before(location: Location, current: str, earlier: Mapping[tuple[Location, str], list[str]]) -> set[str]:
    tokens: set[str] = set()
    pending = [current]
    while pending:
        for since in earlier.get((location, pending.pop()), ()):
            if since and since != current and since not in tokens:
                tokens.add(since)
                pending.append(since)
    return tokens
