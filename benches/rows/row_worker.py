"""Answers questions in a separate process, with the parsieve that PYTHONPATH names. Version 0.1 can run it, too.

Each line of the input is a request in JSON, and gets a line in reply. The first opens the table, and builds the index
if it names columns. Every other is a condition: the reply has the seconds of the plan and of `to_arrow`, the sums that
identify the rows, and the memory that `to_arrow` used above its answer.
"""

from __future__ import annotations

import inspect
import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import parsieve as ps

MASK = (1 << 64) - 1


def arrow_arguments() -> dict[str, Any]:
    """Return the arguments of `to_arrow` with which it uses two threads, if it can choose their number."""
    return {"threads": 2} if "threads" in inspect.signature(ps.Plan.to_arrow).parameters else {}


def sums(table: pa.Table) -> list[int]:
    """Return sums over the ids, users and times of rows, as the floors compute them."""
    if table.num_rows > 1_000_000:
        return []
    ids = (int(text[:16], 16) for text in table["request"].to_pylist())
    users = table["user"].to_pylist()
    return [sum(values) & MASK for values in (ids, users, table["ts"].cast(pa.int64()).to_pylist())]


def peak(reset: bool) -> tuple[int, int] | None:
    """Return the memory of this process and its peak since the last reset, in bytes; None if the system has no peak."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    except OSError:
        return None
    now, most = (int(lines[name].split()[0]) << 10 for name in ("VmRSS", "VmHWM"))
    return now, most


def answer(table: Any, where: str) -> dict[str, Any]:
    """Answer a question, and measure it."""
    start = time.perf_counter()
    plan = table.plan(where)
    planned = time.perf_counter()
    before = peak(reset=True)
    reading = time.perf_counter()
    rows = plan.to_arrow(**arrow_arguments())
    seconds = time.perf_counter() - reading
    after = peak(reset=False)
    return {
        "plan": planned - start,
        "rows": seconds,
        "num_rows": rows.num_rows,
        "sums": sums(rows),
        "bytes": rows.nbytes,
        "above": None if before is None or after is None else after[1] - before[0] - rows.nbytes,
    }


def main() -> None:
    """Reply to requests until the input ends."""
    opening = json.loads(sys.stdin.readline())
    table: Any = ps.open_table(opening["table"], index_location=opening["index"])
    if opening.get("columns"):
        table.build_index(opening["columns"], kind="sieve", progress=False)
    print(json.dumps({"from": ps.__file__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(table, json.loads(line)["where"])), flush=True)


if __name__ == "__main__":
    main()
