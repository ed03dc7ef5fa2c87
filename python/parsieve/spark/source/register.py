"""`register`: makes `spark.read.format("parsieve")` known to a session of PySpark 4.1 or newer, or of Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsieve._core import UnsupportedError
from parsieve.spark.runtime import workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Let a session, also one of Spark Connect, read tables by `spark.read.format("parsieve")`.

    Use `read` wherever it works: it leaves reading to Spark. Here each row comes through Python, in two to three times
    the time; what is saved are the files that need not be opened. They are chosen by the option `where` alone, SQL as
    `Table.plan` takes it, and the DataFrame holds the rows for which it is true. Conditions that are put to the
    DataFrame later filter its rows as ever, and leave no file out.

    The other options are `as_of`, `format`, `index_location`, `storage_options` (a JSON object) and `timezone`, as
    `open_table` and `Table.plan` take them. All columns are read, or those of `spark.read.schema(...)`, which must have
    the table's types. A DataFrame keeps to one state of the table: of Delta and Iceberg that of `load`, of plain
    folders and Hudi that of its first action. The package must be installed where Spark's driver (the server, for
    Spark Connect) and executors run, and the table must be reachable from there.

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
            f'spark.read.format("parsieve") needs PySpark 4.1 or newer, and this is {pyspark.__version__}; '
            "pss.read does the same, and faster"
        )
    from parsieve.spark.source.source import ParsieveSource

    with workers.ready(spark):
        spark.dataSource.register(ParsieveSource)
