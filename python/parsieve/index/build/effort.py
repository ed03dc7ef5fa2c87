"""How much memory, time and disk space a build in this process may use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from parsieve import _core
from parsieve.index.scan.runs import WAITING_SHARE
from parsieve.index.scan.spill import Room

MIN_MEMORY = 1 << 20


@dataclass(frozen=True)
class Effort:
    """The resources that a build or an update may use, and the options of a Sieve index."""

    memory: int = 1 << 30
    threads: int | None = None
    # Whether to show a progress bar on standard error; None shows it on a terminal.
    progress: bool | None = None
    # Where to spill rows that exceed the memory; None is the system's temporary folder.
    spill: Path | str | None = None
    options: _core.SieveOptions | None = None

    def room(self) -> Room:
        """Return a memory budget for sorted rows."""
        check_memory(self.memory)
        return Room(int(self.memory * WAITING_SHARE), self.spill)


def check_memory(memory: int) -> None:
    """Raise `ValueError` if the memory is too small to sort rows."""
    if memory < MIN_MEMORY:
        raise ValueError(f"memory is given in bytes, at least 1 MiB, not {memory}")
