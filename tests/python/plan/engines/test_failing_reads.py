"""Hundreds of failing reads: each one raises an error, and none hangs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

# A reader that hangs cannot be interrupted, so it runs in a separate process.
PROGRAM = """
import sys
import duckdb
from fsspec.implementations.local import LocalFileSystem
import parsieve as ps

class Failing(LocalFileSystem):
    opened = 0
    limit = sys.maxsize

    def _open(self, *arguments, **options):
        self.opened += 1
        if self.opened > self.limit:
            raise OSError("the store is offline")
        return super()._open(*arguments, **options)

folder, failure, engine = sys.argv[1:]
failing = Failing(skip_instance_cache=True)
table = ps.open_table(folder if failure == "of another type" else (failing, folder))
errors = set()
for number in range(600 if engine == "arrow" else 50):
    failing.limit = sys.maxsize
    plan = table.plan("x IN (1, 1099511627776)" if failure == "of another type" else "s = 'b'")
    # Fail when the footer is read, or when the file is opened for its rows.
    failing.opened, failing.limit = 0, number % 2
    try:
        match engine:
            case "arrow":
                plan.to_arrow()
            case "polars":
                plan.to_polars().collect()
            case "duckdb":
                plan.to_duckdb().fetchall()
    except (ps.UnsupportedError, OSError, duckdb.Error) as error:
        assert "a file holds" in str(error) or "the store is offline" in str(error), error
        errors.add(number)
print(len(errors))
"""


@pytest.mark.parametrize("engine", ["arrow", "polars", "duckdb"])
@pytest.mark.parametrize("failure", ["of another type", "on a store that fails"])
def test_failing_reads_raise_and_never_hang(tmp_path: Path, failure: str, engine: str) -> None:
    """pyarrow's `to_reader` held the GIL while it waited for its own lock, and deadlocked after many failures."""
    pq.write_table(pa.table({"x": pa.array([1], pa.int32()), "s": ["a"]}), tmp_path / "0.parquet")
    other = pa.array([2**40], pa.int64()) if failure == "of another type" else pa.array([2], pa.int32())
    pq.write_table(pa.table({"x": other, "s": ["b"]}), tmp_path / "1.parquet")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), failure, engine]
    result = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) == (600 if engine == "arrow" else 50)
