"""What an exact index of a column must answer, and the fewest bits that it needs, computed from the rows alone."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# The share of the rows in a narrow and in a wide interval.
SHARES = {"narrow": 10_000, "wide": 100}
# Blocks of runs let a reader find a run without decoding those before it. A block has 4 to 8 runs, or 96 to 192 bits of
# sets if these are fewer runs, and the bits of its bound.
RUNS_OF_A_BLOCK, SET_BITS_OF_A_BLOCK, BITS_OF_A_BOUND = 6, 144, 14
HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


@dataclass(frozen=True)
class Question:
    """A key, or an interval from `low` to `high`, with the units that hold a matching row, in ascending order."""

    low: pa.Scalar
    high: pa.Scalar
    units: Any


class Truth:
    """The keys of a column in ascending order, each with the units of its rows: row groups or files."""

    def __init__(self, column: pa.Array, units: Any, num_units: int) -> None:
        order = pc.sort_indices(column)
        self.values = column.take(order)
        self.num_units = num_units
        changes = pc.not_equal(self.values[1:], self.values[:-1]).to_numpy(zero_copy_only=False)
        # The position of the first row of each key, and the end.
        self._starts = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(column)]])
        keys = np.repeat(np.arange(self.num_keys, dtype=np.int64), np.diff(self._starts))
        pairs = np.unique(keys * num_units + units[order.to_numpy()])
        self._units = pairs % num_units
        # The position of the first unit of each key, and the end.
        self._firsts = np.searchsorted(pairs // num_units, np.arange(self.num_keys + 1))

    @property
    def num_rows(self) -> int:
        return len(self.values)

    @property
    def num_keys(self) -> int:
        return len(self._starts) - 1

    def _units_of_keys(self, first: int, last: int) -> Any:
        """Return the units of the keys from one to another, both included."""
        units = self._units[self._firsts[first] : self._firsts[last + 1]]
        return units if first == last else np.unique(units)

    def questions(self, kind: str, count: int) -> Iterator[Question]:
        """Yield random questions. A key with more rows is more likely to be asked."""
        random = np.random.default_rng(11)
        if kind == "present":
            for key in self._keys_of(random.integers(0, self.num_rows, count)):
                value = self.values[int(self._starts[key])]
                yield Question(value, value, self._units_of_keys(key, key))
        elif kind == "absent":
            for value in absent_keys(self.values.take(pa.array(self._starts[:-1])), random, count):
                yield Question(value, value, np.array([], np.int64))
        else:
            span = max(1, self.num_rows // SHARES[kind])
            begins = random.integers(0, self.num_rows - span, count)
            for first, last in zip(self._keys_of(begins), self._keys_of(begins + span), strict=True):
                low, high = (self.values[int(self._starts[key])] for key in (first, last))
                yield Question(low, high, self._units_of_keys(first, last))

    def _keys_of(self, rows: Any) -> Any:
        return np.searchsorted(self._starts, rows, "right") - 1

    @cached_property
    def _sets(self) -> tuple[Any, Any]:
        """Return how many units each key has, and whether the key before has other units."""
        counts = np.diff(self._firsts)
        with np.errstate(over="ignore"):
            # Sets with the same size and the same sum of random words are equal.
            words = np.random.default_rng(5).integers(0, 2**63, self.num_units)[self._units]
            sums = np.add.reduceat(words, self._firsts[:-1])
        differs = np.ones(self.num_keys, bool)
        differs[1:] = (sums[1:] != sums[:-1]) | (counts[1:] != counts[:-1])
        return counts, differs

    def model_bits(self, fpp: float | None, slices: Sequence[tuple[str, str]]) -> dict[str, float]:
        """Return the bits of each part of an exact index by the model of `docs/design/sieve-size.md`.

        `slices` has the name and the token of each file. `fpp` is None without fingerprints.
        """
        counts, differs = self._sets
        runs = counts[differs]
        sizes, frequencies = np.unique(runs, return_counts=True)
        set_bits = float((frequencies * [_log2_choose(self.num_units, int(size)) for size in sizes]).sum())
        bits = {
            "sets": set_bits,
            "sizes of sets": float(-(frequencies * np.log2(frequencies / len(runs))).sum()),
            "blocks": BITS_OF_A_BOUND * max(len(runs) / RUNS_OF_A_BLOCK, set_bits / SET_BITS_OF_A_BLOCK),
            "borders": 3.0 * (len(runs) - 1) + _log2_choose(max(1, self.num_keys - 1), len(runs) - 1),
            "fingerprints": 0.0,
            "units": 2.0 * self.num_units * self._bits_of_a_key,
            "files": 8.0 * len(zlib.compress(repr(sorted(slices)).encode())),
        }
        if fpp is not None and not self._is_dense:
            bits["fingerprints"] = float((np.log2(counts / fpp) + 0.5).sum())
        return bits

    @property
    def _bits_of_a_key(self) -> float:
        """Return the bits of a least or greatest key that is stored without another."""
        if pa.types.is_string(self.values.type):
            return 8.0 * len(self.values[0].as_py())
        numbers = as_integers(self.values)
        return math.log2(max(2, int(numbers[-1]) - int(numbers[0])))

    @property
    def _is_dense(self) -> bool:
        """Return whether each possible key between the least and the greatest exists."""
        if pa.types.is_string(self.values.type):
            return False
        numbers = as_integers(self.values)
        return int(numbers[-1]) - int(numbers[0]) + 1 == self.num_keys


def absent_keys(keys: pa.Array, random: np.random.Generator, count: int) -> Iterator[pa.Scalar]:
    """Yield keys between the least and the greatest of some distinct, sorted keys, but none of them.

    Half of the texts differ from a key only in the last character.
    """
    if pa.types.is_string(keys.type):
        near = [text[:-1] + chr(HEX_DIGITS[random.integers(16)]) for text in _sample(keys, random, count // 2 + 1)]
        far = [_other_digits(text, random) for text in _sample(keys, random, count // 2 + 1)]
        texts = pa.array(near + far)
        texts = texts.filter(pc.invert(pc.is_in(texts, value_set=keys)))
        yield from texts.take(pa.array(random.permutation(len(texts))[:count]))
        return
    numbers = as_integers(keys)
    gaps = np.flatnonzero(np.diff(numbers) > 1)
    if len(gaps) == 0:
        return
    for gap in gaps[random.integers(0, len(gaps), count)]:
        number = int(random.integers(int(numbers[gap]) + 1, int(numbers[gap + 1])))
        if pa.types.is_decimal(keys.type):
            yield pa.scalar(Decimal(number).scaleb(-keys.type.scale), keys.type)
        else:
            yield pa.scalar(number, pa.int64()).cast(keys.type)


def _sample(keys: pa.Array, random: np.random.Generator, count: int) -> list[str]:
    return list(keys.take(pa.array(random.integers(0, len(keys), count))).to_pylist())


def _other_digits(text: str, random: np.random.Generator) -> str:
    """Return a text with other hexadecimal digits in the same places."""
    digits = iter(HEX_DIGITS[random.integers(0, 16, len(text))].tobytes().decode())
    return "".join(next(digits) if character != "-" else "-" for character in text)


def as_integers(values: pa.Array) -> Any:
    """Return integers, timestamps or decimals as a NumPy array of integers in the same order."""
    if pa.types.is_decimal(values.type):
        whole = pc.multiply(values, pa.scalar(10**values.type.scale, pa.decimal128(values.type.scale + 1, 0)))
        return whole.cast(pa.int64()).to_numpy()
    return values.cast(pa.int64()).to_numpy()


def _log2_choose(all_items: int, some: int) -> float:
    """Return the bits of one of the sets that have some of the items."""
    log = math.lgamma(all_items + 1) - math.lgamma(some + 1) - math.lgamma(all_items - some + 1)
    return max(0.0, log / math.log(2))
