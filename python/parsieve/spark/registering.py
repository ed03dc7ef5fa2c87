"""`register`: makes `spark.read.format("parsieve")` known to a session of PySpark 4."""

from __future__ import annotations

from typing import Any

from parsieve._core import UnsupportedError
from parsieve.spark.versions import installed


def register(spark: Any) -> None:
    """Let a session, also one of Spark Connect, read tables by `spark.read.format("parsieve").load(path)`.

    Use `pss.read` wherever it works: it leaves reading to Spark. Here every row comes through Python and with all its
    columns, which is several times slower; what is gained are the files that are not opened. Those are chosen by the
    conditions that Spark hands over, from PySpark 4.1 on where `spark.sql.python.filterPushdown.enabled` is true.
    Options are `as_of` and `index_location`. Moments that plain files store as INT96 come without a zone.

    >>> import parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> pss.register(spark)  # doctest: +SKIP
    >>> spark.read.format("parsieve").load("lake/orders").where("order_id = 42").show()  # doctest: +SKIP
    """
    if installed().line < (4, 0):
        raise UnsupportedError("data sources in Python need PySpark 4.0 or newer; here pss.read does the same faster")
    from parsieve.spark.source import ParsieveSource

    spark.dataSource.register(ParsieveSource)
