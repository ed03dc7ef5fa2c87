"""Two lakes of the same events, and questions about them whose rows are known."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).resolve().parents[1] / "index"))
import sieve_lake

PAGES, GROUPS = "page indexes", "large row groups"
COLUMNS = ["request", "user", "ts"]
ID, USER, TIME = "unique id", "one user", "two seconds of late events"
KEYS, EVERYTHING = "many random keys", "everything"
SINGLE = (ID, USER, TIME)
# 20 million rows in a day. Late events of two seconds are in about twenty of a hundred files.
MICROS_OF_A_ROW, MOST_LATE, MICROS_OF_A_QUESTION = 4_320, 2.5, 2_000_000
PARTS, GROUPS_OF_A_FILE, ROWS_OF_A_LARGE_GROUP = sieve_lake.FILES, sieve_lake.GROUPS_OF_A_FILE, 1_000_000
# A listing cannot prove that a file of the last minute is unchanged, so files are dated back.
A_DAY = 86_400
PATHS = [f"/shop/{name}/{number}" for name in ("items", "carts", "orders", "users") for number in range(500)]


def events(number: int, rows: int) -> pa.Table:
    """Return one of the hundred parts of the events. They are the same in every run."""
    table = sieve_lake.events(number, rows, MICROS_OF_A_ROW, MOST_LATE)
    random = np.random.default_rng((number, 1))
    paths = pa.DictionaryArray.from_arrays(pa.array(random.integers(0, len(PATHS), rows), pa.int32()), pa.array(PATHS))
    return (
        table.append_column("path", paths.cast(pa.string()))
        .append_column("bytes", pa.array(random.integers(0, 1 << 20, rows)))
        .append_column("seconds", pa.array(random.gamma(2, 0.05, rows)))
    )


@dataclass(frozen=True)
class Layout:
    """The files of a lake."""

    name: str
    folder: Path
    # The rows of the lake, and of each file.
    rows: int
    rows_of_a_file: int

    @classmethod
    def of(cls, name: str, folder: Path, rows: int) -> Layout:
        """Return the layout of a lake below a folder."""
        part = rows // PARTS
        parts = 1 if name == PAGES else max(1, min(PARTS // 2, ROWS_OF_A_LARGE_GROUP // part))
        return cls(name, folder / f"{name.replace(' ', '-')}-{rows}", rows, parts * part)

    @property
    def num_files(self) -> int:
        """Return the number of files."""
        return -(-self.rows // self.rows_of_a_file)

    def path(self, number: int) -> Path:
        """Return the path of a file by its number."""
        return self.folder / f"{number:05}.parquet"

    def write(self) -> int:
        """Write the lake unless it exists, and return its bytes."""
        if not self.folder.exists():
            part = self.folder.with_name(self.folder.name + "-part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            for number in range(self.num_files):
                self._write_file(number, part / self.path(number).name)
            part.rename(self.folder)
        return sum(path.stat().st_size for path in self.folder.iterdir())

    def _write_file(self, number: int, path: Path) -> None:
        size = self.rows // PARTS
        first = number * self.rows_of_a_file // size
        parts = range(first, min(PARTS, first + self.rows_of_a_file // size))
        has_pages = self.name == PAGES
        pq.write_table(
            pa.concat_tables([events(part, size) for part in parts]),
            path,
            compression="zstd",
            row_group_size=self.rows_of_a_file // GROUPS_OF_A_FILE if has_pages else self.rows_of_a_file,
            write_page_index=has_pages,
        )
        os.utime(path, (time.time() - A_DAY,) * 2)

    def all_files(self) -> list[dict[str, Any]]:
        """Return all files for the floors."""
        return [{"path": str(self.path(number))} for number in range(self.num_files)]

    def known(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return the files of some rows for the floors, with the numbers of the rows in each."""
        files: dict[int, list[int]] = {}
        for row in rows:
            files.setdefault(row // self.rows_of_a_file, []).append(row % self.rows_of_a_file)
        return [{"path": str(self.path(number)), "rows": inside} for number, inside in files.items()]


@dataclass(frozen=True)
class Question:
    """A condition, and the rows of the lake for which it is true."""

    kind: str
    where: str
    # The condition for the floors.
    predicate: dict[str, Any]
    # The numbers of the rows in ascending order.
    rows: Sequence[int]
    keys: tuple[str, ...] = ()


class Truth:
    """The users and times of all rows."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._size = rows // PARTS
        parts = [events(number, self._size).select(["user", "ts"]) for number in range(PARTS)]
        table = pa.concat_tables(parts)
        self._users = table["user"].to_numpy()
        self._times = table["ts"].cast(pa.int64()).to_numpy()
        self._random = np.random.default_rng(7)

    def questions(self, count: int, keys: int, sets: int) -> dict[str, list[Question]]:
        """Return `count` questions of each of the three kinds, `sets` of many keys, and one for everything."""
        rows = self._random.choice(self._rows, count, replace=False)
        chosen = [np.sort(self._random.choice(self._rows, keys, replace=False)) for _ in range(sets)]
        ids = self._requests(np.concatenate([rows, *chosen]))
        result = {
            ID: [
                Question(ID, f"request = '{ids[row]}'", {"request": ids[row]}, [row], (ids[row],))
                for row in rows.tolist()
            ],
            USER: [self._user(int(self._users[row])) for row in self._random.choice(self._rows, count)],
            # Many of the first events would be earlier than the lake, and have its first time.
            TIME: [self._time(row) for row in self._random.choice(np.nonzero(self._times)[0], count)],
        }
        result[KEYS] = [self._keys(some.tolist(), ids) for some in chosen]
        result[EVERYTHING] = [Question(EVERYTHING, "user > 0", {}, range(self._rows))] * sets
        return result

    def _user(self, user: int) -> Question:
        rows = np.nonzero(self._users == user)[0].tolist()
        return Question(USER, f"user = {user}", {"user": user}, rows)

    def _time(self, row: int) -> Question:
        start = int(self._times[row])
        end = start + MICROS_OF_A_QUESTION
        rows = np.nonzero((self._times >= start) & (self._times < end))[0].tolist()
        first, last = (np.datetime64(micros, "us").item().strftime("%Y-%m-%d %H:%M:%S.%f") for micros in (start, end))
        where = f"ts >= TIMESTAMP '{first}' AND ts < TIMESTAMP '{last}'"
        return Question(TIME, where, {"ts": [start, end]}, rows)

    def _keys(self, rows: list[int], ids: dict[int, str]) -> Question:
        texts = tuple(ids[row] for row in rows)
        listed = ", ".join(f"'{text}'" for text in texts)
        return Question(KEYS, f"request IN ({listed})", {}, rows, texts)

    def _requests(self, rows: np.ndarray[Any, np.dtype[np.int64]]) -> dict[int, str]:
        """Return the ids of some rows."""
        ids: dict[int, str] = {}
        for number in np.unique(rows // self._size).tolist():
            inside = np.unique(rows[rows // self._size == number] % self._size)
            texts = events(number, self._size)["request"].take(pa.array(inside)).to_pylist()
            ids |= dict(zip((inside + number * self._size).tolist(), texts, strict=True))
        return ids


def write_lance(folder: Path, rows: int) -> Any:
    """Write the events as a Lance dataset with BTREE indexes unless it exists; return it, or None without Lance."""
    try:
        import lance
    except ImportError:
        return None
    place = folder / f"lance-{rows}"
    if not place.exists():
        part = folder / f"lance-{rows}-part"
        shutil.rmtree(part, ignore_errors=True)
        schema = events(0, 1).schema

        def batches() -> Iterator[pa.RecordBatch]:
            for number in range(PARTS):
                yield from events(number, rows // PARTS).to_batches()

        reader = pa.RecordBatchReader.from_batches(schema, batches())
        sieve_lake.build_btrees(lance.write_dataset(reader, str(part), max_rows_per_file=rows // PARTS))
        part.rename(place)
    return lance.dataset(str(place))
