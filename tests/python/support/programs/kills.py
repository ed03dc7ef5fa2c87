"""Kill processes that add filters: `python kills.py FOLDER calls|times COUNT replace|in_place`.

Each kill uses a new child process. After it, the file must have either the old or the new content, byte for byte. After
a change in place, parsieve must open the file first. The program prints how many processes it killed, and how often the
old and the new content survived.
"""

import os
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import parsieve as ps
from parsieve.io import fd, in_place, replace
from parsieve.io.in_place import change, journal

CALLS = "open write fdatasync ftruncate fsync fchown chmod utime close lseek read replace unlink stat fstat".split()


class KillingOs:
    """A replacement for the module `os` that counts calls, and kills the process before the call number `deadly`."""

    def __init__(self, deadly: int, short: bool) -> None:
        self.count = 0
        self.deadly = deadly
        self.short = short
        self.lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        if name not in CALLS:
            return function

        def call(*arguments: Any, **options: Any) -> Any:
            # Another thread copies the file.
            with self.lock:
                self.count += 1
                deadly = self.count == self.deadly
            if deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            if name == "write" and self.short and len(arguments[1]) > 1:
                arguments = (arguments[0], arguments[1][: len(arguments[1]) // 2])
            return function(*arguments, **options)

        return call


def patch_os(fake: Any) -> None:
    """Replace the module `os` in all modules that change local files."""
    for module in (fd, change, journal, replace):
        vars(module)["os"] = fake


def child(run: Callable[[], None]) -> int:
    """Run a function in a forked process, and return the process id."""
    process = os.fork()
    if process == 0:
        try:
            run()
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
    return process


def measure(path: Path, old: bytes, change_in_place: bool) -> float:
    """Return the seconds of a run without a kill."""
    path.write_bytes(old)
    begun = time.perf_counter()
    ps.add_filters(path, columns="id", in_place=change_in_place)
    return time.perf_counter() - begun


def main(folder: Path, mode: str, count: int, change_in_place: bool) -> None:
    path = folder / "t.parquet"
    old = path.read_bytes()
    ps.add_filters(path, columns="id", in_place=change_in_place)
    new = path.read_bytes()
    assert old != new
    # On a busy disk, one run can take ten times as long as another. Start with the shortest of five, and adjust the
    # window after each run.
    window = 4 * min(measure(path, old, change_in_place) for _ in range(5))
    random.seed(count)
    kills = survived_old = survived_new = 0
    deadly = rounds = 0
    while kills < count:
        path.write_bytes(old)
        deadly += 1

        def at_a_call(deadly: int = deadly, short: bool = rounds % 2 == 1) -> None:
            patch_os(KillingOs(deadly, short))
            ps.add_filters(path, columns="id", in_place=change_in_place)

        def at_a_time() -> None:
            ps.add_filters(path, columns="id", in_place=change_in_place)

        process = child(at_a_call if mode == "calls" else at_a_time)
        if mode == "times":
            select.select([], [], [], random.random() * window)
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            kills += 1
        else:
            assert os.WEXITSTATUS(status) == 0, "the child process failed without a kill"
            # The run made fewer calls than this number. Start again, with short writes in every other round.
            deadly, rounds = 0, rounds + 1
            window *= 0.9
        if change_in_place:
            # Kill the recovery too.
            while in_place.journal_path(path).exists():
                interrupted = random.randrange(1, 40)

                def undo(deadly: int = interrupted) -> None:
                    patch_os(KillingOs(deadly, False))
                    ps.open_filters(path)

                os.waitpid(child(undo), 0)
            ps.open_filters(path)
        now = path.read_bytes()
        assert now in (old, new), f"neither the old file nor the new one: {len(now)} bytes"
        survived_old += now == old
        survived_new += now == new
        if now == old:
            window *= 1.1
        for leftover in folder.iterdir():
            if leftover.name.startswith(".parsieve-"):
                assert leftover.suffix == ".tmp"
                leftover.unlink()
            else:
                is_journal = leftover.name.endswith(".parsieve-journal.tmp")
                assert leftover.name == "t.parquet" or (change_in_place and is_journal), leftover
    print(kills, survived_old, survived_new)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4] == "in_place")
