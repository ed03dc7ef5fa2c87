"""Rows in other places than a warm process: an object store with a latency, a fresh process, and the memory of one."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import row_worker
from pyarrow import fs
from row_contenders import ROOT, closing, worker
from row_lakes import COLUMNS, Layout, Question

import parsieve as ps

DELAY = 0.02
FRESH, IMPORT, NOTHING = "parsieve, from import to the row", "import pyarrow", "an empty program"


class Store:
    """The remote store `benches/python/slow_store.py`, in a separate process."""

    def __init__(self, folder: Path) -> None:
        program = ROOT / "benches" / "python" / "slow_store.py"
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(folder), "--delay", str(DELAY)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = f"127.0.0.1:{int(self._process.stdout.readline())}"
        self.filesystem = fs.S3FileSystem(
            endpoint_override=self.address, scheme="http", access_key="key", secret_key="secret", region="here"
        )

    def counts(self) -> dict[str, int]:
        """Return the requests, round trips and bytes since the last call."""
        with urllib.request.urlopen(f"http://{self.address}/!counts") as answer:
            counts: dict[str, int] = json.load(answer)
            return counts

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def far(layout: Layout, folder: Path, questions: Sequence[Question]) -> dict[str, Any]:
    """Read the rows of unique ids on the remote store.

    Each question has a new table. A plan for another id reads the root of the index first, so the root is cached, and
    of the rest only what both ids share.
    """
    served = folder / "served"
    served.mkdir()
    (served / "lake").mkdir()
    for path in layout.folder.iterdir():
        os.link(path, served / "lake" / path.name)
    store = Store(served)
    try:
        # The store has other tokens for the files than the local folder, so it needs its own index.
        table = ps.open_table((store.filesystem, "b/lake"), index_location=served / "index")
        report = table.build_index(COLUMNS, kind="sieve", progress=False)
        assert not report.left_out, report.left_out
        others = [*questions[1:], questions[0]]
        results = [_far_question(store, *pair) for pair in zip(questions, others, strict=True)]
    finally:
        store.close()
    about: dict[str, Any] = {"case": "far", "layout": layout.name, "delay": DELAY, "questions": len(results)}
    for part in results[0]:
        about[part] = {
            name: round(statistics.median(result[part][name] for result in results), 4) for name in results[0][part]
        }
    return about


def _far_question(store: Store, question: Question, other: Question) -> dict[str, dict[str, float]]:
    """Return the time and the requests of both freshness checks, of a plan with both, and of its rows.

    The sum of plan and rows is without the check for new files.
    """
    table = ps.open_table((store.filesystem, "b/lake"), index_location=(store.filesystem, "b/index"))
    table.plan(other.where)
    parts: dict[str, dict[str, float]] = {}
    store.counts()
    start = time.perf_counter()
    table.opened.lake.snapshot()
    parts["new files"] = {"seconds": time.perf_counter() - start, **store.counts()}
    start = time.perf_counter()
    table.opened.index.refresh()
    parts["new index"] = {"seconds": time.perf_counter() - start, **store.counts()}
    start = time.perf_counter()
    plan = table.plan(question.where)
    parts["plan"] = {"seconds": time.perf_counter() - start, **store.counts()}
    start = time.perf_counter()
    rows = plan.to_arrow(**row_worker.arrow_arguments())
    parts["rows"] = {"seconds": time.perf_counter() - start, **store.counts()}
    assert rows.num_rows == len(question.rows), f"{rows.num_rows} rows for {question.where}"
    # Each plan starts with the checks.
    total = {name: parts["plan"][name] + parts["rows"][name] - parts["new files"][name] for name in parts["plan"]}
    return parts | {"plan and rows": total}


def memory(layout: Layout, index: Path, questions: Sequence[Question]) -> dict[str, Any]:
    """Measure the memory that `to_arrow` uses above its answer, in a process that has answered another question."""
    above: dict[str, Any] = {}
    for question in questions:
        process = worker(layout.folder, index)
        with closing(process):
            process.ask(where="request = 'no request'")
            reply = process.ask(where=question.where)
        assert reply["num_rows"] == len(question.rows), question.where[:80]
        above[question.kind] = {
            "mib_above": None if reply["above"] is None else round(reply["above"] / 2**20, 1),
            "mib": round(reply["bytes"] / 2**20, 2),
        }
    return {"case": "memory", "layout": layout.name, "answers": above}


def first_row(layout: Layout, index: Path, questions: Sequence[Question]) -> dict[str, Any]:
    """Measure a fresh process from its start to the row of a unique id, against a process that imports pyarrow."""
    opening = f"ps.open_table({str(layout.folder)!r}, index_location={str(index)!r})"
    seconds: dict[str, list[float]] = {FRESH: [], IMPORT: [], NOTHING: []}
    for number, question in enumerate([questions[0], *questions]):
        reading = f"{opening}.plan({question.where!r}).to_arrow().num_rows"
        programs = {
            FRESH: f"import parsieve as ps; print({reading})",
            IMPORT: "import pyarrow; print(1)",
            NOTHING: "print(1)",
        }
        for name, program in programs.items():
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONPATH": str(Path(ps.__file__).parents[1])},
                capture_output=True,
                text=True,
                check=True,
            )
            spent = time.perf_counter() - start
            assert int(done.stdout) == 1, f"{name}: {done.stdout}"
            if number:
                seconds[name].append(spent)
    medians = {name: round(statistics.median(spent) * 1e3, 2) for name, spent in seconds.items()}
    return {"case": "first row", "layout": layout.name, "milliseconds": medians}
