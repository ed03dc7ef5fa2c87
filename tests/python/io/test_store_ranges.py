"""Tests of `Store.get_ranges`: every range has its bytes, for any order, overlap and number of ranges."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from parsieve.io.store.local import FEW_RANGES, LocalStore

DATA = random.Random(1).randbytes(3 << 20)


def written(folder: Path) -> LocalStore:
    store = LocalStore(folder)
    store.put("part/a", DATA)
    return store


@pytest.mark.parametrize("count", [1, FEW_RANGES, 10 * FEW_RANGES])
def test_ranges_have_their_bytes(tmp_path: Path, count: int) -> None:
    store, choose = written(tmp_path), random.Random(count)
    starts = [choose.randrange(len(DATA)) for _ in range(count)]
    ranges = [(start, min(len(DATA), start + choose.choice([0, 1, 50, 5000]))) for start in starts]
    assert store.get_ranges("part/a", ranges) == [DATA[start:end] for start, end in ranges]


def test_empty_ranges_read_nothing(tmp_path: Path) -> None:
    store = written(tmp_path)
    assert store.get_ranges("part/a", [(7, 7), (0, 0)]) == [b"", b""]
    assert store.requests == 0
    assert store.get_ranges("part/a", [(9, 9), (2, 5), (1 << 20, 1 << 20)]) == [b"", DATA[2:5], b""]


def test_ranges_past_the_end_are_shorter(tmp_path: Path) -> None:
    end = len(DATA)
    assert written(tmp_path).get_ranges("part/a", [(end - 3, end + 10), (0, 2)]) == [DATA[-3:], DATA[:2]]
