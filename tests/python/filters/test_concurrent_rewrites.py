"""Several processes that change one file: no filters are lost without an error."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parsieve as ps
from parsieve.io import fd
from parsieve.io.sources import LocalFile

PROGRAM = """
import sys, parsieve as ps
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(sys.argv[4])):
    while True:
        try:
            ps.add_filters(sys.argv[1], columns=sys.argv[2], existing="keep", in_place=sys.argv[3] == "in_place")
            break
        except ps.ConflictError:
            pass
"""


def start(path: Path, column: str, way: str, turns: int = 1) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", PROGRAM, str(path), column, way, str(turns)]
    process = subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


@pytest.mark.parametrize("ways", [("replace", "replace"), ("in_place", "in_place"), ("replace", "in_place")])
def test_two_processes_add_both_their_filters(tmp_path: Path, ways: tuple[str, str]) -> None:
    path = tmp_path / "t.parquet"
    columns = [f"c{n}" for n in range(4)]
    table = pa.table({name: range(2000) for name in columns})
    for _ in range(4):
        pq.write_table(table, path, row_group_size=500)
        running = [start(path, name, ways[n % 2]) for n, name in enumerate(columns)]
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in running:
            _, error = process.communicate(timeout=500)
            assert process.returncode == 0, error
        found = {place.column for place in ps.open_filters(path).ranges()}
        assert found == set(columns)
        assert pq.read_table(path).equals(table)
        assert [entry.name for entry in tmp_path.iterdir()] == ["t.parquet"]


def test_a_file_that_is_replaced_during_the_checks_is_still_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": range(900)}), path)
    # As if another process had replaced the file between the two stats of `samefile`.
    monkeypatch.setattr(Path, "samefile", lambda *_: False)
    assert ps.add_filters(path, columns="a").added
    with pytest.raises(FileExistsError, match="already exists"):
        ps.add_filters(path, Path(__file__), columns="a")


def test_the_slower_of_two_rewrites_gets_a_conflict_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": range(900), "b": range(900)}), path)
    lock, met = fd.lock, threading.Barrier(2, timeout=200)
    results: list[object] = []

    def meet(source: Path, descriptor: int) -> None:
        met.wait()
        lock(source, descriptor)

    def add(column: str) -> None:
        try:
            results.append(ps.add_filters(path, columns=column).added)
        except ps.ConflictError as error:
            results.append(str(error))

    monkeypatch.setattr(fd, "lock", meet)
    threads = [threading.Thread(target=add, args=(column,)) for column in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(result, str) for result in results) == [False, True], "one fails, one succeeds"
    assert "nothing was replaced" in next(result for result in results if isinstance(result, str))
    assert len(ps.open_filters(path).ranges()) == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda source: ps.open_filters(source).might_contain({"id": 5}),
        lambda source: ps.open_filters(source).filter(0, "id"),
        ps.check_filters,
    ],
)
def test_a_file_that_is_overwritten_while_it_is_read_is_a_conflict(tmp_path: Path, use: Callable[[Any], Any]) -> None:
    path = tmp_path / "t.parquet"

    def write(**columns: range) -> None:
        pq.write_table(pa.table(columns), path, use_dictionary=False, compression="none")

    class Overwritten(LocalFile):
        """A file that another program overwrites after its footer was read."""

        reads = 0

        def read(self, start: int, end: int) -> Any:
            self.reads += 1
            if self.reads == 2:
                write(more=range(100_000), id=range(100_000), most=range(100_000))
            return super().read(start, end)

    write(id=range(100_000))
    ps.add_filters(path, columns="id")
    # Both versions have the value, but the bytes of the filter are other bytes in the new one.
    with pytest.raises(ps.ConflictError, match="was changed since it was opened"):
        use(Overwritten(path))
