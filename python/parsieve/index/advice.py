"""Estimate from a sample of a table what an index of each column would cost and save, and recommend one.

The sampled slices are read whole. The estimate assumes that the other slices are similar. If they are not, the
recommendation may be bad, but queries still return the right rows.
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
from parsieve.index.build.unit_choice import (
    PAID_BACK_IN,
    REQUEST_BYTES,
    MeasuredUnit,
    UnitChoice,
    choose,
    mean_bytes,
    measure_units,
    spread,
)
from parsieve.index.scan.units import Unit
from parsieve.index.text.advice import UNIT_NAMES, Needle, TextAdvice, TextEstimate, advise_texts
from parsieve.lake.base import ColumnPath, Lake, Slice, Snapshot
from parsieve.lake.rows.columns import leaf_field
from parsieve.observe.notebook import html_of
from parsieve.predicate.builder import is_text
from parsieve.predicate.elements import flat
from parsieve.predicate.expr import value_type
from parsieve.predicate.expressions.expression import computed, index_name
from parsieve.wording import size

# "auto" estimates whether an index pays off if a table has at least this many files. A sample of few is not reliable.
FEW_FILES = 8
SAMPLED_SLICES = 16
# How many keys to look up in every sampled slice.
PROBES = 512
# An index is not worth its upkeep if it saves less than this share of the files that min/max statistics read.
WORTH_SAVING = 0.2
# If a key is in this share of the slices, hardly anything can be skipped.
EVERYWHERE = 0.8

# Relative frequency of queries for a key that exists, for one that does not, and for an interval: by default, and if
# all queries are for keys.
MIXED, KEYS_ALONE = (4, 1, 4), (1, 1, 0)
# The bits for coding the fingerprint of a key, besides the logarithm of its rate. An index stores fingerprints if they
# take at most this share of its other bits, and half a bit for each row.
FINGERPRINT_BITS, FINGERPRINT_SHARE = 1.5, 0.6
FINGERPRINT_RATE = 0.02

Kind = Literal["sieve", "bloom", "both", "text", "words", "none"]


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
    # How many slices a query for an existing key reads: with min/max alone, with a Bloom index, with a Sieve index.
    minmax_reads: float
    bloom_reads: float
    sieve_reads: float
    # The same for a missing key between two existing ones. With both kinds of index, the smaller number applies.
    minmax_absent: float
    bloom_absent: float
    sieve_absent: float
    # The bytes of each index on disk, the bytes of a Sieve that lookups read, and the seconds that a build needs to
    # read the column.
    sieve_bytes: int
    sieve_lookup_bytes: int
    bloom_bytes: int
    build_seconds: float
    # The best unit for the recommended index. The next three are 0 for a text or words index. For a Sieve index, they
    # are the bytes of data that a query for one key reads with this unit, the bytes that it reads with files as units,
    # and how many bytes of `sieve_bytes` the smaller units take.
    unit: Unit = "file"
    unit_read_bytes: int = 0
    file_read_bytes: int = 0
    unit_bytes: int = 0
    # The estimates for text and words indexes with each unit, if queries look for text inside the values or if the
    # values are long.
    texts: tuple[TextEstimate, ...] = ()

    def __repr__(self) -> str:
        return f"<parsieve.Advice: {self.column}: {self.recommendation} ({self.why})>"

    def _repr_html_(self) -> str | None:
        return html_of(self)

    @property
    def text(self) -> TextEstimate | None:
        """The estimate for the recommended text or words index, or None if another kind or none is recommended."""
        chosen = (text for text in self.texts if (text.kind, text.unit) == (self.recommendation, self.unit))
        return next(chosen, None)

    def __str__(self) -> str:
        sampled = f"Estimated from {self.sampled} of {self.slices} files"
        text = self.text
        if text is not None:
            return (
                f"{self.column}: {self.recommendation} ({self.why}). {sampled}: with {UNIT_NAMES[text.unit]} as units, "
                f"the index takes {size(text.num_bytes)}, {text.bits_per_row:.1f} bits for each row. Reading the "
                f"column to build it takes about {self.build_seconds:.1f} s"
            )
        if not self.sieve_bytes:
            return f"{self.column}: {self.recommendation} ({self.why}). {sampled}"
        units = (
            ""
            if self.unit == "file"
            else (
                f". With {UNIT_NAMES[self.unit]} as units, the Sieve index takes {size(self.unit_bytes)} more, "
                f"and a key reads {size(self.unit_read_bytes)} of data instead of {size(self.file_read_bytes)}"
            )
        )
        return (
            f"{self.column}: {self.recommendation} ({self.why}). {sampled}: "
            f"a key that exists reads {self.minmax_reads:.1f} files with min/max statistics, {self.sieve_reads:.1f} "
            f"with a Sieve index ({size(self.sieve_bytes)} on disk, {size(self.sieve_lookup_bytes)} read by "
            f"lookups) and {self.bloom_reads:.1f} with a Bloom index ({size(self.bloom_bytes)}); a key that does "
            f"not exist reads {self.minmax_absent:.1f}, {self.sieve_absent:.1f} and {self.bloom_absent:.1f} files. "
            f"Reading the column to build an index takes about {self.build_seconds:.1f} s{units}"
        )


@dataclass(frozen=True, slots=True)
class _Sampled:
    """The distinct values of one slice."""

    values: pa.Array
    low: pa.Scalar
    high: pa.Scalar
    # Whether engines disagree about a value, so that an index of the expression never skips the slice.
    is_doubtful: bool = False


@dataclass(frozen=True, slots=True)
class ColumnUsage:
    """How queries use one column."""

    # Whether the queries look for whole values, and for intervals, which no Bloom filter answers.
    keys: bool = True
    ranges: bool = True
    # The text that queries look for inside the values. None if the queries are unknown, so that the values decide.
    needles: Sequence[Needle] | None = None


def advise_column(
    lake: Lake, snapshot: Snapshot, path: ColumnPath, usage: ColumnUsage = ColumnUsage(), *, fpp: float = 0.01
) -> Advice:
    """Return the advice on one column."""
    field = leaf_field(snapshot.schema, path)
    texts: TextAdvice | None = None
    if is_text(value_type(field.type)) and usage.needles != ():
        texts = advise_texts(lake, snapshot, path, usage.needles or ())
    if texts is None:
        return _advise_keys(lake, snapshot, path, usage.ranges, fpp)
    is_for_text_only = not usage.keys or (usage.needles is None and texts.is_prose and texts.best is not None)
    if is_for_text_only:
        return _advise_text(snapshot, path, texts)
    advice = _advise_keys(lake, snapshot, path, usage.ranges, fpp)
    return advice._replace(texts=texts.estimates, why=f"{advice.why}; for text inside the values, {_also(texts)}")


def advise_auto(lake: Lake, snapshot: Snapshot, paths: Sequence[ColumnPath]) -> dict[ColumnPath, Advice]:
    """Return the advice that a build with kind="auto" follows, without entries for few files and for expressions."""
    if len(snapshot.slices) < FEW_FILES:
        return {}
    # An expression can have a Sieve index only.
    plain = [path for path in paths if computed(path, snapshot.schema) is None]
    return {path: advise_column(lake, snapshot, path) for path in plain}


def _advise_text(snapshot: Snapshot, path: ColumnPath, texts: TextAdvice) -> Advice:
    advice = _nothing(index_name(path), snapshot, texts.why)
    advice = advice._replace(texts=texts.estimates, sampled=texts.sampled, build_seconds=texts.build_seconds)
    return advice if texts.best is None else advice._replace(recommendation=texts.best.kind, unit=texts.best.unit)


def _also(texts: TextAdvice) -> str:
    if texts.best is None:
        return f"no index pays off ({texts.why})"
    return f'kind="{texts.best.kind}", unit="{texts.best.unit}" pays off ({texts.why})'


def _advise_keys(lake: Lake, snapshot: Snapshot, path: ColumnPath, ranges: bool, fpp: float) -> Advice:
    """Return the advice on an index of the whole values of a column."""
    name = index_name(path)
    field = leaf_field(snapshot.schema, path)
    try:
        axis = _core.SieveAxis(field.type)
    except (_core.ParsieveError, TypeError, ValueError) as error:
        return _nothing(name, snapshot, str(error))
    chosen = spread(snapshot.slices, SAMPLED_SLICES)
    begun = time.perf_counter()
    is_expression = computed(path, snapshot.schema) is not None
    samples = [_read(lake, file_slice, path, is_expression) for file_slice in chosen]
    failed = [sample for sample in samples if isinstance(sample, Exception)]
    if failed and len(failed) == len(chosen):
        # A build would fail with the same error.
        raise failed[0]
    sampled = [sample for sample in samples if isinstance(sample, _Sampled)]
    doubtful = sum(sample.is_doubtful for sample in sampled) / max(1, len(sampled))
    left_out = len(failed) / len(chosen) if chosen else 0.0
    sampled = [sample for sample in sampled if len(sample.values)]
    seconds = time.perf_counter() - begun
    scale = len(snapshot.slices) / len(chosen)
    if doubtful >= EVERYWHERE:
        why = f"nearly every file has values for which engines disagree about {name}"
        return _nothing(name, snapshot, why)._replace(sampled=len(chosen), build_seconds=seconds * scale)
    if len(snapshot.slices) < 2 or not sampled:
        return _nothing(name, snapshot, "there is nothing to skip")
    probes = _probes(sampled)
    holding = sum(pc.sum(pc.is_in(probes, value_set=sample.values)).as_py() or 0 for sample in sampled) / len(probes)
    covering = sum(pc.sum(_covers(sample, probes)).as_py() or 0 for sample in sampled) / len(probes)
    # Each probe is certainly in one sampled slice, so extrapolate from the other slices only. Slices without a value
    # count, too: no key is in them.
    others = (len(snapshot.slices) - 1) / max(1, len(chosen) - len(failed) - 1)
    measured = measure_units(lake, chosen, path, axis)
    slice_bytes = mean_bytes(snapshot)
    units = choose(measured, len(chosen), len(snapshot.slices), slice_bytes)
    exact = 1 + max(0.0, holding - 1) * others
    sieve = _sieve(measured, units, len(chosen), len(snapshot.slices), exact)
    sieve_reads = exact + sieve.waste * others
    minmax_reads = 1 + max(0.0, covering - 1) * others
    minmax_absent = max(0.0, minmax_reads - 1)
    if not _has_bounds(lake, snapshot, chosen, path):
        minmax_reads = minmax_absent = float(len(snapshot.slices))
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
        bloom_bytes=int(sum(_core.shelf_num_bytes(len(sample.values), fpp) for sample in sampled) * scale),
        build_seconds=seconds * scale,
        unit=units.unit,
        unit_read_bytes=units.read_bytes,
        file_read_bytes=units.file_read_bytes,
        unit_bytes=units.more_bytes,
    )
    never_skipped = left_out + (1 - left_out) * doubtful
    if never_skipped:
        # Every query also reads the files that the index never skips.
        names = ("sieve_reads", "sieve_absent", "bloom_reads", "bloom_absent")
        reads = {name: getattr(advice, name) for name in names}
        more = {name: number + never_skipped * (advice.slices - number) for name, number in reads.items()}
        advice = advice._replace(**more)
    kind, why = _judge(advice, slice_bytes, ranges, fpp)
    return advice._replace(recommendation=kind, why=why)


def _has_bounds(lake: Lake, snapshot: Snapshot, sample: Sequence[Slice], path: ColumnPath) -> bool:
    """Return whether the table's metadata or its footers have minima and maxima of a column that plans can use.

    For example, INT96 timestamps have none.
    """
    if snapshot.statistics(path) is not None:
        return True
    has_column = False
    for file_slice in sample:
        try:
            footer = lake.footer(file_slice)
        except (ConflictError, _core.ParsieveError, OSError, ValueError):
            continue
        if footer is not None and list(path) in footer.columns:
            has_column = True
            column = footer.columns.index(list(path))
            # A file of nulls has no bounds, even if the other files do.
            if any(greatest is not None for _, greatest, *_ in footer.statistics(column)):
                return True
    return not has_column


def _nothing(name: str, snapshot: Snapshot, why: str) -> Advice:
    everything = float(len(snapshot.slices))
    reads = everything, everything, everything, everything, everything, everything
    return Advice(name, "none", why, len(snapshot.slices), 0, *reads, 0, 0, 0, 0.0)


def _judge(advice: Advice, slice_bytes: float, ranges: bool, fpp: float) -> tuple[Kind, str]:
    """Choose the kind with the lowest cost over `PAID_BACK_IN` queries, including building and storing the index."""
    least = min(advice.sieve_reads, advice.bloom_reads)
    if least >= EVERYWHERE * advice.slices:
        return "none", "each key is in nearly every file, so nothing can be skipped"
    if advice.minmax_reads - least < WORTH_SAVING * advice.minmax_reads:
        return "none", "min/max statistics already skip nearly as much as the best index"
    # Reads for a key that exists, for one that does not, and for a short interval; lookups in indexes, and their size.
    kinds: dict[Kind, tuple[float, float, float, int, int]] = {
        "none": (advice.minmax_reads, advice.minmax_absent, advice.minmax_reads, 0, 0),
        "bloom": (advice.bloom_reads, advice.bloom_absent, advice.minmax_reads, 1, advice.bloom_bytes),
        "sieve": (advice.sieve_reads, advice.sieve_absent, advice.sieve_reads, 1, advice.sieve_bytes),
        "both": (least, fpp * advice.sieve_absent, advice.sieve_reads, 2, advice.sieve_bytes + advice.bloom_bytes),
    }

    def cost(kind: Kind) -> float:
        *reads, lookups, index_bytes = kinds[kind]
        shares = MIXED if ranges else KEYS_ALONE
        mean = sum(count * share for count, share in zip(reads, shares, strict=True)) / sum(shares)
        cost_of_query = mean * (slice_bytes + REQUEST_BYTES) + lookups * REQUEST_BYTES
        # Each kind is built in a separate scan.
        return cost_of_query * PAID_BACK_IN + lookups * advice.slices * REQUEST_BYTES + index_bytes

    kind = min(kinds, key=cost)
    return kind, {
        "none": "no index saves as many bytes as it takes",
        "bloom": "it reads the fewest bytes for queries by key, and rejects keys that do not exist",
        "sieve": "it saves the most reads for its size, for keys and intervals",
        "both": "a Sieve for keys and intervals, and filters to reject keys that do not exist",
    }[kind]


def _read(lake: Lake, file_slice: Slice, path: ColumnPath, is_expression: bool) -> _Sampled | Exception | None:
    """Return the distinct values of a slice, None if it has none, or the error if a build would leave the slice out.

    Each batch is reduced to its distinct values first, so repeated values take no memory.
    """
    distinct: list[pa.Array] = []
    is_doubtful = False
    try:
        for batch in lake.read_keys(file_slice, [path]):
            values = flat(batch.column(0))
            # An expression has a null for each value about which engines disagree.
            is_doubtful |= is_expression and values.null_count > 0
            values = pc.drop_null(pc.unique(_sortable(values)))
            if pa.types.is_floating(values.type):
                values = values.filter(pc.invert(pc.is_nan(values)))
            distinct.append(values)
    except (ConflictError, FileNotFoundError, _core.UnsupportedError) as error:
        return error
    values = pc.unique(pa.chunked_array(distinct)) if distinct else pa.array([])
    if len(values) == 0:
        return _Sampled(values, pa.scalar(None), pa.scalar(None), is_doubtful) if is_doubtful else None
    bounds = pc.min_max(values)
    return _Sampled(values, bounds["min"], bounds["max"], is_doubtful)


def _sortable(values: pa.Array) -> pa.Array:
    """Convert values to a type that pyarrow can sort and compare, in the same order."""
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
    """Return existing keys, the same number from each sampled slice."""
    each = math.ceil(PROBES / len(sampled))
    taken = []
    for sample in sampled:
        count = min(each, len(sample.values))
        taken.append(sample.values.take(pa.array([at * len(sample.values) // count for at in range(count)])))
    return pa.chunked_array(taken).combine_chunks()


def _covers(sample: _Sampled, probes: pa.Array) -> pa.Array:
    return pc.and_(pc.greater_equal(probes, sample.low), pc.less_equal(probes, sample.high))


@dataclass(frozen=True, slots=True)
class _SieveCost:
    # The size on disk, and the part that lookups read.
    num_bytes: int
    lookup_bytes: int
    # Mean false positives for a key of the sample, and for a key that is not in it.
    waste: float
    absent: float


def _sieve(
    measured: Sequence[MeasuredUnit], units: UnitChoice, num_sampled: int, num_slices: int, files_per_key: float
) -> _SieveCost:
    """Extrapolate the cost of a Sieve index from an index of the sample, whose units are files, to the whole table."""
    report, scale = measured[0].report, num_slices / num_sampled
    sampled_keys, pairs = max(1, report["keys"]), report["pairs"] * scale
    keys = min(max(pairs / files_per_key, sampled_keys), sampled_keys * scale)
    # A key that is in several files has one run and one set of files, which grows with the number of files.
    more_bits = _bits_of_a_set(num_slices, pairs / keys) - _bits_of_a_set(num_sampled, report["pairs"] / sampled_keys)
    lookup_bytes = (report["lookup_bytes"] + report["runs"] * max(0.0, more_bits) / 8) * keys / sampled_keys
    lookup_bytes += units.more_bytes
    absent = report["reads_of_absent_keys"]
    fingerprint_bytes = keys * (math.log2(max(1.0, pairs / keys) / FINGERPRINT_RATE) + FINGERPRINT_BITS) / 8
    if fingerprint_bytes <= FINGERPRINT_SHARE * lookup_bytes + report["rows"] / 16 * scale:
        lookup_bytes += fingerprint_bytes
        absent = min(absent, FINGERPRINT_RATE)
    num_bytes = lookup_bytes + report["root_bytes"] * scale
    return _SieveCost(int(num_bytes), int(lookup_bytes), report["waste_per_key"], absent)


def _bits_of_a_set(num_slices: int, count: float) -> float:
    """Return the number of bits that identify one of all sets of `count` slices."""
    count = min(count, num_slices)
    nats = math.lgamma(num_slices + 1) - math.lgamma(count + 1) - math.lgamma(num_slices - count + 1)
    return max(0.0, nats / math.log(2))
