"""Which column deserves which index: what each would cost and save, measured on a sample of the table before building.

Some slices are read whole. What is true of them is taken for true of all, which is right where files resemble each
other; advice is a guess, and no answer depends on it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from parsieve import _core
from parsieve.index.feeder import gather, merge
from parsieve.index.spill import Room
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.leaves import leaf_field

SAMPLED_SLICES = 16
# Keys that are looked for in every sampled slice.
PROBES = 512
SAMPLE_MEMORY = 256 << 20
# An index that saves less than this share of what min/max reads is not worth its upkeep.
WORTH_SAVING = 0.2
# Where a key lives in so many of the slices, nothing can be skipped by it.
EVERYWHERE = 0.8

Kind = Literal["sieve", "bloom", "none"]


class Advice(NamedTuple):
    """What indexes of one column would do, by a sample."""

    column: str
    recommendation: Kind
    why: str
    slices: int
    sampled: int
    # Slices that a query for one key reads that exists: by min/max alone, with a Bloom index, with a Sieve, at best.
    minmax_reads: float
    bloom_reads: float
    sieve_reads: float
    # Bytes of each index, and seconds to read the column for it.
    sieve_bytes: int
    bloom_bytes: int
    build_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.column}: {self.recommendation} ({self.why}). A key that exists reads {self.minmax_reads:.1f} of "
            f"{self.slices} slices by min/max, {self.sieve_reads:.1f} with a Sieve of {self.sieve_bytes:,} bytes, "
            f"{self.bloom_reads:.1f} with a Bloom index of {self.bloom_bytes:,} bytes; "
            f"building reads the column, some {self.build_seconds:.1f} s ({self.sampled} slices sampled)"
        )


@dataclass(frozen=True, slots=True)
class _Sampled:
    """The distinct values of one slice."""

    values: pa.Array
    low: pa.Scalar
    high: pa.Scalar


def advise_column(
    lake: Lake, snapshot: Snapshot, path: ColumnPath, *, ranges: bool = True, fpp: float = 0.01
) -> Advice:
    """Advice on one column. `ranges` tells whether intervals are asked for, which no Bloom filter answers."""
    name = ".".join(path)
    field = leaf_field(snapshot.schema, path)
    try:
        axis = _core.SieveAxis(field.type)
    except (_core.ParsieveError, TypeError, ValueError) as error:
        return _nothing(name, snapshot, str(error))
    chosen = _spread(snapshot.slices, SAMPLED_SLICES)
    begun = time.perf_counter()
    sampled = [one for one in (_read(lake, piece, path) for piece in chosen) if one is not None]
    seconds = time.perf_counter() - begun
    if len(snapshot.slices) < 2 or not sampled:
        return _nothing(name, snapshot, "there is nothing to skip")
    scale = len(snapshot.slices) / len(chosen)
    probes = _probes(sampled)
    holding = sum(pc.sum(pc.is_in(probes, value_set=one.values)).as_py() or 0 for one in sampled) / len(probes)
    covering = sum(pc.sum(_covers(one, probes)).as_py() or 0 for one in sampled) / len(probes)
    # A probe comes from one of the sampled slices, which says nothing of the others.
    others = (len(snapshot.slices) - 1) / max(1, len(sampled) - 1)
    sieve_reads = 1 + max(0.0, holding - 1) * others
    minmax_reads = 1 + max(0.0, covering - 1) * others
    bloom_reads = sieve_reads + fpp * max(0.0, minmax_reads - sieve_reads)
    bloom_bytes = int(sum(_core.shelf_num_bytes(len(one.values), fpp) for one in sampled) * scale)
    sieve_bytes = _sieve_bytes(lake, chosen, path, axis, scale)
    kind, why = _judge(len(snapshot.slices), minmax_reads, sieve_reads, bloom_reads, sieve_bytes, bloom_bytes, ranges)
    return Advice(
        column=name,
        recommendation=kind,
        why=why,
        slices=len(snapshot.slices),
        sampled=len(chosen),
        minmax_reads=minmax_reads,
        bloom_reads=bloom_reads,
        sieve_reads=sieve_reads,
        sieve_bytes=sieve_bytes,
        bloom_bytes=bloom_bytes,
        build_seconds=seconds * scale,
    )


def _nothing(name: str, snapshot: Snapshot, why: str) -> Advice:
    everything = float(len(snapshot.slices))
    return Advice(name, "none", why, len(snapshot.slices), 0, everything, everything, everything, 0, 0, 0.0)


def _judge(
    slices: int, minmax: float, sieve: float, bloom: float, sieve_bytes: int, bloom_bytes: int, ranges: bool
) -> tuple[Kind, str]:
    if sieve >= EVERYWHERE * slices:
        return "none", "each key is in nearly every file, so nothing can be skipped"
    if minmax - sieve < WORTH_SAVING * minmax:
        return "none", "min/max reads little more than the best index would"
    if ranges:
        return "sieve", "it answers keys and intervals with the fewest reads"
    if bloom_bytes < sieve_bytes and minmax - bloom >= WORTH_SAVING * minmax:
        return "bloom", "for keys alone it takes fewer bytes, and it rejects keys that do not exist"
    return "sieve", "it takes fewer bytes than Bloom filters of about equal reads"


def _spread(slices: Sequence[Slice], most: int) -> list[Slice]:
    """Slices evenly over the table: neighbours are more alike than any two."""
    count = min(most, len(slices))
    return [slices[at * len(slices) // count] for at in range(count)]


def _read(lake: Lake, piece: Slice, path: ColumnPath) -> _Sampled | None:
    """The distinct values of a slice; batches are thinned as they come, so repeated values take no memory."""
    found: list[pa.Array] = []
    for batch in lake.read_keys(piece, [path]):
        values = pc.drop_null(pc.unique(batch.column(0)))
        if pa.types.is_floating(values.type):
            values = values.filter(pc.invert(pc.is_nan(values)))
        found.append(values)
    values = pc.unique(pa.chunked_array(found)) if found else pa.array([])
    if len(values) == 0:
        return None
    order = pc.min_max(values)
    return _Sampled(values, order["min"], order["max"])


def _probes(sampled: Sequence[_Sampled]) -> pa.Array:
    """Keys that exist, evenly from each sampled slice."""
    each = math.ceil(PROBES / len(sampled))
    taken = []
    for one in sampled:
        count = min(each, len(one.values))
        taken.append(one.values.take(pa.array([at * len(one.values) // count for at in range(count)])))
    return pa.chunked_array(taken).combine_chunks()


def _covers(one: _Sampled, probes: pa.Array) -> pa.Array:
    return pc.and_(pc.greater_equal(probes, one.low), pc.less_equal(probes, one.high))


def _sieve_bytes(lake: Lake, chosen: Sequence[Slice], path: ColumnPath, axis: _core.SieveAxis, scale: float) -> int:
    """The lookup bytes of a Sieve: those of the sample's own, and more bits for each location where there are more."""
    with Room(SAMPLE_MEMORY) as room:
        gathered = gather(lake, chosen, [(path, axis)], room, memory=SAMPLE_MEMORY, threads=1, advance=lambda _: None)
        built = merge(gathered[0], [Location("", str(at)) for at in range(len(chosen))], 1, room, SAMPLE_MEMORY)
        report = _core.SieveTimeline(axis, built.root, []).report([])
    assert report is not None
    locations_of_a_key = report["pairs"] / max(1, report["keys"])
    more_bits = report["runs"] * locations_of_a_key * math.log2(max(scale, 1.0))
    return int((report["lookup_bytes"] + more_bits / 8) * scale)
