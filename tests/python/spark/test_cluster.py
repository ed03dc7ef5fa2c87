"""A real cluster of one machine: a master and two workers, one of which is killed while an index is built."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from index_bytes import sections

from parsieve.index import TableIndex
from parsieve.lake import open_lake
from parsieve.spark import versions
from parsieve.spark.java import choose, home_for

pyspark = pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Reads so slowly that there is time to kill somebody, and says what it began.
SLOW = """
import os, time
from pathlib import Path
from parsieve.lake.parquet_dir import ParquetDir

class Slow(ParquetDir):
    def read_keys(self, piece, columns):
        marks = Path(os.environ["MARKS"])
        (marks / f"{piece.group}.{os.getpid()}.{time.time_ns()}").touch()
        time.sleep(2)
        yield from super().read_keys(piece, columns)
"""
PROGRAM = """
import sys
import parsieve.spark as pss
from slow_lake import Slow

master, table, index, warehouse = sys.argv[1:]
spark = pss.session(lakes=[], master=master, memory="512m", warehouse=warehouse, config={
    "spark.executor.memory": "512m", "spark.executor.cores": 1, "spark.ui.showConsoleProgress": False,
    "spark.network.timeout": "60s", "spark.executor.heartbeatInterval": "5s",
})
view = pss.build_index(spark, Slow(table), ["k", "s"], index=index, parts=3, options={"max_records": 500})
print("version", view.version)
spark.stop()
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]], dict[str, str]]]:
    """A master's address, its two workers, and the environment of all."""
    known = versions.installed()
    (tmp_path / "marks").mkdir()
    (tmp_path / "slow_lake.py").write_text(SLOW)
    environment = {
        **os.environ,
        "JAVA_HOME": str(home_for(choose(known), known)),
        "PYSPARK_PYTHON": sys.executable,
        "MARKS": str(tmp_path / "marks"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    master = f"spark://127.0.0.1:{free_port()}"
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]
        log = (tmp_path / f"{len(started)}.log").open("wb")
        with log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        started.append(process)
        return process

    port = master.rpartition(":")[2]
    start("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
    worker += ["--cores", "1", "--memory", "600m"]
    workers = [start(*worker, "--work-dir", str(tmp_path / f"work{number}"), master) for number in range(2)]
    try:
        yield master, workers, environment
    finally:
        for process in started:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """A process with the executors that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def test_a_worker_is_killed_while_it_reads(
    cluster: tuple[str, list[subprocess.Popen[bytes]], dict[str, str]], tmp_path: Path
) -> None:
    master, workers, environment = cluster
    folder, where, marks = tmp_path / "t", tmp_path / "index", tmp_path / "marks"
    folder.mkdir()
    for number in range(8):
        keys = [(7 * key + number) % 3000 for key in range(1000)]
        pq.write_table(pa.table({"k": keys, "s": [f"text {key}" for key in keys]}), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1, 1))
    command = [sys.executable, "-c", PROGRAM, master, str(folder), str(where), str(tmp_path / "warehouse")]
    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + 300
        # Both executors are at work, and one of them is in the middle of a file.
        while len({mark.name.split(".")[2] for mark in marks.iterdir()}) < 2 or len(list(marks.iterdir())) < 3:
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        kill(workers[0])
        assert TableIndex.open(where) is None, "nothing is visible before the end"
        assert driver.wait(300) == 0, (tmp_path / "driver.log").read_text()
    finally:
        kill(driver)
    assert "version 1" in (tmp_path / "driver.log").read_text()
    read = [mark.name.split(".")[0] for mark in marks.iterdir()]
    assert set(read) == {str(number) for number in range(8)}
    assert len(read) > 8, "the killed worker's file was read again"
    lake = open_lake(str(folder))
    index = TableIndex(where)
    view = index.newest()
    assert view is not None
    import parsieve as ps

    options = ps._core.SieveOptions(max_records=500)
    local = TableIndex(tmp_path / "local").build(lake, lake.snapshot(), ["k", "s"], progress=False, options=options)
    for path, state in local.columns.items():
        assert sections(view.store, view.columns[path]) == sections(local.store, state)
    assert index.verify(lake, lake.snapshot()) == []
