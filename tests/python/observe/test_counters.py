"""`metrics()` counts plans, rows, requests and indexes of this process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.observe import counters

FILES, ROWS = 10, 100


@pytest.fixture
def table(tmp_path: Path) -> ps.Table:
    folder = tmp_path / "t"
    folder.mkdir()
    for part in range(FILES):
        ids = [row * FILES + part for row in range(ROWS)]
        pq.write_table(pa.table({"id": ids, "text": [f"text {n}" for n in ids]}), folder / f"{part}.parquet")
    return ps.open_table(folder)


def test_a_plan_and_its_rows_are_counted(table: ps.Table) -> None:
    table.build_index("id", kind="sieve", unit="file")
    before = ps.metrics()
    plan = table.plan("id = 42")
    spent = ps.metrics() - before
    assert (spent.plans, spent.files_kept, spent.files_skipped) == (1, len(plan.files), FILES - len(plan.files))
    assert spent.plan_seconds > 0
    assert (spent.requests, spent.bytes_read) == (plan.requests, plan.bytes_fetched)
    assert spent.rows_returned == 0
    assert plan.to_arrow().num_rows == 1
    spent = ps.metrics() - before
    assert (spent.plans, spent.rows_returned) == (1, 1)
    assert spent.bytes_read > plan.bytes_fetched
    assert spent.read_seconds > 0


def test_row_groups_of_judged_footers_are_counted(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "0.parquet", row_group_size=10)
    before = ps.metrics()
    ps.open_table(tmp_path).plan("id = 42", row_groups=True)
    spent = ps.metrics() - before
    assert (spent.files_kept, spent.row_groups_kept, spent.row_groups_skipped) == (1, 1, 9)


@pytest.mark.parametrize("where", ["id = 42 OR text = 'text 17'", None])
def test_every_way_to_read_rows_is_counted_once(table: ps.Table, where: str | None) -> None:
    plan = table.plan(where)
    expected = FILES * ROWS if where is None else 2
    reads: list[Callable[[], int]] = [
        lambda: int(plan.to_arrow().num_rows),
        lambda: sum(batch.num_rows for batch in plan.to_batches()),
        lambda: int(pa.table(plan).num_rows),
    ]
    for read in reads:
        before = ps.metrics()
        assert read() == expected
        assert (ps.metrics() - before).rows_returned == expected


def test_rows_are_counted_if_the_consumer_stops_early(table: ps.Table) -> None:
    before = ps.metrics()
    batches = table.plan("id >= 0").to_batches()
    first = next(batches).num_rows
    del batches
    assert (ps.metrics() - before).rows_returned >= first > 0


def test_lookups_builds_and_updates_are_counted(table: ps.Table) -> None:
    before = ps.metrics()
    table.build_index("id")
    table.update_index()
    table.update_index()
    result = table.lookup("id", [1, 2, 3000])
    spent = ps.metrics() - before
    assert (spent.index_builds, spent.index_updates, spent.plans) == (1, 2, 1)
    assert spent.rows_returned == len(result) == 2


def test_a_failed_build_is_not_counted(table: ps.Table) -> None:
    before = ps.metrics()
    with pytest.raises(ps.ColumnNotFoundError):
        table.build_index("nothing")
    assert (ps.metrics() - before).index_builds == 0


def test_threads_lose_no_counts() -> None:
    before = ps.metrics()

    def work() -> None:
        for _ in range(2_000):
            counters.add(plans=1, read_seconds=0.5)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = ps.metrics() - before
    assert (spent.plans, spent.read_seconds) == (16_000, 8_000.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_while_a_thread_counts_can_count() -> None:
    program = """
import os, threading
from parsieve.observe import counters
stop = threading.Event()
def work():
    while not stop.is_set():
        counters.add(plans=1)
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
for _ in range(50):
    child = os.fork()
    if child == 0:
        counters.add(plans=1)
        os._exit(0)
    os.waitpid(child, 0)
stop.set()
print("done")
"""
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout == "done\n"


def test_snapshots_do_not_change_and_have_text_forms() -> None:
    now = ps.metrics()
    counters.add(plans=1)
    assert ps.metrics() - now == ps.Metrics(plans=1)
    data = json.loads(now.to_json())
    assert data["plans"] == now.plans
    lines = now.to_prometheus().splitlines()
    assert len(lines) == 2 * len(data)
    for kind, sample in zip(lines[::2], lines[1::2], strict=True):
        matched = re.fullmatch(r"(parsieve_[a-z_]+_total) (\S+)", sample)
        assert matched is not None
        assert kind == f"# TYPE {matched[1]} counter"
        assert float(matched[2]) == data[matched[1].removeprefix("parsieve_").removesuffix("_total")]
