"""Fill the filters of a slice with the trigrams or the words of its texts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from parsieve import _core
from parsieve.index.bloom.fill import fill
from parsieve.index.bloom.shelf import Filled, Filling
from parsieve.index.bloom.waiting import Budget
from parsieve.index.log.commit import Content
from parsieve.index.scan.units import UnitLayout
from parsieve.lake.base import ColumnPath, Lake, Slice

# The least and the largest number of trigrams or words for which a filter has room before it is folded. Units with more
# of them, such as a gigabyte of Chinese text, get more false positives.
LEAST_PARTS, MOST_PARTS = 1 << 14, 1 << 22
# The assumed characters of text per byte of a file. Text that compresses better repeats its trigrams.
CHARACTERS_PER_BYTE = 16


class _TrigramFilling(Filling):
    """Fills the filter of one unit with the trigrams of its texts."""

    def _filter_type(self, keys: pa.Array) -> pa.DataType:
        return pa.string()

    def _insert(self, filter: _core.BloomFilter, keys: pa.Array) -> None:
        _core.insert_trigrams(filter, keys)


class _WordFilling(_TrigramFilling):
    """Fills the filter of one unit with the words of its texts."""

    def _insert(self, filter: _core.BloomFilter, keys: pa.Array) -> None:
        _core.insert_words(filter, keys)


FILLINGS: dict[Content, type[Filling]] = {"values": Filling, "trigrams": _TrigramFilling, "words": _WordFilling}


def fill_content(
    lake: Lake,
    file_slice: Slice,
    rates: Mapping[ColumnPath, float],
    budget: Budget | None = None,
    *,
    content: Content = "values",
    layouts: Mapping[ColumnPath, UnitLayout] | None = None,
) -> tuple[list[Filled], Exception | None]:
    """Fill the filters of a slice, as `bloom.fill.fill` does, with values, trigrams or words."""
    size = file_slice.size if file_slice.clean else None
    num_values = None if content == "values" else partial(expected_parts, size)
    return fill(lake, file_slice, rates, budget, layouts=layouts, kind=FILLINGS[content], num_values=num_values)


def expected_parts(size: int | None, share: float = 1.0) -> int:
    """Return the largest number of trigrams or words to expect in a share of a file of this size.

    It is a power of two, so that folded filters have few sizes. A lookup reads one row per size.
    """
    characters = MOST_PARTS if size is None else int(size * share * CHARACTERS_PER_BYTE)
    return min(MOST_PARTS, max(LEAST_PARTS, 1 << characters.bit_length()))
