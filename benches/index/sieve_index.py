"""The Sieve index of one column, measured: the units that it keeps, and the bytes that it stores and that it reads."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from sieve_truth import Question

import parsieve as ps
from parsieve.index import query

# The unit number of an answer that means all units of the file.
WHOLE = 0xFFFF_FFFF


class MeasuredIndex:
    """The index of a column in a separate folder, opened as another process would open it.

    The files of the table are named by their numbers. Units are numbered in the order of the files: `units_of_a_file`
    in each file.
    """

    def __init__(self, table: Path, index: Path, column: str, units_of_a_file: int, bloom: bool = False) -> None:
        self._index = index
        self._units_of_a_file = units_of_a_file
        opened = ps.open_table(table, index_location=index)
        self._slices = opened.opened.lake.snapshot().slices
        view = opened.opened.index.refresh()
        assert view is not None
        self._view = view
        self._reader = view.reader(column)
        self._bloom = view.bloom(column) if bloom else None
        files = np.array([int(Path(path).stem) for path in self._slices.path.to_pylist()])
        self.num_units = len(files) * units_of_a_file
        numbers = self._reader.numbered(self._slices)
        assert numbers.null_count == 0, f"the index of {column} does not cover {numbers.null_count} files"
        # The file of each slice id.
        self._files = np.zeros(max(numbers.to_pylist()) + 1, np.int64)
        self._files[numbers.to_numpy()] = files
        self._file_of_location = {
            item.location: int(Path(item.path or "").stem) for item in (self._slices if bloom else ())
        }

    def kept_units(self, question: Question) -> Any:
        """Return the units that the index keeps, in ascending order."""
        if question.low.equals(question.high):
            answer = self._reader.find_units(query.equals(question.low))
        else:
            answer = self._reader.find_units(query.between(question.low, question.high))
        units = np.arange(self.num_units) if answer is None else self._numbered(answer)
        if self._bloom is not None and question.low.equals(question.high):
            excluded = self._bloom.excluded(pa.array([question.low.as_py()], question.low.type))
            files = [self._file_of_location[location] for location in excluded]
            units = units[~np.isin(units // self._units_of_a_file, files)]
        return units

    def _numbered(self, answer: Any) -> Any:
        files = self._files[answer.ids.to_numpy()]
        within = answer.units.to_numpy()
        each = self._units_of_a_file
        whole = np.repeat(files[within == WHOLE], each) * each + np.tile(np.arange(each), int((within == WHOLE).sum()))
        units = files[within != WHOLE] * each + within[within != WHOLE]
        return np.sort(np.concatenate([units, whole]).astype(np.int64))

    @property
    def bytes_read(self) -> int:
        """Return the bytes that questions have read so far: commit, bindings, root, pages of units and segments."""
        return int(self._view.store.bytes_fetched)

    @property
    def bytes_stored(self) -> int:
        """Return the bytes of all files of the index."""
        return sum(path.stat().st_size for path in self._index.rglob("*") if path.is_file())

    def part_bytes(self) -> dict[str, int]:
        """Return the bytes of the files by kind, which is the name of their folder."""
        sizes: dict[str, int] = {}
        for path in self._index.rglob("*"):
            if path.is_file():
                kind = path.relative_to(self._index).parts[0]
                sizes[kind] = sizes.get(kind, 0) + path.stat().st_size
        return sizes


def ask(index: MeasuredIndex, questions: Iterable[Question]) -> dict[str, float] | None:
    """Return the mean number of units that are kept and that are needed; None without questions.

    Fail if a needed unit is not kept.
    """
    kept, needed = [], []
    for question in questions:
        units = index.kept_units(question)
        if not np.array_equal(units, question.units):
            lost = np.setdiff1d(question.units, units)
            assert not len(lost), f"units {lost} of {question.low} to {question.high} are lost"
        kept.append(len(units))
        needed.append(len(question.units))
    if not kept:
        return None
    return {"kept": statistics.fmean(kept), "optimum": statistics.fmean(needed), "questions": len(kept)}
