"""A Hudi table as Spark reads it, also while a writer rewrites the table's properties."""

from __future__ import annotations

from typing import Any

from parsieve.lake.hudi.properties import wait_until_settled, while_settled
from parsieve.lake.storage.storage import Storage


def load(spark: Any, folder: str, storage: Storage, instant: str | None = None) -> Any:
    """Return the whole table, now or at an instant; to Spark, a folder with empty properties holds no table.

    Spark opens the table once more when a query runs, so this also waits for the end of a rewrite.
    """
    reader = spark.read.format("hudi")
    if instant is not None:
        reader = reader.option("as.of.instant", instant)
    found = while_settled(storage, lambda: reader.load(folder))
    wait_until_settled(storage)
    return found
