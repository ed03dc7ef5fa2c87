"""Estimate from a sample of a table how large a text or words index would be, and how many units it would skip.

This builds the filters of the sampled slices as a build does, one slice at a time, and looks up *needles* in them: the
text that queries look for. Without queries, the needles are texts and words that occur in only one row of the sample,
because an index cannot skip much for common text.
"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

import pyarrow as pa

from parsieve import _core
from parsieve.errors import ConflictError
from parsieve.index.bloom.shelf import Filled, LocationFilling
from parsieve.index.build.unit_choice import PAID_BACK_IN, REQUEST_BYTES, mean_bytes, spread
from parsieve.index.build.units import plan_units, read_row_groups
from parsieve.index.log.commit import TEXT_CONTENTS, TextContent
from parsieve.index.scan.units import UNITS, Unit, UnitLayout
from parsieve.index.text.fill import FILLINGS, expected_parts
from parsieve.lake.base import ColumnPath, Lake, Slice, Snapshot
from parsieve.predicate.elements import flat
from parsieve.predicate.text.like import Wildcard
from parsieve.predicate.text.trigrams import TRIGRAM, trigrams_of
from parsieve.predicate.text.words import whole_words

# How many slices to read at most, and about how many bytes of them. At least two are read.
SAMPLED_SLICES, SAMPLED_BYTES = 16, 64 << 20
# How many rows of all sampled slices the needles come from, and how many bytes of each.
SAMPLED_ROWS, LONGEST = 1 << 15, 2_000
# How many needles of each kind to look up, and how many are needed for an estimate.
NEEDLES, LEAST_NEEDLES = 64, 8
# The characters of a text to look up.
TEXT_LENGTH = 12
# An index is not worth its upkeep if it skips less than this share of the table.
WORTH_SAVING = 0.2
# If no unit pays off, try row groups with these numbers of rows on this number of slices.
SMALLER_ROWS, SMALLER_SLICES = (5_000, 1_000), 2
# Without queries, text inside strings is considered if the values have at least this many characters and words on
# average. If they also have this many spaces, they are prose, which queries rarely look up by the whole value.
LONG, WORDS, SPACES = 40, 3, 3

TextKind = Literal["text", "words"]
_KINDS: Mapping[TextContent, TextKind] = {"trigrams": "text", "words": "words"}
_WORD = re.compile(r"[^\x00-/:-@\[-`{-\x7f]+")
UNIT_NAMES = {"file": "files", "row_group": "row groups", "rows": "ranges of 20,000 rows"}


class Needle(NamedTuple):
    """The trigrams and the whole words that a matching text must contain, each with its spellings."""

    trigrams: Sequence[Sequence[str]]
    words: Sequence[Sequence[str]]


class TextEstimate(NamedTuple):
    """The estimated size and benefit of a text or words index of one column, with one kind of unit.

    >>> import parsieve as ps
    >>> estimate = ps.TextEstimate("words", "file", 40, 57_600, 11.5, text_share=0.25, word_share=0.05)
    >>> round(estimate.share, 2)
    0.15
    """

    kind: TextKind
    unit: Unit
    # The number of units in the table, the bytes of the index that lookups read, and the bits of the index per row.
    units: int
    num_bytes: int
    bits_per_row: float
    # The share of the units that a query reads for a text of 12 characters, and for a word, that only one row of the
    # sample has. None if the sample has too few of these.
    text_share: float | None
    word_share: float | None
    # The mean share of the units that the conditions of the queries read, if there are any.
    query_share: float | None = None

    @property
    def share(self) -> float:
        """The mean share of the units that a query reads. Without queries, it is that of rare texts and words."""
        shares = [share for _, share in _known_shares(self)]
        return sum(shares) / len(shares)


class TextAdvice(NamedTuple):
    """The estimates for one column, and the best of them with the reason; `best` is None if no index pays off."""

    estimates: tuple[TextEstimate, ...]
    best: TextEstimate | None
    why: str
    # Whether the values are prose, such as log lines.
    is_prose: bool
    sampled: int
    build_seconds: float


def advise_texts(
    lake: Lake, snapshot: Snapshot, path: ColumnPath, needles: Sequence[Needle] = (), fpp: float = 0.02
) -> TextAdvice | None:
    """Return the costs and savings of a text index of a column of strings.

    `needles` come from queries. Without any, return None if the values are too short to look for a part of them.
    """
    sample = _Sample(lake, snapshot, path, needles, fpp)
    is_long, is_prose = _form(sample.texts)
    if not needles and not is_long:
        return None
    advice = partial(TextAdvice, is_prose=is_prose, sampled=len(sample.slices))
    if not any(len(text) >= TRIGRAM for text in sample.texts):
        return advice((), None, "the texts are too short to look for a part of them", build_seconds=0.0)
    if not needles and not sample.has_rare:
        why = f"the same texts repeat: hardly any {TEXT_LENGTH} characters, and hardly any word, are in one row only"
        return advice((), None, why, build_seconds=0.0)
    estimates = sample.estimates(sample.layouts())
    if not estimates:
        return advice((), None, "there is nothing to skip", build_seconds=0.0)
    seconds = sample.build_seconds * len(snapshot.slices) / len(sample.slices)
    best = min(estimates, key=partial(_cost, snapshot))
    if _pays(snapshot, best):
        return advice(estimates, best, _reads(estimates, best), build_seconds=seconds)
    why = _reads(estimates, best) + _smaller(sample, snapshot) + _whole_words(estimates, needles)
    return advice(estimates, None, why, build_seconds=seconds)


def draw_needles(texts: Sequence[str], count: int = NEEDLES) -> tuple[list[str], list[str]]:
    """Return texts of 12 characters, and words, that occur in one of some texts only. The draw is the same each time.

    >>> from parsieve.index.text.advice import draw_needles
    >>> draw_needles(["GET /item/17", "GET /item/18"])[1]
    ['17', '18']
    """
    chance = random.Random(len(texts))
    joined = "\n".join(texts)
    cut: dict[str, None] = {}
    for text in chance.sample(texts, min(4 * count, len(texts))):
        start = chance.randrange(max(1, len(text) - TEXT_LENGTH + 1))
        needle = text[start : start + TEXT_LENGTH]
        if len(cut) < count and len(needle) >= TRIGRAM and joined.count(needle) == 1:
            cut[needle] = None
    counted = Counter(word for text in texts for word in set(_WORD.findall(text)))
    rare = sorted(word for word, number in counted.items() if number == 1)
    return list(cut), sorted(chance.sample(rare, min(count, len(rare))))


class _Sample:
    """Some slices of a table, some texts of a column in them, and the needles to look up."""

    def __init__(self, lake: Lake, snapshot: Snapshot, path: ColumnPath, needles: Sequence[Needle], fpp: float) -> None:
        most = max(2, min(SAMPLED_SLICES, int(SAMPLED_BYTES / max(1.0, mean_bytes(snapshot)))))
        self.lake, self.path, self.fpp = lake, path, fpp
        self.slices: list[Slice] = []
        self.texts: list[str] = []
        # The time that a build would take for the slices.
        self.build_seconds = 0.0
        self.table_slices = len(snapshot.slices)
        chosen = spread(snapshot.slices, most)
        failed: Exception | None = None
        for file_slice in chosen:
            try:
                self.texts += _first_texts(lake, file_slice, path, SAMPLED_ROWS // len(chosen))
                self.slices.append(file_slice)
            except (ConflictError, FileNotFoundError, _core.UnsupportedError) as error:
                failed = error
        if failed is not None and not self.slices:
            # A build would fail with the same error.
            raise failed
        texts, words = draw_needles(self.texts)
        self.has_rare = max(len(texts), len(words)) >= LEAST_NEEDLES
        self._needles = {
            "text": [Needle(trigrams_of([t]), _spelled(whole_words((Wildcard.ANY, t, Wildcard.ANY)))) for t in texts],
            "word": [Needle(trigrams_of([word]), _spelled(whole_words((word,)))) for word in words],
            "query": list(needles),
        }

    def layouts(self) -> dict[Unit, list[UnitLayout]]:
        """Return how the slices are divided into each kind of unit, without a kind that divides them like another."""
        row_groups = read_row_groups(self.lake, self.slices)
        layouts: dict[Unit, list[UnitLayout]] = {}
        counts = set()
        for unit in UNITS:
            divisions = plan_units(self.lake, self.slices, unit, row_groups=row_groups)
            count = sum(layout.num_units for layout in divisions)
            if count not in counts:
                counts.add(count)
                layouts[unit] = divisions
        return layouts

    def smaller_layouts(self, rows: int) -> list[UnitLayout]:
        """Return how some slices would be divided if their row groups had this number of rows; none if it is more."""
        layouts = []
        for groups in read_row_groups(self.lake, self.slices[:SMALLER_SLICES]):
            full, rest = divmod(sum(groups), rows)
            if full < 2 or max(groups) <= rows:
                return []
            layouts.append(UnitLayout((rows,) * full + ((rest,) if rest else ())))
        return layouts

    def estimates(self, layouts: Mapping[Unit, Sequence[UnitLayout]]) -> tuple[TextEstimate, ...]:
        """Build the filters of the first slices, divided in each of these ways. Return their sizes and their savings.

        Divisions into one unit have no estimate, because they skip nothing.
        """
        needles = [needle for group in self._needles.values() for needle in group]
        tallies = [
            _Tally(content, unit, divisions, [_parts(needle, content) for needle in needles])
            for content in TEXT_CONTENTS
            for unit, divisions in layouts.items()
        ]
        slices = self.slices[: min(map(len, layouts.values()))]
        rows = sum(self._fill(at, file_slice, tallies) for at, file_slice in enumerate(slices))
        scale = self.table_slices / len(slices)
        return tuple(self._estimate(tally, rows, scale) for tally in tallies if tally.num_units * scale > 1)

    def _fill(self, position: int, file_slice: Slice, tallies: Sequence[_Tally]) -> int:
        """Fill the filters of one slice, count the units that they keep, and return the number of rows."""
        location = (file_slice.partition, file_slice.group)
        expected = partial(expected_parts, file_slice.size if file_slice.clean else None)
        fillings = [
            LocationFilling(location, tally.layouts[position], expected, self.fpp, FILLINGS[tally.content])
            for tally in tallies
        ]
        rows, filling_seconds, begun = 0, 0.0, time.perf_counter()
        try:
            for batch in self.lake.read_keys(file_slice, [self.path]):
                rows += len(batch)
                before = time.perf_counter()
                for filling in fillings:
                    filling.add(batch.column(0))
                filling_seconds += time.perf_counter() - before
            filled = [filling.finish() for filling in fillings]
            # A build fills one of them.
            reading_seconds = time.perf_counter() - begun - filling_seconds
            self.build_seconds += reading_seconds + filling_seconds / len(fillings)
        except (ConflictError, FileNotFoundError, _core.UnsupportedError):
            return 0
        for tally, of_slice in zip(tallies, filled, strict=True):
            tally.count(of_slice, tally.layouts[position].num_units)
        return rows

    def _estimate(self, tally: _Tally, rows: int, scale: float) -> TextEstimate:
        units = max(tally.num_units, round(tally.num_units * scale))
        others = (units - 1) / max(1, tally.num_units - 1)
        # Each needle of the sample is certainly in one of its units, so extrapolate from the other units only.
        shares = [(1 + max(0, kept - 1) * others) / units for kept in tally.kept]
        means: dict[str, float | None] = {}
        for name, group in self._needles.items():
            own, shares = shares[: len(group)], shares[len(group) :]
            means[name] = sum(own) / len(own) if len(own) >= (1 if name == "query" else LEAST_NEEDLES) else None
        return TextEstimate(
            kind=_KINDS[tally.content],
            unit=tally.unit,
            units=units,
            num_bytes=int(tally.num_bytes * scale),
            bits_per_row=tally.num_bytes * 8 / max(1, rows),
            text_share=means["text"],
            word_share=means["word"],
            query_share=means["query"],
        )


@dataclass
class _Tally:
    """The filters of one content and kind of unit, counted slice by slice."""

    content: TextContent
    unit: Unit
    # How each slice is divided, and the parts of each needle.
    layouts: Sequence[UnitLayout]
    needles: Sequence[Sequence[Sequence[str]]]
    num_units: int = 0
    num_bytes: int = 0
    # How many units each needle keeps.
    kept: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.kept = [0] * len(self.needles)
        self._spellings = list({text for parts in self.needles for part in parts for text in part})
        self._array = pa.array(self._spellings, pa.string())

    def count(self, filled: Filled, num_units: int) -> None:
        """Count the filters of one slice with some units."""
        self.num_units += num_units
        for bloom in filled.filters:
            if bloom is not None:
                self.num_bytes += bloom.num_bytes
                hits = dict(zip(self._spellings, bloom.check(self._array).to_pylist(), strict=True))
                for number, parts in enumerate(self.needles):
                    self.kept[number] += all(any(hits[text] for text in part) for part in parts)


def _parts(needle: Needle, content: TextContent) -> Sequence[Sequence[str]]:
    return needle.trigrams if content == "trigrams" else needle.words


def _spelled(words: Sequence[str]) -> list[tuple[str]]:
    return [(word,) for word in words]


def _first_texts(lake: Lake, file_slice: Slice, path: ColumnPath, count: int) -> Iterator[str]:
    """Yield texts at even distances from the first rows of a slice that have some."""
    for batch in lake.read_keys(file_slice, [path]):
        values = _plain(flat(batch.column(0)).drop_null())
        number = min(count, len(values))
        for at in range(number):
            start = memoryview(values[at * len(values) // number].as_buffer())[:LONGEST]
            # Bytes that are not UTF-8 become U+FFFD, which is in no needle.
            yield bytes(start).decode(errors="replace")
        if number:
            return


def _plain(values: pa.Array) -> pa.Array:
    """Return strings without the dictionary or extension type around them."""
    if isinstance(values.type, pa.BaseExtensionType):
        return _plain(values.storage)
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _form(texts: Sequence[str]) -> tuple[bool, bool]:
    """Return whether texts are long enough to look for a part of them, and whether they are prose."""
    count = max(1, len(texts))
    is_long = sum(map(len, texts)) >= LONG * count and sum(len(_WORD.findall(text)) for text in texts) >= WORDS * count
    return is_long, is_long and sum(text.count(" ") for text in texts) >= SPACES * count


def _cost(snapshot: Snapshot, estimate: TextEstimate) -> float:
    """Return the cost of an index and of `PAID_BACK_IN` queries, in bytes that could be read in the same time."""
    table_bytes = mean_bytes(snapshot) * len(snapshot.slices)
    query = estimate.share * (table_bytes + estimate.units * REQUEST_BYTES) + REQUEST_BYTES
    return query * PAID_BACK_IN + estimate.num_bytes + len(snapshot.slices) * REQUEST_BYTES


def _cost_of_none(snapshot: Snapshot) -> float:
    return (mean_bytes(snapshot) + REQUEST_BYTES) * len(snapshot.slices) * PAID_BACK_IN


def _pays(snapshot: Snapshot, estimate: TextEstimate) -> bool:
    return estimate.share <= 1 - WORTH_SAVING and _cost(snapshot, estimate) < _cost_of_none(snapshot)


def _smaller(sample: _Sample, snapshot: Snapshot) -> str:
    """Return whether smaller row groups would make an index pay, if there could be any."""
    tried = 0
    for rows in SMALLER_ROWS:
        layouts = sample.smaller_layouts(rows)
        estimates = sample.estimates({"row_group": layouts}) if layouts else ()
        best = min(estimates, key=partial(_cost, snapshot), default=None)
        if best is not None and _pays(snapshot, best):
            return f'; with row groups of {rows:,} rows, kind="{best.kind}" would pay off: {_shares(best)}'
        tried = rows if estimates else tried
    return f"; row groups of {tried:,} rows would not pay off either" if tried else ""


def _whole_words(estimates: Sequence[TextEstimate], needles: Sequence[Needle]) -> str:
    """Return how to write the queries so that a words index pays off, or "" if it would not."""
    shares = {one.word_share: one for one in estimates if one.kind == "words" and one.word_share is not None}
    least = min(shares, default=1)
    if least > 1 - WORTH_SAVING or all(needle.words for needle in needles):
        return ""
    units = f"{shares[least].units:,} {UNIT_NAMES[shares[least].unit]}"
    return (
        f"; if the text is a whole word, kind=\"words\" would pay off: has_token or LIKE '% word %' reads "
        f"{_percent(least)} of {units}"
    )


def _reads(estimates: Sequence[TextEstimate], best: TextEstimate) -> str:
    """Describe the reads of a query with the best index, and with one of the other kind and the same units."""
    other = next(estimate for estimate in estimates if estimate.unit == best.unit and estimate.kind != best.kind)
    first, second = (("trigrams" if one.kind == "text" else "words") for one in (best, other))
    units = f"{best.units:,} {UNIT_NAMES[best.unit]}"
    shares = " and ".join(f"{_percent(share)}" for _, share in _known_shares(other))
    return f"with {first}, {_shares(best)} of {units}; with {second}, {shares}"


def _shares(estimate: TextEstimate) -> str:
    return " and ".join(f"{name} reads {_percent(share)}" for name, share in _known_shares(estimate))


def _known_shares(estimate: TextEstimate) -> list[tuple[str, float]]:
    if estimate.query_share is not None:
        return [("a query", estimate.query_share)]
    shares = (("a rare text", estimate.text_share), ("a rare word", estimate.word_share))
    return [(name, share) for name, share in shares if share is not None]


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %" if share < 0.1 else f"{share * 100:.0f} %"
