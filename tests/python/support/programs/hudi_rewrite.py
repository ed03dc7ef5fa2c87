"""Simulate a writer that rewrites `hoodie.properties`, one step each time a reader waits."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from parsieve.lake.hudi import properties as hudi_properties

# The states of the file that a reader may see: missing, empty, the first half of its lines, or all of them.
STEPS = ("missing", "empty", "half", "whole", "done")


class Rewrite:
    """The steps of `HoodieTableConfig.modify` after it wrote the backup."""

    def __init__(self, folder: str | Path, monkeypatch: pytest.MonkeyPatch, begin: str = "missing") -> None:
        self.path = Path(folder) / ".hoodie" / hudi_properties.NAME
        self.backup = self.path.with_name(hudi_properties.BACKUP)
        self.text = self.path.read_text()
        self.waits = 0
        self.step = STEPS.index(begin)
        self.path.with_name(f".{self.path.name}.crc").unlink(missing_ok=True)
        self.backup.write_text(self.text)
        self._show()
        monkeypatch.setattr(hudi_properties, "sleep", self.wait)

    def wait(self, seconds: float) -> None:
        """Count the wait and take the next step."""
        self.waits += 1
        if self.step + 1 < len(STEPS):
            self.step += 1
            self._show()

    def _show(self) -> None:
        lines = ["#Updated later", *self.text.splitlines()[1:]]
        match STEPS[self.step]:
            case "missing":
                self.path.unlink()
            case "empty":
                self.path.write_text("")
            case "half":
                self.path.write_text("\n".join(lines[: len(lines) // 2]) + "\n")
            case "whole":
                self.path.write_text("\n".join(lines) + "\n")
            case "done":
                self.backup.unlink()


class Forever(Rewrite):
    """A writer that never finishes."""

    def wait(self, seconds: float) -> None:
        """Count the wait without a step."""
        self.waits += 1


def set_backup_time(rewrite: Rewrite, changed_at: Callable[[os.stat_result], float]) -> None:
    """Set the timestamp of the backup."""
    seconds = changed_at(rewrite.backup.stat())
    os.utime(rewrite.backup, (seconds, seconds))
