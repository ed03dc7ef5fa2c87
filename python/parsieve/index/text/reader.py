"""Read the text index of one column in one version, by ranges."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parsieve.index.bloom.reader import BloomReader
from parsieve.index.bloom.shelf import ShelfReader
from parsieve.index.log.commit import TEXT_FORM, TextState
from parsieve.io.store.base import Store
from parsieve.lake.base import Location, Slice

# At most this many trigrams of a query are looked up. More of them hardly skip more files.
MOST_LOOKUPS = 32

# The spellings of each trigram that a text must contain.
Trigrams = Sequence[Sequence[str]]


class TextReader(BloomReader):
    """The text index of one column in one version. Threads may share it."""

    def __init__(self, store: Store, state: TextState) -> None:
        super().__init__(store, state)
        # Why the filters cannot be used, or None: they must have the trigrams that this version of parsieve looks up.
        self.problem: str | None = None
        if state.form != TEXT_FORM:
            known = f"this parsieve reads form {TEXT_FORM}"
            self.problem = f"the text index has trigrams of form {state.form}, but {known}; use a newer parsieve"

    def may_contain(self, trigrams: Trigrams, slices: Sequence[Slice]) -> pa.BooleanArray | None:
        """Return for each slice whether one of its texts may contain one spelling of each trigram.

        Return None if there are no trigrams, or if their form is unknown: then every slice may.
        """
        if not trigrams or self.problem is not None:
            return None
        count = min(len(trigrams), MOST_LOOKUPS)
        chosen = [pa.array(trigrams[number * len(trigrams) // count], pa.string()) for number in range(count)]
        return self.may_match(chosen, slices)

    def _look_up(self, shelf: ShelfReader, values: Sequence[pa.Array]) -> set[tuple[str, str]]:
        return shelf.might_contain_each(values)

    def known(self, slices: Sequence[Slice]) -> pa.BooleanArray:
        """Return for each slice whether the index has a filter of a known form for its current version."""
        return super().known(slices) if self.problem is None else pa.repeat(pa.scalar(False), len(slices))

    def excluded(self, values: Sequence[pa.Array]) -> set[Location]:
        """Return the locations of whose indexed version no text contains one value of each array."""
        return super().excluded(values) if self.problem is None else set()
