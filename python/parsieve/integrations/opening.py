"""Open the tables that users pass to the functions for engines."""

from __future__ import annotations

from typing import Any

from parsieve.lake.open import open_lake
from parsieve.plan.open_table import OpenTable


def opened_table(table: Any) -> OpenTable:
    """Return the open table of a `Table`, or open what `open_table` accepts."""
    opened = getattr(table, "opened", None)
    return opened if isinstance(opened, OpenTable) else OpenTable.of(open_lake(table))
