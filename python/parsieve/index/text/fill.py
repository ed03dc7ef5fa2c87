"""Fill the filters of a slice with the trigrams of its texts."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from parsieve import _core
from parsieve.index.bloom.fill import fill
from parsieve.index.bloom.shelf import Filled, Filling
from parsieve.index.bloom.waiting import Budget
from parsieve.lake.base import ColumnPath, Lake, Slice

# A filter starts with the size for a number of trigrams in these bounds, and is folded to the size that its trigrams
# need. Slices with more trigrams, such as a gigabyte of Chinese, get more false positives.
LEAST_TRIGRAMS, MOST_TRIGRAMS = 1 << 14, 1 << 22
# The assumed characters of text per byte of a file. Text that compresses better repeats its trigrams.
CHARACTERS_PER_BYTE = 16


class TextFilling(Filling):
    """Fills the filter of one location with the trigrams of its texts."""

    def _filter_type(self, keys: pa.Array) -> pa.DataType:
        return pa.string()

    def _insert(self, filter: _core.BloomFilter, keys: pa.Array) -> None:
        _core.insert_trigrams(filter, keys)


def fill_texts(
    lake: Lake, file_slice: Slice, rates: Mapping[ColumnPath, float], budget: Budget | None = None
) -> tuple[list[Filled], Exception | None]:
    """Fill the filters of a slice, as `bloom.fill.fill` does. `rates` are the false positive rates of a trigram."""
    num_values = expected_trigrams(file_slice.size if file_slice.clean else None)
    return fill(lake, file_slice, rates, budget, filling=TextFilling, num_values=num_values)


def expected_trigrams(size: int | None) -> int:
    """Return the number of trigrams to expect at most in a file of this size.

    It is a power of two, so that folded filters have few sizes. A lookup reads one row per size.
    """
    characters = MOST_TRIGRAMS if size is None else size * CHARACTERS_PER_BYTE
    return min(MOST_TRIGRAMS, max(LEAST_TRIGRAMS, 1 << characters.bit_length()))
