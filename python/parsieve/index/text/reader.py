"""Read the text index of one column in one version, by ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from parsieve.index.bloom.reader import BloomReader, KeptUnits
from parsieve.index.log.commit import TEXT_FORM, TextState
from parsieve.io.store.base import Store
from parsieve.lake.base import Location, Slice

# At most this many trigrams or words of a query are looked up. More of them hardly skip more units.
MOST_LOOKUPS = 32

# The spellings of each trigram or word that a text must contain.
Parts = Sequence[Sequence[str]]


class TextReader(BloomReader):
    """The text index of one column in one version. Threads may share it."""

    def __init__(self, store: Store, state: TextState) -> None:
        super().__init__(store, state)
        # Why the filters cannot be used, or None: they must have the parts of texts that this parsieve looks up.
        self.problem: str | None = None
        if state.form != TEXT_FORM:
            known = f"this parsieve reads form {TEXT_FORM}"
            self.problem = f"the text index has {state.content} of form {state.form}, but {known}; use a newer parsieve"

    def may_contain(self, parts: Parts, slices: Sequence[Slice]) -> pa.BooleanArray | None:
        """Return, for each slice, whether one of its texts may contain one spelling of each part.

        Return None if there are no parts, or if their form is unknown: then every slice may.
        """
        return self.may_match(parts, slices) if parts and self.problem is None else None

    def _groups(self, values: Any) -> Sequence[Any]:
        count = min(len(values), MOST_LOOKUPS)
        return [pa.array(values[number * len(values) // count], pa.string()) for number in range(count)]

    def known(self, slices: Sequence[Slice]) -> pa.BooleanArray:
        """Return for each slice whether the index has a filter of a known form for its current version."""
        return super().known(slices) if self.problem is None else pa.repeat(pa.scalar(False), len(slices))

    def units_with(self, values: Any) -> dict[Location, KeptUnits]:
        """Return, for each location, the units that may have a text with one value of each array."""
        return super().units_with(values) if self.problem is None else {}
