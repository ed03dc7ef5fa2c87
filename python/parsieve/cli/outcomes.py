"""What `parsieve index` did, as a report: `str()` of it is for people, its fields are for programs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import parsieve as ps
from parsieve.cli.output import count, seconds

TOO_LITTLE = "no index, since one would save too little (parsieve advise shows why)"


def data_of(report: Any) -> dict[str, Any]:
    """Return the fields of a report."""
    return dataclasses.asdict(report)


@dataclasses.dataclass
class _Report:
    """What a change of an index did, where `Table` returns no report of its own."""

    text: str
    seconds: float
    columns: dict[str, str]

    def __str__(self) -> str:
        return self.text


def told(table: ps.Table, change: Callable[[ps.Table], Any]) -> Any:
    """Change the index and return the report of it.

    Methods of `Table` that return a report need nothing of this: `return change(table)` is all that stays.
    """
    before = table._index.newest()
    begun = time.perf_counter()
    result = change(table)
    elapsed = time.perf_counter() - begun
    if dataclasses.is_dataclass(result):
        return result
    kinds = table.index_kinds()
    if isinstance(result, tuple):
        versions, files = result
        text = f"deleted {count(versions, 'version')} and {count(files, 'file')}"
    elif isinstance(result, dict):
        kinds = result
        text = "\n".join(f"{name}: {TOO_LITTLE if kind == 'none' else kind}" for name, kind in result.items())
        text += f"\nbuilt in {seconds(elapsed)}" if set(result.values()) != {"none"} else ""
    else:
        after = table._index.newest()
        same = before is not None and after is not None and before.version == after.version
        text = "nothing to do" if same else f"done in {seconds(elapsed)}"
    return _Report(text, elapsed, kinds)
