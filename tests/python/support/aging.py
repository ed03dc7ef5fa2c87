"""Wait until files are old enough to have tokens."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from parsieve.lake.storage.listing import COARSE_NS, TICK_NS


def wait_until_old(folder: Path) -> None:
    """Wait until nothing below a folder changed within the last tick of the filesystem's clock.

    A file that changed within the last tick has no token, since it may change again with the same timestamps.
    """
    while any(_is_young(path) for path in _paths(folder)):
        time.sleep(0.005)


def _paths(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder):
        yield parent
        for name in (*folders, *files):
            yield os.path.join(parent, name)  # noqa: PTH118


def _is_young(path: str) -> bool:
    try:
        facts = os.stat(path)  # noqa: PTH116
    except OSError:
        # A broken link, or a file that was removed since the folder was listed.
        return False
    changed = max(facts.st_mtime_ns, facts.st_ctime_ns)
    return changed > time.time_ns() - (COARSE_NS if changed % 1_000_000_000 == 0 else TICK_NS)
