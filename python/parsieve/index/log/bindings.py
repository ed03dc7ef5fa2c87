"""The bindings of a column: the token of each location that its index covers, stored as a list and changes to it.

An index answers for a file only if the file still has the token that it is bound to. In format 2, each location also
has the id of the slice that was read. A changed slice gets a new id, and an id is never used again, so that answers of
older files of the index can never apply to newer versions of a data file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsieve._core import FormatError
from parsieve.index.log.commit import FORMAT
from parsieve.index.log.parts import MAX_IDS, Part
from parsieve.io import document
from parsieve.io.parallel import map_in_threads
from parsieve.io.remote_speed import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import Location

BINDINGS = "bindings"
# Reading a longer chain costs more than writing a new list.
MAX_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Bindings:
    """The token of each location, and in format 2 its slice id. A slice that could not be read has the token ""."""

    tokens: Mapping[Location, str]
    # None in format 1.
    ids: Mapping[Location, int] | None = None
    # The first id that was never used.
    next_id: int = 0

    @classmethod
    def fresh(cls, locations: Sequence[Location], tokens: Mapping[Location, str]) -> Bindings:
        """Return the bindings of a new index in format 2, whose ids are the positions of its sorted locations."""
        ids = {location: number for number, location in enumerate(locations)}
        return cls({location: tokens[location] for location in locations}, ids, len(ids))

    def after(self, tokens: Mapping[Location, str], read: Sequence[Location]) -> Bindings:
        """Return the bindings after an update that read some slices. These get new ids, in the order of `read`."""
        if self.ids is None:
            return Bindings(tokens)
        new_ids = {location: self.next_id + number for number, location in enumerate(read)}
        ids = {location: new_ids[location] if location in new_ids else self.ids[location] for location in tokens}
        return Bindings(tokens, ids, self.next_id + len(new_ids))

    def without(self, locations: Collection[Location]) -> Bindings:
        """Return the bindings without some locations."""
        tokens = {location: token for location, token in self.tokens.items() if location not in locations}
        ids = None if self.ids is None else {location: self.ids[location] for location in tokens}
        return Bindings(tokens, ids, self.next_id)

    def row(self, location: Location) -> tuple[str | None, int | None]:
        """Return the token and the id of a location."""
        return self.tokens.get(location), None if self.ids is None else self.ids.get(location)

    def live_ids(self) -> list[int]:
        """Return the ids of the slices that the index covers, in order."""
        ids = self.ids or {}
        return sorted(ids[location] for location, token in self.tokens.items() if token and location in ids)


NOTHING = Bindings({})


def write(store: Store, chain: Sequence[Part], before: Bindings, after: Bindings) -> tuple[Part, ...]:
    """Store the changes, and return the new chain of files."""
    rows = _rows(after)
    earlier = _rows(before)
    bound = {location: row for location, row in rows.items() if earlier.get(location) != row}
    gone = [location for location in before.tokens if location not in after.tokens]
    if chain and not bound and not gone and before.next_id == after.next_id:
        return tuple(chain)
    # If more than half has changed, a full list is smaller.
    full = not chain or len(chain) >= MAX_CHAIN or 2 * (len(bound) + len(gone)) > len(rows)
    if full:
        bound, gone, chain = rows, [], ()
    partitions: dict[str, list[list[Any]]] = {}
    for location, row in sorted(bound.items()):
        partitions.setdefault(location.partition, []).append([location.group, *row])
    content = {
        "full": full,
        "bound": [{"partition": partition, "groups": groups} for partition, groups in partitions.items()],
        "gone": [[location.partition, location.group] for location in sorted(gone)],
    }
    if after.ids is None:
        data = document.write(BINDINGS, content)
    else:
        if after.next_id > MAX_IDS:
            raise OverflowError("the index has used all ids of slices; build it again")
        data = document.write(BINDINGS, {**content, "next_id": after.next_id}, version=FORMAT)
    return (*chain, Part.put(store, unique(BINDINGS, "bindings"), data))


def _rows(bindings: Bindings) -> dict[Location, tuple[Any, ...]]:
    """Return the stored values of each location."""
    ids = bindings.ids
    if ids is None:
        return {location: (token,) for location, token in bindings.tokens.items()}
    return {location: (token, ids[location]) for location, token in bindings.tokens.items()}


def read(store: Store, chain: Sequence[Part]) -> Bindings:
    """Return the bindings after all changes of a chain."""
    files = list(map_in_threads(lambda part: part.get(store), chain, REQUESTS_AT_ONCE, "parsieve-read"))
    state = _Chain()
    for number, (part, data) in enumerate(zip(chain, files, strict=True)):
        fields = document.read(BINDINGS, data, f"{store}/{part.name}", newest=FORMAT)
        if fields.get("full", bool) != (number == 0):
            raise FormatError(f"{store}/{part.name} is at the wrong position of its chain")
        if number and fields.version != state.version:
            raise FormatError(f"{store}/{part.name} has another format version than the file that it changes")
        state.apply(fields, f"{store}/{part.name}")
    if state.version == 1:
        return Bindings(state.tokens)
    if len(set(state.ids.values())) != len(state.ids):
        raise FormatError(f"{store}/{chain[-1].name}: two locations have the same id")
    return Bindings(state.tokens, state.ids, state.next_id)


@dataclass
class _Chain:
    """The bindings after some files of a chain."""

    version: int = 1
    tokens: dict[Location, str] = field(default_factory=dict)
    ids: dict[Location, int] = field(default_factory=dict)
    next_id: int = 0

    def apply(self, fields: document.Fields, name: str) -> None:
        """Apply the changes of a file."""
        self.version = fields.version
        for partition, group in fields.rows("gone", str, str):
            self.tokens.pop(Location(partition, group), None)
            self.ids.pop(Location(partition, group), None)
        for entry in fields.objects("bound"):
            partition = entry.get("partition", str)
            if self.version == 1:
                rows = entry.rows("groups", str, str)
                self.tokens.update((Location(partition, group), token) for group, token in rows)
            else:
                self._bind(partition, entry.rows("groups", str, str, int))
        if self.version == 1:
            return
        next_id = fields.get("next_id", int)
        if not self.next_id <= next_id <= MAX_IDS or not all(0 <= number < next_id for number in self.ids.values()):
            raise FormatError(f"{name}: an id is out of range")
        self.next_id = next_id

    def _bind(self, partition: str, rows: Iterable[list[Any]]) -> None:
        for group, token, number in rows:
            self.tokens[Location(partition, group)] = token
            self.ids[Location(partition, group)] = number
