"""A Hudi table as Spark reads it, also while a writer rewrites the table's properties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parsieve.lake.hudi_properties import wait_until_settled, while_settled
from parsieve.lake.storage import Storage


def load(spark: Any, folder: str, storage: Storage, instant: str | None = None) -> Any:
    """Return the whole table, now or at an instant; Spark takes a table with empty properties for none."""
    reader = spark.read.format("hudi")
    if instant is not None:
        reader = reader.option("as.of.instant", instant)
    return while_settled(storage, lambda: reader.load(folder))


def settling(storage: Storage) -> Callable[[Callable[[], Any]], Any]:
    """Return what calls a function that lists the table's files, again if a rewrite made it fail.

    Spark opens the table once more when it has the list, so this also waits for the end of a rewrite.
    """

    def settle(act: Callable[[], Any]) -> Any:
        found = while_settled(storage, act)
        wait_until_settled(storage)
        return found

    return settle
