"""Which version of each location a column's index speaks of: location -> token, as a full list and changes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from parsieve._core import FormatError
from parsieve.index.log.commit import Part
from parsieve.io import document
from parsieve.io.sources import REQUESTS_AT_ONCE
from parsieve.io.store.base import Store, unique
from parsieve.lake.base import Location

BINDINGS = "bindings"
# A longer chain costs the reader more than a new full list costs the writer.
LONGEST_CHAIN = 8

Bindings = Mapping[Location, str]


def write(store: Store, chain: Sequence[Part], before: Bindings, after: Bindings) -> tuple[Part, ...]:
    """Store what changed; the new chain."""
    bound = {location: token for location, token in after.items() if before.get(location) != token}
    gone = [location for location in before if location not in after]
    if chain and not bound and not gone:
        return tuple(chain)
    # Changes that are half of all are better told as a full list.
    full = not chain or len(chain) >= LONGEST_CHAIN or 2 * (len(bound) + len(gone)) > len(after)
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
    """What a chain says in the end."""
    with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, max(1, len(chain))), "parsieve-read") as pool:
        files = list(pool.map(lambda part: part.get(store), chain))
    found: dict[Location, str] = {}
    for number, (part, data) in enumerate(zip(chain, files, strict=True)):
        fields = document.read(BINDINGS, data, f"{store}/{part.name}")
        if fields.get("full", bool) != (number == 0):
            raise FormatError(f"{store}/{part.name} stands at the wrong place of its chain")
        rows: list[list[Any]] = fields.rows("gone", str, str)
        for partition, group in rows:
            found.pop(Location(partition, group), None)
        for one in fields.objects("bound"):
            partition = one.get("partition", str)
            found.update((Location(partition, group), token) for group, token in one.rows("groups", str, str))
    return found
