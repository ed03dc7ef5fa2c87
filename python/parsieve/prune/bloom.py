"""Bloom filters that files carry, against questions for single values: one proof for each row group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from parsieve._core import ParsieveError
from parsieve.files import REQUESTS_AT_ONCE
from parsieve.filters import FileFilters
from parsieve.predicate.build import is_text
from parsieve.prune.evidence import Evidence
from parsieve.prune.footer_stats import ChunkStatistics, Cost, FileFooter, holds_no_other
from parsieve.prune.questions import Among, Question

# A filter says "maybe" to one of many values by chance alone.
MOST_VALUES = 1000


def _can_answer(chunk: ChunkStatistics, kind: pa.DataType) -> bool:
    """Whether there are filters that know values of the table's type: the bytes of a UUID are not its text."""
    if not chunk.has_filter or chunk.stored is None:
        return False
    is_bytewise = pa.types.is_fixed_size_binary(kind) or is_text(kind)
    return not is_bytewise or holds_no_other(chunk.stored, kind) is True


class FileBlooms(Evidence):
    """The filters of files, for units that are row groups of them."""

    name = "Bloom filters"

    def __init__(
        self,
        units: Sequence[tuple[int, int]],
        footers: dict[int, FileFooter],
        open_filters: Callable[[int], FileFilters],
        cost: Cost,
    ) -> None:
        """`units` are pairs of a slice's and a row group's number; slices without a footer are not asked."""
        self._units = units
        self._footers = footers
        self._open_filters = open_filters
        self._cost = cost

    def may_match(self, question: Question, wanted: pa.BooleanArray) -> pa.BooleanArray | None:
        """Reads the blocks of the filters that the values fall into, of the wanted units' files only."""
        if not isinstance(question, Among) or len(question.values) > MOST_VALUES:
            return None
        asked: dict[int, tuple[str, ...]] = {}
        for (piece, _), want in zip(self._units, wanted.to_pylist(), strict=True):
            footer = self._footers.get(piece)
            known = footer.columns.get(question.column.path) if footer is not None and want else None
            if known is not None and known.path is not None and _can_answer(known, question.column.value_type):
                asked[piece] = known.path
        if not asked:
            return None
        values = question.values
        with ThreadPoolExecutor(min(REQUESTS_AT_ONCE, len(asked)), "parsieve-bloom") as pool:
            found = pool.map(lambda piece: self._ask(piece, asked[piece], values), asked)
            answers = dict(zip(asked, found, strict=True))
        mask = [
            answers.get(piece) is None or group >= len(answers[piece] or ()) or (answers[piece] or ())[group]
            for piece, group in self._units
        ]
        return pa.array(mask, pa.bool_())

    def _ask(self, piece: int, path: tuple[str, ...], values: pa.Array) -> list[bool] | None:
        try:
            with self._open_filters(piece) as filters:
                try:
                    return filters.might_contain({path: values})
                finally:
                    self._cost.bytes_fetched += filters.bytes_fetched
                    self._cost.requests += filters.requests
        except (ParsieveError, OSError, ValueError):
            # What cannot be read excludes nothing.
            return None

    def describe(self, question: Question, unit: int) -> str:
        """What a filter says."""
        return "no filter of the file holds it" if len(getattr(question, "values", ())) == 1 else "no filter holds one"
