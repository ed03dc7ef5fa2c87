"""Reading that fails, hundreds of times: each failure is told, and none waits for a lock for ever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

# A reader that waits for ever cannot be interrupted, so it has a process of its own.
PROGRAM = """
import sys
import duckdb
from fsspec.implementations.local import LocalFileSystem
import parsieve as ps

class Failing(LocalFileSystem):
    opened = 0
    most = sys.maxsize

    def _open(self, *arguments, **options):
        self.opened += 1
        if self.opened > self.most:
            raise OSError("the store is away")
        return super()._open(*arguments, **options)

folder, way, kind = sys.argv[1:]
failing = Failing(skip_instance_cache=True)
table = ps.open_table(folder if way == "of another type" else (failing, folder))
told = set()
for number in range(600 if kind == "arrow" else 50):
    failing.most = sys.maxsize
    plan = table.plan("x IN (1, 1099511627776)" if way == "of another type" else "s = 'b'")
    # When its footer is read, or the file for its rows.
    failing.opened, failing.most = 0, number % 2
    try:
        match kind:
            case "arrow":
                plan.to_arrow()
            case "polars":
                plan.to_polars().collect()
            case "duckdb":
                plan.to_duckdb().fetchall()
    except (ps.UnsupportedError, OSError, duckdb.Error) as error:
        assert "a file holds" in str(error) or "the store is away" in str(error), error
        told.add(number)
print(len(told))
"""


@pytest.mark.parametrize("kind", ["arrow", "polars", "duckdb"])
@pytest.mark.parametrize("way", ["of another type", "on a store that fails"])
def test_each_failure_comes_to_an_end(tmp_path: Path, way: str, kind: str) -> None:
    """pyarrow's `to_reader` held Python's lock while it waited for its own: some hundreds of failures ended in none."""
    pq.write_table(pa.table({"x": pa.array([1], pa.int32()), "s": ["a"]}), tmp_path / "0.parquet")
    other = pa.array([2**40], pa.int64()) if way == "of another type" else pa.array([2], pa.int32())
    pq.write_table(pa.table({"x": other, "s": ["b"]}), tmp_path / "1.parquet")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), way, kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == (600 if kind == "arrow" else 50)
