"""Puts damaged files to every reader, in a process whose memory is bounded.

`python tests/hostile/ask.py FOLDER NUMBER OF` takes every OF-th file of the corpus from NUMBER on and prints what went
wrong, one JSON line each, then the count of files.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import corpus
import pyarrow as pa

import parsieve as ps

# What a process may claim for one file beyond what it has: the largest file has 60 KB.
MIB = 1 << 20
BOUND = 8 * MIB
# Of its processor: how long the machine lets it wait is no file's fault.
SECONDS = 10
PROBES = {"id": 1200, "text": "text 7", "list.list.element": 3}


def memory() -> int:
    """Bytes of this process's writable memory, which the limit is about."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    return int(line.split()[1]) << 10


def limit(extra: int | None) -> None:
    """Let this process have so much memory more, or as much as it likes."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY if extra is None else memory() + extra, hard))


def steady_memory() -> None:
    """Start this program again with a malloc that gives large blocks back: what it keeps would be used unnoticed."""
    wanted = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "1"}
    if not wanted.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | wanted)


def questions(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every way in which a file of strangers is read."""
    data = path.read_bytes()

    def every_filter() -> None:
        with ps.open_filters(data) as filters:
            for place in filters.ranges():
                try:
                    filters.filter(place.row_group, place.column)
                except ps.ParsieveError:
                    continue

    def might_contain() -> list[bool]:
        with ps.open_filters(data) as filters:
            probes = {column: value for column, value in PROBES.items() if column in filters.columns}
            answer = filters.might_contain(probes)
            assert len(answer) == filters.num_row_groups
            return answer

    yield "open", lambda: ps.open_filters(data).columns
    yield "filter", every_filter
    yield "might_contain", might_contain
    # One thread: the stack of another one is as large as all that is allowed.
    yield "check", lambda: ps.check_filters(data, threads=1)
    yield "add auto", lambda: ps.add_filters(path, dry_run=True, threads=1)
    for column in PROBES:
        yield f"add {column}", lambda column=column: ps.add_filters(path, columns=column, dry_run=True, threads=1)  # type: ignore[misc]


def wrong(damaged: corpus.Damaged, folder: Path, asked: Any = questions) -> Iterator[dict[str, str]]:
    """What goes wrong with one file: a foreign exception, or an exclusion that nothing proves."""
    path = folder / "damaged.parquet"
    path.write_bytes(damaged.data)
    for name, ask in asked(path):
        said = {"file": damaged.name, "asked": name}
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        limit(BOUND)
        try:
            answer = ask()
            if name == "might_contain" and damaged.keeps:
                with ps.open_filters(damaged.data) as filters:
                    answer = filters.might_contain({"id": corpus.KEYS[0]})[0] and filters.might_contain({"id": -7})
                if answer is False:
                    yield {**said, "wrong": "a row group that holds a matching row is excluded"}
        except ps.ParsieveError:
            pass
        # Foreign bytes raise nothing else: a `MemoryError` here is a claim that was believed.
        except BaseException as error:
            yield {**said, "wrong": f"{type(error).__name__}: {error}"}
        finally:
            limit(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
    path.unlink()


def overtime(*_: object) -> None:
    raise TimeoutError(f"no answer within {SECONDS} seconds")


def main(folder: str, number: str, of: str) -> None:
    steady_memory()
    signal.signal(signal.SIGPROF, overtime)
    # What is loaded and kept at the first use is no file's fault.
    for data in corpus.sound().values():
        assert not list(wrong(corpus.Damaged("sound", data), Path(folder)))
    pa.default_memory_pool().release_unused()
    count = 0
    for damaged in islice(corpus.corpus(), int(number), None, int(of)):
        count += 1
        # If this process dies, the last line names the file.
        (Path(folder) / "asking").write_text(damaged.name)
        for finding in wrong(damaged, Path(folder)):
            print(json.dumps(finding), flush=True)
    print(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
