"""A column built in partitions of its sorted keys, wherever they run: each stores its segments, one commits them all.

```text
rows sorted by key, split between keys ── build_partition: segments to the store, a small share back
shares in order of their keys          ── commit_partitions: borders joined, root, one version
```

The segments are those of a build in one piece, byte for byte, however the keys were split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from parsieve import _core
from parsieve.index import bindings
from parsieve.index.build import bindable, commit_build, tokens_of
from parsieve.index.columns import field_id_of, path_of
from parsieve.index.commit import Base, ColumnState, Commit, Log, Part, TableState
from parsieve.index.spill import Room, Sections
from parsieve.index.store import Store, unique
from parsieve.lake.base import Location, Snapshot
from parsieve.lake.leaves import leaf_field

# What a partition holds of its segments before it writes them to its own disk.
MEMORY = 64 << 20


@dataclass(frozen=True, slots=True)
class Share:
    """What one partition tells the one who commits: small, and it pickles."""

    # Its place among the partitions, which is the number of its file.
    number: int
    data: bytes
    # None where no segment was finished within the partition.
    file: Part | None


@dataclass(frozen=True, slots=True)
class Aside:
    """The rows of one location without a key, and whether any rows of it could not be read."""

    nulls: int = 0
    nans: int = 0
    unread: bool = False


def numbering(snapshot: Snapshot) -> list[Location]:
    """The locations that a build indexes; rows name them by their place in this list."""
    return [piece.location for piece in bindable(snapshot)]


def build_partition(
    store: Store,
    type: pa.DataType,
    rows: Iterable[tuple[pa.Array, pa.Array, pa.Array]],
    num_locations: int,
    number: int,
    options: _core.SieveOptions | None = None,
) -> Share:
    """Build partition `number` of a column of this type, and store its segments.

    `rows` are batches of keys (of the column's type, no nulls, no NaN), numbers of locations (uint32) and row counts
    (uint64), ascending by key. No key lies in two partitions.
    """
    axis = _core.SieveAxis(type)
    build = _core.SieveBuild(axis, num_locations, options=options, partition=True, file=number)
    with Room(MEMORY) as room:
        sections = Sections(room)
        for keys, locations, counts in rows:
            build.push(keys, locations, counts)
            sections.add(build.take())
        data, last = build.finish_share()
        sections.add(last)
        size = sections.size()
        content = sections.finish()
        if not size:
            return Share(number, data, None)
        file = Part(unique("segments", "segments"), size)
        store.put(file.name, content)
    return Share(number, data, file)


def commit_partitions(
    log: Log,
    snapshot: Snapshot,
    column: str | Sequence[str],
    shares: Sequence[Share],
    aside: Mapping[Location, Aside],
    started: Commit | None,
    options: _core.SieveOptions | None = None,
) -> Commit:
    """Join the partitions of a column of a snapshot and commit it.

    `started` is the newest version before anything was read; a location that `aside` does not name has no nulls or NaN.
    A location of which rows could not be read is bound to no version, and kept until an update reads it.
    """
    path = path_of(column)
    field = leaf_field(snapshot.schema, path)
    axis = _core.SieveAxis(field.type)
    locations = numbering(snapshot)
    shares = sorted(shares, key=lambda share: share.number)
    if [share.number for share in shares] != list(range(len(shares))):
        raise ValueError(f"partitions are numbered from 0 on, not {[share.number for share in shares]}")
    sides = [aside.get(location, Aside()) for location in locations]
    instant = started.version + 1 if started else 1
    data, border = _core.join_sieve_shares(
        axis,
        [share.data for share in shares],
        instant=instant,
        locations=[(location.partition, location.group) for location in locations],
        sides=[(side.nulls, side.nans, side.unread) for side in sides],
        options=options,
        file=len(shares),
    )
    files = [share.file or Part("", 0) for share in shares]
    if border:
        files.append(Part(unique("segments", "segments"), len(border)))
        log.store.put(files[-1].name, border)
    report = _core.SieveTimeline(axis, data, []).report([])
    assert report is not None
    base = Base(instant, Part.put(log.store, unique("roots", "root"), data), tuple(files), int(report["pairs"]))
    tokens = tokens_of(snapshot)
    tokens |= {location: "" for location, side in aside.items() if side.unread and location in tokens}
    chain = bindings.write(log.store, (), {}, tokens)
    table = TableState.of(snapshot)
    state = ColumnState(path, field_id_of(field), field.type, table, chain, base)
    return commit_build(log, table, {path: state}, started.columns if started else {})
