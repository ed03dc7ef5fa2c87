"""`parsieve serve`: 100 plans at the same time over 10,000 files; the time of each, and the memory of the server.

    .venv/bin/python benches/python/serve.py --save

Each plan asks for another id. The ids are spread over all files, so min/max statistics exclude no file.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import record
import requests
from pyiceberg.catalog.sql import SqlCatalog

import parsieve as ps

FILES, SMOKE_FILES = 10_000, 50
ROWS, AT_ONCE, PLANS = 20, 100, 500


def write(folder: Path, files: int) -> None:
    """Write a table whose files all have nearly the same smallest and largest id, and its index."""
    catalog = SqlCatalog("default", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", schema=pa.schema({"id": pa.int64()}))
    paths = []
    for number in range(files):
        path = folder / f"part-{number}.parquet"
        pq.write_table(pa.table({"id": range(number, files * ROWS, files)}), path)
        paths.append(path.as_uri())
    table.add_files(paths, check_duplicate_files=False)
    ps.open_table(catalog.load_table("shop.orders")).build_index("id", progress=False)
    catalog.close()


@contextmanager
def server(folder: Path) -> Iterator[tuple[str, int]]:
    """Run the server in a process, and yield its address and process ID."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "parsieve", "serve", f"sqlite:///{folder}/catalog.db", "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        uri = f"http://127.0.0.1:{port}"
        try:
            while not _answers(uri):
                assert process.poll() is None, "the server did not start"
                time.sleep(0.05)
            yield uri, process.pid
        finally:
            process.terminate()


def _answers(uri: str) -> bool:
    try:
        return requests.get(f"{uri}/health", timeout=5).ok
    except requests.ConnectionError:
        return False


def plan(uri: str, number: int) -> tuple[float, int]:
    """Plan one id. Return the seconds and the number of files."""
    started = time.perf_counter()
    body: Any = {"filter": {"type": "eq", "term": "id", "value": number}}
    response = requests.post(f"{uri}/v1/namespaces/shop/tables/orders/plan", json=body, timeout=300)
    response.raise_for_status()
    return time.perf_counter() - started, len(response.json()["file-scan-tasks"])


def peak_bytes(pid: int) -> int:
    """Return the most memory that a process has used."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024


def measure(folder: Path, files: int) -> dict[str, Any]:
    """Return the times of plans, alone and at the same time, and the memory."""
    with server(folder) as (uri, pid):
        first, _ = plan(uri, 0)
        alone = [plan(uri, number)[0] for number in range(10)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda number: plan(uri, number * 7 % (files * ROWS)), range(PLANS)))
        memory = peak_bytes(pid)
    # The index may keep a few files too many, but never loses the one with the id.
    assert all(count >= 1 for _, count in answers)
    seconds = sorted(time for time, _ in answers)
    return {
        "files": files,
        "plans": PLANS,
        "at_once": AT_ONCE,
        "first_seconds": first,
        "alone_median_seconds": statistics.median(alone),
        "median_seconds": statistics.median(seconds),
        "p99_seconds": seconds[int(len(seconds) * 0.99)],
        "peak_bytes": memory,
        "files_planned_mean": statistics.mean(count for _, count in answers),
    }


def main() -> None:
    """Measure, print, and save on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="use few files")
    parser.add_argument("--save", action="store_true", help="write a record")
    options = parser.parse_args()
    files = SMOKE_FILES if options.smoke else FILES
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), files)
        case = measure(Path(folder), files)
    for name, value in case.items():
        print(f"{name:22} {value:,.4g}")
    if options.save:
        record.save("serve", [case], ["pyarrow", "pyiceberg", "starlette", "uvicorn"])


if __name__ == "__main__":
    main()
