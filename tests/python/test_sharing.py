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
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout == "{0}\n"
