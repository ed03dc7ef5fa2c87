"""The clock jumps between all changes of a table and of its index. Plans are compared with brute force."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps

DAY = 86_400
JUMPS = [-3650 * DAY, -DAY, -3600, -1, -1e-6, 1e-6, 1, 3600, DAY, 8 * DAY, 3650 * DAY]
NUM_KEYS = 40


class JumpingClock:
    """A clock for parsieve and for the times of files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset = 0.0
        now, now_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: now() + self.offset)
        monkeypatch.setattr(time, "time_ns", lambda: now_ns() + int(self.offset * 1e9))
        self._stamped: dict[Path, int] = {}

    def stamp(self, folder: Path) -> None:
        """Give each file that is new since the last call the time on this clock."""
        for path in folder.rglob("*"):
            state = path.stat()
            if path.is_file() and self._stamped.get(path) != state.st_ino:
                written = state.st_mtime_ns + int(self.offset * 1e9)
                os.utime(path, ns=(written, written))
                self._stamped[path] = state.st_ino


class Lake:
    """A folder with rows that the test knows, and changes of it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.keys: dict[str, list[int]] = {}
        for _ in range(3):
            self.add()

    def add(self) -> None:
        self._write(f"{len(self.keys):03}-{self.random.randrange(1000):03}.parquet")

    def replace(self) -> None:
        """Write other rows with the size of the old file, and often with its times."""
        name = self.random.choice([*self.keys])
        path = self.folder / name
        before = path.stat()
        self._write(name)
        if self.random.random() < 0.5:
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def remove(self) -> None:
        if len(self.keys) > 2:
            name = self.random.choice([*self.keys])
            (self.folder / name).unlink()
            del self.keys[name]

    def _write(self, name: str) -> None:
        self.keys[name] = [self.random.randrange(NUM_KEYS) for _ in range(20)]
        # Without statistics and dictionaries, all files have the same size, and only the index can exclude one.
        table = pa.table({"key": self.keys[name]})
        pq.write_table(table, self.folder / name, write_statistics=False, use_dictionary=False, compression="none")

    def check(self, table: ps.Table) -> int:
        """Compare the plans of all keys with the rows. Return how many files they exclude."""
        excluded = 0
        for key in range(0, NUM_KEYS + 2, 3):
            plan = table.plan(f"key = {key}")
            kept = {Path(path).name for path in plan.files}
            assert {name for name, keys in self.keys.items() if key in keys} <= kept <= self.keys.keys()
            excluded += len(self.keys.keys() - kept)
        expected = sorted(key for keys in self.keys.values() for key in keys if key < 9)
        assert sorted(table.plan("key < 9").to_arrow()["key"].to_pylist()) == expected
        return excluded


@pytest.mark.filterwarnings("ignore::parsieve.ParsieveWarning")
@pytest.mark.parametrize("seed", range(3))
def test_no_jump_of_the_clock_loses_a_row(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table_folder = tmp_path / "table"
    table_folder.mkdir()
    clock, lake = JumpingClock(monkeypatch), Lake(table_folder, seed)
    table = ps.open_table(str(table_folder))
    table.build_index("key")
    changes_of_table: list[Callable[[], object]] = [lake.add, lake.replace, lake.remove]
    changes_of_index: list[Callable[[], object]] = [table.update_index, table.compact_index, table.expire_index]
    for _ in range(15):
        clock.offset += lake.random.choice(JUMPS)
        lake.random.choice([*changes_of_table, *changes_of_index])()
        clock.stamp(tmp_path)
        lake.check(table)
        lake.check(ps.open_table(str(table_folder)))
    # With the right clock, the index covers all files again.
    clock.offset = 0
    for path in table_folder.iterdir():
        os.utime(path)
    table.update_index()
    assert lake.check(table) > 0
