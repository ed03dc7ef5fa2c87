"""Threads share one table while another thread changes its files and its index. Every answer is compared with brute
force."""

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.threads import run

import parsieve as ps

NUM_FILES = 8
NUM_USERS = 60


def rows_of(number: int) -> pa.Table:
    """Return the rows of a file. The first `NUM_FILES` files share their users, and later files have other users."""
    generator = random.Random(number)
    first_user = 0 if number < NUM_FILES else 1000
    users = [first_user + generator.randrange(NUM_USERS) for _ in range(400)]
    return pa.table({"user": users, "file": [number] * 400, "name": [f"user {user} of {number}" for user in users]})


def write_file(folder: Path, number: int) -> None:
    """Write a file under another name, and rename it, so that readers never see a part of it."""
    hidden = folder / f".{number}.tmp"
    pq.write_table(rows_of(number), hidden, row_group_size=100)
    hidden.rename(folder / f"{number:03}.parquet")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(NUM_FILES):
        write_file(tmp_path, number)
    return tmp_path


def test_threads_share_a_table_while_it_grows(folder: Path) -> None:
    expected = Counter(user for number in range(NUM_FILES) for user in rows_of(number)["user"].to_pylist())
    table = ps.open_table(str(folder))
    table.build_index("user")
    table.build_index("name", kind="text")

    def read(seed: int) -> Callable[[], None]:
        generator = random.Random(seed)

        def job() -> None:
            for _ in range(12):
                user = generator.randrange(NUM_USERS + 5)
                plan = table.plan(f"user = {user}")
                assert plan.to_arrow(columns=["user"]).num_rows == plan.to_dataset().count_rows() == expected[user]
                assert table.lookup("user", [user, -1], columns=["file"]).table.num_rows == expected[user]
                assert table.plan(f"name LIKE 'user {user} %'").to_arrow().num_rows == expected[user]
                # Two threads compute the lazy attributes of one plan.
                run(plan.explain, partial(getattr, plan, "files"))

        return job

    def write() -> None:
        for number in range(NUM_FILES, NUM_FILES + 10):
            write_file(folder, number)
            if number % 2:
                table.update_index()

    run(*(read(seed) for seed in range(4)), write)
    table.update_index()
    later = Counter(user for number in range(NUM_FILES, NUM_FILES + 10) for user in rows_of(number)["user"].to_pylist())
    assert {user: table.plan(f"user = {user}").to_dataset().count_rows() for user in later} == later


def test_threads_share_a_plan(folder: Path) -> None:
    """Threads that read one plan at the same time each get all of its rows."""
    table = ps.open_table(str(folder))
    table.build_index("user")
    plan = table.plan("user BETWEEN 10 AND 12 AND file >= 2")
    tables = [rows_of(number) for number in range(2, NUM_FILES)]
    expected = sorted(name for rows in tables for name in rows["name"].to_pylist() if 10 <= int(name.split()[1]) <= 12)
    results: list[list[str]] = []
    run(*[lambda: results.append(sorted(plan.to_arrow()["name"].to_pylist()))] * 6)
    assert results == [expected] * 6
