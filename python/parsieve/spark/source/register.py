"""`register`: add the data source `spark.read.format("parsieve")` to a session of PySpark 4.1 or newer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsieve._core import UnsupportedError
from parsieve.spark.runtime import workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session read tables with `spark.read.format("parsieve")`. Works for sessions of Spark Connect, too.

    Use `read` wherever it works: there, Spark reads the files itself. This data source moves each row through Python,
    which takes two to three times as long, but it still skips files. Only the option `where` skips files. It is SQL as
    `Table.plan` takes it, and the DataFrame contains the rows for which it is true. Later conditions on the DataFrame
    filter its rows, but skip no files.

    The other options are `as_of`, `format`, `index_location`, `storage_options` (a JSON object) and `timezone`, as for
    `open_table` and `Table.plan`. The DataFrame has all columns, unless you select some with `spark.read.schema(...)`,
    which must have the table's types. It stays at one state of the table: for Delta and Iceberg, the state at `load`;
    for plain folders and Hudi, the state at its first action. The package must be installed on Spark's driver (for
    Spark Connect, the server) and executors, and they must be able to access the table.

    >>> import parsieve.spark as pss
    >>> spark = pss.session()  # doctest: +SKIP
    >>> pss.register(spark)  # doctest: +SKIP
    >>> orders = spark.read.format("parsieve").option("where", "order_id = 42")  # doctest: +SKIP
    >>> orders.load("lake/orders").show()  # doctest: +SKIP
    """
    import pyspark

    line = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if line < (4, 1):
        raise UnsupportedError(
            f'spark.read.format("parsieve") needs PySpark 4.1 or newer, but this is {pyspark.__version__}; '
            "use pss.read, which does the same, and faster"
        )
    from parsieve.spark.source.source import ParsieveSource

    with workers.ready(spark):
        spark.dataSource.register(ParsieveSource)
