"""Read damaged files with every reader, in a process with limited memory.

`python tests/hostile/read_corpus.py FOLDER START STEP` reads every STEP-th file of the corpus, beginning with file
START. It prints a JSON line for each failure, and then the number of files.
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

# The memory that a reader may allocate for one file. The largest file has 60 KB.
MIB = 1 << 20
BOUND = 8 * MIB
# The limit for one reader, in seconds of CPU time: it does not depend on the load of the machine.
SECONDS = 10
PROBES = {"id": 1200, "text": "text 7", "list.list.element": 3}


def memory() -> int:
    """Return the size of this process's writable memory, which the limit applies to, in bytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    return int(line.split()[1]) << 10


def limit(extra: int | None) -> None:
    """Limit this process to its present memory plus `extra` bytes, or remove the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY if extra is None else memory() + extra, hard))


def steady_memory() -> None:
    """Restart this program with a malloc that returns large blocks to the system.

    Otherwise a reader could use freed blocks, and the limit would not notice.
    """
    variables = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_ARENA_MAX": "1"}
    if not variables.items() <= os.environ.items():
        os.execve(sys.executable, sys.orig_argv, os.environ | variables)


def readers(path: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield a name and a function for each way to read an untrusted file."""
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
    # Use one thread: the stack of a second thread is as large as the memory limit.
    yield "check", lambda: ps.check_filters(data, threads=1)
    yield "add auto", lambda: ps.add_filters(path, dry_run=True, threads=1)
    for column in PROBES:
        yield f"add {column}", lambda column=column: ps.add_filters(path, columns=column, dry_run=True, threads=1)  # type: ignore[misc]


def wrong(damaged: corpus.Damaged, folder: Path, readers_of: Any = readers) -> Iterator[dict[str, str]]:
    """Yield the failures of one file: exceptions that are no ParsieveError, and false negatives."""
    path = folder / "damaged.parquet"
    path.write_bytes(damaged.data)
    for reader, read in readers_of(path):
        case = {"file": damaged.name, "reader": reader}
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        limit(BOUND)
        try:
            answer = read()
            if reader == "might_contain" and damaged.keeps:
                with ps.open_filters(damaged.data) as filters:
                    answer = filters.might_contain({"id": corpus.KEYS[0]})[0] and filters.might_contain({"id": -7})
                if answer is False:
                    yield {**case, "wrong": "a row group that holds a matching row is excluded"}
        except ps.ParsieveError:
            pass
        # Bad bytes must raise no other exception. A `MemoryError` means that a reader trusted a size in the file.
        except BaseException as error:
            yield {**case, "wrong": f"{type(error).__name__}: {error}"}
        finally:
            limit(None)
            signal.setitimer(signal.ITIMER_PROF, 0)
    path.unlink()


def overtime(*_: object) -> None:
    raise TimeoutError(f"no answer within {SECONDS} seconds")


def main(folder: str, start: str, step: str) -> None:
    steady_memory()
    signal.signal(signal.SIGPROF, overtime)
    # Warm up: modules and buffers that are loaded once must not count as memory of a file.
    for data in corpus.sound().values():
        assert not list(wrong(corpus.Damaged("sound", data), Path(folder)))
    pa.default_memory_pool().release_unused()
    count = 0
    for damaged in islice(corpus.corpus(), int(start), None, int(step)):
        count += 1
        # If this process dies, the last line names the file.
        (Path(folder) / "current-file").write_text(damaged.name)
        for finding in wrong(damaged, Path(folder)):
            print(json.dumps(finding), flush=True)
    print(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
