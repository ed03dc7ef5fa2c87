"""Fill the filters of a slice with the trigrams of its texts."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from parsieve import _core
from parsieve.index.bloom.fill import fill
from parsieve.index.bloom.shelf import Filled, Filling
from parsieve.index.bloom.waiting import Budget
from parsieve.lake.base import ColumnPath, Lake, Slice

# A filter starts with the size for this many trigrams, and is folded to the size that its trigrams need. Slices with
# more trigrams, such as a gigabyte of Chinese, get more false positives.
MOST_TRIGRAMS = 1 << 22


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
    return fill(lake, file_slice, rates, budget, filling=TextFilling, num_values=MOST_TRIGRAMS)
