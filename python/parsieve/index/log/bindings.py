"""The bindings of a column: the token of each location that its index covers, stored as a list and changes to it.

An index answers for a file only if the file still has the token that it is bound to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parsieve._core import FormatError
from parsieve.index.log.commit import Part
from parsieve.io import document
from parsieve.io.parallel import map_in_threads
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import Location

BINDINGS = "bindings"
# Reading a longer chain costs more than writing a new list.
MAX_CHAIN = 8

Bindings = Mapping[Location, str]


def write(store: Store, chain: Sequence[Part], before: Bindings, after: Bindings) -> tuple[Part, ...]:
    """Store the changes, and return the new chain of files."""
    bound = {location: token for location, token in after.items() if before.get(location) != token}
    gone = [location for location in before if location not in after]
    if chain and not bound and not gone:
        return tuple(chain)
    # If more than half has changed, a full list is smaller.
    full = not chain or len(chain) >= MAX_CHAIN or 2 * (len(bound) + len(gone)) > len(after)
    if full:
        bound, gone, chain = dict(after), [], ()
    partitions: dict[str, list[list[str]]] = {}
    for location, token in sorted(bound.items()):
        partitions.setdefault(location.partition, []).append([location.group, token])
    data = document.write(
        BINDINGS,
        {
            "full": full,
            "bound": [{"partition": partition, "groups": groups} for partition, groups in partitions.items()],
            "gone": [[location.partition, location.group] for location in sorted(gone)],
        },
    )
    return (*chain, Part.put(store, unique(BINDINGS, "bindings"), data))


def read(store: Store, chain: Sequence[Part]) -> dict[Location, str]:
    """Return the token of each location after all changes of a chain."""
    files = list(map_in_threads(lambda part: part.get(store), chain, REQUESTS_AT_ONCE, "parsieve-read"))
    tokens: dict[Location, str] = {}
    for number, (part, data) in enumerate(zip(chain, files, strict=True)):
        fields = document.read(BINDINGS, data, f"{store}/{part.name}")
        if fields.get("full", bool) != (number == 0):
            raise FormatError(f"{store}/{part.name} is at the wrong position of its chain")
        rows: list[list[Any]] = fields.rows("gone", str, str)
        for partition, group in rows:
            tokens.pop(Location(partition, group), None)
        for entry in fields.objects("bound"):
            partition = entry.get("partition", str)
            tokens.update((Location(partition, group), token) for group, token in entry.rows("groups", str, str))
    return tokens
