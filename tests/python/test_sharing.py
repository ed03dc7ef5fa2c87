"""Threads do not wait for each other's properties, and forked processes do not wait for threads that they lack."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

from parsieve import add_filters
from parsieve.sharing import Lock, cached_property

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Meeting:
    """Two objects whose property is computed only if both are computed at the same time."""

    barrier = threading.Barrier(2)

    @cached_property
    def order(self) -> int:
        """Wait for the other object."""
        return self.barrier.wait(timeout=60)


def test_two_threads_compute_a_property_of_two_objects_at_the_same_time() -> None:
    meetings = [Meeting(), Meeting()]
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(lambda one: one.order, meetings)) == [0, 1]
    # Another computation would wait forever.
    assert sorted(one.order for one in meetings) == [0, 1]
    assert Meeting.order.__doc__ == "Wait for the other object."


class Shared:
    """An object whose property two threads compute at the same time."""

    barrier = threading.Barrier(2)

    @cached_property
    def values(self) -> list[int]:
        self.barrier.wait(timeout=60)
        return []


def test_threads_that_compute_a_property_at_the_same_time_get_one_value() -> None:
    shared = Shared()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: shared.values, range(2))
    assert first is second is shared.values


@needs_fork
def test_a_lock_that_a_thread_holds_is_free_in_a_forked_process() -> None:
    lock, release = Lock(), threading.Event()
    held = threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        with lock:
            os._exit(0)
    release.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    with lock:
        pass


@needs_fork
def test_a_process_forked_while_threads_read_a_table_can_read_it(tmp_path: Path) -> None:
    for part in range(20):
        pq.write_table(pa.table({"id": range(part, 20_000, 20)}), tmp_path / f"{part:02}.parquet", row_group_size=200)
    wait_until_old(tmp_path)
    program = """
import os, sys, threading
import parsieve as ps
table = ps.open_table(sys.argv[1])
table.build_index("id")
# This imports the modules. Python itself cannot fork while a thread imports one.
table.plan("id < 500").to_arrow()
stop = threading.Event()
def work():
    while not stop.is_set():
        table.plan("id < 500").to_arrow()
threads = [threading.Thread(target=work) for _ in range(3)]
[thread.start() for thread in threads]
statuses = []
for _ in range(40):
    child = os.fork()
    if child == 0:
        os._exit(0 if table.plan("id < 500").to_arrow().num_rows == 500 else 1)
    statuses.append(os.waitpid(child, 0)[1])
stop.set()
[thread.join() for thread in threads]
print(set(statuses))
"""
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout == "{0}\n"


@needs_fork
def test_no_object_that_outlives_a_plan_has_a_lock_that_a_fork_leaves_held(tmp_path: Path) -> None:
    for part in range(4):
        ids = range(part, 2_000, 4)
        columns = {"id": ids, "text": [f"row number {row}" for row in ids], "filtered": ids}
        pq.write_table(pa.table(columns), tmp_path / f"{part}.parquet", row_group_size=200)
    add_filters(tmp_path, columns="filtered")
    wait_until_old(tmp_path)
    program = """
import gc, os, sys, threading
import parsieve as ps
table = ps.open_table(sys.argv[1])
table.build_index("id", kind="both")
table.build_index("text", kind="text")
def work():
    for where in ("id = 7", "id < 50", "text LIKE '%number 77%'", "filtered = 7"):
        assert table.plan(where).to_arrow().num_rows
work()
gc.collect()
kind = type(threading.Lock())
ours = [one for one in gc.get_objects() if str(getattr(type(one), "__module__", "")).startswith("parsieve.")]
held = [lock for one in ours for name in ("_lock", "lock") if isinstance(lock := getattr(one, name, None), kind)]
# These include the locks of `parsieve.sharing`, whose own lock has this name.
assert len(held) > 5
# No other thread runs, so the locks are free.
for lock in held:
    assert lock.acquire(timeout=300)
child = os.fork()
if child == 0:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(300)
    os._exit(thread.is_alive())
print(os.waitpid(child, 0)[1])
"""
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout == "0\n"
