"""Run on a real cluster on one machine, with a master and two workers, and kill a worker in the middle of its work."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.index_bytes import sections

import parsieve as ps
from parsieve.index import TableIndex
from parsieve.lake import open_lake
from parsieve.spark.runtime import versions
from parsieve.spark.runtime.java import choose, home_for

pyspark = pytest.importorskip("pyspark", reason="pip install 'parsieve[spark]'")
pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Five Java processes start. Steps with a deadline of their own report what they waited for.
patient = pytest.mark.timeout(2400)

# Creates a marker for each started file, with the name of the worker of this process. Each worker finishes its first
# file, and stops in its second while the test holds it.
MARKING = """
import os, time
from pathlib import Path

def began(name):
    worker = next(part for part in Path.cwd().parts if part.startswith("worker-"))
    marks = Path(os.environ["MARKS"])
    (marks / f"{name},{worker},{os.getpid()},{time.time_ns()}").touch()
    is_second = len(list(marks.glob(f"*,{worker},*"))) > 1
    while is_second and (marks.parent / "hold").exists():
        time.sleep(0.05)
"""
MARKED_READING = """
from marking import began
from parsieve.lake.folder.table import ParquetDir

class Marked(ParquetDir):
    def read_keys(self, piece, columns):
        began(piece.group)
        yield from super().read_keys(piece, columns)
"""
# A task that replaces a file is held before the new file is complete.
MARKED_ADDING = """
from marking import began
from parsieve.io.replace import Replacement
from parsieve.lake.folder.table import ParquetDir
from parsieve.lake.storage.storage import Storage

finish = Replacement.finish

def marked(replacement, *rest):
    began(replacement._target.name)
    return finish(replacement, *rest)

# An executor that unpickles this storage imports this module.
Replacement.finish = marked

class MarkedStorage(Storage):
    pass

class Marked(ParquetDir):
    def __init__(self, source):
        super().__init__(source)
        self._storage = MarkedStorage(source)
"""
SESSION = """
import sys
import parsieve.spark as pss

master, table, index, warehouse = sys.argv[1:]
spark = pss.session(lakes=[], master=master, memory="512m", warehouse=warehouse, config={
    "spark.executor.memory": "512m", "spark.executor.cores": 1, "spark.ui.showConsoleProgress": False,
    "spark.network.timeout": "60s", "spark.executor.heartbeatInterval": "5s",
})
"""
BUILDING = """
from marked_reading import Marked
SMALL = {"max_records": 500}
view = pss.build_index(spark, Marked(table), ["k", "s"], "sieve", index_location=index, parts=3, options=SMALL)
print("version", view.version)
spark.stop()
"""
ADDING = """
from marked_adding import Marked
done = pss.add_filters(spark, Marked(table), ["k", "s"], fpp=0.001).collect()
print("done", *sorted(f"{row.path.rpartition('/')[2]}:{row.status}:{row.error}" for row in done))
spark.stop()
"""


def address_in(log: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the address that the master chose. A port that the test chose might be in use when the master starts."""
    deadline = time.monotonic() + 900
    while not (found := re.search(r"Starting Spark master at (spark://\S+)", log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """The address of a master, its two workers, and their environment."""
    known = versions.installed()
    (tmp_path / "marks").mkdir()
    for name, text in {"marking": MARKING, "marked_reading": MARKED_READING, "marked_adding": MARKED_ADDING}.items():
        (tmp_path / f"{name}.py").write_text(text)
    environment = {
        **os.environ,
        "JAVA_HOME": str(home_for(choose(known), known)),
        "PYSPARK_PYTHON": sys.executable,
        "MARKS": str(tmp_path / "marks"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), *arguments]
        log = (tmp_path / f"{len(started)}.log").open("wb")
        with log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        started.append(process)
        return process

    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
    worker += ["--cores", "1", "--memory", "600m"]
    try:
        anywhere = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = address_in(tmp_path / "0.log", start("org.apache.spark.deploy.master.Master", *anywhere))
        workers = [start(*worker, "--work-dir", str(tmp_path / f"worker-{number}"), master) for number in range(2)]
        yield master, workers, environment
    finally:
        for process in started:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """A process with the executors that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(300)


Cluster = tuple[str, list[subprocess.Popen[bytes]], dict[str, str]]


def plain_table(folder: Path) -> Path:
    folder.mkdir()
    for number in range(8):
        keys = [(7 * key + number) % 3000 for key in range(1000)]
        pq.write_table(pa.table({"k": keys, "s": [f"text {key}" for key in keys]}), folder / f"{number}.parquet")
        os.utime(folder / f"{number}.parquet", (1, 1))
    return folder


class Mark(NamedTuple):
    """A file that an executor has started."""

    file: str
    worker: str
    process: int
    time: int


def marks_in(folder: Path) -> list[Mark]:
    found = [path.name.split(",") for path in folder.iterdir()]
    return [Mark(file, worker, int(process), int(time)) for file, worker, process, time in found]


def said_after_a_kill(
    cluster: Cluster, program: str, tmp_path: Path, look: Callable[[], None]
) -> tuple[str, list[Mark], str]:
    """Kill one of two workers of a program. Return its output, all started files, and the file of the killed worker.

    Both are held in the middle of their second file until one of them is dead. Otherwise, a slow machine might be
    between two files at that moment. `look` is called all the time.
    """
    master, workers, environment = cluster
    marks, log = tmp_path / "marks", tmp_path / "driver.log"
    (tmp_path / "hold").touch()
    places = [str(tmp_path / name) for name in ("t", "index", "warehouse")]
    look()
    with log.open("wb") as file:
        command = [sys.executable, "-c", SESSION + program, master, *places]
        driver = subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True)
    try:
        deadline = time.monotonic() + 900
        while Counter(mark.worker for mark in marks_in(marks)) != {"worker-0": 2, "worker-1": 2}:
            assert driver.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            look()
            time.sleep(0.05)
        dead = max((mark for mark in marks_in(marks) if mark.worker == "worker-0"), key=lambda mark: mark.time)
        kill(workers[0])
        # Spark's Python processes have a separate process group, and may outlive the worker for a moment.
        with suppress(ProcessLookupError):
            os.kill(dead.process, signal.SIGKILL)
        (tmp_path / "hold").unlink()
        while driver.poll() is None:
            assert time.monotonic() < deadline + 900, log.read_text()
            look()
            time.sleep(0.2)
        look()
        assert driver.returncode == 0, log.read_text()
    finally:
        kill(driver)
    return log.read_text(), marks_in(marks), dead.file


@patient
def test_a_worker_is_killed_while_it_reads(cluster: Cluster, tmp_path: Path) -> None:
    folder, where = plain_table(tmp_path / "t"), tmp_path / "index"
    unseen = []

    def nothing_yet() -> None:
        unseen.append(TableIndex.open(where) is None)

    said, marks, dead = said_after_a_kill(cluster, BUILDING, tmp_path, nothing_yet)
    assert "version 1" in said
    assert unseen[0]
    assert {mark.file for mark in marks} == {f"{number}.parquet" for number in range(8)}
    assert len([mark for mark in marks if mark.file == dead]) > 1, "the killed worker's file was read again"
    lake = open_lake(str(folder))
    index = TableIndex(where)
    view = index.newest()
    assert view is not None
    layouts = {path: state.layout for path, state in view.columns.items() if state.layout is not None}
    local = TableIndex(tmp_path / "local").build(
        lake, lake.snapshot(), ["k", "s"], progress=False, options={"max_records": 500}, layouts=layouts
    )
    for path, state in local.columns.items():
        assert sections(view.store, view.columns[path]) == sections(local.store, state)
    assert index.verify(lake, lake.snapshot()) == []


@patient
def test_a_worker_is_killed_while_it_adds_filters(cluster: Cluster, tmp_path: Path) -> None:
    folder = plain_table(tmp_path / "t")
    shutil.copytree(folder, tmp_path / "local")
    whole = {path.name: pq.read_table(path) for path in folder.glob("*.parquet")}
    old = {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
    for path in (tmp_path / "local").glob("*.parquet"):
        ps.add_filters(path, columns=["k", "s"], fpp=0.001)
    new = {path.name: path.read_bytes() for path in (tmp_path / "local").glob("*.parquet")}
    looks = []

    def old_or_new() -> None:
        for path in folder.glob("*.parquet"):
            data = path.read_bytes()
            assert data in (old[path.name], new[path.name])
            looks.append(data == new[path.name])

    said, marks, dead = said_after_a_kill(cluster, ADDING, tmp_path, old_or_new)
    [told] = [line for line in said.splitlines() if line.startswith("done")]
    # The earlier files of the killed worker already had filters when another worker read them.
    assert [one.split(":")[0] for one in told.split()[1:]] == sorted(whole)
    assert all(one.split(":", 1)[1] in ("added:None", "unchanged:None") for one in told.split()[1:])
    assert len([mark for mark in marks if mark.file == dead]) > 1, "the killed worker's file was begun again"
    assert not looks[0]
    assert {path.name: path.read_bytes() for path in folder.glob("*.parquet")} == new
    for path in folder.glob("*.parquet"):
        assert ps.check_filters(path) == []
        assert pq.read_table(path, partitioning=None).equals(whole[path.name])
