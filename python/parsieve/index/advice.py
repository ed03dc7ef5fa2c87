"""Estimate from a sample of a table what an index of each column would cost and save, and recommend one.

The sampled slices are read whole, and the estimate assumes that the others are like them. That is right if the files
resemble each other. Only the recommendation depends on it, never the result of a query.
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
from parsieve.errors import ConflictError
from parsieve.index.reports import size_of
from parsieve.index.scan.runs import gather, merge
from parsieve.index.scan.spill import Room
from parsieve.lake.base import ColumnPath, Lake, Location, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field

SAMPLED_SLICES = 16
# Keys that are looked for in every sampled slice.
PROBES = 512
SAMPLE_MEMORY = 256 << 20
# An index that saves less than this share of what min/max reads is not worth its upkeep.
WORTH_SAVING = 0.2
# Where a key lives in so many of the slices, nothing can be skipped by it.
EVERYWHERE = 0.8

# What an index takes, to be built and to lie there, should be saved by so many queries.
PAID_BACK_IN = 100
# Shares of queries for a key that exists, for one that does not, and for an interval: where nobody says which come, and
# where all are for keys.
MIXED, KEYS_ALONE = (4, 1, 4), (1, 1, 0)
# What a store could have brought while a request waits: the weight of each look at a file or an index.
REQUEST_BYTES = 512 << 10
# Of slices whose size nobody knows.
SOME_BYTES = 16 << 20

Kind = Literal["sieve", "bloom", "both", "none"]


class Advice(NamedTuple):
    """The estimated cost and benefit of indexing one column.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq, parsieve as ps
    >>> folder = tempfile.mkdtemp()
    >>> for part in range(9):
    ...     pq.write_table(pa.table({"id": range(part, 900, 9)}), f"{folder}/part-{part}.parquet")
    >>> [advice] = ps.advise(folder, columns="id")
    >>> advice.recommendation, advice.slices, advice.sampled
    ('sieve', 9, 9)
    """

    column: str
    recommendation: Kind
    why: str
    slices: int
    sampled: int
    # Slices that a query reads for one key that exists: with min/max alone, with a Bloom index, with a Sieve index.
    minmax_reads: float
    bloom_reads: float
    sieve_reads: float
    # The same for a key between those that exist, but that does not exist itself. With both kinds, the least counts.
    minmax_absent: float
    bloom_absent: float
    sieve_absent: float
    # Bytes of each index on disk, bytes of a Sieve that lookups read, and seconds to read the column for a build.
    sieve_bytes: int
    sieve_lookup_bytes: int
    bloom_bytes: int
    build_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.column}: {self.recommendation} ({self.why}). Estimated from {self.sampled} of {self.slices} files: "
            f"a key that exists reads {self.minmax_reads:.1f} files with min/max statistics, {self.sieve_reads:.1f} "
            f"with a Sieve index ({size_of(self.sieve_bytes)} on disk, {size_of(self.sieve_lookup_bytes)} read by "
            f"lookups) and {self.bloom_reads:.1f} with a Bloom index ({size_of(self.bloom_bytes)}); a key that does "
            f"not exist reads {self.minmax_absent:.1f}, {self.sieve_absent:.1f} and {self.bloom_absent:.1f} files. "
            f"Reading the column to build an index takes about {self.build_seconds:.1f} s"
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
    read = [_read(lake, piece, path) for piece in chosen]
    failed = [one for one in read if isinstance(one, Exception)]
    if failed and len(failed) == len(chosen):
        # Nobody could build an index of these either.
        raise failed[0]
    sampled = [one for one in read if isinstance(one, _Sampled)]
    seconds = time.perf_counter() - begun
    if len(snapshot.slices) < 2 or not sampled:
        return _nothing(name, snapshot, "there is nothing to skip")
    scale = len(snapshot.slices) / len(chosen)
    probes = _probes(sampled)
    holding = sum(pc.sum(pc.is_in(probes, value_set=one.values)).as_py() or 0 for one in sampled) / len(probes)
    covering = sum(pc.sum(_covers(one, probes)).as_py() or 0 for one in sampled) / len(probes)
    # A probe comes from one of the sampled slices, which says nothing of the others.
    others = (len(snapshot.slices) - 1) / max(1, len(sampled) - 1)
    sieve = _sieve(lake, chosen, path, axis, scale)
    exact = 1 + max(0.0, holding - 1) * others
    sieve_reads = exact + sieve.waste * others
    minmax_reads = 1 + max(0.0, covering - 1) * others
    minmax_absent = max(0.0, minmax_reads - 1)
    advice = Advice(
        column=name,
        recommendation="none",
        why="",
        slices=len(snapshot.slices),
        sampled=len(chosen),
        minmax_reads=minmax_reads,
        bloom_reads=exact + fpp * max(0.0, minmax_reads - exact),
        sieve_reads=sieve_reads,
        minmax_absent=minmax_absent,
        bloom_absent=fpp * minmax_absent,
        sieve_absent=min(minmax_absent, sieve.absent + max(0.0, sieve.absent - 1) * (others - 1)),
        sieve_bytes=sieve.num_bytes,
        sieve_lookup_bytes=sieve.lookup_bytes,
        bloom_bytes=int(sum(_core.shelf_num_bytes(len(one.values), fpp) for one in sampled) * scale),
        build_seconds=seconds * scale,
    )
    sizes = snapshot.slices.size.drop_null().to_pylist()
    kind, why = _judge(advice, sum(sizes) / len(sizes) if sizes else SOME_BYTES, ranges, fpp)
    return advice._replace(recommendation=kind, why=why)


def _nothing(name: str, snapshot: Snapshot, why: str) -> Advice:
    everything = float(len(snapshot.slices))
    reads = everything, everything, everything, everything, everything, everything
    return Advice(name, "none", why, len(snapshot.slices), 0, *reads, 0, 0, 0, 0.0)


def _judge(advice: Advice, slice_bytes: float, ranges: bool, fpp: float) -> tuple[Kind, str]:
    """The kind for which the fewest bytes are read over some queries, its own and those of its scan among them."""
    least = min(advice.sieve_reads, advice.bloom_reads)
    if least >= EVERYWHERE * advice.slices:
        return "none", "each key is in nearly every file, so nothing can be skipped"
    if advice.minmax_reads - least < WORTH_SAVING * advice.minmax_reads:
        return "none", "min/max reads little more than the best index would"
    # Reads of a key that exists, of one that does not, and of a short interval; looks at indexes, and their bytes.
    kinds: dict[Kind, tuple[float, float, float, int, int]] = {
        "none": (advice.minmax_reads, advice.minmax_absent, advice.minmax_reads, 0, 0),
        "bloom": (advice.bloom_reads, advice.bloom_absent, advice.minmax_reads, 1, advice.bloom_bytes),
        "sieve": (advice.sieve_reads, advice.sieve_absent, advice.sieve_reads, 1, advice.sieve_bytes),
        "both": (least, fpp * advice.sieve_absent, advice.sieve_reads, 2, advice.sieve_bytes + advice.bloom_bytes),
    }

    def cost(kind: Kind) -> float:
        *reads, looks, index_bytes = kinds[kind]
        shares = MIXED if ranges else KEYS_ALONE
        mean = sum(one * share for one, share in zip(reads, shares, strict=True)) / sum(shares)
        of_a_query = mean * (slice_bytes + REQUEST_BYTES) + looks * REQUEST_BYTES
        # Each kind is built in a scan of its own.
        return of_a_query * PAID_BACK_IN + looks * advice.slices * REQUEST_BYTES + index_bytes

    kind = min(kinds, key=cost)
    return kind, {
        "none": "no index saves as many bytes as it takes",
        "bloom": "it reads the fewest bytes for queries by key, and rejects keys that do not exist",
        "sieve": "it answers keys and intervals with the fewest reads for its bytes",
        "both": "a Sieve for keys and intervals, and filters to reject keys that do not exist",
    }[kind]


def _spread(slices: Sequence[Slice], most: int) -> list[Slice]:
    """Slices evenly over the table: neighbours are more alike than any two."""
    count = min(most, len(slices))
    return [slices[at * len(slices) // count] for at in range(count)]


def _read(lake: Lake, piece: Slice, path: ColumnPath) -> _Sampled | Exception | None:
    """The distinct values of a slice, or why it cannot be read, which a build passes over too.

    Batches are thinned as they come, so repeated values take no memory.
    """
    found: list[pa.Array] = []
    try:
        for batch in lake.read_keys(piece, [path]):
            values = pc.drop_null(pc.unique(_sortable(batch.column(0))))
            if pa.types.is_floating(values.type):
                values = values.filter(pc.invert(pc.is_nan(values)))
            found.append(values)
    except (ConflictError, FileNotFoundError, _core.UnsupportedError) as error:
        return error
    values = pc.unique(pa.chunked_array(found)) if found else pa.array([])
    if len(values) == 0:
        return None
    order = pc.min_max(values)
    return _Sampled(values, order["min"], order["max"])


def _sortable(values: pa.Array) -> pa.Array:
    """Values of a type that pyarrow tells apart and sorts, in the same order: it cannot for each type it reads."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    kind = values.type
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_duration(kind):
        return values.view(pa.int64())
    return values


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


@dataclass(frozen=True, slots=True)
class _SieveCost:
    # All of it, and what lookups read.
    num_bytes: int
    lookup_bytes: int
    # Locations that are read in vain for a key of the sample, and those that are for one that is not in it.
    waste: float
    absent: float


def _sieve(lake: Lake, chosen: Sequence[Slice], path: ColumnPath, axis: _core.SieveAxis, scale: float) -> _SieveCost:
    """What a Sieve of the sample costs; more bytes for each location where there are more."""
    with Room(SAMPLE_MEMORY) as room:
        gathered = gather(lake, chosen, [(path, axis)], room, memory=SAMPLE_MEMORY, threads=1, advance=lambda _: None)
        built = merge(gathered[0], [Location("", str(at)) for at in range(len(chosen))], 1, room, SAMPLE_MEMORY)
        data = built.file if isinstance(built.file, bytes) else b"".join(one.read_bytes() for one in built.file)
        timeline = _core.SieveTimeline(axis, built.root, [])
        segments = [
            (number, data[offset : offset + length])
            for number, (_, offset, length, *_) in enumerate(timeline.segments())
        ]
        report = timeline.report(segments)
    assert report is not None
    locations_of_a_key = report["pairs"] / max(1, report["keys"])
    more_bits = report["runs"] * locations_of_a_key * math.log2(max(scale, 1.0))
    lookup_bytes = (report["lookup_bytes"] + more_bits / 8) * scale
    # A key is stored once, however many locations it has; a sample of other keys has other ones.
    num_bytes = lookup_bytes + (report["keys_bytes"] + report["root_bytes"]) * scale
    return _SieveCost(int(num_bytes), int(lookup_bytes), report["waste_per_key"], report["reads_of_absent_keys"])
